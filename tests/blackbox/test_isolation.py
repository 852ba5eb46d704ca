"""What a hostile script can do to the machine under the strict profile: nothing, and it is told so."""
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile

import pytest

from conftest import BINARY, Home, kill, nobody_left, processes_of, until
from served import Server

# What a cell needs, as another program finds it: where that cannot be had, there is nothing to test.
NAMESPACES = ["unshare", "--user", "--map-root-user", "--mount", "--pid", "--net", "--ipc", "--uts", "--fork", "true"]
pytestmark = pytest.mark.skipif(shutil.which("unshare") is None or subprocess.run(NAMESPACES, capture_output=True).returncode != 0,
                                reason="no namespaces can be made on this machine: " + " ".join(NAMESPACES))
NOBODY = 65534
# Runs what it is given, and says how that went.
RUN = '''
import ctypes, errno, os, resource, signal, socket, subprocess, sys, time
libc = ctypes.CDLL(None, use_errno=True)
def call(function, *args):
    if function(*args) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
def main(code):
    found = dict(globals())
    try:
        exec(code, found)
    except BaseException as error:
        return {"refused": f"{type(error).__name__}: {error}"}
    return {"done": found.get("result")}
'''
LIMITED = '''# /// script
# [tool.viat]
# limits = {memory = "300 MiB", processes = 24, disk = "20 MiB", cpu = "20s"}
# ///
''' + RUN
NAMES = {"free": RUN, "limited": LIMITED, "secretive": '''# /// script
# [tool.viat]
# env = ["PLANTED"]
# ///
def main(code): return "ran"
'''}


class Cage:
    """A strict server, and attempts in it."""

    def __init__(self, base, nobody):
        self.home = Home(base)
        for name, text in NAMES.items():
            self.home.script(name, text)
            self.home.workflow(name, f"inputs: {{code: {{}}}}\nsteps:\n  - id: s\n    script: {name}\n"
                               f"    args: {{code: $inputs.code}}\noutputs: {{v: $s.output}}\n")
            self.home.run("workflow", "publish", name, code=0)
        for language, end, text in [("javascript", "mjs", JAVASCRIPT), ("shell", "sh", SHELL), ("http", "http.yaml", HTTP)]:
            if language == "javascript" and shutil.which("node") is None:
                continue
            path = self.home.file(f"{language}.{end}", text)
            self.home.run("script", "create", "--name", language, "--language", language, "--file", path, code=0)
            self.home.workflow(language, f"inputs: {{a: {{}}}}\nsteps:\n  - id: s\n    script: {language}\n    args: {{a: $inputs.a}}\noutputs: {{v: $s.output}}\n")
            self.home.run("workflow", "publish", language, code=0)
        flags = ["--profile", "strict"]
        env = {"PLANTED": "a word that nobody else knows"}
        if nobody:
            subprocess.run(["chown", "-R", str(NOBODY), str(base)], check=True)
            self.home.env["PATH"] = "/usr/local/bin:/usr/bin:/bin"
            self.server = ServerAs(self.home, *flags, env=env)
        else:
            self.server = Server(self.home, *flags, env=env)
        self.pid = self.server.process.pid

    def record(self, name, inputs):
        return self.server.ended(self.server.begin(name, inputs))

    def value(self, name, inputs):
        record = self.record(name, inputs)
        assert record["status"] == "succeeded", record
        return record["outputs"]["v"]

    def refused(self, code, name="free"):
        """The sentence with which the machine refuses what the code tries."""
        value = self.value(name, {"code": code})
        assert "refused" in value, value
        return value["refused"]

    def done(self, code, name="free"):
        value = self.value(name, {"code": code})
        assert "done" in value, value
        return value["done"]

    def unharmed(self):
        assert self.server.process.poll() is None
        assert self.server.ask("GET", "/readyz").status == 200
        assert self.done("result = 1") == 1


class ServerAs(Server):
    """A server of a user without rights."""

    def start(self):
        user = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--inh-caps=-all"]
        self.process = subprocess.Popen([*user, str(BINARY), "server", "--port", "0", *self.flags], env=self.home.environment(self.env),
                                        cwd=self.home.base, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.home.started.append(self.process)
        line = self.process.stderr.readline().decode()
        while line and "http://" not in line:
            line = self.process.stderr.readline().decode()
        assert "http://" in line, self.process.communicate(timeout=60)
        self.port = int(line.strip().rpartition(":")[2])
        return self


JAVASCRIPT = '''
import fs from "node:fs";
import net from "node:net";
export default async function main({a}) {
  const said = [];
  for (const path of [a.home + "/viat.db", `/proc/${a.pid}/environ`]) { try { fs.readFileSync(path); said.push("read"); } catch (error) { said.push(error.code); } }
  for (const path of ["/tmp/x", a.home + "/x", "/usr/x"]) { try { fs.writeFileSync(path, "x"); said.push("written"); } catch (error) { said.push(error.code); } }
  try { process.kill(a.pid, 9); said.push("killed"); } catch (error) { said.push(error.code); }
  said.push(await new Promise((done) => net.connect(a.port, "127.0.0.1").on("error", (error) => done(error.code)).on("connect", () => done("connected"))));
  fs.writeFileSync("own", "x");
  return said;
}
'''
SHELL = '''
said=""
for path in "$(pwd)/../../../viat.db" /etc/shadow /root/.profile; do if cat "$path" >/dev/null 2>&1; then said="$said read"; else said="$said no"; fi; done
for path in /tmp/x /usr/x /etc/x /proc/sys/kernel/hostname; do if (echo x > "$path") 2>/dev/null; then said="$said written"; else said="$said no"; fi; done
echo to the log > /dev/stderr || said="$said no-log"
echo x > own && said="$said own"
grep -E "^(NoNewPrivs|Seccomp|CapEff|CapPrm):" /proc/self/status >&2
echo "said$said"
'''
HTTP = '''# /// script
# [tool.viat]
# network = ["api.example.com"]
# ///
method: GET
url: http://127.0.0.1:${args.a}/
'''


@pytest.fixture(scope="module", params=["own user", "nobody"])
def cage(request):
    nobody = request.param == "nobody"
    if nobody and (os.geteuid() != 0 or shutil.which("setpriv") is None):
        pytest.skip("only root can be somebody else")
    base = pathlib.Path(tempfile.mkdtemp(prefix="viat-isolation-"))
    base.chmod(0o755)
    cage = Cage(base, nobody)
    yield cage
    kill(cage.server.process)
    shutil.rmtree(base)


@pytest.fixture(autouse=True)
def the_engine_is_unharmed(request):
    yield
    if "cage" in request.fixturenames:
        request.getfixturevalue("cage").unharmed()


def test_the_home_and_its_database_are_not_there(cage):
    home = cage.home.path
    assert "FileNotFoundError" in cage.refused(f"open({str(home / 'viat.db')!r})")
    assert cage.done(f"result = os.listdir({str(home)!r})") == ["scratch"]
    assert len(cage.done(f"result = os.listdir({str(home / 'scratch')!r})")) == 1
    for name in sorted(path.name for path in home.iterdir() if path.is_socket()):
        assert "FileNotFoundError" in cage.refused(f"socket.socket(socket.AF_UNIX).connect({str(home / name)!r})")
    assert "FileNotFoundError" in cage.refused(f"os.chmod({str(home / 'viat.db')!r}, 0o777)")


def test_the_engine_and_other_processes_are_not_seen(cage):
    assert "FileNotFoundError" in cage.refused(f"open('/proc/{cage.pid}/environ')")
    code = "result = [open(f'/proc/{pid}/cmdline').read().split(chr(0))[-2][:20] for pid in os.listdir('/proc') if pid.isdigit() and pid not in ('1', str(os.getpid()))]"
    assert cage.done(code) == []
    assert cage.done("result = 'nobody else knows' in str(os.environ)") is False
    assert "PermissionError" in cage.refused("open('/proc/1/environ', 'rb').read()")
    assert any(word in cage.refused("open('/proc/1/mem', 'r+b')") for word in ["Permission denied", "Read-only file system"])


def test_another_scripts_folder_is_not_there(cage):
    held = cage.server.begin("limited", {"code": "open('secret', 'w').write('x'); result = os.getcwd(); time.sleep(3)"})
    found = until(lambda: list((cage.home.path / "scratch").glob("*/work/secret")), "the other script has written")
    assert "FileNotFoundError" in cage.refused(f"open({str(found[0])!r})")
    assert cage.server.ended(held)["outputs"]["v"]["done"] == str(found[0].parent)


@pytest.mark.parametrize("place", ["/tmp/x", "/var/tmp/x", "/usr/lib/x", "/etc/passwd", "/x", "HOME/x", "HOME/scratch/x", "/proc/sys/kernel/core_pattern", "/dev/x"])
def test_nothing_is_written_outside_of_the_folder(cage, place):
    place = place.replace("HOME", str(cage.home.path))
    said = cage.refused(f"open({place!r}, 'w').write('x')")
    assert any(word in said for word in ["Read-only file system", "No such file or directory", "Permission denied"]), said
    assert not os.path.exists(place) or place in ("/etc/passwd", "/proc/sys/kernel/core_pattern")


def test_the_folder_itself_is_a_home_and_is_emptied(cage):
    assert cage.done("open('x', 'w').write('x'); os.mkdir('d'); os.chmod('d', 0o700); result = os.environ['HOME'] == os.getcwd()") is True
    assert cage.done("result = os.listdir('.')") == []


@pytest.mark.parametrize("code, said", [
    ("os.kill(PID, 9)", "No such process"),
    ("call(libc.ptrace, 16, PID, 0, 0)", "Operation not permitted"),
    ("call(libc.ptrace, 16, 1, 0, 0)", "Operation not permitted"),
    ("call(libc.syscall, 310, PID, 0, 0, 0, 0, 0)", "Operation not permitted"),
    ("os.setuid(0)", "[Errno"),
    ("os.setgid(0)", "[Errno"),
    ("call(libc.unshare, 0x10000000)", "Operation not permitted"),
    ("call(libc.syscall, 56, 0x10000000 | 17, 0, 0, 0, 0)", "Operation not permitted"),
    ("call(libc.mount, b'none', b'/tmp', b'tmpfs', 0, 0)", "Operation not permitted"),
    ("call(libc.chroot, b'/tmp')", "Operation not permitted"),
    ("call(libc.syscall, 425, 8, 0)", "Function not implemented"),
    ("call(libc.syscall, 248, b'user', b'x', b'y', 1, -3)", "Operation not permitted"),
    ("call(libc.syscall, 321, 0, 0, 0)", "Operation not permitted"),
    ("os.mknod('disk', 0o60600, os.makedev(8, 0))", "Operation not permitted"),
    ("os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))", "Operation not permitted"),
    ("resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1))", "not allowed to raise maximum limit"),
])
def test_rights_are_refused(cage, code, said):
    assert said in cage.refused(code.replace("PID", str(cage.pid)))


def test_no_program_gives_rights_back(cage):
    status = cage.done("result = open('/proc/self/status').read()")
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert fields["NoNewPrivs"] == "1" and fields["Seccomp"] == "2", status
    assert {fields[name].strip("0") for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")} == {""}, status
    assert int(fields["Uid"].split()[0]) != 0
    code = "shell = os.path.join(os.getcwd(), 'sh'); import shutil; shutil.copy('/bin/sh', shell); os.chmod(shell, 0o6755); result = subprocess.run([shell, '-c', 'id -u'], capture_output=True, text=True).stdout.strip()"
    assert cage.done(code) == fields["Uid"].split()[0]


def test_there_is_nobody_to_kill(cage):
    assert "No such process" in cage.refused("os.kill(-1, 9)")
    code = "import contextlib\nwith contextlib.suppress(PermissionError): os.kill(1, 9)\ntime.sleep(0.1); result = 'alive'"
    assert cage.done(code) == "alive"


@pytest.mark.parametrize("code", [
    "socket.create_connection(('127.0.0.1', PORT), 10)", "socket.create_connection(('192.0.2.1', 80), 10)", "socket.create_connection(('::1', PORT), 10)",
    "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('192.0.2.1', 53))", "socket.getaddrinfo('example.com', 80)",
    "socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)", "socket.socket(socket.AF_PACKET, socket.SOCK_RAW)", "socket.socket(40, socket.SOCK_STREAM)",
])
def test_there_is_no_network(cage, code):
    said = cage.refused(code.replace("PORT", str(cage.server.port)))
    assert any(word in said for word in ["Network is unreachable", "Cannot assign requested address", "Temporary failure in name resolution", "Operation not permitted"]), said


def test_an_abstract_socket_of_the_machine_is_not_there(cage):
    name = f"\0viat-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(name)
        listening.listen()
        assert "Connection refused" in cage.refused(f"socket.socket(socket.AF_UNIX).connect({name!r})")


def test_only_declared_hosts_are_asked_by_http_scripts(cage):
    record = cage.record("http", {"a": cage.server.port})
    assert record["error"]["code"] == "host_not_allowed" and "`network` list" in record["error"]["message"], record["error"]


def test_the_engines_variables_are_not_a_scripts_to_ask_for(cage):
    record = cage.record("secretive", {"code": ""})
    assert "VIAT_SCRIPT_ENV" in record["error"]["message"] and "PLANTED" in record["error"]["message"], record["error"]


def test_a_fork_bomb_is_over_its_limit(cage):
    record = cage.record("limited", {"code": "while True:\n    try:\n        os.fork()\n    except OSError:\n        pass"})
    assert record["error"]["class"] == "script_broken" and "limits.processes" in record["error"]["message"], record["error"]


def test_a_memory_bomb_is_over_its_limit(cage):
    assert "MemoryError" in cage.refused("x = bytearray(2 << 30)", "limited")
    code = "for _ in range(8):\n    if os.fork() == 0:\n        x = bytearray(b'x') * (120 << 20)\n        time.sleep(60)\ntime.sleep(60)"
    record = cage.record("limited", {"code": code})
    assert record["error"]["class"] == "script_broken" and "limits.memory" in record["error"]["message"], record["error"]


def test_a_full_disk_is_the_scripts_own(cage):
    assert "File too large" in cage.refused("f = open('big', 'wb', 0)\nfor _ in range(100): f.write(bytes(1 << 20))", "limited")
    code = "for n in range(10000):\n    open(f'f{n}', 'wb').write(bytes(1 << 20))\n    time.sleep(0.01)"
    record = cage.record("limited", {"code": code})
    assert record["error"]["class"] == "script_broken" and "limits.disk" in record["error"]["message"], record["error"]
    until(lambda: not list((cage.home.path / "scratch").glob("*/work/f*")), "the files are gone")


def test_a_daemon_ends_with_its_attempt(cage):
    mark = f"{os.getpid()}.5"
    code = f"""
for _ in range(2):
    if os.fork():
        os._exit(0) if _ else None
        break
    os.setsid()
else:
    os.environ.clear(); os.chdir('/'); os.execvp('sleep', ['sleep', '{mark}'])
time.sleep(0.3)
result = subprocess.run(['grep', '-l', '{mark}', *[f'/proc/{{pid}}/cmdline' for pid in os.listdir('/proc') if pid.isdigit()]], capture_output=True, text=True).stdout.count('/proc')
"""
    assert cage.done(code) >= 1
    alive = lambda: [pid for pid in os.listdir("/proc") if pid.isdigit() and sleeps(pid, mark)]
    assert alive() == []


def sleeps(pid, mark):
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[:2] == [b"sleep", mark.encode()]
    except OSError:
        return False


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no node")
def test_javascript_is_held_alike(cage):
    given = {"home": str(cage.home.path), "pid": cage.pid, "port": cage.server.port}
    expected = ["ENOENT", "ENOENT", "EROFS", "EROFS", "EROFS", "ESRCH", "ENETUNREACH"]
    for _ in range(2):
        assert cage.value("javascript", {"a": given}) == expected


def test_shell_is_held_alike(cage):
    for _ in range(2):
        record = cage.record("shell", {"a": 1})
        assert record["outputs"]["v"] == "said no no no no no no no own", record
        assert "to the log" in cage.home.log(record["id"])


def test_a_cell_ends_with_its_engine(home):
    home.script("slow", "import subprocess, time\ndef main():\n    subprocess.Popen(['sleep', '3600'], start_new_session=True)\n    open('begun', 'w')\n    time.sleep(3600)\n")
    home.workflow("slow", "steps:\n  - id: s\n    script: slow\n")
    home.run("workflow", "publish", "slow", code=0)
    server = Server(home, "--profile", "strict")
    server.begin("slow")
    until(lambda: list((home.path / "scratch").glob("*/work/begun")), "the attempt has begun")
    assert len(processes_of(home)) >= 3
    server.kill()
    nobody_left(home)
    assert not list((home.path / "scratch").glob("*"))


def test_trusted_is_the_default_and_the_profile_is_said(home):
    home.script("who", "import os\ndef main(): return os.path.exists('/root') or os.path.exists('/home')\n")
    assert home.run("script", "test", "who", code=0).out.strip() == "true"
    assert home.run("script", "show", "who", "--json", code=0).data()["profile"] == "trusted"
    shown = home.run("script", "show", "who", "--json", env={"VIAT_PROFILE": "strict", "VIAT_SCRIPT_LIMITS": "memory=1 GiB,cpu=9s"}, code=0).data()
    assert shown["profile"] == "strict"
    assert (shown["limits"]["memory"], shown["limits"]["cpu_s"], shown["limits"]["processes"]) == (1 << 30, 9, 256)
    for env, said in [({"VIAT_PROFILE": "tight"}, "trusted or strict"), ({"VIAT_SCRIPT_LIMITS": "memory"}, "KEY=VALUE")]:
        assert said in home.run("script", "test", "who", env=env, code=2).err
    assert "trusted or strict" in home.run("server", "--profile", "tight", code=2).err


def test_a_server_that_cannot_be_strict_does_not_start(home):
    if subprocess.run(["unshare", "-Ur", "true"]).returncode:
        pytest.skip("no user namespace to forbid others in")
    forbid = "echo 0 > /proc/sys/user/max_user_namespaces && exec \"$@\""
    done = subprocess.run(["unshare", "-Ur", "sh", "-c", forbid, "sh", str(BINARY), "server", "--port", "0", "--profile", "strict"],
                          env=home.environment(), cwd=home.base, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2, done
    assert "strict" in done.stderr and "namespaces" in done.stderr and "max_user_namespaces" in done.stderr, done.stderr
    doctor = subprocess.run(["unshare", "-Ur", "sh", "-c", forbid, "sh", str(BINARY), "doctor", "--json"],
                            env=home.environment(), cwd=home.base, capture_output=True, text=True, timeout=60)
    assert '"check":"strict","verdict":"warn"' in doctor.stdout, doctor
