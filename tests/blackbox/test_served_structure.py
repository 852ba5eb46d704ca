"""Loops and parallels with real workers in a server."""
import pytest

from conftest import TOUCH, until
from served import CANCEL_BOUND, ECHO, TOLD, Server, published

JITTER = "import random, time\ndef main(n, ms=20):\n    time.sleep(random.random() * ms / 1000)\n    return n\n"
PICKY = "import viat\nfrom viat import ViatError\ndef main(n, bad):\n    if n in bad:\n        raise ViatError(code=f'bad{n}', message='no')\n    return n\n"


@pytest.fixture
def kit(home):
    home.script("jitter", JITTER)
    home.script("picky", PICKY)
    home.script("told", TOLD)
    home.script("echo", ECHO)
    return home


def test_order_is_kept_under_concurrency(kit):
    published(kit, "w", "inputs: {n: array}\nsteps:\n  - id: l\n    loop: {over: $inputs.n, as: n, concurrency: 16, steps: [{id: a, script: jitter, args: {n: $n}}, {id: b, set: ['$n', '$iteration.index', $a.output]}]}\noutputs: {v: $l.output}\n")
    server = Server(kit)
    numbers = [n * 7 % 64 for n in range(64)]
    assert server.ended(server.begin("w", {"n": numbers}))["outputs"]["v"] == [[n, index, n] for index, n in enumerate(numbers)]


def test_a_thousand_items(kit):
    published(kit, "w", "inputs: {n: array}\nsteps:\n  - id: l\n    loop: {over: $inputs.n, as: n, concurrency: 8, steps: [{id: a, script: echo, args: {v: $n}}]}\noutputs: {v: $l.output}\n")
    server = Server(kit)
    record = server.ended(server.begin("w", {"n": list(range(1000))}))
    assert record["outputs"]["v"] == list(range(1000)) and len(record["attempts"]) == 1000
    assert len({each["path"] for each in record["attempts"]}) == 1000


def test_a_thousand_items_and_a_killed_server(kit):
    kit.script("mark", TOUCH + "def main(n):\n    mark(n)\n    return n\n")
    published(kit, "w", "inputs: {n: array}\nsteps:\n  - id: l\n    loop: {over: $inputs.n, as: n, concurrency: 4, steps: [{id: a, script: mark, args: {n: $n}, idempotent: true}]}\noutputs: {v: $l.output}\n")
    server = Server(kit)
    run = server.begin("w", {"n": list(range(1000))})
    for share in (100, 300, 500):
        until(lambda: len(kit.trace()) > share or server.show(run)["ended_at"], "it gets on")
        server.restart()
    assert server.ended(run)["outputs"]["v"] == list(range(1000))
    done = kit.trace()
    assert set(done) == {str(n) for n in range(1000)} and len(done) <= 1000 + 3 * 4, "only what was in flight ran again"


def test_max_failures(kit):
    published(kit, "w", "inputs: {bad: array}\nsteps:\n  - id: l\n    loop: {over: [0, 1, 2, 3, 4, 5], as: n, concurrency: 3, max_failures: 2, steps: [{id: a, script: picky, args: {n: $n, bad: $inputs.bad}}]}\noutputs: {v: $l.output, e: $l._errors}\n")
    server = Server(kit)
    assert server.ended(server.begin("w", {"bad": []}))["outputs"] == {"v": [0, 1, 2, 3, 4, 5], "e": []}
    outputs = server.ended(server.begin("w", {"bad": [1, 4]}))["outputs"]
    assert outputs["v"] == [0, None, 2, 3, None, 5]
    assert sorted((each["index"], each["error"]["code"]) for each in outputs["e"]) == [(1, "bad1"), (4, "bad4")]
    record = server.ended(server.begin("w", {"bad": [0, 1, 2, 3]}))
    assert record["status"] == "failed" and record["error"]["code"].startswith("bad")
    assert len([each for each in record["attempts"] if each["status"] == "failed"]) >= 3


PARALLEL = """
steps:
  - id: p
    parallel:
      on_failure: {how}
      branches:
        good: [{{id: a, script: {long}}}, {{id: b, script: echo}}]
        bad: [{{id: c, script: waits, args: {{n: 1, bad: [1]}}}}]
        worse: [{{id: d, script: waits, args: {{n: 2, bad: [2]}}}}]
  - {{id: z, script: echo}}
"""


def test_on_failure(kit):
    kit.script("waits", "import time\nfrom viat import ViatError\ndef main(n, bad):\n    time.sleep(0.3 * n)\n    raise ViatError(code=f'bad{n}', message='no')\n")
    kit.script("long", "import time\ndef main():\n    time.sleep(0.9)\n    return 1\n")
    published(kit, "cancel", PARALLEL.format(how="cancel", long="told"))
    published(kit, "wait", PARALLEL.format(how="wait", long="long"))
    server = Server(kit)
    record = server.ended(server.begin("cancel"), 30)
    states = {each["step"]: each["status"] for each in record["attempts"]}
    assert record["error"]["code"] == "bad1" and states["a"] == states["d"] == "cancelled" and states["c"] == "failed", record
    assert "b" not in states and "z" not in states
    until(lambda: "told" in kit.trace(), "it was told")
    record = server.ended(server.begin("wait"))
    states = {each["step"]: each["status"] for each in record["attempts"]}
    assert record["error"]["code"] == "bad1" and states == {"a": "succeeded", "b": "succeeded", "c": "failed", "d": "failed"}
    assert [each["code"] for each in record["error"]["extra"]["also"]] == ["bad2"], record["error"]


def test_nests(kit):
    published(kit, "w", """
        steps:
          - id: p
            parallel:
              branches:
                left:
                  - id: l
                    loop:
                      over: [1, 2, 3]
                      as: n
                      concurrency: 3
                      steps:
                        - id: q
                          parallel:
                            concurrency: 1
                            branches:
                              x: [{id: i, loop: {over: [10, 20], as: m, steps: [{id: a, script: jitter, args: {n: '${n * m}'}}]}}]
                              y: [{id: b, script: jitter, args: {n: $n}}]
                        - {id: s, set: {i: $i.output, b: $b.output}}
                right:
                  - [{id: w, wait: {for: PT0.1S}}, {id: c, script: echo, args: {v: right}}]
        outputs: {l: $l.output, c: $c.output}
        """.replace("- [{id: w, wait: {for: PT0.1S}}, {id: c, script: echo, args: {v: right}}]", "- {id: w, wait: {for: PT0.1S}}\n                  - {id: c, script: echo, args: {v: right}}"))
    server = Server(kit)
    outputs = server.ended(server.begin("w"))["outputs"]
    assert outputs == {"l": [{"i": [n * 10, n * 20], "b": n} for n in (1, 2, 3)], "c": "right"}


def test_while(kit):
    kit.script("count", TOUCH + "def main():\n    mark('x')\n    return len(open(os.environ['TRACE']).read().split())\n")
    published(kit, "w", "steps:\n  - {id: first, script: count}\n  - id: l\n    loop: {while: '${iteration.index < 5}', steps: [{id: a, script: count}]}\noutputs: {v: $l.output}\n")
    published(kit, "endless", "steps:\n  - id: l\n    loop: {while: true, max_iterations: 20, steps: [{id: a, set: 1}]}\n")
    server = Server(kit)
    assert server.ended(server.begin("w"))["outputs"] == {"v": [2, 3, 4, 5, 6]}
    record = server.ended(server.begin("endless"))
    assert record["status"] == "failed" and record["error"]["class"] == "orchestration"


def test_a_parallel_of_waits_is_waiting_and_ends_with_its_sibling(kit):
    published(kit, "w", "steps:\n  - id: p\n    parallel:\n      branches:\n        l: [{id: a, wait: {event: a}}, {id: f, fail: {code: stop, message: x}}]\n        r: [{id: b, wait: {for: PT1H}}]\n")
    server = Server(kit)
    run = server.begin("w")
    server.reaches(run, "waiting")
    server.send(run, "a")
    record = server.ended(run, CANCEL_BOUND)
    assert record["status"] == "failed" and record["error"]["code"] == "stop"
