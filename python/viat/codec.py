"""JSON to and from text, without the start-up cost of the `json` module (most of it is `re`)."""


class Settings:
    """What the scanner wants to know."""

    strict = True
    object_hook = object_pairs_hook = parse_constant = None
    parse_float, parse_int = float, int


def refuse(value):
    raise TypeError(f"{type(value).__name__} is not JSON")


try:
    import _json
    scan = _json.make_scanner(Settings)
    write = _json.make_encoder(None, refuse, _json.encode_basestring, None, ":", ",", False, False, False)

    def from_json(text):
        return scan(text, 0)[0]

    def to_json(value):
        return "".join(write(value, 0))

    # `_json` is CPython's own business: where it is another one, `json` serves as well
    SAMPLE = '{"a":[1,-2.5,null,true,"ü\\n"],"b":{}}'
    if to_json(from_json(SAMPLE)) != SAMPLE:
        raise ImportError("another _json")
except Exception:
    import json
    from_json = json.JSONDecoder().decode
    to_json = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":")).encode
