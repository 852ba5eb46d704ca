"""Deferred work: with the success of the whole run, exactly once, or visibly not at all."""
import random
import time

import pytest

from conftest import TOUCH, until
from served import TERMINAL, TOLD, Server, published

CHILD = TOUCH + "def main(n):\n    mark(f'child:{n}')\n    return n\n"
DEFERS = TOUCH + """
import os, time, viat
from viat import ViatError
def main(n=0, fail="", dies_first=False, ms=0):
    viat.defer("child", {"n": n})
    mark(f"deferred:{n}")
    time.sleep(ms / 1000)
    if dies_first and viat.context.attempt == 1:
        os._exit(1)
    if fail:
        raise ViatError(code=fail, message="m")
    return n
"""


@pytest.fixture
def deferring(home):
    home.script("child", CHILD)
    home.script("defers", DEFERS)
    home.script("told", TOLD)
    published(home, "child", "inputs: {n: integer}\nsteps: [{id: a, script: child, args: {n: $inputs.n}}]\noutputs: {n: $a.output}\n")
    return home


def children(home, server):
    """Every deferred run, ended."""
    rows = [row for row in home.runs() if row["workflow"] == "child"]
    return sorted(server.ended(row["id"])["outputs"]["n"] for row in rows)


def submitted(record):
    return [task for task in record["deferred"] if task["run"]]


def test_caught_and_continued_steps_count(deferring):
    published(deferring, "w", """
        steps:
          - {id: a, script: defers, args: {n: 1, fail: x}, on_error: continue}
          - {id: b, script: defers, args: {n: 2, fail: x}, on_error: {catch: [{id: c, script: defers, args: {n: 3}}]}}
          - {id: d, script: defers, args: {n: 4}}
          - {id: e, script: defers, args: {n: 5, dies_first: true}, retry: {times: 2, initial_ms: 10, factor: 1.0, max_ms: 10}}
          - id: l
            loop: {over: [6, 7], as: n, concurrency: 2, steps: [{id: f, script: defers, args: {n: $n}}]}
        """)
    server = Server(deferring)
    record = server.ended(server.begin("w"))
    assert record["status"] == "succeeded"
    assert sorted(task["args"]["n"] for task in submitted(record)) == [1, 2, 3, 4, 5, 6, 7]
    assert [task["args"]["n"] for task in record["deferred"] if not task["run"]] == [5], "that of the attempt that died is shown, and was not submitted"
    rows = {row["id"] for row in deferring.runs() if row["workflow"] == "child"}
    assert {task["run"] for task in submitted(record)} == rows, "they exist once the run has succeeded"
    assert children(deferring, server) == [1, 2, 3, 4, 5, 6, 7]
    assert sorted(word for word in deferring.trace() if word.startswith("child")) == [f"child:{n}" for n in range(1, 8)]


def test_of_an_entrys_attempts_only_the_last_ones(deferring):
    deferring.script("twice", "import os, viat\ndef main():\n    viat.defer('child', {'n': viat.context.attempt})\n    if viat.context.attempt < 3:\n        os._exit(1)\n")
    published(deferring, "w", "steps: [{id: a, script: twice, retry: {times: 3, initial_ms: 10, factor: 1.0, max_ms: 10}}]\n")
    server = Server(deferring)
    assert server.ended(server.begin("w"))["status"] == "succeeded"
    assert children(deferring, server) == [3]


@pytest.mark.parametrize("end", ["failed", "cancelled", "deadline"])
def test_discarded_visibly(deferring, end):
    last = "{id: b, script: defers, args: {n: 2, fail: x}}" if end == "failed" else "{id: b, script: told}"
    published(deferring, "w", f"steps:\n  - {{id: a, script: defers, args: {{n: 1}}}}\n  - {last}\n")
    server = Server(deferring)
    run = server.begin("w", **({"timeout": "PT0.5S"} if end == "deadline" else {}))
    if end == "cancelled":
        until(lambda: "begin" in deferring.trace(), "the second step runs")
        server.cancel(run)
    record = server.ended(run)
    assert record["status"] == ("cancelled" if end == "cancelled" else "failed")
    tasks = record["deferred"]
    assert [task["args"]["n"] for task in tasks] == ([1, 2] if end == "failed" else [1]) and all(task["run"] is None for task in tasks), tasks
    time.sleep(0.2)
    assert [row["workflow"] for row in deferring.runs()] == ["w"]


def test_a_task_that_cannot_be_raises_in_the_script(deferring):
    deferring.workflow("draft", "steps: [{id: a, set: 1}]\n")
    deferring.script("tries", """
        import viat
        def main():
            said = []
            for name, args in (("draft", {}), ("nothing", {}), ("child", {}), ("child", {"n": "x"}), ("child", {"n": 1, "m": 2})):
                try:
                    viat.defer(name, args)
                except Exception as error:
                    said.append(str(error))
            return said
        """)
    published(deferring, "w", "steps: [{id: a, script: tries}]\noutputs: {v: $a.output}\n")
    server = Server(deferring)
    record = server.ended(server.begin("w"))
    said = record["outputs"]["v"]
    assert len(said) == 5 and record["deferred"] == [], record
    assert "publish" in said[0] and "nothing" in said[1] and "n" in said[2] and "m" in said[4]


def test_without_a_server_they_wait_for_one(deferring):
    deferring.workflow("w", "steps: [{id: a, script: defers, args: {n: 1}}]\n")
    record = deferring.record("w")
    child = record["deferred"][0]["run"]
    assert deferring.show(child)["status"] == "queued"
    assert Server(deferring).ended(child)["outputs"] == {"n": 1}


def test_a_task_keeps_the_version_of_its_deferring(deferring):
    published(deferring, "w", "steps: [{id: a, script: defers, args: {n: 1}}, {id: b, wait: {event: go}}]\n")
    server = Server(deferring)
    run = server.begin("w")
    server.reaches(run, "waiting")
    published(deferring, "child", "inputs: {other: integer}\nsteps: [{id: a, set: 1}]\n")
    server.send(run, "go")
    child = server.ended(run)["deferred"][0]["run"]
    record = server.ended(child)
    assert record["version"] == 1 and record["outputs"] == {"n": 1}


def test_a_task_whose_workflow_was_deleted_meanwhile(deferring):
    published(deferring, "w", "steps: [{id: a, script: defers, args: {n: 1}}, {id: b, wait: {event: go}}]\n")
    server = Server(deferring)
    run = server.begin("w")
    server.reaches(run, "waiting")
    deferring.run("workflow", "delete", "child", code=0)
    server.send(run, "go")
    assert server.ended(server.ended(run)["deferred"][0]["run"])["outputs"] == {"n": 1}


def test_a_killed_server_submits_once_or_not_yet(deferring):
    published(deferring, "w", "inputs: {n: integer}\nsteps:\n  - {id: a, script: defers, args: {n: $inputs.n, ms: 5}, idempotent: true}\noutputs: {n: $a.output}\n")
    server = Server(deferring)
    server.ended(server.begin("w", {"n": 0}))
    dice = random.Random(8)
    runs, number = [], 0
    for _ in range(6):
        batch = []
        for _ in range(6):
            number += 1
            batch.append(server.begin("w", {"n": number}))
        runs += batch
        time.sleep(dice.uniform(0, 0.08))
        server.restart()
    ends = [server.ended(run) for run in runs]
    assert {record["status"] for record in ends} == {"succeeded"}
    rows = [row for row in deferring.runs() if row["workflow"] == "child"]
    inputs = sorted(deferring.show(row["id"])["inputs"]["n"] for row in rows)
    assert inputs == list(range(number + 1)), "once for each, however often an engine died"
    assert all(len(submitted(record)) == 1 for record in ends)
    assert {submitted(record)[0]["run"] for record in ends} <= {row["id"] for row in rows}
    assert all(server.ended(row["id"])["status"] in TERMINAL for row in rows)
