"""Reads a script without running it: the signature of `main`, or where and why the script is refused."""
import ast
import json
import sys


def unparse(node):
    return None if node is None else ast.unparse(node)


def parameters(arguments):
    plain = arguments.posonlyargs + arguments.args
    defaults = [None] * (len(plain) - len(arguments.defaults)) + arguments.defaults
    found = [(each, default, "positional_only" if at < len(arguments.posonlyargs) else "keyword")
             for at, (each, default) in enumerate(zip(plain, defaults))]
    found += [(each, default, "keyword") for each, default in zip(arguments.kwonlyargs, arguments.kw_defaults)]
    if arguments.kwarg:
        found.append((arguments.kwarg, None, "rest"))
    return [{"name": each.arg, "annotation": unparse(each.annotation), "default": unparse(default), "kind": kind}
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
            "parameters": parameters(main.args) if main else [], "returns": unparse(main.returns) if main else None}
    return {"script": info}


sys.stdout.buffer.write(json.dumps(inspect(sys.stdin.buffer.read().decode("utf-8", "surrogatepass"))).encode())
