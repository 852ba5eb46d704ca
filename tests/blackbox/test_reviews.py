"""Reviews from the outside: the inbox, decisions, extensions, and links for a browser; with a server and without one."""
import http.client
import json
import re
import urllib.parse

import pytest

from conftest import until
from served import ECHO, Server, published

FLOW = """
inputs: {times: {type: integer, default: 1}}
steps:
  - id: check
    review:
      title: "Is <b>this</b> right?"
      show: {text: "<script>alert(1)</script>", n: 3}
      form: {score: {type: integer, minimum: 1, maximum: 5}, note: {type: string, required: false}}
      assignees: [editors, "ana"]
      timeout: P2D
  - {id: after, script: echo, args: {v: $check.output}}
outputs: {d: $after.output}
"""


@pytest.fixture
def asking(home):
    home.script("echo", ECHO)
    published(home, "w", FLOW)
    return home


def reviews(home, *flags):
    return home.run("review", "list", "--json", *flags, code=0).data()


def begin(home, server=None):
    if server:
        run = server.begin("w")
        server.reaches(run, "waiting")
    else:
        run = home.run("run", "start", "w", "--json", code=0).data()["id"]
        process = home.start("run", "resume", run)
        until(lambda: reviews(home), "it asks")
        process.kill()
        process.wait()
    return run, reviews(home, "--run", run)[0]


def test_the_inbox_shows_what_is_asked(asking):
    server = Server(asking)
    run, row = begin(asking, server)
    assert {key: row[key] for key in ("run", "workflow", "step", "path", "status", "assignees", "decided_at", "by")} == {
        "run": run, "workflow": "w", "step": "check", "path": "check", "status": "pending_review", "assignees": ["editors", "ana"],
        "decided_at": None, "by": None}
    assert row["due"] > row["created_at"]
    shown = asking.run("review", "show", row["id"], "--json", code=0).data()
    assert shown["show"] == {"text": "<script>alert(1)</script>", "n": 3} and [field["name"] for field in shown["form"]] == ["score", "note"]
    text = asking.run("review", "list", code=0).out
    assert row["id"] in text and "editors, ana" in text
    assert row["id"] in asking.run("run", "show", run, code=0).out, "the run says what it waits for"
    assert reviews(asking, "--assignee", "ana") == [row] and reviews(asking, "--assignee", "an") == []
    assert reviews(asking, "--status", "approved") == [] and reviews(asking, "--status", "all") == [row]
    assert asking.run("review", "list", "--status", "odd", code=2).out == ""
    assert server.ask("GET", f"/api/v1/reviews/{row['id']}").data() == shown
    second, _ = begin(asking, server)
    page = server.ask("GET", "/api/v1/reviews?limit=1").data()
    assert [each["run"] for each in page["items"]] == [second]
    page = server.ask("GET", f"/api/v1/reviews?limit=1&cursor={page['next_cursor']}").data()
    assert [each["run"] for each in page["items"]] == [run] and page["next_cursor"] is None
    server.ask("GET", "/api/v1/reviews?limit=0").problem(422)
    server.ask("GET", "/api/v1/reviews?odd=1").problem(400)
    server.ask("GET", "/api/v1/reviews/unknown").problem(404)


@pytest.mark.parametrize("served", [True, False])
def test_a_decision_is_taken_once(asking, served):
    server = Server(asking) if served else None
    run, row = begin(asking, server)
    decide = ("review", "decide", row["id"], "--decision", "approved", "--by", "ana", "--comment", "fine")
    bad = asking.run(*decide, "--data", '{"score": 9}', code=2)
    assert "score" in bad.err, "data that does not fit decides nothing"
    assert "score" in asking.run(*decide, code=2).err, "the form has a required field"
    assert reviews(asking) == [row]
    done = asking.run(*decide, "--data", '{"score": 4}', "--json", code=0).data()
    assert done["status"] == "approved" and done["by"] == "ana" and done["comment"] == "fine" and done["decided_at"]
    again = asking.run("review", "decide", row["id"], "--decision", "rejected", "--by", "bob", code=3)
    assert "ana" in again.err and "approved" in again.err and done["decided_at"] in again.err
    assert reviews(asking) == [] and asking.run("review", "show", row["id"], "--json", code=0).data()["data"] == {"score": 4, "note": None}
    if served:
        record = server.ended(run)
    else:
        assert asking.show(run)["attempts"] == [], "without a server nothing starts by itself"
        asking.run("run", "resume", run, code=0)
        record = asking.show(run)
    said = record["outputs"]["d"]
    assert (said["decision"], said["by"], said["comment"], said["data"]["score"]) == ("approved", "ana", "fine", 4)
    assert [row["by"] for row in asking.run("run", "transitions", run, "--json", code=0).data() if row.get("by")] == ["ana"]


def test_bad_decisions_are_refused(asking):
    server = Server(asking)
    _, row = begin(asking, server)
    path = f"/api/v1/reviews/{row['id']}/decision"
    server.post(path, {"decision": "expired", "by": "a"}).problem(422)
    server.post(path, {"decision": "rejected"}).problem(422)
    server.post(path, {"decision": "rejected", "by": " "}).problem(422)
    server.post(path, {"decision": "approved", "by": "a", "data": {"score": "x"}}).problem(422)
    server.post("/api/v1/reviews/0000/decision", {"decision": "rejected", "by": "a"}).problem(404)
    asking.run("review", "decide", "0000", "--decision", "rejected", "--by", "a", code=3)
    asking.run("review", "decide", row["id"], "--decision", "expired", "--by", "a", code=2)
    assert server.post(path, {"decision": "rejected", "by": "a"}).data()["status"] == "rejected"
    assert "rejected by a" in server.post(path, {"decision": "approved", "by": "b", "data": {"score": 1}}).problem(409)


@pytest.mark.parametrize("served", [True, False])
def test_an_expiry_is_moved(asking, served):
    server = Server(asking) if served else None
    run, row = begin(asking, server)
    extend = ("review", "extend", row["id"], "--by", "ana")
    asking.run(*extend, code=2)
    asking.run(*extend, "--for", "P1D", "--until", "2100-01-01T00:00:00Z", code=2)
    asking.run(*extend, "--until", "2001-01-01T00:00:00Z", code=2)
    later = asking.run(*extend, "--for", "P1D", "--reason", "holiday", "--json", code=0).data()
    assert row["due"][:8] <= later["due"][:8] and later["due"] > row["due"]
    assert asking.run(*extend, "--until", "2100-01-01T00:00:00Z", "--json", code=0).data()["due"] == "2100-01-01T00:00:00.000Z"
    assert reviews(asking)[0]["due"] == "2100-01-01T00:00:00.000Z"
    assert "holiday" in asking.run("run", "transitions", run, "--json", code=0).out


def test_a_run_that_ends_withdraws_what_it_asks(asking):
    server = Server(asking)
    run, row = begin(asking, server)
    server.cancel(run)
    server.ended(run)
    assert reviews(asking) == [] and reviews(asking, "--status", "withdrawn")[0]["id"] == row["id"]
    assert "withdrawn" in asking.run("review", "decide", row["id"], "--decision", "rejected", "--by", "a", code=3).err
    asking.run("review", "link", row["id"], code=3)


def test_expiry_shows_in_the_index(home):
    published(home, "w", "steps:\n  - {id: check, review: {title: T, timeout: PT0.3S}}\noutputs: {d: $check.output.decision}\n")
    server = Server(home)
    assert server.ended(server.begin("w"))["outputs"] == {"d": "expired"}
    row = reviews(home, "--status", "expired")[0]
    assert row["by"] is None and row["decided_at"]
    assert "expired" in home.run("review", "decide", row["id"], "--decision", "rejected", "--by", "a", code=3).err


class Browser:
    """What a browser does with a link, and no more."""

    def __init__(self, server, url):
        self.server, self.path = server, urllib.parse.urlsplit(url).path

    def ask(self, method, fields=None, headers=None, path=None):
        link = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        sent = dict(headers or {})
        body = None
        if fields is not None:
            body = urllib.parse.urlencode(fields)
            sent = {"content-type": "application/x-www-form-urlencoded", "origin": f"http://127.0.0.1:{self.server.port}", **sent}
        try:
            link.request(method, path or self.path, body, sent)
            answer = link.getresponse()
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read().decode()
        finally:
            link.close()


def made(home, row, *flags):
    return home.run("review", "link", row["id"], *flags, "--json", code=0).data()["url"]


def test_a_link_decides_once(asking):
    server = Server(asking)
    run, row = begin(asking, server)
    url = made(asking, row)
    assert url.startswith(f"http://127.0.0.1:{server.port}/links/review/")
    assert (asking.path / "links.key").stat().st_mode & 0o777 == 0o600
    browser = Browser(server, url)
    for _ in range(2):
        status, headers, page = browser.ask("GET")
        assert status == 200 and headers["content-type"].startswith("text/html"), page
    assert "default-src 'none'" in headers["content-security-policy"] and headers["cache-control"] == "no-store"
    assert "<script" not in page and "&lt;script&gt;alert(1)" in page and "Is &lt;b&gt;this&lt;/b&gt; right?" in page
    assert set(re.findall(r'name="?([\w.]+)"?', page)) >= {"by", "comment", "decision", "data.score", "data.note"}
    assert reviews(asking) == [row], "looking decides nothing"
    status, _, page = browser.ask("POST", {"by": "ana", "data.score": "9", "comment": "a < b", "decision": "approved"})
    assert status == 422 and "score" in page and "a &lt; b" in page and 'value="ana"' in page, "what was typed is not lost"
    status, _, page = browser.ask("POST", {"by": "", "data.score": "3", "decision": "approved"})
    assert status == 422 and "who you are" in page
    status, _, page = browser.ask("POST", {"by": "ana", "data.score": "3", "data.note": "true", "comment": "a < b", "decision": "approved"})
    assert status == 200 and "recorded" in page
    record = server.ended(run)
    assert record["outputs"]["d"]["data"] == {"score": 3, "note": "true"} and record["outputs"]["d"]["comment"] == "a < b"
    for method, fields in (("GET", None), ("POST", {"by": "bob", "decision": "rejected"})):
        status, _, page = browser.ask(method, fields)
        assert status == 410 and "used" in page and "ana" in page


def test_links_that_are_worth_nothing(asking):
    server = Server(asking)
    _, row = begin(asking, server)
    brief, other, good = made(asking, row, "--expires", "PT0.2S"), made(asking, row), made(asking, row, "--by", "ana", "--decision", "rejected")
    forged = good[:-1] + ("0" if good[-1] != "0" else "1")
    for method, fields in (("GET", None), ("POST", {"by": "b", "decision": "rejected"})):
        assert Browser(server, forged).ask(method, fields)[0] == 403
        assert Browser(server, good[:-70]).ask(method, fields)[0] == 403
        until(lambda: Browser(server, brief).ask(method, fields)[0] == 410, "it expires")
    assert reviews(asking) == [row]
    browser = Browser(server, good)
    page = browser.ask("GET")[2]
    assert "ana" in page and "name=by" not in page and page.count("<button") == 1
    assert browser.ask("POST", {"decision": "approved", "data.score": "3"})[0] == 422, "the link is for another decision"
    assert browser.ask("POST", {"by": "eve", "decision": "rejected"})[0] == 200
    assert reviews(asking, "--status", "rejected")[0]["by"] == "ana", "the link says who decides"
    for method, fields in (("GET", None), ("POST", {"by": "b", "decision": "rejected"})):
        status, _, page = Browser(server, other).ask(method, fields)
        assert status == 409 and "rejected by ana" in page
    (asking.path / "links.key").unlink()
    assert Browser(server, other).ask("GET")[0] == 403, "without the key all links are void"


def test_links_and_strangers(asking):
    server = Server(asking)
    _, row = begin(asking, server)
    browser = Browser(server, made(asking, row, "--base", "https://flows.example.org/"))
    public = {"host": "flows.example.org"}
    assert browser.ask("GET", headers=public)[0] == 200, "a proxy may give the links a public name"
    assert browser.ask("GET", headers=public, path="/api/v1/reviews")[0] == 403, "but nothing else"
    fields = {"by": "ana", "decision": "rejected"}
    assert browser.ask("POST", fields, {**public, "origin": "https://evil.example.org"})[0] == 403
    assert browser.ask("POST", fields, {"content-type": "text/plain"})[0] == 415
    assert reviews(asking) == [row]
    assert browser.ask("POST", fields, {**public, "origin": "https://flows.example.org"})[0] == 200


def test_a_link_made_without_a_server_works_with_one(asking):
    _, row = begin(asking)
    url = made(asking, row, "--by", "ana")
    server = Server(asking)
    assert Browser(server, url).ask("POST", {"decision": "changes_requested"})[0] == 200
    assert server.ended(row["run"])["outputs"]["d"]["decision"] == "changes_requested"
    assert json.loads(asking.run("review", "show", row["id"], "--json", code=0).out)["by"] == "ana"


def test_a_rehearsed_decision_has_what_the_form_asks_for(asking):
    done = asking.run("workflow", "test", "w", "--decide", "check=approved", code=2)
    assert "--decide check" in done.err and "score" in done.err and "data" in done.err
    assert asking.runs() == [], "nothing was begun that would wait for a person after all"
    good = 'check={"decision": "approved", "data": {"score": 4}}'
    assert asking.record("w", "--decide", good)["outputs"]["d"]["data"] == {"score": 4, "note": None}
    assert asking.record("w", "--decide", "check=rejected")["outputs"]["d"]["decision"] == "rejected"


def test_what_finds_out_and_what_undoes_can_be_mocked(home):
    home.script("s", "def main():\n    raise RuntimeError('it ran')\n")
    home.workflow("w", """
        steps:
          - {id: pay, script: s, resolve: {script: s}, compensate: {script: s}}
          - {id: undo, compensate: [pay]}
        outputs: {paid: $pay.output, undone: $undo.output.pay}
    """)
    mocks = ("--inject", "pay=timeout", "--mock", 'pay:resolve={"output": {"completed": true, "output": 7}}', "--mock", 'pay:compensate={"output": 1}')
    assert home.record("w", *mocks)["outputs"] == {"paid": 7, "undone": "compensated"}
