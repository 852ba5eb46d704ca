"""The `-c` text a worker starts with: waits for the guardian's go, reads the first frame, becomes the worker."""
import os, sys


def read_parts(fd):
    """The first frame's body: parts, each behind its little-endian u32 length."""
    data = b""
    while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "little"):
        more = os.read(fd, 1 << 20)
        if not more:
            os._exit(72)
        data += more
    parts, at = [], 5
    while at < len(data):
        end = at + 4 + int.from_bytes(data[at:at + 4], "little")
        parts.append(data[at + 4:end])
        at = end
    return parts


def modules_of(bundle, sources):
    """Name to code: as the engine had it compiled, if by this very Python; else from the sources."""
    magic = sys.modules["_frozen_importlib_external"].MAGIC_NUMBER
    if bundle.startswith(magic):
        import marshal
        return marshal.loads(bundle[len(magic):])
    import json
    return {name: compile(source, file, "exec") for name, (file, source) in json.loads(sources).items()}


def start():
    protocol, cancel = int(sys.argv[1]), int(sys.argv[2])
    for fd in (protocol, cancel):
        os.set_inheritable(fd, False)
    # the guardian has put this process into its cgroup once this byte is here
    if os.read(cancel, 1) != b"g":
        os._exit(71)
    name, source, limit, bundle, sources, mode = read_parts(protocol)
    modules = {}
    for each, code in modules_of(bundle, sources).items():
        module = modules[each] = type(sys)(each)
        module.__file__ = code.co_filename
        if each == "viat":
            sys.modules[each] = module
        module.modules = modules
        exec(code, module.__dict__)
        if each == "viat":
            del module.modules
    modules["worker"].main(name.decode(), source.decode("utf-8", "surrogatepass"), int(limit), protocol, cancel, mode == b"fresh")


start()
