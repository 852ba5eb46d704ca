"""Cancel, in whatever state a run is: nothing new begins, what runs is told and then ended, nothing undoes it."""
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from conftest import TOUCH, bug, nobody_left, until
from served import CANCEL_BOUND, ECHO, TOLD, Server, published

DIES = TOUCH + "import os\ndef main():\n    mark('dies')\n    os._exit(1)\n"
RETRY = "retry: {times: 5, initial_ms: 60000, factor: 1.0, max_ms: 60000}"
AFTER = "  - {id: after, script: echo}\n"
# What the run does when it is cancelled, and what shows that it has got there.
STATES = {
    "running": (f"steps:\n  - {{id: a, script: told}}\n{AFTER}", "begin"),
    "retry_wait": (f"steps:\n  - {{id: a, script: dies, {RETRY}}}\n{AFTER}", "dies"),
    "wait_for": (f"steps:\n  - {{id: a, wait: {{for: PT1H}}}}\n{AFTER}", None),
    "wait_short": (f"steps:\n  - {{id: a, wait: {{for: PT9S}}}}\n{AFTER}", None),
    "wait_until": (f"steps:\n  - {{id: a, wait: {{until: '2999-01-01T00:00:00Z'}}}}\n{AFTER}", None),
    "wait_event": (f"steps:\n  - {{id: a, wait: {{event: never}}}}\n{AFTER}", None),
    "parallel": (f"steps:\n  - id: p\n    parallel:\n      branches:\n        l: [{{id: a, script: told}}]\n        r: [{{id: b, wait: {{for: PT1H}}}}]\n        s: [{{id: c, script: dies, {RETRY}}}]\n      on_failure: wait\n{AFTER}", "begin"),
    "loop": (f"steps:\n  - id: l\n    loop:\n      over: [1, 2, 3, 4]\n      concurrency: 2\n      max_failures: 4\n      steps: [{{id: a, script: told}}]\n{AFTER}", "begin"),
    "sub": (f"steps:\n  - {{id: s, workflow: called}}\n{AFTER}", "begin"),
    "sub_wait": (f"steps:\n  - {{id: s, workflow: callwait}}\n{AFTER}", None),
    "if": (f"steps:\n  - id: i\n    if: true\n    then: [{{id: a, script: told}}]\n{AFTER}", "begin"),
    "continue": (f"steps:\n  - {{id: a, script: told, on_error: continue, retry: {{times: 5, initial_ms: 10, factor: 1.0, max_ms: 10}}}}\n{AFTER}", "begin"),
    "catch": (f"steps:\n  - {{id: a, script: told, on_error: {{catch: [{{id: c, script: echo}}]}}}}\n{AFTER}", "begin"),
    "in_catch": (f"steps:\n  - {{id: a, script: raises, on_error: {{catch: [{{id: c, script: told, on_error: continue}}]}}}}\n{AFTER}", "begin"),
    "deaf": (f"steps:\n  - {{id: a, script: deaf, on_error: continue}}\n{AFTER}", "begin"),
}
DEAF = TOUCH + """
import os, signal, subprocess, time
def main():
    for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)
    # as hard to find as can be: another session, no environment, another folder
    subprocess.Popen(["/bin/sh", "-c", "trap '' TERM HUP INT; (echo daemon:$$ >> %s); n=0; while [ $n -lt 600 ]; do n=$((n+1)); sleep 0.1; done" % os.environ["TRACE"]],
                     env={}, cwd="/", start_new_session=True)
    mark("begin")
    mark("worker:%d" % os.getpid())
    while True:
        time.sleep(1)
"""


def equipped(home, *names):
    """With the workflows of these names, or with all."""
    home.script("echo", TOUCH + ECHO.replace("def main(v=None):\n", "def main(v=None):\n    mark('echo')\n"))
    home.script("told", TOLD)
    home.script("dies", DIES)
    home.script("deaf", DEAF)
    home.script("raises", "def main():\n    raise ValueError('x')\n")
    if not names or any(name.startswith("sub") for name in names):
        published(home, "called", "steps: [{id: a, script: told}, {id: b, script: echo}]\n")
        published(home, "callwait", "steps: [{id: a, wait: {for: PT1H}}, {id: b, script: echo}]\n")
    for name in names or STATES:
        published(home, name, STATES[name][0])
    return home


def gone(pid):
    try:
        return open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def get_there(home, server, name, run, before):
    sign = STATES[name][1]
    if sign:
        until(lambda: home.trace().count(sign) > before.count(sign), f"{name} gets to {sign}")
        if name == "retry_wait":
            until(lambda: [each["status"] for each in server.show(run)["attempts"]] == ["failed"], "it waits for the next attempt")
    else:
        server.reaches(run, "waiting")


def test_in_every_state(home):
    """One run after the other, so that each one's signs are its own; the deaf one is of a test below."""
    equipped(home)
    server = Server(home)
    for name in [name for name in STATES if name != "deaf"]:
        before = home.trace()
        run = server.begin(name)
        get_there(home, server, name, run, before)
        home.run("run", "cancel", run, "--by", "me", "--reason", "enough", code=0)
        record = server.ended(run, CANCEL_BOUND)
        assert record["status"] == "cancelled" and record["outputs"] is None, (name, record)
        assert all(each["status"] in ("cancelled", "failed") for each in record["attempts"]), (name, record)
        assert all(each["step"] != "after" for each in record["attempts"]) and record["ended_at"], (name, record)
        if name in ("running", "parallel", "loop", "sub", "if", "continue", "catch", "in_catch"):
            assert "cancelled" in [each["status"] for each in record["attempts"]], (name, record)
            until(lambda: "told" in home.trace()[len(before):], f"{name}: the script was told")
        again = home.run("run", "cancel", run, code=3)
        assert "ended" in again.err
    assert "echo" not in home.trace(), "nothing began after a cancel"
    nobody = server.end()
    assert "panic" not in nobody
    nobody_left(home)


def test_queued_without_a_server(home):
    equipped(home, "running")
    run = home.run("run", "start", "running", "--json", code=0).data()["id"]
    assert home.show(run)["status"] == "queued"
    home.run("run", "cancel", run, code=0)
    record = home.show(run)
    assert record["status"] == "cancelled" and record["attempts"] == []
    home.run("run", "cancel", run, code=3)
    server = Server(home)
    time.sleep(0.3)
    assert server.show(run) == record and home.trace() == []


def test_waiting_without_a_server(home):
    equipped(home, "wait_for", "wait_event", "retry_wait", "sub_wait")
    server = Server(home)
    runs = {name: server.begin(name) for name in ("wait_for", "wait_event", "retry_wait", "sub_wait")}
    for name, run in runs.items():
        get_there(home, server, name, run, [])
    server.kill()
    for name, run in runs.items():
        home.run("run", "cancel", run, code=0)
        assert home.show(run)["status"] == "cancelled", name
    server.start()
    assert {server.show(run)["status"] for run in runs.values()} == {"cancelled"}


def test_running_when_the_server_died(home):
    """The attempt is over, uncertain; the run is cancelled, not failed, and nothing of it lives."""
    equipped(home, "deaf")
    server = Server(home)
    run = server.begin("deaf")
    until(lambda: "begin" in home.trace() and any(word.startswith("daemon") for word in home.trace()), "it runs")
    server.kill()
    home.run("run", "cancel", run, code=0)
    record = home.show(run)
    assert record["status"] in ("cancelled", "failed"), record
    pids = [word.split(":")[1] for word in home.trace() if ":" in word]
    until(lambda: all(map(gone, pids)), "the worker and its daemon are gone", 15)
    nobody_left(home)


def a_deaf_script_goes_with_its_daemons(home):
    equipped(home, "deaf")
    server = Server(home)
    run = server.begin("deaf")
    pids = until(lambda: len(found := [word.split(":")[1] for word in home.trace() if ":" in word]) == 2 and found, "it runs")
    server.cancel(run)
    assert server.post(f"/api/v1/runs/{run}/cancel", {}).status == 202, "twice is once"
    assert server.show(run)["status"] != "cancelled", "it is cancelled when it is dead, not before"
    record = server.ended(run, CANCEL_BOUND)
    assert all(map(gone, pids)), "recorded only when it is really dead"
    assert record["status"] == "cancelled" and [each["status"] for each in record["attempts"]] == ["cancelled"]
    server.end()
    nobody_left(home)


def test_the_server_dies_while_it_cancels(home):
    equipped(home, "deaf")
    server = Server(home)
    run = server.begin("deaf")
    pids = until(lambda: len(found := [word.split(":")[1] for word in home.trace() if ":" in word]) == 2 and found, "it runs")
    server.cancel(run)
    time.sleep(0.3)
    server.restart()
    record = server.ended(run, 20)
    assert record["status"] == "cancelled", record
    assert all(map(gone, pids)) and "echo" not in home.trace()
    assert len(record["attempts"]) == 1
    server.end()
    nobody_left(home)


def test_an_impatient_crowd(home):
    """Sixteen cancels at once: each is taken or hears that the run has ended."""
    equipped(home, "running")
    server = Server(home)
    run = server.begin("running")
    until(home.trace, "it runs")
    with ThreadPoolExecutor(16) as seats:
        answers = list(seats.map(lambda _: server.post(f"/api/v1/runs/{run}/cancel", {"by": "crowd"}).status, range(16)))
    assert set(answers) <= {202, 409} and 202 in answers
    assert server.ended(run, CANCEL_BOUND)["status"] == "cancelled"
    assert len(server.show(run)["attempts"]) == 1


def test_cancel_against_the_last_result(home):
    """Whichever is first: one end, and it does not change any more."""
    home.script("s", "import time\ndef main(ms):\n    time.sleep(ms / 1000)\n    return 1\n")
    published(home, "w", "inputs: {ms: integer}\nsteps: [{id: a, script: s, args: {ms: $inputs.ms}}]\noutputs: {v: $a.output}\n")
    server = Server(home)
    server.ended(server.begin("w", {"ms": 0}))
    for ms in range(0, 24, 2):
        run = server.begin("w", {"ms": ms})
        time.sleep(0.012)
        status = server.post(f"/api/v1/runs/{run}/cancel", {}).status
        record = server.ended(run, CANCEL_BOUND)
        if status == 409:
            assert record["status"] == "succeeded"
        else:
            assert status == 202 and record["status"] == "cancelled" and record["outputs"] is None, record
        assert server.show(run) == record


def test_parked_run_after_a_restart(home):
    equipped(home, "wait_for", "wait_until", "wait_event", "sub_wait")
    server = Server(home)
    runs = [server.begin(name) for name in ("wait_for", "wait_until", "wait_event", "sub_wait")]
    for run in runs:
        server.reaches(run, "waiting")
    server.restart()
    for run in runs:
        server.cancel(run)
        assert server.ended(run, CANCEL_BOUND)["status"] == "cancelled"


def test_more_attempts_than_workers(home):
    """Some run, some wait for a worker."""
    equipped(home, "running")
    server = Server(home)
    runs = [server.begin("running") for _ in range(40)]
    until(lambda: "begin" in home.trace(), "some run")
    with ThreadPoolExecutor(8) as seats:
        list(seats.map(server.cancel, runs))
    records = [server.ended(run, 20) for run in runs]
    assert {record["status"] for record in records} == {"cancelled"}
    assert home.trace().count("begin") <= sum(len(record["attempts"]) for record in records)
    assert "echo" not in home.trace()


def test_a_cancel_that_is_confirmed_is_a_cancel(home):
    equipped(home, "running")
    server = Server(home)
    run = server.begin("running")
    until(home.trace, "it runs")
    server.kill()
    if home.run("run", "cancel", run).code == 0:
        assert home.show(run)["status"] == "cancelled"


# a race, so not strict
def test_a_cancel_that_is_confirmed_is_a_cancel_in_a_race(home):
    published(home, "w", "steps: [{id: a, wait: {event: go}}]\n")
    server = Server(home)
    with ThreadPoolExecutor(3) as seats:
        for _ in range(120):
            run = server.begin("w")
            other, go, cancel = [seats.submit(server.post, f"/api/v1/runs/{run}/{what}", body).result
                                 for what, body in (("events", {"name": "other"}), ("events", {"name": "go"}), ("cancel", {}))]
            other()
            go()
            answer = cancel().status
            status = server.ended(run)["status"]
            assert (answer, status) in ((202, "cancelled"), (409, "succeeded")), (answer, status)


def the_server_is_told_to_end_while_it_cancels(home):
    equipped(home, "deaf")
    server = Server(home)
    run = server.begin("deaf")
    until(lambda: "begin" in home.trace(), "it runs")
    server.cancel(run)
    server.process.send_signal(signal.SIGTERM)
    server.process.communicate(timeout=30)
    nobody_left(home)
    server.start()
    assert server.ended(run, 20)["status"] == "cancelled"
