"""What an `http` script talks to in tests: answers by path, can be made to wait, and keeps what it was asked."""
import http.server
import json
import select
import threading

from conftest import PATIENCE


class Remote:
    """A small server on a free port.

    `/echo` gives the body back; `/status/N` answers N; `/once` breaks the first connection that comes with a key and
    answers the next; `/size/N` gives N letters; `/hang` answers when told to, or never; `/broken` is no JSON.
    """

    def __init__(self):
        self.asked, self.keys, self.left, self.go = [], set(), threading.Event(), threading.Event()
        self.server = Quiet(("127.0.0.1", 0), type("Bound", (Handler,), {"remote": self}))
        self.base = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def end(self):
        self.go.set()
        self.server.shutdown()
        self.server.server_close()


class Quiet(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        """A client that breaks off is what many tests want."""


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # the head and the body in one packet, or the other side waits to acknowledge the first
    wbufsize = -1

    def do_GET(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        self.remote.asked.append(self.path)
        what, _, rest = self.path.strip("/").partition("/")
        getattr(self, f"answer_{what}")(rest, body)

    do_POST = do_GET

    def answer_echo(self, _, body):
        self.answer(200, body)

    def answer_status(self, status, _):
        self.answer(int(status), json.dumps({"by": [1]}).encode())

    def answer_once(self, _, body):
        key = self.headers["idempotency-key"]
        if key in self.remote.keys:
            return self.answer(200, b'"back"')
        self.remote.keys.add(key)
        self.close_connection = True

    def answer_size(self, size, _):
        self.answer(200, b"y" * int(size), "text/plain")

    def answer_broken(self, *_):
        self.answer(200, b'{"a": }')

    def answer_hang(self, *_):
        """Waits until it is told to go on, or the other side hangs up."""
        waited = 0
        while not self.remote.go.wait(0.02) and waited < PATIENCE:
            waited += 0.02
            if select.select([self.connection], [], [], 0)[0]:
                self.remote.left.set()
                self.close_connection = True
                return
        self.answer(200, b"null")

    def answer(self, status, body, kind="application/json"):
        try:
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        except OSError:
            self.close_connection = True

    def log_message(self, *_):
        pass
