"""The eight hooks: what a run's events mean for whoever watches flows and nodes begin, wait, go on and end."""
from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from .errors import Failed, RunFailed, StepFailed
from .records import Event, RunError

Hook = Callable[..., Any]
# What to call, and with what.
Told = tuple[str, tuple[Any, ...]]


@dataclass(frozen=True)
class Flow:
    """A run, as hooks are told of it."""

    run: str
    workflow: str
    version: int
    inputs: Mapping[str, Any]


@dataclass(frozen=True)
class Node:
    """An entry of a run: its id, its path, and what it is (`script`, `parallel`, `wait` …; `value` for what is there at once)."""

    id: str
    path: str
    kind: str


@dataclass(frozen=True, kw_only=True)
class Callbacks:
    """Functions that are called as a run goes on, in the order of its events, each once. What they raise is logged and changes nothing.

    `error` is None or `{"code", "message"}`, `exception` the same as an exception.
    """

    flow_start: Hook | None = None
    """(flow)"""
    flow_end: Hook | None = None
    """(flow, result, error, exception)"""
    flow_suspend: Hook | None = None
    """(flow)"""
    flow_resume: Hook | None = None
    """(flow)"""
    node_start: Hook | None = None
    """(flow, node)"""
    node_end: Hook | None = None
    """(flow, node, result, error, exception)"""
    node_suspend: Hook | None = None
    """(flow, node)"""
    node_resume: Hook | None = None
    """(flow, node)"""

    def __post_init__(self) -> None:
        for each in fields(self):
            hook = getattr(self, each.name)
            if hook is not None and not callable(hook):
                raise TypeError(f"{each.name} must be a function, not {hook!r}")


_BEGIN = {"script_entered": "script", "parallel_entered": "parallel", "loop_entered": "loop", "call_entered": "workflow", "choice_made": "if",
          "compensate_entered": "compensate"}
_SUSPEND = {"wait_entered": "wait", "review_requested": "review"}
# Containers: what they come to is what is inside.
_THROUGH = ("region_completed", "container_completed")
_INSIDE_FAILED = ("branch_failed", "iteration_failed", "container_stopped", "entry_failed")


class Teller:
    """Turns the events of one run into calls of hooks."""

    def __init__(self) -> None:
        self._flow = Flow("", "", 0, {})
        self._open: dict[str, Node] = {}
        self._errors: dict[str, RunError] = {}
        self._suspended: dict[str, Node] = {}
        self._inbox: dict[str, list[Any]] = {}
        self._known: set[str] = set()
        self._over = False
        self._stopping = "cancelled"

    def event(self, event: Event) -> list[Told]:
        """What an event is to be told as."""
        data, path = event.data, event.path
        if path is None:
            return self._run(event.type, data)
        if ":" in path.rpartition(".")[2]:
            # attempts that find out or undo are no work of the entry
            return []
        if event.type in _BEGIN:
            return self._begin(path, _BEGIN[event.type])
        if event.type in _SUSPEND:
            return self._suspend(path, _SUSPEND[event.type])
        if event.type in _INSIDE_FAILED:
            return self._inside_failed(event.type, path, RunError.of(data["error"]))
        return self._entry(event.type, path, data)

    def _entry(self, kind: str, path: str, data: Mapping[str, Any]) -> list[Told]:
        if kind in ("attempt_succeeded", "completed"):
            return self._end(path, data.get("output"))
        if kind in ("resolved", "settled"):
            return self._end(path, data["output"]) if "output" in data else []
        if kind in ("continued", *_THROUGH):
            return self._end(path, None)
        if kind == "call_completed":
            return self._end(path, data.get("outputs"))
        if kind == "event_taken":
            waiting = self._inbox.get(data["name"], [])
            return self._end(path, waiting.pop(0) if waiting else None)
        if kind == "review_decided":
            return self._end(path, data["decision"])
        if kind == "compensate_completed":
            return self._end(path, dict(data["outcomes"]))
        if kind == "attempt_failed":
            self._errors[path] = RunError.of(data["failure"])
        elif kind == "attempt_cancelled":
            return self._end(path, None, RunError(self._stopping, "the attempt was ended", path=path))
        elif kind in ("catch_entered", "attention_needed"):
            self._errors[path] = RunError.of(data["error"])
        return []

    def _run(self, kind: str, data: Mapping[str, Any]) -> list[Told]:
        if kind == "created":
            self._flow = Flow(data["run"], data["workflow"], data["version"], data["inputs"])
            return [("flow_start", (self._flow,))]
        if kind == "event_received":
            self._inbox.setdefault(data["name"], []).append(data.get("payload"))
        elif kind == "deadline_exceeded":
            self._stopping = "deadline_exceeded"
        elif kind == "migrated":
            self._flow = Flow(self._flow.run, self._flow.workflow, data["version"], self._flow.inputs)
        elif kind == "resumed":
            self._open, self._errors, self._suspended, self._over, self._stopping = {}, {}, {}, False, "cancelled"
            return [("flow_resume", (self._flow,))]
        elif kind == "compensation_started":
            error = RunError.of(data["error"])
            return self._unseen(error) + self._end_all(error)
        elif kind == "succeeded":
            return self._end_all(None) + self._end_flow(data.get("outputs"), None)
        elif kind in ("failed", "cancelled"):
            error = RunError.of(data["error"])
            return self._unseen(error) + self._end_all(error) + self._end_flow(None, error)
        return []

    def _begin(self, path: str, kind: str) -> list[Told]:
        self._known.add(path)
        node = self._open[path] = Node(path.rpartition(".")[2].partition("[")[0], path, kind)
        return [("node_start", (self._flow, node))]

    def _suspend(self, path: str, kind: str) -> list[Told]:
        began = self._begin(path, kind)
        node = self._suspended[path] = self._open[path]
        return [*began, *self._end(path, None), ("node_suspend", (self._flow, node)), ("flow_suspend", (self._flow,))]

    def _end(self, path: str, result: Any, error: RunError | None = None) -> list[Told]:
        self._errors.pop(path, None)
        node, before = self._open.pop(path, None), list[Told]()
        if node is None and path in self._suspended:
            node = self._suspended.pop(path)
            before = [("flow_resume", (self._flow,)), ("node_resume", (self._flow, node))]
        elif node is None:
            # what has its value at once
            before = self._begin(path, "value")
            node = self._open.pop(path)
        return [*before, ("node_end", (self._flow, node, result, *_both(error, StepFailed)))]

    def _inside_failed(self, kind: str, path: str, error: RunError) -> list[Told]:
        """The innermost first, each with its own error if it has one."""
        inside = [each for each in reversed(self._open) if each != path and each.startswith((path + ".", path + "["))]
        told = self._unseen(error) if kind != "container_stopped" else []
        told += [call for each in inside if each in self._errors for call in self._end(each, None, self._errors[each])]
        if kind == "container_stopped":
            self._suspended = {each: node for each, node in self._suspended.items() if not each.startswith((path + ".", path + "["))}
        if kind == "entry_failed":
            rest = [each for each in inside if each in self._open]
            told += [call for each in (*rest, path) if each in self._open for call in self._end(each, None, error)]
        return told

    def _unseen(self, error: RunError) -> list[Told]:
        """An entry that failed before it came to anything, as `fail` does, is only in the error that it ended with."""
        if error.path is None or error.path in self._known or ":" in error.path.rpartition(".")[2]:
            return []
        return self._end(error.path, None, error)

    def _end_all(self, error: RunError | None) -> list[Told]:
        self._suspended = {}
        return [call for path in list(reversed(self._open)) for call in self._end(path, None, self._errors.get(path, error) if error else None)]

    def _end_flow(self, result: Any, error: RunError | None) -> list[Told]:
        if self._over:
            # undoing was asked for after the end
            return []
        self._over = True
        return [("flow_end", (self._flow, result, *_both(error, RunFailed)))]


def _both(error: RunError | None, kind: type[Failed]) -> tuple[dict[str, str] | None, Failed | None]:
    return (None, None) if error is None else ({"code": error.code, "message": error.message}, kind(error))
