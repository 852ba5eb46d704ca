"""Drives the built `viat` binary from outside, the way a person in a shell does.

    VIAT_BIN=target/release/viat python3 -m pytest -q tests/blackbox

Without VIAT_BIN the release build of this repository is used.
"""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = pathlib.Path(os.environ.get("VIAT_BIN") or ROOT / "target/release/viat")
BINARY = BINARY if BINARY.is_absolute() else (ROOT / BINARY)
# The most that anything here may take before it counts as hung; nothing measures speed.
PATIENCE = 60

# What test scripts use to tell the test what they did: one line, one write, never torn.
TOUCH = '''
import os
def mark(word):
    fd = os.open(os.environ["TRACE"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(fd, (str(word) + "\\n").encode())
    os.fsync(fd)
    os.close(fd)
'''


class Done:
    """A command that has ended."""

    def __init__(self, args, code, out, err):
        self.args, self.code, self.raw_out, self.raw_err = args, code, out, err
        self.out, self.err = out.decode("utf-8", "replace"), err.decode("utf-8", "replace")

    def data(self):
        lines = self.out.split("\n")
        assert len(lines) == 2 and lines[1] == "", f"one line of JSON was expected\n{self}"
        return json.loads(self.out)

    def __repr__(self):
        return f"viat {' '.join(map(str, self.args))[:300]}\nexit {self.code}\nstdout: {self.out[:3000]}\nstderr: {self.err[:3000]}"


class Home:
    """One home folder, and commands on it."""

    def __init__(self, base, home=None):
        self.base = pathlib.Path(base)
        self.path = pathlib.Path(home) if home else self.base / "home"
        self.files = self.base / "files"
        self.files.mkdir(parents=True, exist_ok=True)
        self.trace_file = self.base / "trace"
        self.env = {name: value for name, value in os.environ.items() if not name.startswith("VIAT_")}
        self.env.update(VIAT_HOME=str(self.path), NO_COLOR="1", TRACE=str(self.trace_file), VIAT_SCRIPT_ENV="TRACE")
        self.started = []

    def environment(self, changes=None):
        env = dict(self.env)
        for name, value in (changes or {}).items():
            env.pop(name, None)
            if value is not None:
                env[name] = str(value)
        return env

    def run(self, *args, stdin=b"", env=None, cwd=None, patience=PATIENCE, code=None):
        """Runs a command to its end; `code` is the exit code it must have."""
        args = [os.fspath(arg) if isinstance(arg, os.PathLike) else arg if isinstance(arg, bytes) else str(arg) for arg in args]
        done = subprocess.run([str(BINARY), *args], input=stdin, capture_output=True, env=self.environment(env),
                              cwd=cwd or self.base, timeout=patience)
        done = Done(args, done.returncode, done.stdout, done.stderr)
        assert "panicked" not in done.err and "RUST_BACKTRACE" not in done.err, done
        if code is not None:
            assert done.code == code, done
            if code != 0 and "--json" not in args:
                assert done.out == "", f"stdout is for results\n{done}"
        return done

    def start(self, *args, env=None, **more):
        """Starts a command and comes back at once."""
        process = subprocess.Popen([str(BINARY), *map(str, args)], env=self.environment(env), cwd=self.base,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)
        self.started.append(process)
        return process

    def file(self, name, text):
        path = self.files / name
        path.write_bytes(text if isinstance(text, bytes) else textwrap.dedent(text).encode())
        return path

    def script(self, name, text, code=0):
        path = self.file(f"{name}.py", text)
        return self.run("script", "create", "--name", name, "--language", "python", "--file", path, code=code)

    def workflow(self, name, text, code=0):
        return self.run("workflow", "create", name, "--file", self.file(f"{name}.yaml", text), code=code)

    def step(self, text, more="", name="s"):
        """A script and a workflow of one step that runs it."""
        self.script(name, text)
        self.workflow(name, f"steps:\n  - id: {name}\n    script: {name}\n" + textwrap.indent(textwrap.dedent(more), "    ")
                      + f"outputs: {{v: ${name}.output}}\n")

    def record(self, name, *more, **options):
        """The record of a test run, succeeded or not."""
        done = self.run("workflow", "test", name, "--json", *more, **options)
        assert done.code in (0, 1), done
        record = done.data()
        assert (record["status"] == "succeeded") == (done.code == 0), done
        return record

    def show(self, run):
        return self.run("run", "show", run, "--json", code=0).data()

    def runs(self):
        return self.run("run", "list", "--json", "--limit", "1000", code=0).data()

    def log(self, run, *more):
        return "".join(row["log"] for row in self.run("run", "logs", run, "--json", *more, code=0).data())

    def trace(self):
        return self.trace_file.read_text().split() if self.trace_file.exists() else []


def until(probe, what, seconds=PATIENCE):
    """Waits for something to become true; generous, for it bounds hanging, not speed."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = probe()
        if found:
            return found
        time.sleep(0.01)
    raise AssertionError(f"not within {seconds} s: {what}")


def processes_of(home):
    """Processes that belong to this home: their environment or their working folder says so."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            if (entry / "stat").read_text().rpartition(")")[2].split()[0] == "Z":
                continue
            environ = (entry / "environ").read_bytes()
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ")
            inside = os.readlink(entry / "cwd").startswith(str(home.path))
        except OSError:
            continue
        if inside or (b"VIAT_TREE=" in environ and str(home.trace_file).encode() in environ):
            found.append((int(entry.name), command.decode(errors="replace")[:100]))
    return found


def nobody_left(home, seconds=15):
    """No worker, guardian or stray of this home lives any more."""
    until(lambda: not processes_of(home), f"leftovers end: {processes_of(home)}", seconds)


def kill(process):
    """As a power cut does."""
    process.send_signal(signal.SIGKILL)
    process.wait()


def bug(what):
    """Marks a test that shows a known bug; when it is mended the mark has to go."""
    return pytest.mark.xfail(reason=what, strict=True)


def for_each(tmp_path, cases, check):
    """Checks many cases at once, each in a home of its own; names all that fail."""
    with ThreadPoolExecutor(6) as seats:
        jobs = [(case, seats.submit(check, Home(tmp_path / str(number)), case)) for number, case in enumerate(cases)]
    problems = [f"{case!r:.200}\n{job.exception()}" for case, job in jobs if job.exception()]
    assert not problems, "\n\n".join(problems)


def used(pid):
    """The memory of a process in KiB, the most it ever had, and how many files it has open."""
    status = dict(line.split(":", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(status["VmRSS"].split()[0]), int(status["VmHWM"].split()[0]), len(os.listdir(f"/proc/{pid}/fd"))


@pytest.fixture
def home(tmp_path):
    assert BINARY.exists(), f"{BINARY} is not there: build it, or name one in VIAT_BIN"
    home = Home(tmp_path)
    yield home
    end_all(home)


def end_all(home):
    """Ends what a test has started and left."""
    for process in home.started:
        if process.poll() is None:
            process.send_signal(signal.SIGCONT)
            kill(process)
        for pipe in (process.stdout, process.stderr):
            if pipe:
                pipe.close()


@pytest.fixture
def light():
    """A home on a disk that is none, where there is one: for what makes many small writes and is about something else."""
    base = tempfile.mkdtemp(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
    home = Home(base)
    yield home
    end_all(home)
    shutil.rmtree(base)


@pytest.fixture
def serve():
    """Starts a server on a home; it is ended, and leaves nobody."""
    from served import Server
    begun = []

    def start(home, *flags, **options):
        begun.append(Server(home, *flags, **options))
        return begun[-1]

    yield start
    for server in begun:
        if server.process.poll() is None:
            server.end()
        nobody_left(server.home)


sys.path.insert(0, str(pathlib.Path(__file__).parent))
