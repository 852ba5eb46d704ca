"""Binds arguments by keyword to `main`'s signature and holds them to its annotations.

Everything about the signature is worked out once, when the worker starts; a call only runs the checkers.
"""

import sys
import types


class Misfit(Exception):
    """An argument that does not fit; the message names the parameter, what was given and what was expected."""


class Wrong(Exception):
    """One value that does not fit one type, with the path inside the argument."""

    def __init__(self, expected, given, detail=None):
        super().__init__()
        self.expected, self.given, self.detail, self.path = expected, given, detail, []

    def at(self, step):
        self.path.append(step)
        return self

    def text(self, name):
        where = name + "".join(reversed(self.path))
        if self.detail:
            return f"`{where}`: {self.detail}"
        return f"`{where}`: expected {self.expected}, got {describe(self.given)}"


NAMES = {int: "integer", str: "string", bool: "boolean", float: "number", list: "list", dict: "object", type(None): "null"}


def describe(value):
    if value is None:
        return "null"
    try:
        text = repr(value)
    except Exception:
        text = "(its repr fails)"
    return f"{type(value).__name__} {text if len(text) <= 80 else text[:77] + '...'}"


def name_of(annotation):
    if annotation is None or annotation is type(None):
        return "None"
    if isinstance(annotation, type) and not hasattr(annotation, "__args__"):
        return annotation.__name__
    return str(annotation).replace("typing.", "")


def exactly(kind):
    name = name_of(kind)

    def check(value):
        if type(value) is kind:
            return value
        raise Wrong(name, value)
    return check


def a_float(value):
    if type(value) is float or type(value) is int:
        return value
    raise Wrong("float", value)


def a_list(item, make=list, expected="list"):
    def check(value):
        if type(value) is not list:
            raise Wrong(expected, value)
        if item is None:
            return value if make is list else make(value)
        found = []
        try:
            for each in value:
                found.append(item(each))
        except Wrong as wrong:
            raise wrong.at(f"[{len(found)}]")
        return found if make is list else make(found)
    return check


def a_fixed_tuple(items, expected):
    def check(value):
        if type(value) is not list or len(value) != len(items):
            raise Wrong(expected, value)
        found = []
        try:
            for item, each in zip(items, value):
                found.append(each if item is None else item(each))
        except Wrong as wrong:
            raise wrong.at(f"[{len(found)}]")
        return tuple(found)
    return check


def a_dict(key, item):
    def check(value):
        if type(value) is not dict:
            raise Wrong("dict", value)
        if key is None and item is None:
            return value
        found = {}
        for name, each in value.items():
            try:
                found[name if key is None else key(name)] = each if item is None else item(each)
            except Wrong as wrong:
                raise wrong.at(f".{name}")
        return found
    return check


def a_union(options, expected):
    def check(value):
        closest = None
        for option in options:
            if option is None:
                return value
            try:
                return option(value)
            except Wrong as wrong:
                if wrong.path and closest is None:
                    closest = wrong
        # `dict | None` that got a dict with a wrong inside: the inside is the news
        raise closest or Wrong(expected, value)
    return check


def a_literal(allowed):
    expected = "one of " + ", ".join(repr(each) for each in allowed)

    def check(value):
        for each in allowed:
            if each == value and type(each) is type(value):
                return value
        raise Wrong(expected, value)
    return check


def an_enum(kind):
    members = list(kind)
    expected = f"{kind.__name__} (one of {', '.join(repr(member.value) for member in members)})"

    def check(value):
        for member in members:
            if type(member.value) is type(value) and member.value == value:
                return member
        raise Wrong(expected, value)
    return check


def an_instant(kind):
    def check(value):
        if type(value) is not str:
            raise Wrong(f"{kind.__name__} (an ISO 8601 string)", value)
        try:
            text = value[:-1] + "+00:00" if value.endswith(("Z", "z")) and kind.__name__ == "datetime" else value
            return kind.fromisoformat(text)
        except ValueError:
            raise Wrong(f"{kind.__name__} (an ISO 8601 string)", value) from None
    return check


def a_record(kind, fields, required, build):
    """TypedDict and dataclasses: a JSON object with known keys."""
    name = kind.__name__

    def check(value):
        if type(value) is not dict:
            raise Wrong(f"{name} (an object)", value)
        for key in value:
            if key not in fields:
                raise Wrong(name, value, f"{name} has no field `{key}`; it has {', '.join(fields)}")
        for key in required:
            if key not in value:
                raise Wrong(name, value, f"{name} needs the field `{key}`")
        found = {}
        for key, each in value.items():
            checker = fields[key]
            try:
                found[key] = each if checker is None else checker(each)
            except Wrong as wrong:
                raise wrong.at(f".{key}")
        try:
            return build(found)
        except Wrong:
            raise
        except Exception as error:
            raise Wrong(name, value, f"{name} refused it: {type(error).__name__}: {error}") from error
    return check


def a_model(kind):
    def check(value):
        try:
            return kind.model_validate(value)
        except Exception as error:
            raise Wrong(kind.__name__, value, f"does not fit {kind.__name__}: {error}") from None
    return check


def an_instance(kind):
    def check(value):
        if isinstance(value, kind):
            return value
        raise Wrong(name_of(kind), value)
    return check


def hints_of(owner):
    import typing
    try:
        return typing.get_type_hints(owner, include_extras=True)
    except Exception as error:
        raise Misfit(f"an annotation of {owner.__name__} cannot be resolved: {type(error).__name__}: {error}") from error


def compile_class(kind, seen):
    if kind in (int, str, bool):
        return exactly(kind)
    if kind is float:
        return a_float
    if kind is object:
        return None
    if kind is list:
        return a_list(None)
    if kind is tuple:
        return a_list(None, tuple, "tuple (a list)")
    if kind is dict:
        return a_dict(None, None)
    if kind in seen:  # a recursive record: look it up when it is needed
        return lambda value: seen[kind](value)
    if hasattr(kind, "__required_keys__") and hasattr(kind, "__total__"):
        seen[kind] = None
        fields = {key: compile_type(each, seen) for key, each in hints_of(kind).items()}
        seen[kind] = a_record(kind, fields, sorted(kind.__required_keys__), lambda found: found)
        return seen[kind]
    if hasattr(kind, "model_validate") and hasattr(kind, "model_fields"):
        return a_model(kind)
    if hasattr(kind, "__dataclass_fields__"):
        import dataclasses
        seen[kind] = None
        hints = hints_of(kind)
        known = [field for field in dataclasses.fields(kind) if field.init]
        fields = {field.name: compile_type(hints.get(field.name, field.type), seen) for field in known}
        needed = [field.name for field in known
                  if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING]
        seen[kind] = a_record(kind, fields, needed, lambda found: kind(**found))
        return seen[kind]
    enum = sys.modules.get("enum")
    if enum and issubclass(kind, enum.Enum):
        return an_enum(kind)
    datetime = sys.modules.get("datetime")
    if datetime and kind in (datetime.datetime, datetime.date, datetime.time):
        return an_instant(kind)
    return an_instance(kind)


def compile_generic(annotation, origin, args, seen):
    typing = sys.modules.get("typing")
    if origin is getattr(types, "UnionType", None) or (typing and origin is typing.Union):
        return a_union([compile_type(each, seen) for each in args], name_of(annotation))
    if typing:
        if origin is typing.Literal:
            return a_literal(args)
        if str(origin) in ("typing.Required", "typing.NotRequired", "typing.ReadOnly", "typing.Final",
                           "typing_extensions.Required", "typing_extensions.NotRequired"):
            return compile_type(args[0], seen)
    if isinstance(origin, type):
        if issubclass(origin, tuple):
            if len(args) == 2 and args[1] is Ellipsis:
                return a_list(compile_type(args[0], seen), tuple, "tuple (a list)")
            return a_fixed_tuple([compile_type(each, seen) for each in args], f"tuple of {len(args)} (a list)")
        if origin is list or (origin.__module__ == "collections.abc" and len(args) == 1):
            return a_list(compile_type(args[0], seen))
        if origin is dict or (origin.__module__ == "collections.abc" and len(args) == 2):
            return a_dict(compile_type(args[0], seen), compile_type(args[1], seen))
        return compile_class(origin, seen)
    raise Misfit(f"viat cannot check arguments against the annotation {name_of(annotation)}")


def compile_type(annotation, seen):
    """A function that gives the argument as the annotation wants it, or raises Wrong; None accepts anything."""
    if annotation is None or annotation is type(None):
        return exactly(type(None))
    if isinstance(annotation, str):
        raise Misfit(f"the annotation {annotation!r} cannot be resolved")
    typing = sys.modules.get("typing")
    if typing:
        if annotation is typing.Any:
            return None
        if isinstance(annotation, typing.TypeVar):
            return None if annotation.__bound__ is None else compile_type(annotation.__bound__, seen)
    if hasattr(annotation, "__metadata__"):  # Annotated[T, ...]
        return compile_type(annotation.__origin__, seen)
    if hasattr(annotation, "__supertype__"):  # NewType
        return compile_type(annotation.__supertype__, seen)
    if hasattr(annotation, "__value__"):  # type X = ...
        return compile_type(annotation.__value__, seen)
    origin = getattr(annotation, "__origin__", None)
    if origin is None and type(annotation) is getattr(types, "UnionType", None):
        origin = types.UnionType
    args = getattr(annotation, "__args__", None) or ()
    if origin is not None and (args or not isinstance(origin, type)):
        return compile_generic(annotation, origin, args, seen)
    if isinstance(origin, type):
        annotation = origin
    if isinstance(annotation, type):
        return compile_class(annotation, seen)
    raise Misfit(f"viat cannot check arguments against the annotation {name_of(annotation)}")


def parameters_of(main):
    """(names that bind by keyword, the required ones, positional-only names, whether **kwargs takes the rest)"""
    if type(main) is types.FunctionType and not hasattr(main, "__wrapped__") and not hasattr(main, "__signature__"):
        code, defaults, kwdefaults = main.__code__, main.__defaults__ or (), main.__kwdefaults__ or {}
        plain = code.co_varnames[:code.co_argcount]
        only = code.co_varnames[code.co_argcount:code.co_argcount + code.co_kwonlyargcount]
        required = [*plain[:len(plain) - len(defaults)], *(name for name in only if name not in kwdefaults)]
        rest = None
        if code.co_flags & 0x08:
            rest = code.co_varnames[code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 0x04)]
        return [*plain[code.co_posonlyargcount:], *only], required, plain[:code.co_posonlyargcount], rest
    import inspect
    names, required, positional, rest = [], [], [], None
    for each in inspect.signature(main).parameters.values():
        if each.kind is each.VAR_KEYWORD:
            rest = each.name
        elif each.kind is not each.VAR_POSITIONAL:
            (positional if each.kind is each.POSITIONAL_ONLY else names).append(each.name)
            if each.default is each.empty:
                required.append(each.name)
    return names, required, positional, rest


def annotations_of(main):
    while hasattr(main, "__wrapped__"):
        main = main.__wrapped__
    found = getattr(main, "__annotations__", None)
    if found is None:
        found = getattr(getattr(main, "__call__", None), "__annotations__", {})
    if any(isinstance(each, str) or not isinstance(each, type) for each in found.values()) and isinstance(main, types.FunctionType):
        return hints_of(main)
    return found


def compile_binder(main):
    """A function from the arguments to the keyword arguments of `main`; it raises Misfit."""
    names, required, positional, rest = parameters_of(main)
    annotations = dict(annotations_of(main))
    annotations.pop("return", None)
    checkers = {name: None for name in names}
    for name in names:
        if name in annotations:
            checkers[name] = compile_type(annotations[name], {})
    rest_checker = compile_type(annotations[rest], {}) if rest in annotations else None
    takes = ", ".join(names) or "none"

    def bind(args):
        for name in positional:
            if name in required or name in args:
                raise Misfit(f"`{name}` of main is positional-only; arguments are passed by keyword")
        for name in args:
            if name not in checkers and rest is None:
                raise Misfit(f"main has no parameter `{name}`; its parameters: {takes}")
        for name in required:
            if name not in args:
                raise Misfit(f"main needs the argument `{name}`, which was not given")
        found = {}
        for name, value in args.items():
            checker = checkers.get(name, rest_checker)
            if checker is not None:
                try:
                    value = checker(value)
                except Wrong as wrong:
                    raise Misfit(wrong.text(name)) from None
            found[name] = value
        return found
    return bind
