"""A run that a command has in the foreground can be told from another command, as if a server had it."""
import os

from conftest import until
from served import ECHO

FLOW = """
inputs: {}
steps:
  - {id: check, review: {title: "Right?", timeout: PT1H}}
  - {id: nod, wait: {event: nod, timeout: PT1H}}
  - {id: after, script: echo, args: {v: $check.output.decision}}
outputs: {d: $after.output}
"""


def begin(home, flow=FLOW):
    home.script("echo", ECHO)
    home.workflow("w", flow)
    process = home.start("workflow", "test", "w", "--json")
    run = until(lambda: next((row for row in home.runs() if row["status"] == "waiting"), None), "it waits")["id"]
    return process, run


def ended(process):
    out, err = process.communicate(timeout=60)
    assert b"panicked" not in err
    return process.returncode, out, err


def review(home):
    return home.run("review", "list", "--json", code=0).data()[0]["id"]


def test_decided_and_told_from_another_terminal(home):
    process, run = begin(home)
    asked = review(home)
    decided = home.run("review", "decide", asked, "--decision", "approved", "--by", "ana", code=0)
    assert "no server" not in decided.err
    second = home.run("review", "decide", asked, "--decision", "rejected", "--by", "bob", code=3)
    assert "ana" in second.err
    until(lambda: any(row["step_name"] == "nod" for row in home.run("run", "transitions", run, "--json", code=0).data()), "the next wait")
    home.run("event", "send", "nod", "--run", run, code=0)
    assert ended(process)[0] == 0
    assert home.show(run)["outputs"] == {"d": "approved"}


def test_cancelled_from_another_terminal(home):
    process, run = begin(home)
    home.run("run", "cancel", run, "--by", "ana", "--reason", "enough", code=0)
    code, _, _ = ended(process)
    assert code == 1 and home.show(run)["status"] == "cancelled"


def test_a_killed_command_leaves_no_desk_that_anybody_waits_at(home):
    process, run = begin(home)
    asked = review(home)
    process.kill()
    process.wait()
    assert [name for name in os.listdir(home.path / "owners") if name.endswith(".sock")]
    told = home.run("review", "decide", asked, "--decision", "approved", "--by", "ana", code=0)
    assert "resume" in told.err, "nobody has the run: it says how it goes on"
    home.run("run", "list", code=0)
    desks = lambda: [name for name in os.listdir(home.path / "owners") if name.endswith(".sock")]
    other = home.start("run", "resume", run)
    until(lambda: desks() and any(row["step_name"] == "nod" for row in home.run("run", "transitions", run, "--json", code=0).data()), "it goes on")
    home.run("event", "send", "nod", "--run", run, code=0)
    assert ended(other)[0] == 0
    assert desks() == []


def test_a_decision_beside_an_unknown_outcome_is_kept(home):
    home.script("pay", "def main():\n    import os, signal\n    os.kill(os.getpid(), signal.SIGKILL)\n")
    home.script("find", "def main():\n    return {'completed': 'unknown'}\n")
    flow = """
steps:
  - id: both
    parallel:
      branches:
        pay:
          - {id: pay, script: pay, resolve: {script: find}}
        ask:
          - {id: check, review: {title: "Right?", timeout: PT1H}}
outputs: {d: $pay.output}
"""
    home.workflow("w", flow)
    process = home.start("workflow", "test", "w", "--json")
    run = until(lambda: next((row["id"] for row in home.runs() if home.show(row["id"])["reviews"]), None), "it asks")
    home.run("review", "decide", review(home), "--decision", "approved", "--by", "ana", code=0)
    code, _, err = ended(process)
    assert code == 1 and home.show(run)["status"] == "needs_attention", err
