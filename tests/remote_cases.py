"""The black-box cases with the command line as the remote client of a server that asks for a token.

    VIAT_CASES_REMOTE=1 PYTHONPATH=tests VIAT_BIN=target/release/viat python3 -m pytest -q -p remote_cases ../shared/cases

Each project gets a server on its home, with the case's environment; its commands go through VIAT_URL and VIAT_TOKEN. Commands on which
a case sets a variable stay local, for a variable here means nothing there, and so do those that are typed while the case's server is dead.
"""
import os
import socket
import sys

import pytest

ON = os.environ.get("VIAT_CASES_REMOTE") == "1"
counts = {"remote": 0, "local": 0}


def pytest_collection_finish(session):
    if ON and session.items:
        _patch(sys.modules["conftest"])


def pytest_terminal_summary(terminalreporter):
    if ON:
        terminalreporter.write_line(f"remote cases: {counts['remote']} commands through a server, {counts['local']} local")


def _free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def _patch(harness):
    local, begin, ask = harness.Project.viat, harness.Server.start, harness.Server.request

    def alive(project):
        server = getattr(project, "remote", None)
        return server is not None and server.process.poll() is None

    def start(server):
        project = server.p
        if not hasattr(project, "token"):
            project.token = local(project, "token", "create", "--name", "cases", "--scope", "admin", ok=True).out.strip()
        before = getattr(project, "remote", None)
        if before is not None and before is not server and before.process.poll() is None:
            before.process.terminate()
            before.process.wait()
        if "--require-token" not in server.flags:
            server.flags = ("--require-token", "--profile", "trusted", "--rate-limit", "0", *server.flags)
        begin(server)
        project.remote = server

    def request(server, method, path, body=None, headers=None):
        return ask(server, method, path, body, {"Authorization": f"Bearer {server.p.token}", **(headers or {})})

    def viat(project, *args, env=None, **more):
        if env or (hasattr(project, "remote") and not alive(project)):
            counts["local"] += 1
            return local(project, *args, env=env, **more)
        if not hasattr(project, "remote"):
            harness.Server(project, _free_port())
        counts["remote"] += 1
        return local(project, *args, env={"VIAT_URL": project.remote.url, "VIAT_TOKEN": project.token}, **more)

    harness.Server.start, harness.Server.request, harness.Project.viat = start, request, viat


@pytest.fixture(autouse=True)
def _no_server_is_left(request):
    yield
    project = request.node.funcargs.get("p") if ON else None
    server = getattr(project, "remote", None)
    if server is not None and server.process.poll() is None:
        server.process.kill()
        server.process.wait()
