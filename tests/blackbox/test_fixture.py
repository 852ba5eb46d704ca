"""The fixture that everything began with: a refusal, caught."""
import json
import pathlib
import re

from conftest import ROOT

TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
UUID = re.compile(r"^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$")
EXPECTED = '{"result":{"recovered":true,"code":"fixture_conflict"}}\n'

CONTINUE = """
    inputs: {}
    steps:
      - id: request
        script: wf_fail
        on_error: continue
    outputs:
      result: $request.output
      code: $request._error.code
"""


def install(home):
    for name in ("wf_echo", "wf_fail"):
        source = ROOT / f"examples/recover/scripts/{name}.py"
        home.run("script", "create", "--name", name, "--language", "python", "--file", source, code=0)
    home.run("workflow", "create", "recover", "--file", ROOT / "examples/recover/workflows/recover.yaml", code=0)


def test_caught(home):
    install(home)
    done = home.run("workflow", "test", "recover", "--input", "{}", code=0)
    assert done.out == EXPECTED
    assert "recovered: request #1 (fixture_conflict)" in done.err


def test_input_defaults_to_nothing_and_may_come_from_a_file_or_stdin(home):
    install(home)
    given = home.file("input.json", "{}")
    for more, stdin in ([], b""), (["--input", f"@{given}"], b""), (["--input", "-"], b" { } \n"):
        assert home.run("workflow", "test", "recover", *more, stdin=stdin, code=0).out == EXPECTED


def test_continued(home):
    install(home)
    home.workflow("past", CONTINUE)
    done = home.run("workflow", "test", "past", "--input", "{}", code=0)
    assert done.out == '{"result":null,"code":"fixture_conflict"}\n'
    assert "recovered: request #1 (fixture_conflict)" in done.err


def test_not_caught(home):
    install(home)
    home.workflow("bare", "steps: [{id: request, script: wf_fail}]")
    done = home.run("workflow", "test", "bare", code=1)
    for word in ("request", "user", "fixture_conflict", "fixture refusal", "409"):
        assert word in done.err, done
    failed = home.record("bare")
    error = failed["error"]
    assert (error["code"], error["class"], error["kind"], error["status"]) == ("fixture_conflict", "user", "user", 409)
    assert (error["step"], error["attempt"], error["message"]) == ("request", 1, "fixture refusal")
    assert failed["outputs"] is None and failed["status"] == "failed"


def test_record_has_the_documented_shape(home):
    install(home)
    record = home.record("recover", "--input", "{}")
    assert list(record) == ["id", "workflow", "version", "status", "inputs", "outputs", "error", "created_at", "started_at",
                            "ended_at", "deadline", "compensation", "attempts", "ledger", "uncertain", "deferred", "reviews"]
    assert UUID.match(record["id"])
    assert (record["workflow"], record["version"], record["status"], record["inputs"]) == ("recover", 1, "succeeded", {})
    assert (record["error"], record["deadline"], record["compensation"]) == (None, None, "none")
    assert record["deferred"] == [] and record["reviews"] == []
    times = [record[key] for key in ("created_at", "started_at", "ended_at")]
    assert all(TIME.match(time) for time in times) and times == sorted(times)
    failed, recovery = record["attempts"]
    for attempt in failed, recovery:
        assert list(attempt) == ["step", "path", "attempt", "status", "class", "kind", "code", "message", "recovered", "decision",
                                 "wait_ms", "queued_ms", "started_at", "ended_at"]
        assert type(attempt["wait_ms"]) is int and type(attempt["queued_ms"]) is int
        assert TIME.match(attempt["started_at"]) and TIME.match(attempt["ended_at"])
    assert (failed["step"], failed["path"], failed["attempt"], failed["status"]) == ("request", "request", 1, "failed")
    assert (failed["class"], failed["kind"], failed["code"], failed["recovered"]) == ("user", "user", "fixture_conflict", True)
    assert failed["decision"]["retry"] is False and failed["decision"]["reason"]
    assert (recovery["step"], recovery["status"], recovery["class"], recovery["decision"]) == ("recovery", "succeeded", None, None)
    assert all(set(row) == {"path", "status", "order"} for row in record["ledger"])
    assert home.show(record["id"]) == record


def test_lists_are_bare_arrays_newest_first(home):
    for command in ("script", "workflow", "run"):
        assert home.run(command, "list", "--json", code=0).data() == []
    install(home)
    assert [row["name"] for row in home.run("script", "list", "--json").data()] == ["wf_fail", "wf_echo"]
    home.script("wf_echo", "def main(value):\n    return value\n")
    rows = home.run("script", "list", "--json").data()
    assert [(row["name"], row["version"]) for row in rows] == [("wf_echo", 2), ("wf_fail", 1)]
    assert all(TIME.match(row["created_at"]) and re.fullmatch("[0-9a-f]{64}", row["hash"]) for row in rows)
    ids = [home.record("recover")["id"] for _ in range(3)]
    assert [row["id"] for row in home.runs()] == ids[::-1]
    assert [row["id"] for row in home.run("run", "list", "--json", "--limit", "2").data()] == ids[:0:-1]
    row = home.runs()[0]
    assert (row["workflow"], row["version"], row["status"]) == ("recover", 1, "succeeded")
    assert TIME.match(row["created_at"]) and TIME.match(row["ended_at"])


def test_saving_again_makes_a_version_also_when_nothing_changed(home):
    install(home)
    again = home.run("workflow", "create", "recover", "--file", ROOT / "examples/recover/workflows/recover.yaml", "--json", code=0).data()
    assert again["version"] == 2
    assert home.run("workflow", "show", "recover", "--json").data()["version"] == 2
    assert home.run("workflow", "show", "recover", "--version", "1", "--json").data()["version"] == 1
    home.run("workflow", "show", "recover", "--version", "3", code=3)
    assert home.record("recover")["version"] == 2


def test_run_is_found_by_the_beginning_of_its_id(home):
    install(home)
    run = home.record("recover")["id"]
    assert home.run("run", "show", run[:20], "--json", code=0).data()["id"] == run
    home.record("recover")
    assert "several" in home.run("run", "show", run[:2], code=3).err
    home.run("run", "show", "ffff", code=3)
    home.run("run", "show", "", code=3)


def test_human_output_names_what_matters(home):
    install(home)
    run = home.record("recover")["id"]
    shown = home.run("run", "show", run, code=0)
    for word in (run, "succeeded", "request", "request.recovery", "fixture_conflict", "recovered"):
        assert word in shown.out + shown.err
    assert run in home.run("run", "list", code=0).out
    assert "used by" in home.run("script", "show", "wf_fail", code=0).out
    assert "wf_fail" in home.run("workflow", "show", "recover", code=0).out


def test_demo_and_doctor(home):
    checks = home.run("doctor", "--json", code=0).data()
    assert {"check", "verdict", "found", "fix"} <= set(checks[0]) and {"database", "python"} <= {row["check"] for row in checks}
    assert "python" in home.run("doctor", code=0).out


def test_demo(home):
    results = home.base / "demo" / "results"
    record = home.run("demo", home.base / "demo", "--decide", "review=approved", "--json", code=0).data()
    assert record["status"] == "succeeded" and any(attempt["recovered"] for attempt in record["attempts"])
    saved = json.loads(pathlib.Path(record["outputs"]["file"]).read_text())
    assert saved["key"] == record["inputs"]["task_id"] and list((results / "staged").iterdir()) == []
    again = home.run("demo", home.base / "demo", "--decide", "review=rejected", code=0)
    assert "retried" in again.out and "what was undone        stage_draft" in again.out
    assert list((results / "staged").iterdir()) == [] and len(list(results.glob("*.json"))) == 1
    assert [line.split(" ", 1)[1] for line in (results / "notifications.log").read_text().splitlines()] == [
        "local recovery: approved", "local recovery: rejected"]


def test_demo_in_which_an_attempt_dies_tells_the_author_once(home):
    results = home.base / "demo" / "results"
    for fault in "crash", "interrupt":
        record = home.run("demo", home.base / "demo", "--decide", "review=approved", "--inject", f"notify={fault}", "--json", code=0).data()
        assert [a["path"] for a in record["attempts"] if "notify" in a["path"]][:2] == ["notify", "notify:resolve[1]"], record
    told = [line.split(" ")[0] for line in (results / "notifications.log").read_text().splitlines()]
    assert len(told) == len(set(told)) == 2


def test_the_ledger_example(home):
    folder = home.base / "ledger"
    home.run("init", folder, "--example", "ledger", code=0)
    home.run("apply", folder, code=0)
    run = home.record("ledger")["id"]
    assert home.run("run", "ledger", run, code=0).out.splitlines() == [
        "prepare completed_at_2", "notify manual_review", "rollback compensated", "rollback_again skip"]
