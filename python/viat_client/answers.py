"""What both clients make of connections and answers."""
from __future__ import annotations

from typing import Any, TypeVar

import httpx

from .calls import Call
from .errors import BadAnswer, refusal
from .place import Place

T = TypeVar("T")


def options(place: Place, timeout: float) -> dict[str, Any]:
    """How connections are made. Each stream has one of its own, so their number is not bounded."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=20)
    return {"base_url": place.base_url, "headers": {**place.headers, "Content-Type": "application/json", "User-Agent": "viat-client"},
            "timeout": httpx.Timeout(timeout), "limits": limits}


def answer(call: Call[T], response: httpx.Response) -> T:
    """What a request came to."""
    if not response.is_success:
        raise refusal(response.status_code, response.content)
    try:
        return call.read(response.json())
    except (ValueError, KeyError, TypeError) as error:
        raise BadAnswer(f"this is no answer of a viat server to {call.method} {call.path}: {response.content[:200]!r}") from error
