"""The `-c` text a worker starts with: waits for the guardian's go, reads the first frame, becomes the worker."""
import os, sys


def start():
    protocol, cancel = int(sys.argv[1]), int(sys.argv[2])
    for fd in (protocol, cancel):
        os.set_inheritable(fd, False)
    # the guardian has put this process into its cgroup once this byte is here
    if os.read(cancel, 1) != b"g":
        os._exit(71)
    data = b""
    while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "little"):
        more = os.read(protocol, 1 << 20)
        if not more:
            os._exit(72)
        data += more
    import json
    init = json.loads(data[5:])
    modules = {}
    for name, (file, source) in init["modules"].items():
        module = modules[name] = type(sys)(name)
        module.__file__ = file
        exec(compile(source, file, "exec"), module.__dict__)
    modules["worker"].main(init, modules, protocol, cancel)


start()
