"""A call of `calls` as a method of a client: each is written down once, and both clients have it with the same arguments."""
from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import update_wrapper
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar

from .calls import Call, Pages

P = ParamSpec("P")
T = TypeVar("T")


class Asks(Protocol):
    """What makes requests, and comes back with the answer."""

    def _ask(self, call: Call[T]) -> T: ...

    def _pages(self, pages: Pages[T]) -> Iterator[T]: ...


class AsksLater(Protocol):
    """What makes requests, and has the answer when it is awaited."""

    def _ask(self, call: Call[T]) -> Awaitable[T]: ...

    def _pages(self, pages: Pages[T]) -> AsyncIterator[T]: ...


class _Method:
    """`help` shows the call's own words, and what the method gives."""

    gives = "{}"

    def __init__(self, call: Callable[..., Any], bound: bool = False) -> None:
        self.call, self.bound, self.__doc__ = call, bound, call.__doc__

    def like(self, method: Callable[P, T]) -> Callable[P, T]:
        update_wrapper(method, self.call)
        signature = inspect.signature(self.call)
        of = str(signature.return_annotation).partition("[")[2][:-1]
        given = list(signature.parameters.values())[1 if self.bound else 0:]
        method.__signature__ = signature.replace(parameters=given, return_annotation=self.gives.format(of))  # type: ignore[attr-defined]
        return method


class Ask(_Method, Generic[P, T]):
    """A method that makes a request."""

    def __init__(self, call: Callable[P, Call[T]]) -> None:
        super().__init__(call)
        self.make = call

    def __get__(self, owner: Group[Asks], kind: object = None) -> Callable[P, T]:
        return self.like(lambda *args, **named: owner._client._ask(self.make(*args, **named)))


class List(_Method, Generic[P, T]):
    """A method that goes through a list."""

    gives = "Iterator[{}]"

    def __init__(self, call: Callable[P, Pages[T]]) -> None:
        super().__init__(call)
        self.make = call

    def __get__(self, owner: Group[Asks], kind: object = None) -> Callable[P, Iterator[T]]:
        return self.like(lambda *args, **named: owner._client._pages(self.make(*args, **named)))


class AskOfRun(_Method, Generic[P, T]):
    """A method that makes a request about the run whose handle it belongs to."""

    def __init__(self, call: Callable[Concatenate[str, P], Call[T]]) -> None:
        super().__init__(call, bound=True)
        self.make = call

    def __get__(self, owner: OfRun[Asks], kind: object = None) -> Callable[P, T]:
        return self.like(lambda *args, **named: owner._client._ask(self.make(owner.id, *args, **named)))


class AskLater(_Method, Generic[P, T]):
    """As `Ask`, to be awaited."""

    gives = "Awaitable[{}]"

    def __init__(self, call: Callable[P, Call[T]]) -> None:
        super().__init__(call)
        self.make = call

    def __get__(self, owner: Group[AsksLater], kind: object = None) -> Callable[P, Awaitable[T]]:
        return self.like(lambda *args, **named: owner._client._ask(self.make(*args, **named)))


class ListLater(_Method, Generic[P, T]):
    """As `List`, for `async for`."""

    gives = "AsyncIterator[{}]"

    def __init__(self, call: Callable[P, Pages[T]]) -> None:
        super().__init__(call)
        self.make = call

    def __get__(self, owner: Group[AsksLater], kind: object = None) -> Callable[P, AsyncIterator[T]]:
        return self.like(lambda *args, **named: owner._client._pages(self.make(*args, **named)))


class AskOfRunLater(_Method, Generic[P, T]):
    """As `AskOfRun`, to be awaited."""

    gives = "Awaitable[{}]"

    def __init__(self, call: Callable[Concatenate[str, P], Call[T]]) -> None:
        super().__init__(call, bound=True)
        self.make = call

    def __get__(self, owner: OfRun[AsksLater], kind: object = None) -> Callable[P, Awaitable[T]]:
        return self.like(lambda *args, **named: owner._client._ask(self.make(owner.id, *args, **named)))


C = TypeVar("C", covariant=True)


class Group(Generic[C]):
    """Methods of a client that belong together."""

    def __init__(self, client: C) -> None:
        self._client = client


class OfRun(Group[C]):
    """The methods of one run."""

    def __init__(self, client: C, id: str) -> None:
        super().__init__(client)
        self.id = id

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id!r})"
