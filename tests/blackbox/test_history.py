"""`run ledger` and `run transitions`, and the idempotency key that both speak of."""

FLAKY = """
    import viat
    def main():
        if viat.context.attempt == 1:
            raise viat.TransportError("not yet")
        return viat.context.idempotency_key
    """
REFUSES = "from viat import ViatError\ndef main():\n    raise ViatError(code='no', message='m')\n"
FLOW = """
    inputs: {task: string}
    steps:
      - id: prepare
        script: flaky
        idempotency_key: "task-${ inputs.task }"
        retry: {times: 2, initial_ms: 10, factor: 1.0, max_ms: 10}
      - {id: notify, script: refuses, on_error: continue}
      - {id: again, script: flaky, on_error: continue}
    outputs: {key: $prepare.output}
    """


def prepared(home):
    home.script("flaky", FLAKY)
    home.script("refuses", REFUSES)
    home.workflow("w", FLOW)
    return home.record("w", "--input", '{"task": "t-1"}')


def test_ledger_says_what_each_entry_came_to(home):
    run = prepared(home)["id"]
    done = home.run("run", "ledger", run, code=0)
    assert done.out.splitlines() == ["prepare completed_at_2", "notify manual_review", "again failed"]
    lines = home.run("run", "ledger", run, "--json", code=0).data()
    assert lines[0] == {"path": "prepare", "outcome": "completed_at_2"}


def test_authors_idempotency_key_reaches_the_script_and_the_transitions(home):
    record = prepared(home)
    assert record["outputs"] == {"key": "task-t-1"}
    rows = home.run("run", "transitions", record["id"], "--json", code=0).data()
    assert {row["side_effect_id"] for row in rows if row["step_name"] == "prepare"} == {"task-t-1"}


def test_transitions_have_nine_fields_and_follow_each_other(home):
    record = prepared(home)
    rows = home.run("run", "transitions", record["id"], "--json", code=0).data()
    fields = {"run_id", "workflow_version", "step_name", "from_status", "to_status", "attempt", "error_type", "side_effect_id", "timestamp"}
    assert all(fields <= set(row) for row in rows)
    last = {}
    for row in rows:
        assert row["from_status"] == last.get(row["step_name"]), row
        last[row["step_name"]] = row["to_status"]
    assert last == {None: "succeeded", "prepare": "completed", "notify": "continued", "again": "continued"}
    assert [row["error_type"] for row in rows if row["step_name"] == "notify" and row["to_status"] == "failed"] == ["user"]
    assert [row["to_status"] for row in rows if row["step_name"] is None] == ["queued", "running", "succeeded"]
