"""Values over 64 KiB: the same to whoever uses them, stored once, bounded, whole or not at all."""
import os
import random
import shutil
import sqlite3
import subprocess
import time

import pytest

from conftest import PATIENCE, Home, kill, nobody_left, until
from served import Server, published

MEBI = 1 << 20

MAKE = """
def main(n, letter="x"):
    return letter * n
"""
# Random text does not occur by chance in another place of the database.
NOISE = """
import os
def main(n):
    return os.urandom(n // 2).hex()
"""
PASS = """
import time
def main(v, ms=0):
    time.sleep(ms / 1000)
    return v
"""
SAME = """
def main(values, first=None):
    first = values[0] if first is None else first
    return len(first) if all(value == first for value in values) else None
"""
EVERYWHERE = """
inputs: {seed: string, ms: {type: integer, default: 0}}
steps:
- {id: made, script: noise, args: {n: 1048576}}
- {id: kept, set: {text: $made.output, seed: $inputs.seed, list: [$made.output]}}
- id: each
  loop:
    over: [$made.output, $kept.output.text, '$kept.output.list[0]']
    as: item
    steps:
    - {id: passed, script: pass, args: {v: $item, ms: $inputs.ms}, idempotent: true}
- {id: same, script: same, args: {values: $each.output, first: $made.output}, idempotent: true}
outputs: {text: '$each.output[1]', seed: $kept.output.seed, same: $same.output}
"""


def database(home):
    """What the database says, from a copy: the original belongs to viat."""
    copy = home.base / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    copy.mkdir()
    for file in home.path.glob("viat.db*"):
        shutil.copy(file, copy)
    return sqlite3.connect(copy / "viat.db")


def stored(home, needle):
    """How often some text is stored, in journals and blobs."""
    with database(home) as base:
        rows = [bytes(row[0]) for row in base.execute("SELECT body FROM journal UNION ALL SELECT bytes FROM blobs")]
    return sum(row.count(needle) for row in rows)


def ready(home):
    home.script("make", MAKE)
    home.script("noise", NOISE)
    home.script("pass", PASS)
    home.script("same", SAME)


def input_of(home, seed, **more):
    path = home.files / "input.json"
    path.write_text('{"seed": "%s"%s}' % (seed, "".join(f', "{name}": {value}' for name, value in more.items())))
    return f"@{path}"


def test_a_big_value_is_the_same_everywhere_and_stored_once(home):
    ready(home)
    home.workflow("w", EVERYWHERE)
    seed = os.urandom(100_000).hex()
    record = home.record("w", "--input", input_of(home, seed))
    outputs = record["outputs"]
    assert outputs["same"] == MEBI and outputs["seed"] == seed and len(outputs["text"]) == MEBI, record["error"]
    for value in outputs["text"], seed:
        assert stored(home, value[:64].encode()) == 1
    with database(home) as base:
        sizes = [row[0] for row in base.execute("SELECT length(bytes) FROM blobs ORDER BY 1")]
        journal, = base.execute("SELECT sum(length(body)) FROM journal").fetchone()
    assert sizes == [200_002, MEBI + 2] and journal < 20_000, (sizes, journal)
    assert home.show(record["id"])["outputs"] == outputs
    # Whatever shows the run reads the same journal.
    for view in "ledger", "transitions":
        assert home.run("run", view, record["id"], "--json", code=0).data()
    # A second run with the same value needs no second copy of it.
    home.record("w", "--input", input_of(home, seed))
    assert stored(home, seed[:64].encode()) == 1


def test_a_value_that_looks_like_a_reference_stays_what_it_is(home):
    ready(home)
    home.script("odd", 'def main(n):\n    return [{"$viat:blob": "x" * n}, {"$$viat:blob": "mine"}, {"$viat:blob": "a" * 64}]\n')
    home.workflow("w", "steps: [{id: a, script: odd, args: {n: 100000}}, {id: b, script: pass, args: {v: $a.output}}]\noutputs: {v: $b.output}\n")
    record = home.record("w")
    assert record["outputs"]["v"] == [{"$viat:blob": "x" * 100_000}, {"$$viat:blob": "mine"}, {"$viat:blob": "a" * 64}]
    assert home.show(record["id"])["outputs"] == record["outputs"]


def test_kill_9_at_random_moments_keeps_big_values_whole(home):
    ready(home)
    home.workflow("w", EVERYWHERE)
    dice, resumed = random.Random("big"), 0
    for number in range(10):
        seed = os.urandom(50_000).hex()
        process = home.start("workflow", "test", "w", "--input", input_of(home, seed, ms=30))
        time.sleep(dice.uniform(0.05, 0.5))
        kill(process)
        for row in home.runs():
            if row["ended_at"] is None:
                resumed += 1
                home.show(row["id"])
                done = home.run("run", "resume", row["id"], "--json")
                record = done.data()
                # Only the entry that is not idempotent may have been interrupted for good.
                assert done.code == 0 or record["error"]["step"] == "made", record["error"]
                if done.code == 0:
                    assert record["outputs"]["same"] == MEBI and record["outputs"]["seed"] == seed
                    assert stored(home, record["outputs"]["text"][:64].encode()) == 1
        nobody_left(home)
    assert resumed >= 2, "the dice never hit a run"


def test_deferred_tasks_events_and_the_api_carry_big_values(home):
    ready(home)
    home.script("defer", "import viat\ndef main(v):\n    viat.defer('child', {'v': v})\n    viat.defer('child', {'v': v})\n")
    published(home, "child", "inputs: {v: string}\nsteps: [{id: a, script: pass, args: {v: $inputs.v}}]\noutputs: {v: $a.output}\n")
    published(home, "w", """
        inputs: {v: string}
        steps:
        - {id: got, wait: {event: more}}
        - {id: d, script: defer, args: {v: $got.output}}
        outputs: {v: $inputs.v, got: $got.output}
        """)
    server = Server(home)
    first, second = os.urandom(100_000).hex(), os.urandom(100_000).hex()
    run = server.post("/api/v1/runs", {"workflow": "w", "inputs": {"v": first}}).data()["id"]
    server.post(f"/api/v1/runs/{run}/events", {"name": "more", "data": second})
    until(lambda: len([row for row in home.runs() if row["status"] == "succeeded"]) == 3, "the run and its tasks end")
    answer = server.ask("GET", f"/api/v1/runs/{run}").data()
    assert answer["outputs"] == {"v": first, "got": second}
    children = [task["run"] for task in answer["deferred"]]
    assert len(set(children)) == 2 and all(task["args"] == {"v": second} for task in answer["deferred"])
    assert all(home.show(child)["outputs"] == {"v": second} for child in children)
    assert stored(home, first[:64].encode()) == stored(home, second[:64].encode()) == 1


def test_a_queued_run_keeps_its_big_input_outside_of_the_journal(home):
    ready(home)
    published(home, "w", "inputs: {seed: string}\nsteps: [{id: a, script: pass, args: {v: $inputs.seed}}]\noutputs: {v: $a.output}\n")
    seed = os.urandom(100_000).hex()
    run = home.run("run", "start", "w", "--input", input_of(home, seed), "--json", code=0).data()["id"]
    assert home.show(run)["inputs"] == {"seed": seed}
    assert home.run("run", "resume", run, "--json", code=0).data()["outputs"] == {"v": seed}
    assert stored(home, seed[:64].encode()) == 1


def test_64_mebibytes_are_a_value_and_one_byte_more_is_a_clear_error(home):
    ready(home)
    most = 64 * MEBI - 2  # the quotes
    home.workflow("fits", f"steps: [{{id: a, script: make, args: {{n: {most}}}}}, {{id: b, set: $a.output}}]\n")
    home.record("fits", code=0)
    with database(home) as base:
        assert base.execute("SELECT length(bytes) FROM blobs").fetchall() == [(64 * MEBI,)]
    home.workflow("script", f"steps: [{{id: a, script: make, args: {{n: {most + 1}}}}}]\n")
    error = home.record("script")["error"]
    assert error["class"] == "invalid_output" and str(64 * MEBI) in error["message"] and str(64 * MEBI + 1) in error["message"], error
    # A list of one: two bytes more than the value itself.
    home.workflow("set", f"steps: [{{id: a, script: make, args: {{n: {most - 1}}}}}, {{id: b, set: [$a.output]}}]\n")
    error = home.record("set")["error"]
    assert error["class"] == "orchestration" and str(64 * MEBI) in error["message"] and str(64 * MEBI + 1) in error["message"], error


def test_a_run_has_at_most_a_gibibyte(home):
    """Of distinct values: the same one may come as often as it likes."""
    ready(home)
    same = "{id: same, loop: {over: [%s], as: i, steps: [{id: s, set: $a.output}, {id: t, set: $i}]}}" % ",".join(map(str, range(40)))
    home.workflow("same", f"steps: [{{id: a, script: make, args: {{n: 40000000}}}}, {same}]\noutputs: {{n: '${{size(same.output)}}'}}\n")
    assert home.record("same")["outputs"] == {"n": 40}
    letters = ",".join(chr(97 + n) for n in range(20))
    distinct = "{id: all, loop: {over: [%s], as: c, steps: [{id: s, script: make, args: {n: 60000000, letter: $c}}, {id: t, set: $c}]}}" % letters
    home.workflow("distinct", f"steps: [{distinct}]\n")
    record = home.record("distinct")
    error = record["error"]
    assert error["class"] == "invalid_output" and "1 GiB" in error["message"] and len(record["ledger"]) == 17, error
    made = "{id: all, loop: {over: [%s], as: i, steps: [{id: s, set: '${i}${a.output}'}, {id: t, set: $i}]}}" % ",".join(map(str, range(80)))
    home.workflow("templates", f"steps: [{{id: a, script: make, args: {{n: 15000000}}}}, {made}]\n")
    error = home.record("templates")["error"]
    assert error["class"] == "orchestration" and "1 GiB" in error["message"] and error["path"] == "all[70].s", error
    with database(home) as base:
        assert base.execute("SELECT max(length(body)) FROM journal").fetchone()[0] < 1 * MEBI


def test_a_missing_or_damaged_value_is_an_error_that_names_it(home):
    ready(home)
    home.workflow("w", EVERYWHERE)
    record = home.record("w", "--input", input_of(home, "x"))
    base = sqlite3.connect(home.path / "viat.db")
    (hash_, bytes_), = base.execute("SELECT hex(hash), bytes FROM blobs").fetchall()
    for change, word in ("UPDATE blobs SET bytes = x'22'", "damaged"), ("DELETE FROM blobs", "missing"):
        base.execute(change)
        base.commit()
        for words in ("show", record["id"]), ("ledger", record["id"]):
            done = home.run("run", *words, code=4)
            assert record["id"] in done.err and hash_.lower() in done.err and word in done.err, done
    base.execute("INSERT INTO blobs VALUES (?, ?)", (bytes.fromhex(hash_), bytes_))
    base.commit()
    assert home.show(record["id"])["outputs"] == record["outputs"]


def test_a_disk_that_fills_up_under_a_big_value(tmp_path):
    """Nothing of it is half stored, and with space again the run goes on."""
    place = tmp_path / "small"
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "none", place], capture_output=True).returncode:
        pytest.skip("mounting is not permitted here")
    try:
        home = Home(tmp_path, place / "home")
        ready(home)
        home.workflow("w", EVERYWHERE)
        ballast = place / "ballast"
        with open(ballast, "wb") as file:
            file.write(b"x" * (shutil.disk_usage(place).free - 700_000))
        process = home.start("workflow", "test", "w", "--input", input_of(home, "seed"), "--json")
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(3)
        with database(home) as base:
            assert base.execute("SELECT count(*) FROM blobs").fetchone() == (0,)
        ballast.unlink()
        out, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, (out[-300:], err)
        with database(home) as base:
            assert base.execute("SELECT count(*) FROM blobs").fetchone() == (1,)
            assert base.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    finally:
        subprocess.run(["umount", "-l", place], check=True)
