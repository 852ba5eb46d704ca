"""Access tokens: who is asked for one, what each permits, what is left of them at rest; signed endpoints; limits; the audit log."""
import hashlib
import hmac
import json
import os
import socket
import time

import pytest

from conftest import until
from served import ECHO, Server, published

FLOW = "inputs: {v: {type: integer, default: 1}}\nsteps: [{id: a, script: echo, args: {v: $inputs.v}}]\noutputs: {v: $a.output}\n"


@pytest.fixture
def echo(home):
    home.script("echo", ECHO)
    published(home, "w", FLOW)
    return home


def made(home, name, *scopes, more=()):
    return home.run("token", "create", "--name", name, *[word for scope in scopes for word in ("--scope", scope)], *more, code=0).out.strip()


def bearer(token):
    return {"authorization": f"Bearer {token}"}


@pytest.fixture
def guarded(echo):
    echo.admin = made(echo, "admin", "admin")
    echo.server = Server(echo, "--require-token", "--profile", "trusted")
    return echo


def test_tokens_are_shown_once_and_hashed_at_rest(home):
    token = made(home, "ci", "read", "run", more=("--expires", "P90D"))
    secret = token.rpartition("_")[2]
    assert len(secret) == 64
    for path in home.path.rglob("*"):
        assert not path.is_file() or secret.encode() not in path.read_bytes(), f"{path} has the secret"
    row, = home.run("token", "list", "--json", code=0).data()
    assert (row["name"], row["scopes"], row["status"], row["last_used_at"]) == ("ci", ["read", "run"], "active", None)
    assert row["expires_at"] and token.split("_")[1] == row["id"] and "token" not in row
    assert "already" in home.run("token", "create", "--name", "ci", "--scope", "read", code=3).err
    home.run("token", "create", "--name", "x", code=2)
    home.run("token", "create", "--name", "x", "--scope", "all", code=2)
    home.run("token", "create", "--name", "x", "--scope", "read", "--expires", "soon", code=2)
    home.run("token", "create", "--name", "x", "--scope", "read", "--expires", "PT0S", code=2)
    assert home.run("token", "revoke", row["id"][:20], "--json", code=0).data()["status"] == "revoked"
    home.run("token", "revoke", "ci", code=3)
    assert "ci" in home.run("token", "list", code=0).out


def test_without_a_token_nobody_comes_in(guarded):
    server = guarded.server
    assert server.ask("GET", "/healthz").status == server.ask("GET", "/readyz").status == 200
    paths = ["/api/v1/runs/x", "/api/v1/reviews", "/api/v1/pools", "/api/v1/tokens", "/api/v1/audit", "/metrics", "/nothing", "/"]
    for path in paths:
        answer = server.ask("GET", path)
        assert "token" in answer.problem(401) and answer.headers["www-authenticate"] == "Bearer", path
    for path in ("/api/v1/runs", "/api/v1/tokens", "/e/w", "/api/v1/runs/x/cancel"):
        server.post(path, {}).problem(401)
    for bad in ("Bearer x", "Bearer viat_a_b", "Basic YTpi", "Bearer", "", f"Bearer {guarded.admin}0"):
        server.ask("GET", "/api/v1/tokens", headers={"authorization": bad}).problem(401)
    assert server.ask("GET", "/api/v1/tokens", headers=bearer(guarded.admin)).status == 200
    assert guarded.run("run", "start", "w", "--wait", code=0).out == '{"v":1}\n', "on the socket nobody needs one"


def test_each_scope_permits_what_it_says(guarded):
    server = guarded.server
    by = {scope: bearer(made(guarded, scope, scope)) for scope in ("read", "run", "review")}
    run = server.post("/api/v1/runs", {"workflow": "w"}, by["run"]).data()["id"]
    tried = [("POST", "/api/v1/runs", {"workflow": "w"}, {"run"}), ("GET", f"/api/v1/runs/{run}", None, {"read", "run"}),
             ("GET", f"/api/v1/runs/{run}/ledger", None, {"read", "run"}), ("GET", "/api/v1/reviews", None, {"read", "review"}),
             ("GET", "/metrics", None, {"read"}), ("GET", "/api/v1/pools", None, {"read"}), ("GET", "/api/v1/tokens", None, set()),
             ("GET", "/api/v1/audit", None, set()), ("POST", "/api/v1/tokens", {"name": "n", "scopes": ["admin"]}, set())]
    for method, path, body, fitting in tried:
        for scope, headers in by.items():
            answer = server.ask(method, path, body, headers)
            if scope in fitting:
                assert answer.status < 300, (method, path, scope, answer)
            else:
                assert "scope" in answer.problem(403), (method, path, scope)
    server.post("/api/v1/reviews/x/decision", {}, by["run"]).problem(403)
    server.post("/api/v1/reviews/x/decision", {"decision": "approved", "by": "a"}, by["review"]).problem(404)


def test_a_revoked_or_expired_token_is_worth_nothing_at_once(guarded):
    server = guarded.server
    soon = bearer(made(guarded, "soon", "read", more=("--expires", "PT1S")))
    gone = bearer(made(guarded, "gone", "read"))
    assert server.ask("GET", "/metrics", headers=gone).status == 200
    used = until(lambda: [row for row in guarded.run("token", "list", "--json", code=0).data() if row["name"] == "gone" and row["last_used_at"]], "its use is noted")
    assert used[0]["last_used_at"] >= used[0]["created_at"]
    guarded.run("token", "revoke", "gone", code=0)
    server.ask("GET", "/metrics", headers=gone).problem(401)
    until(lambda: server.ask("GET", "/metrics", headers=soon).status == 401, "it expires")
    assert {row["name"]: row["status"] for row in guarded.run("token", "list", "--json", code=0).data()} == {"admin": "active", "gone": "revoked", "soon": "expired"}


def test_tokens_through_the_api(guarded):
    server, admin = guarded.server, bearer(guarded.admin)
    answer = server.post("/api/v1/tokens", {"name": "new", "scopes": ["read"], "expires": "P1D"}, admin)
    assert answer.status == 201
    new = answer.data()
    assert server.ask("GET", "/metrics", headers=bearer(new["token"])).status == 200
    items = server.ask("GET", "/api/v1/tokens", headers=admin).data()["items"]
    assert [row["name"] for row in items] == ["new", "admin"] and all("token" not in row and "hash" not in row for row in items)
    server.post("/api/v1/tokens", {"name": "new", "scopes": ["read"]}, admin).problem(409)
    server.post("/api/v1/tokens", {"name": "x", "scopes": []}, admin).problem(422)
    server.post("/api/v1/tokens", {"name": "x", "scopes": ["all"]}, admin).problem(422)
    assert server.ask("DELETE", f"/api/v1/tokens/{new['id']}", headers=admin).data()["status"] == "revoked"
    server.ask("DELETE", f"/api/v1/tokens/{new['id']}", headers=admin).problem(409)
    server.ask("DELETE", "/api/v1/tokens/none", headers=admin).problem(404)
    server.ask("GET", "/metrics", headers=bearer(new["token"])).problem(401)


def test_a_server_that_would_let_nobody_in_does_not_start(echo):
    for flags in (("--host", "0.0.0.0"), ("--require-token",)):
        done = echo.run("server", "--port", "0", *flags, code=2)
        assert "viat token create" in done.err, done
    made(echo, "reader", "read")
    echo.run("server", "--port", "0", "--require-token", code=2)
    token = made(echo, "admin", "admin")
    server = Server(echo, "--host", "0.0.0.0", "--profile", "trusted", settle=False)
    assert server.ask("GET", "/metrics", headers={"host": "viat.example.org"}).status == 401
    assert server.ask("GET", "/metrics", headers={"host": "viat.example.org", **bearer(token)}).status == 200
    server.ask("POST", "/api/v1/runs", {"workflow": "w"}, {"origin": "http://evil.example", **bearer(token)}).problem(403)


def test_who_comes_with_a_token_is_not_trusted_with_the_machine(echo):
    token = made(echo, "admin", "admin")
    asked = echo.start("server", "--port", "0", "--require-token")
    line = asked.stderr.readline().decode()
    if "strict" in line:
        assert asked.wait(60) == 2 and "--profile trusted" in asked.stderr.read().decode(), "where it cannot be had, it says so"
        return
    asked.terminate()
    asked.wait(60)
    echo.script("look", "import os\ndef main():\n    return sorted(os.listdir('/'))\n")
    server = Server(echo, "--require-token", settle=False)
    seen = server.post("/api/v1/scripts/look/test", {}, bearer(token)).data()["value"]
    assert seen != sorted(os.listdir("/")), "a command that the server runs is held to its profile too"


def test_an_open_server_holds_a_token_to_its_scopes(echo):
    token = made(echo, "reader", "read")
    server = Server(echo)
    server.post("/api/v1/runs", {"workflow": "w"}, bearer(token)).problem(403)
    server.post("/api/v1/runs", {"workflow": "w"}, bearer("viat_x_y")).problem(401)
    assert server.post("/api/v1/runs", {"workflow": "w"}).status == 201


def test_endpoints_ask_for_what_they_were_told_to(guarded):
    server = guarded.server
    for path, auth in (("/open", "none"), ("/token", "token"), ("/like", None)):
        guarded.run("endpoint", "create", path, "--workflow", "w", *(("--auth", auth) if auth else ()), code=0)
    runner, reader = bearer(made(guarded, "runner", "run")), bearer(made(guarded, "reader", "read"))
    assert server.post("/e/open", {"v": 2}).data() == {"v": 2}
    assert server.post("/e/open", {"v": 2}, bearer("no")).data() == {"v": 2}, "who needs no token may have a wrong one"
    for path in ("/e/token", "/e/like"):
        server.post(path, {}).problem(401)
        server.post(path, {}, reader).problem(403)
        assert server.post(path, {"v": 3}, runner).data() == {"v": 3}
    server.post("/e/unknown", {}).problem(401)
    server.post("/e/unknown", {}, runner).problem(404)


def sign(secret, path, body, at=None):
    at = str(int(time.time()) if at is None else at)
    tag = hmac.new(secret.encode(), f"{at}.POST.{path}.".encode() + body, hashlib.sha256).hexdigest()
    return {"content-type": "application/json", "viat-timestamp": at, "viat-signature": f"v1={tag}"}


def test_a_signed_endpoint(echo):
    server = Server(echo)
    secret = echo.run("endpoint", "create", "/signed", "--workflow", "w", "--auth", "signature", code=0).out.strip().split("\n")[-1]
    for path in echo.path.rglob("*"):
        assert not path.is_file() or secret.encode() not in path.read_bytes(), f"{path} has the secret"
    body = b'{"v": 4}'

    def call(headers, path="/e/signed", sent=body):
        return server.ask("POST", path, raw=sent, headers=headers)
    good = sign(secret, "/e/signed", body)
    answer = call(good)
    assert (answer.status, answer.data()) == (200, {"v": 4})
    assert "already" in call(good).problem(401), "a signature is used once"
    call(sign(secret, "/e/signed", body), sent=b'{"v": 5}').problem(401)
    call(sign(secret, "/e/other", body)).problem(401)
    call(sign(secret, "/e/signed", body), path="/e/signed?x=1").problem(401)
    call(sign("wrong", "/e/signed", body)).problem(401)
    for late in (-301, 302):
        assert "timestamp" in call(sign(secret, "/e/signed", body, int(time.time()) + late)).problem(401)
    call({"content-type": "application/json"}).problem(401)
    call({**good, "viat-signature": "v1=zz"}).problem(401)
    server.restart()
    replay = call(good)
    assert (replay.status, replay.headers["viat-run"]) == (200, answer.headers["viat-run"]), "after a restart it still starts nothing"
    assert [row["id"] for row in echo.runs() if row["workflow"] == "w"] == [answer.headers["viat-run"]]


def test_who_comes_too_often_is_told_when_to_come_again(echo):
    token = made(echo, "admin", "admin")
    server = Server(echo, "--require-token", "--profile", "trusted", "--rate-limit", "2", settle=False)
    answers = [server.ask("GET", "/api/v1/tokens", headers=bearer(token)) for _ in range(8)]
    refused = [answer for answer in answers if answer.status == 429]
    assert refused and int(refused[0].headers["retry-after"]) >= 1
    refused[0].problem(429)
    guesses = [server.ask("GET", "/api/v1/tokens", headers=bearer("viat_x_y")).status for _ in range(40)]
    assert set(guesses) == {401, 429}, "guessing is slow"


def test_large_and_slow_bodies(echo):
    server = Server(echo, "--max-body", "2000")
    assert server.post("/api/v1/runs", {"workflow": "w"}).status == 201
    assert "2000" in server.post("/api/v1/runs", {"workflow": "w", "inputs": {"v": "x" * 3000}}).problem(413)
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as link:
        link.sendall(b"POST /api/v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(4):
            link.sendall(b"3e8\r\n" + b"x" * 1000 + b"\r\n")
        assert b" 413 " in link.recv(4096)
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as link:
        link.sendall(b"POST /api/v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{")
        assert b" 408 " in link.recv(4096)


def entries(home, *flags):
    return home.run("audit", "list", "--json", *flags, code=0).data()


def test_changes_and_decisions_are_on_record(echo):
    token = made(echo, "ci", "run", "review")
    published(echo, "ask", "steps: [{id: r, review: {title: Sure?}}, {id: e, wait: {event: go}}]\n")
    server = Server(echo)
    run = server.post("/api/v1/runs", {"workflow": "ask"}, bearer(token)).data()["id"]
    review = until(lambda: server.show(run)["reviews"], "it asks")[0]["id"]
    echo.run("review", "decide", review, "--decision", "approved", "--by", "ana", "--comment", "fine", code=0)
    server.reaches(run, "waiting")
    server.post(f"/api/v1/runs/{run}/cancel", {"by": "bob", "reason": "wrong customer"}, bearer(token))
    server.ended(run)
    server.post(f"/api/v1/runs/{run}/cancel", {"by": "eve"}, bearer(token))
    echo.run("workflow", "delete", "ask", code=0)
    echo.run("workflow", "delete", "nothing", code=3)
    found = entries(echo)
    assert [entry["action"] for entry in found] == ["workflow.delete", "run.cancel", "review.decide", "run.start", "workflow.publish", "workflow.create",
                                                    "token.create", "workflow.publish", "workflow.create", "script.create"]
    start, decide, cancel = found[3], found[2], found[1]
    assert (start["actor"], start["via"], start["subject"], start["detail"]) == ("ci", "api", run, "workflow ask")
    assert start["token"] == token.split("_")[1]
    assert (decide["via"], decide["by"], decide["subject"], decide["detail"], decide["reason"]) == ("cli", "ana", review, "approved", "fine")
    assert (cancel["actor"], cancel["by"], cancel["reason"]) == ("ci", "bob", "wrong customer")
    assert all(newer["at"] >= older["at"] for newer, older in zip(found, found[1:]))
    assert token.rpartition("_")[2] not in json.dumps(found)
    assert [entry["action"] for entry in entries(echo, "--action", "run")] == ["run.cancel", "run.start"]
    assert [entry["action"] for entry in entries(echo, "--actor", "ana")] == ["review.decide"]
    assert len(entries(echo, "--subject", "w")) == 2 and len(entries(echo, "--limit", "2")) == 2
    assert entries(echo, "--since", "2999-01-01T00:00:00Z") == []
    echo.run("audit", "list", "--since", "yesterday", code=2)
    assert "wrong customer" in echo.run("audit", "list", code=0).out
    first = server.ask("GET", "/api/v1/audit?limit=4").data()
    rest = server.ask("GET", f"/api/v1/audit?limit=100&cursor={first['next_cursor']}").data()
    assert first["items"] + rest["items"] == found and rest["next_cursor"] is None
    server.ask("GET", "/api/v1/audit?limit=0").problem(422)
    server.ask("GET", "/api/v1/audit?what=1").problem(400)


def test_what_is_done_without_a_server_is_on_record_too(home):
    published(home, "w", "steps: [{id: e, wait: {event: go}}, {id: f, wait: {event: stop}}]\n")
    run = home.run("run", "start", "w", "--json", code=0).data()["id"]
    home.run("event", "send", "go", "--run", run, code=0)
    home.run("run", "cancel", run, "--by", "ana", "--reason", "enough", code=0)
    found = entries(home, "--subject", run)
    assert [entry["action"] for entry in found] == ["run.cancel", "run.event", "run.start"]
    assert (found[0]["by"], found[0]["reason"], found[1]["detail"]) == ("ana", "enough", "go")
