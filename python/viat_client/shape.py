"""JSON into dataclasses: times become datetimes, what is not known yet stays in `raw`."""
from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, TypeVar

from .errors import BadAnswer

T = TypeVar("T")
Reader = Callable[[Any], Any]


def read(kind: type[T], value: Any) -> T:
    """An instance of a dataclass from a JSON object. A newer server's fields are in `raw`, if the class has that."""
    if not isinstance(value, Mapping):
        raise BadAnswer(f"an object was expected for {kind.__name__}, not {value!r:.100}")
    given: dict[str, Any] = {}
    for name, (reader, needed) in _fields(kind).items():
        if name == "raw":
            given[name] = value
        elif name in value:
            given[name] = reader(value[name])
        elif needed:
            raise BadAnswer(f"the server's answer has no `{name}`, which {kind.__name__} needs")
    return kind(**given)


def read_list(kind: type[T], value: Any) -> list[T]:
    """Instances of a dataclass from a JSON array."""
    if not isinstance(value, list):
        raise BadAnswer(f"a list of {kind.__name__} was expected, not {value!r:.100}")
    return [read(kind, each) for each in value]


_KNOWN: dict[type[Any], dict[str, tuple[Reader, bool]]] = {}


def _fields(kind: Any) -> dict[str, tuple[Reader, bool]]:
    """How each field is read, and whether it must be there."""
    if kind in _KNOWN:
        return _KNOWN[kind]
    hints, found = typing.get_type_hints(kind), {}
    for each in dataclasses.fields(kind):
        needed = each.default is dataclasses.MISSING and each.default_factory is dataclasses.MISSING
        found[each.name] = (_reader(hints[each.name]), needed)
    _KNOWN[kind] = found
    return found


def _reader(hint: Any) -> Reader:
    """How a value of this type is made of JSON."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        of, = [each for each in inner if each is not type(None)]
        plain = _reader(of)
        return lambda value: None if value is None else plain(value)
    if origin is list and dataclasses.is_dataclass(inner[0]):
        return lambda value: read_list(inner[0], value)
    if hint is datetime:
        return _time
    if dataclasses.is_dataclass(hint):
        return lambda value: read(typing.cast("type[Any]", hint), value)
    return lambda value: value


def _time(value: Any) -> datetime:
    try:
        return datetime.fromisoformat(value.replace("Z", "+00:00"))
    except (AttributeError, ValueError) as error:
        raise BadAnswer(f"a time was expected, not {value!r:.100}") from error
