"""Requests that nobody would think of, made from the API's own description: no answer that it does not name, and no 500."""
import os
import subprocess
import sys

import pytest

from conftest import PATIENCE, until
from served import ECHO, Server, published

schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed: cargo xtask setup")
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,response_schema_conformance"
# These wait for what people or builders do, or never end.
SLOW = "/(test|build)$|/events$"


@pytest.mark.parametrize("tokens", [False, True])
def test_the_description_holds(home, tokens):
    home.script("echo", ECHO)
    published(home, "w", "steps: [{id: q, review: {title: Sure?}}, {id: a, script: echo}]\n")
    home.run("endpoint", "create", "/w", "--workflow", "w", code=0)
    token = home.run("token", "create", "--name", "all", "--scope", "admin", code=0).out.strip()
    server = Server(home, *(["--require-token", "--profile", "trusted", "--rate-limit", "0"] if tokens else []))
    headers = {"authorization": f"Bearer {token}"} if tokens else {}
    server.post("/api/v1/runs", {"workflow": "w"}, headers)
    until(lambda: home.run("review", "list", "--json", code=0).data(), "it asks")
    more = ["-H", f"Authorization: Bearer {token}"] if tokens else []
    done = subprocess.run(
        [sys.executable, "-c", "from schemathesis.cli import schemathesis; schemathesis()", "run", f"http://127.0.0.1:{server.port}/api/openapi.json",
         "--checks", CHECKS, "--exclude-path-regex", SLOW, "--max-examples", os.environ.get("VIAT_FUZZ_EXAMPLES", "15"), "--seed", "7", "--phases",
         "examples,coverage,fuzzing", "--suppress-health-check", "filter_too_much,too_slow", *more],
        capture_output=True, text=True, timeout=PATIENCE * 10, cwd=home.base, env={**os.environ, "NO_COLOR": "1"})
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert server.ask("GET", "/readyz").status == 200
