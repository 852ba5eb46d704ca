"""Scripts that mean harm, on a server without a strict profile: the limits that docs/scripts.md names hold, and others are served all the while.

A trusted script runs as the user that viat runs as: what that user may read and signal, it may. So nothing here is secret, and what one
kills is started again. Every bomb here is bounded by its own text too, so that a limit that does not hold costs a test and not the machine.
"""
import os
import pathlib
import shutil
import subprocess
import time

import pytest

from conftest import Home, end_all, nobody_left, until
from dialects import ALL, missing
from served import Server


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """One server for all of this file: it has to outlast everything."""
    home = Home(tmp_path_factory.mktemp("trusted"))
    home.script("ping", "def main():\n    return 'pong'\n")
    home.workflow("ping", "steps: [{id: s, script: ping}]\noutputs: {v: $s.output}\n")
    home.run("workflow", "publish", "ping", code=0)
    place = Place(home)
    yield place
    if place.server.process.poll() is None:
        place.server.end()
    nobody_left(home)
    end_all(home)


class Place:
    def __init__(self, home):
        self.home, self.server, self.made = home, Server(home), 0

    def begin(self, language, text, settings=(), more="", **inputs):
        if missing(language):
            pytest.skip(missing(language))
        self.made += 1
        name = f"s{self.made}"
        ALL[language].create(self.home, name, text, ["[tool.viat]", *settings] if settings else ())
        args = ", ".join(f"{key}: $inputs.{key}" for key in inputs)
        declared = ", ".join(f"{key}: {{}}" for key in inputs)
        self.home.workflow(name, f"inputs: {{{declared}}}\nsteps: [{{id: s, script: {name}, args: {{{args}}}{more}}}]\noutputs: {{v: $s.output}}\n")
        self.home.run("workflow", "publish", name, code=0)
        return self.server.begin(name, inputs)

    def record(self, *words, **parts):
        """The run's record; meanwhile and afterwards others are served."""
        run = self.begin(*words, **parts)
        self.serves()
        record = self.server.ended(run)
        self.serves()
        return record

    def serves(self):
        assert self.server.ended(self.server.begin("ping"))["outputs"] == {"v": "pong"}

    def marks(self, file, count):
        """The numbers of processes that a script wrote down, once they are so many."""
        def read():
            pids = file.read_text().split() if file.exists() else []
            return len(pids) >= count and [int(pid) for pid in pids]
        return until(read, f"{count} have begun")


def alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def all_end(pids):
    until(lambda: not any(alive(pid) for pid in pids), f"these end: {[pid for pid in pids if alive(pid)]}")


# --- bombs

FORKS = {
    "python": "import os, time\ndef main(file):\n    for _ in range(9):\n        os.fork()\n        fd = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)\n        os.write(fd, f'{os.getpid()}\\n'.encode())\n        os.close(fd)\n    time.sleep(60)\n",
    "javascript": "import { spawn } from 'node:child_process';\nexport default async function main({ file }) {\n  for (let n = 0; n < 200; n++) spawn('sh', ['-c', 'echo $$ >> \"$0\"; exec sleep 60', file], { stdio: 'ignore', detached: true });\n"
                  "  await new Promise((done) => setTimeout(done, 60000));\n}\n",
    "shell": "n=0\nwhile [ $n -lt 200 ]; do\n  sh -c 'echo $$ >> \"$0\"; exec sleep 60' \"$VIAT_ARG_FILE\" &\n  n=$((n + 1))\ndone\nsleep 60\n",
}


@pytest.mark.parametrize("language", FORKS)
def test_a_fork_bomb(place, tmp_path, language):
    file = tmp_path / "pids"
    record = place.record(language, FORKS[language], ["limits = {processes = 16}"], file=str(file))
    error = record["error"]
    # where the kernel counts, a fork fails; elsewhere viat looks, and kills
    assert error["class"] == "script_broken" and "limits.processes" in error["message"] or error["class"] == "exception", error
    all_end({int(pid) for pid in file.read_text().split()})


def test_a_process_that_keeps_running_from_the_kill(place, tmp_path):
    """Each generation starts the next and ends: there is never a parent to be found by, nor a number to aim at."""
    file = tmp_path / "pids"
    text = """
import os, time
def main(file):
    if os.fork():
        while not os.path.exists(file): time.sleep(0.01)
        return 'gone'
    end = time.time() + 120
    while time.time() < end:
        if os.fork():
            os._exit(0)
        os.setsid()
        with open(file + '.new', 'w') as out: out.write(str(os.getpid()))
        os.rename(file + '.new', file)
        time.sleep(0.005)
    with open(file, 'w') as out: out.write('through')
    os._exit(0)
"""
    assert place.record("python", text, file=str(file))["outputs"] == {"v": "gone"}
    until(lambda: time.time() - os.stat(file).st_mtime > 1, "there is no further generation")
    assert file.read_text() != "through", "it ended by itself"


# With what the interpreter itself says when it is refused memory, if it is asked before viat or the kernel sees the tree grow.
BOMBS = {
    "python": ("MemoryError", "def main():\n    kept = []\n    for n in range(2048):\n        kept.append(b'x' * (1 << 20))\n"),
    "python's children": (None, "import subprocess, sys\ndef main():\n    each = [subprocess.Popen([sys.executable, '-c', \"import time\\nx = b'x' * (60 << 20)\\ntime.sleep(60)\"]) for _ in range(6)]\n    return [one.wait() for one in each]\n"),
    "javascript": ("RangeError", "export default () => {\n  const kept = [];\n  for (let n = 0; n < 2048; n++) kept.push(Buffer.alloc(1 << 20, 'x'));\n};\n"),
    "shell": ("exit_9", "awk 'BEGIN { x = \"x\"; for (n = 0; n < 29; n++) x = x x }' || exit 9\n"),
}


@pytest.mark.parametrize("which", BOMBS)
def test_a_memory_bomb(place, which):
    refused, text = BOMBS[which]
    error = place.record(which.partition("'")[0], text, ["limits = {memory = '192 MiB'}"])["error"]
    if error["class"] == "exception":
        assert error["code"] == refused, error
    else:
        assert error["class"] == "script_broken" and ("192 MiB (limits.memory)" in error["message"] or "SIGKILL" in error["message"]), error


def test_a_full_disk(tmp_path):
    """What an attempt wrote in its folder is removed after it, and the server goes on; a limit on it there is none."""
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "none", small], capture_output=True).returncode:
        pytest.skip("mounting is not permitted here")
    home = Home(tmp_path, small / "home")
    try:
        home.script("ping", "def main():\n    return 'pong'\n")
        home.workflow("ping", "steps: [{id: s, script: ping}]\noutputs: {v: $s.output}\n")
        home.run("workflow", "publish", "ping", code=0)
        place = Place(home)
        fill = "def main():\n    with open('all', 'wb', buffering=0) as file:\n        for _ in range(64):\n            file.write(b'x' * (1 << 20))\n"
        record = place.record("python", fill)
        assert (record["error"]["class"], record["error"]["code"]) == ("exception", "OSError"), record
        until(lambda: shutil.disk_usage(small).free > 8 << 20, "its files are removed")
        place.serves()
        place.server.end()
    finally:
        end_all(home)
        subprocess.run(["umount", "-l", small], check=True)


# --- escapes

# Another session, nothing of viat's in the environment, another folder, no parent.
RUNAWAY = "setsid env -i sh -c 'cd /; echo $$ >> {file}; trap \"\" TERM HUP; while :; do sleep 1; done' < /dev/null > /dev/null 2>&1 &"
ESCAPES = {
    "python": "import os, time\ndef main(file, wait):\n    os.system({command!r})\n    while not os.path.exists(file): time.sleep(0.01)\n    time.sleep(wait)\n    return 'through'\n",
    "javascript": "import fs from 'node:fs';\nimport {{ execSync }} from 'node:child_process';\nconst nap = (ms) => new Promise((done) => setTimeout(done, ms));\n"
                  "export default async ({{ file, wait }}) => {{\n  execSync({command!r});\n  while (!fs.existsSync(file)) await nap(10);\n  await nap(wait * 1000);\n  return 'through';\n}};\n",
    "shell": "{command}\nwhile [ ! -e \"$VIAT_ARG_FILE\" ]; do sleep 0.01; done\nsleep \"$VIAT_ARG_WAIT\"\necho through\n",
}


@pytest.mark.parametrize("wait", [0, 60], ids=["returns", "cancelled"])
@pytest.mark.parametrize("language", ESCAPES)
def test_no_child_escapes(place, tmp_path, language, wait):
    file = tmp_path / "pids"
    command = RUNAWAY.format(file=file)
    text = ESCAPES[language].format(command=command)
    run = place.begin(language, text, file=str(file), wait=wait)
    pids = place.marks(file, 1)
    if wait:
        assert alive(pids[0])
        place.server.cancel(run)
    record = place.server.ended(run)
    assert (record["status"], record["outputs"]) == (("cancelled", None) if wait else ("succeeded", {"v": "through"})), record
    all_end(pids)
    place.serves()


# --- the protocol

FORGED = b'\x00\x00\x00\x05r{"value":666}' * 10
GARBAGE = {
    "python": f"import os\ndef main():\n    for fd in os.listdir('/proc/self/fd'):\n        try:\n            os.write(int(fd), {FORGED!r})\n        except OSError:\n            pass\n    return 'honest'\n",
    "javascript": "import fs from 'node:fs';\nexport default () => {\n  for (const fd of fs.readdirSync('/proc/self/fd')) {\n    let kind;\n    try { kind = fs.readlinkSync('/proc/self/fd/' + fd); } catch { continue; }\n"
                  "    if (/^(pipe|socket)/.test(kind)) try { fs.writeSync(+fd, Buffer.from('\\0\\0\\0\\x05r{\"value\":666}'.repeat(10), 'latin1')); } catch {}\n  }\n  return 'honest';\n};\n",
    "shell": "for fd in 3 4 5 6 7 8 9; do\n  (eval \"printf '\\\\000\\\\000\\\\000\\\\005r{\\\"value\\\":666}' >&$fd\") 2> /dev/null\ndone\necho honest\n",
}


@pytest.mark.parametrize("language", GARBAGE)
def test_forged_words_into_every_descriptor(place, language):
    record = place.record(language, GARBAGE[language])
    honest = record["status"] == "succeeded" and record["outputs"] == {"v": "honest"}
    assert honest or language != "shell" and record["error"]["class"] == "script_broken", record


# --- others' workers

KILLER = "import os, signal\ndef main(pid):\n    os.kill(pid, signal.SIGKILL)\n    return 'killed'\n"
VICTIM = "import os, time, viat\ndef main(file):\n    if viat.context.attempt > 1:\n        return 'again'\n    with open(file, 'w') as out: out.write(f'{os.getpid()} {os.getppid()}')\n    time.sleep(60)\n"


@pytest.mark.parametrize("which", ["worker", "guardian"])
def test_a_neighbours_worker_is_killed(place, tmp_path, which):
    file = tmp_path / "pids"
    run = place.begin("python", VICTIM, more=", retry: {times: 1, initial_ms: 10, factor: 1.0, max_ms: 10}", file=str(file))
    pids = place.marks(file, 2)
    killed = place.record("python", KILLER, pid=pids[which == "guardian"])
    assert killed["outputs"] == {"v": "killed"}
    record = place.server.ended(run)
    assert [each["class"] for each in record["attempts"]] == ["script_broken", None] and record["outputs"] == {"v": "again"}, record
    all_end(pids)


def test_a_script_that_kills_its_own_guardian(place, tmp_path):
    file = tmp_path / "pids"
    text = "import os, time\ndef main(file):\n    with open(file, 'w') as out: out.write(f'{os.getpid()} {os.getppid()}')\n    os.kill(os.getppid(), 9)\n    time.sleep(60)\n"
    record = place.record("python", text, file=str(file))
    assert record["error"]["class"] == "script_broken", record
    all_end(place.marks(file, 2))
