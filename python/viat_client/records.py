"""What a server tells of runs, reviews, scripts and workflows. `raw` is the JSON that it sent."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

RunStatus = Literal["queued", "running", "waiting", "needs_attention", "compensating", "succeeded", "failed", "cancelled"]
Decision = Literal["approved", "rejected", "changes_requested"]
ReviewStatus = Literal["pending_review", "approved", "rejected", "changes_requested", "expired", "withdrawn"]
Language = Literal["python", "javascript", "shell", "http"]
Raw = Mapping[str, Any]


def _raw() -> Raw:
    return {}


@dataclass(frozen=True)
class Event:
    """One thing that happened to a run. `id` is its place: a stream goes on after it."""

    id: str
    type: str
    at: datetime
    data: Raw = field(repr=False)
    """All of it; what else it has depends on `type`."""

    @property
    def path(self) -> str | None:
        """The entry that it is about, if it is about one."""
        path = self.data.get("path")
        return path if isinstance(path, str) else None


@dataclass(frozen=True)
class RunError:
    """Why a run, an entry or an attempt ended badly."""

    code: str
    message: str = ""
    kind: str | None = None
    class_: str | None = None
    """What the record calls `class`."""
    step: str | None = None
    path: str | None = None
    attempt: int | None = None
    status: int | None = None
    extra: Any = None
    raw: Raw = field(default_factory=_raw, repr=False)

    @staticmethod
    def of(value: Raw) -> RunError:
        """The error that a record or an event has."""
        names = ("code", "message", "kind", "step", "path", "attempt", "status", "extra")
        return RunError(**{name: value[name] for name in names if name in value}, class_=value.get("class"), raw=value)


@dataclass(frozen=True)
class Attempt:
    """One attempt of a script entry."""

    step: str
    path: str
    attempt: int
    status: str
    code: str | None
    message: str | None
    recovered: bool
    wait_ms: int
    queued_ms: int
    started_at: datetime | None
    ended_at: datetime | None
    purpose: str | None = None
    """`resolve` or `compensate`, if it is not for the entry's own work."""
    raw: Raw = field(default_factory=_raw, repr=False)

    @property
    def class_(self) -> str | None:
        """The class of its failure: `transport`, `timeout`, `user` …"""
        found = self.raw.get("class")
        return found if isinstance(found, str) else None


@dataclass(frozen=True)
class Effect:
    """What took effect in a run, in order of completion."""

    path: str
    status: Literal["completed", "compensated", "compensation_failed", "irreversible"]
    order: int
    reason: str | None = None


@dataclass(frozen=True)
class Deferred:
    """A task that a script deferred to the run's success; `run` is what it became."""

    workflow: str
    args: Any
    run: str | None


@dataclass(frozen=True)
class AskedReview:
    """A review, as the record of its run has it."""

    id: str
    step: str
    title: str
    status: ReviewStatus
    raw: Raw = field(default_factory=_raw, repr=False)


@dataclass(frozen=True)
class RunRecord:
    """All that is known of a run."""

    id: str
    workflow: str
    version: int
    status: RunStatus
    inputs: Raw
    outputs: Any
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    deadline: datetime | None
    compensation: Literal["none", "available", "running", "complete", "partial"]
    attempts: list[Attempt]
    ledger: list[Effect]
    deferred: list[Deferred]
    reviews: list[AskedReview]
    raw: Raw = field(default_factory=_raw, repr=False)

    @property
    def ended(self) -> bool:
        """Whether nothing more happens by itself."""
        return self.status in ("succeeded", "failed", "cancelled")

    @property
    def error(self) -> RunError | None:
        """Why it ended, if not well; what it needs a person for, if it does."""
        error = self.raw.get("error")
        return RunError.of(error) if isinstance(error, Mapping) else None


@dataclass(frozen=True)
class RunItem:
    """A run, as lists have it."""

    id: str
    workflow: str
    version: int
    status: RunStatus
    error_class: str | None
    error_code: str | None
    created_at: datetime
    ended_at: datetime | None
    raw: Raw = field(default_factory=_raw, repr=False)


@dataclass(frozen=True)
class Outcome:
    """What a script or compensate entry came to."""

    path: str
    outcome: str
    raw: Raw = field(default_factory=_raw, repr=False)


@dataclass(frozen=True)
class Transition:
    """One change of state of a run, or of one of its entries (`step_name`, its path)."""

    run_id: str
    workflow_version: int
    step_name: str | None
    from_status: str | None
    to_status: str
    attempt: int | None
    error_type: str | None
    side_effect_id: str | None
    timestamp: datetime
    by: str | None = None
    reason: str | None = None


@dataclass(frozen=True)
class Said:
    """What an entry's script said last of itself."""

    path: str
    fraction: float | None
    note: str | None
    number: int


@dataclass(frozen=True)
class AttemptLog:
    """What an attempt wrote."""

    step: str
    path: str
    attempt: int
    log: str
    raw: Raw = field(default_factory=_raw, repr=False)


@dataclass(frozen=True)
class Review:
    """What a run asks a person. One that was asked for by its id also has `show`, `form` and `data`."""

    id: str
    run: str
    workflow: str | None
    step: str
    path: str
    title: str
    status: ReviewStatus
    assignees: list[str]
    due: datetime | None
    created_at: datetime
    decided_at: datetime | None
    by: str | None
    comment: str | None
    show: Any = None
    form: list[Any] | None = None
    data: Any = None
    raw: Raw = field(default_factory=_raw, repr=False)


@dataclass(frozen=True)
class Link:
    """A link with which somebody decides a review in a browser."""

    url: str
    review: str
    expires_at: datetime


@dataclass(frozen=True)
class Asset:
    """A script or a workflow, as lists have it."""

    name: str
    version: int
    hash: str
    created_at: datetime
    raw: Raw = field(default_factory=_raw, repr=False)


@dataclass(frozen=True)
class Saved:
    """A version that was saved; `raw` has what the server found out about it, such as `warnings`."""

    name: str
    version: int
    hash: str
    raw: Raw = field(default_factory=_raw, repr=False)


@dataclass(frozen=True)
class Script:
    """A version of a script."""

    name: str
    version: int
    hash: str
    language: Language
    created_at: datetime
    source: str
    signature: str
    used_by: list[str]
    raw: Raw = field(default_factory=_raw, repr=False)


@dataclass(frozen=True)
class Trial:
    """One attempt of a script, alone."""

    script: str
    status: Literal["succeeded", "failed", "cancelled"]
    value: Any
    log: str
    ran_ms: int
    raw: Raw = field(default_factory=_raw, repr=False)

    @property
    def error(self) -> RunError | None:
        """Why it failed, if it did."""
        error = self.raw.get("error")
        return RunError.of(error) if isinstance(error, Mapping) else None


@dataclass(frozen=True)
class ScriptLog:
    """What an attempt of a script wrote, in whichever run."""

    run: str
    workflow: str
    path: str
    attempt: int
    status: str
    log: str


@dataclass(frozen=True)
class Workflow:
    """A version of a workflow."""

    name: str
    version: int
    hash: str
    dialect: str
    created_at: datetime
    scripts: list[str]
    source: str
    raw: Raw = field(default_factory=_raw, repr=False)


@dataclass(frozen=True)
class Version:
    """A version of a workflow, as the list of them has it."""

    version: int
    published: bool
    created_at: datetime
    hash: str


@dataclass(frozen=True)
class Verdict:
    """What is wrong with a workflow, if anything is."""

    valid: bool
    diagnostics: list[Any]


@dataclass(frozen=True)
class Diff:
    """What changed between two versions."""

    name: str
    diff: str
    raw: Raw = field(default_factory=_raw, repr=False)
