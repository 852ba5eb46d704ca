"""Starting and following runs, with a server and without; idempotent starts; events."""
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from conftest import PATIENCE, TOUCH, bug, until
from served import ECHO, TOLD, Server, published

SLOW = "import time\ndef main(ms=300, v=1):\n    time.sleep(ms / 1000)\n    return v\n"
EVENT = "steps:\n  - {id: a, wait: {event: go}}\n  - {id: b, wait: {event: go}}\noutputs: {a: $a.output, b: $b.output}\n"


@pytest.fixture
def slow(home):
    home.script("slow", SLOW)
    published(home, "w", "inputs: {v: {type: integer, default: 1}}\nsteps: [{id: a, script: slow, args: {v: $inputs.v}}]\noutputs: {v: $a.output}\n")
    return home


# Starting

def test_never_published(home):
    home.script("echo", ECHO)
    home.workflow("w", "steps: [{id: a, script: echo}]\n")
    for served in (False, True):
        server = Server(home) if served else None
        done = home.run("run", "start", "w", code=3)
        assert "never published" in done.err and "viat workflow publish w" in done.err
        assert "publish" in home.run("run", "start", "w", "--wait", "--json", code=3).err
        if server:
            assert "viat workflow publish w" in server.post("/api/v1/runs", {"workflow": "w"}).problem(409)
    assert home.runs() == []
    assert home.run("run", "start", "w", "--version", "1", "--wait", code=0).out == "{}\n"


def test_refusals_are_the_same_with_and_without_a_server(slow):
    cases = [(("w", "--input", '{"v": "x"}'), 2, "v"), (("w", "--input", '{"u": 1}'), 2, "u"), (("w", "--input", "[]"), 2, ""), (("w", "--input", "{"), 2, "JSON"),
             (("w", "--version", "7"), 3, "version 7"), (("ww",), 3, "no workflow ww"), (("w", "--timeout", "soon"), 2, "--timeout"), (("w", "--timeout", "-1"), 2, "")]
    alone = [slow.run("run", "start", *args, code=code).err for args, code, _ in cases]
    Server(slow)
    for (args, code, word), before in zip(cases, alone):
        done = slow.run("run", "start", *args, code=code)
        assert word in done.err and done.err == before, (done, before)
    assert slow.runs() == []


def versions_and_budgets(home):
    home.script("slow", SLOW)
    for n in (1, 2, 3):
        home.workflow("w", f"steps: [{{id: a, script: slow, args: {{v: {n}, ms: 1}}}}, {{id: b, script: slow, args: {{ms: 300}}}}]\noutputs: {{v: $a.output}}\n")
    home.run("workflow", "publish", "w", "--version", "2", code=0)
    server = Server(home)
    assert home.run("run", "start", "w", "--wait", code=0).out == '{"v":2}\n'
    assert home.run("run", "start", "w", "--wait", "--version", "1", code=0).out == '{"v":1}\n'
    assert server.ended(server.begin("w", version=3))["outputs"] == {"v": 3}
    done = home.run("run", "start", "w", "--wait", "--timeout", "PT0.15S", "--json", code=1).data()
    assert done["status"] == "failed" and done["error"]["code"] == "deadline_exceeded" and done["deadline"]
    zero = server.ended(server.begin("w", timeout=0))
    assert zero["error"]["code"] == "deadline_exceeded" and zero["attempts"] == []
    assert server.ended(server.begin("w", timeout="PT0.15S"))["error"]["code"] == "deadline_exceeded"
    assert server.ended(server.begin("w", timeout="PT1H"))["status"] == "succeeded"


def test_a_budget_goes_on_while_nobody_serves(slow):
    run = slow.run("run", "start", "w", "--timeout", "PT0.3S", "--json", code=0).data()["id"]
    time.sleep(0.4)
    record = Server(slow).ended(run)
    assert record["error"]["code"] == "deadline_exceeded" and record["attempts"] == []


def test_wait_and_watch(slow):
    server = Server(slow)
    run = server.begin("w", {"v": 5})
    watchers = [slow.start("run", "watch", run, *more) for more in ((), ("--json",), ())]
    outs = [(watcher.communicate(timeout=PATIENCE), watcher.returncode) for watcher in watchers]
    assert [code for _, code in outs] == [0, 0, 0]
    assert outs[0][0][0] == b'{"v":5}\n' == outs[2][0][0] and b'"status":"succeeded"' in outs[1][0][0]
    assert slow.run("run", "watch", run, code=0).out == '{"v":5}\n', "a run that has ended"
    slow.run("run", "watch", "01a0", code=3)
    slow.script("slow", "def main(ms=0, v=1):\n    raise ValueError('no')\n")
    failed = server.begin("w")
    done = slow.run("run", "watch", failed, code=1)
    assert "ValueError" in done.err and done.out == ""
    assert slow.run("run", "start", "w", "--wait", "--json", code=1).data()["error"]["code"] == "ValueError"


def test_watch_of_a_cancelled_run_and_of_one_whose_server_dies(home):
    home.script("told", TOLD)
    published(home, "w", "steps: [{id: a, script: told}]\n")
    server = Server(home)
    run = server.begin("w")
    watcher = home.start("run", "watch", run)
    until(home.trace, "it runs")
    server.restart()
    record = server.ended(run)
    _, err = watcher.communicate(timeout=PATIENCE)
    assert watcher.returncode == 1 and record["error"]["code"] == "interrupted" and b"interrupted" in err
    other = server.begin("w")
    watcher = home.start("run", "start", "w", "--wait")
    until(lambda: home.trace().count("begin") == 3, "both run")
    for row in home.runs():
        if not row["ended_at"]:
            server.cancel(row["id"])
    assert watcher.wait(PATIENCE) == 1 and server.ended(other)["status"] == "cancelled"


def test_a_signal_to_wait_leaves_the_run_to_the_server(slow):
    server = Server(slow)
    process = slow.start("run", "start", "w", "--wait")
    run = until(slow.runs, "it is there")[0]["id"]
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=PATIENCE)
    assert process.returncode != 0
    assert server.ended(run)["status"] == "succeeded"


# Idempotency-Key

def test_idempotency_keys(slow):
    server = Server(slow)
    key = {"idempotency-key": "order-1"}
    with ThreadPoolExecutor(16) as seats:
        answers = list(seats.map(lambda _: server.post("/api/v1/runs", {"workflow": "w", "inputs": {"v": 3}}, key), range(16)))
    assert sorted({answer.status for answer in answers}) == [200, 201] and [answer.status for answer in answers].count(201) == 1, answers
    run, = {answer.data()["id"] for answer in answers}
    assert "another request" in server.post("/api/v1/runs", {"workflow": "w", "inputs": {"v": 4}}, key).problem(409)
    assert server.ended(run)["outputs"] == {"v": 3}
    server.restart()
    again = server.post("/api/v1/runs", {"workflow": "w", "inputs": {"v": 3}}, key)
    assert (again.status, again.data()["id"]) == (200, run) and again.headers["location"].endswith(run)
    assert server.post("/api/v1/runs", {"workflow": "w", "inputs": {"v": 3}}, {"idempotency-key": "order-2"}).data()["id"] != run
    for bad in ("", "x" * 257):
        server.post("/api/v1/runs", {"workflow": "w"}, {"idempotency-key": bad}).problem(400)
    # a request that was refused has not used its key
    server.post("/api/v1/runs", {"workflow": "w", "inputs": {"v": "x"}}, {"idempotency-key": "order-3"}).problem(422)
    assert server.post("/api/v1/runs", {"workflow": "w"}, {"idempotency-key": "order-3"}).status == 201
    assert len(slow.runs()) == 3


def test_a_key_still_answers_when_the_workflow_has_gone(slow):
    server = Server(slow)
    key = {"idempotency-key": "k"}
    run = server.post("/api/v1/runs", {"workflow": "w"}, key).data()["id"]
    slow.run("workflow", "delete", "w", code=0)
    assert server.post("/api/v1/runs", {"workflow": "w"}, key).data()["id"] == run
    assert server.ended(run)["status"] == "succeeded"


# Events

@pytest.fixture
def events(home):
    home.script("slow", SLOW)
    published(home, "w", EVENT)
    published(home, "late", "steps: [{id: s, script: slow}, {id: a, wait: {event: go}}]\noutputs: {a: $a.output}\n")
    published(home, "timed", "steps: [{id: a, wait: {event: go, timeout: PT0.2S}}, {id: b, wait: {event: go, timeout: PT1H}}]\noutputs: {a: $a.output, b: $b.output}\n")
    return home


def test_events_before_during_and_in_order(events):
    server = Server(events)
    run = server.begin("late")
    events.run("event", "send", "go", "--run", run, "--data", '{"n": [1, null]}', code=0)
    assert server.ended(run)["outputs"] == {"a": {"n": [1, None]}}, "sent before the wait was reached"
    run = server.begin("w")
    server.reaches(run, "waiting")
    server.send(run, "other", 0)
    server.send(run, "go", 1)
    until(lambda: server.show(run)["status"] == "waiting", "it waits for the second")
    server.send(run, "go", 2)
    assert server.ended(run)["outputs"] == {"a": 1, "b": 2}
    run = server.begin("w")
    for n in (1, 2):
        server.send(run, "go", n)
    assert server.ended(run)["outputs"] == {"a": 1, "b": 2}
    assert "ended" in events.run("event", "send", "go", "--run", run, code=3).err
    server.post(f"/api/v1/runs/{run}/events", {"name": "go"}).problem(409)
    events.run("event", "send", "go", "--run", "01a0", code=3)


def test_a_timeout_that_passes_first(events):
    server = Server(events)
    run = server.begin("timed")
    until(lambda: server.show(run)["status"] == "waiting", "waiting")
    time.sleep(0.5)
    server.send(run, "go", "late")
    assert server.ended(run)["outputs"] == {"a": None, "b": "late"}


def test_events_across_restarts(events):
    server = Server(events)
    runs = [server.begin("w") for _ in range(5)]
    for run in runs:
        server.send(run, "go", run)
    server.restart()
    for run in runs:
        server.send(run, "go", "after")
        assert server.ended(run)["outputs"] == {"a": run, "b": "after"}


def test_events_without_a_server(events):
    server = Server(events)
    run = server.begin("w")
    server.reaches(run, "waiting")
    server.kill()
    for n in (1, 2):
        done = events.run("event", "send", "go", "--run", run, "--data", n, code=0)
        assert "no server" in done.err or events.show(run)["ended_at"]
    server.start()
    assert server.ended(run)["outputs"] == {"a": 1, "b": 2}


def test_an_event_to_a_queued_run_without_a_server(events):
    run = events.run("run", "start", "w", "--json", code=0).data()["id"]
    events.run("event", "send", "go", "--run", run, "--data", "1", code=0)
    server = Server(events)
    server.send(run, "go", 2)
    assert server.ended(run)["outputs"] == {"a": 1, "b": 2}


def an_event_without_a_server_starts_no_attempt(home):
    """It delivers the event; running the rest is for an engine that stays."""
    home.script("s", TOUCH + "import time\ndef main():\n    mark('begin')\n    time.sleep(1)\n    mark('done')\n    return 1\n")
    published(home, "w", "steps: [{id: a, wait: {event: go}}, {id: b, script: s}]\noutputs: {v: $b.output}\n")
    server = Server(home)
    run = server.begin("w")
    server.reaches(run, "waiting")
    server.kill()
    home.run("event", "send", "go", "--run", run, code=0)
    record = Server(home).ended(run)
    assert record["status"] == "succeeded", record
    assert home.trace() == ["begin", "done"]


def test_a_name_that_is_empty(events):
    server = Server(events)
    run = server.begin("w")
    events.run("event", "send", "", "--run", run, code=2)
    server.post(f"/api/v1/runs/{run}/events", {"name": ""}).problem(422)


def test_many_events_at_once(home):
    published(home, "w", "inputs: {n: integer}\nsteps:\n  - id: l\n    loop:\n      over: [0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19]\n      steps: [{id: a, wait: {event: go}}]\noutputs: {v: $l.output}\n")
    server = Server(home)
    run = server.begin("w", {"n": 1})
    with ThreadPoolExecutor(8) as seats:
        list(seats.map(lambda n: server.send(run, "go", n), range(20)))
    assert sorted(server.ended(run)["outputs"]["v"]) == list(range(20))
