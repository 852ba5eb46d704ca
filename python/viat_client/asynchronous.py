"""The client whose answers are awaited; with asyncio or trio."""
from __future__ import annotations

import inspect
import logging
import os
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from types import TracebackType
from typing import Any, TypeVar

import anyio
import httpx

from . import calls
from .answers import answer, options
from .bound import AskLater, AskOfRunLater, Group, ListLater, OfRun
from .calls import Call, Duration, Inputs, Pages
from .errors import RunFailed, WaitTimeout, refusal
from .hooks import Callbacks, Teller
from .patience import Tries
from .place import find
from .records import Event, RunRecord
from .stream import SILENT_FOR, Following

T = TypeVar("T")
_log = logging.getLogger("viat_client")


class AsyncClient:
    """As `Client`, with methods that are awaited."""

    def __init__(self, url: str | None = None, token: str | None = None, *, home: str | os.PathLike[str] | None = None, timeout: float = 60.0,
                 patience: float = 30.0) -> None:
        self._place, self._timeout, self._patience = find(url, token, home), timeout, patience
        made = options(self._place, timeout)
        # a transport of one's own has limits of its own
        transport = None if self._place.socket is None else httpx.AsyncHTTPTransport(uds=self._place.socket, limits=made["limits"])
        self._http = httpx.AsyncClient(transport=transport, **made)
        self.runs = AsyncRuns(self)
        self.reviews = AsyncReviews(self)
        self.scripts = AsyncScripts(self)
        self.workflows = AsyncWorkflows(self)

    def run(self, id: str) -> AsyncRun:
        """The handle of a run that is there already; nothing is asked yet."""
        return AsyncRun(self, id)

    async def close(self) -> None:
        """Closes all connections."""
        await self._http.aclose()
        self._place.close()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    async def _ask(self, call: Call[T]) -> T:
        tries = Tries(self._patience, self._place)
        timeout = httpx.Timeout(self._timeout, read=None) if call.slow else httpx.USE_CLIENT_DEFAULT
        while True:
            try:
                response = await self._http.request(call.method, call.path, params=call.query, content=call.body, headers=call.headers, timeout=timeout)
            except httpx.TransportError as error:
                delay: float | None = tries.failed(error, call.safe)
            else:
                delay = tries.answered(response, call.safe)
                if delay is None:
                    return answer(call, response)
            await anyio.sleep(delay or 0.0)

    async def _pages(self, pages: Pages[T]) -> AsyncIterator[T]:
        cursor: str | None = None
        while True:
            items, cursor = await self._ask(pages.page(cursor))
            for item in items:
                yield item
            if cursor is None:
                return

    async def _follow(self, run: str, after: str | None) -> AsyncGenerator[Event, None]:
        """What happens to a run until it ends."""
        following, tries = Following(after), Tries(self._patience, self._place)
        path, timeout = f"{calls.get_run(run).path}/events", httpx.Timeout(self._timeout, read=SILENT_FOR)
        while not following.ended:
            delay: float | None = None
            try:
                async with self._http.stream("GET", path, headers=following.connect(), timeout=timeout) as response:
                    if response.status_code == 204:
                        return
                    if response.status_code != 200:
                        await response.aread()
                        delay = tries.answered(response, True)
                        if delay is None:
                            raise refusal(response.status_code, response.content)
                    else:
                        async for chunk in response.aiter_raw():
                            tries.heard()
                            for event in following.feed(chunk):
                                yield event
                            if following.ended:
                                break
            except httpx.ReadTimeout:
                delay = 0.0
            except httpx.TransportError as error:
                delay = tries.failed(error, True)
            if not following.ended:
                await anyio.sleep(delay or 0.0)


class AsyncRun(OfRun[AsyncClient]):
    """One run."""

    record = AskOfRunLater(calls.get_run)
    ledger = AskOfRunLater(calls.ledger)
    transitions = AskOfRunLater(calls.transitions)
    progress = AskOfRunLater(calls.progress)
    logs = AskOfRunLater(calls.run_logs)
    cancel = AskOfRunLater(calls.cancel)
    send_event = AskOfRunLater(calls.send_event)
    resume = AskOfRunLater(calls.resume)
    settle = AskOfRunLater(calls.settle)
    compensate = AskOfRunLater(calls.compensate)
    migrate = AskOfRunLater(calls.migrate)

    def events(self, after: str | None = None) -> AsyncIterator[Event]:
        """What happens to the run, from its beginning or from after an event's id, until it ends; across lost connections."""
        return self._client._follow(self.id, after)

    async def wait(self, timeout: float | None = None, *, on: Callbacks | None = None) -> RunRecord:
        """Waits for the run's end, however it ends, and gives its record. WaitTimeout after `timeout` seconds; the run goes on."""
        with anyio.move_on_after(timeout) as scope:
            teller = Teller()
            async with aclosing(self._client._follow(self.id, None)) as events:
                async for event in events:
                    for name, args in teller.event(event) if on else []:
                        await _call(on or Callbacks(), name, args)
        if scope.cancelled_caught:
            raise WaitTimeout(f"run {self.id} has not ended in time")
        return await self.record()

    async def result(self, timeout: float | None = None, *, on: Callbacks | None = None) -> Any:
        """Waits for the run's end and gives its outputs; RunFailed if it did not succeed."""
        record = await self.wait(timeout, on=on)
        if record.error is not None:
            raise RunFailed(record.error, record)
        return record.outputs


async def _call(hooks: Callbacks, name: str, args: tuple[Any, ...]) -> None:
    hook = getattr(hooks, name)
    if hook is not None:
        try:
            called = hook(*args)
            if inspect.isawaitable(called):
                await called
        except Exception:
            _log.exception("the hook %s raised", name)


class AsyncRuns(Group[AsyncClient]):
    """All runs."""

    get = AskLater(calls.get_run)
    list = ListLater(calls.list_runs)

    async def start(self, workflow: str, inputs: Inputs | None = None, *, version: int | None = None, timeout: Duration | None = None,
                    idempotency_key: str | None = None) -> AsyncRun:
        """Starts a run in the background. The same key again gives the same run; without one, a fresh key makes repeating the request safe."""
        call = calls.start(workflow, inputs, version=version, timeout=timeout, idempotency_key=idempotency_key)
        return AsyncRun(self._client, await self._client._ask(call))


class AsyncReviews(Group[AsyncClient]):
    """What runs ask people."""

    get = AskLater(calls.get_review)
    list = ListLater(calls.list_reviews)
    decide = AskLater(calls.decide)
    extend = AskLater(calls.extend)
    link = AskLater(calls.link)


class AsyncScripts(Group[AsyncClient]):
    """What entries run."""

    get = AskLater(calls.get_script)
    list = ListLater(calls.list_scripts)
    save = AskLater(calls.save_script)
    delete = AskLater(calls.delete_script)
    test = AskLater(calls.test_script)
    logs = AskLater(calls.script_logs)


class AsyncWorkflows(Group[AsyncClient]):
    """Workflows and their versions."""

    get = AskLater(calls.get_workflow)
    list = ListLater(calls.list_workflows)
    save = AskLater(calls.save_workflow)
    delete = AskLater(calls.delete_workflow)
    validate = AskLater(calls.validate)
    versions = ListLater(calls.versions)
    diff = AskLater(calls.diff)
    publish = AskLater(calls.publish)
    test = AskLater(calls.test_workflow)
