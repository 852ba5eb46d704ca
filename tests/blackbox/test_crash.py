"""Kill -9 at any moment, signals, pauses: what is done is never done again, and nobody is left behind."""
import json
import random
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from conftest import PATIENCE, TOUCH, kill, nobody_left, processes_of, until

STEPS = 6
# Each attempt says that it begins and that it took effect; in between it takes a moment.
EFFECT = TOUCH + """
import time
def main(n, ms=8):
    mark(f"begin{n}")
    time.sleep(ms / 1000)
    mark(f"done{n}")
    print("effect", n)
    return n
"""


def chain(more="", ms=8):
    entries = "".join(f"- {{id: s{n}, script: effect, args: {{n: {n}, ms: {ms}}}{more}}}\n" for n in range(STEPS))
    return f"steps:\n{entries}outputs: {{last: $s{STEPS - 1}.output}}\n"


def unfinished(home):
    return [row["id"] for row in home.runs() if row["ended_at"] is None]


def check_ledger(home, record, repeats_allowed):
    """What the journal says and what really happened agree."""
    trace = home.trace()
    completed = {row["path"] for row in record["ledger"] if row["status"] == "completed"}
    for n in range(STEPS):
        begun = trace.count(f"begin{n}")
        attempts = [each for each in record["attempts"] if each["step"] == f"s{n}"]
        assert begun <= len(attempts), (n, trace, record)
        if not repeats_allowed:
            assert begun <= 1, (n, trace)
        if f"s{n}" in completed:
            assert trace.count(f"done{n}") >= 1
            last = attempts[-1]
            assert last["status"] == "succeeded" and [each["attempt"] for each in attempts] == list(range(1, len(attempts) + 1))
        for each in attempts[:-1]:
            assert (each["status"], each["class"], each["code"]) == ("failed", "script_broken", "interrupted"), each
        assert all(each["status"] != "running" for each in attempts), "an ended run has no running attempts"


@pytest.mark.parametrize("kind", ["plain", "retry", "idempotent"])
def test_kill_at_random_moments(home, kind):
    more = {"plain": "", "retry": ", retry: {times: 10, initial_ms: 10, factor: 1.0, max_ms: 10}", "idempotent": ", idempotent: true"}[kind]
    home.script("effect", EFFECT)
    home.workflow("w", chain(more))
    dice = random.Random(kind)
    for _ in range(8):
        home.trace_file.unlink(missing_ok=True)
        process = home.start("workflow", "test", "w")
        time.sleep(dice.uniform(0.005, 0.14))
        kill(process)
        rows = home.run("run", "list", "--json", code=0).data()
        left = unfinished(home)
        if not left:
            continue
        run, = left
        seen = home.show(run)
        assert seen["status"] == "running" and seen["ended_at"] is None and seen["outputs"] is None
        done = home.run("run", "resume", run, "--json")
        record = done.data()
        assert rows[0]["id"] == run == record["id"]
        check_ledger(home, record, repeats_allowed=kind != "plain")
        if kind == "plain" and any(each["code"] == "interrupted" for each in record["attempts"]):
            assert done.code == 1 and record["status"] == "failed", done
            error = record["error"]
            assert (error["class"], error["code"]) == ("script_broken", "interrupted") and error["step"] and error["attempt"] == 1
        else:
            assert done.code == 0 and record["outputs"] == {"last": STEPS - 1}, done
        assert home.show(run) == record
    nobody_left(home)
    assert unfinished(home) == []


def test_kill_again_and_again_during_one_run(home):
    """One run survives many engines; `retry` is the leave to repeat what was in flight."""
    home.script("effect", EFFECT)
    home.workflow("w", chain(", retry: {times: 10, initial_ms: 10, factor: 1.0, max_ms: 10}", ms=25))
    process = home.start("workflow", "test", "w")
    until(lambda: "begin0" in home.trace(), "the first step begins")
    kill(process)
    run = home.runs()[0]["id"]
    dice = random.Random(1)
    for _ in range(8):
        process = home.start("run", "resume", run)
        time.sleep(dice.uniform(0.01, 0.15))
        kill(process)
        if home.show(run)["ended_at"]:
            break
    if not home.show(run)["ended_at"]:
        home.run("run", "resume", run)
    record = home.show(run)
    assert record["status"] in ("succeeded", "failed")
    check_ledger(home, record, repeats_allowed=True)
    if record["status"] == "failed":
        assert record["error"]["code"] == "interrupted"
    nobody_left(home)


def test_idempotent_alone_allows_only_so_many_reruns(home):
    home.step(TOUCH + "import time\ndef main():\n    mark('x')\n    time.sleep(100)\n", more="idempotent: true\n")
    process = home.start("workflow", "test", "s")
    for count in range(1, 13):
        until(lambda: len(home.trace()) >= count or process.poll() is not None, "the attempt begins")
        if process.poll() is not None:
            break
        kill(process)
        run = home.runs()[0]["id"]
        process = home.start("run", "resume", run)
    assert process.wait(PATIENCE) == 1
    assert len(home.trace()) == 11, "the first and ten more"
    record = home.show(run)
    assert record["status"] == "failed" and record["error"]["code"] == "interrupted"
    nobody_left(home)


def test_attempt_that_a_crash_interrupts_is_dead_before_the_next_begins(home):
    """The old worker and all it started must not act beside the new one."""
    home.step(TOUCH + """
import os, subprocess, sys, time
def main():
    mark("begin")
    # as hard to find as can be: another session, no environment, another folder
    loop = "n=0; while [ $n -lt 600 ]; do echo daemon$$ >> '%s'; n=$((n+1)); sleep 0.05; done" % os.environ["TRACE"]
    subprocess.Popen(["/bin/sh", "-c", loop], env={}, cwd="/", start_new_session=True)
    time.sleep(30 if sum(1 for _ in open(os.environ["TRACE"])) < 5 else 0.3)
    return "second"
""", more="retry: {times: 1, initial_ms: 10, factor: 1.0, max_ms: 10}\ntimeout: PT10S\n")
    process = home.start("workflow", "test", "s")
    until(lambda: len(home.trace()) > 8, "the daemon works")
    kill(process)
    run = home.runs()[0]["id"]
    record = home.run("run", "resume", run, "--json", code=0).data()
    assert record["outputs"] == {"v": "second"}
    trace = home.trace()
    second = len(trace) - 1 - trace[::-1].index("begin")
    first = {word for word in trace[:second] if word.startswith("daemon")}
    assert not first & set(trace[second:]), "the first attempt's daemon outlived it"
    nobody_left(home)


@pytest.mark.parametrize("victim", ["worker", "guardian"])
def test_worker_or_guardian_is_killed(home, victim):
    home.step(TOUCH + "import os, time\ndef main():\n    mark(f'{os.getpid()}:{os.getppid()}')\n    time.sleep(0 if len(open(os.environ['TRACE']).read().split()) > 1 else 60)\n    return 1\n",
              more="retry: {times: 1, initial_ms: 10, factor: 1.0, max_ms: 10}\n")
    process = home.start("workflow", "test", "s", "--json")
    worker, guardian = until(home.trace, "the attempt begins")[0].split(":")
    subprocess.run(["kill", "-9", worker if victim == "worker" else guardian], check=True)
    out, _ = process.communicate(timeout=PATIENCE)
    record = json.loads(out)
    assert record["status"] == "succeeded" and process.returncode == 0
    first, second = record["attempts"]
    assert (first["class"], first["status"], second["status"]) == ("script_broken", "failed", "succeeded")
    assert first["decision"]["retry"] is True and first["decision"]["wait_ms"] == second["wait_ms"]
    nobody_left(home)


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals(home, sign):
    home.script("effect", EFFECT)
    home.workflow("w", chain(", retry: {times: 3, initial_ms: 10, factor: 1.0, max_ms: 10}", ms=60))
    process = home.start("workflow", "test", "w")
    until(lambda: "begin2" in home.trace(), "some steps are done")
    process.send_signal(sign)
    out, err = process.communicate(timeout=PATIENCE)
    run = home.runs()[0]["id"]
    assert process.returncode != 0 and out == b""
    if sign != signal.SIGHUP:
        assert f"viat run resume {run}" in err.decode(), err
        assert process.returncode > 0
    nobody_left(home)
    assert home.show(run)["status"] == "running"
    done = home.run("run", "resume", run, code=0)
    assert done.out == '{"last":5}\n'
    check_ledger(home, home.show(run), repeats_allowed=True)
    assert home.trace().count("begin0") == home.trace().count("begin1") == 1


def test_signal_to_the_whole_group_as_a_terminal_sends_it(home):
    home.script("effect", EFFECT)
    home.workflow("w", chain(", idempotent: true", ms=60))
    process = home.start("workflow", "test", "w", start_new_session=True)
    until(lambda: "begin1" in home.trace(), "a step is under way")
    import os
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE)
    run = home.runs()[0]["id"]
    assert f"viat run resume {run}" in err.decode()
    nobody_left(home)
    home.run("run", "resume", run, code=0)


def test_impatient_interrupts(home):
    """^C pressed many times."""
    home.step(TOUCH + "import signal, time\ndef main():\n    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n    signal.signal(signal.SIGINT, signal.SIG_IGN)\n    mark('x')\n    time.sleep(100)\n")
    process = home.start("workflow", "test", "s")
    until(home.trace, "the attempt begins")
    for _ in range(20):
        process.send_signal(signal.SIGINT)
    process.communicate(timeout=PATIENCE)
    assert process.returncode not in (0, None)
    nobody_left(home)
    home.run("run", "list", code=0)


def test_interrupted_before_anything_ran(home):
    home.script("slow", "import time\ntime.sleep(1.5)\ndef main():\n    return 1\n")
    home.workflow("w", "steps: [{id: a, script: slow}]\noutputs: {v: $a.output}\n")
    process = home.start("workflow", "test", "w")
    until(lambda: home.runs(), "the run is there")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE)
    nobody_left(home)
    run = home.runs()[0]["id"]
    assert home.show(run)["attempts"] == []
    assert home.run("run", "resume", run, code=0).out == '{"v":1}\n', "no attempt was in flight, so nothing was interrupted"


def test_resume_while_the_engine_lives(home):
    home.step(TOUCH + "import time\ndef main():\n    mark('x')\n    time.sleep(2)\n    return 1\n")
    process = home.start("workflow", "test", "s")
    until(home.trace, "the attempt begins")
    run = home.runs()[0]["id"]
    done = home.run("run", "resume", run, code=3)
    assert "alive" in done.err, done
    assert process.wait(PATIENCE) == 0
    assert home.trace() == ["x"]


def test_paused_engine_is_alive(home):
    home.script("effect", EFFECT)
    home.workflow("w", chain(ms=40))
    process = home.start("workflow", "test", "w")
    until(lambda: "done0" in home.trace(), "the first step is done")
    process.send_signal(signal.SIGSTOP)
    run = home.runs()[0]["id"]
    home.run("run", "resume", run, code=3)
    home.run("run", "list", code=0)
    home.run("workflow", "create", "other", "--file", home.file("o.yaml", "steps: [{id: a, set: 1}]\n"), code=0)
    time.sleep(0.3)
    process.send_signal(signal.SIGCONT)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0 and out == b'{"last":5}\n', err
    assert all(home.trace().count(f"begin{n}") == 1 for n in range(STEPS))


def test_two_resumes_one_wins(home):
    home.script("effect", EFFECT)
    home.workflow("w", chain(", idempotent: true", ms=30))
    for _ in range(3):
        home.trace_file.unlink(missing_ok=True)
        process = home.start("workflow", "test", "w")
        until(lambda: "begin1" in home.trace(), "a step is under way")
        kill(process)
        run = unfinished(home)[0]
        racers = [home.start("run", "resume", run) for _ in range(4)]
        ended = [(racer.communicate(timeout=PATIENCE), racer.returncode) for racer in racers]
        winners = [out for (out, _), code in ended if code == 0]
        assert winners == [b'{"last":5}\n'], ended
        for (out, err), code in ended:
            if code:
                assert code == 3 and out == b"" and err.strip(), (out, err, code)
        check_ledger(home, home.show(run), repeats_allowed=True)
        interrupted = [each for each in home.show(run)["attempts"] if each["code"] == "interrupted"]
        assert len(interrupted) <= 1
    nobody_left(home)


def test_eight_processes_on_one_home(home):
    home.script("effect", EFFECT)
    home.workflow("w", chain(", idempotent: true", ms=3))
    doomed = home.start("workflow", "test", "w")

    def work(seat):
        ran = []
        for turn in range(4):
            if seat % 4 == 0:
                home.run("script", "create", "--name", f"own{seat}", "--language", "python", "--file", home.file(f"own{seat}.py", f"def main():\n    return {turn}\n"), code=0)
                home.run("workflow", "create", f"flow{seat}", "--file", home.file(f"flow{seat}.yaml", f"steps: [{{id: a, script: own{seat}}}]\noutputs: {{v: $a.output}}\n"), code=0)
                record = home.record(f"flow{seat}")
                assert record["outputs"] == {"v": turn} and record["version"] == turn + 1
                ran.append(record["id"])
            elif seat % 4 == 3:
                home.run("run", "list", "--json", code=0)
                home.run("script", "list", "--json", code=0)
            else:
                record = home.record("w")
                assert record["outputs"] == {"last": STEPS - 1}
                ran.append(record["id"])
        return ran

    with ThreadPoolExecutor(7) as seats:
        jobs = [seats.submit(work, seat) for seat in range(7)]
        time.sleep(0.1)
        kill(doomed)
        ran = [run for job in jobs for run in job.result(PATIENCE)]
    rows = {row["id"]: row["status"] for row in home.runs()}
    assert len(ran) == len(set(ran)) and all(rows[run] == "succeeded" for run in ran)
    others = set(rows) - set(ran)
    assert len(others) <= 1, "all runs are accounted for"
    for run in others:
        if rows[run] == "running":
            assert "resume" in home.run("run", "show", run, code=0).out
            home.run("run", "resume", run, code=0)
    nobody_left(home)


def test_first_use_of_a_home_by_many_at_once(home):
    racers = [home.start("script", "list", "--json") for _ in range(12)]
    for racer in racers:
        out, err = racer.communicate(timeout=PATIENCE)
        assert (racer.returncode, out) == (0, b"[]\n"), err


def test_kill_during_creates(home):
    """An asset is stored whole or not at all; versions have no gaps."""
    flow = home.file("w.yaml", chain().replace("effect", "e"))
    home.script("e", EFFECT)
    dice = random.Random(4)
    for _ in range(25):
        process = home.start("workflow", "create", "w", "--file", flow)
        time.sleep(dice.uniform(0, 0.02))
        kill(process)
    home.run("workflow", "create", "w", "--file", flow, code=0)
    newest = home.run("workflow", "list", "--json", code=0).data()[0]["version"]
    for version in range(1, newest + 1):
        assert home.run("workflow", "show", "w", "--version", version, "--json", code=0).data()["source"] == flow.read_text()


def test_dead_engines_leave_no_litter_for_long(home):
    home.step(TOUCH + "import time\ndef main():\n    mark('x')\n    time.sleep(60)\n")
    for count in range(1, 4):
        process = home.start("workflow", "test", "s")
        until(lambda: len(home.trace()) >= count, "the attempt begins")
        kill(process)
    nobody_left(home)
    until(lambda: not list((home.path / "scratch").iterdir()), "workers' folders go")
    for run in unfinished(home):
        home.run("run", "resume", run, code=1)
    assert list((home.path / "scratch").iterdir()) == []


def test_lock_files_of_dead_engines_are_swept(home):
    home.step(TOUCH + "import time\ndef main():\n    mark('x')\n    time.sleep(60)\n")
    process = home.start("workflow", "test", "s")
    until(home.trace, "the attempt begins")
    kill(process)
    home.run("run", "resume", unfinished(home)[0], code=1)
    home.workflow("other", "steps: [{id: a, set: 1}]\n")
    home.record("other")
    assert list((home.path / "owners").iterdir()) == []


def test_retry_wait_goes_on_after_a_crash(home):
    """A wait is kept by the wall clock; one that fell due meanwhile fires at once."""
    home.step(TOUCH + "import viat\ndef main():\n    mark('x')\n    raise viat.TransportError('not yet')\n",
              more="retry: {times: 1, initial_ms: 1500, factor: 1.0, max_ms: 1500, jitter: false}\n")
    process = home.start("workflow", "test", "s")
    until(lambda: home.runs() and any(each["status"] == "failed" for each in home.show(home.runs()[0]["id"])["attempts"]), "the first attempt fails")
    kill(process)
    run = home.runs()[0]["id"]
    before = home.show(run)
    assert before["attempts"][0]["decision"] == {"retry": True, "wait_ms": 1500, "remaining_ms": before["attempts"][0]["decision"]["remaining_ms"]}
    record = home.run("run", "resume", run, "--json", code=1).data()
    first, second = record["attempts"]
    assert (first["code"], second["code"]) == ("transport", "transport"), "nothing was in flight, so nothing was interrupted"
    assert second["wait_ms"] == 1500 and second["decision"]["reason"] == "exhausted"
    assert second["started_at"] > first["ended_at"] and home.trace() == ["x", "x"]


def test_run_budget_counts_the_time_without_an_engine(home):
    home.step(TOUCH + "import time\ndef main():\n    mark('x')\n    time.sleep(60)\n", more="idempotent: true\n")
    process = home.start("workflow", "test", "s", "--timeout", "PT1S")
    until(home.trace, "the attempt begins")
    kill(process)
    time.sleep(1.1)
    run = home.runs()[0]["id"]
    done = home.run("run", "resume", run, "--json", code=1)
    record = done.data()
    assert record["error"]["code"] == "deadline_exceeded" and record["error"]["class"] == "deadline_exceeded", record
    assert home.trace() == ["x"], "no time was left for another attempt"


def test_versions_are_pinned_when_the_run_begins(home):
    home.script("wait", TOUCH + "import time\ndef main():\n    mark('x')\n    time.sleep(0.5)\n    return 'old'\n")
    home.script("late", "def main():\n    return 'old'\n")
    home.workflow("w", "steps: [{id: a, script: wait, idempotent: true}, {id: b, script: late}]\noutputs: {v: [$a.output, $b.output, $run.version]}\n")
    process = home.start("workflow", "test", "w")
    until(home.trace, "the run is under way")
    for name in "wait", "late":
        home.script(name, "def main():\n    return 'new'\n")
    home.workflow("w", "steps: [{id: a, set: 1}]\noutputs: {v: new}\n")
    out, _ = process.communicate(timeout=PATIENCE)
    assert out == b'{"v":["old","old",1]}\n'
    assert home.record("w")["outputs"] == {"v": "new"}


@pytest.mark.parametrize("crash", [False, True])
def test_assets_deleted_while_a_run_is_under_way(home, crash):
    home.script("wait", TOUCH + "import time\ndef main():\n    mark('x')\n    time.sleep(0.7)\n    return 1\n")
    home.script("late", "def main():\n    return 2\n")
    home.workflow("w", "steps: [{id: a, script: wait, idempotent: true}, {id: b, script: late}]\noutputs: {v: [$a.output, $b.output]}\n")
    process = home.start("workflow", "test", "w")
    until(home.trace, "the run is under way")
    if crash:
        kill(process)
    home.run("script", "delete", "late", code=3)
    home.run("workflow", "delete", "w", code=0)
    home.run("script", "delete", "late", code=0)
    home.run("script", "delete", "wait", code=0)
    run = home.runs()[0]["id"]
    if crash:
        assert home.run("run", "resume", run, code=0).out == '{"v":[1,2]}\n'
    else:
        assert process.communicate(timeout=PATIENCE)[0] == b'{"v":[1,2]}\n'
    home.run("run", "show", run, code=0)
    home.run("run", "logs", run, code=0)


def test_resume_with_another_home_spelling(home):
    """The home by a relative path and from another folder: leftovers are found and folders removed all the same."""
    home.step(TOUCH + "import os, time\ndef main():\n    mark('x')\n    if len(open(os.environ['TRACE']).read().split()) > 1:\n        return 1\n    time.sleep(60)\n", more="idempotent: true\n")
    process = home.start("--home", "./home", "workflow", "test", "s", env={"VIAT_HOME": None})
    until(home.trace, "the attempt begins")
    kill(process)
    run = home.runs()[0]["id"]
    (home.base / "elsewhere").mkdir()
    done = home.run("--home", "../home", "run", "resume", run, env={"VIAT_HOME": None}, cwd=home.base / "elsewhere", code=0)
    assert done.out == '{"v":1}\n'
    assert list((home.path / "scratch").iterdir()) == []
    nobody_left(home)


def test_nobody_is_seen_where_nobody_is(home):
    """The probe itself works: a run under way has processes."""
    home.step(TOUCH + "import time\ndef main():\n    mark('x')\n    time.sleep(60)\n")
    process = home.start("workflow", "test", "s")
    until(home.trace, "the attempt begins")
    assert len(processes_of(home)) >= 2
    kill(process)
    nobody_left(home)
