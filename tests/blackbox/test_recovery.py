"""What people do about runs that did not end well: resume, settle, compensate, migrate; with a server and without one."""
import os
import pwd

import pytest

from conftest import TOUCH, kill, until
from served import Server, published

STEP = TOUCH + """
import os, time
from viat import ViatError
def main(name, once=None):
    mark(name)
    if once and open(os.environ["TRACE"]).read().split().count(name) == 1:
        if once == "user":
            raise ViatError(code=name + "_refused", message="m")
        time.sleep(60)
    return name
"""
FAILS_ONCE = "steps:\n  - {id: a, script: step, args: {name: a}}\n  - {id: b, script: step, args: {name: b, once: user}}\n  - {id: c, script: step, args: {name: c}}\noutputs: {v: $c.output}\n"
UNDOES = """
compensation: manual
steps:
  - {id: a, script: step, args: {name: a}, compensate: {script: step, args: {name: undo_a}}}
  - {id: b, script: step, args: {name: b}, compensate: {script: %s, args: {name: undo_b}}}
  - {id: z, script: step, args: {name: z, once: user}}
"""
UNKNOWN = """
steps:
  - id: pay
    script: step
    args: {name: pay, once: hang}
    timeout: PT0.5S
    resolve: {script: find}
outputs: {v: $pay.output}
"""


@pytest.fixture(params=["served", "alone"])
def place(home, request):
    """Starts a run and goes on with it, in a server or in the command's own process."""
    home.script("step", STEP)
    home.server = Server(home) if request.param == "served" else None
    return home


def begin(home, name, code=1):
    if home.server:
        run = home.server.begin(name)
        home.server.reaches(run, "failed" if name != "unknown" else "needs_attention")
        return run
    return home.run("run", "start", name, "--wait", "--json", code=code).data()["id"]


def ended(home, run):
    return home.server.ended(run) if home.server else home.show(run)


def acts(home, run):
    rows = home.run("run", "transitions", run, "--json", code=0).data()
    return [(row["by"], row.get("reason")) for row in rows if row.get("by")]


def test_a_failed_run_goes_on(place):
    published(place, "w", FAILS_ONCE)
    run = begin(place, "w")
    again = place.run("run", "resume", run, "--input", "{}", code=2)
    assert "new run" in again.err
    place.run("run", "resume", run, "--from", "nothing", code=3)
    place.run("run", "resume", run, "--by", "ana", "--reason", "mended", code=0)
    record = ended(place, run)
    assert record["status"] == "succeeded" and record["outputs"] == {"v": "c"}
    assert place.trace() == ["a", "b", "b", "c"] and ("ana", "mended") in acts(place, run)
    assert place.run("run", "resume", run, code=3).out == "", "what went well needs no resuming"


def test_going_back_over_an_effect_needs_a_reason(place):
    published(place, "w", FAILS_ONCE)
    run = begin(place, "w")
    refused = place.run("run", "resume", run, "--from", "a", code=3)
    assert "a" in refused.err
    place.run("run", "resume", run, "--from", "a", "--accept-repeat", "it was undone by hand", code=0)
    assert ended(place, run)["status"] == "succeeded"
    assert place.trace() == ["a", "b", "a", "b", "c"]


def test_compensation_on_demand(place):
    published(place, "w", UNDOES % "step")
    run = begin(place, "w")
    assert place.show(run)["compensation"] == "available" and "available" in place.run("run", "show", run, code=0).out
    place.run("run", "compensate", run, "--by", "ana", "--reason", "customer left", code=0)
    record = ended(place, run)
    assert (record["status"], record["compensation"]) == ("failed", "complete")
    assert place.trace() == ["a", "b", "z", "undo_b", "undo_a"] and ("ana", "customer left") in acts(place, run)
    place.run("run", "compensate", run)
    assert place.trace() == ["a", "b", "z", "undo_b", "undo_a"], "once"


def test_an_undoing_that_fails_is_told(home):
    home.server = None
    home.script("step", STEP)
    home.script("bad", "def main(name):\n    raise RuntimeError('cannot')\n")
    published(home, "w", UNDOES % "bad")
    run = begin(home, "w")
    done = home.run("run", "compensate", run, "--json")
    assert done.code == 1 and done.data()["compensation"] == "partial"
    assert "a compensated" in home.run("run", "ledger", run, code=0).out


def test_what_is_in_place_and_why_and_what_comes_next(home):
    home.server = None
    home.script("step", STEP)
    home.script("bad", "def main(name):\n    raise RuntimeError('the desk is closed')\n")
    published(home, "w", (UNDOES % "bad").replace("manual", "auto"))
    run = begin(home, "w")
    shown = home.run("run", "show", run, code=0).out
    assert "b is not undone: RuntimeError: the desk is closed" in shown
    assert f"viat run resume {run}" in shown and f"viat run compensate {run}" in shown
    assert {row["path"]: row.get("reason") for row in home.show(run)["ledger"]} == {"a": None, "b": "RuntimeError: the desk is closed"}
    assert "migrate" not in shown, "nothing is newer"
    home.script("step", STEP)
    again = home.run("run", "resume", run, code=0)
    assert f"viat run migrate {run} --to-version 1" in again.err and "script step has version 2, the run has 1" in again.err


def test_an_undoing_that_certainly_failed_is_tried_again_by_the_next_end(home):
    home.server = None
    home.script("step", STEP)
    home.script("refuse", TOUCH + "import viat\ndef main(name):\n    mark(name)\n    raise viat.ViatError(code='no', message='m')\n")
    published(home, "w", (UNDOES % "refuse").replace("manual", "auto"))
    run = begin(home, "w")
    assert home.trace() == ["a", "b", "z", "undo_b", "undo_a"]
    home.script("step", STEP.replace('"user"', '"never"'))
    home.workflow("w", (UNDOES % "refuse").replace("manual", "auto").replace("{name: z, once: user}", "{name: y}").replace("script: step, args: {name: y}", "script: refuse, args: {name: y}"))
    home.run("run", "migrate", run, "--to-version", "2", "--reason", "r", code=0)
    home.run("run", "resume", run, code=1)
    assert home.trace()[5:] == ["a", "y", "undo_a", "undo_b"], "a was undone and is the newer one now; b was not"


def test_an_output_that_does_not_fit_its_undoing_is_told_when_it_is_given(home):
    home.server = None
    home.script("step", STEP)
    home.script("find", "def main():\n    return {'completed': 'unknown'}\n")
    published(home, "unknown", UNKNOWN.replace("outputs", "    compensate: {script: step, args: {name: $pay.output.id}}\noutputs"))
    run = begin(home, "unknown")
    assert home.run("run", "ledger", run, code=0).out == "", "what is not known has no line"
    assert "pay cannot be undone with this output" in home.run("run", "settle", run, "--step", "pay", "--completed", "{}", code=0).err


def test_the_run_itself_waits_on_record(home):
    published(home, "w", "steps: [{id: nap, wait: {for: PT0.05S}}]")
    run = home.run("run", "start", "w", "--wait", "--json", code=0).data()["id"]
    rows = home.run("run", "transitions", run, "--json", code=0).data()
    assert [row["to_status"] for row in rows if row["step_name"] is None] == ["queued", "running", "waiting", "succeeded"]


def test_who_is_known_without_a_variable(home):
    """And the table has a column for it."""
    published(home, "w", "steps: [{id: nap, wait: {for: PT1H}}]")
    run = home.run("run", "start", "w", code=0).out.strip()
    home.run("run", "cancel", run, "--reason", "a mistake", env={"USER": None, "LOGNAME": None}, code=0)
    name = pwd.getpwuid(os.getuid()).pw_name
    assert f"{name}: a mistake" in home.run("run", "transitions", run, code=0).out


@pytest.mark.parametrize("word", ["completed", "not_done"])
def test_a_person_settles_what_is_unknown(place, word):
    place.script("find", "def main():\n    return {'completed': 'unknown'}\n")
    published(place, "unknown", UNKNOWN)
    run = begin(place, "unknown")
    record = place.show(run)
    assert record["status"] == "needs_attention" and record["error"]["step"] == "pay"
    assert "run settle" in place.run("run", "show", run, code=0).out
    watched = place.run("run", "watch", run)
    assert watched.code == 1 and "run settle" in watched.err, "watching ends where only a person can go on"
    settle = ("run", "settle", run, "--step")
    place.run(*settle, "pay", code=2)
    place.run(*settle, "pay", "--completed", "1", "--not-done", code=2)
    place.run(*settle, "odd", "--not-done", code=3)
    if word == "completed":
        place.run(*settle, "pay", "--completed", "null", "--by", "ana", code=0)
    else:
        place.run(*settle, "pay", "--not-done", "--by", "ana", code=0)
    if not place.server and place.show(run)["ended_at"] is None:
        # Whoever writes it down may have come to the end of it already.
        place.run("run", "resume", run, code=0)
    record = ended(place, run)
    assert ("ana", None) in acts(place, run)
    assert (record["status"], record["outputs"]) == (("succeeded", {"v": None}) if word == "completed" else ("failed", None))
    place.run(*settle, "pay", "--not-done", code=3)


def test_moving_to_another_version(place):
    published(place, "w", FAILS_ONCE)
    run = begin(place, "w")
    place.run("run", "migrate", run, "--to-version", "2", code=2)
    place.run("run", "migrate", run, "--to-version", "2", "--reason", "r", code=3)
    place.workflow("w", FAILS_ONCE.replace("name: a}", "name: other}"))
    refused = place.run("run", "migrate", run, "--to-version", "2", "--reason", "r", code=3)
    assert "a" in refused.err
    place.workflow("w", FAILS_ONCE.replace("{id: b, script: step, args: {name: b, once: user}}", "{id: b, script: step, args: {name: new}}"))
    end = place.show(run)["ended_at"]
    place.run("run", "migrate", run, "--to-version", "3", "--reason", "b was wrong", "--by", "ana", code=0)
    record = place.show(run)
    assert (record["status"], record["version"], record["ended_at"]) == ("failed", 3, end)
    assert ("ana", "b was wrong") in acts(place, run)
    place.run("run", "resume", run, code=0)
    assert ended(place, run)["status"] == "succeeded" and place.trace() == ["a", "b", "new", "c"]


def test_all_of_it_over_http(home):
    home.script("step", STEP)
    home.server = server = Server(home)
    published(home, "w", FAILS_ONCE)
    run = begin(home, "w")
    path = f"/api/v1/runs/{run}"
    server.post(f"{path}/settle", {"step": "b"}).problem(422)
    server.post(f"{path}/settle", {"step": "b", "not_done": True}).problem(409)
    server.post(f"{path}/migrate", {"to_version": 9, "reason": "r"}).problem(404)
    server.post(f"{path}/migrate", {"to_version": 1}).problem(422)
    server.post(f"{path}/resume", {"input": {}}).problem(422)
    server.post("/api/v1/runs/ffffffff/compensate", {}).problem(404)
    assert server.post(f"{path}/resume", {"by": "ana"}).data() == {"id": run}
    assert server.ended(run)["status"] == "succeeded"
    server.post(f"{path}/resume", {}).problem(409)
    assert server.ask("GET", f"{path}/ledger").data() == home.run("run", "ledger", run, "--json", code=0).data()
    assert server.ask("GET", f"{path}/transitions").data() == home.run("run", "transitions", run, "--json", code=0).data()
    server.ask("GET", "/api/v1/runs/ffffffff/ledger").problem(404)


HANGS = TOUCH + """
import os, time
def main(name):
    mark(name)
    while not os.path.exists(os.environ["TRACE"] + ".go"):
        time.sleep(0.02)
"""
UNDOES_SLOWLY = """
steps:
  - {id: a, script: step, args: {name: a}, compensate: {script: hangs, args: {name: undo_a}, idempotent: true}}
  - {id: z, script: step, args: {name: z, once: user}}
"""


def undoing(home):
    """A run in another process that is undoing and does not get on."""
    home.server = None
    home.script("step", STEP)
    home.script("hangs", HANGS)
    published(home, "w", UNDOES_SLOWLY)
    process = home.start("run", "start", "w", "--wait")
    until(lambda: "undo_a" in home.trace(), "it undoes")
    return process, home.runs()[0]["id"]


def let_go(home):
    open(str(home.trace_file) + ".go", "w").close()


def test_a_cancel_counts_while_effects_are_being_undone(home):
    process, run = undoing(home)
    home.run("run", "cancel", run, "--by", "boss", "--reason", "stop this", code=0)
    let_go(home)
    assert process.wait(timeout=60) == 1
    record = home.show(run)
    assert (record["status"], record["compensation"]) == ("cancelled", "complete") and record["error"]["cause"]["code"] == "z_refused"
    assert ("boss", "stop this") in acts(home, run)
    assert "was cancelled" in home.run("run", "resume", run, code=3).err


def test_compensate_goes_on_where_a_dead_engine_had_begun(home):
    process, run = undoing(home)
    kill(process)
    let_go(home)
    home.run("run", "compensate", run, code=0)
    assert home.show(run)["compensation"] == "complete" and home.trace() == ["a", "z", "undo_a", "undo_a"]


def test_commands_about_one_run_wait_for_each_other(home):
    published(home, "w", "steps: [{id: nap, wait: {event: go}}]")
    run = home.run("run", "start", "w", code=0).out.strip()
    commands = [home.start("event", "send", f"e{number}", "--run", run) for number in range(5)]
    commands.append(home.start("run", "cancel", run, "--by", "boss"))
    assert [command.wait(timeout=60) for command in commands][5] == 0
    assert home.show(run)["status"] == "cancelled"
    assert all(command.returncode in (0, 3) for command in commands), "3: it was cancelled before"


def test_what_was_perhaps_undone_is_not_used_unseen(home):
    home.server = None
    home.script("step", STEP)
    home.script("breaks", TOUCH + "import viat\ndef main(name):\n    mark(name)\n    raise viat.TransportError('sent, and then nothing')\n")
    published(home, "w", (UNDOES % "breaks").replace("manual", "auto"))
    run = begin(home, "w")
    refused = home.run("run", "resume", run, code=3)
    assert "not known whether these are undone" in refused.err and ": b;" in refused.err
    home.run("run", "resume", run, "--accept-repeat", "b is in place: I looked", code=0)
    assert home.trace() == ["a", "b", "z", "undo_b", "undo_a", "a", "z"]


def test_a_migrated_run_is_listed_with_its_version(home):
    home.server = None
    home.script("step", STEP)
    published(home, "w", FAILS_ONCE)
    run = begin(home, "w")
    home.workflow("w", FAILS_ONCE)
    home.run("run", "migrate", run, "--to-version", "2", "--reason", "r", code=0)
    assert [row["version"] for row in home.runs()] == [2] and "w v2" in home.run("run", "list", code=0).out


def test_nobody_knows_is_told(home):
    home.server = None
    home.script("step", STEP)
    home.script("find", "def main():\n    return {'completed': 'unknown'}\n")
    published(home, "unknown", UNKNOWN)
    run = begin(home, "unknown")
    home.run("run", "cancel", run, code=0)
    assert home.show(run)["uncertain"] == ["pay"]
    assert "pay: nobody knows whether its last attempt took effect" in home.run("run", "show", run, code=0).out
    assert home.run("run", "ledger", run, code=0).out == ""
