"""What can go wrong: a server that is out of reach, a refusal, a time that is over, a run that ended badly."""
from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .records import RunError, RunRecord


class Error(Exception):
    """All errors of this package."""


class Unreachable(Error):
    """The server could not be reached, or went away, for longer than the client is patient."""


class BadAnswer(Error):
    """What answered does not answer as a viat server does."""


class WaitTimeout(Error, TimeoutError):
    """What was waited for did not happen in time; the run goes on."""


@dataclass(frozen=True)
class Problem:
    """What a server says of a request that it refuses (RFC 9457)."""

    status: int
    title: str
    detail: str
    help: str | None = None
    type: str = "about:blank"
    run: str | None = None
    """The run that it is about, where there is one."""
    diagnostics: list[Any] | None = None
    """What is wrong with a document, as commands print it with `--json`."""
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False)


class Refused(Error):
    """The server refused a request; `problem` says why."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.detail + (f" ({problem.help})" if problem.help else ""))
        self.problem = problem

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self.problem.status


class BadRequest(Refused):
    """400: the request is not one."""


class Unauthorized(Refused):
    """401: no token, or one that is unknown, expired or revoked."""


class Forbidden(Refused):
    """403: the token's scopes do not permit this."""


class NotFound(Refused):
    """404: it is not there."""


class Conflict(Refused):
    """409: it is there, and in its state this cannot be done; or the key was used for something else."""


class PreconditionFailed(Refused):
    """412: somebody else has saved another version."""


class TooLarge(Refused):
    """413: the body is larger than the server takes."""


class Invalid(Refused):
    """422: what was sent does not fit."""


class TooManyRequests(Refused):
    """429: too many requests, for longer than the client is patient."""


class ServerFailed(Refused):
    """500 and above: the server could not do what it was asked to."""


_KINDS: dict[int, type[Refused]] = {
    400: BadRequest, 401: Unauthorized, 403: Forbidden, 404: NotFound, 409: Conflict, 412: PreconditionFailed, 413: TooLarge, 422: Invalid,
    429: TooManyRequests,
}


def refusal(status: int, body: bytes) -> Refused:
    """The error for an answer that is none of the good ones."""
    try:
        raw = json.loads(body)
    except ValueError:
        raw = None
    if not isinstance(raw, dict):
        # a proxy may answer for the server
        raw = {"title": "no problem document", "detail": f"the server answered {status}: {body[:200].decode('utf-8', 'replace')}"}

    def text(name: str) -> str | None:
        value = raw.get(name)
        return value if isinstance(value, str) else None

    diagnostics = raw.get("diagnostics")
    problem = Problem(status=status, title=text("title") or "", detail=text("detail") or f"the server answered {status}", help=text("help"),
                      type=text("type") or "about:blank", run=text("run"), diagnostics=diagnostics if isinstance(diagnostics, list) else None, raw=raw)
    kind = _KINDS.get(status, ServerFailed if status >= 500 else Refused)
    return kind(problem)


class Failed(Error):
    """Something of a run ended badly; `error` says how."""

    def __init__(self, error: RunError) -> None:
        super().__init__(f"{error.code}: {error.message}" if error.message else error.code)
        self.error = error


class StepFailed(Failed):
    """An entry of a run ended badly."""


class RunFailed(Failed):
    """A run failed or was cancelled; `record` is what is known of it, where it was asked for."""

    def __init__(self, error: RunError, record: RunRecord | None = None) -> None:
        super().__init__(error)
        self.record = record
