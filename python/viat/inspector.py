"""Reads a script without running it: the signature of `main`, or where and why the script is refused."""
import ast
import json
import sys


def unparse(node):
    return None if node is None else ast.unparse(node)


BUILTIN = {"int": "int", "str": "str", "float": "float", "bool": "bool", "list": {"list": "any"}, "tuple": {"list": "any"},
           "dict": {"dict": "any"}}
TYPING = {"List": "list", "Tuple": "tuple", "Dict": "dict"}


class Names:
    """What the names in annotations mean, unless the script gives them another meaning."""

    def __init__(self, tree):
        self.typing, self.modules, self.own = {}, set(), set()
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module in ("typing", "typing_extensions"):
                self.typing.update({alias.asname or alias.name: alias.name for alias in node.names})
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    known = alias.name in ("typing", "typing_extensions")
                    (self.modules if known else self.own).add(alias.asname or alias.name)
            elif isinstance(node, ast.ImportFrom):
                self.own.update(alias.asname or alias.name for alias in node.names)
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                self.own.add(node.name)
            elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
                self.own.add(node.id)

    def meaning(self, node):
        if isinstance(node, ast.Name) and "*" not in self.own:
            if node.id in self.own:
                return None
            name = self.typing.get(node.id)
            return TYPING.get(name, name) if name else node.id if node.id in BUILTIN else None
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in self.modules - self.own:
            return TYPING.get(node.attr, node.attr)
        return None

    def shape(self, node):
        """What a value must be as JSON; "any" where only running the script could tell."""
        if isinstance(node, ast.Constant):
            if node.value is None:
                return "null"
            return self.quoted(node.value) if isinstance(node.value, str) else "any"
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            return one_of([self.shape(node.left), self.shape(node.right)])
        if not isinstance(node, ast.Subscript):
            return BUILTIN.get(self.meaning(node), "any")
        inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        meaning = self.meaning(node.value)
        if meaning == "list" and len(inner) == 1:
            return {"list": self.shape(inner[0])}
        if meaning == "dict" and len(inner) == 2:
            return {"dict": self.shape(inner[1])}
        if meaning == "tuple":
            return {"list": "any"}
        if meaning == "Optional":
            return one_of([self.shape(inner[0]), "null"])
        if meaning == "Union":
            return one_of([self.shape(each) for each in inner])
        if meaning == "Annotated":
            return self.shape(inner[0])
        if meaning == "Literal" and all(isinstance(each, ast.Constant) and isinstance(each.value, (str, int, bool, type(None))) for each in inner):
            return {"literal": [each.value for each in inner]}
        return "any"

    def quoted(self, text):
        try:
            return self.shape(ast.parse(text.strip(), mode="eval").body)
        except SyntaxError:
            return "any"


def one_of(shapes):
    return "any" if "any" in shapes else {"one_of": shapes}


def parameters(arguments, names):
    plain = arguments.posonlyargs + arguments.args
    defaults = [None] * (len(plain) - len(arguments.defaults)) + arguments.defaults
    found = [(each, default, "positional_only" if at < len(arguments.posonlyargs) else "keyword")
             for at, (each, default) in enumerate(zip(plain, defaults))]
    found += [(each, default, "keyword") for each, default in zip(arguments.kwonlyargs, arguments.kw_defaults)]
    if arguments.kwarg:
        found.append((arguments.kwarg, None, "rest"))
    return [{"name": each.arg, "annotation": unparse(each.annotation), "shape": names.shape(each.annotation) if each.annotation else None,
             "default": unparse(default), "kind": kind}
            for each, default, kind in found]


def definitions(body):
    """Statements of the top level, also those under `if`, `try` and `with`."""
    for node in body:
        yield node
        for part in ("body", "orelse", "finalbody"):
            if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                yield from definitions(getattr(node, part, None) or [])
        for handler in getattr(node, "handlers", None) or []:
            yield from definitions(handler.body)


def names_main(node):
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return any((alias.asname or alias.name) in ("main", "*") for alias in node.names)
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return any(isinstance(each, ast.Name) and each.id == "main" for target in targets if target is not None
               for each in ast.walk(target))


def problem(source, line, column, message):
    lines = source.splitlines()
    return {"problem": {"line": line, "column": column, "message": message,
                        "snippet": lines[line - 1] if 0 < line <= len(lines) else ""}}


def inspect(source):
    try:
        tree = ast.parse(source)
        compile(source, "script.py", "exec", dont_inherit=True)  # `return` outside a function and the like
    except SyntaxError as error:
        return problem(source, error.lineno or 1, error.offset or 1, error.msg)
    except (ValueError, RecursionError, MemoryError) as error:
        return problem(source, 1, 1, str(error) or type(error).__name__)
    main = other = None
    for node in definitions(tree.body):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == "main":
            main, other = node, None
        elif names_main(node):
            main, other = None, node
    if main is None and other is None:
        return problem(source, 1, 1, "the script defines no function `main`")
    info = {"doc": ast.get_docstring(main or tree) if main else None, "is_async": isinstance(main, ast.AsyncFunctionDef),
            "signature_known": main is not None and not main.decorator_list,
            "parameters": parameters(main.args, Names(tree)) if main else [], "returns": unparse(main.returns) if main else None}
    return {"script": info}


sys.stdout.buffer.write(json.dumps(inspect(sys.stdin.buffer.read().decode("utf-8", "surrogatepass"))).encode())
