"""`/e/...`: what callers of a workflow see, and what they do not."""
import http.client
import threading
import time

import pytest

from conftest import TOUCH, until
from served import ECHO, Server, published

REFUSE = """
from viat import ViatError
def main(more=False):
    if more:
        raise ViatError(status=418, code="teapot", message="short and stout", extra={"a": 1})
    raise ViatError(code="no", message="no")
"""


@pytest.fixture
def server(home):
    home.script("echo", ECHO)
    published(home, "w", "inputs: {v: {type: integer, default: 1}}\nsteps: [{id: a, script: echo, args: {v: $inputs.v}}]\noutputs: {v: $a.output}\n")
    home.run("endpoint", "create", "/w", "--workflow", "w", code=0)
    return Server(home)


def bind(home, path, name, text, *flags):
    published(home, name, text)
    home.run("endpoint", "create", path, "--workflow", name, *flags, code=0)


def test_a_sync_endpoint_answers_with_the_outputs(server):
    answer = server.post("/e/w", {"v": 7})
    assert (answer.status, answer.data()) == (200, {"v": 7})
    assert server.show(answer.headers["viat-run"])["outputs"] == {"v": 7}
    assert server.ask("POST", "/e/w").data() == {"v": 1}, "no body is no inputs"
    server.ask("GET", "/e/w").problem(405)
    server.post("/e/unknown", {}).problem(404)
    assert "v" in server.post("/e/w", {"v": "x"}).problem(422)
    server.post("/e/w", [1]).problem(422)
    server.ask("POST", "/e/w", raw=b"{", headers={"content-type": "application/json"}).problem(400)
    server.ask("POST", "/e/w", raw=b"v=1", headers={"content-type": "application/x-www-form-urlencoded"}).problem(415)
    server.ask("POST", "/e/w", {}, {"origin": "http://evil.example"}).problem(403)


def test_an_endpoint_uses_the_published_version(home, server):
    home.workflow("w", "steps: [{id: a, set: 1}]\noutputs: {new: $a.output}\n")
    assert server.post("/e/w", {}).data() == {"v": 1}
    home.run("workflow", "publish", "w", code=0)
    assert server.post("/e/w", {}).data() == {"new": 1}
    home.run("endpoint", "delete", "/w", code=0)
    server.post("/e/w", {}).problem(404)


def test_the_same_key_is_the_same_run(server):
    first, again = (server.post("/e/w", {"v": 3}, {"Idempotency-Key": "k"}) for _ in range(2))
    assert first.data() == again.data() == {"v": 3} and first.headers["viat-run"] == again.headers["viat-run"]
    server.post("/e/w", {"v": 4}, {"Idempotency-Key": "k"}).problem(409)


def test_a_refusal_is_passed_on(home, server):
    home.script("refuse", REFUSE)
    bind(home, "/tea/pot", "t", "steps: [{id: a, script: refuse, args: {more: true}}]\n")
    bind(home, "/no", "n", "steps: [{id: a, script: refuse}]\n")
    answer = server.post("/e/tea/pot", {})
    assert (answer.status, answer.data()) == (418, {"code": "teapot", "message": "short and stout", "extra": {"a": 1}})
    answer = server.post("/e/no", {})
    assert (answer.status, answer.data()) == (400, {"code": "no", "message": "no"})


def test_what_breaks_stays_inside(home, server):
    home.script("boom", "def main():\n    raise RuntimeError('internal detail 4711')\n")
    home.script("slow", "import time\ndef main():\n    time.sleep(60)\n")
    bind(home, "/boom", "boom", "steps: [{id: secret_step, script: boom}]\n")
    bind(home, "/slow", "slow", "steps: [{id: secret_step, script: slow, timeout: PT0.2S}]\n")
    bind(home, "/late", "late", "timeout: PT0.3S\nsteps: [{id: secret_step, script: slow}]\n")
    for path, status in (("/e/boom", 500), ("/e/slow", 504), ("/e/late", 504)):
        answer = server.post(path, {})
        answer.problem(status)
        text = answer.body.decode()
        assert all(word not in text for word in ("4711", "RuntimeError", "secret_step", "boom.py")), text
        assert server.show(answer.data()["run"])["status"] == "failed", "whoever runs the server finds the rest"


def test_a_sync_endpoint_waits_so_long(home, server):
    bind(home, "/nap", "nap", "steps: [{id: a, wait: {event: go}}]\noutputs: {v: $a.output}\n", "--timeout", "PT0.3S")
    answer = server.post("/e/nap", {})
    assert answer.status == 202
    run = answer.data()["id"]
    assert answer.headers["location"] == f"/api/v1/runs/{run}"
    server.send(run, "go", 5)
    assert server.ended(run)["outputs"] == {"v": 5}
    bind(home, "/patient", "patient", "steps: [{id: a, wait: {event: go}}]\noutputs: {v: $a.output}\n")
    got = []
    caller = threading.Thread(target=lambda: got.append(server.post("/e/patient", {})))
    caller.start()
    run = until(lambda: [row["id"] for row in home.runs() if row["workflow"] == "patient"], "it starts")[0]
    server.reaches(run, "waiting")
    server.send(run, "go", 6)
    caller.join(60)
    assert got[0].data() == {"v": 6}


def test_an_async_endpoint_answers_at_once(home, server):
    bind(home, "/later", "later", "steps: [{id: a, wait: {event: go}}]\n", "--mode", "async")
    answer = server.post("/e/later", {})
    assert answer.status == 202 and answer.headers["location"].endswith(answer.data()["id"])
    server.reaches(answer.data()["id"], "waiting")


def test_a_caller_that_goes_does_not_end_its_run(home, server):
    home.script("effect", TOUCH + "import time\ndef main():\n    mark('begin')\n    time.sleep(0.5)\n    mark('done')\n    return 1\n")
    bind(home, "/effect", "effect", "steps: [{id: a, script: effect}]\n")
    link = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    link.request("POST", "/e/effect", "{}", {"content-type": "application/json"})
    until(home.trace, "the attempt begins")
    link.close()
    until(lambda: home.trace() == ["begin", "done"], "it goes on")


def test_a_server_that_ends_lets_nobody_wait(home, server):
    bind(home, "/nap", "nap", "steps: [{id: a, wait: {event: go}}]\n")
    got = []
    caller = threading.Thread(target=lambda: got.append(server.post("/e/nap", {})))
    caller.start()
    until(lambda: [row for row in home.runs() if row["workflow"] == "nap" and row["status"] == "waiting"], "it waits")
    time.sleep(0.1)
    server.end()
    caller.join(60)
    assert got[0].status == 202, "it is told where to look"
