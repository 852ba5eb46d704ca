"""Steps of the wall clock: budgets under way do not notice, due times do."""
import ctypes.util
import pathlib
import shutil
import subprocess

import pytest

from conftest import BINARY, PATIENCE, TOUCH, until

FAKETIME = shutil.which("faketime")
pytestmark = pytest.mark.skipif(not FAKETIME, reason="faketime is not installed")


@pytest.fixture
def clock(home):
    """A clock that the test sets; only the engine's own process sees it."""
    library = next((str(path) for path in pathlib.Path("/usr/lib").rglob("libfaketime.so.1")), ctypes.util.find_library("faketime"))
    if not library:
        pytest.skip("libfaketime is not installed")
    setting = home.base / "clock"

    def step(offset):
        draft = home.base / "clock.new"
        draft.write_text(offset + "\n")
        draft.rename(setting)
    step("+0")
    env = {"LD_PRELOAD": library, "FAKETIME_TIMESTAMP_FILE": str(setting), "FAKETIME_NO_CACHE": "1", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
    if subprocess.run([BINARY, "--version"], env={**home.env, **env}, capture_output=True).returncode:
        pytest.skip("the binary does not run under libfaketime")
    step.env = env
    return step


def started(home, clock, *more):
    process = home.start("workflow", "test", "s", *more, env=clock.env)
    until(home.trace, "the attempt begins")
    return process


@pytest.mark.parametrize("offset", ["+2d", "-2d"])
def test_attempt_timeout_does_not_notice(home, clock, offset):
    home.step(TOUCH + "import time\ndef main():\n    mark('x')\n    time.sleep(1)\n    return 1\n", "timeout: PT20S\n")
    process = started(home, clock)
    clock(offset)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0 and out == b'{"v":1}\n', err


@pytest.mark.parametrize("offset", ["+2d", "-2d"])
def test_attempt_timeout_still_ends_it(home, clock, offset):
    home.step(TOUCH + "import time\ndef main():\n    mark('x')\n    time.sleep(50)\n", "timeout: PT1S\n")
    process = started(home, clock)
    clock(offset)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 1 and b"timeout" in err


@pytest.mark.parametrize("offset", ["+2d", "-2d"])
def test_run_budget_under_way_does_not_notice(home, clock, offset):
    home.step(TOUCH + "import time\ndef main():\n    mark('x')\n    time.sleep(1)\n    return 1\n")
    process = started(home, clock, "--timeout", "PT30S")
    clock(offset)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0 and out == b'{"v":1}\n', err


@pytest.mark.parametrize("offset", ["+2d", "-2d"])
def test_retry_wait_ends_all_the_same(home, clock, offset):
    home.step(TOUCH + "import viat\ndef main():\n    mark('x')\n    raise viat.TransportError('x')\n", "retry: {times: 2, initial_ms: 700, factor: 1.0, max_ms: 700, jitter: false}\n")
    process = started(home, clock)
    clock(offset)
    process.communicate(timeout=30)
    assert process.returncode == 1 and home.trace() == ["x"] * 3
    record = home.show(home.runs()[0]["id"])
    assert [each["wait_ms"] for each in record["attempts"]] == [0, 700, 700]
    assert record["error"]["code"] == "transport"


def test_clock_set_back_between_runs_keeps_the_order(home, clock):
    home.workflow("w", "steps: [{id: a, set: 1}]\n")
    first = home.record("w", env=clock.env)["id"]
    clock("-30d")
    second = home.record("w", env=clock.env)["id"]
    assert [row["id"] for row in home.runs()] == [second, first]


@pytest.mark.parametrize("offset", ["+200y", "-50y", "-80y"])
def test_odd_years(home, clock, offset):
    home.workflow("w", "steps: [{id: a, set: 1}]\n")
    clock(offset)
    done = home.run("workflow", "test", "w", "--json", env=clock.env)
    assert done.code in (0, 1, 2, 4), done
    home.run("run", "list", code=0)
