"""The loop of a warm worker process: one attempt at a time, `main` in the main thread, frames on a socket.

A frame is a little-endian u32 length, one byte of kind, and that many bytes less one of JSON.
"""

import os
import sys
from _thread import RLock, allocate_lock, start_new_thread

OWN_FILES = frozenset(("<viat worker>", "<viat>", "<viat arguments>", "<viat output>", "<string>"))
MESSAGE_LIMIT = 10_000
PID = os.getpid()
from_json, to_json = modules["codec"].from_json, modules["codec"].to_json  # the loader's: modules by name


class Channel:
    """The protocol socket; a call, its acknowledgements and its result pass one at a time."""

    def __init__(self, fd):
        self.fd, self.rest, self.lock = fd, b"", RLock()

    def receive(self):
        try:
            return self.read_frame()
        except OSError:  # the script closed or replaced the descriptor: there is nobody to tell
            os._exit(70)

    def read_frame(self):
        data = self.rest or os.read(self.fd, 1 << 16)
        while True:
            if len(data) >= 4:
                size = int.from_bytes(data[:4], "little") + 4
                if len(data) >= size:
                    self.rest = data[size:]
                    return data[4], data[5:size]
                if size - len(data) > 1 << 16:
                    return self.receive_big(data, size)
            more = os.read(self.fd, 1 << 16)
            if not more:  # the engine is gone
                os._exit(0)
            data += more

    def receive_big(self, start, size):
        whole = bytearray(size)
        whole[:len(start)] = start
        view, have = memoryview(whole), len(start)
        while have < size:
            got = os.readv(self.fd, [view[have:]])
            if not got:
                os._exit(0)
            have += got
        self.rest = b""
        return whole[4], bytes(view[5:])

    def send(self, kind, data):
        frame = (len(data) + 1).to_bytes(4, "little") + kind + data
        try:
            sent = os.write(self.fd, frame)
            if sent < len(frame):
                view = memoryview(frame)
                while sent < len(frame):
                    sent += os.write(self.fd, view[sent:sent + (1 << 20)])
        except OSError:
            os._exit(70)


class Bridge:
    """What the `viat` module's functions stand on inside a worker."""

    def __init__(self, worker):
        self.worker, self.channel = worker, worker.channel

    def check_extra(self, extra):
        try:
            self.worker.output.encode(extra, self.worker.limit)
        except self.worker.output.NotJson as wrong:
            raise TypeError(f"ViatError: extra must be JSON: {wrong}") from None

    def ask(self, kind, question):
        self.must_be_running(question["what"])
        try:
            data = self.worker.output.encode(question, self.worker.limit)
        except self.worker.output.NotJson as wrong:
            raise TypeError(f"viat.{question['what']}: {str(wrong)}") from None
        with self.channel.lock:
            self.channel.send(kind, data)
            answer = from_json(self.channel.receive()[1].decode())
        if "refused" in answer:
            raise self.worker.viat.ResourceError(answer["refused"])
        return answer["value"]

    def must_be_running(self, what):
        if os.getpid() != PID:
            raise RuntimeError(f"viat.{what} works only in the process that runs main, not in a fork of it")
        if self.worker.attempt is None:
            raise RuntimeError(f"viat.{what} works only while an attempt is running")

    def defer(self, workflow, args):
        self.ask(b"d", {"what": "defer", "workflow": workflow, "args": args})

    def resource(self, name, kind):
        return self.ask(b"q", {"what": "resource", "name": name, "kind": kind})

    def progress(self, fraction, note):
        self.must_be_running("progress")
        with self.channel.lock:
            self.channel.send(b"p", to_json({"fraction": fraction, "note": clean(note)}).encode())

    def log(self, text):
        print(text, file=sys.stderr)


def clean(text):
    """Text that fits JSON and a log line's patience."""
    if text is None:
        return None
    if len(text) > MESSAGE_LIMIT:
        text = text[:MESSAGE_LIMIT] + f"… ({len(text) - MESSAGE_LIMIT} characters more)"
    return text.encode("utf-8", "backslashreplace").decode()


def text_of(error):
    try:
        return clean(str(error))
    except BaseException:
        return "(the exception's text cannot be had)"


class Source:
    """Gives tracebacks and `inspect` the script's source, which lies in no file."""

    def __init__(self, source):
        self.source = source

    def get_source(self, name):
        return self.source


def write_traceback(error, file):
    """The traceback from the script's own frames on, into the log."""
    try:
        import traceback
        frames = first = error.__traceback__
        while frames is not None and frames.tb_frame.f_code.co_filename != file:
            frames = frames.tb_next
        if frames is None:  # raised before any line of the script ran
            frames = first
            while frames is not None and frames.tb_frame.f_code.co_filename in OWN_FILES:
                frames = frames.tb_next
        traceback.print_exception(type(error), error, frames, file=sys.stderr)
    except BaseException:
        pass


class LateSite:
    """Site packages are looked for when the first import misses: `site` takes several times what the rest of
    the start takes, and most scripts need nothing outside the standard library."""

    NAMES = frozenset(("importlib.metadata", "pkgutil", "pkg_resources", "distutils", "sitecustomize"))

    class Missing:
        def __init__(self, owner):
            self.owner = owner

        def find_spec(self, name, path=None, target=None):
            if path is not None or not self.owner.load():
                return None
            import importlib.util
            return importlib.util.find_spec(name)

    def __init__(self):
        import _sitebuiltins
        import builtins
        self.loaded, self.missing = False, self.Missing(self)
        builtins.quit = _sitebuiltins.Quitter("quit", "Ctrl-D (i.e. EOF)")
        builtins.exit = _sitebuiltins.Quitter("exit", "Ctrl-D (i.e. EOF)")
        builtins.help = _sitebuiltins._Helper()
        sys.meta_path.insert(0, self)
        sys.meta_path.append(self.missing)

    def find_spec(self, name, path=None, target=None):
        if name in self.NAMES:
            self.load()
        return None

    def load(self):
        if self.loaded:
            return False
        self.loaded = True
        for finder in (self, self.missing):
            if finder in sys.meta_path:
                sys.meta_path.remove(finder)
        import site
        site.main()
        return True


class Worker:
    """The script, loaded once, and what one attempt after the other does with it."""

    def __init__(self, name, limit, protocol, cancel):
        self.name, self.limit, self.turn = name, limit, allocate_lock()
        self.work = os.path.join(os.getcwd(), "work")
        self.viat, self.output, self.arguments = modules["viat"], modules["output"], modules["arguments"]
        self.channel, self.cancel_fd, self.attempt = Channel(protocol), cancel, None
        self.told = None  # the attempt that was last asked to stop
        self.main = self.bind = self.broken = None
        self.is_async = False

    def load(self, source):
        """Runs the script's top level; what it raises is kept and reported on the attempt."""
        name = self.name
        module = type(sys)(name)
        module.__file__ = f"{name}.py"
        module.__loader__ = Source(source)
        sys.modules["viat"] = self.viat
        if name not in sys.modules and name not in sys.builtin_module_names:
            sys.modules[name] = module
        sys.argv = [module.__file__]
        try:
            exec(compile(source, module.__file__, "exec", dont_inherit=True), module.__dict__)
            self.main = getattr(module, "main", None)
            if not callable(self.main):
                raise TypeError(f"{module.__file__} defines no function `main`")
        except BaseException as error:
            self.left_a_fork(error)
            self.broken = self.failure(error)
            return
        code = getattr(self.main, "__code__", None)
        self.is_async = bool(code and code.co_flags & 0x80)
        try:
            self.bind = self.arguments.compile_binder(self.main)
        except self.arguments.Misfit as misfit:
            self.broken = fault("annotation", "annotation", str(misfit))
        except BaseException as error:
            self.broken = self.failure(error)

    def left_a_fork(self, error=None):
        """A forked child that came back here must not speak for its parent."""
        if os.getpid() != PID:
            if error is not None:
                write_traceback(error, f"{self.name}.py")
            flush()
            os._exit(0 if error is None else 1)

    def failure(self, error):
        viat = self.viat
        if isinstance(error, viat.ViatError):
            extra = error.extra
            try:
                if extra is not None:
                    self.output.encode(extra, self.limit)
            except self.output.NotJson as wrong:
                return fault("exception", "TypeError", f"ViatError: extra must be JSON: {wrong}")
            return fault("user", clean(error.code), clean(error.message), status=error.status, extra=extra)
        if isinstance(error, viat.TransportError):
            wait = error.retry_after_ms
            write_traceback(error, f"{self.name}.py")
            return fault("transport", "transport", clean(error.message), retry_after_ms=None if wait is None else int(wait))
        if isinstance(error, viat.ResourceError):
            return fault("resource", "resource", text_of(error))
        write_traceback(error, f"{self.name}.py")
        return fault("exception", clean(type(error).__name__), text_of(error))

    def run(self, args):
        """(kind, data) of the attempt's last frame."""
        if self.broken is not None:
            return b"x", self.broken
        try:
            args = self.bind(args)
        except self.arguments.Misfit as misfit:
            return b"x", fault("annotation", "annotation", clean(str(misfit)))
        except Exception as error:
            return b"x", self.failure(error)
        try:
            value = self.main(**args)
            if self.is_async or hasattr(value, "__await__"):
                import asyncio
                value = asyncio.run(wait_for(value))
        except BaseException as error:
            self.left_a_fork(error)
            return b"x", self.failure(error)
        self.left_a_fork()
        try:
            return b"r", self.output.encode(value, self.limit)
        except self.output.NotJson as wrong:
            return b"x", fault("invalid_output", "invalid_output", clean(f"main returned what is not JSON: {wrong}"))
        except Exception as error:
            return b"x", self.failure(error)

    def serve(self):
        channel = self.channel
        while True:
            data = channel.receive()[1]
            kind, data = self.make_attempt(data)
            with channel.lock:
                channel.send(kind, data)
            del data

    def make_attempt(self, data):
        context, viat, turn = self.viat.context, self.viat, self.turn
        call = from_json(data.decode())
        del data
        context.__dict__.update(call["context"])
        with turn:
            self.attempt = call["id"]
            if self.told == self.attempt:
                viat._signal(True)
        os.chdir(self.work)  # the engine has emptied it; the attempt before may have gone elsewhere
        kind, data = self.run(call["args"])
        del call
        flush()
        with turn:
            self.attempt = None
            if viat._stopping:
                viat._signal(False)
        return kind, data

    def serve_forks(self):
        """Each attempt in a fork: what it changes goes with it. This process runs nothing of the script any more."""
        channel = self.channel
        result = os.memfd_create("result")
        while True:
            data = channel.receive()[1]
            os.ftruncate(result, 0)
            child = os.fork()
            if child == 0:
                self.be_fork(result, data)
            del data
            status = os.waitpid(child, 0)[1]
            size = os.fstat(result).st_size
            if size and os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0:
                data = os.pread(result, size, 0)
                while len(data) < size:
                    data += os.pread(result, size - len(data), len(data))
                channel.send(data[:1], data[1:])
                del data
            else:
                channel.send(b"b", how_it_ended(status).encode())

    def be_fork(self, result, data):
        global PID
        PID = os.getpid()
        start_new_thread(self.listen_for_cancel, ())
        kind, data = self.make_attempt(data)
        view = memoryview(kind + data)
        at = 0
        while at < len(view):
            at += os.pwrite(result, view[at:], at)
        os._exit(0)

    def listen_for_cancel(self):
        """Sits on the cancel pipe; its end means that the guardian, and so the engine, is gone."""
        buffer = b""
        while True:
            try:
                more = os.read(self.cancel_fd, 4096)
            except OSError:
                return
            if not more:
                os.kill(PID, 9)
            *lines, buffer = (buffer + more).split(b"\n")
            for line in lines:
                # it may come late, when the next attempt runs, or early, before the call itself has been read
                with self.turn:
                    self.told = line.decode()
                    if self.told == self.attempt:
                        self.viat._signal(True)


def how_it_ended(status):
    """The guardian's words for the end of a process."""
    if os.WIFSIGNALED(status):
        import signal
        number = os.WTERMSIG(status)
        try:
            return f"was killed by signal {number} ({signal.Signals(number).name})"
        except ValueError:
            return f"was killed by signal {number}"
    return f"exited with code {os.WEXITSTATUS(status)}"


async def wait_for(value):
    return await value


def fault(kind, code, message, **more):
    return to_json({"kind": kind, "code": code, "message": message, **more}).encode("utf-8", "backslashreplace")


def flush():
    for name in ("stdout", "stderr"):
        try:
            getattr(sys, name).flush()
        except Exception:
            pass


def main(name, source, limit, protocol, cancel, fresh):
    LateSite()
    sys.stdout.reconfigure(line_buffering=True, errors="backslashreplace")
    worker = Worker(name, limit, protocol, cancel)
    worker.viat._bridge = Bridge(worker)
    if not fresh:
        start_new_thread(worker.listen_for_cancel, ())
    os.chdir(worker.work)
    worker.load(source)
    flush()
    import gc
    gc.freeze()  # what is loaded stays: the collector need not look at it again
    worker.channel.send(b"k", b"true" if worker.broken is None else b"false")
    worker.serve_forks() if fresh else worker.serve()
