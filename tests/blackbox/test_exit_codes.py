"""Every command's exit codes; a command that fails leaves stdout empty."""
import json

import pytest


ECHO = "def main(value=None):\n    return value\n"
USES = "steps: [{id: a, script: echo}]\n"


@pytest.mark.parametrize("words", [
    [], ["nonsense"], ["script"], ["script", "create"], ["script", "create", "--name", "x"], ["script", "show"],
    ["script", "create", "--name", "x", "--language", "cobol", "--file", "x"], ["script", "list", "extra"],
    ["workflow", "create"], ["workflow", "create", "x"], ["workflow", "test"], ["workflow", "validate"],
    ["workflow", "show", "x", "--version", "one"], ["workflow", "show", "x", "--version", "-1"],
    ["run"], ["run", "show"], ["run", "list", "--limit", "0"], ["run", "list", "--limit", "1001"], ["run", "list", "--limit", "-1"],
    ["run", "logs"], ["run", "resume"], ["run", "logs", "x", "--attempt", "x"], ["doctor", "x"], ["--wrong"],
    ["workflow", "test", "x", "--input", "{}", "--input", "{}"], ["script", "list", "--json", "--json"],
    ["--home", "a", "--home", "b", "script", "list"],
])
def test_usage_errors(home, words):
    done = home.run(*words)
    assert done.code == 2 and done.out == "" and done.err.strip(), done


@pytest.mark.parametrize("words", [
    ["script", "show", "x"], ["script", "delete", "x"], ["workflow", "show", "x"], ["workflow", "delete", "x"],
    ["workflow", "test", "x"], ["run", "show", "x"], ["run", "logs", "x"], ["run", "resume", "x"],
    ["workflow", "show", "x", "--version", "1"], ["workflow", "show", "x", "--version", "18446744073709551615"],
])
@pytest.mark.parametrize("json_too", [False, True])
def test_what_is_not_there(home, words, json_too):
    done = home.run(*words, *["--json"] * json_too)
    assert done.code == 3 and done.out == "", done
    if json_too:
        error = json.loads(done.err)["error"]
        assert error["exit"] == 3 and error["message"]
    else:
        assert done.err.startswith("error: ")


@pytest.mark.parametrize("words", [["--help"], ["-h"], ["--version"], ["help"], ["script", "--help"], ["workflow", "test", "--help"],
                                   ["run", "resume", "--help"], ["script", "create", "--help"], ["workflow", "validate", "--help"]])
def test_help(home, words):
    done = home.run(*words, code=0)
    assert done.out.strip() and done.err == ""
    assert not home.path.exists(), "help touches nothing"


def test_every_command_shows_an_example(home):
    commands = {"script": ["create", "list", "show", "delete"], "run": ["list", "show", "logs", "resume"],
                "workflow": ["create", "validate", "list", "show", "test", "delete"]}
    for group, names in commands.items():
        for name in names:
            assert "Example" in home.run(group, name, "--help", code=0).out


def test_nearest_name_is_offered(home):
    home.script("payment", ECHO)
    assert "payment" in home.run("script", "show", "paymnet", code=3).err
    refused = home.workflow("w", "steps: [{id: a, script: paymnet}]\n", code=2)
    assert "payment" in refused.err and "w.yaml:1:" in refused.err
    home.run("workflow", "show", "w", code=3)


def test_script_in_use_cannot_be_deleted(home):
    home.script("echo", ECHO)
    home.workflow("user", USES)
    done = home.run("script", "delete", "echo", code=3)
    assert "user" in done.err
    assert home.run("script", "show", "echo", "--json", code=0).data()["used_by"] == ["user"]
    home.run("workflow", "delete", "user", code=0)
    home.run("script", "delete", "echo", code=0)
    home.run("script", "delete", "echo", code=3)
    home.run("script", "show", "echo", code=3)
    assert home.run("script", "list", "--json").data() == []


def test_an_older_workflow_version_holds_a_script_or_says_that_it_does_not(home):
    """A script named only by an older version: the deletion is refused, or that version cannot be started any more."""
    home.script("echo", ECHO)
    home.workflow("user", USES)
    home.workflow("user", "steps: [{id: a, set: 1}]\n")
    done = home.run("script", "delete", "echo")
    assert done.code in (0, 3)
    if done.code == 3:
        assert "user" in done.err
    home.run("workflow", "test", "user", code=0)


def test_deleted_name_can_be_used_again(home):
    home.script("echo", ECHO)
    home.workflow("w", USES)
    first = home.record("w")["id"]
    home.run("workflow", "delete", "w", code=0)
    home.run("script", "delete", "echo", code=0)
    home.run("workflow", "test", "w", code=3)
    home.workflow("w", USES, code=2)
    assert home.show(first)["status"] == "succeeded"
    home.script("echo", "def main(value=2):\n    return value\n")
    home.workflow("w", USES + "outputs: {v: $a.output}\n")
    assert home.record("w")["outputs"] == {"v": 2}


@pytest.mark.parametrize("name", ["", "1a", "a b", "a/b", "../a", "é", "a\n", "a" * 129, "-a", "a$", "a:b", "a\\b", "."])
def test_odd_names_are_refused(home, name):
    source, flow = home.file("s.py", ECHO), home.file("w.yaml", "steps: [{id: a, set: 1}]\n")
    for words in (["script", "create", f"--name={name}", "--language", "python", "--file", source],
                  ["workflow", "create", "--file", flow, "--", name]):
        done = home.run(*words, code=2)
        assert "Traceback" not in done.err
    assert home.run("script", "list", "--json").data() == home.run("workflow", "list", "--json").data() == []


@pytest.mark.parametrize("name", ["a", "_", "A.b-c_d", "a" * 128, "con", "list", "--"[:0] + "x--y"])
def test_good_names(home, name):
    home.script("echo", ECHO)
    home.run("script", "create", "--name", name, "--language", "python", "--file", home.file("s.py", ECHO), code=0)
    home.run("workflow", "create", name, "--file", home.file("w.yaml", f"steps: [{{id: a, script: {name}, args: {{value: 7}}}}]\noutputs: {{v: $a.output}}\n"), code=0)
    assert home.record(name)["outputs"] == {"v": 7}


def test_failed_run_with_json_prints_its_record_and_exits_1(home):
    home.step("def main():\n    print('last words')\n    1/0\n")
    done = home.run("workflow", "test", "s", "--json")
    assert done.code == 1
    record = done.data()
    assert record["error"]["class"] == "exception" and record["error"]["code"] == "ZeroDivisionError"
    plain = home.run("workflow", "test", "s", code=1)
    for word in ("s #1", "exception", "ZeroDivisionError", "division by zero", "last words", "s.py"):
        assert word in plain.err, plain
    assert [row["status"] for row in home.runs()] == ["failed", "failed"]
    assert {(row["error_class"], row["error_code"]) for row in home.runs()} == {("exception", "ZeroDivisionError")}
    assert [row["status"] for row in home.run("run", "list", "--status", "failed", "--workflow", "s", "--json").data()] == ["failed"] * 2


def test_finished_run_cannot_be_resumed_when_it_succeeded(home):
    home.step("def main():\n    return 1\n")
    run = home.record("s")["id"]
    assert "nothing to resume" in home.run("run", "resume", run, code=3).err


def test_failed_run_is_resumed_at_the_entry_that_failed(home):
    home.script("flaky", "import os\ndef main():\n    if not os.path.exists(os.environ['TRACE']):\n        raise ValueError('first')\n    return 5\n")
    home.workflow("w", "steps: [{id: a, set: 1}, {id: b, script: flaky}]\noutputs: {v: $b.output}\n")
    run = home.record("w")["id"]
    home.trace_file.write_text("x")
    assert home.run("run", "resume", run, code=0).out == '{"v":5}\n'


def test_a_status_that_does_not_exist(home):
    done = home.run("run", "list", "--status", "succeded", code=2)
    assert "succeeded" in done.err


def test_warnings_are_data_too(home):
    home.script("echo", ECHO)
    flow = home.file("w.yaml", "timeout: PT1S\nsteps: [{id: a, script: echo, timeout: PT10S}]\n")
    done = home.run("workflow", "validate", "--file", flow, code=0)
    assert "timeout" in done.err
    assert "timeout" in json.dumps(home.run("workflow", "validate", "--file", flow, "--json", code=0).data())
