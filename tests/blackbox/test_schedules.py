"""Schedules: what they refuse, when they fire, and that each fire time has exactly one run, whatever happens to the server."""
import collections
import datetime
import sqlite3
import time

import pytest

from conftest import until
from served import Server, published

EVERY_SECOND = "* * * * * *"
NOTES = "inputs: {at: string}\nsteps: [{id: a, set: $inputs.at}]\noutputs: {at: $a.output}\n"
SLEEPS = "steps: [{id: nap, wait: {for: PT1H}}]\n"


def create(home, name="tick", cron=EVERY_SECOND, workflow="w", *more, code=0):
    return home.run("schedule", "create", name, "--cron", cron, "--workflow", workflow, *more, code=code)


def fires(home, name="tick"):
    """What came of each, newest first."""
    return home.run("schedule", "show", name, "--json", code=0).data()["fires"]


@pytest.mark.parametrize("cron, more, said", [
    ("61 * * * *", (), "is no cron expression"),
    ("* * * * *", ("--timezone", "Berlin"), 'no time zone "Berlin"'),
    ("0 0 30 2 *", (), "never fires"),
    ("* * * * *", ("--jitter", "P2D"), "--jitter is at most"),
    ("* * * * *", ("--input", '{"at": 7}'), "do not fit workflow w"),
    ("* * * * *", ("--input", "{}"), "do not fit workflow w"),
])
def test_what_is_wrong_is_said_when_it_is_created(home, cron, more, said):
    published(home, "w", NOTES)
    assert said in create(home, "n", cron, "w", *more, code=2).err
    assert home.run("schedule", "list", "--json", code=0).data() == []


def test_it_needs_a_published_workflow_and_holds_it(home):
    assert "there is no workflow w" in create(home, code=3).err
    home.workflow("w", "steps: [{id: a, set: 1}]\n")
    assert "viat workflow publish w" in create(home, code=3).err
    home.run("workflow", "publish", "w", code=0)
    create(home)
    assert "schedule `tick`" in home.run("workflow", "delete", "w", code=3).err
    home.run("schedule", "delete", "tick", code=0)
    home.run("workflow", "delete", "w", code=0)
    home.run("schedule", "show", "tick", code=3)


def test_the_next_fire_times_are_shown_in_both_clocks(home):
    published(home, "w", "steps: [{id: a, set: 1}]\n")
    done = create(home, "n", "30 2 * * *", "w", "--timezone", "Asia/Tokyo")
    assert "02:30:00 JST" in done.out and "no server runs on this home" in done.err
    shown = home.run("schedule", "show", "n", "--json", code=0).data()
    assert len(shown["next"]) == 5 and all(at.endswith("T17:30:00.000Z") for at in shown["next"])
    assert "02:30:00 JST" in home.run("schedule", "show", "n", code=0).out


def test_each_fire_has_exactly_one_run_whatever_happens_to_the_server(home):
    published(home, "w", NOTES)
    create(home, "tick", EVERY_SECOND, "w", "--input", '{"at": "$schedule.time"}', "--catch-up", "all", "--overlap", "allow")
    for _ in range(3):
        server = Server(home)
        seen = len(home.runs())
        until(lambda: len(home.runs()) > seen, "another fire")
        server.kill()
        time.sleep(1)
    server = Server(home)
    until(lambda: all(run["status"] == "succeeded" for run in home.runs()), "all have ended")
    home.run("schedule", "pause", "tick", code=0)
    times = collections.Counter(home.show(run["id"])["outputs"]["at"] for run in home.runs())
    assert set(times.values()) == {1}, times
    seconds = sorted(datetime.datetime.fromisoformat(at.replace("Z", "+00:00")).timestamp() for at in times)
    assert {later - sooner for sooner, later in zip(seconds, seconds[1:])} == {1}, "none is missing"


def test_overlap_is_skipped_or_waits(home):
    published(home, "w", SLEEPS)
    create(home, "skips")
    create(home, "queues", EVERY_SECOND, "w", "--overlap", "queue")
    Server(home)
    skipped = until(lambda: [fire for fire in fires(home, "skips") if fire["outcome"] == "skipped"], "a fire is skipped")
    assert skipped[0]["run"] is None and "had not ended" in skipped[0]["detail"]
    shown = until(lambda: (data := home.run("schedule", "show", "queues", "--json", code=0).data())["waiting"] and data, "a fire waits")
    first = [fire["run"] for fire in shown["fires"] if fire["outcome"] == "started"]
    assert len(first) == 1
    home.run("run", "cancel", first[0], code=0)
    until(lambda: len([fire for fire in fires(home, "queues") if fire["outcome"] == "started"]) == 2, "the next one begins")


def test_a_pause_is_not_made_up_for_and_a_run_that_cannot_start_is_told(home):
    published(home, "w", "steps: [{id: a, set: 1}]\n")
    create(home, "tick", EVERY_SECOND, "w", "--catch-up", "all")
    home.run("schedule", "pause", "tick", code=0)
    assert home.run("schedule", "show", "tick", "--json", code=0).data()["next"] == []
    Server(home)
    time.sleep(2)
    assert home.runs() == []
    published(home, "w", NOTES)
    home.run("schedule", "resume", "tick", code=0)
    fire = until(lambda: fires(home), "it fires")[-1]
    assert fire["outcome"] == "failed" and "do not fit" in fire["detail"]
    assert home.runs() == []


def test_what_is_wrong_with_one_schedule_does_not_keep_the_others(home):
    """How the first one stands is made unreadable behind everybody's back."""
    published(home, "w", "steps: [{id: a, set: 1}]\n")
    create(home, "a_broken")
    create(home, "b_well")
    server = Server(home)
    until(lambda: fires(home, "a_broken"), "it has fired")
    server.end()
    with sqlite3.connect(home.path / "viat.db") as database:
        database.execute("UPDATE keys SET value = CAST('x' AS BLOB) WHERE space = 'schedule' AND key = 'a_broken'")
    before = len(fires(home, "b_well"))
    Server(home)
    until(lambda: len(fires(home, "b_well")) > before, "the other fires")
    assert "cannot be read" in home.run("schedule", "show", "a_broken", code=4).err
