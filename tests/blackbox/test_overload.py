"""Two thousand attempts at once for a pool of four workers in whose queue a hundred may wait."""
from collections import Counter

from conftest import PATIENCE, until, used

RUNS, EACH = 8, 250
WORKERS, QUEUE = 4, 100
ADMITTED = WORKERS + QUEUE
SCRIPT = f"""
# /// script
# [tool.viat]
# pool = {{max = {WORKERS}, queue = {QUEUE}}}
# ///
import os, time
def main(file=None):
    while file and not os.path.exists(file):
        time.sleep(0.01)
    return 1
"""
# More than it takes, and far less than 2,000 times what a worker has.
MEMORY_KIB = 64 << 10


def overload(home, server, step):
    """Begins the runs; each has all its attempts due at once."""
    home.workflow("w", f"inputs: {{over: {{type: array}}}}\nsteps: [{{id: l, loop: {{over: $inputs.over, concurrency: {EACH}, max_failures: {EACH}, steps: [{step}]}}}}]\n"
                       "outputs: {done: $l.output, failed: $l._errors}\n")
    home.run("workflow", "publish", "w", code=0)
    return [server.begin("w", {"over": list(range(EACH))}) for _ in range(RUNS)]


def pool(server):
    found = server.ask("GET", "/api/v1/pools").data()
    return found[0] if found else {"busy": 0, "waiting": 0}


def test_exactly_what_is_over_the_bound_is_refused(light, serve):
    light.script("s", SCRIPT)
    server = serve(light)
    _, before, _ = used(server.process.pid)
    go = light.base / "go"
    runs = overload(light, server, f"{{id: s, script: s, args: {{file: '{go}'}}}}")
    refused = RUNS * EACH - ADMITTED
    # nothing that was admitted ends before `go` is there
    until(lambda: sum(len(server.show(run)["attempts"]) for run in runs) >= refused, "the rest is refused", 3 * PATIENCE)
    until(lambda: (pool(server)["busy"], pool(server)["waiting"]) == (WORKERS, QUEUE), "four work, a hundred wait")
    go.touch()
    records = [server.ended(run, 3 * PATIENCE) for run in runs]
    attempts = [each for record in records for each in record["attempts"]]
    assert Counter((each["status"], each["class"], each["kind"]) for each in attempts) == {("failed", "queue_full", "overload"): refused, ("succeeded", None, None): ADMITTED}
    assert sum(record["outputs"]["done"].count(1) for record in records) == ADMITTED
    assert {each["error"]["code"] for record in records for each in record["outputs"]["failed"]} == {"queue_full"}
    assert pool(server)["served"] == ADMITTED, "what was refused took no worker"
    _, most, files = used(server.process.pid)
    assert most - before < MEMORY_KIB and files < 200


def test_with_retry_all_complete(light, serve):
    light.script("s", SCRIPT)
    server = serve(light)
    _, before, _ = used(server.process.pid)
    runs = overload(light, server, "{id: s, script: s, retry: {times: 10, initial_ms: 500, factor: 2.0, max_ms: 20000}}")
    records = [server.ended(run, 10 * PATIENCE) for run in runs]
    attempts = [each for record in records for each in record["attempts"]]
    assert {record["status"] for record in records} == {"succeeded"}
    assert all(record["outputs"] == {"done": [1] * EACH, "failed": []} for record in records), Counter(each["attempt"] for each in attempts)
    assert {each["class"] for each in attempts if each["status"] == "failed"} == {"queue_full"}
    assert pool(server)["served"] == RUNS * EACH
    _, most, files = used(server.process.pid)
    assert most - before < MEMORY_KIB and files < 200
