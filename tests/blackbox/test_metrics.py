"""What a server tells of itself: /metrics compared with what happened, and spans as a collector receives them."""
import http.server
import json
import pathlib
import subprocess
import threading

import pytest

from conftest import BINARY, TOUCH, until
from prometheus import Metrics, parse, scrape
from served import ECHO, Server, published

# Fails as it is told, the first time or always; what it says goes into the trace.
STEP = TOUCH + """
import os, time
from viat import TransportError, ViatError, context
def main(name="s", fail=None, times=1, ms=0):
    mark(name)
    mark(context.traceparent)
    time.sleep(ms / 1000)
    if fail and open(os.environ["TRACE"]).read().split().count(name) <= times:
        if fail == "transport":
            raise TransportError("reset")
        raise ViatError(code="refused", message="a secret")
    return name
"""
# A step that is good at once, one at its second try, and a loop whose iterations are one step.
RETRIES = """
steps:
  - {id: good, script: step, args: {name: good}}
  - {id: flaky, script: step, args: {name: $run.id, fail: transport}, retry: {times: 2, initial_ms: 10, factor: 1.0, max_ms: 10}}
  - id: each
    loop: {over: [1, 2, 3], as: n, steps: [{id: one, script: step}]}
"""
EXHAUSTED = """
steps:
  - {id: never, script: step, args: {name: never, fail: transport, times: 9}, retry: {times: 2, initial_ms: 10, factor: 1.0, max_ms: 10}}
"""
ASKS = """
steps:
  - id: refused
    script: step
    args: {name: $run.id, fail: user}
    on_error: {catch: [{id: ask, review: {title: "What now?"}}]}
"""
REFUSED = "steps: [{id: no, script: step, args: {name: no, fail: user, times: 9}}]\n"
UNDOES = """
compensation: manual
steps:
  - {id: a, script: step, args: {name: a}, compensate: {script: step, args: {name: undo_a}}}
  - {id: back, compensate: [a]}
  - {id: back_again, compensate: [a]}
  - {id: b, script: step, args: {name: b}, compensate: {script: step, args: {name: undo_b, fail: user}}}
  - {id: back_b, compensate: [b]}
"""


@pytest.fixture
def steps(home):
    home.script("step", STEP)
    return home


def step(metrics, name, workflow, step, **labels):
    return metrics.get(f"viat_step_{name}_total", workflow=workflow, step=step, **labels)


def test_counters_say_what_happened(steps):
    flows = {"retries": RETRIES, "exhausted": EXHAUSTED, "refused": REFUSED, "undoes": UNDOES}
    for name, text in flows.items():
        published(steps, name, text)
    server = Server(steps)
    before = scrape(server)
    assert before.series("viat_step_first_tries_total") == {} and before.get("viat_commit_duration_seconds_count") == 0
    ends = {name: [server.ended(server.begin(name))["status"] for _ in range(times)]
            for name, times in (("retries", 2), ("exhausted", 1), ("refused", 1), ("undoes", 1))}
    metrics = scrape(server)

    def counted(workflow, path):
        names = ("first_tries", "first_try_successes", "retry_successes", "retries_exhausted", "refusals")
        return [step(metrics, name, workflow, path) for name in names]

    assert counted("retries", "good") == [2, 2, 0, 0, 0]
    assert counted("retries", "flaky") == [2, 0, 2, 0, 0]
    assert counted("retries", "each[*].one") == [6, 6, 0, 0, 0]
    assert counted("exhausted", "never") == [1, 0, 0, 1, 0]
    assert counted("refused", "no") == [1, 0, 0, 0, 1]
    undone = {outcome: step(metrics, "compensations", "undoes", "a", outcome=outcome) for outcome in ("compensated", "failed", "repeated", "idle")}
    assert undone == {"compensated": 1, "failed": 0, "repeated": 1, "idle": 0}
    assert step(metrics, "compensations", "undoes", "b", outcome="failed") == 1
    for name, statuses in ends.items():
        for status in ("succeeded", "failed", "cancelled"):
            assert metrics.get("viat_runs_ended_total", workflow=name, status=status) == statuses.count(status), (name, status)
    # each flaky run once, the exhausted one three times, the refusals of `no` and of undoing b
    assert metrics.get("viat_attempts_failed_total", **{"class": "transport"}) == 2 + 3
    assert metrics.get("viat_attempts_failed_total", **{"class": "user"}) == 2
    for timed in ("viat_attempt_duration_seconds", "viat_attempt_queue_wait_seconds"):
        assert metrics.get(f"{timed}_count", workflow="retries", step="flaky") == 4
        assert metrics.get(f"{timed}_count", workflow="undoes", step="a:compensate") == 1
    assert metrics.get("viat_commit_duration_seconds_count") > 20 and metrics.get("viat_commit_duration_seconds_sum") > 0
    assert metrics.get("viat_store_up") == 1 and metrics.get("viat_queue_depth", script="step") == 0
    assert metrics.series("viat_runs") == {}, "what has ended is not shown"
    server.restart()
    assert scrape(server).series("viat_step_first_tries_total") == {}, "a new process counts from zero"


def test_a_refusal_that_asks_a_person(steps):
    published(steps, "asks", ASKS)
    server = Server(steps)
    run = server.begin("asks")
    server.reaches(run, "waiting")
    metrics = scrape(server)
    assert step(metrics, "refusals", "asks", "refused") == 1
    assert step(metrics, "refusals_to_person", "asks", "refused", by="review") == 1
    assert step(metrics, "refusals_to_person", "asks", "refused", by="needs_attention") == 0
    assert metrics.get("viat_runs", workflow="asks", status="waiting") == 1
    assert metrics.get("viat_runs_in_status_for", workflow="asks", status="waiting", seconds="60") == 0
    server.restart()
    waits = lambda: (found := scrape(server)).get("viat_runs", workflow="asks", status="waiting") == 1 and found
    assert step(until(waits, "the gauge is read from the store"), "refusals", "asks", "refused") == 0


def test_a_run_that_has_had_its_state_for_long(steps):
    library = next((str(path) for path in pathlib.Path("/usr/lib").rglob("libfaketime.so.1")), None)
    past = {"LD_PRELOAD": library, "FAKETIME": "-2h", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
    if not library or subprocess.run([BINARY, "--version"], env={**steps.env, **past}, capture_output=True).returncode:
        pytest.skip("there is no libfaketime to put a run into the past")
    published(steps, "waits", "steps: [{id: paid, wait: {event: paid}}]\n")
    run = steps.run("run", "start", "waits", "--json", code=0).data()["id"]
    steps.start("run", "resume", run, env=past)
    until(lambda: steps.show(run)["status"] == "waiting", "it waits")
    metrics = scrape(Server(steps))
    held = {seconds: metrics.get("viat_runs_in_status_for", workflow="waits", status="waiting", seconds=seconds) for seconds in ("60", "3600", "86400")}
    assert held == {"60": 1, "3600": 1, "86400": 0}
    assert metrics.get("viat_runs", workflow="waits", status="waiting") == 1


def test_labels_are_bounded(steps):
    """More steps than there are label sets: the rest is counted as other, and nothing is lost."""
    lines = "".join(f"  - {{id: s{number}, script: echo}}\n" for number in range(450))
    steps.script("echo", ECHO)
    published(steps, "wide", "steps:\n" + lines)
    server = Server(steps)
    assert server.ended(server.begin("wide"))["status"] == "succeeded"
    series = scrape(server).series("viat_step_first_try_successes_total")
    assert len(series) == 401 and sum(series.values()) == 450
    assert series[(("step", "other"), ("workflow", "other"))] == 50


def test_the_reader_is_strict():
    good = '# HELP a_total x\n# TYPE a_total counter\na_total{b="\\"\\n"} 1\n'
    assert Metrics(good).get("a_total", b='"\n') == 1
    for bad in (good[:-1], good.replace(" 1", ""), good + good, good.replace("counter", "thing"), good.replace('"} 1', '} 1'),
                good + 'a_total{b="\\"\\n"} 2\n', good.replace("TYPE a_total", "TYPE b_total"), good + "c 1\n"):
        with pytest.raises((AssertionError, ValueError)):
            parse(bad)


class Collector:
    """Takes spans as OTLP/HTTP collectors do; `answers` are the statuses of the first requests."""

    def __init__(self, answers=()):
        self.requests, self.answers = [], list(answers)
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                status = collector.answers.pop(0) if collector.answers else 200
                if status == 200:
                    collector.requests.append((self.path, dict(self.headers), json.loads(body)))
                self.send_response(status)
                self.send_header("content-length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.env = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{self.server.server_port}", "OTEL_BSP_SCHEDULE_DELAY": "50"}

    def spans(self, trace=None):
        all = [span for _, _, body in list(self.requests) for resource in body["resourceSpans"] for scope in resource["scopeSpans"] for span in scope["spans"]]
        return [span for span in all if trace is None or span["traceId"] == trace]


@pytest.fixture
def collector():
    started = []

    def start(*answers):
        started.append(Collector(answers))
        return started[-1]

    yield start
    for each in started:
        each.server.shutdown()
        each.server.server_close()


def attributes(span):
    return {each["key"]: next(iter(each["value"].values())) for each in span["attributes"]}


def test_one_trace_a_run_one_span_an_attempt(steps, collector):
    collector = collector()
    published(steps, "retries", RETRIES)
    published(steps, "refused", REFUSED)
    server = Server(steps, env={**collector.env, "OTEL_SERVICE_NAME": "shop", "OTEL_RESOURCE_ATTRIBUTES": "team=a%20b",
                                "OTEL_EXPORTER_OTLP_HEADERS": "x-token=t"})
    runs = [server.begin("retries"), server.begin("retries"), server.begin("refused")]
    for run in runs:
        server.ended(run)
    until(lambda: len(collector.spans()) == 7 + 7 + 2, f"all spans: {len(collector.spans())}")
    path, headers, body = collector.requests[0]
    assert path == "/v1/traces" and headers["content-type"] == "application/json" and headers["x-token"] == "t"
    resource = attributes(body["resourceSpans"][0]["resource"])
    assert resource["service.name"] == "shop" and resource["team"] == "a b"
    assert len({span["spanId"] for span in collector.spans()}) == 16
    for run in runs:
        spans = collector.spans(run.replace("-", ""))
        [root] = [span for span in spans if "parentSpanId" not in span]
        attempts = [span for span in spans if span is not root]
        record = server.show(run)
        told = sorted((attributes(span)["viat.step.path"], int(attributes(span)["viat.attempt"]), attributes(span).get("error.type")) for span in attempts)
        assert told == sorted((each["path"], each["attempt"], each["class"]) for each in record["attempts"])
        heard = {name for name in steps.trace() if name.startswith("00-")}
        assert {f"00-{span['traceId']}-{span['spanId']}-01" for span in attempts} <= heard, "scripts are told which span they are"
        assert all(span["parentSpanId"] == root["spanId"] and attributes(span)["viat.run"] == run for span in attempts)
        assert root["name"] == record["workflow"] and attributes(root)["viat.run.status"] == record["status"]
        assert int(root["startTimeUnixNano"]) <= min(int(span["startTimeUnixNano"]) for span in attempts)
        assert int(root["endTimeUnixNano"]) >= max(int(span["endTimeUnixNano"]) for span in attempts)
        for span in spans:
            assert span["status"]["code"] == (2 if "error.type" in attributes(span) else 1)
            assert len(span["traceId"]) == 32 and len(span["spanId"]) == 16 and span["kind"] == 1
    assert "secret" not in json.dumps(collector.requests), "messages stay at home"
    assert scrape(server).get("viat_spans_total", outcome="sent") == 16


def test_a_trace_goes_on_over_a_kill(steps, collector):
    collector = collector()
    published(steps, "long", """
steps:
  - {id: first, script: step, args: {name: first}}
  - {id: slow, script: step, args: {name: slow, ms: 700}, idempotent: true}
  - {id: last, script: step, args: {name: last}}
""")
    server = Server(steps, env=collector.env)
    run = server.begin("long")
    trace = run.replace("-", "")
    until(lambda: "slow" in steps.trace() and collector.spans(trace), "the first span has come, the second attempt runs")
    [first] = collector.spans(trace)
    server.restart()
    assert server.ended(run)["status"] == "succeeded"
    until(lambda: len(collector.spans(trace)) == 5, f"the rest: {collector.spans(trace)}")
    spans = collector.spans(trace)
    [root] = [span for span in spans if "parentSpanId" not in span]
    assert {span["parentSpanId"] for span in spans if span is not root} == {root["spanId"]} == {first["parentSpanId"]}
    told = [(attributes(span)["viat.step.path"], attributes(span)["viat.attempt"], attributes(span).get("viat.interrupted", False)) for span in spans if span is not root]
    assert sorted(told) == [("first", "1", False), ("last", "1", False), ("slow", "1", True), ("slow", "2", False)]
    assert root["startTimeUnixNano"] <= first["startTimeUnixNano"]
    metrics = scrape(server)
    assert metrics.get("viat_attempt_duration_seconds_count", workflow="long", step="slow") == 1, "nobody knows how long the interrupted one took"
    assert step(metrics, "retry_successes", "long", "slow") == 1


def test_a_run_that_goes_on_keeps_its_trace(steps, collector):
    collector = collector()
    published(steps, "w", "steps: [{id: a, script: step, args: {name: a, fail: user}}]\n")
    run = steps.run("run", "start", "w", "--wait", "--json", env=collector.env, code=1).data()["id"]
    assert len(collector.spans()) == 2, "a command sends its spans before it ends"
    steps.run("run", "resume", run, env=collector.env, code=0)
    spans = collector.spans(run.replace("-", ""))
    first, root, second, again = spans
    assert "parentSpanId" not in root and again["parentSpanId"] == root["spanId"]
    assert (first["parentSpanId"], second["parentSpanId"]) == (root["spanId"], again["spanId"])
    steps.run("workflow", "test", "w", "--json", env=collector.env, code=0)
    assert len(collector.spans()) == 4, "a rehearsal sends nothing"
    assert steps.trace()[-1] == "None", "and its scripts have no trace"


def test_a_collector_that_is_not_there_is_in_nobodys_way(steps, collector):
    published(steps, "retries", RETRIES)
    gone = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_BSP_SCHEDULE_DELAY": "1", "OTEL_BSP_MAX_QUEUE_SIZE": "2",
            "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "1"}
    server = Server(steps, env=gone)
    for _ in range(3):
        assert server.ended(server.begin("retries"))["status"] == "succeeded"
    lost = sum(value for labels, value in scrape(server).series("viat_spans_total").items() if dict(labels)["outcome"] != "sent")
    assert lost >= 3 * 7 - 3, "two wait, one is being sent; the rest is dropped and counted"
    assert "spans did not reach" in server.end()
    server = Server(steps, env=collector(503, 429).env)
    server.ended(server.begin("retries"))
    until(lambda: scrape(server).get("viat_spans_total", outcome="sent") == 7, "it was asked again")
    server.end()
    refuses = Server(steps, env=collector(*[400] * 9).env)
    refuses.ended(refuses.begin("retries"))
    until(lambda: scrape(refuses).get("viat_spans_total", outcome="failed") == 7, "a refusal is not asked again")
    assert "it answered 400" in refuses.end()


def test_settings_that_make_no_sense_are_said(steps):
    published(steps, "retries", RETRIES)
    done = steps.run("run", "start", "retries", "--wait", env={"OTEL_EXPORTER_OTLP_ENDPOINT": "https://there"}, code=0)
    assert "no spans are sent" in done.err and "http only" in done.err
    assert "spans" not in steps.run("run", "start", "retries", "--wait", env={"OTEL_TRACES_EXPORTER": "none"}, code=0).err
