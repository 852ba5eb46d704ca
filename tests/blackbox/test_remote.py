"""`VIAT_URL`: the same commands, the same output, the same exit codes, on a server elsewhere."""
import http.client
import http.server
import json
import signal
import threading

import pytest

from conftest import nobody_left, until
from served import ECHO, EFFECT, Server, published

FLOW = "inputs: {v: {type: integer, default: 1}}\nsteps: [{id: a, script: echo, args: {v: $inputs.v}}]\noutputs: {v: $a.output}\n"


@pytest.fixture
def far(home):
    """Commands that go through a server; what they see of this machine is not its home."""
    home.script("echo", ECHO)
    published(home, "w", FLOW)
    home.admin = home.run("token", "create", "--name", "admin", "--scope", "admin", code=0).out.strip()
    home.server = Server(home, "--require-token", "--profile", "trusted", "--rate-limit", "0")
    home.far = {"VIAT_URL": f"http://127.0.0.1:{home.server.port}", "VIAT_TOKEN": home.admin, "VIAT_HOME": home.base / "nowhere"}
    return home


def both(home, *args, **more):
    """The same command here and there."""
    here, there = home.run(*args, **more), home.run(*args, env=home.far, **more)
    assert (there.code, there.raw_out, there.err) == (here.code, here.raw_out, here.err), f"{here}\n{there}"
    return here


def test_the_same_commands_print_the_same(far):
    run = far.run("run", "start", "w", "--wait", "--json", env=far.far, code=0).data()["id"]
    assert not (far.base / "nowhere").exists(), "nothing is kept here"
    for command in (["run", "list"], ["run", "show", run], ["run", "show", run[:20]], ["run", "logs", run], ["run", "ledger", run], ["run", "transitions", run],
                    ["run", "watch", run], ["script", "list"], ["script", "show", "echo"], ["workflow", "show", "w"], ["workflow", "versions", "w"],
                    ["workflow", "list"], ["review", "list"], ["endpoint", "list"], ["env", "list"], ["token", "list"]):
        assert both(far, *command).code == 0
        both(far, *command, "--json")
    for command in (["run", "show", "none"], ["workflow", "show", "nothing"], ["run", "start", "w", "--input", '{"v": "x"}'], ["run", "list", "--limit", "0"],
                    ["workflow", "diff", "w"], ["script", "delete", "echo"], ["run", "start", "w", "--input", "{"], ["run", "start", "w", "--input", "@missing.json"],
                    ["workflow", "validate", "--file", "missing.yaml"], ["apply", "missing"]):
        assert both(far, *command).code in (2, 3)
        both(far, *command, "--json")


def test_files_and_stdin_are_read_where_the_command_is_typed(far):
    bad = far.file("bad.yaml", "steps:\n  - {id: a, script: nothing}\n")
    assert "bad.yaml:2" in both(far, "workflow", "validate", "--file", bad).err
    both(far, "workflow", "create", "b", "--file", bad)
    both(far, "script", "create", "--name", "b", "--language", "python", "--file", far.file("b.py", b"\xff\xfe"))
    far.run("script", "create", "--name", "new", "--language", "python", "--file", far.file("new.py", ECHO), env=far.far, code=0)
    far.run("workflow", "create", "new", "--file", "files/new.yaml", env=far.far, code=2)
    far.file("new.yaml", FLOW.replace("echo", "new"))
    far.run("workflow", "create", "new", "--file", "files/new.yaml", env=far.far, code=0)
    given = far.file("in.json", '{"v": 4}')
    assert far.run("workflow", "test", "new", "--input", f"@{given}", env=far.far, code=0).out == '{"v":4}\n'
    assert far.run("workflow", "test", "new", "--input", "-", stdin=b'{"v": 5}', env=far.far, code=0).out == '{"v":5}\n'
    mock = far.file("mock.json", '{"output": "m\xc3\xa9"}'.encode("latin-1"))
    assert far.run("workflow", "test", "new", "--mock", f"a=@{mock}", env=far.far, code=0).out == '{"v":"mé"}\n'
    big = json.dumps({"v": 1, "w": "x" * 3_000_000})
    assert "w" in far.run("workflow", "test", "new", "--input", "-", stdin=big.encode(), env=far.far, code=2).err


def test_a_project_is_applied_from_here(far):
    far.run("init", "shop", "--example", "ledger", env=far.far, code=0)
    there = far.run("apply", "shop", "--publish", env=far.far, code=0)
    assert "create    workflow ledger" in there.out
    assert "create" not in both(far, "apply", "shop").out
    assert far.run("run", "start", "ledger", "--wait", env=far.far, code=0).out.startswith("{")
    far.run("apply", env=far.far, cwd=far.base / "shop", code=0)


def test_a_failed_run_exits_alike_and_says_why(far):
    far.script("no", "from viat import ViatError\ndef main():\n    print('looked it up')\n    raise ViatError(code='gone', status=410, message='gone')\n")
    published(far, "no", "steps: [{id: a, script: no}]\n")
    done = far.run("workflow", "test", "no", env=far.far, code=1)
    assert done.out == "" and "user gone" in done.err and "looked it up" in done.err
    assert far.run("run", "start", "no", "--wait", "--json", env=far.far, code=1).data()["error"]["code"] == "gone"
    assert far.run("script", "test", "no", env=far.far, code=1).out == ""


def test_who_typed_it_is_known(far):
    published(far, "ask", "steps: [{id: q, review: {title: Sure?}}]\noutputs: {by: $q.output.by}\n")
    run = far.run("run", "start", "ask", "--json", env=far.far, code=0).data()["id"]
    review = until(lambda: far.run("review", "list", "--json", env=far.far, code=0).data(), "it asks")[0]["id"]
    far.run("review", "decide", review, "--decision", "approved", "--comment", "yes", env={**far.far, "USER": "zoe"}, code=0)
    assert far.server.ask("GET", f"/api/v1/runs/{run}", headers={"authorization": f"Bearer {far.admin}"}).data()["reviews"][0]["by"] == "zoe"
    decided, started = far.run("audit", "list", "--subject", review, "--json", code=0).data()[0], far.run("audit", "list", "--subject", run, "--json", code=0).data()[0]
    assert (decided["actor"], decided["via"], decided["by"], decided["reason"]) == ("admin", "api", "zoe", "yes")
    assert (started["actor"], started["via"], started["token"]) == ("admin", "api", far.admin.split("_")[1])


def test_scopes_hold_for_commands_too(far):
    by = {scope: {**far.far, "VIAT_TOKEN": far.run("token", "create", "--name", scope, "--scope", scope, code=0).out.strip()} for scope in ("read", "run", "review")}
    tried = [(["run", "list"], {"read", "run"}), (["workflow", "list"], {"read"}), (["review", "list"], {"read", "review"}), (["run", "start", "w"], {"run"}),
             (["workflow", "test", "w"], set()), (["token", "list"], set()), (["workflow", "delete", "w"], set()), (["audit", "list"], set())]
    for command, fitting in tried:
        for scope, env in by.items():
            done = far.run(*command, env=env)
            assert done.code == (0 if scope in fitting else 3), done
    assert "VIAT_TOKEN" in far.run("run", "list", env={**far.far, "VIAT_TOKEN": None}, code=3).err
    far.run("run", "list", env={**far.far, "VIAT_TOKEN": "viat_a_b"}, code=3)


def test_a_server_that_is_not_there(far):
    assert "VIAT_URL" in far.run("run", "list", env={**far.far, "VIAT_URL": "http://127.0.0.1:1"}, code=4).err
    assert "VIAT_URL" in far.run("run", "list", env={**far.far, "VIAT_URL": "127.0.0.1"}, code=2).err
    far.run("run", "list", "--what", env={**far.far, "VIAT_URL": "http://127.0.0.1:1"}, code=2)
    far.run("completions", "bash", env={**far.far, "VIAT_URL": "http://127.0.0.1:1"}, code=0)


def test_a_server_that_breaks_off(far):
    published(far, "wait", "steps: [{id: e, wait: {event: go}}]\n")
    run = far.run("run", "start", "wait", "--json", env=far.far, code=0).data()["id"]
    process = far.start("run", "watch", run, env=far.far)
    until(lambda: far.server.ask("GET", f"/api/v1/runs/{run}", headers={"authorization": f"Bearer {far.admin}"}).data()["status"] == "waiting", "it waits")
    far.server.kill()
    assert process.wait(60) == 4
    assert far.far["VIAT_URL"] in process.stderr.read().decode()


def test_an_interrupted_command_ends_and_its_run_keeps_what_is_done(far):
    far.script("effect", EFFECT)
    far.workflow("slow", "steps: [{id: a, script: effect}, {id: b, script: effect, args: {ms: 1500}}, {id: c, script: effect}]\n")
    process = far.start("workflow", "test", "slow", env=far.far)
    until(lambda: len(far.trace()) == 3, "the second step is under way")
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 1
    err = process.stderr.read().decode()
    assert "run resume" in err and "interrupted" in err
    assert [word.split(":")[1] for word in far.trace()] == ["a", "a", "b", "b"], "what ran has finished, nothing new began"


def test_a_client_that_vanishes_takes_its_command_along(far):
    far.script("effect", EFFECT)
    far.workflow("slow", "steps: [{id: a, script: effect, args: {ms: 60000}}]\n")
    process = far.start("workflow", "test", "slow", env=far.far)
    until(far.trace, "it is under way")
    process.kill()
    process.wait()
    far.server.end(60)
    nobody_left(far)
    assert len(far.trace()) == 1


def test_a_command_reads_nothing_of_the_server(far):
    secret = far.file("secret.yaml", "steps: [{id: a, set: very private}]\n")
    headers = {"authorization": f"Bearer {far.admin}"}
    for args in (["workflow", "validate", "--json", "--file", str(secret)], ["run", "start", "w", "--input", f"@{secret}"], ["apply", str(far.base)]):
        link = http.client.HTTPConnection("127.0.0.1", far.server.port, timeout=60)
        link.request("POST", "/api/v1/commands", json.dumps({"args": args}), {"content-type": "application/json", **headers})
        answer = link.getresponse()
        command, want = json.loads(answer.readline())["command"], {}
        while "want" not in want:
            want = json.loads(answer.readline().strip() or "{}")
        assert want["want"]["path"].startswith(str(far.base)), "it asks whoever typed it"
        other = {"authorization": "Bearer " + far.run("token", "create", "--name", args[0], "--scope", "admin", code=0).out.strip()}
        far.server.ask("PUT", f"/api/v1/commands/{command}/wants/{want['number']}", raw=b"steps: []", headers=other).problem(404)
        assert far.server.ask("PUT", f"/api/v1/commands/{command}/wants/{want['number']}?error=no", headers=headers).status == 204
        rest = answer.read().decode()
        assert '"exit":2' in rest and "private" not in rest, rest
    answer = far.server.post("/api/v1/commands", {"args": ["--json", "run", "list"]}, headers)
    assert [json.loads(line) for line in answer.body.split(b"\n") if line][1:] == [{"stdout": "[]\n"}, {"exit": 0}]
    for args in (["server"], ["init", "x"], ["run", "list", "--home", "/tmp"], ["--home=/tmp", "run", "list"], ["nothing"], [], ["env", "work", "x"]):
        far.server.post("/api/v1/commands", {"args": args}, headers).problem(422)
    far.server.post("/api/v1/commands/none/wants", {"kind": "file", "path": "x", "limit": 1}, headers).problem(404)
    far.server.ask("PUT", "/api/v1/commands/none/wants/1", headers=headers).problem(404)
    far.server.ask("DELETE", "/api/v1/commands/none", headers=headers).problem(404)


class Greedy(http.server.BaseHTTPRequestHandler):
    """A server that wants more than it was told of."""
    got = []

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"command":"c"}\n')
        for number, want in enumerate(({"kind": "file", "path": "/etc/hostname", "limit": 99}, {"kind": "stdin", "path": "", "limit": 99},
                                       {"kind": "folder", "path": "/etc", "limit": 99})):
            self.wfile.write(json.dumps({"want": want, "number": number}).encode() + b"\n")
        self.wfile.write(b'{"exit":0}\n')

    def do_PUT(self):
        self.got.append((self.path, self.rfile.read(int(self.headers.get("content-length") or 0))))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


def test_a_server_gets_nothing_that_was_not_named(home):
    greedy = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Greedy)
    threading.Thread(target=greedy.serve_forever, daemon=True).start()
    home.run("workflow", "validate", "--file", home.file("w.yaml", "x"), stdin=b"private", env={"VIAT_URL": f"http://127.0.0.1:{greedy.server_address[1]}"}, code=0)
    greedy.shutdown()
    assert len(Greedy.got) == 3 and all("error=" in path and body == b"" for path, body in Greedy.got), Greedy.got
