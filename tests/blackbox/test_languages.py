"""Scripts in every language through the whole binary: created, refused with a place, run, logged, retried."""
import http.server
import json
import pathlib
import shutil
import subprocess
import sys
import threading

import pytest


def create(home, name, language, text, ending, code=0):
    file = home.files / f"{name}.{ending}"
    file.write_text(text)
    return home.run("script", "create", "--name", name, "--language", language, "--file", file, code=code)


def workflow(home, text):
    file = home.files / "w.yaml"
    file.write_text(text)
    home.run("workflow", "create", "w", "--file", file, code=0)
    return home.run("workflow", "test", "w", "--json")


def test_one_workflow_in_four_languages(home):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    create(home, "p", "python", "def main(n):\n    return n + 1\n", "py")
    create(home, "j", "javascript", "export default ({ n }) => n + 1;\n", "js")
    create(home, "s", "shell", 'echo $((VIAT_ARG_N + 1))\n', "sh")
    create(home, "h", "http", f"method: POST\nurl: http://127.0.0.1:{server.server_port}/add\nbody: {{n: $args.n}}\n", "http.yaml")
    record = workflow(home, "steps:\n" + "".join(
        f"  - {{id: {name}, script: {name}, args: {{n: {given}}}}}\n"
        for name, given in [("p", "1"), ("j", "$p.output"), ("s", "$j.output"), ("h", "$s.output")]) + "outputs: {n: $h.output.n}\n").data()
    server.shutdown()
    assert record["outputs"] == {"n": 5}, record
    assert "/add: 200" in home.run("run", "logs", record["id"], code=0).out


def strips():
    """Whether types can be taken away here: by Node itself, or by a module that npm can get."""
    own = subprocess.run(["node", "-p", "!!require('module').stripTypeScriptTypes"], capture_output=True, text=True)
    reach = ["npm", "view", "amaro@1.2.1", "version"]
    return own.stdout.strip() == "true" or (shutil.which("npm") and subprocess.run(reach, capture_output=True, timeout=60).returncode == 0)


def test_types_are_taken_away_and_lines_stay(home):
    if not strips():
        pytest.skip("this Node takes no types away, and npm reaches no registry")
    create(home, "t", "javascript", "interface In { n: number }\n\nexport default function main({ n }: In): number {\n  if (n > 1) throw new Error('big' as string);\n  return n as number;\n}\n", "ts")
    assert home.run("script", "test", "t", "--args", '{"n": 1}', code=0).out == "1\n"
    assert "t.mjs:4" in home.run("script", "test", "t", "--args", '{"n": 2}', code=1).err
    done = create(home, "e", "javascript", "enum A { B }\nexport default () => A.B;\n", "ts", code=2)
    assert "e.ts:1:" in done.err and "enum" in done.err, done


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        given = json.loads(self.rfile.read(int(self.headers["content-length"])))
        assert len(self.headers["idempotency-key"]) == 32
        body = json.dumps({"n": given["n"] + 1}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.mark.parametrize("language, ending, text, said", [
    ("javascript", "js", "export default function main({a}) {\n  return a +;\n}\n", ":2:13: Unexpected token"),
    ("javascript", "js", "const x = 1;\n", "exports no function `main`"),
    ("shell", "sh", "if true; then\n  echo 1\n", "yntax error"),
    ("http", "http.yaml", "url: ftp://x\nbdy: 1\n", "url begins with https://"),
    ("http", "http.yaml", "# /// script\n# dependencies = ['x']\n# ///\nurl: http://x\n", ":2:1: a script in http has no dependencies"),
    ("python", "py", "# /// script\n# [tool.viat]\n# pol = {}\n# ///\ndef main(): pass\n", ":3:1: [tool.viat] has no pol"),
])
def test_a_refused_script_says_where_and_why(home, language, ending, text, said):
    done = create(home, "x", language, text, ending, code=2)
    assert said in done.err, done
    assert home.run("script", "list", "--json", code=0).data() == []


def test_what_each_language_calls_transient_is_tried_again(home):
    create(home, "j", "javascript", "export default (a, viat) => { if (viat.context.attempt < 3) throw new TransportError('x'); return 'j'; };\n", "js")
    create(home, "s", "shell", '[ "$VIAT_ATTEMPT" -lt 3 ] && exit 75\necho s\n', "sh")
    retry = "retry: {times: 3, initial_ms: 10, factor: 1.0, max_ms: 10}"
    record = workflow(home, f"steps:\n  - {{id: j, script: j, {retry}}}\n  - {{id: s, script: s, {retry}}}\noutputs: {{all: [$j.output, $s.output]}}\n").data()
    assert record["outputs"] == {"all": ["j", "s"]}
    assert [attempt["class"] for attempt in record["attempts"]] == ["transport", "transport", None] * 2


def test_an_interpreter_that_is_missing_is_said_at_create_time_and_by_doctor(home):
    folder = home.base / "bin"
    folder.mkdir()
    for tool in ("python3", "sh"):
        # not a version manager's wrapper, which needs more than is there
        (folder / tool).symlink_to(pathlib.Path(sys.executable if tool == "python3" else shutil.which(tool)).resolve())
    file = home.files / "j.js"
    file.write_text("export default () => 1;\n")
    done = home.run("script", "create", "--name", "j", "--language", "javascript", "--file", file, env={"PATH": folder}, code=2)
    assert "there is no node on PATH" in done.err and "apt-get install nodejs" in done.err, done
    checks = {check["check"]: check for check in home.run("doctor", "--json", env={"PATH": folder}, code=0).data()}
    assert checks["node"]["verdict"] == "warn" and "VIAT_NODE" in checks["node"]["fix"], checks


def test_apply_takes_every_language_and_no_name_twice(home):
    scripts = home.files / "scripts"
    scripts.mkdir()
    (scripts / "a.js").write_text("export default () => 1;\n")
    (scripts / "b.sh").write_text("echo 1\n")
    (scripts / "c.http.yaml").write_text("url: http://127.0.0.1/\n")
    home.run("apply", home.files, code=0)
    listed = {row["name"] for row in home.run("script", "list", "--json", code=0).data()}
    assert listed == {"a", "b", "c"}
    (scripts / "a.py").write_text("def main(): pass\n")
    assert "name the same script" in home.run("apply", home.files, code=2).err
