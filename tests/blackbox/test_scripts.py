"""What scripts do, on purpose or not, and what is said of it."""
import json
import os
import textwrap
import time

import pytest

from conftest import TOUCH, bug, for_each, kill, nobody_left, until

RETRY_ONCE = "retry: {times: 1, initial_ms: 10, factor: 1.0, max_ms: 10, jitter: false}\n"


def failed(home, code, cls, text, more="", **options):
    """The one attempt of a script fails like this; gives the record."""
    home.step(text, more)
    record = home.record("s", **options)
    attempt = record["attempts"][-1]
    assert (attempt["status"], attempt["class"], attempt["code"]) == ("failed", cls, code), record
    assert record["status"] == "failed" and record["error"]["code"] == code
    nobody_left(home)
    return record


# --- output and logs

def test_log_keeps_head_and_tail_and_marks_the_cut(home):
    home.step("""
        def main():
            print("first line")
            for n in range(60000):
                print(f"{n:08d} " + "x" * 40)
            print("last line")
        """)
    log = home.log(home.record("s")["id"])
    assert log.startswith("first line\n") and log.endswith("last line\n")
    assert "cut" in log and len(log) < (1 << 20) + 200


def test_a_hundred_megabytes_of_output(home):
    home.step("""
        import os, sys
        def main():
            block = b"y" * (1 << 20)
            for n in range(100):
                os.write(1 + n % 2, block)
            print("the end")
            return 7
        """)
    record = home.record("s")
    assert record["outputs"] == {"v": 7}
    log = home.log(record["id"])
    assert log.endswith("the end\n") and len(log) < (1 << 20) + 200
    home.run("run", "logs", record["id"], code=0)


def test_log_of_every_attempt_is_kept_apart(home):
    home.step("import viat, sys\ndef main():\n    print('out', viat.context.attempt)\n    print('err', viat.context.attempt, file=sys.stderr)\n    raise viat.TransportError('x')\n", RETRY_ONCE)
    run = home.record("s")["id"]
    rows = home.run("run", "logs", run, "--json", code=0).data()
    assert [(row["step"], row["path"], row["attempt"], row["log"].split("Traceback")[0]) for row in rows] == [("s", "s", n, f"out {n}\nerr {n}\n") for n in (1, 2)]
    assert home.log(run, "--attempt", "2") == rows[1]["log"] and "s.py" in rows[1]["log"]
    home.run("run", "logs", run, "--attempt", "3", code=3)
    home.run("run", "logs", run, "--step", "nope", code=3)


def test_output_without_a_newline_and_bytes_that_are_no_text(home):
    home.step("import os\ndef main():\n    os.write(1, b'caf\\xe9 \\xff\\x00 end')\n")
    record = home.record("s")
    assert home.log(record["id"]).endswith("end")
    assert b"end" in home.run("run", "logs", record["id"], code=0).raw_out


def test_escape_sequences_in_a_log_are_not_obeyed(home):
    home.step("def main():\n    print('\\x1b]0;owned\\x07\\x1b[2J')\n    raise ValueError('\\x1b[31mred')\n")
    done = home.run("workflow", "test", "s", code=1)
    assert b"\x1b" not in done.raw_err, done
    run = home.runs()[0]["id"]
    assert b"\x1b" not in home.run("run", "show", run, code=0).raw_err


def test_printing_cannot_disturb_the_protocol(home):
    home.step("""
        import os
        def main():
            for fd in range(3, 12):
                try:
                    os.write(fd, b'\\x00\\x00\\x00\\x05r{"value":666}' * 10)
                except OSError:
                    pass
            print('{"value": 666}')
            return "honest"
        """)
    assert home.record("s")["outputs"] == {"v": "honest"}


def test_garbage_into_every_descriptor_is_a_broken_script_at_worst(home):
    home.step("""
        import os
        def main():
            for name in os.listdir("/proc/self/fd"):
                try:
                    os.write(int(name), os.urandom(4096))
                except OSError:
                    pass
            return "honest"
        """)
    record = home.record("s")
    assert record["status"] == "succeeded" and record["outputs"] == {"v": "honest"} or record["error"]["class"] == "script_broken", record


HARMLESS = [
    "import sys\ndef main():\n    sys.stdout.close(); sys.stderr.close()\n    return 1\n",
    "import sys\ndef main():\n    sys.stdout = sys.stderr = sys.stdin = None\n    return 1\n",
    "import os\ndef main():\n    os.chdir('/')\n    return 1\n",
    "import os\ndef main():\n    os.environ.clear()\n    return 1\n",
    "import sys\ndef main():\n    sys.modules.clear()\n    return 1\n",
    "import sys\ndef main():\n    sys.setrecursionlimit(60)\n    return 1\n",
    "import signal\ndef main():\n    for n in (1, 2, 13, 15):\n        signal.signal(n, signal.SIG_IGN)\n    return 1\n",
    "import gc\ndef main():\n    gc.disable(); gc.set_threshold(1)\n    return 1\n",
    "import os\ndef main():\n    os.umask(0o777); os.nice(5); os.setpgid(0, 0)\n    return 1\n",
    "import resource\ndef main():\n    resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))\n    return 1\n",
    "import locale\ndef main():\n    locale.setlocale(locale.LC_ALL, 'C')\n    return 1\n",
    "import sys, time\ndef main():\n    sys.settrace(lambda *a: None); sys.setprofile(lambda *a: None); sys.setswitchinterval(1e-6)\n    return 1\n",
    "import atexit\ndef main():\n    atexit.register(lambda: 1/0)\n    return 1\n",
    "import warnings\nwarnings.simplefilter('error')\ndef main():\n    return 1\n",
    "async def main():\n    import asyncio\n    await asyncio.sleep(0)\n    return 1\n",
    "import threading, time\ndef main():\n    threading.Thread(target=time.sleep, args=(60,)).start()\n    return 1\n",
    "import threading\ndef main():\n    assert threading.current_thread() is threading.main_thread()\n    return 1\n",
    "def f(**args):\n    return 1\nmain = f\n",
    "class Main:\n    def __call__(self):\n        return 1\nmain = Main()\n",
    "main = lambda: 1\n",
    "if True:\n    def main():\n        return 1\n",
]


def harmless(home, text):
    home.script("s", text)
    home.script("after", "def main():\n    print('still here')\n    return 2\n")
    home.workflow("w", "steps: [{id: a, script: s}, {id: again, script: s}, {id: b, script: after}]\noutputs: {v: [$a.output, $again.output, $b.output]}\n")
    record = home.record("w")
    assert record["outputs"] == {"v": [1, 1, 2]}, record
    nobody_left(home)


def test_odd_but_harmless(tmp_path):
    for_each(tmp_path, HARMLESS, harmless)


def test_streams_that_the_script_deleted(home):
    home.step("import sys\ndef main():\n    del sys.stdout, sys.stderr\n    return 1\n")
    assert home.record("s")["outputs"] == {"v": 1}


@pytest.mark.parametrize("text", [
    "import os\ndef main():\n    os.close(0); os.close(1); os.close(2)\n    return 1\n",
    "import os, shutil\ndef main():\n    shutil.rmtree(os.getcwd())\n    return 1\n",
    "import os\ndef main():\n    os.setuid(12345)\n    return 1\n"])
def test_harmful_to_the_worker_but_not_to_the_attempt(home, text):
    home.step(text)
    assert home.record("s")["outputs"] == {"v": 1}
    assert home.record("s")["outputs"] == {"v": 1}, "another engine, another worker"
    nobody_left(home)


def test_children_and_daemons_end_with_the_attempt(home):
    home.step(TOUCH + """
import os, subprocess, time
def main():
    subprocess.Popen(["sleep", "1000"])
    subprocess.Popen(["sleep", "1000"], start_new_session=True)
    subprocess.Popen("sleep 1000 & sleep 1000 & wait", shell=True)
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(1000)
        os._exit(0)
    os.system("setsid nohup sleep 1000 > /dev/null 2>&1 &")
    return "main is back"
""")
    assert home.record("s")["outputs"] == {"v": "main is back"}
    nobody_left(home)


def test_fork_that_returns_from_main_twice(home):
    home.step("import os\ndef main():\n    os.fork()\n    return os.getpid()\n")
    record = home.record("s")
    assert record["status"] == "succeeded" or record["error"]["class"] == "script_broken", record
    assert len(record["attempts"]) == 1
    nobody_left(home)


# --- endings

ENDINGS = [
    ("import sys\ndef main():\n    sys.exit(3)\n", "exception", None),
    ("import sys\ndef main():\n    sys.exit(0)\n", "exception", None),
    ("import os\ndef main():\n    os._exit(0)\n", "script_broken", "script_broken"),
    ("import os\ndef main():\n    os._exit(3)\n", "script_broken", "script_broken"),
    ("import os\ndef main():\n    os.kill(os.getpid(), 9)\n", "script_broken", "script_broken"),
    ("import os\ndef main():\n    os.kill(os.getpid(), 11)\n", "script_broken", "script_broken"),
    ("import os\ndef main():\n    os.abort()\n", "script_broken", "script_broken"),
    ("import ctypes\ndef main():\n    ctypes.string_at(0)\n", "script_broken", "script_broken"),
    ("import os\ndef main():\n    os.execv('/bin/true', ['true'])\n", "script_broken", "script_broken"),
    ("import os\ndef main():\n    os.closerange(3, 4096)\n    return 1\n", "script_broken", "script_broken"),
    ("def main():\n    raise KeyboardInterrupt\n", "exception", "KeyboardInterrupt"),
    ("def main():\n    raise MemoryError\n", "exception", "MemoryError"),
    ("def main():\n    return main()\n", "exception", "RecursionError"),
    ("def main():\n    raise BaseException('odd')\n", "exception", "BaseException"),
    ("class Odd(Exception):\n    def __str__(self):\n        raise ValueError\n    __repr__ = __str__\ndef main():\n    raise Odd\n", "exception", "Odd"),
    ("class E(Exception): pass\nE.__name__ = 'x' * 100000\ndef main():\n    raise E\n", "exception", None),
    ("def main():\n    raise ValueError('x' * 5000000)\n", "exception", "ValueError"),
    ("def main():\n    raise ValueError('\\ud800 \\x00 😀')\n", "exception", "ValueError"),
    ("def main():\n    raise ExceptionGroup('g', [ValueError(1), KeyError(2)])\n", "exception", "ExceptionGroup"),
    ("def main():\n    raise StopIteration\n", "exception", "StopIteration"),
    ("async def main():\n    raise StopIteration\n", "exception", "RuntimeError"),
    ("import asyncio\nasync def main():\n    raise asyncio.CancelledError\n", "exception", "CancelledError"),
    ("import viat\ndef main():\n    raise viat.ViatError\n", "exception", "TypeError"),
    ("import viat\ndef main():\n    raise viat.ViatError(status=200, code='x')\n", "exception", "ValueError"),
    ("import viat\ndef main():\n    raise viat.ViatError(code='')\n", "exception", "ValueError"),
    ("import viat\ndef main():\n    raise viat.ViatError(code='x', extra={1, 2})\n", "exception", None),
    ("import viat\ndef main():\n    raise viat.ViatError(code='größe 😀', message='\\n', extra={'a': [1]})\n", "user", "größe 😀"),
    ("import viat\ndef main():\n    raise viat.TransportError('down')\n", "transport", "transport"),
    ("1/0\ndef main():\n    pass\n", "exception", "ZeroDivisionError"),
    ("import nonexistent_module_xyz\ndef main():\n    pass\n", "exception", "ModuleNotFoundError"),
    ("import sys\nsys.exit(1)\ndef main():\n    pass\n", None, None),
    ("import os\nos._exit(1)\ndef main():\n    pass\n", None, None),
    ("main = 5\n", None, None),
    ("def main(a):\n    pass\n", "annotation", "annotation"),
    ("def main(*, a):\n    pass\n", "annotation", "annotation"),
    ("import viat\ndef main():\n    viat.resource('none')\n", "resource", "resource"),
    ("import viat\ndef main():\n    viat.defer('')\n", "exception", "TypeError"),
    ("import viat\ndef main():\n    viat.progress(2)\n", "exception", "ValueError"),
    ("import asyncio\nasync def main():\n    await asyncio.wait_for(asyncio.sleep(9), 0.01)\n", "exception", "TimeoutError"),
    ("def main():\n    yield 1\n", "invalid_output", "invalid_output"),
]


def ending(home, case):
    text, cls, code = case
    home.step(text)
    record = home.record("s")
    assert record["status"] == "failed", record
    attempt, = record["attempts"]
    assert attempt["status"] == "failed" and isinstance(attempt["message"], str), attempt
    if cls:
        assert attempt["class"] == cls, record
    if code:
        assert attempt["code"] == code, record
    assert len(attempt["message"]) < 100_000, "a message is for reading"
    nobody_left(home)


def test_endings(tmp_path):
    for_each(tmp_path, ENDINGS, ending)


def test_a_very_long_message_is_not_printed_whole(home):
    home.step("def main():\n    raise ValueError('x' * 5000000)\n")
    assert len(home.run("workflow", "test", "s", code=1).err) < 50_000


NO_JSON = [
    "float('nan')", "float('inf')", "[1, float('-inf')]", "2 ** 63", "-2 ** 63 - 1", "10 ** 400", "{1, 2}", "b'x'", "object()", "{1: 2}", "{None: 1}",
    "{True: 1}", "lambda: 1", "1j", "'\\ud800'", "{'\\udfff': 1}", "Ellipsis", "__import__('datetime').datetime.now()", "range(3)", "main",
    "__import__('functools').reduce(lambda a, _: [a], range(1000), 1)", "(lambda a: (a.append(a), a)[1])([])", "'x' * (65 << 20)",
    "__import__('decimal').Decimal(1)", "iter([])", "{(1, 2): 3}",
]


def no_json(home, value):
    record = failed(home, "invalid_output", "invalid_output", f"def main():\n    return {value}\n")
    assert len(record["error"]["message"]) < 2000


def test_values_that_are_no_json(tmp_path):
    for_each(tmp_path, NO_JSON, no_json)


VALUES = [
    ("None", None), ("True", True), ("2 ** 63 - 1", 2**63 - 1), ("-2 ** 63", -2**63), ("0.1 + 0.2", 0.1 + 0.2), ("1e308", 1e308), ("5e-324", 5e-324), ("-0.0", -0.0),
    ("1.0", 1.0), ("''", ""), ("'\\x00\\u2028😀'", "\x00\u2028😀"), ("{'b': 1, 'a': 2, '': 3}", {"b": 1, "a": 2, "": 3}), ("[[], {}, [[]]]", [[], {}, [[]]]),
    ("(1, 2)", [1, 2]), ("{'$x': '$y', '$$': '${ 1 }'}", {"$x": "$y", "$$": "${ 1 }"}), ("'x' * (3 << 20)", "x" * (3 << 20)),
    ("{str(n): n for n in range(20000)}", {str(n): n for n in range(20000)}),
]


def comes_back(home, case):
    value, expected = case
    home.script("s", f"def main():\n    return {value}\n")
    home.script("echo", "def main(x):\n    return x\n")
    home.workflow("w", "steps: [{id: a, script: s}, {id: b, script: echo, args: {x: $a.output}}]\noutputs: {a: $a.output, b: $b.output}\n")
    record = home.record("w")
    assert record["status"] == "succeeded", record["error"]
    for key in "a", "b":
        assert json.dumps(record["outputs"][key]) == json.dumps(expected)


def test_values_come_back_as_they_were(tmp_path):
    for_each(tmp_path, VALUES, comes_back)


# --- time

STUBBORN = [
    "import time\ndef main():\n    time.sleep(100)\n",
    "def main():\n    while True:\n        pass\n",
    "import os, signal\ndef main():\n    os.kill(os.getpid(), signal.SIGSTOP)\n",
    "def main():\n    while True:\n        print('spam' * 1000)\n",
    "import sys\ndef main():\n    while True:\n        sys.stderr.write('x')\n",
    "import viat\ndef main():\n    while True:\n        viat.progress(0.5, 'x' * 1000)\n",
    "import signal, time\ndef main():\n    for n in range(1, 32):\n        try:\n            signal.signal(n, signal.SIG_IGN)\n        except OSError:\n            pass\n    time.sleep(100)\n",
    "import time\ndef main():\n    try:\n        time.sleep(100)\n    finally:\n        while True:\n            time.sleep(1)\n",
    "import re\ndef main():\n    re.match('(a+)+$', 'a' * 60 + 'b')\n",
    "def main():\n    return len(str(10 ** 10 ** 8))\n",
    "import asyncio\nasync def main():\n    await asyncio.sleep(100)\n",
    "import os, time\ndef main():\n    while True:\n        if os.fork() == 0:\n            time.sleep(100)\n            os._exit(0)\n        time.sleep(0.01)\n",
    "import threading\ndef main():\n    threading.Lock().acquire() and threading.Event().wait()\n",
]


def stubborn(home, text):
    record = failed(home, "timeout", "timeout", text, "timeout: PT0.3S\n")
    assert "300" in record["error"]["message"] and record["error"]["kind"] == "timeout"


def test_timeout_ends_it_for_certain(tmp_path):
    for_each(tmp_path, STUBBORN, stubborn)


def test_zero_timeout_starts_nothing(home):
    failed(home, "timeout", "timeout", TOUCH + "def main():\n    mark('x')\n", "timeout: 0\n")
    assert home.trace() == []


def test_late_result_is_kept_in_the_log_and_not_used(home):
    record = failed(home, "timeout", "timeout", "import viat\ndef main():\n    viat.cancel_event.wait(20)\n    return 'too late'\n", "timeout: PT0.3S\n")
    assert record["outputs"] is None and "too late" in home.log(record["id"])


def test_cooperative_script_hears_of_its_timeout(home):
    failed(home, "timeout", "timeout", TOUCH + "import viat, time\ndef main():\n    while not viat.cancelled():\n        time.sleep(0.005)\n    mark('tidy')\n", "timeout: PT0.2S\n")
    assert home.trace() == ["tidy"]


def test_import_time_is_not_the_attempts(home):
    home.step("import time\ntime.sleep(0.6)\ndef main():\n    return 1\n", "timeout: PT0.4S\n")
    assert home.record("s")["outputs"] == {"v": 1}


def test_run_budget_cuts_an_attempt(home):
    home.step("import time\ndef main():\n    time.sleep(100)\n", "on_error: continue\n" + RETRY_ONCE)
    home.run("workflow", "test", "s", "--timeout", "0", code=1)
    done = home.run("workflow", "test", "s", "--timeout", "PT0.3S", "--json")
    record = done.data()
    assert done.code == 1 and record["error"]["class"] == "deadline_exceeded" and record["deadline"], record
    assert [each["status"] for each in record["attempts"]] == ["cancelled"]
    nobody_left(home)


# --- memory

def test_memory_hog_that_is_killed(home):
    home.step("import os, resource\ndef main():\n    resource.setrlimit(resource.RLIMIT_AS, (600 << 20, 600 << 20))\n    x = []\n    while True:\n        x.append(bytearray(50 << 20))\n")
    record = home.record("s")
    assert record["error"]["class"] in ("exception", "script_broken"), record
    nobody_left(home)


# --- retries

def test_arguments_are_the_same_for_every_attempt(home):
    home.step(TOUCH + "import json, viat\ndef main(x, run):\n    mark(json.dumps([x, run, viat.context.idempotency_key]).replace(' ', ''))\n    x.append('changed')\n    raise viat.TransportError('again')\n",
              "args: {x: [1, {a: b}], run: $run.started_at}\nretry: {times: 3, initial_ms: 10, factor: 2.0, max_ms: 15, jitter: false}\n")
    record = home.record("s")
    assert len(home.trace()) == 4 and len(set(home.trace())) == 1
    attempts = record["attempts"]
    assert [each["wait_ms"] for each in attempts] == [0, 10, 15, 15]
    assert [each["decision"].get("reason") for each in attempts] == [None, None, None, "exhausted"]
    assert [each["decision"].get("wait_ms") for each in attempts] == [10, 15, 15, None]


@pytest.mark.parametrize("cls,text", [
    ("user", "import viat\ndef main():\n    raise viat.ViatError(status=503, code='busy')\n"), ("exception", "def main():\n    1/0\n"),
    ("annotation", "def main(x: int):\n    pass\n"), ("invalid_output", "def main():\n    return {1}\n"),
    ("resource", "import viat\ndef main():\n    viat.resource('x')\n")])
def test_what_is_never_retried(home, cls, text):
    home.step(text, RETRY_ONCE)
    record = home.record("s")
    assert [each["class"] for each in record["attempts"]] == [cls]
    assert record["attempts"][0]["decision"] == {"retry": False, "reason": "not_retryable"}


@pytest.mark.parametrize("cls,text", [
    ("transport", "import viat\ndef main():\n    raise viat.TransportError('x')\n"), ("script_broken", "import os\ndef main():\n    os._exit(1)\n"),
    ("timeout", "import time\ndef main():\n    time.sleep(9)\n")])
def test_what_is_retried(home, cls, text):
    home.step(text, RETRY_ONCE + "timeout: PT0.3S\n")
    record = home.record("s")
    assert [each["class"] for each in record["attempts"]] == [cls, cls]
    assert record["attempts"][1]["decision"]["reason"] == "exhausted"


def test_retry_that_cannot_fit_is_not_begun(home):
    home.step("import viat\ndef main():\n    raise viat.TransportError('x', retry_after_ms=30000)\n", RETRY_ONCE)
    done = home.run("workflow", "test", "s", "--timeout", "PT5S", "--json", code=1)
    decision = done.data()["attempts"][0]["decision"]
    assert decision["reason"] == "would_overrun_deadline" and decision["wait_ms"] == 30000 and decision["remaining_ms"] <= 5000


def test_warm_workers_hand_nothing_of_the_engine_down(home):
    home.step("import os\ndef main():\n    return sorted(os.readlink(f'/proc/self/fd/{fd}') for fd in os.listdir('/proc/self/fd') if os.path.exists(f'/proc/self/fd/{fd}'))\n")
    opened = home.record("s")["outputs"]["v"]
    assert not any("viat.db" in name or ".lock" in name for name in opened), opened


def test_unicode_everywhere(home):
    home.script("s", "def main(**args):\n    print('größe 雪 😀', flush=True)\n    return args\n")
    home.workflow("w", textwrap.dedent("""
        description: "größe 雪 😀 \\u0000"
        inputs: {größe: string}
        steps: [{id: a, script: s, args: {"雪": "${ inputs[\\"größe\\"] }", "😀": 1, "": 2}}]
        outputs: {"é\\n": $a.output}
        """))
    record = home.record("w", "--input", '{"größe":"x\\u0000ü"}')
    assert record["outputs"] == {"é\n": {"雪": "x\0ü", "😀": 1, "": 2}}, record
    assert home.log(record["id"]) == "größe 雪 😀\n"
    assert "größe 雪 😀" in home.run("run", "logs", record["id"], env={"LC_ALL": "C"}, code=0).out
    home.run("run", "show", record["id"], code=0)


def test_expression_that_never_ends_or_explodes(home):
    for text in ("${ " + "+".join(["1"] * 2000) + " }", "${ [1,2,3,4,5,6,7,8,9,10].map(a, [1,2,3,4,5,6,7,8,9,10].map(b, [1,2,3,4,5,6,7,8,9,10].map(c, [1,2,3,4,5,6,7,8,9,10].map(d, [1,2,3,4,5,6,7,8,9,10].map(e, [1,2,3,4,5,6,7,8,9,10].map(f, [1,2,3,4,5,6,7,8,9,10].map(g, 1))))))) }",
                 "${ 9223372036854775807 + 1 }", "${ 1 / 0 }", "${ [1][5] }", "${ 'a'.matches('(a+)+$') }", "${ {'a': 1}.b }", "${ " + "(" * 2000 + "1" + ")" * 2000 + " }"):
        done = home.run("workflow", "create", "w", "--file", home.file("w.yaml", f"steps: [{{id: a, set: {json.dumps(text)}}}]\noutputs: {{v: $a.output}}\n"))
        assert done.code in (0, 2), done
        if done.code == 0:
            record = home.record("w")
            assert record["status"] == "succeeded" or record["error"]["class"] == "orchestration", record


def test_strings_that_double_do_not_eat_the_machine(home):
    steps = "".join(f"- {{id: s{n}, set: '${{ s{n - 1}.output + s{n - 1}.output }}'}}\n" for n in range(1, 40))
    home.workflow("w", "steps:\n- {id: s0, set: " + "x" * 1000 + "}\n" + steps + "outputs: {v: done}\n")
    record = home.record("w", "--timeout", "PT20S")
    assert record["status"] == "failed" and record["error"]["class"] == "orchestration", str(record)[:500]


def test_values_that_are_too_big_together_end_the_run(home):
    home.script("big", "def main():\n    return 'x' * (50 << 20)\n")
    home.workflow("w", "steps: [{id: a, script: big}, {id: b, set: [$a.output, $a.output, $a.output]}]\n")
    done = home.run("workflow", "test", "w")
    row = home.runs()[0]
    assert done.code == 1 and row["status"] == "failed" and row["ended_at"], done


def test_big_extra(home):
    home.script("s", "import viat\ndef main():\n    raise viat.ViatError(code='x', extra={'y': 'y' * (50 << 20)})\n")
    home.workflow("w", "steps: [{id: a, script: s, on_error: continue}, {id: b, set: $a._error}]\n")
    home.run("workflow", "test", "w")
    assert home.runs()[0]["ended_at"]


@bug("the log of an attempt is lost when its engine dies")
def test_log_of_an_interrupted_attempt(home):
    home.step(TOUCH + "import time\ndef main():\n    print('last words', flush=True)\n    mark('x')\n    time.sleep(60)\n")
    process = home.start("workflow", "test", "s")
    until(home.trace, "the attempt begins")
    time.sleep(0.2)
    kill(process)
    run = home.runs()[0]["id"]
    home.run("run", "resume", run)
    assert "last words" in home.log(run)


def test_stray_log_writers_do_not_leak_into_another_run(home):
    home.step("import threading, time\nn = 0\ndef spam():\n    while True:\n        print('stray', flush=True)\n        time.sleep(0.001)\ndef main():\n    threading.Thread(target=spam, daemon=True).start()\n    print('own')\n")
    assert "own\n" in home.log(home.record("s")["id"])
    home.script("quiet", "def main():\n    print('quiet')\n")
    home.workflow("q", "steps: [{id: a, script: quiet}]\n")
    assert home.log(home.record("q")["id"]) == "quiet\n"


def test_script_cannot_see_another_runs_files(home):
    home.step("import os\ndef main():\n    open('left', 'w').close()\n    return sorted(os.listdir('.'))\n")
    assert home.record("s")["outputs"] == {"v": ["left"]}
    assert home.record("s")["outputs"] == {"v": ["left"]}
    assert not os.path.exists("left")
