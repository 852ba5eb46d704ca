"""What a script may use of viat: `import viat` inside `main` and around it.

Inside a worker process this source is the module `viat`; nothing needs to be installed.
"""

__all__ = ["ResourceError", "TransportError", "ViatError", "cancel_event", "cancelled", "context", "defer", "log",
           "progress", "resource"]


class ViatError(Exception):
    """A refusal the script means: the attempt fails with class `user` and is never retried."""

    def __init__(self, status=400, code=None, message="", extra=None):
        if isinstance(status, bool) or not isinstance(status, int):
            raise TypeError(f"ViatError: status must be an integer from 400 to 599, not {status!r}")
        if not 400 <= status <= 599:
            raise ValueError(f"ViatError: status must be from 400 to 599, not {status}")
        if not isinstance(code, str):
            raise TypeError(f"ViatError: code must be a non-empty string, not {code!r}")
        if not code:
            raise ValueError("ViatError: code must not be empty")
        if not isinstance(message, str):
            raise TypeError(f"ViatError: message must be a string, not {message!r}")
        super().__init__(message)
        self.status, self.code, self.message, self.extra = status, code, message, extra
        if extra is not None:
            _bridge.check_extra(extra)

    def __str__(self):
        return f"{self.code}: {self.message}" if self.message else self.code


class TransportError(Exception):
    """The script's word that a failure is transient: class `transport`, which a retry policy may retry."""

    def __init__(self, message="", retry_after_ms=None):
        if not isinstance(message, str):
            raise TypeError(f"TransportError: message must be a string, not {message!r}")
        if retry_after_ms is not None:
            if isinstance(retry_after_ms, bool) or not isinstance(retry_after_ms, (int, float)):
                raise TypeError(f"TransportError: retry_after_ms must be a number, not {retry_after_ms!r}")
            if not 0 <= retry_after_ms < 2**53:
                raise ValueError(f"TransportError: retry_after_ms must be 0 or more, not {retry_after_ms}")
        super().__init__(message)
        self.message, self.retry_after_ms = message, retry_after_ms


class ResourceError(Exception):
    """The engine refused a resource or a deferred workflow; unhandled, the attempt fails with class `resource`."""


class _Context:
    """Where the attempt stands: run_id, workflow, version, step, path, attempt, idempotency_key, deadline, traceparent."""

    def __getattr__(self, name):
        raise AttributeError(f"viat.context has no `{name}`" + ("" if self.__dict__ else " (no attempt is running)"))

    def __repr__(self):
        return f"viat.context({', '.join(f'{k}={v!r}' for k, v in self.__dict__.items())})"


class _NoBridge:
    """Stands in for the worker where there is none, so that a script can be imported by its own tests."""

    def check_extra(self, extra):
        """Without a worker anything goes."""

    def defer(self, workflow, args):
        raise RuntimeError("viat.defer works only inside a running attempt")

    def resource(self, name, kind):
        raise RuntimeError("viat.resource works only inside a running attempt")

    def progress(self, fraction, note):
        """Without a worker nobody is listening."""

    def log(self, text):
        print(text)


_bridge = _NoBridge()
_stopping = False
context = _Context()


def __getattr__(name):
    # made on first use: `threading` costs a third of a worker's start, and few scripts want the event
    if name != "cancel_event":
        raise AttributeError(f"module 'viat' has no attribute {name!r}")
    import threading
    event = globals().setdefault("cancel_event", threading.Event())
    if _stopping:
        event.set()
    return event


def _signal(stopping):
    global _stopping
    _stopping = stopping
    event = globals().get("cancel_event")
    if event is not None:
        event.set() if stopping else event.clear()


def cancelled():
    """True once the attempt has been asked to stop: its time is up or its run is cancelled."""
    return _stopping


def defer(workflow, args=None):
    """Records a task that is submitted when the whole run succeeds; it is recorded when this returns."""
    if not isinstance(workflow, str) or not workflow:
        raise TypeError(f"viat.defer: workflow must be a name, not {workflow!r}")
    if args is None:
        args = {}
    if not isinstance(args, dict):
        raise TypeError(f"viat.defer: args must be a dict, not {type(args).__name__}")
    _bridge.defer(workflow, args)


def resource(name, kind=None):
    """Gives the value of a resource; raises ResourceError if it is missing or of another kind."""
    if not isinstance(name, str) or not name:
        raise TypeError(f"viat.resource: name must be a non-empty string, not {name!r}")
    if kind is not None and not isinstance(kind, str):
        raise TypeError(f"viat.resource: kind must be a string, not {kind!r}")
    return _bridge.resource(name, kind)


def progress(fraction=None, note=None):
    """Tells whoever watches the run how far the attempt is: a fraction from 0 to 1, a note, or both."""
    if fraction is not None:
        if isinstance(fraction, bool) or not isinstance(fraction, (int, float)) or not 0 <= fraction <= 1:
            raise ValueError(f"viat.progress: fraction must be a number from 0 to 1, not {fraction!r}")
    _bridge.progress(fraction, None if note is None else str(note))


def log(*args):
    """Writes a line to the attempt's log."""
    _bridge.log(" ".join(str(arg) for arg in args))
