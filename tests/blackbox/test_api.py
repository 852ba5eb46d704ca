"""`/api/v1`: everything that the command line can do, in pages, with tags; what happens, as it happens; the description of it."""
import http.client
import json
import threading

import pytest

from conftest import until
from served import ECHO, Server, published

FLOW = "inputs: {v: {type: integer, default: 1}}\nsteps: [{id: a, script: echo, args: {v: $inputs.v}}]\noutputs: {v: $a.output}\n"
REFUSES = "import viat\ndef main():\n    raise viat.ViatError(status=409, code='taken', message='taken')\n"


@pytest.fixture
def server(home):
    return Server(home)


def put(server, path, body, headers=None):
    return server.ask("PUT", path, body, headers)


def ok(answer, status=200):
    assert answer.status == status, answer
    return answer.data()


def pages(server, path):
    """All items of a list, page by page."""
    found, cursor, joint = [], None, "&" if "?" in path else "?"
    while True:
        page = ok(server.ask("GET", path + (f"{joint}cursor={cursor}" if cursor else "")))
        found += page["items"]
        cursor = page["next_cursor"]
        if cursor is None:
            return found
        assert page["items"], "a page with a cursor has something on it"


def test_from_nothing_to_a_run_by_requests_alone(server, home):
    script = ok(put(server, "/api/v1/scripts/echo", {"language": "python", "source": ECHO}))
    assert (script["name"], script["version"]) == ("echo", 1)
    assert ok(put(server, "/api/v1/workflows/w", {"source": FLOW}))["version"] == 1
    server.post("/api/v1/runs", {"workflow": "w"}).problem(409)
    assert ok(server.post("/api/v1/workflows/w/publish", {})) == {"name": "w", "published": 1}
    run = server.begin("w", {"v": 5})
    assert server.ended(run)["outputs"] == {"v": 5}
    assert ok(server.post("/api/v1/endpoints", {"path": "/a/b", "workflow": "w"}), 201)["auth"] is None
    assert server.post("/e/a/b", {"v": 2}).data() == {"v": 2}
    assert [row["path"] for row in pages(server, "/api/v1/endpoints")] == ["/a/b"]
    server.ask("DELETE", "/api/v1/workflows/w").problem(409)
    assert ok(server.ask("DELETE", "/api/v1/endpoints/a/b")) == {"path": "/a/b", "deleted": True}
    assert ok(server.ask("DELETE", "/api/v1/workflows/w"))["deleted"]
    assert ok(server.ask("DELETE", "/api/v1/scripts/echo"))["deleted"]
    assert server.show(run)["outputs"] == {"v": 5}
    actions = [entry["action"] for entry in pages(server, "/api/v1/audit")]
    assert actions == ["script.delete", "workflow.delete", "endpoint.delete", "endpoint.create", "run.start", "workflow.publish", "workflow.create",
                       "script.create"], "who does it by requests is on record too"


def test_the_api_answers_what_the_commands_print(server, home):
    home.script("echo", ECHO)
    published(home, "w", FLOW)
    home.workflow("w", FLOW + "# more\n")
    run = home.run("run", "start", "w", "--wait", "--json", code=0).data()["id"]
    for path, *command in [("/api/v1/scripts/echo", "script", "show", "echo"), ("/api/v1/workflows/w", "workflow", "show", "w"),
                           ("/api/v1/workflows/w?version=1", "workflow", "show", "w", "--version", "1"), ("/api/v1/workflows/w/diff", "workflow", "diff", "w"),
                           (f"/api/v1/runs/{run}", "run", "show", run), (f"/api/v1/runs/{run}/logs", "run", "logs", run),
                           (f"/api/v1/runs/{run}/ledger", "run", "ledger", run), ("/api/v1/scripts/echo/logs", "script", "logs", "echo")]:
        assert ok(server.ask("GET", path)) == home.run(*command, "--json", code=0).data(), path
    for path, *command in [("/api/v1/scripts", "script", "list"), ("/api/v1/workflows", "workflow", "list"), ("/api/v1/runs", "run", "list"),
                           ("/api/v1/workflows/w/versions", "workflow", "versions", "w"), ("/api/v1/environments", "env", "list"),
                           ("/api/v1/endpoints", "endpoint", "list"), ("/api/v1/reviews", "review", "list")]:
        assert pages(server, path) == home.run(*command, "--json", code=0).data(), path


def test_what_is_wrong_with_a_document_is_told(server):
    problem = put(server, "/api/v1/workflows/w", {"source": "steps: [{id: a, script: nothing}]\n", "file": "flows/w.yaml"})
    assert "flows/w.yaml" in problem.problem(422)
    found = problem.data()["diagnostics"]
    assert found[0]["file"] == "flows/w.yaml" and found[0]["span"] and found[0]["code"]
    verdict = ok(server.post("/api/v1/validate", {"source": "steps: [{id: a, script: nothing}]\n"}))
    assert verdict["valid"] is False and [row["code"] for row in verdict["diagnostics"]] == [row["code"] for row in found]
    assert ok(server.post("/api/v1/validate", {"source": "steps: [{id: a, set: 1}]\n"}))["valid"] is True
    assert "2" in put(server, "/api/v1/scripts/s", {"language": "python", "source": "x = 1\ndef main(:\n"}).problem(422)
    put(server, "/api/v1/scripts/s", {"language": "cobol", "source": "x"}).problem(422)
    put(server, "/api/v1/scripts/1%20x", {"language": "python", "source": ECHO}).problem(422)
    put(server, "/api/v1/scripts/s", {"language": "python", "source": ECHO, "more": 1}).problem(422)
    server.ask("GET", "/api/v1/scripts/s").problem(404)
    server.ask("GET", "/api/v1/scripts/%FF").problem(400)
    server.ask("GET", "/api/v1/workflows/w").problem(404)


def test_tags_keep_two_authors_apart(server):
    path, body = "/api/v1/workflows/w", {"source": "steps: [{id: a, set: 1}]\n"}
    put(server, path, body, {"If-Match": '"1"'}).problem(412)
    first = put(server, path, body, {"If-None-Match": "*"})
    assert ok(first)["version"] == 1 and first.headers["etag"] == '"1"'
    put(server, path, body, {"If-None-Match": "*"}).problem(412)
    assert server.ask("GET", path).headers["etag"] == '"1"'
    assert ok(put(server, path, body, {"If-Match": '"1"'}))["version"] == 2
    put(server, path, body, {"If-Match": '"1"'}).problem(412)
    put(server, path, body, {"If-Match": "1"}).problem(400)
    assert ok(put(server, path, body))["version"] == 3
    results = []
    writers = [threading.Thread(target=lambda: results.append(put(server, path, body, {"If-Match": '"3"'}).status)) for _ in range(8)]
    [writer.start() for writer in writers]
    [writer.join() for writer in writers]
    assert sorted(results) == [200] + [412] * 7


def test_runs_are_found_by_what_became_of_them(server, home):
    home.script("echo", ECHO)
    home.script("refuses", REFUSES)
    home.script("breaks", "def main():\n    raise RuntimeError('x')\n")
    published(home, "w", FLOW)
    published(home, "r", "steps: [{id: a, script: refuses}]\n")
    published(home, "b", "steps: [{id: a, script: breaks}]\n")
    runs = [server.begin(name) for name in ("w", "r", "b", "w", "w")]
    records = [server.ended(run) for run in runs]

    def ids(query):
        return [row["id"] for row in pages(server, f"/api/v1/runs?{query}")]
    newest = runs[::-1]
    for limit in (1, 2, 5, 100):
        assert ids(f"limit={limit}") == newest
    assert ids("workflow=w&limit=1") == [newest[0], newest[1], newest[4]]
    assert ids("status=failed") == [newest[2], newest[3]]
    assert ids("error_class=user") == [newest[3]] and ids(f"error_class={records[2]['error']['class']}") == [newest[2]]
    middle = records[2]["created_at"]
    assert set(ids(f"since={middle}")) | set(ids(f"until={middle}")) == set(runs) and not set(ids(f"since={middle}")) & set(ids(f"until={middle}"))
    assert [row["id"] for row in home.run("run", "list", "--error-class", "user", "--json", code=0).data()] == [newest[3]]
    assert home.run("run", "list", "--since", "2999-01-01T00:00:00Z", "--json", code=0).data() == []
    for bad in ("status=done", "error_class=odd", "limit=0", "limit=1001", "since=soon"):
        server.ask("GET", f"/api/v1/runs?{bad}").problem(422)
    for bad in ("what=1", "limit=many"):
        server.ask("GET", f"/api/v1/runs?{bad}").problem(400)
    assert ok(server.ask("GET", "/api/v1/runs?cursor=none")) == {"items": [], "next_cursor": None}
    server.ask("GET", "/api/v1/scripts?cursor=none").problem(422)
    assert [row["name"] for row in pages(server, "/api/v1/scripts?limit=2")] == ["breaks", "refuses", "echo"]


def test_drafts_and_scripts_are_tried_by_requests(server, home):
    home.script("echo", ECHO)
    home.script("refuses", REFUSES)
    home.workflow("w", FLOW)
    home.workflow("r", "steps: [{id: a, script: refuses}, {id: q, review: {title: Sure?}}]\noutputs: {d: $q.output.decision}\n")
    assert ok(server.post("/api/v1/workflows/w/test", {"inputs": {"v": 7}}))["outputs"] == {"v": 7}
    failed = ok(server.post("/api/v1/workflows/r/test", {}))
    assert (failed["status"], failed["error"]["code"]) == ("failed", "taken")
    body = {"mock": ['a={"output": 1}'], "decide": ["q=approved"], "fast_forward": True}
    assert ok(server.post("/api/v1/workflows/r/test", body))["outputs"] == {"d": "approved"}
    server.post("/api/v1/workflows/r/test", {"mock": ["a=@/etc/passwd"]}).problem(422)
    server.post("/api/v1/workflows/w/test", {"inputs": {"v": "x"}}).problem(422)
    server.post("/api/v1/workflows/none/test", {}).problem(404)
    trial = ok(server.post("/api/v1/scripts/echo/test", {"args": {"v": [1]}}))
    assert (trial["status"], trial["value"]) == ("succeeded", [1])
    assert ok(server.post("/api/v1/scripts/refuses/test", {}))["error"]["code"] == "taken"
    server.post("/api/v1/scripts/none/test", {}).problem(404)
    server.post("/api/v1/scripts/--help/test", {}).problem(404)
    run = ok(server.ask("GET", "/api/v1/audit?action=run.start")).get("items")
    assert len(run) == 3 and all(entry["via"] == "api" for entry in run)


class Stream:
    """Server-sent events, as they come."""

    def __init__(self, server, run, last=None):
        self.link = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        self.link.request("GET", f"/api/v1/runs/{run}/events", headers={"Last-Event-ID": last} if last else {})
        self.answer = self.link.getresponse()

    def __iter__(self):
        event = {}
        for line in self.answer:
            line = line.decode().rstrip("\n")
            key, _, value = line.partition(": ")
            if line and not line.startswith(":"):
                event[key] = value
            elif event:
                yield event.get("id"), event["event"], json.loads(event["data"])
                event = {}


def test_what_happens_is_told_as_it_happens(server, home):
    published(home, "w", "steps: [{id: e, wait: {event: go}}, {id: f, wait: {event: on}}]\n")
    run = server.begin("w")
    stream = iter(Stream(server, run))
    seen = [next(stream)]
    assert seen[0][:2] == ("0.0", "created") and seen[0][2]["inputs"] == {} and seen[0][2]["at"].endswith("Z")
    server.send(run, "go", 1)
    while seen[-1][1] != "event_received":
        seen.append(next(stream))
    again = iter(Stream(server, run, seen[0][0]))
    assert [next(again) for _ in seen[1:]] == seen[1:], "who lost the connection goes on where it was"
    server.send(run, "on")
    seen += list(stream)
    assert seen[-1] == (None, "end", {}) and seen[-2][0]
    ids = [tuple(map(int, event[0].split("."))) for event in seen[:-1]]
    assert ids == sorted(set(ids))
    assert list(Stream(server, run)) == seen, "what has happened is told to who comes later"
    assert Stream(server, run, seen[-2][0]).answer.status == 204, "there is nothing more: no need to come again"
    assert "tree" not in json.dumps(seen)
    server.ask("GET", f"/api/v1/runs/{run}/events", headers={"Last-Event-ID": "x"}).problem(400)
    server.ask("GET", "/api/v1/runs/none/events").problem(404)


def test_streams_of_other_engines_runs_and_of_an_ending_server(server, home):
    published(home, "w", "steps: [{id: e, wait: {event: go}}]\n")
    command = home.start("workflow", "test", "w")
    run = until(home.runs, "it starts")[0]["id"]
    stream = iter(Stream(server, run))
    assert next(stream)[1] == "created"
    home.run("event", "send", "go", "--run", run, code=0)
    assert [event[1] for event in stream][-1] == "end"
    command.wait(60)
    waits = Stream(server, server.begin("w"))
    assert next(iter(waits))[1] == "created"
    server.end(20)


def test_schedules_resources_and_secrets_by_requests(server, home):
    ok(put(server, "/api/v1/workflows/w", {"source": "steps: [{id: a, set: 1}]\n"}))
    put(server, "/api/v1/schedules/s", {"cron": "0 3 * * *", "workflow": "w"}).problem(409)
    ok(server.post("/api/v1/workflows/w/publish", {}))
    made = ok(put(server, "/api/v1/schedules/s", {"cron": "0 3 * * *", "timezone": "Europe/Berlin", "workflow": "w", "overlap": "queue"}))
    assert made["next"] and made["overlap"] == "queue" and made["name"] == "s"
    put(server, "/api/v1/schedules/s", {"cron": "soon", "workflow": "w"}).problem(422)
    assert ok(server.post("/api/v1/schedules/s/pause", {})) == {"name": "s", "paused": True}
    assert ok(server.ask("GET", "/api/v1/schedules/s"))["next"] == []
    assert ok(server.post("/api/v1/schedules/s/resume", {})) == {"name": "s", "paused": False}
    assert pages(server, "/api/v1/schedules") == home.run("schedule", "list", "--json", code=0).data()
    server.ask("DELETE", "/api/v1/workflows/w").problem(409)
    assert ok(server.ask("DELETE", "/api/v1/schedules/s"))["deleted"]
    server.ask("GET", "/api/v1/schedules/s").problem(404)
    assert ok(put(server, "/api/v1/resources/p", {"kind": "prompt", "text": "Be brief."}))["version"] == 1
    put(server, "/api/v1/resources/j", {"kind": "json", "text": "{"}).problem(422)
    secret = put(server, "/api/v1/secrets/k", {"value": "very-secret-value"})
    assert ok(secret)["kind"] == "secret" and b"very-secret" not in secret.body
    for path in ("/api/v1/secrets", "/api/v1/secrets/k", "/api/v1/resources/k", "/api/v1/resources", "/api/v1/audit"):
        answer = server.ask("GET", path)
        assert answer.status == 200 and b"very-secret" not in answer.body, path
    assert ok(server.ask("GET", "/api/v1/resources/p"))["value"] == "Be brief."
    assert ok(server.post("/api/v1/secrets", {}))["secrets"] == 1
    assert ok(server.ask("DELETE", "/api/v1/secrets/k"))["deleted"]
    assert ok(server.ask("DELETE", "/api/v1/resources/p"))["deleted"]
    actions = [entry["action"] for entry in pages(server, "/api/v1/audit")]
    assert actions == ["resource.delete", "resource.delete", "secret.rekey", "resource.create", "resource.create", "schedule.delete", "schedule.resume",
                       "schedule.pause", "schedule.create", "workflow.publish", "workflow.create"]


def test_every_refusal_is_a_problem_document(server):
    server.ask("GET", "/").problem(404)
    server.ask("GET", "/api/v1/nothing").problem(404)
    answer = server.ask("DELETE", "/api/v1/runs")
    answer.problem(405)
    assert {word.strip() for word in answer.headers["allow"].split(",")} >= {"GET", "POST"}
    server.ask("POST", "/api/v1/runs", raw=b"{}", headers={"content-type": "text/plain"}).problem(415)
    server.ask("POST", "/api/v1/runs", raw=b"{", headers={"content-type": "application/json"}).problem(400)
    server.ask("POST", "/api/v1/runs", raw=b"\xff", headers={"content-type": "application/json"}).problem(400)
    server.post("/api/v1/runs", {"workflow": 1}).problem(422)
    server.post("/api/v1/runs", {"workflow": "none"}).problem(404)


def test_the_description_fits_the_routes(server):
    document = ok(server.ask("GET", "/api/openapi.json"))
    assert document["openapi"] == "3.1.0" and len(document["paths"]) > 30
    for path, item in document["paths"].items():
        for method, operation in item.items():
            assert operation["summary"] and {"401", "400"} & set(operation["responses"]), (method, path)
    page = server.ask("GET", "/api/docs")
    assert page.status == 200 and page.kind.startswith("text/html") and "default-src 'none'" in page.headers["content-security-policy"]
    text = page.body.decode()
    assert "/api/v1/workflows/{name}" in text and "<script" not in text and "http://" not in text and "https://" not in text.replace("https://json-schema.org", "")
