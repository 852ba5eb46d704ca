"""A `viat server` that a test starts, asks, ends and kills."""
import http.client
import json
import signal
import subprocess

from conftest import BINARY, PATIENCE, TOUCH, kill, until

TERMINAL = {"succeeded", "failed", "cancelled"}
# How cancels end what does not listen: the grace and a second, and what a busy machine adds.
CANCEL_BOUND = 6 + 4

ECHO = "def main(v=None):\n    return v\n"
# Says which entry it is; the key is the same for all attempts of one.
EFFECT = TOUCH + """
import time, viat
def main(ms=0, v=None):
    mark("begin:" + viat.context.path + ":" + viat.context.idempotency_key)
    time.sleep(ms / 1000)
    mark("done:" + viat.context.path + ":" + viat.context.idempotency_key)
    return v
"""
# Runs until it is told to end.
TOLD = TOUCH + """
import time, viat
def main(s=60.0):
    mark("begin")
    end = time.time() + s
    while time.time() < end:
        if viat.cancelled():
            mark("told")
            return "told"
        time.sleep(0.01)
    return "slept"
"""


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body
        self.kind = headers.get("content-type", "")

    def data(self):
        return json.loads(self.body)

    def problem(self, status):
        """An RFC 9457 document with this status; gives its detail and help."""
        assert self.status == status, self
        assert self.kind.split(";")[0] == "application/problem+json", self
        found = self.data()
        assert found["status"] == status and found["detail"] and found["title"], self
        return f"{found['detail']} {found.get('help') or ''}"

    def __repr__(self):
        return f"{self.status} {self.kind}\n{self.body[:2000]}"


class Server:
    def __init__(self, home, *flags, env=None, settle=True):
        self.home, self.flags, self.env, self.settle = home, flags, env, settle
        self.start()

    def start(self):
        port = () if "--port" in self.flags else ("--port", "0")
        self.process = subprocess.Popen([str(BINARY), "server", *port, *self.flags], env=self.home.environment(self.env), cwd=self.home.base,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.home.started.append(self.process)
        line = self.process.stderr.readline().decode()
        while line and "http://" not in line:
            line = self.process.stderr.readline().decode()
        assert "http://" in line, f"the server did not start: {self.process.communicate(timeout=PATIENCE)}"
        self.port = int(line.strip().rpartition(":")[2])
        if self.settle:
            assert self.ask("GET", "/readyz").status == 200
        return self

    def ask(self, method, path, body=None, headers=None, raw=None):
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        sent = {"content-type": "application/json"} if body is not None or raw is not None else {}
        sent.update(headers or {})
        if body is not None:
            raw = json.dumps(body).encode()
        try:
            link.request(method, path, raw, {name: value for name, value in sent.items() if value is not None})
            answer = link.getresponse()
            return Answer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())
        finally:
            link.close()

    def post(self, path, body, headers=None):
        return self.ask("POST", path, body, headers)

    def begin(self, workflow, inputs=None, **more):
        answer = self.post("/api/v1/runs", {"workflow": workflow, "inputs": inputs or {}, **more})
        assert answer.status == 201, answer
        return answer.data()["id"]

    def show(self, run):
        answer = self.ask("GET", f"/api/v1/runs/{run}")
        assert answer.status == 200, answer
        return answer.data()

    def ended(self, run, seconds=PATIENCE):
        return until(lambda: (record := self.show(run))["status"] in TERMINAL and record, f"run {run} ends: {self.show(run)}", seconds)

    def reaches(self, run, status, seconds=PATIENCE):
        return until(lambda: (record := self.show(run))["status"] == status and record, f"{status}: {self.show(run)}", seconds)

    def cancel(self, run):
        answer = self.post(f"/api/v1/runs/{run}/cancel", {})
        assert answer.status == 202, answer

    def send(self, run, name, data=None):
        answer = self.post(f"/api/v1/runs/{run}/events", {"name": name, "data": data})
        assert answer.status == 202, answer

    def kill(self):
        """As a power cut does."""
        kill(self.process)

    def restart(self):
        self.kill()
        return self.start()

    def end(self, seconds=30):
        """Tells it to end; gives what it said."""
        self.process.send_signal(signal.SIGTERM)
        _, err = self.process.communicate(timeout=seconds)
        assert self.process.returncode == 0, err
        return err.decode()


def published(home, name, text):
    home.workflow(name, text)
    home.run("workflow", "publish", name, code=0)


