"""Signatures that hold args when a workflow is created; workers and progress as a server shows them."""
import pytest

from conftest import until
from served import Server

TYPED = "from typing import Literal\ndef main(count: int, tags: list[str] = [], kind: Literal['a', 'b'] = 'a'):\n    return count\n"


@pytest.mark.parametrize("args, line, said", [
    ("{count: two}", ":2:38", "takes an integer here, not the string \"two\""),
    ("{count: 1, tags: [a, 2]}", ":2:51", "takes a string here, not 2"),
    ("{count: 1, kind: c}", ":2:47", "one of \"a\", \"b\""),
    ("{cuont: 1, count: 2}", ":2:31", "did you mean `count`?"),
])
def test_literal_args_are_held_to_the_signature(home, args, line, said):
    home.script("t", TYPED)
    file = home.file("w.yaml", f"steps:\n  - {{id: a, script: t, args: {args}}}\n")
    for command in (("workflow", "create", "w", "--file", file), ("workflow", "validate", "--file", file)):
        done = home.run(*command, code=2)
        assert line in done.err and said in done.err and "^" in done.err, done
    assert home.run("workflow", "list", "--json", code=0).data() == []


def test_what_is_not_literal_is_left_to_the_run_and_a_missing_argument_is_a_warning(home):
    home.script("t", TYPED)
    done = home.workflow("w", "inputs: {c: {}}\nsteps:\n  - {id: a, script: t, args: {count: $inputs.c}}\noutputs: {v: $a.output}\n")
    assert "warning" not in done.err
    assert home.run("workflow", "test", "w", "--input", '{"c": 2}', code=0).out == '{"v":2}\n'
    record = home.record("w", "--input", '{"c": "2"}')
    assert record["error"]["class"] == "annotation" and "`count`: expected int, got str '2'" in record["error"]["message"]
    assert "needs `count`" in home.workflow("m", "steps: [{id: a, script: t}]\noutputs: {}\n").err
    assert home.record("m")["error"]["class"] == "annotation"
    assert "main(count: int, tags: list[str] = []" in home.run("script", "show", "t", code=0).out


def test_a_servers_workers_and_progress_are_shown(home):
    home.script("p", "# /// script\n# [tool.viat]\n# pool = {max = 3, queue = 7, queue_wait = '2s'}\n# ///\nimport viat\n"
                     "def main():\n    viat.progress(0.25, 'a quarter')\n    while not viat.cancel_event.wait(0.01): pass\n")
    shown = home.run("script", "show", "p", "--json", code=0).data()
    assert (shown["workers"], shown["pool"]["max"], shown["pool"]["queue"], shown["pool"]["queue_wait_ms"]) == (None, 3, 7, 2000)
    home.workflow("w", "steps: [{id: slow, script: p}]\noutputs: {}\n")
    home.run("workflow", "publish", "w", code=0)
    server = Server(home)
    try:
        run = home.run("run", "start", "w", code=0).out.strip()
        said = until(lambda: server.ask("GET", f"/api/v1/runs/{run}/progress").data(), "the script has spoken")
        assert [(each["path"], each["fraction"], each["note"]) for each in said] == [("slow", 0.25, "a quarter")]
        pool, = home.run("script", "show", "p", "--json", code=0).data()["workers"]
        assert (pool["script"], pool["version"], pool["busy"], pool["idle"], pool["waiting"], pool["max"]) == ("p", 1, 1, 0, 0, 3)
        assert "1 busy, 0 idle" in home.run("script", "show", "p", code=0).out
        watch = home.start("run", "watch", run)
        assert until(lambda: b"25 %" in watch.stderr.readline(), "watch shows it")
        home.run("run", "cancel", run, code=0)
        watch.communicate(timeout=60)
        assert watch.returncode == 1
        assert server.ask("GET", f"/api/v1/runs/{run}/progress").data() == []
        assert server.ask("GET", "/api/v1/pools").data()[0]["served"] == 1
    finally:
        server.end()


def test_the_cap_on_workers_is_checked(home):
    home.step("def main():\n    return 1\n")
    assert "VIAT_MAX_WORKERS" in home.run("workflow", "test", "s", env={"VIAT_MAX_WORKERS": "none"}, code=2).err
    assert home.run("script", "show", "s", "--json", env={"VIAT_MAX_WORKERS": "2"}, code=0).data()["pool"]["max"] == 2
    home.run("workflow", "test", "s", env={"VIAT_MAX_WORKERS": "1"}, code=0)
