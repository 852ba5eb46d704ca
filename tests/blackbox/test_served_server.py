"""The server itself: one per home, found by its socket, deaf to strangers, replaceable at any moment."""
import signal
import socket
import time

import pytest

from conftest import TOUCH, Home, bug, nobody_left, until
from served import ECHO, EFFECT, Server, published

ECHO_FLOW = "inputs: {v: {type: integer, default: 1}}\nsteps: [{id: a, script: echo, args: {v: $inputs.v}}]\noutputs: {v: $a.output}\n"


@pytest.fixture
def echo(home):
    home.script("echo", ECHO)
    published(home, "w", ECHO_FLOW)
    return home


def test_start_ready_found_by_the_socket_and_ended(echo):
    server = Server(echo)
    assert server.ask("GET", "/healthz").status == server.ask("GET", "/readyz").status == 200
    assert (echo.path / "server.sock").stat().st_mode & 0o077 == 0, "only the owner talks to it"
    run = echo.run("run", "start", "w", "--input", '{"v": 7}', "--json", code=0).data()
    assert run["status"] == "running"
    assert server.ended(run["id"])["outputs"] == {"v": 7} == echo.show(run["id"])["outputs"]
    assert echo.run("run", "start", "w", "--wait", code=0).out == '{"v":1}\n'
    second = echo.run("server", "--port", "0", code=4)
    assert "already runs" in second.err and str(server.process.pid) in second.err
    server.end()
    assert not (echo.path / "server.sock").exists()
    nobody_left(echo)
    assert echo.run("run", "start", "w", "--json", code=0).data()["status"] == "queued"


def test_sigterm_lets_the_attempt_in_flight_finish(home):
    home.script("effect", EFFECT)
    published(home, "w", "steps: [{id: a, script: effect, args: {ms: 700}}, {id: b, script: effect}]\n")
    server = Server(home)
    run = server.begin("w")
    until(home.trace, "the attempt begins")
    server.end()
    nobody_left(home)
    assert [word.split(":")[:2] for word in home.trace()] == [["begin", "a"], ["done", "a"]], "it ended, nothing new began"
    assert [each["status"] for each in home.show(run)["attempts"]] == ["succeeded"]
    assert Server(home).ended(run)["status"] == "succeeded"


def test_an_idle_connection_does_not_keep_the_server_from_ending(echo):
    server = Server(echo)
    with socket.create_connection(("127.0.0.1", server.port)) as silent, socket.create_connection(("127.0.0.1", server.port)) as kept:
        kept.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"200" in kept.recv(4096)
        server.end(15)
        assert silent.recv(1) == b""


def test_half_a_request_does_not_keep_the_server_from_ending(echo):
    server = Server(echo)
    with socket.create_connection(("127.0.0.1", server.port)) as head, socket.create_connection(("127.0.0.1", server.port)) as body:
        head.sendall(b"GET /healthz HTTP/1.1\r\nHost: local")
        body.sendall(b"POST /api/v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{")
        time.sleep(0.2)
        server.end(4)


def test_kill_and_go_on_with_everything(home):
    home.script("effect", EFFECT)
    published(home, "w", "steps:\n  - {id: a, script: effect, args: {ms: 30}}\n  - {id: z, wait: {for: PT0.3S}}\n  - {id: b, script: effect, args: {ms: 60}, idempotent: true}\n")
    server = Server(home)
    runs = [server.begin("w") for _ in range(12)]
    until(lambda: all(home.show(run)["ledger"] for run in runs), "it is known of every run that its first step is done")
    server.restart()
    records = [server.ended(run) for run in runs]
    assert {record["status"] for record in records} == {"succeeded"}
    firsts = [word for word in home.trace() if word.startswith("begin:a")]
    assert len(firsts) == len(set(firsts)) == 12, "what is done is not done again"


def test_runs_queued_while_no_server_is_there(echo):
    runs = [echo.run("run", "start", "w", "--input", f'{{"v": {n}}}', "--json", code=0).data()["id"] for n in range(3)]
    assert {echo.show(run)["status"] for run in runs} == {"queued"}
    server = Server(echo)
    assert [server.ended(run)["outputs"]["v"] for run in runs] == [0, 1, 2]


def test_command_line_and_server_at_once(echo):
    server = Server(echo)
    for n in range(3):
        run = server.begin("w", {"v": n})
        assert echo.record("w", "--input", f'{{"v": {n + 10}}}')["outputs"] == {"v": n + 10}
        assert server.ended(run)["outputs"] == {"v": n}


def a_run_of_a_foreground_command_is_not_the_servers(home):
    home.step(TOUCH + "import time\ndef main():\n    mark('x')\n    time.sleep(1)\n    return 1\n")
    server = Server(home)
    process = home.start("workflow", "test", "s")
    until(home.trace, "the attempt begins")
    run = home.runs()[0]["id"]
    assert server.post(f"/api/v1/runs/{run}/cancel", {}).status == 409
    home.run("run", "cancel", run, code=0)
    assert process.wait(60) == 1 and home.trace() == ["x"] and home.show(run)["status"] == "cancelled"


def the_server_takes_over_what_a_killed_command_left(home):
    home.script("effect", EFFECT)
    home.workflow("w", "steps: [{id: a, script: effect}, {id: b, script: effect, args: {ms: 60000}}, {id: c, script: effect}]\n")
    home.script("defers", "import viat\ndef main():\n    viat.defer('child', {})\n")
    home.workflow("parent", "steps: [{id: a, script: defers}]\n")
    published(home, "child", "steps: [{id: a, set: 1}]\noutputs: {v: $a.output}\n")
    server = Server(home)
    child = home.record("parent")["deferred"][0]["run"]
    process = home.start("workflow", "test", "w")
    until(lambda: len(home.trace()) == 3, "the second step is under way")
    process.kill()
    process.wait()
    run, = [row["id"] for row in home.runs() if row["workflow"] == "w"]
    record = server.ended(run)
    assert record["status"] == "failed" and record["error"]["code"] == "interrupted"
    assert len(home.trace()) == 3
    assert server.ended(child)["outputs"] == {"v": 1}, "and what a foreground run deferred"


def test_a_socket_that_nobody_listens_on(echo):
    server = Server(echo)
    server.kill()
    assert (echo.path / "server.sock").exists()
    assert echo.run("run", "start", "w", "--json", code=0).data()["status"] == "queued"
    assert echo.run("run", "start", "w", "--wait", code=0).out == '{"v":1}\n'
    server.start()
    assert echo.run("run", "start", "w", "--json", code=0).data()["status"] == "running"


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_something_else_in_the_sockets_place(echo, kind):
    place = echo.path / "server.sock"
    place.write_text("mine") if kind == "file" else place.mkdir()
    assert echo.run("run", "start", "w", "--json", code=0).data()["status"] == "queued"
    if kind == "file":
        Server(echo).end()
    else:
        done = echo.run("server", "--port", "0", code=4)
        assert "socket" in done.err and str(echo.path) in done.err


def test_a_home_so_deep_that_its_socket_has_no_name(tmp_path):
    home = Home(tmp_path, tmp_path / "/".join(["deep" * 12] * 4) / "home")
    assert len(str(home.path)) > 108
    home.script("echo", ECHO)
    published(home, "w", ECHO_FLOW)
    server = Server(home)
    assert home.run("run", "start", "w", "--json", code=0).data()["status"] == "running"
    server.end()
    server.process.stderr.close()


def test_a_home_named_from_another_folder(echo, tmp_path):
    """The same home by a relative name and by a link."""
    server = Server(echo)
    link = tmp_path / "link"
    link.symlink_to(echo.path)
    for name in ("home", "./home", "link", "../" + tmp_path.name + "/home"):
        done = echo.run("--home", name, "run", "start", "w", "--json", env={"VIAT_HOME": None}, cwd=tmp_path, code=0)
        assert done.data()["status"] == "running", name
        assert "already runs" in echo.run("--home", name, "server", "--port", "0", env={"VIAT_HOME": None}, cwd=tmp_path, code=4).err
    server.end()


def test_addresses_that_are_refused(echo):
    for host in ("0.0.0.0", "::", "192.0.2.1"):
        done = echo.run("server", "--port", "0", "--host", host, code=2)
        assert "loopback" in done.err
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = echo.run("server", "--port", port, code=4)
        assert str(port) in done.err and "--port" in done.err
    assert not (echo.path / "server.sock").exists()
    server = Server(echo)
    again = echo.run("server", "--port", server.port, code=4)
    assert "already runs" in again.err, "the server that is there is the better reason"
    assert echo.run("run", "start", "w", "--json", code=0).data()["status"] == "running", "the second left the first's socket alone"


def test_strangers_are_refused(echo):
    server = Server(echo)
    here = f"127.0.0.1:{server.port}"
    for host in ("evil.example", f"evil.example:{server.port}", "127.0.0.1.evil.example", "localhost.evil.example", "0.0.0.0", ""):
        server.ask("GET", "/readyz", headers={"host": host}).problem(403)
        server.ask("POST", "/api/v1/runs", {"workflow": "w"}, {"host": host}).problem(403)
    for origin in ("http://evil.example", "null", f"http://evil.example:{server.port}", "http://127.0.0.1:1", f"http://{here}.evil.example", "file://"):
        server.ask("POST", "/api/v1/runs", {"workflow": "w"}, {"origin": origin}).problem(403)
    assert echo.runs() == []
    for host in (here, f"localhost:{server.port}", "localhost", "[::1]:80", "127.0.0.9"):
        assert server.ask("GET", "/readyz", headers={"host": host}).status == 200, host
    assert server.ask("POST", "/api/v1/runs", {"workflow": "w"}, {"origin": f"http://{here}"}).status == 201


def test_answers_to_bad_requests(echo):
    server = Server(echo)
    runs = "/api/v1/runs"
    for path in ("/", "/api", "/api/v1/nothing", "/api/v1/runs/x/y", "/../etc/passwd", "/%00"):
        server.ask("GET", path).problem(404)
    for path in "/e/orders", "/api/v1/validate":
        server.ask("GET", path).problem(405)
    server.ask("POST", runs, raw=b"{nonsense").problem(400)
    server.ask("POST", runs, raw=b"\xff\xfe").problem(400)
    server.ask("POST", runs, raw=b"").problem(400)
    server.ask("POST", runs, raw=b'{"workflow": "w"}', headers={"content-type": "text/plain"}).problem(415)
    server.ask("POST", runs, raw=b'{"workflow": "w"}', headers={"content-type": None}).problem(415)
    assert "w" in server.post(runs, {"workflow": "ww"}).problem(404)
    assert "version 9" in server.post(runs, {"workflow": "w", "version": 9}).problem(404)
    assert "v" in server.post(runs, {"workflow": "w", "inputs": {"v": "x"}}).problem(422)
    server.post(runs, {"workflow": "w", "inputs": {"u": 1}}).problem(422)
    server.post(runs, {"workflow": "w", "inputs": []}).problem(422)
    assert "surprise" in server.post(runs, {"workflow": "w", "surprise": 1}).problem(422)
    server.post(runs, {"inputs": {}}).problem(422)
    for timeout in (-1, "soon", 1.5, True, [1]):
        assert "timeout" in server.post(runs, {"workflow": "w", "timeout": timeout}).problem(422), timeout
    for version in (-1, "1", 1.5):
        server.post(runs, {"workflow": "w", "version": version}).problem(422)
    server.ask("GET", f"{runs}/01a00000").problem(404)
    server.post(f"{runs}/01a00000/cancel", {}).problem(404)
    server.post(f"{runs}/01a00000/events", {"name": "x"}).problem(404)
    run = server.begin("w")
    server.ended(run)
    server.post(f"{runs}/{run}/events", {"nom": "x"}).problem(422)
    server.post(f"{runs}/{run}/cancel", {"who": "x"}).problem(422)
    assert "ended" in server.post(f"{runs}/{run}/cancel", {}).problem(409)
    assert len(echo.runs()) == 1


def test_wrong_methods_are_problems_too(echo):
    server = Server(echo)
    server.ask("DELETE", "/api/v1/runs").problem(405)


def test_a_body_that_is_too_large_is_a_problem(echo):
    server = Server(echo)
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as link:
        size = (64 << 20) + (1 << 20)
        link.sendall(b"POST /api/v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % size)
        try:
            for _ in range(size >> 20):
                link.sendall(b" " * (1 << 20))
        except OSError:
            pass
        assert b" 413 " in link.recv(4096).split(b"\r\n")[0]


def test_numbers_that_would_lose_digits_are_refused(home):
    """As the command line refuses them."""
    home.script("echo", ECHO)
    published(home, "w", "inputs: {v: {}}\nsteps: [{id: a, script: echo, args: {v: $inputs.v}}]\noutputs: {v: $a.output}\n")
    server = Server(home)
    for number in (b"12345678901234567890", b"123456789012345678901234567890", b"1e999"):
        home.run("run", "start", "w", "--input", b'{"v": ' + number + b"}", code=2)
        answer = server.ask("POST", "/api/v1/runs", raw=b'{"workflow": "w", "inputs": {"v": ' + number + b"}}")
        assert answer.status in (400, 422), (number, answer)
    assert home.runs() == []


def test_the_key_order_of_inputs_is_kept(home):
    home.script("echo", ECHO)
    published(home, "w", "inputs: {v: {type: object}}\nsteps: [{id: a, script: echo, args: {v: $inputs.v}}]\noutputs: {v: $a.output}\n")
    server = Server(home)
    value = {"z": 1, "a": {"y": 1, "b": 2}, "m": [9223372036854775807, -9223372036854775808, 0.1]}
    outputs = server.ended(server.begin("w", {"v": value}))["outputs"]["v"]
    assert list(outputs) == list(value) and list(outputs["a"]) == ["y", "b"] and outputs == value


def test_ended_by_sigint(echo):
    server = Server(echo)
    server.process.send_signal(signal.SIGINT)
    server.process.communicate(timeout=20)
    assert server.process.returncode == 0
    nobody_left(echo)


# a race, so not strict
def test_sigterm_as_soon_as_it_says_that_it_serves(echo):
    for _ in range(12):
        Server(echo, settle=False).end()


def test_six_servers_at_the_same_moment(echo):
    """One serves, the others say so; none harms it."""
    racers = [echo.start("server", "--port", "0") for _ in range(6)]
    until(lambda: sum(racer.poll() is None for racer in racers) == 1, "one is left")
    assert sorted(racer.returncode for racer in racers if racer.returncode is not None) == [4] * 5
    until(lambda: echo.run("run", "start", "w", "--json", code=0).data()["status"] == "running", "it serves")
    assert echo.run("run", "start", "w", "--wait", code=0).out == '{"v":1}\n'
    last, = [racer for racer in racers if racer.poll() is None]
    last.send_signal(signal.SIGTERM)
    assert last.wait(30) == 0


def test_the_same_port_again_and_again(echo):
    server = Server(echo)
    server.flags = ("--port", str(server.port))
    for _ in range(3):
        server.ended(server.begin("w"))
        server.restart()
