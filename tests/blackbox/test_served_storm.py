"""Many at once, and a server that dies all the time."""
import random
import shutil
import subprocess
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from conftest import PATIENCE, Home, nobody_left, until
from served import ECHO, EFFECT, TERMINAL, Server, published


def test_twenty_commands_against_one_server(home):
    home.script("echo", ECHO)
    published(home, "w", "inputs: {v: integer}\nsteps: [{id: a, script: echo, args: {v: $inputs.v}}]\noutputs: {v: $a.output}\n")
    published(home, "e", "steps: [{id: a, wait: {event: go}}]\noutputs: {v: $a.output}\n")
    server = Server(home)

    def work(seat):
        for turn in range(3):
            n = seat * 10 + turn
            if seat % 4 == 0:
                run = home.run("run", "start", "e", "--json", code=0).data()["id"]
                home.run("event", "send", "go", "--run", run, "--data", n, code=0)
                assert home.run("run", "watch", run, code=0).out == f'{{"v":{n}}}\n'
            elif seat % 4 == 1:
                run = home.run("run", "start", "e", "--json", code=0).data()["id"]
                home.run("run", "cancel", run, code=0)
                home.run("run", "watch", run, code=1)
            elif seat % 4 == 2:
                home.run("workflow", "create", f"own{seat}", "--file", home.file(f"own{seat}.yaml", f"steps: [{{id: a, script: echo, args: {{v: {n}}}}}]\noutputs: {{v: $a.output}}\n"), code=0)
                home.run("workflow", "publish", f"own{seat}", code=0)
                assert home.run("run", "start", f"own{seat}", "--wait", code=0).out == f'{{"v":{n}}}\n'
            else:
                assert home.run("run", "start", "w", "--wait", "--input", f'{{"v": {n}}}', code=0).out == f'{{"v":{n}}}\n'
                assert home.run("workflow", "test", "w", "--input", f'{{"v": {n}}}', code=0).out == f'{{"v":{n}}}\n'

    with ThreadPoolExecutor(20) as seats:
        list(seats.map(work, range(20)))
    assert all(row["ended_at"] for row in home.runs())
    server.end()
    nobody_left(home)


STORM = {
    "plain": "steps:\n  - {id: a, script: effect, args: {ms: 3}}\n  - {id: b, script: effect, args: {ms: 3}}\n  - {id: c, script: effect}\n",
    "retry": "steps:\n  - {id: a, script: effect, args: {ms: 3}, retry: {times: 10, initial_ms: 10, factor: 1.0, max_ms: 10}}\n  - {id: b, script: effect, retry: {times: 10, initial_ms: 10, factor: 1.0, max_ms: 10}}\n",
    "wait": "steps:\n  - {id: a, script: effect}\n  - {id: w, wait: {for: PT0.4S}}\n  - {id: b, script: effect, args: {ms: 3}}\n",
    "event": "steps:\n  - {id: a, script: effect}\n  - {id: w, wait: {event: go, timeout: PT2S}}\n  - {id: b, script: effect}\n",
    "loop": "steps:\n  - id: l\n    loop: {over: [1, 2, 3, 4, 5], concurrency: 3, steps: [{id: a, script: effect, args: {ms: 2}, idempotent: true}]}\n  - {id: b, script: effect}\n",
    "parallel": "steps:\n  - id: p\n    parallel: {on_failure: wait, branches: {l: [{id: a, script: effect, args: {ms: 5}}], r: [{id: b, script: effect}, {id: c, script: effect, args: {ms: 2}}]}}\n  - {id: d, script: effect}\n",
    "continue": "steps:\n  - {id: a, script: effect, args: {ms: 4}, on_error: continue}\n  - {id: b, script: effect, on_error: {catch: [{id: c, script: effect}]}}\n",
    "called": "steps:\n  - {id: s, workflow: wait}\n  - {id: z, script: effect}\n",
}
# Entries that may run again after an interruption.
REPEATS = {"retry": {"a", "b"}, "loop": {"a"}}


def test_a_server_that_is_killed_all_the_time(home):
    home.script("effect", EFFECT)
    for name, text in STORM.items():
        published(home, name, text)
    server = Server(home)
    dice = random.Random(5)
    kinds, stop = list(STORM), []
    begun = []

    def start_some(seat):
        own = random.Random(seat)
        while not stop and len(begun) < 100:
            kind = own.choice(kinds)
            begun.append(kind)
            done = home.run("run", "start", kind, "--json")
            if done.code:
                # the server died in the middle: what it had said is durable, what it had not is not known
                assert done.code == 4, done
                begun.remove(kind)
            elif own.random() < 0.15:
                done = home.run("run", "cancel", done.data()["id"])
                assert done.code in (0, 3, 4), done

    with ThreadPoolExecutor(3) as seats:
        jobs = [seats.submit(start_some, seat) for seat in range(3)]
        for _ in range(11):
            time.sleep(dice.uniform(0.02, 0.5))
            server.restart()
        until(lambda: len(begun) >= 100 or all(job.done() for job in jobs), "a hundred have begun")
        stop.append(1)
        for job in jobs:
            job.result(PATIENCE)
    until(lambda: all(row["ended_at"] for row in home.runs()), "all have ended")
    check_effects(home)
    server.end()
    nobody_left(home)


def check_effects(home):
    """What the records say and what the scripts did agree."""
    begins = Counter(word.split(":")[2] for word in home.trace() if word.startswith("begin"))
    ends = Counter(word.split(":")[2] for word in home.trace() if word.startswith("done"))
    path_of = {word.split(":")[2]: word.split(":")[1] for word in home.trace()}
    assert len(home.runs()) >= 90
    attempts, interrupted, allowed = 0, 0, set()
    for row in home.runs():
        record = home.show(row["id"])
        assert record["status"] in TERMINAL, record
        completed = {each["path"] for each in record["ledger"] if each["status"] == "completed"}
        assert len(completed) == len(record["ledger"])
        by_path = {}
        for each in record["attempts"]:
            by_path.setdefault(each["path"], []).append(each)
        for path, tries in by_path.items():
            attempts += len(tries)
            interrupted += sum(each["code"] == "interrupted" for each in tries)
            assert [each["attempt"] for each in tries] == list(range(1, len(tries) + 1))
            assert all(each["status"] != "running" for each in tries), record
            assert not any(each["status"] == "succeeded" for each in tries[:-1]), "what is completed is not run again"
            if tries[0]["step"] not in REPEATS.get(row["workflow"], ()):
                assert len(tries) == 1, (row["workflow"], tries)
            else:
                allowed.add(path)
        if record["status"] == "failed":
            assert record["error"]["code"] == "interrupted", record
    for key, count in begins.items():
        if path_of[key] not in allowed:
            assert count == 1, f"{path_of[key]} took effect {count} times"
        assert ends[key] <= count
    assert sum(begins.values()) <= attempts, "every begin is an attempt on record"


def a_disk_that_is_full_for_long_loses_no_run(home):
    """Longer than a command in the foreground would try. Called by `test_the_slow_ones`; without the right to mount it checks nothing."""
    place = home.base / "small"
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "none", place], capture_output=True).returncode:
        return
    small = Home(home.base / "on_it", place / "home")
    small.started = home.started
    try:
        small.script("effect", EFFECT)
        published(small, "w", "steps: [{id: a, script: effect, args: {ms: 2000}}, {id: b, script: effect}]\n")
        server = Server(small)
        run = server.begin("w")
        until(small.trace, "the attempt runs")
        ballast = place / "ballast"
        with open(ballast, "wb") as file:
            while shutil.disk_usage(place).free:
                try:
                    file.write(b"x" * 4096)
                    file.flush()
                except OSError:
                    break
        time.sleep(35)
        assert small.show(run)["ended_at"] is None
        ballast.unlink()
        assert server.ended(run)["status"] == "succeeded"
        begun = [word for word in small.trace() if word.startswith("begin")]
        assert len(begun) == 2, "what was done while the disk was full is not done again"
        server.end()
    finally:
        subprocess.run(["umount", "-l", place], check=True)
