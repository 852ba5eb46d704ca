"""Run once per interpreter: says which Python it is and compiles the worker's modules for it."""
import json
import marshal
import sys
from importlib.util import MAGIC_NUMBER

if sys.version_info < (3, 9):
    sys.exit("3.9 or newer is needed")
modules = {name: compile(source, file, "exec") for name, (file, source) in json.load(sys.stdin).items()}
sys.stdout.buffer.write(sys.executable.encode("utf-8", "surrogateescape") + b"\n" + MAGIC_NUMBER + marshal.dumps(modules))
