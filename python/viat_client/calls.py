"""Every request that the client can make, once for both clients: what is sent, and how the answer is read."""
from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Generic, Literal, TypeVar
from urllib.parse import quote

from .records import (Asset, AttemptLog, Decision, Diff, Language, Link, Outcome, Review, ReviewStatus, RunItem, RunRecord, RunStatus, Said, Saved, Script,
                      ScriptLog, Transition, Trial, Verdict, Version, Workflow)
from .shape import read, read_list

T = TypeVar("T")
Inputs = Mapping[str, Any]
Duration = str | timedelta
"""As the language spells it (`PT30S`), or a timedelta."""
Time = str | datetime


@dataclass(frozen=True)
class Call(Generic[T]):
    """One request."""

    method: Literal["GET", "POST", "PUT", "DELETE"]
    path: str
    read: Callable[[Any], T]
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    slow: bool = False
    """Whether the answer comes when something has run."""

    @property
    def safe(self) -> bool:
        """Whether the same request again changes nothing more."""
        return self.method == "GET" or "Idempotency-Key" in self.headers


@dataclass(frozen=True)
class Pages(Generic[T]):
    """A list, which comes in pages."""

    path: str
    kind: type[T]
    query: Mapping[str, str]

    def page(self, cursor: str | None) -> Call[tuple[list[T], str | None]]:
        """The request for one page: its items, and the cursor of the next one."""
        query = {**self.query, "cursor": cursor} if cursor is not None else self.query
        return Call("GET", self.path, lambda page: (read_list(self.kind, page["items"]), page["next_cursor"]), query)


def _path(*parts: str) -> str:
    if not all(parts):
        raise ValueError("an id or a name is empty")
    return "/api/v1/" + "/".join(quote(part, safe="") for part in parts)


def _given(**values: Any) -> dict[str, Any]:
    return {name: _plain(value) for name, value in values.items() if value is not None}


def _plain(value: Any) -> Any:
    if isinstance(value, timedelta):
        return f"PT{value.total_seconds():f}".rstrip("0").rstrip(".") + "S"
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ValueError(f"{value!r} has no time zone: which moment is meant is not known")
        return value.isoformat()
    return value


def _query(**values: Any) -> dict[str, str]:
    return {name: str(value) for name, value in _given(**values).items()}


def _json(body: Any) -> bytes:
    return json.dumps(body, allow_nan=False).encode()


def _id(answer: Any) -> str:
    return str(answer["id"])


def _nothing(_: Any) -> None:
    return None


def _of(kind: type[T]) -> Callable[[Any], T]:
    return lambda answer: read(kind, answer)


def _all(kind: type[T]) -> Callable[[Any], list[T]]:
    return lambda answer: read_list(kind, answer)


# Runs.

def start(workflow: str, inputs: Inputs | None = None, *, version: int | None = None, timeout: Duration | None = None,
          idempotency_key: str | None = None) -> Call[str]:
    """Starts a run in the background. The same key again gives the same run; without one, a fresh key makes repeating the request safe."""
    body = _json({"workflow": workflow, "inputs": dict(inputs or {}), **_given(version=version, timeout=timeout)})
    return Call("POST", _path("runs"), _id, body=body, headers={"Idempotency-Key": idempotency_key or str(uuid.uuid4())})


def get_run(run: str) -> Call[RunRecord]:
    """All that is known of a run."""
    return Call("GET", _path("runs", run), _of(RunRecord))


def list_runs(*, workflow: str | None = None, status: RunStatus | None = None, error_class: str | None = None, since: Time | None = None,
              until: Time | None = None, page_size: int | None = None) -> Pages[RunItem]:
    """Runs, newest first, page after page."""
    query = _query(workflow=workflow, status=status, error_class=error_class, since=since, until=until, limit=page_size)
    return Pages(_path("runs"), RunItem, query)


def ledger(run: str) -> Call[list[Outcome]]:
    """What each script and compensate entry came to."""
    return Call("GET", _path("runs", run, "ledger"), _all(Outcome))


def transitions(run: str) -> Call[list[Transition]]:
    """Every change of state of a run and of its entries."""
    return Call("GET", _path("runs", run, "transitions"), _all(Transition))


def progress(run: str) -> Call[list[Said]]:
    """What the scripts of a run said last of themselves, while it runs."""
    return Call("GET", _path("runs", run, "progress"), _all(Said))


def run_logs(run: str, *, step: str | None = None, attempt: int | None = None) -> Call[list[AttemptLog]]:
    """What the attempts of a run wrote."""
    return Call("GET", _path("runs", run, "logs"), _all(AttemptLog), _query(step=step, attempt=attempt))


def _ask(run: str, what: str, body: Mapping[str, Any]) -> Call[None]:
    return Call("POST", _path("runs", run, what), _nothing, body=_json(body))


def cancel(run: str, *, by: str | None = None, reason: str | None = None) -> Call[None]:
    """Cancels a run; it is durable when this returns, and the run ends soon after."""
    return _ask(run, "cancel", _given(by=by, reason=reason))


def send_event(run: str, name: str, data: Any = None) -> Call[None]:
    """Sends an event to a run. It is not repeated by itself: the run would have it twice."""
    return _ask(run, "events", {"name": name, "data": data})


def resume(run: str, *, start_at: str | None = None, accept_repeat: str | None = None, by: str | None = None, reason: str | None = None) -> Call[None]:
    """Lets a failed run go on where it failed, or at an earlier entry; `accept_repeat` says why effects may be repeated."""
    return _ask(run, "resume", {**_given(accept_repeat=accept_repeat, by=by, reason=reason), **({} if start_at is None else {"from": start_at})})


_MISSING: Any = object()


def settle(run: str, step: str, *, completed: Any = _MISSING, not_done: bool = False, by: str | None = None, reason: str | None = None) -> Call[None]:
    """Says what came of an attempt whose outcome is unknown: its output (None is one), or that it was not done."""
    if (completed is _MISSING) != not_done:
        raise TypeError("settle: say either completed=OUTPUT or not_done=True")
    outcome = {"not_done": True} if not_done else {"completed": completed}
    return _ask(run, "settle", {"step": step, **outcome, **_given(by=by, reason=reason)})


def compensate(run: str, *, by: str | None = None, reason: str | None = None) -> Call[None]:
    """Undoes the effects of a run that ended badly."""
    return _ask(run, "compensate", _given(by=by, reason=reason))


def migrate(run: str, to_version: int, *, reason: str, by: str | None = None) -> Call[None]:
    """Moves a run to another version of its workflow."""
    return _ask(run, "migrate", {"to_version": to_version, "reason": reason, **_given(by=by)})


# Reviews.

def list_reviews(*, status: ReviewStatus | None = None, run: str | None = None, assignee: str | None = None,
                 page_size: int | None = None) -> Pages[Review]:
    """Reviews, newest first, page after page."""
    return Pages(_path("reviews"), Review, _query(status=status, run=run, assignee=assignee, limit=page_size))


def get_review(review: str) -> Call[Review]:
    """A review with what there is to look at, and its form."""
    return Call("GET", _path("reviews", review), _of(Review))


def decide(review: str, decision: Decision, *, by: str, comment: str | None = None, data: Inputs | None = None) -> Call[Review]:
    """Decides a review, once: whoever comes second gets a Conflict."""
    body = {"decision": decision, "by": by, **_given(comment=comment, data=data)}
    return Call("POST", _path("reviews", review, "decision"), _of(Review), body=_json(body))


def extend(review: str, *, by: str, span: Duration | None = None, until: Time | None = None, reason: str | None = None) -> Call[Review]:
    """Moves the expiry of a review: by so much, or to a time."""
    if (span is None) == (until is None):
        raise TypeError("extend: say either span=DURATION or until=TIME")
    body = {"by": by, **_given(until=until, reason=reason), **({} if span is None else {"for": _plain(span)})}
    return Call("POST", _path("reviews", review, "extension"), _of(Review), body=_json(body))


def link(review: str, *, decision: Decision | None = None, by: str | None = None, expires: Duration | None = None,
         base: str | None = None) -> Call[Link]:
    """Makes a link with which somebody decides a review in a browser."""
    return Call("POST", _path("reviews", review, "links"), _of(Link), body=_json(_given(decision=decision, by=by, expires=expires, base=base)))


# Scripts and workflows.

def _condition(if_version: int | None, if_absent: bool) -> dict[str, str]:
    if if_version is not None and if_absent:
        raise TypeError("say either if_version or if_absent")
    return {"If-None-Match": "*"} if if_absent else {} if if_version is None else {"If-Match": f'"{if_version}"'}


def list_scripts(*, page_size: int | None = None) -> Pages[Asset]:
    """Scripts, newest first, page after page."""
    return Pages(_path("scripts"), Asset, _query(limit=page_size))


def get_script(name: str, *, version: int | None = None) -> Call[Script]:
    """A script."""
    return Call("GET", _path("scripts", name), _of(Script), _query(version=version))


def save_script(name: str, source: str, *, language: Language = "python", file: str | None = None, if_version: int | None = None,
                if_absent: bool = False) -> Call[Saved]:
    """Saves a script as a new version; only if the newest is `if_version`, or if there is none."""
    body = {"language": language, "source": source, **_given(file=file)}
    return Call("PUT", _path("scripts", name), _of(Saved), body=_json(body), headers=_condition(if_version, if_absent))


def delete_script(name: str) -> Call[None]:
    """Deletes a script that no workflow uses."""
    return Call("DELETE", _path("scripts", name), _nothing)


def test_script(name: str, args: Inputs | None = None, *, version: int | None = None, timeout: Duration | None = None) -> Call[Trial]:
    """Makes one attempt of a script, alone, and waits for its end."""
    body = {"args": dict(args or {}), **_given(version=version, timeout=timeout)}
    return Call("POST", _path("scripts", name, "test"), _of(Trial), body=_json(body), slow=True)


def script_logs(name: str, *, limit: int | None = None) -> Call[list[ScriptLog]]:
    """What a script's newest attempts wrote."""
    return Call("GET", _path("scripts", name, "logs"), _all(ScriptLog), _query(limit=limit))


def list_workflows(*, page_size: int | None = None) -> Pages[Asset]:
    """Workflows, newest first, page after page."""
    return Pages(_path("workflows"), Asset, _query(limit=page_size))


def get_workflow(name: str, *, version: int | None = None) -> Call[Workflow]:
    """A workflow."""
    return Call("GET", _path("workflows", name), _of(Workflow), _query(version=version))


def save_workflow(name: str, source: str, *, file: str | None = None, if_version: int | None = None, if_absent: bool = False) -> Call[Saved]:
    """Saves a workflow as a new version, which is not published by that."""
    body = {"source": source, **_given(file=file)}
    return Call("PUT", _path("workflows", name), _of(Saved), body=_json(body), headers=_condition(if_version, if_absent))


def delete_workflow(name: str) -> Call[None]:
    """Deletes a workflow that nothing uses."""
    return Call("DELETE", _path("workflows", name), _nothing)


def validate(source: str, *, file: str | None = None) -> Call[Verdict]:
    """Checks a workflow without saving it."""
    return Call("POST", _path("validate"), _of(Verdict), body=_json({"source": source, **_given(file=file)}))


def versions(name: str, *, page_size: int | None = None) -> Pages[Version]:
    """A workflow's versions, newest first, page after page."""
    return Pages(_path("workflows", name, "versions"), Version, _query(limit=page_size))


def diff(name: str, *, older: int | None = None, newer: int | None = None) -> Call[Diff]:
    """What changed between two versions; between the newest two, if they are not given."""
    return Call("GET", _path("workflows", name, "diff"), _of(Diff), _query(**{"from": older, "to": newer}))


def publish(name: str, *, version: int | None = None) -> Call[int]:
    """Publishes a version, the newest if none is given; gives its number."""
    return Call("POST", _path("workflows", name, "publish"), lambda answer: int(answer["published"]), body=_json(_given(version=version)))


def test_workflow(name: str, inputs: Inputs | None = None, *, timeout: Duration | None = None, fast_forward: bool = False, decide: list[str] | None = None,
                  mock: list[str] | None = None, inject: list[str] | None = None) -> Call[RunRecord]:
    """Runs the draft and waits for its end; `decide`, `mock` and `inject` are written as for `viat workflow test`."""
    given = _given(timeout=timeout, decide=decide, mock=mock, inject=inject)
    body = {"inputs": dict(inputs or {}), "fast_forward": fast_forward, **given}
    return Call("POST", _path("workflows", name, "test"), _of(RunRecord), body=_json(body), slow=True)
