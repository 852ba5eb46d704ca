"""Waits: in memory and parked, across deaths of the server, and what they cost."""
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone

from conftest import bug, until
from served import ECHO, EFFECT, TOLD, Server, published

THEN = "\n  - {id: after, script: echo, args: {v: $w.output}}\noutputs: {v: $after.output}\n"


def in_seconds(seconds):
    return (datetime.now(timezone.utc) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parked_waits_fire_events_reach_them_cancels_end_them(home):
    """Everything that takes more than ten seconds, at once."""
    home.script("echo", ECHO)
    home.script("effect", EFFECT)
    published(home, "sleep", "steps:\n  - {id: e, script: effect}\n  - {id: w, wait: {for: PT12S}}" + THEN)
    published(home, "until", "inputs: {at: string}\nsteps:\n  - {id: w, wait: {until: $inputs.at}}" + THEN)
    published(home, "event", "steps:\n  - {id: w, wait: {event: go, timeout: PT1H}}" + THEN)
    published(home, "timed", "steps:\n  - {id: w, wait: {event: go, timeout: PT11.5S}}" + THEN)
    published(home, "beside", "steps:\n  - id: p\n    parallel:\n      branches:\n        l: [{id: w, wait: {event: go}}]\n        r: [{id: x, wait: {for: PT11.5S}}]" + THEN)
    server = Server(home)
    begun = time.time()
    runs = {name: server.begin(name) for name in ("sleep", "event", "timed", "beside")}
    runs["until"] = server.begin("until", {"at": in_seconds(11.5)})
    budget = server.begin("event", timeout="PT12S")
    runs["sleep2"], runs["event2"], runs["sleep3"] = server.begin("sleep"), server.begin("event"), server.begin("sleep")
    for run in runs.values():
        server.reaches(run, "waiting")
    server.restart()
    for run in runs.values():
        server.reaches(run, "waiting")
    server.send(runs["event"], "go", {"paid": 1})
    assert server.ended(runs["event"])["outputs"] == {"v": {"paid": 1}}
    server.cancel(runs["sleep2"])
    assert server.ended(runs["sleep2"])["status"] == "cancelled"
    server.send(runs["beside"], "go", 5)
    server.kill()
    home.run("event", "send", "go", "--run", runs["event2"], "--data", '"alone"', code=0)
    home.run("run", "cancel", runs["sleep3"], code=0)
    server.start()
    assert server.ended(runs["event2"])["outputs"] == {"v": "alone"}
    server.restart()
    for name, value in (("sleep", None), ("until", None), ("timed", None), ("beside", 5)):
        record = server.ended(runs[name])
        assert record["status"] == "succeeded" and record["outputs"] == {"v": value}, (name, record)
    assert server.ended(budget)["error"]["code"] == "deadline_exceeded", "a budget ends a run that is not in memory"
    assert time.time() >= begun + 11.4, "no wait is over before its time"
    assert sum(word.startswith("begin:e") for word in home.trace()) == 3, "what is done before a wait is not done again"


def three_hundred_sleepers_and_a_restart(home):
    home.script("echo", ECHO)
    published(home, "w", "inputs: {at: string}\nsteps:\n  - {id: w, wait: {until: $inputs.at}}\n  - {id: a, script: echo, args: {v: 1}}\noutputs: {v: $a.output}\n")
    server = Server(home)
    at = in_seconds(3)
    with ThreadPoolExecutor(8) as seats:
        runs = list(seats.map(lambda _: server.begin("w", {"at": at}), range(300)))
    server.restart()
    until(lambda: all(row["ended_at"] for row in home.runs()), "all have ended")
    assert {row["status"] for row in home.runs()} == {"succeeded"} and len(runs) == len(home.runs())


def test_a_wait_that_fell_due_while_nobody_served(home):
    published(home, "w", "steps: [{id: w, wait: {for: PT0.5S}}]\noutputs: {v: $w.output}\n")
    server = Server(home)
    run = server.begin("w")
    server.reaches(run, "waiting")
    server.kill()
    time.sleep(0.7)
    server.start()
    assert server.ended(run)["outputs"] == {"v": None}


def the_default_deadline_counts_no_waiting(home):
    home.script("echo", ECHO)
    published(home, "w", "steps: [{id: a, script: echo}, {id: w, wait: {for: PT1.5S}}, {id: b, script: echo}, {id: v, wait: {event: go}}, {id: c, script: echo, args: {v: 1}}]\noutputs: {v: $c.output}\n")
    server = Server(home, env={"VIAT_EXECUTION_DEADLINE_SECONDS": "1"})
    run = server.begin("w")
    server.reaches(run, "waiting")
    server.restart()
    until(lambda: len(server.show(run)["attempts"]) == 2 and server.show(run)["status"] == "waiting", "the second wait")
    time.sleep(1.2)
    server.send(run, "go")
    assert server.ended(run)["outputs"] == {"v": 1}


def the_default_deadline_counts_retries_and_work(home):
    home.script("dies", "import os\ndef main():\n    os._exit(1)\n")
    home.script("slow", TOLD)
    published(home, "retry", "steps: [{id: a, script: dies, on_error: continue, retry: {times: 10, initial_ms: 300, factor: 1.0, max_ms: 300, jitter: false}}]\n")
    published(home, "work", "steps: [{id: a, script: slow, on_error: continue}]\n")
    server = Server(home, env={"VIAT_EXECUTION_DEADLINE_SECONDS": "1.2"})
    runs = [server.begin("retry"), server.begin("work")]
    retry, work = map(server.ended, runs)
    assert work["error"]["code"] == "deadline_exceeded" and work["attempts"][0]["status"] == "cancelled"
    assert 1 < len(retry["attempts"]) < 8
    # On a busy machine the budget may also be over while an attempt that still fitted is being started.
    assert retry["attempts"][-1]["decision"] is None or retry["attempts"][-1]["decision"].get("reason") in ("would_overrun_deadline", None), retry["attempts"][-1]


def test_fast_forward_passes_waits_retries_and_timeouts(home):
    home.script("dies", "import os, viat\ndef main():\n    if viat.context.attempt < 4:\n        os._exit(1)\n    return viat.context.attempt\n")
    home.script("echo", ECHO)
    home.workflow("w", """
        steps:
          - {id: a, wait: {for: P3D}}
          - {id: b, script: dies, retry: {times: 5, initial_ms: 60000, factor: 1.0, max_ms: 60000}}
          - {id: c, wait: {event: never, timeout: P1D}}
          - {id: d, wait: {until: '2999-01-01T00:00:00Z'}}
          - id: l
            loop: {over: [1, 2, 3], as: n, concurrency: 3, steps: [{id: e, wait: {for: PT1H}}, {id: f, script: echo, args: {v: $n}}]}
          - id: p
            parallel: {branches: {x: [{id: g, wait: {for: PT2H}}, {id: h, script: echo, args: {v: x}}], y: [{id: i, script: echo, args: {v: y}}]}}
        outputs: {b: $b.output, c: $c.output, l: $l.output, x: $h.output}
        """)
    record = home.record("w", "--fast-forward")
    assert record["outputs"] == {"b": 4, "c": None, "l": [1, 2, 3], "x": "x"}, record
    assert [each["wait_ms"] >= 45000 for each in record["attempts"] if each["step"] == "b"] == [False, True, True, True]


def test_fast_forward_meets_the_documents_deadline(home):
    home.workflow("w", "timeout: PT1H\nsteps: [{id: a, wait: {event: never}}]\n")
    record = home.record("w", "--fast-forward")
    assert record["error"]["code"] == "deadline_exceeded"


def test_more_runs_than_the_pool_has_places_for(home):
    """Nobody is there to try again: what is due waits, or the start is refused; it does not fail hours later."""
    home.script("slow", "import time\ndef main():\n    time.sleep(0.02)\n")
    published(home, "w", "inputs: {at: string}\nsteps:\n  - {id: w, wait: {until: $inputs.at}}\n  - {id: a, script: slow}\n")
    server = Server(home)
    at = in_seconds(2.5)
    with ThreadPoolExecutor(8) as seats:
        list(seats.map(lambda _: server.begin("w", {"at": at}), range(1300)))

    def count(status):
        return len(home.run("run", "list", "--json", "--limit", "1000", "--status", status, code=0).data())

    until(lambda: count("failed") or count("succeeded") >= 1000, "most have ended, or one has failed")
    assert count("failed") == 0
