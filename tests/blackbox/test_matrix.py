"""Each language and each thing that a script can do or suffer: what becomes of it. The table is in docs/scripts.md.

| | python, javascript, typescript | shell | http |
|---|---|---|---|
| refusal | `user` | `user` | cannot: a status it does not expect is `exception` |
| death | `script_broken` | `script_broken` | of the other side: `transport` (of viat's own worker: test_classes.py) |
| huge log | head and tail | head and tail | has no output: one line a request, whatever the answer |
| defer | yes | yes | cannot: refused when it is created |
| many calls | 10,000 (TypeScript is JavaScript when it runs) | 1,000, for each is a process | 10,000 |
"""
import json
import re

import pytest

from conftest import Home, bug, end_all, nobody_left, processes_of, until, used
from dialects import ALL, FLOOD, TOO_MUCH, missing, touched
from remote import Remote

REFUSED = {"class": "user", "kind": "user", "code": "taken", "status": 409, "message": "größe 雪", "extra": {"by": [1]}}


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """A home for each language, made when it is asked for, and what `http` scripts talk to."""
    homes, remote = {}, Remote()

    def place(name):
        why = missing(name)
        if why:
            pytest.skip(why)
        if name not in homes:
            homes[name] = Home(tmp_path_factory.mktemp(name))
            later = "inputs: {n: integer}\nsteps: [{id: n, set: $inputs.n}]\noutputs: {n: $n.output}\n"
            homes[name].workflow("later", later)
            homes[name].run("workflow", "publish", "later", code=0)
        return homes[name]

    place.remote = remote
    yield place
    remote.end()
    for home in homes.values():
        end_all(home)


class Cell:
    """One language doing one thing."""

    def __init__(self, places, language):
        self.dialect, self.home, self.remote = ALL[language], places(language), places.remote
        self.remote.asked.clear()
        self.remote.left.clear()
        self.remote.go.clear()

    def make(self, what, more="", args="{}", outputs="$s.output", settings=()):
        self.dialect.create(self.home, what, getattr(self.dialect, what), settings, base=self.remote.base)
        self.home.workflow(what, f"inputs: {{value: {{required: false}}}}\nsteps: [{{id: s, script: {what}, args: {args}{more}}}]\noutputs: {{v: {outputs}}}\n")

    def record(self, what, *words, **parts):
        self.make(what, **parts)
        record = self.home.record(what, *words)
        nobody_left(self.home)
        return record

    def error(self, what, **parts):
        """How the only attempt failed."""
        record = self.record(what, **parts)
        assert record["status"] == "failed" and len(record["attempts"]) == 1, record
        return record["error"]


@pytest.fixture(params=list(ALL))
def cell(request, places):
    return Cell(places, request.param)


def test_a_value(cell):
    value = {"z": -3, "a": [0.5, True, None, ["x", {}]], "big": 2**53 - 1, "": ""}
    record = cell.record("echo", "--input", json.dumps({"value": value}), args="{value: $inputs.value}")
    assert json.dumps(record["outputs"]["v"]) == json.dumps(value)


def test_a_refusal(cell):
    if cell.dialect.name == "http":
        error = cell.error("throw")
        assert (error["class"], error["code"]) == ("exception", "http_409")
        assert (error["extra"]["status"], error["extra"]["body"]) == (409, {"by": [1]})
    else:
        error = cell.error("refuse")
        assert {key: error[key] for key in REFUSED} == REFUSED


def test_an_exception(cell):
    code = {"python": "KeyError", "shell": "exit_3", "http": "http_409"}.get(cell.dialect.name, "RangeError")
    error = cell.error("throw")
    assert (error["class"], error["kind"], error["code"], error["attempt"]) == ("exception", "runtime", code, 1)


def test_a_death_and_the_next_attempt(cell):
    retry = ", retry: {times: 1, initial_ms: 10, factor: 1.0, max_ms: 10}"
    record = cell.record("die_once", more=retry)
    died = "transport" if cell.dialect.name == "http" else "script_broken"
    assert [each["class"] for each in record["attempts"]] == [died, None] and record["outputs"] == {"v": "back"}, record


def test_a_timeout(cell):
    error = cell.error("hang", more=", timeout: PT0.5S")
    assert (error["class"], error["kind"], error["code"]) == ("timeout", "timeout", "timeout")


def test_a_cancel(cell, serve):
    file = cell.home.base / "begun"
    cell.make("heed", args=f"{{file: {file}}}")
    cell.home.run("workflow", "publish", "heed", code=0)
    server = serve(cell.home)
    run = server.begin("heed")
    until(lambda: touched(cell.remote, file), "it has begun")
    server.cancel(run)
    record = server.ended(run)
    assert (record["status"], record["error"]["class"]) == ("cancelled", "cancelled")
    assert [each["status"] for each in record["attempts"]] == ["cancelled"]
    assert ("given up" if cell.dialect.name == "http" else "heard") in cell.home.log(run)


def test_a_request_that_is_given_up_is_hung_up(places, serve):
    cell = Cell(places, "http")
    cell.make("heed", args="{file: none}")
    cell.home.run("workflow", "publish", "heed", code=0)
    server = serve(cell.home)
    run = server.begin("heed")
    until(lambda: touched(cell.remote, "none"), "it has begun")
    server.cancel(run)
    server.ended(run)
    assert cell.remote.left.wait(5)


def test_a_huge_output(cell):
    cell.make("big", args="{size: $inputs.value}", outputs="'${ size(s.output) }'")
    assert cell.home.record("big", "--input", f'{{"value": {8 << 20}}}')["outputs"] == {"v": 8 << 20}
    record = cell.home.record("big", "--input", f'{{"value": {TOO_MUCH}}}')
    error = record["error"]
    assert (error["class"], error["code"]) == ("invalid_output", "invalid_output") and str(64 << 20) in error["message"], error
    nobody_left(cell.home)


def test_a_huge_log(cell):
    record = cell.record("flood", args=f"{{size: {FLOOD}}}", outputs="'${ size(s.output) }'")
    log = cell.home.log(record["id"])
    if cell.dialect.name == "http":
        assert record["outputs"] == {"v": FLOOD}
        assert re.fullmatch(rf"GET {cell.remote.base}/size/{FLOOD}: 200 in \d+ ms, {FLOOD} bytes\n", log), log
    else:
        assert record["outputs"] == {"v": len("through")}
        assert log.startswith("first\n") and "last 雪" in log[-100:] and "cut here" in log and len(log) < 1_100_000


def test_deferring(cell):
    if cell.dialect.name == "http":
        done = cell.dialect.create(cell.home, "defer", "url: @BASE@/echo\ndefer: {workflow: later}\n", code=2, base=cell.remote.base)
        assert ".yaml:2:1" in done.err and "a request template has no defer" in done.err, done
        return
    record = cell.record("defer")
    assert record["status"] == "succeeded", record
    begun, = record["deferred"]
    assert cell.home.run("run", "resume", begun["run"], code=0).out == '{"n":1}\n', begun


def test_unicode(cell):
    value = {"größe": "雪 😀 \u2028 \u200f é e\u0301 \u0000 \x7f"}
    record = cell.record("echo", "--input", json.dumps({"value": value}), args="{value: $inputs.value}")
    assert record["outputs"] == {"v": value}


# Calls in a round, of which there are ten.
ROUND = {"python": 1000, "javascript": 1000, "shell": 100, "http": 1000}
OWN_PID = {
    "python": "import os\ndef main(value):\n    print(value)\n    return os.getpid()\n",
    # what is garbage is no leak
    "javascript": "import v8 from 'node:v8';\nimport vm from 'node:vm';\nv8.setFlagsFromString('--expose-gc');\nconst gc = vm.runInNewContext('gc');\nlet calls = 0;\n"
                  "export default (args) => { console.log(args.value); if (++calls % 500 === 0) gc(); return process.pid; };\n",
    "shell": "cat >&2\necho $PPID\n",
    "http": ALL["http"].echo,
}
LOOP = """
inputs: {value: {}}
steps:
  - id: l
    loop: {while: "${ iteration.index < COUNT }", max_iterations: 1000, steps: [{id: a, script: NAME, args: {value: $inputs.value}}]}
outputs: {last: "${ l.output[COUNT - 1] }"}
"""


def workers_now(home, pids):
    """The process that each language's calls are made in."""
    http, = [pid for pid, command in processes_of(home) if "--worker http" in command]
    return {**{name: pid for name, pid in pids.items() if name != "http"}, "http": http}


def test_many_calls_leak_nothing(light, places, serve):
    """Ten rounds of calls one after another, each language in a worker of its own: what is held after the first is held after the last."""
    if missing("javascript"):
        pytest.skip(missing("javascript"))
    for name in ROUND:
        ALL[name].create(light, name, OWN_PID[name], ["[tool.viat]", "pool = {max = 1, recycle_after = 100000}"], base=places.remote.base)
        light.workflow(name, LOOP.replace("COUNT", str(ROUND[name])).replace("NAME", name))
        light.run("workflow", "publish", name, code=0)
    server = serve(light)
    looks = []
    for turn in range(10):
        runs = {name: server.begin(name, {"value": {"pad": "p" * 1000}}) for name in ROUND}
        records = {name: server.ended(run) for name, run in runs.items()}
        assert {record["status"] for record in records.values()} == {"succeeded"}, str(records)[:2000]
        if turn in (0, 9):
            pids = {**workers_now(light, {name: record["outputs"]["last"] for name, record in records.items()}), "engine": server.process.pid}
            looks.append({name: (pid, *used(pid)) for name, pid in pids.items()})
    for name, (pid, memory, _, files) in looks[0].items():
        last_pid, last_memory, _, last_files = looks[1][name]
        between = 9 * ROUND.get(name, sum(ROUND.values()))
        assert last_pid == pid, f"{name}: another process"
        # a kibibyte a call would be more
        assert last_memory - memory < between, f"{name}: {memory} KiB became {last_memory}"
        assert last_files - files < 8, f"{name}: {files} files became {last_files}"
