"""Turns what `main` returned into JSON text, or says exactly which part of it is not JSON."""

# serde_json reads 128 levels; a value is embedded in records a few levels deep.
MAX_DEPTH = 100
INF = float("inf")
to_json = modules["codec"].to_json  # the loader's: the worker's modules by name


class NotJson(Exception):
    """A value, or a part of it, that JSON cannot hold as it is."""

    def __init__(self, problem):
        super().__init__(problem)
        self.problem, self.path = problem, []

    def __str__(self):
        return f"$%s: {self.problem}" % "".join(reversed(self.path))


def short(value):
    """A repr that is safe to put into a message."""
    try:
        text = repr(value)
    except Exception:
        text = "(its repr fails)"
    return text if len(text) <= 80 else text[:77] + "..."


def step(key):
    return f".{key}" if key.isidentifier() else f"[{short(key)}]"


def check(value, depth=0):
    """Raises NotJson unless the value is JSON all the way down; changes nothing."""
    kind = type(value)
    if kind is str or value is None or kind is bool:
        return
    if isinstance(value, int):
        if not -9223372036854775808 <= value <= 9223372036854775807:
            raise NotJson("an integer outside the 64-bit range" + (f": {value}" if value.bit_length() < 256 else ""))
    elif isinstance(value, float):
        if value != value or value == INF or value == -INF:
            raise NotJson(f"{value!r} is not a finite number")
    elif isinstance(value, dict):
        if depth >= MAX_DEPTH:
            raise NotJson(f"nested deeper than {MAX_DEPTH} levels")
        depth += 1
        try:
            for key, item in value.items():
                if not isinstance(key, str):
                    raise NotJson(f"a key must be a string, not {short(key)} ({type(key).__name__})")
                check(item, depth)
        except NotJson as wrong:
            if isinstance(key, str):
                wrong.path.append(step(key))
            raise
    elif isinstance(value, (list, tuple)):
        if depth >= MAX_DEPTH:
            raise NotJson(f"nested deeper than {MAX_DEPTH} levels")
        depth += 1
        at = 0
        try:
            for item in value:
                check(item, depth)
                at += 1
        except NotJson as wrong:
            wrong.path.append(f"[{at}]")
            raise
    elif not isinstance(value, str):
        raise NotJson(f"{kind.__name__} is not a JSON value: {short(value)}")


def find_surrogate(value, where="$"):
    """The path of a string that UTF-8 cannot hold."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return where
    elif isinstance(value, dict):
        for key, item in value.items():
            found = find_surrogate(key, f"{where} (a key)") or find_surrogate(item, where + ascii(step(key))[1:-1])
            if found:
                return found
    elif isinstance(value, (list, tuple)):
        for at, item in enumerate(value):
            found = find_surrogate(item, f"{where}[{at}]")
            if found:
                return found
    return None


def encode(value, limit):
    """The value as UTF-8 JSON; NotJson says what is wrong with it."""
    check(value)
    try:
        data = to_json(value).encode()
    except UnicodeEncodeError:
        wrong = NotJson("a string holds a lone surrogate, which is not text")
        wrong.path.append((find_surrogate(value) or "$")[1:])
        raise wrong from None
    if len(data) > limit:
        raise NotJson(f"the value takes {len(data)} bytes as JSON, more than the limit of {limit}")
    return data
