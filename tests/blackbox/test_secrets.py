"""Secrets: sealed at rest, given only to scripts that declare them, masked in everything that is kept or shown."""
import base64
import http.server
import json
import os
import sqlite3
import stat
import threading

import pytest

from served import Server

VALUE = "s3cr3t-Tr0ub4dor&3 \"x\""
BLOCK = "# /// script\n# [tool.viat]\n# secrets = [\"token\"]\n# ///\n"
USES = BLOCK + "import viat, json, sys, base64, os, time\ndef main(**args):\n    token = viat.resource('token', kind='secret')\n"


def secret(home, value=VALUE, name="token", code=0, **options):
    return home.run("secret", "create", "--name", name, stdin=value.encode(), code=code, **options)


def uses(home, body, more=""):
    home.step(USES + "".join(f"    {line}\n" for line in body.split("\n")), more)


def found_in(folder, *needles):
    """The files that hold one of these; the home is looked through whole, deleted pages of the database too."""
    found = []
    for root, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(root, name)
            data = open(path, "rb").read() if os.path.isfile(path) else b""
            found += [(name, needle) for needle in needles if needle in data]
    return found


def forms(value=VALUE):
    raw = value.encode()
    return [raw, json.dumps(value)[1:-1].encode(), base64.b64encode(raw)[:-4], raw.hex().encode(), raw[:14]]


def test_a_secret_is_given_and_leaves_no_trace(home):
    done = secret(home, VALUE + "\n")
    assert VALUE not in done.out + done.err
    uses(home, "print(token, json.dumps([token]), base64.b64encode(token.encode()).decode())\nos.write(1, token[:6].encode()); time.sleep(0.05); os.write(1, token[6:].encode())\nviat.progress(0.5, 'with ' + token)\nreturn {'length': len(token), 'token': token, token: [f'Bearer {token}']}")
    record = home.record("s")
    assert record["outputs"]["v"] == {"length": len(VALUE), "token": "***", "***": ["Bearer ***"]}, record
    log = home.log(record["id"])
    assert log.count("***") == 4 and "Tr0ub4dor" not in log, log
    shown = home.run("run", "show", record["id"], "--json", code=0).out + home.run("run", "transitions", record["id"], code=0).out
    assert "Tr0ub4dor" not in shown
    assert found_in(home.path, *forms()) == []


@pytest.mark.parametrize("line, cls", [
    ("raise viat.ViatError(status=400, code=token, message='no ' + token, extra={'t': [token]})", "user"),
    ("raise ValueError(token)", "exception"), ("raise viat.TransportError('lost ' + token)", "transport"),
    ("raise ValueError('x' * 9990 + token + 'y' * 100)", "exception"), ("return {1: token}", "invalid_output"),
    ("viat.resource(token)", "resource"), ("os.write(int(os.readlink('/proc/self/fd/1') and 2), token.encode()); os._exit(3)", "script_broken")])
def test_errors_are_masked(home, line, cls):
    secret(home)
    uses(home, line)
    record = home.record("s")
    assert record["error"]["class"] == cls, record
    done = home.run("workflow", "test", "s", code=1)
    assert "s3cr3t" not in json.dumps(record) + done.err and found_in(home.path, *forms()) == []


def test_what_is_deferred_is_masked(home):
    secret(home)
    home.step("def main(t):\n    return t\n", name="later")
    home.workflow("later", "inputs: {t: {}}\nsteps:\n  - {id: later, script: later, args: {t: $inputs.t}}\noutputs: {v: $later.output}\n")
    home.run("workflow", "publish", "later", code=0)
    uses(home, "viat.defer('later', {'t': 'x' + token})")
    record = home.record("s")
    assert record["deferred"][0]["args"] == {"t": "x***"}, record
    assert found_in(home.path, *forms()) == []


def test_a_log_that_is_cut_holds_no_part_of_it(home):
    secret(home)
    uses(home, "for n in range(150000):\n    print(token + '.' * (n % 7), end='')")
    record = home.record("s")
    log = home.log(record["id"])
    assert record["status"] == "succeeded" and set(log.replace("[viat:", "").split("bytes cut here]")[-1]) <= set("*.\n"), log[-200:]
    assert found_in(home.path, *forms()) == []


def test_only_who_declares_it_is_given_it(home):
    secret(home)
    home.step("import viat\ndef main():\n    return viat.resource('token')\n")
    error = home.record("s")["error"]
    assert error["class"] == "resource" and 'secrets = ["token"]' in error["message"], error
    home.step(BLOCK + "import os\ndef main():\n    return sorted(name for name in os.environ if 'SECRET' in name)\n")
    assert home.record("s", env={"VIAT_SCRIPT_ENV": "VIAT_SECRET_KEY", "VIAT_SECRET_KEY": "ab" * 32, "VIAT_SECRET_KEY_FILE": None}, )["outputs"] == {"v": []}


def test_a_declared_secret_that_is_not_there_fails_before_anything_runs(home):
    path = home.file("s.py", BLOCK + "def main():\n    return 1\n")
    done = home.run("script", "create", "--name", "s", "--language", "python", "--file", path, code=0)
    assert "secret token does not exist yet" in done.err
    home.workflow("s", "steps:\n  - {id: s, script: s}\noutputs: {v: $s.output}\n")
    error = home.record("s")["error"]
    assert error["class"] == "resource" and "viat secret create --name token" in error["message"]
    assert home.run("script", "test", "s", "--json").data()["error"]["class"] == "resource"
    secret(home)
    assert home.record("s")["outputs"] == {"v": 1}
    home.run("script", "delete", "s", code=3)
    home.run("workflow", "delete", "s", code=0)
    done = home.run("secret", "delete", "token", code=3)
    assert "declared by script `s`" in done.err
    home.run("script", "delete", "s", code=0)
    home.run("secret", "delete", "token", code=0)
    create = ["resource", "create", "--name", "token", "--kind", "text", "--file", "-"]
    home.run(*create, stdin=b"x", code=0)
    assert "is a text, not a secret" in home.run("script", "create", "--name", "s", "--language", "python", "--file", path, code=0).err
    assert "token is a text" in home.run("script", "test", "s", "--json").data()["error"]["message"]


def test_a_new_value_holds_at_once_and_the_old_one_stays_hidden(home):
    """In one run, in one warm worker that kept the old value in a global."""
    secret(home, "first-value-1")
    home.script("s", BLOCK + "import viat, hashlib\nkept = []\ndef main():\n    kept.append(viat.resource('token'))\n    print(*kept)\n    return [len(value) for value in kept] + [kept[0]]\n")
    home.workflow("w", "steps:\n  - {id: a, script: s}\n  - {id: go, wait: {event: go}}\n  - {id: b, script: s}\noutputs: {a: $a.output, b: $b.output}\n")
    home.run("workflow", "publish", "w", code=0)
    server = Server(home)
    run = server.begin("w")
    server.reaches(run, "waiting")
    secret(home, "second-value-two")
    server.send(run, "go")
    assert server.ended(run)["outputs"] == {"a": [13, "***"], "b": [13, 16, "***"]}
    assert home.log(run) == "***\n*** ***\n" and found_in(home.path, b"first-value", b"second-value") == []


def test_shell_scripts_find_it_in_the_environment(home):
    secret(home, name="api.token-2")
    home.file("s.sh", '# /// script\n# [tool.viat]\n# secrets = ["api.token-2"]\n# ///\necho "log $VIAT_SECRET_API_TOKEN_2" >&2\nprintf %s "$VIAT_SECRET_API_TOKEN_2" | wc -c >&2\necho "{\\"t\\": \\"$(printf %s "$VIAT_SECRET_API_TOKEN_2" | sed \'s/"/\\\\\\\\"/g\')\\"}" > "$VIAT_OUTPUT"\n')
    home.run("script", "create", "--name", "s", "--language", "shell", "--file", home.files / "s.sh", code=0)
    home.workflow("s", "steps:\n  - {id: s, script: s}\noutputs: {v: $s.output}\n")
    record = home.record("s")
    assert record["outputs"] == {"v": {"t": "***"}}, record
    assert home.log(record["id"]) == f"log ***\n{len(VALUE)}\n"
    assert found_in(home.path, *forms()) == []


def test_javascript_asks_as_python_does(home):
    secret(home)
    path = home.file("j.js", BLOCK.replace("# ", "// ") + "export default async (args, viat) => { const t = await viat.resource('token', { kind: 'secret' }); console.log(encodeURIComponent(t)); throw new ViatError({ code: 'no', message: t }); };\n")
    home.run("script", "create", "--name", "j", "--language", "javascript", "--file", path, code=0)
    done = home.run("script", "test", "j", "--json").data()
    assert (done["log"], done["error"]["message"]) == ("***\n", "***"), done


class Echo(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.heard.append((self.path, self.headers["Authorization"]))
        body = json.dumps({"path": self.path, "sent": self.headers["Authorization"]}).encode()
        self.send_response(418 if "fail" in self.path else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def test_http_templates_send_it(home):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    server.heard = []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    secret(home)
    for name, path in [("ok", "/ok"), ("bad", "/fail/${secrets.token}")]:
        file = home.file(f"{name}.http.yaml", f"url: http://127.0.0.1:{server.server_port}{path}\nheaders: {{Authorization: 'Bearer ${{secrets.token}}'}}\n")
        home.run("script", "create", "--name", name, "--language", "http", "--file", file, code=0)
        home.workflow(name, f"steps:\n  - {{id: s, script: {name}}}\noutputs: {{v: $s.output}}\n")
    assert home.record("ok")["outputs"] == {"v": {"path": "/ok", "sent": "Bearer ***"}}
    failed = home.record("bad")
    server.shutdown()
    assert {sent for _, sent in server.heard} == {f"Bearer {VALUE}"}
    assert failed["error"]["code"] == "http_418" and "Tr0ub4dor" not in json.dumps(failed)
    assert home.run("secret", "show", "token", "--json", code=0).data()["used_by"] == ["bad", "ok"]
    assert found_in(home.path, *forms()) == []
    file = home.file("x.http.yaml", "url: http://localhost\nheaders: {A: '${secrets.a.b}'}\n")
    assert "a secret is" in home.run("script", "create", "--name", "x", "--language", "http", "--file", file, code=2).err


@pytest.mark.parametrize("value, said", [("", "at least 4 bytes"), ("abc\n", "at least 4 bytes"), ("ab\0cd", "no NUL"), ("x" * 40000, "the most that is taken")])
def test_bad_values_are_refused(home, value, said):
    assert said in secret(home, value, code=2).err
    assert home.run("secret", "list", "--json", code=0).data() == []


def test_bad_names_and_kinds(home):
    assert "cannot be called key" in secret(home, name="key", code=2).err
    secret(home)
    assert "is a secret, not a text" in home.run("resource", "create", "--name", "token", "--kind", "text", "--file", "-", stdin=b"x", code=3).err
    home.run("secret", "create", "--name", "token", VALUE, code=2)
    home.run("resource", "create", "--name", "other", "--kind", "secret", "--file", home.file("v", VALUE), code=0)
    rows = home.run("secret", "list", "--json", code=0).data()
    assert [(row["name"], row["kind"]) for row in rows] == [("other", "secret"), ("token", "secret")]
    for command in (["secret", "show", "token"], ["resource", "show", "token"], ["secret", "show", "token", "--json"], ["secret", "versions", "token"]):
        done = home.run(*command, code=0)
        assert "s3cr3t" not in done.out and str(len(VALUE)) not in done.out.replace(":", " ").split(), done
    for block, said in [('secrets = ["a b"]', "cannot name a secret"), ("secrets = 1", "is a list of texts")]:
        path = home.file("s.py", f"# /// script\n# [tool.viat]\n# {block}\n# ///\ndef main(): pass\n")
        assert said in home.run("script", "create", "--name", "s", "--language", "python", "--file", path, code=2).err


# --- keys

def test_the_key_is_outside_the_database_and_for_its_owner_alone(home):
    secret(home)
    key = home.path / "secrets.key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600 and len(key.read_text().strip()) == 64
    raw = bytes.fromhex(key.read_text().strip())
    assert [name for name, _ in found_in(home.path, raw, key.read_bytes().strip())] == ["secrets.key"]
    assert not [name for name in os.listdir(home.path) if name.startswith("secrets.key.")]


def test_without_its_key_nothing_is_lost_and_it_is_said(home):
    secret(home)
    uses(home, "return len(token)")
    key = home.path / "secrets.key"
    ident = home.run("secret", "show", "token", "--json", code=0).data()["key"]
    text = key.read_text()
    key.unlink()
    error = home.record("s")["error"]
    assert error["class"] == "resource" and ident in error["message"] and "there is no key at all" in error["message"], error
    done = secret(home, "another value", name="other", code=4)
    assert ident in done.err and not key.exists(), "no new key in the place of one that is wanted"
    wrong = "11" * 32
    error = home.record("s", env={"VIAT_SECRET_KEY": wrong})["error"]
    assert ident in error["message"] and wrong not in json.dumps(error)
    for bad in ("", "zz"):
        key.write_text(bad)
        assert "64 hexadecimal digits" in home.record("s")["error"]["message"]
    key.unlink()
    assert home.record("s", env={"VIAT_SECRET_KEY": text})["outputs"] == {"v": len(VALUE)}
    file = home.file("elsewhere.key", "# a comment\n" + text)
    assert home.record("s", env={"VIAT_SECRET_KEY_FILE": file})["outputs"] == {"v": len(VALUE)}
    assert "keep one" in home.record("s", env={"VIAT_SECRET_KEY_FILE": file, "VIAT_SECRET_KEY": text})["error"]["message"]
    assert "cannot be read" in home.record("s", env={"VIAT_SECRET_KEY_FILE": home.files / "none"})["error"]["message"]
    assert [row["verdict"] for row in home.run("doctor", "--json").data() if row["check"] == "secrets"] == ["FAIL"]
    key.write_text(text)
    assert home.record("s")["outputs"] == {"v": len(VALUE)}
    assert [row["verdict"] for row in home.run("doctor", "--json").data() if row["check"] == "secrets"] == ["warn"], "others may read it now"
    key.chmod(0o600)
    assert [row["verdict"] for row in home.run("doctor", "--json").data() if row["check"] == "secrets"] == ["ok"]


def sealed(home):
    with sqlite3.connect(home.path / "viat.db") as database:
        return database.execute("SELECT name, version, body FROM assets WHERE kind = 'resource' AND version IS NOT NULL ORDER BY revision").fetchall()


def test_rekey_seals_anew_and_erases_the_old(home):
    secret(home)
    secret(home, "other value", name="other")
    uses(home, "return len(token)")
    before = home.run("secret", "show", "token", "--json", code=0).data()["key"]
    old = (home.path / "secrets.key").read_text()
    home.run("secret", "rekey", code=0)
    after = home.run("secret", "show", "token", "--json", code=0).data()
    assert after["key"] != before and after["version"] == 2 and home.record("s")["outputs"] == {"v": len(VALUE)}
    assert [bool(body) for _, version, body in sealed(home)] == [version == 2 for _, version, _ in sealed(home)]
    assert old not in (home.path / "secrets.key").read_text()
    # into the operator's hands, and the file is not needed any more
    given = {"VIAT_SECRET_KEY": "5a" * 32}
    assert "can be removed" in home.run("secret", "rekey", env=given, code=0).err
    (home.path / "secrets.key").unlink()
    assert home.record("s", env=given)["outputs"] == {"v": len(VALUE)}
    assert home.run("secret", "rekey", "--json", env=given, code=0).data()["secrets"] == 0
    home.run("secret", "rekey", code=4)
    assert home.record("s", env=given)["outputs"] == {"v": len(VALUE)}


def test_a_deleted_secret_is_erased(home):
    secret(home)
    secret(home)
    home.run("secret", "delete", "token", code=0)
    assert [body for _, _, body in sealed(home)] == [b"", b""]
    home.run("secret", "show", "token", code=3)
    assert home.run("secret", "list", "--json", code=0).data() == []
    (home.path / "secrets.key").unlink()
    assert secret(home, "a new one").out == "secret token version 3\n"


def test_a_seal_is_bound_to_its_name_and_version(home):
    secret(home)
    secret(home, "the other value", name="other")
    uses(home, "return len(token)")
    with sqlite3.connect(home.path / "viat.db") as database:
        database.execute("UPDATE assets SET body = (SELECT body FROM assets WHERE name = 'other') WHERE name = 'token'")
    database.close()
    error = home.record("s")["error"]
    assert error["class"] == "resource" and "has been changed since it was sealed" in error["message"], error


def test_many_savers_at_once(home):
    jobs = [home.start("secret", "create", "--name", f"t{n % 3}", "--file", home.file(f"v{n}", f"value-{n}-value")) for n in range(12)]
    for job in jobs:
        out, err = job.communicate(timeout=60)
        assert job.returncode == 0, err
    rows = home.run("secret", "list", "--json", code=0).data()
    assert sorted((row["name"], row["version"]) for row in rows) == [("t0", 4), ("t1", 4), ("t2", 4)]
    home.script("s", '# /// script\n# [tool.viat]\n# secrets = ["t0", "t1", "t2"]\n# ///\nimport viat\ndef main():\n    return [len(viat.resource(f"t{n}")) for n in range(3)]\n')
    lengths = home.run("script", "test", "s", code=0).data()
    assert lengths[0] == 13 and set(lengths) <= {13, 14}, "each of them can be opened"
