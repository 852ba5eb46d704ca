"""The Python client (`python/viat_client`) against a real server: what it asks, how it refuses, and that a dead server costs it nothing."""
import asyncio
import dataclasses
import os
import re
import socket
import subprocess
import sys
import threading
from datetime import datetime, timedelta, timezone

import pytest

from conftest import BINARY, PATIENCE, ROOT, TOUCH, until
from served import ECHO, Server, published

if sys.version_info < (3, 10):
    pytest.skip("the client is for Python 3.10 and newer", allow_module_level=True)
sys.path.insert(0, str(ROOT / "python"))
import viat_client  # noqa: E402
from viat_client import AsyncClient, Callbacks, Client  # noqa: E402

HOOKS = [field.name for field in dataclasses.fields(Callbacks)]
FLOW = "inputs: {v: {type: integer, default: 1}}\nsteps: [{id: a, script: echo, args: {v: $inputs.v}}]\noutputs: {v: $a.output}\n"
WAITS = "steps: [{id: e, wait: {event: go}}, {id: f, wait: {event: on}}]\noutputs: {e: $e.output}\n"
REVIEW = """
steps:
  - {id: q, review: {title: Sure?, show: {draft: d}, form: {n: {type: integer, default: 3}}, timeout: P1D}}
outputs: {d: $q.output.decision}
"""
REFUSES = "import viat\ndef main():\n    raise viat.ViatError(status=409, code='taken', message='no')\n"
FLAKY = "import viat\ndef main():\n    if viat.context.attempt < 3:\n        raise viat.TransportError('x')\n    return 'ok'\n"
COUNTS = TOUCH + "def main(v=None):\n    mark('ran')\n    return v\n"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


@pytest.fixture
def server(home):
    """A server whose address outlives it."""
    home.script("echo", ECHO)
    published(home, "w", FLOW)
    published(home, "waits", WAITS)
    return Server(home, "--port", free_port())


@pytest.fixture
def client(server):
    with Client(f"http://127.0.0.1:{server.port}", patience=PATIENCE) as client:
        yield client


def told(names=HOOKS):
    """Callbacks, and the list of what they are told."""
    heard = []

    def hook(name):
        return lambda *args: heard.append((name, *[arg.path if isinstance(arg, viat_client.Node) else arg for arg in args[1:]]))
    return heard, Callbacks(**{name: hook(name) for name in names})


def later(work):
    """Does something beside the test; gives what ends it."""
    failed = []

    def run():
        try:
            work()
        except BaseException as error:
            failed.append(error)
    thread = threading.Thread(target=run)
    thread.start()

    def end():
        thread.join(PATIENCE)
        assert not thread.is_alive() and not failed, failed
    return end


def test_a_run_from_start_to_end(client):
    run = client.runs.start("w", {"v": 5})
    record = run.wait(PATIENCE)
    assert (record.id, record.status, record.ended, record.outputs, record.error) == (run.id, "succeeded", True, {"v": 5}, None)
    assert record.created_at.tzinfo and record.created_at <= record.ended_at and record.raw["outputs"] == {"v": 5}
    assert [(attempt.path, attempt.status, attempt.class_) for attempt in record.attempts] == [("a", "succeeded", None)]
    assert run.record() == client.runs.get(run.id) == record and client.run(run.id).result() == {"v": 5}
    assert [row.path for row in run.ledger()] == ["a"] and run.transitions()[-1].to_status == "succeeded"
    assert isinstance(run.logs(step="a"), list) and run.progress() == []
    events = list(run.events())
    assert events[0].type == "created" and events[0].path is None and events[-1].type == "succeeded" and events[-1].data["outputs"] == {"v": 5}
    middle = events[len(events) // 2]
    assert list(run.events(after=middle.id)) == events[len(events) // 2 + 1:] and list(run.events(after=events[-1].id)) == []


def test_a_run_that_fails_is_told_as_it_is(client, home):
    home.script("refuses", REFUSES)
    published(home, "r", "steps: [{id: a, script: refuses}]\n")
    run = client.runs.start("r")
    record = run.wait(PATIENCE)
    assert (record.status, record.error.code, record.error.class_, record.error.status, record.error.path) == ("failed", "taken", "user", 409, "a")
    with pytest.raises(viat_client.RunFailed, match="taken: no") as caught:
        run.result(PATIENCE)
    assert caught.value.record == record and caught.value.error == record.error
    home.script("refuses", ECHO)
    home.workflow("r", "steps: [{id: a, script: refuses}]\n")
    heard, on = told()
    with pytest.raises(viat_client.NotFound):
        run.migrate(9, reason="mended")
    run.migrate(2, reason="mended", by="ana")
    run.resume(by="ana", reason="mended")
    assert run.wait(PATIENCE, on=on).status == "succeeded"
    assert [name for name, *_ in heard] == ["flow_start", "node_start", "node_end", "flow_end", "flow_resume", "node_start", "node_end", "flow_end"]
    with pytest.raises(viat_client.Conflict):
        run.resume()


def test_wait_has_an_end_of_its_own(client):
    run = client.runs.start("waits")
    for timeout in (0, 0.2, 1.5):
        with pytest.raises(viat_client.WaitTimeout):
            run.wait(timeout)
    assert issubclass(viat_client.WaitTimeout, TimeoutError) and run.record().status == "waiting"
    end = later(lambda: (run.send_event("go", [1]), run.send_event("on")))
    assert run.result(PATIENCE) == {"e": [1]}
    end()

    async def same():
        async with AsyncClient(client._place.base_url) as other:
            run = await other.runs.start("waits")
            for timeout in (0, 0.2):
                with pytest.raises(viat_client.WaitTimeout):
                    await run.wait(timeout)
            await run.cancel(by="ana", reason="enough")
            return await run.wait(PATIENCE)
    record = asyncio.run(same())
    assert record.status == "cancelled" and "enough" in record.error.message


def test_a_wait_ends_though_there_is_always_news(client, home):
    home.script("slow", "import time\ndef main():\n    time.sleep(0.05)\n")
    published(home, "busy", "steps: [{id: l, loop: {while: '${ iteration.index < 5000 }', max_iterations: 5000, steps: [{id: s, script: slow}]}}]\n")
    run = client.runs.start("busy")
    with pytest.raises(viat_client.WaitTimeout):
        run.wait(1)
    assert run.record().status == "running"
    run.cancel()
    assert run.wait(PATIENCE).status == "cancelled"


def test_a_start_with_a_key_is_one_run(client, home):
    home.script("counts", COUNTS)
    published(home, "c", "inputs: {v: {type: integer}}\nsteps: [{id: a, script: counts, args: {v: $inputs.v}}]\noutputs: {v: $a.output}\n")
    runs = [client.runs.start("c", {"v": 1}, idempotency_key="one") for _ in range(5)]
    assert len({run.id for run in runs}) == 1 and runs[0].result(PATIENCE) == {"v": 1} and home.trace() == ["ran"]
    with pytest.raises(viat_client.Conflict) as caught:
        client.runs.start("c", {"v": 2}, idempotency_key="one")
    assert runs[0].id in caught.value.problem.detail and caught.value.status == 409
    assert client.runs.start("c", {"v": 1}).id != client.runs.start("c", {"v": 1}).id, "without a key each is a run"


def test_a_start_while_the_server_is_away(client, server):
    server.kill()
    started = []
    end = later(lambda: started.append(client.runs.start("w", {"v": 7}).result(PATIENCE)))
    server.start()
    end()
    assert started == [{"v": 7}] and len(list(client.runs.list(workflow="w"))) == 1


def test_a_stream_survives_a_server_that_is_killed(client, server, home):
    home.script("slow", "import time\ndef main(v):\n    time.sleep(0.05)\n    return v\n")
    published(home, "each", """
        steps:
          - {id: l, loop: {over: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11], steps: [{id: e, script: slow, args: {v: $item}, idempotent: true}]}}
          - {id: w, wait: {event: go}}
        outputs: {l: $l.output, w: $w.output}
    """)
    run = client.runs.start("each")
    seen, restarts = [], 0
    for event in run.events():
        seen.append(event)
        if (event.type, event.data.get("index")) in [("created", None), ("iteration_started", 3), ("iteration_completed", 7), ("wait_entered", None)]:
            server.restart()
            restarts += 1
        if event.type == "wait_entered":
            run.send_event("go", restarts)
    assert restarts == 4 and seen[-1].data["outputs"] == {"l": list(range(12)), "w": 4}
    ids = [tuple(map(int, event.id.split("."))) for event in seen]
    assert ids == sorted(set(ids)) and seen == list(run.events()), "none is lost, none comes twice"


def test_hooks_are_told_once_though_the_server_is_killed(client, server):
    heard, on = told()
    run = client.runs.start("waits")

    def disturb():
        until(lambda: ("flow_suspend",) in heard, "it waits")
        server.restart()
        run.send_event("go", 1)
        until(lambda: heard.count(("flow_suspend",)) == 2, "it waits again")
        server.restart()
        run.send_event("on", 2)
    end = later(disturb)
    assert run.wait(PATIENCE, on=on).status == "succeeded"
    end()

    def suspended(path, payload):
        return [("node_start", path), ("node_end", path, None, None, None), ("node_suspend", path), ("flow_suspend",), ("flow_resume",),
                ("node_resume", path), ("node_end", path, payload, None, None)]
    assert heard == [("flow_start",), *suspended("e", 1), *suspended("f", 2), ("flow_end", {"e": 1}, None, None)]


def test_async_waits_survive_a_server_that_is_killed(client, server):
    async def both():
        heard, plain = told(["flow_start", "flow_end"])
        awaited = []

        async def node_end(flow, node, result, error, exception):
            await asyncio.sleep(0)
            awaited.append((flow.workflow, flow.run, node.id, node.kind, result))
        async with AsyncClient(client._place.base_url, patience=PATIENCE) as other:
            run = await other.runs.start("waits")
            seen = []

            async def follow():
                async for event in run.events():
                    seen.append(event)
            tasks = [asyncio.create_task(follow()), asyncio.create_task(run.wait(PATIENCE, on=dataclasses.replace(plain, node_end=node_end)))]
            while not awaited:
                await asyncio.sleep(0.01)
            await asyncio.to_thread(server.restart)
            await run.send_event("go", 1)
            await run.send_event("on", 2)
            _, record = await asyncio.gather(*tasks)
            return run.id, record, heard, awaited, seen
    run, record, heard, awaited, seen = asyncio.run(both())
    assert record.outputs == {"e": 1} and heard == [("flow_start",), ("flow_end", {"e": 1}, None, None)]
    assert awaited == [("waits", run, name, "wait", result) for name, result in (("e", None), ("e", 1), ("f", None), ("f", 2))]
    assert seen == list(client.run(run).events())


def test_fifty_runs_are_awaited_at_once(server, client):
    async def all_of_them():
        async with AsyncClient(client._place.base_url) as other:
            runs = await asyncio.gather(*[other.runs.start("waits") for _ in range(50)])
            waits = [asyncio.create_task(run.result(PATIENCE)) for run in runs]
            await asyncio.gather(*[run.send_event("go", number) for number, run in enumerate(runs)])
            await asyncio.gather(*[run.send_event("on") for run in runs])
            results = await asyncio.gather(*waits)
            listed = [item async for item in other.runs.list(status="succeeded", page_size=7)]
            return runs, results, listed
    runs, results, listed = asyncio.run(all_of_them())
    assert results == [{"e": number} for number in range(50)]
    assert sorted(item.id for item in listed) == sorted(run.id for run in runs)


def test_hooks_of_every_kind_of_entry(client, home):
    home.script("refuses", REFUSES)
    home.script("flaky", FLAKY)
    published(home, "sub", "steps: [{id: i, script: echo, args: {v: 1}}]\noutputs: {v: $i.output}\n")
    published(home, "all", """
        steps:
          - {id: s, set: 5}
          - {id: f, script: flaky, retry: {times: 3, initial_ms: 10, factor: 1.0, max_ms: 10}}
          - {id: c, script: refuses, on_error: continue}
          - {id: r, script: refuses, on_error: {catch: [{id: h, script: echo, args: {v: 2}}]}}
          - {id: n, if: false, then: [{id: no, set: 1}]}
          - {id: y, if: true, then: [{id: yes, set: 1}]}
          - {id: l, loop: {over: [1, 2], steps: [{id: e, script: echo, args: {v: $item}}]}}
          - {id: w, workflow: sub}
          - {id: v, review: {title: Sure?}}
        outputs: {v: $f.output}
    """)
    heard, on = told()
    run = client.runs.start("all")

    def decide():
        review, = until(lambda: list(client.reviews.list(run=run.id)), "it asks")
        client.reviews.decide(review.id, "approved", by="ana")
    end = later(decide)
    assert run.result(PATIENCE, on=on) == {"v": "ok"}
    end()

    def start(path):
        return ("node_start", path)

    def done(path, result=None):
        return ("node_end", path, result, None, None)
    assert heard == [
        ("flow_start",), start("s"), done("s", 5), start("f"), done("f", "ok"), start("c"), done("c"), start("r"), start("r.h"), done("r.h", 2), done("r"),
        start("n"), done("n"), start("y"), start("y.yes"), done("y.yes", 1), done("y"), start("l"), start("l[0].e"), done("l[0].e", 1), start("l[1].e"),
        done("l[1].e", 2), done("l"), start("w"), start("w.i"), done("w.i", 1), done("w", {"v": 1}), start("v"), done("v"), ("node_suspend", "v"),
        ("flow_suspend",), ("flow_resume",), ("node_resume", "v"), done("v", {"decision": "approved", "by": "ana"}), ("flow_end", {"v": "ok"}, None, None)]


def test_hooks_of_what_ends_badly(client, home):
    home.script("refuses", REFUSES)
    published(home, "p", "steps: [{id: p, parallel: {branches: {l: [{id: a, script: refuses}], r: [{id: b, set: 1}]}}}]\n")
    published(home, "x", "steps: [{id: x, fail: {code: nope, message: never}}]\n")
    taken, nope = {"code": "taken", "message": "no"}, {"code": "nope", "message": "never"}
    for name, ends in [("p", [("node_end", "p.l.a", taken), ("node_end", "p", taken), ("flow_end", taken)]),
                       ("x", [("node_end", "x", nope), ("flow_end", nope)])]:
        heard, on = told(["node_end", "flow_end"])
        assert client.runs.start(name).wait(PATIENCE, on=on).status == "failed"
        bad = [(*call[:-3], call[-2]) for call in heard if call[-2]]
        assert bad == ends and all(isinstance(call[-1], viat_client.Failed) and call[-3] is None for call in heard if call[-2])
        assert [call[-1].__class__.__name__ for call in heard if call[-2]] == ["StepFailed"] * (len(ends) - 1) + ["RunFailed"]
    heard, on = told(["node_end", "flow_end"])
    run = client.runs.start("waits")
    run.cancel()
    run.wait(PATIENCE, on=on)
    assert heard[-1][0] == "flow_end" and heard[-1][2]["code"] == "cancelled"


def test_undoing_that_is_asked_for_is_no_second_end(client, home):
    home.script("refuses", REFUSES)
    published(home, "u", """
        compensation: manual
        steps:
          - {id: a, script: echo, compensate: {script: echo}}
          - {id: b, script: refuses}
    """)
    run = client.runs.start("u")
    assert run.wait(PATIENCE).compensation == "available"
    run.compensate(by="ana", reason="customer left")
    heard, on = told()
    record = until(lambda: (found := run.record()).compensation == "complete" and found.ended and found, "it is undone")
    assert [(effect.path, effect.status) for effect in record.ledger] == [("a", "compensated")]
    assert run.wait(PATIENCE, on=on) == record
    assert [(name, *more[:1]) for name, *more in heard if name.endswith("_end")] == [("node_end", "a"), ("node_end", "b"), ("flow_end", None)]


def test_a_hook_that_raises_changes_nothing(client, caplog):
    def bad(*_):
        raise RuntimeError("mine")
    heard, on = told(["flow_end"])
    assert client.runs.start("w").result(PATIENCE, on=dataclasses.replace(on, flow_start=bad)) == {"v": 1}
    assert len(heard) == 1 and "flow_start" in caplog.text and "mine" in caplog.text

    async def awaited(*_):
        pass
    with pytest.raises(TypeError, match="AsyncClient"):
        client.runs.start("w").wait(on=Callbacks(flow_end=awaited))
    with pytest.raises(TypeError, match="flow_end"):
        Callbacks(flow_end=3)


def test_reviews(client, home):
    published(home, "q", REVIEW)
    runs = [client.runs.start("q") for _ in range(4)]
    until(lambda: len(list(client.reviews.list(status="pending_review"))) == 4, "all ask")
    rows = list(client.reviews.list(page_size=1))
    assert sorted(row.run for row in rows) == sorted(run.id for run in runs)
    row, = client.reviews.list(run=runs[0].id)
    review = client.reviews.get(row.id)
    assert (review.title, review.show, review.form[0]["name"], row.show) == ("Sure?", {"draft": "d"}, "n", None)
    longer = client.reviews.extend(row.id, by="ana", span=timedelta(hours=36))
    assert longer.due - review.due == timedelta(hours=36)
    to = datetime(2999, 1, 1, tzinfo=timezone.utc)
    assert client.reviews.extend(row.id, by="ana", until=to, reason="holidays").due == to
    link = client.reviews.link(row.id, decision="approved", by="ana", expires="PT1H", base="https://viat.example.org/")
    assert link.url.startswith("https://viat.example.org/links/review/") and link.review == row.id
    with pytest.raises(viat_client.Invalid):
        client.reviews.decide(row.id, "approved", by="ana", data={"n": "x"})
    assert client.reviews.decide(row.id, "approved", by="ana", comment="fine", data={"n": 4}).status == "approved"
    with pytest.raises(viat_client.Conflict, match="already decided: approved by ana"):
        client.reviews.decide(row.id, "rejected", by="bob")
    assert client.reviews.get(row.id).data == {"n": 4} and runs[0].result(PATIENCE) == {"d": "approved"}
    for wrong in ({"by": "ana"}, {"by": "ana", "span": "PT1S", "until": to}):
        with pytest.raises(TypeError):
            client.reviews.extend(row.id, **wrong)


def test_scripts_and_workflows(client):
    assert client.scripts.save("s", ECHO, if_absent=True).version == 1
    with pytest.raises(viat_client.PreconditionFailed):
        client.scripts.save("s", ECHO, if_absent=True)
    assert client.scripts.get("s").source == ECHO and client.scripts.get("s").language == "python"
    trial = client.scripts.test("s", {"v": [1]})
    assert (trial.status, trial.value, trial.error) == ("succeeded", [1], None)
    flow = FLOW.replace("echo", "s")
    assert client.workflows.validate(flow).valid and not client.workflows.validate("steps: 1").valid
    assert client.workflows.save("n", flow).version == 1 and client.workflows.save("n", flow + "# more\n", if_version=1).version == 2
    assert client.workflows.test("n", {"v": 2}).outputs == {"v": 2}
    assert client.workflows.publish("n") == 2 and client.workflows.publish("n", version=1) == 1
    assert [(row.version, row.published) for row in client.workflows.versions("n", page_size=1)] == [(2, False), (1, True)]
    assert "+# more" in client.workflows.diff("n").diff and client.workflows.get("n", version=1).source == flow
    assert client.runs.start("n", version=2).result(PATIENCE) == {"v": 1}
    assert {row.name for row in client.workflows.list()} == {"w", "waits", "n"} and client.scripts.logs("s", limit=1)[0].status == "succeeded"
    with pytest.raises(viat_client.Conflict):
        client.scripts.delete("s")
    with pytest.raises(viat_client.Invalid) as caught:
        client.workflows.save("bad", "steps: [{id: a, script: nothing}]\n")
    assert caught.value.problem.diagnostics[0]["code"]
    client.workflows.delete("n")
    client.scripts.delete("s")
    with pytest.raises(viat_client.NotFound):
        client.workflows.get("n")


def test_refusals_are_exceptions(client):
    for error, ask in [(viat_client.NotFound, lambda: client.runs.start("none")), (viat_client.Invalid, lambda: client.runs.start("w", {"v": "x"})),
                       (viat_client.NotFound, lambda: client.run("none").wait()), (viat_client.NotFound, lambda: list(client.run("none").events())),
                       (viat_client.BadRequest, lambda: list(client.run(client.runs.start("w").id).events(after="x"))),
                       (viat_client.NotFound, lambda: client.run("a/../b?c#d").record()), (viat_client.Invalid, lambda: list(client.runs.list(status="odd"))),
                       (viat_client.Conflict, lambda: client.run(client.runs.start("waits").id).settle("e", completed=None))]:
        with pytest.raises(error) as caught:
            ask()
        assert caught.value.problem.detail and caught.value.problem.status == caught.value.status and isinstance(caught.value, viat_client.Error)
    for ask in (lambda: client.run("").record(), lambda: client.runs.start("w", {"v": float("nan")}),
                lambda: list(client.runs.list(since=datetime(2026, 1, 1)))):
        with pytest.raises(ValueError):
            ask()
    with pytest.raises(TypeError):
        client.run("x").settle("e")


def test_lists_are_filtered(client):
    runs = [client.runs.start("w", timeout=timedelta(seconds=90)) for _ in range(5)]
    records = [run.wait(PATIENCE) for run in runs]
    assert all((record.deadline - record.created_at).total_seconds() == 90 for record in records)
    newest = [run.id for run in reversed(runs)]
    for size in (1, 2, 5, None):
        assert [item.id for item in client.runs.list(workflow="w", page_size=size)] == newest
    since, before = ({item.id for item in client.runs.list(**{key: records[2].created_at})} for key in ("since", "until"))
    assert since | before == set(newest) and not since & before
    assert list(client.runs.list(status="failed")) == [] and next(client.runs.list(page_size=2)).workflow == "w"


def test_tokens_and_what_they_permit(home):
    home.script("echo", ECHO)
    published(home, "w", FLOW)
    tokens = {scope: home.run("token", "create", "--name", scope, "--scope", scope, code=0).out.strip() for scope in ("admin", "read", "run")}
    url = f"http://127.0.0.1:{Server(home, '--require-token').port}"
    with Client(url, tokens["run"]) as may:
        run = may.runs.start("w")
        assert run.result(PATIENCE) == {"v": 1}
        with pytest.raises(viat_client.Forbidden, match="scope"):
            list(may.scripts.list())
    with Client(url, tokens["read"]) as may:
        assert may.run(run.id).wait(PATIENCE).status == "succeeded" and len(list(may.scripts.list())) == 1
        for ask in (lambda: may.runs.start("w"), may.run(run.id).cancel, lambda: may.workflows.publish("w")):
            with pytest.raises(viat_client.Forbidden, match="scope"):
                ask()
    for wrong in (None, "viat_a_b"):
        with Client(url, wrong) as nobody, pytest.raises(viat_client.Unauthorized):
            nobody.run(run.id).wait(PATIENCE)

    async def limited():
        async with AsyncClient(url, tokens["run"]) as other, AsyncClient(url, tokens["read"]) as reader:
            with pytest.raises(viat_client.Forbidden):
                await reader.runs.start("w")
            return await asyncio.gather(*[other.run(run.id).record() for _ in range(300)])
    assert len(asyncio.run(limited())) == 300, "who comes too often comes again later"


def test_where_the_server_is(server, home, monkeypatch, tmp_path):
    for name in ("VIAT_URL", "VIAT_TOKEN", "VIAT_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="VIAT_HOME"):
        Client()
    for wrong in ("127.0.0.1:1", "ftp://x", "http://", ""):
        with pytest.raises(ValueError, match="no address"):
            Client(wrong)
    with pytest.raises(TypeError):
        Client("http://127.0.0.1:1", home=home.path)
    with pytest.raises(TypeError, match="token"):
        Client(home=home.path, token="x")
    with Client(home=home.path) as client:
        assert client.runs.start("w").result(PATIENCE) == {"v": 1}
    monkeypatch.setenv("VIAT_HOME", str(home.path))

    async def on_the_socket():
        async with AsyncClient() as client:
            runs = await asyncio.gather(*[client.runs.start("waits") for _ in range(20)])
            waits = [asyncio.create_task(run.result(PATIENCE)) for run in runs]
            server.restart()
            for run in runs:
                await run.send_event("go", 4)
                await run.send_event("on")
            return await asyncio.gather(*waits)
    assert asyncio.run(on_the_socket()) == [{"e": 4}] * 20
    monkeypatch.setenv("VIAT_URL", f"http://127.0.0.1:{server.port}/")
    with Client() as client:
        assert client.runs.start("w").result(PATIENCE) == {"v": 1}
    deep = tmp_path / ("d" * 60) / ("e" * 60)
    deep.parent.mkdir()
    deep.symlink_to(home.path)
    with Client(home=deep) as client:
        assert client.runs.start("w").result(PATIENCE) == {"v": 1}


def test_a_server_that_stays_away(server):
    client = Client(f"http://127.0.0.1:{server.port}", patience=0.5)
    run = client.runs.start("waits")
    server.kill()
    for ask in (run.record, run.cancel, run.wait, lambda: list(run.events()), lambda: client.runs.start("w")):
        with pytest.raises(viat_client.Unreachable, match=str(server.port)):
            ask()


def half_answers(answer):
    """Something that takes one request, answers this, and goes away; how often it was asked."""
    listener = socket.create_server(("127.0.0.1", 0))
    asked = []

    def serve():
        while True:
            try:
                link, _ = listener.accept()
            except OSError:
                return
            with link:
                asked.append(link.recv(65536))
                link.sendall(answer)
    threading.Thread(target=serve, daemon=True).start()
    return listener, asked


def test_what_may_have_been_done_is_not_repeated():
    listener, asked = half_answers(b"")
    with listener, Client(f"http://127.0.0.1:{listener.getsockname()[1]}", patience=1) as client:
        with pytest.raises(viat_client.Unreachable, match="not known"):
            client.run("x").send_event("go")
        assert len(asked) == 1
        with pytest.raises(viat_client.Unreachable):
            client.runs.start("w")
        keys = {re.search(rb"(?i)idempotency-key: (\S+)", request).group(1) for request in asked[1:]}
        assert len(asked) > 2 and len(keys) == 1


def test_what_is_no_viat_server():
    for body in (b"<html>", b"[]", b'{"id": "x"}'):
        listener, _ = half_answers(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%s" % (len(body), body))
        with listener, Client(f"http://127.0.0.1:{listener.getsockname()[1]}", patience=1) as client, pytest.raises(viat_client.BadAnswer):
            client.runs.get("x")
    listener, _ = half_answers(b"HTTP/1.1 418 I'm a teapot\r\ncontent-length: 2\r\nconnection: close\r\n\r\nhi")
    with listener, Client(f"http://127.0.0.1:{listener.getsockname()[1]}", patience=1) as client:
        with pytest.raises(viat_client.Refused, match="418: hi"):
            client.runs.get("x")


def test_scripts_need_nothing_installed():
    code = "import sys, viat; assert not {'httpx', 'anyio', 'viat_client'} & set(sys.modules), sys.modules.keys(); print(viat.__file__)"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {str(ROOT / 'python')!r}); {code}"], capture_output=True)
    assert done.returncode == 0 and done.stdout.decode().strip() == str(ROOT / "python/viat/__init__.py"), done


def test_the_examples_of_the_documentation(server, home, tmp_path):
    text = (ROOT / "docs/python-client.md").read_text()
    examples = re.findall(r"```python run\n(.*?)```\n(?:\n```text output\n(.*?)```)?", text, re.S)
    assert len(examples) >= 2
    env = {**home.environment(), "PYTHONPATH": str(ROOT / "python"), "PATH": f"{BINARY.parent}:{os.environ['PATH']}"}
    for number, (example, output) in enumerate(examples):
        file = tmp_path / f"example{number}.py"
        file.write_text(example)
        done = subprocess.run([sys.executable, file], capture_output=True, env=env, timeout=PATIENCE, cwd=tmp_path)
        assert done.returncode == 0, f"{example}\n{done.stderr.decode()}"
        assert done.stdout.decode() == output, example
