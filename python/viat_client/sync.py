"""The client that waits for each answer."""
from __future__ import annotations

import inspect
import logging
import os
import time
from collections.abc import Iterator
from dataclasses import fields
from types import TracebackType
from typing import Any, TypeVar

import httpx

from . import calls
from .answers import answer, options
from .bound import Ask, AskOfRun, Group, List, OfRun
from .calls import Call, Duration, Inputs, Pages
from .errors import RunFailed, WaitTimeout, refusal
from .hooks import Callbacks, Teller
from .patience import Tries
from .place import find
from .records import Event, RunRecord
from .stream import SILENT_FOR, Following

T = TypeVar("T")
_log = logging.getLogger("viat_client")
# How much later than asked for a wait may notice that its time is over.
_LATE = 0.25


class Client:
    """A viat server. Used as a context manager, it closes its connections at the end.

    The server is at `url` (with a `token`), or in the folder `home` on this machine; otherwise where VIAT_URL and
    VIAT_TOKEN or VIAT_HOME say, or in ./.viat. `timeout` is for one answer, in seconds; `patience` for how long requests
    that change nothing more when they are repeated are tried again while the server is away.
    """

    def __init__(self, url: str | None = None, token: str | None = None, *, home: str | os.PathLike[str] | None = None, timeout: float = 60.0,
                 patience: float = 30.0) -> None:
        self._place, self._timeout, self._patience = find(url, token, home), timeout, patience
        transport = None if self._place.socket is None else httpx.HTTPTransport(uds=self._place.socket)
        self._http = httpx.Client(transport=transport, **options(self._place, timeout))
        self.runs = Runs(self)
        self.reviews = Reviews(self)
        self.scripts = Scripts(self)
        self.workflows = Workflows(self)

    def run(self, id: str) -> Run:
        """The handle of a run that is there already; nothing is asked yet."""
        return Run(self, id)

    def close(self) -> None:
        """Closes all connections."""
        self._http.close()
        self._place.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _ask(self, call: Call[T]) -> T:
        tries = Tries(self._patience, self._place)
        timeout = httpx.Timeout(self._timeout, read=None) if call.slow else httpx.USE_CLIENT_DEFAULT
        while True:
            try:
                response = self._http.request(call.method, call.path, params=call.query, content=call.body, headers=call.headers, timeout=timeout)
            except httpx.TransportError as error:
                delay: float | None = tries.failed(error, call.safe)
            else:
                delay = tries.answered(response, call.safe)
                if delay is None:
                    return answer(call, response)
            time.sleep(delay or 0.0)

    def _pages(self, pages: Pages[T]) -> Iterator[T]:
        cursor: str | None = None
        while True:
            items, cursor = self._ask(pages.page(cursor))
            yield from items
            if cursor is None:
                return

    def _follow(self, run: str, after: str | None, until: float | None) -> Iterator[Event]:
        """What happens to a run until it ends; WaitTimeout when the monotonic clock passes `until`."""
        following, tries = Following(after), Tries(self._patience, self._place)
        path = f"{calls.get_run(run).path}/events"
        while not following.ended:
            left = SILENT_FOR if until is None else min(SILENT_FOR, until - time.monotonic())
            if left <= 0:
                raise WaitTimeout(f"run {run} has not ended in time")
            delay: float | None = None
            try:
                with self._http.stream("GET", path, headers=following.connect(), timeout=httpx.Timeout(self._timeout, read=left)) as response:
                    if response.status_code == 204:
                        return
                    if response.status_code != 200:
                        response.read()
                        delay = tries.answered(response, True)
                        if delay is None:
                            raise refusal(response.status_code, response.content)
                    else:
                        for chunk in response.iter_raw():
                            tries.heard()
                            yield from following.feed(chunk)
                            # the time for one read is fixed when the connection is made: near the end, it is made anew
                            if following.ended or (until is not None and until - time.monotonic() < left - _LATE):
                                break
            except httpx.ReadTimeout:
                delay = 0.0
            except httpx.TransportError as error:
                delay = tries.failed(error, True)
            if not following.ended:
                time.sleep(delay or 0.0)


class Run(OfRun[Client]):
    """One run."""

    record = AskOfRun(calls.get_run)
    ledger = AskOfRun(calls.ledger)
    transitions = AskOfRun(calls.transitions)
    progress = AskOfRun(calls.progress)
    logs = AskOfRun(calls.run_logs)
    cancel = AskOfRun(calls.cancel)
    send_event = AskOfRun(calls.send_event)
    resume = AskOfRun(calls.resume)
    settle = AskOfRun(calls.settle)
    compensate = AskOfRun(calls.compensate)
    migrate = AskOfRun(calls.migrate)

    def events(self, after: str | None = None) -> Iterator[Event]:
        """What happens to the run, from its beginning or from after an event's id, until it ends; across lost connections."""
        return self._client._follow(self.id, after, None)

    def wait(self, timeout: float | None = None, *, on: Callbacks | None = None) -> RunRecord:
        """Waits for the run's end, however it ends, and gives its record. WaitTimeout after `timeout` seconds; the run goes on."""
        until = None if timeout is None else time.monotonic() + timeout
        hooks = on or Callbacks()
        _only_plain(hooks)
        teller = Teller()
        for event in self._client._follow(self.id, None, until):
            if on is not None:
                for name, args in teller.event(event):
                    _call(hooks, name, args)
        return self.record()

    def result(self, timeout: float | None = None, *, on: Callbacks | None = None) -> Any:
        """Waits for the run's end and gives its outputs; RunFailed if it did not succeed."""
        record = self.wait(timeout, on=on)
        if record.error is not None:
            raise RunFailed(record.error, record)
        return record.outputs


def _only_plain(hooks: Callbacks) -> None:
    for each in fields(hooks):
        if inspect.iscoroutinefunction(getattr(hooks, each.name)):
            raise TypeError(f"{each.name} is a coroutine function: those are for AsyncClient")


def _call(hooks: Callbacks, name: str, args: tuple[Any, ...]) -> None:
    hook = getattr(hooks, name)
    if hook is not None:
        try:
            hook(*args)
        except Exception:
            _log.exception("the hook %s raised", name)


class Runs(Group[Client]):
    """All runs."""

    get = Ask(calls.get_run)
    list = List(calls.list_runs)

    def start(self, workflow: str, inputs: Inputs | None = None, *, version: int | None = None, timeout: Duration | None = None,
              idempotency_key: str | None = None) -> Run:
        """Starts a run in the background. The same key again gives the same run; without one, a fresh key makes repeating the request safe."""
        call = calls.start(workflow, inputs, version=version, timeout=timeout, idempotency_key=idempotency_key)
        return Run(self._client, self._client._ask(call))


class Reviews(Group[Client]):
    """What runs ask people."""

    get = Ask(calls.get_review)
    list = List(calls.list_reviews)
    decide = Ask(calls.decide)
    extend = Ask(calls.extend)
    link = Ask(calls.link)


class Scripts(Group[Client]):
    """What entries run."""

    get = Ask(calls.get_script)
    list = List(calls.list_scripts)
    save = Ask(calls.save_script)
    delete = Ask(calls.delete_script)
    test = Ask(calls.test_script)
    logs = Ask(calls.script_logs)


class Workflows(Group[Client]):
    """Workflows and their versions."""

    get = Ask(calls.get_workflow)
    list = List(calls.list_workflows)
    save = Ask(calls.save_workflow)
    delete = Ask(calls.delete_workflow)
    validate = Ask(calls.validate)
    versions = List(calls.versions)
    diff = Ask(calls.diff)
    publish = Ask(calls.publish)
    test = Ask(calls.test_workflow)
