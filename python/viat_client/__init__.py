"""A client of a viat server: starts runs, waits for them, hears what happens to them, decides reviews.

`Client` waits for each answer, `AsyncClient` is awaited; both have the same methods. Scripts do not need it: what they
import is the module `viat`.
"""
from .asynchronous import AsyncClient, AsyncRun
from .errors import (BadAnswer, BadRequest, Conflict, Error, Failed, Forbidden, Invalid, NotFound, PreconditionFailed, Problem, Refused, RunFailed,
                     ServerFailed, StepFailed, TooLarge, TooManyRequests, Unauthorized, Unreachable, WaitTimeout)
from .hooks import Callbacks, Flow, Node
from .records import (Asset, Attempt, AttemptLog, Deferred, Diff, Effect, Event, Link, Outcome, Review, RunError, RunItem, RunRecord, Said, Saved, Script,
                      ScriptLog, Transition, Trial, Verdict, Version, Workflow)
from .sync import Client, Run

__all__ = [
    "Asset", "AsyncClient", "AsyncRun", "Attempt", "AttemptLog", "BadAnswer", "BadRequest", "Callbacks", "Client", "Conflict", "Deferred", "Diff", "Effect",
    "Error", "Event", "Failed", "Flow", "Forbidden", "Invalid", "Link", "Node", "NotFound", "Outcome", "PreconditionFailed", "Problem", "Refused", "Review",
    "Run", "RunError", "RunFailed", "RunItem", "RunRecord", "Said", "Saved", "Script", "ScriptLog", "ServerFailed", "StepFailed", "TooLarge",
    "TooManyRequests", "Transition", "Trial", "Unauthorized", "Unreachable", "Verdict", "Version", "WaitTimeout", "Workflow",
]
