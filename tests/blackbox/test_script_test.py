"""`viat script test` and `viat script logs`: one script alone, and what its attempts wrote."""
import signal
import subprocess

import pytest

from conftest import until

PICKY = '''
import viat
def main(how: str = "value", n: int = 1):
    print("asked for", how)
    if how == "refuse":
        raise viat.ViatError(status=422, code="no", message="not that", extra={"n": n})
    if how == "raise":
        raise KeyError("k")
    if how == "die":
        import os; os._exit(3)
    if how == "set":
        return {1, 2}
    if how == "slow":
        import time; time.sleep(60)
    if how == "again":
        raise viat.TransportError("busy", retry_after_ms=50)
    if how == "defer":
        viat.defer("w", {})
    return {"n": n}
'''


def test_a_value_goes_to_stdout_and_the_log_to_stderr(home):
    home.script("p", PICKY)
    done = home.run("script", "test", "p", "--args", '{"n": 3}', code=0)
    assert done.out == '{"n":3}\n' and "│ asked for value" in done.err
    done = home.run("script", "test", "p", "--args", "-", "--json", stdin=b'{"n": 4}', code=0).data()
    assert (done["status"], done["value"], done["error"], done["log"]) == ("succeeded", {"n": 4}, None, "asked for value\n")
    assert home.runs() == []


@pytest.mark.parametrize("args, said, kind", [
    ('{"how": "refuse", "n": 5}', ("user", "no"), "user"),
    ('{"how": "raise"}', ("exception", "KeyError"), "runtime"),
    ('{"how": "die"}', ("script_broken", "script_broken"), "runtime"),
    ('{"how": "set"}', ("invalid_output", "invalid_output"), "runtime"),
    ('{"how": "again"}', ("transport", "transport"), "runtime"),
    ('{"how": "defer"}', ("resource", "resource"), "runtime"),
    ('{"n": "3"}', ("annotation", "annotation"), "runtime"),
    ('{"m": 3}', ("annotation", "annotation"), "runtime"),
])
def test_a_failure_has_its_class_and_exit_1(home, args, said, kind):
    home.script("p", PICKY)
    done = home.run("script", "test", "p", "--args", args, code=1)
    assert said[0] in done.err and said[1] in done.err, done
    record = home.run("script", "test", "p", "--args", args, "--json", code=1).data()
    assert (record["status"], record["value"]) == ("failed", None)
    assert (record["error"]["class"], record["error"]["code"], record["error"]["kind"]) == (*said, kind)
    if said[1] == "no":
        assert record["error"]["status"] == 422 and record["error"]["extra"] == {"n": 5}


def test_a_timeout_and_an_interrupt_end_it(home):
    home.script("p", PICKY)
    done = home.run("script", "test", "p", "--args", '{"how": "slow"}', "--timeout", "50", "--json", code=1)
    assert done.data()["error"]["class"] == "timeout"
    process = home.start("script", "test", "p", "--args", '{"how": "slow"}')
    until(lambda: any(home.path.glob("scratch/*/work")), "the worker is there")
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)
    try:
        out, err = process.communicate(timeout=30)
    except subprocess.TimeoutExpired:
        raise AssertionError("it does not end") from None
    assert process.returncode != 0 and out == b""
    until(lambda: not any(home.path.glob("scratch/*")), "nothing is left")


def test_wrong_usage(home):
    home.script("p", PICKY)
    assert "not an object" in home.run("script", "test", "p", "--args", "[1]", code=2).err
    assert "not JSON" in home.run("script", "test", "p", "--args", "{", code=2).err
    assert "there is no script q" in home.run("script", "test", "q", code=3).err
    assert "no version 7" in home.run("script", "test", "p", "--version", "7", code=3).err
    assert "there is no script q" in home.run("script", "logs", "q", code=3).err


def test_logs_are_those_of_the_scripts_own_attempts_newest_first(home):
    home.script("p", PICKY)
    home.script("other", "def main():\n    print('of another')\n")
    home.workflow("inner", "steps:\n  - {id: deep, script: p, args: {how: deep}}\noutputs: {}\n")
    home.workflow("w", "steps:\n  - {id: o, script: other}\n  - {id: a, script: p, args: {how: refuse}, on_error: continue}\n  - {id: sub, workflow: inner}\noutputs: {}\n")
    assert "no attempt of script p yet" in home.run("script", "logs", "p", code=0).err
    home.run("workflow", "test", "w", code=0)
    rows = home.run("script", "logs", "p", "--json", code=0).data()
    assert [(row["path"], row["attempt"], row["status"], row["log"]) for row in rows] == [
        ("sub.deep", 1, "succeeded", "asked for deep\n"), ("a", 1, "failed", "asked for refuse\n")]
    text = home.run("script", "logs", "p", "--limit", "1", code=0).out
    assert "sub.deep #1" in text and "asked for deep" in text and "refuse" not in text
