"""A server's end: whatever is under way, SIGTERM ends it in bounded time."""
import signal
import socket

import pytest

from conftest import TOUCH, nobody_left, until


def test_sigterm_between_the_steps_of_a_run(home):
    if home.run("server", "--help").code:
        pytest.skip("this binary has no server")
    home.script("s", TOUCH + "import time\ndef main():\n    mark('x')\n    time.sleep(0.5)\n")
    home.workflow("w", "steps: [{id: a, script: s}, {id: b, script: s}, {id: c, script: s}]\n")
    home.run("workflow", "publish", "w", code=0)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = home.start("server", "--port", port)
    until(lambda: (home.path / "server.sock").exists(), "the server is up")
    run = home.run("run", "start", "w", "--json", code=0).data()["id"]
    until(home.trace, "the first attempt begins")
    server.send_signal(signal.SIGTERM)
    server.communicate(timeout=20)
    nobody_left(home)
    home.run("run", "resume", run, code=0)
    assert home.trace().count("x") == 3
