"""Assets: which version runs, what holds what, and a project folder made into them."""
import json

import pytest

from conftest import bug, until
from served import ECHO, Server, published


def says(value):
    return f"def main():\n    return {value!r}\n"


def flow(script="s", more=""):
    return f"steps: [{{id: a, script: {script}}}]\noutputs: {{v: $a.output}}\n{more}"


# Versions

def test_publish_versions_diff(home):
    home.script("s", says(1))
    for n in (1, 2, 3):
        home.workflow("w", flow(more=f"description: number {n}\n"))
    assert [row["published"] for row in home.run("workflow", "versions", "w", "--json", code=0).data()] == [False, False, False]
    assert home.run("workflow", "publish", "w", "--json", code=0).data() == {"name": "w", "published": 3}
    assert home.run("workflow", "publish", "w", "--version", "1", "--json", code=0).data() == {"name": "w", "published": 1}
    rows = home.run("workflow", "versions", "w", "--json", code=0).data()
    assert [(row["version"], row["published"]) for row in rows] == [(3, False), (2, False), (1, True)]
    text = home.run("workflow", "versions", "w", code=0).out
    assert "published" in text and "draft" in text
    home.run("workflow", "publish", "w", "--version", "4", code=3)
    home.run("workflow", "publish", "ww", code=3)
    home.run("workflow", "versions", "ww", code=3)
    newest = home.run("workflow", "diff", "w", code=0).out
    assert "-description: number 2" in newest and "+description: number 3" in newest
    span = home.run("workflow", "diff", "w", "--from", "1", "--to", "3", "--json", code=0).data()
    assert (span["from"], span["to"]) == (1, 3) and "+description: number 3" in span["diff"]
    back = home.run("workflow", "diff", "w", "--from", "3", "--to", "1", code=0).out
    assert "+description: number 1" in back
    home.run("workflow", "diff", "w", "--from", "9", code=3)
    home.run("workflow", "diff", "w", "--to", "1", code=3)
    home.run("workflow", "diff", "ww", code=3)


def test_test_runs_the_draft_and_start_the_published_one(home):
    home.script("s", says(1))
    home.script("t", says(2))
    published(home, "w", flow("s"))
    home.workflow("w", flow("t"))
    Server(home)
    assert home.record("w")["outputs"] == {"v": 2}
    assert home.run("run", "start", "w", "--wait", code=0).out == '{"v":1}\n'
    home.run("workflow", "publish", "w", code=0)
    assert home.run("run", "start", "w", "--wait", code=0).out == '{"v":2}\n'


def test_a_called_workflow_is_the_published_one(home):
    home.script("s", says(1))
    home.script("t", says(2))
    published(home, "sub", flow("s"))
    published(home, "w", "steps: [{id: c, workflow: sub}]\noutputs: {v: $c.output.v}\n")
    home.workflow("sub", flow("t"))
    server = Server(home)
    assert server.ended(server.begin("w"))["outputs"] == {"v": 1}
    assert home.record("w")["outputs"] == {"v": 1}, "`test` uses drafts only of what was never published"
    published(home, "pinned", "steps: [{id: c, workflow: sub, version: 2}]\noutputs: {v: $c.output.v}\n")
    assert server.ended(server.begin("pinned"))["outputs"] == {"v": 2}
    home.run("workflow", "publish", "sub", code=0)
    assert server.ended(server.begin("w"))["outputs"] == {"v": 2}


def test_a_called_workflow_that_was_never_published(home):
    home.script("s", says(1))
    home.workflow("sub", flow())
    home.workflow("w", "steps: [{id: c, workflow: sub}]\noutputs: {v: $c.output.v}\n")
    done = home.run("workflow", "test", "w", code=0)
    assert "sub was never published; its draft is used" in done.err
    home.run("workflow", "publish", "w", code=0)
    server = Server(home)
    record = server.ended(server.begin("w"))
    assert record["status"] == "failed" and record["error"]["class"] == "resource"


def test_a_called_workflow_that_was_never_published_is_called_so(home):
    home.script("s", says(1))
    home.workflow("sub", flow())
    published(home, "w", "steps: [{id: c, workflow: sub}]\n")
    server = Server(home)
    assert "publish" in server.ended(server.begin("w"))["error"]["message"]


@pytest.mark.parametrize("restart", [False, True])
def test_a_run_under_way_keeps_its_versions(home, restart):
    home.script("s", says("old"))
    published(home, "sub", flow())
    published(home, "w", "steps: [{id: g, wait: {event: go}}, {id: a, script: s}, {id: c, workflow: sub}]\noutputs: {a: $a.output, c: $c.output.v}\n")
    server = Server(home)
    run = server.begin("w")
    server.reaches(run, "waiting")
    home.script("s", says("new"))
    home.script("t", says("newer"))
    published(home, "sub", flow("t"))
    published(home, "w", "steps: [{id: x, workflow: sub}]\noutputs: {a: $x.output.v, c: null}\n")
    if restart:
        server.restart()
    server.send(run, "go")
    record = server.ended(run)
    assert record["version"] == 1 and record["outputs"] == {"a": "old", "c": "old"}
    assert server.ended(server.begin("w"))["outputs"] == {"a": "newer", "c": None}


def test_a_run_under_way_keeps_what_is_deleted(home):
    home.script("s", says("old"))
    published(home, "sub", flow())
    published(home, "w", "steps: [{id: g, wait: {event: go}}, {id: a, script: s}, {id: c, workflow: sub}]\noutputs: {a: $a.output, c: $c.output.v}\n")
    server = Server(home)
    run = server.begin("w")
    server.reaches(run, "waiting")
    queued_key = {"idempotency-key": "k"}
    for kind, name in (("workflow", "w"), ("workflow", "sub"), ("script", "s")):
        home.run(kind, "delete", name, code=0)
    server.post("/api/v1/runs", {"workflow": "w"}, queued_key).problem(404)
    server.restart()
    server.send(run, "go")
    assert server.ended(run)["outputs"] == {"a": "old", "c": "old"}


def test_a_queued_run_keeps_its_versions(home):
    home.script("s", says("old"))
    published(home, "w", flow())
    run = home.run("run", "start", "w", "--json", code=0).data()["id"]
    home.script("s", says("new"))
    home.run("workflow", "delete", "w", code=0)
    home.run("script", "delete", "s", code=0)
    assert Server(home).ended(run)["outputs"] == {"v": "old"}


def test_a_name_used_again_is_not_published(home):
    home.script("s", says(1))
    published(home, "w", flow())
    home.run("workflow", "delete", "w", code=0)
    home.workflow("w", flow())
    assert "publish" in home.run("run", "start", "w", code=3).err


# Who holds whom

def test_deletion_order_and_refusals(home):
    home.script("s", says(1))
    home.script("t", says(1))
    published(home, "sub", flow())
    published(home, "w", "steps: [{id: c, workflow: sub}]\noutputs: {v: $c.output.v}\n")
    home.run("endpoint", "create", "/orders", "--workflow", "w", code=0)
    home.run("endpoint", "create", "/more", "--workflow", "w", "--mode", "async", code=0)
    refused = home.run("script", "delete", "s", code=3).err
    assert "sub" in refused
    assert "w" in home.run("workflow", "delete", "sub", code=3).err
    refused = home.run("workflow", "delete", "w", code=3).err
    assert "/orders" in refused and "/more" in refused
    assert Server(home).post("/api/v1/runs", {"workflow": "w"}, None).status == 201, "a refused deletion takes nothing"
    home.run("script", "delete", "t", code=0)
    for kind, name in (("endpoint", "/orders"), ("endpoint", "/more"), ("workflow", "w"), ("workflow", "sub"), ("script", "s")):
        home.run(kind, "delete", name, code=0)
        home.run(kind, "delete", name, code=3)


def test_every_live_version_holds_its_scripts(home):
    """The published version is not the newest."""
    home.script("old", says("old"))
    home.script("new", says("new"))
    published(home, "w", flow("old"))
    home.workflow("w", flow("new"))
    refused = home.run("script", "delete", "old", code=3)
    assert "w" in refused.err
    Server(home)
    assert home.run("run", "start", "w", "--wait", code=0).out == '{"v":"old"}\n'


# Endpoints

def test_endpoints(home):
    home.script("s", says(1))
    home.workflow("w", flow())
    assert "publish" in home.run("endpoint", "create", "/a", "--workflow", "w", code=3).err
    home.run("endpoint", "create", "/a", "--workflow", "nothing", code=3)
    home.run("workflow", "publish", "w", code=0)
    assert home.run("endpoint", "list", "--json", code=0).data() == []
    for bad in ("", "a", "/", "//", "/a/", "/a//b", "/a/../b", "/.", "/a b", "/é", "/a?b", "/a#b", "/%2e%2e", "/" + "x" * 300, "/a\nb", "e/a"):
        assert "route" in home.run("endpoint", "create", "--workflow", "w", "--", bad, code=2).err, bad
    for good in ("/a", "/a/b-c_d.e~f/1", "/" + "x" * 255):
        home.run("endpoint", "create", good, "--workflow", "w", code=0)
    taken = home.run("endpoint", "create", "/a", "--workflow", "w", code=3)
    assert "/a" in taken.err
    found = home.run("endpoint", "list", "--json", code=0).data()
    assert {(row["path"], row["workflow"], row["mode"]) for row in found} >= {("/a", "w", "sync")} and len(found) == 3
    assert "/a" in home.run("endpoint", "list", code=0).out
    home.run("endpoint", "delete", "/a", code=0)
    home.run("endpoint", "delete", "/a", code=3)
    home.run("endpoint", "create", "/a", "--workflow", "w", "--mode", "async", code=0)
    home.run("endpoint", "create", "/b", "--workflow", "w", "--mode", "maybe", code=2)
    assert [row["mode"] for row in home.run("endpoint", "list", "--json", code=0).data()].count("async") == 1


# A project folder

@pytest.fixture
def project(home):
    folder = home.base / "project"
    (folder / "scripts").mkdir(parents=True)
    (folder / "workflows").mkdir()
    (folder / "scripts" / "s.py").write_text(says(1))
    # called before its caller in the alphabet, and after
    (folder / "workflows" / "a_main.yaml").write_text("steps: [{id: c, workflow: b_sub}, {id: d, workflow: c_sub}]\noutputs: {v: $c.output.v}\n")
    (folder / "workflows" / "b_sub.yaml").write_text("steps: [{id: c, workflow: c_sub}]\noutputs: {v: $c.output.v}\n")
    (folder / "workflows" / "c_sub.json").write_text(json.dumps({"steps": [{"id": "a", "script": "s"}], "outputs": {"v": "$a.output"}}))
    (folder / "README.md").write_text("x")
    return folder


def actions(done):
    return {f"{row['kind']} {row['name']}": row["action"] for row in done.data()}


def test_apply(home, project):
    planned = home.run("apply", project, "--dry-run", "--json", code=0)
    assert set(actions(planned).values()) == {"create"} and len(actions(planned)) == 4
    assert home.run("script", "list", "--json", code=0).data() == [] == home.run("workflow", "list", "--json", code=0).data()
    assert actions(home.run("apply", project, "--json", code=0)) == actions(planned)
    assert set(actions(home.run("apply", project, "--json", code=0)).values()) == {"unchanged"}
    assert "publish" in home.run("run", "start", "a_main", code=3).err
    assert set(actions(home.run("apply", project, "--publish", "--json", code=0)).values()) == {"unchanged"}
    assert home.run("run", "start", "a_main", "--wait", code=0).out == '{"v":1}\n'
    (project / "scripts" / "s.py").write_text(says(2))
    (project / "workflows" / "b_sub.yaml").write_text("steps: [{id: c, workflow: c_sub}]\noutputs: {v: [$c.output.v]}\n")
    done = actions(home.run("apply", project, "--json", code=0))
    assert {name for name, action in done.items() if action == "update"} == {"script s", "workflow b_sub"}
    Server(home)
    assert home.run("run", "start", "a_main", "--wait", code=0).out == '{"v":2}\n', "the new script, the published workflows"
    home.run("apply", project, "--publish", code=0)
    assert home.run("run", "start", "a_main", "--wait", code=0).out == '{"v":[2]}\n'
    assert [row["version"] for row in home.run("workflow", "versions", "b_sub", "--json", code=0).data()] == [2, 1]
    assert len(home.run("workflow", "versions", "a_main", "--json", code=0).data()) == 1
    text = home.run("apply", project, code=0).out
    assert text.count("unchanged") == 4


def test_apply_shows_the_error_of_a_workflow_that_nothing_calls(home, project):
    (project / "workflows" / "a_main.yaml").write_text("steps: [{id: c, workflow: c_sub, retry: {}}]\n")
    done = home.run("apply", project, code=2)
    assert "a_main.yaml" in done.err and "retry" in done.err


def test_apply_names_the_file_with_the_error(home, project):
    (project / "workflows" / "b_sub.yaml").write_text("steps: [{id: c, workflow: c_sub, retry: {}}]\n")
    done = home.run("apply", project, code=2)
    assert "b_sub.yaml" in done.err and "retry" in done.err


@bug("apply saves the scripts and the good workflows before it finds the error in another file, and prints no plan")
def test_apply_with_an_error_changes_nothing(home, project):
    (project / "workflows" / "b_sub.yaml").write_text("steps: [{id: c, nonsense: 1}]\n")
    home.run("apply", project, code=2)
    assert home.run("workflow", "list", "--json", code=0).data() == []


def test_apply_refuses_what_is_no_project(home, project):
    empty = home.base / "empty"
    empty.mkdir()
    assert "viat init" in home.run("apply", empty, code=2).err
    home.run("apply", home.base / "nowhere", code=2)
    (project / "scripts" / "not a name.py").write_text(says(1))
    assert "not a name" in home.run("apply", project, code=2).err
    assert home.run("script", "list", "--json", code=0).data() == []


def test_apply_refuses_two_files_of_one_name(home, project):
    (project / "workflows" / "c_sub.yaml").write_text("steps: [{id: a, set: 1}]\noutputs: {v: $a.output}\n")
    done = home.run("apply", project, code=2)
    assert "c_sub" in done.err


@pytest.mark.parametrize("example", ["recover", "content", "ledger"])
def test_init(home, example):
    folder = home.base / "made"
    written = home.run("init", folder, "--example", example, "--json", code=0).data()["written"]
    assert all((folder / name).exists() for name in written) and "README.md" in written
    mine = folder / written[-1]
    mine.write_text("mine")
    (folder / written[1]).unlink()
    again = home.run("init", folder, "--example", example, code=0)
    assert "kept" in again.out and mine.read_text() == "mine" and (folder / written[1]).exists()
    mine.unlink()
    home.run("init", folder, "--example", example, code=0)
    home.run("apply", folder, "--publish", code=0)
    assert home.run("init", home.file("plain", "x"), code=2).err
    assert until(lambda: home.run("workflow", "list", "--json", code=0).data(), "applied")
