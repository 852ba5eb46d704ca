"""What is tried again, and for how long: only what changes nothing more when it is done twice."""
from __future__ import annotations

import random
import time

import httpx

from .errors import Unreachable

_FIRST, _MOST = 0.1, 2.0
# Nothing of the request was sent.
_UNSENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
# Another address will not answer better.
_HOPELESS = (httpx.UnsupportedProtocol, httpx.LocalProtocolError)
_PASSING = (502, 503, 504)


class Tries:
    """The tries of one request, or of one stream since it last heard something."""

    def __init__(self, patience: float, place: object) -> None:
        self._patience, self._place = patience, place
        self.heard()

    def heard(self) -> None:
        """The server is there."""
        self._began: float | None = None
        self._wait = _FIRST

    def delay(self, at_least: float = 0.0) -> float | None:
        """How long to wait before the next try; None: the patience is over."""
        now = time.monotonic()
        if self._began is None:
            self._began = now
        wait = max(at_least, self._wait * random.uniform(0.75, 1.25))
        self._wait = min(self._wait * 2, _MOST)
        return wait if now + wait <= self._began + self._patience else None

    def failed(self, error: httpx.TransportError, safe: bool) -> float:
        """How long to wait after an error of the connection. Raises Unreachable where trying again is over, or not safe."""
        may = (safe or isinstance(error, _UNSENT)) and not isinstance(error, _HOPELESS)
        delay = self.delay() if may else None
        if delay is None:
            known = "" if may or isinstance(error, _HOPELESS) else "; whether it was done is not known"
            raise Unreachable(f"no answer from {self._place}: {str(error) or type(error).__name__}{known}") from error
        return delay

    def answered(self, response: httpx.Response, safe: bool) -> float | None:
        """How long to wait after an answer that may be another one later; None: it is the answer."""
        if response.status_code == 429:
            # refused before anything was done
            after = response.headers.get("retry-after", "")
            return self.delay(float(after) if after.isdecimal() else 0.0)
        return self.delay() if safe and response.status_code in _PASSING else None
