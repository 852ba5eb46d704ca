"""Files, arguments and streams nobody should give, but somebody will."""
import json
import os
import subprocess
import textwrap

import pytest

from conftest import BINARY, PATIENCE

SCRIPT = ["script", "create", "--name", "s", "--language", "python", "--file"]
FLOW = ["workflow", "create", "w", "--file"]
GOOD = "steps: [{id: a, set: 1}]\noutputs: {v: $a.output}\n"


def nothing_stored(home):
    assert home.run("script", "list", "--json").data() == home.run("workflow", "list", "--json").data() == []


@pytest.mark.parametrize("words", [SCRIPT, FLOW, ["workflow", "validate", "--file"]])
class TestFiles:
    def test_missing_or_directory(self, home, words):
        for path in home.files / "none", home.files, "/dev/null/x", "x" * 5000:
            done = home.run(*words, path, code=2)
            assert "read" in done.err or "larger" in done.err, done
        nothing_stored(home)

    @pytest.mark.parametrize("content", [
        b"", b"   \n\n", b"\xef\xbb\xbf", b"\x00", b"\x00" * 4096, b"steps: [\x00]", os.urandom(5000), b"\xff\xfe" + "steps: []\n".encode("utf-16-le"),
        "def main(): pass".encode("utf-16"), b"caf\xe9: 1\n", b"\x7fELF\x02\x01\x01" + bytes(200), b"\x1b[31mred\x1b[0m", b"\xed\xa0\x80",
    ], ids=range(13))
    def test_no_text(self, home, words, content):
        done = home.run(*words, home.file("f", content), code=2)
        assert done.err.strip(), done
        nothing_stored(home)

    @pytest.mark.parametrize("content", [b"steps: [\x00]", b"\x1b[31mred\x1b[0m", b"x = (\x1b]0;title\x07)\n"])
    def test_control_characters_do_not_reach_the_terminal(self, home, words, content):
        done = home.run(*words, home.file("f", content), code=2)
        assert not any(byte in done.raw_err for byte in b"\x00\x1b\x07"), done

    def test_ten_mebibytes(self, home, words):
        text = b"# " + b"x" * (10 << 20) + b"\nsteps: [{id: a, set: 1}]\ndef main():\n    pass\n"
        done = home.run(*words, home.file("f", text), code=2)
        assert len(done.err) < 4000, "an error quotes a line, not the file"
        nothing_stored(home)

    def test_endless(self, home, words):
        done = home.run(*words, "/dev/zero", code=2)
        assert len(done.err) < 4000, done


def test_fifo_and_process_substitution_will_do(home):
    shell = f"{BINARY} workflow create w --file <(printf '%s' 'steps: [{{id: a, set: 1}}]')"
    done = subprocess.run(["bash", "-c", shell], env=home.env, capture_output=True, timeout=PATIENCE)
    assert done.returncode == 0, done


def test_byte_order_mark_and_crlf_are_no_errors(home):
    home.workflow("w", b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode())
    assert home.record("w")["outputs"] == {"v": 1}
    home.step("def main():\r\n    return 'ok'\r\n")
    assert home.record("s")["outputs"] == {"v": "ok"}


def test_script_with_a_byte_order_mark(home):
    home.step(b"\xef\xbb\xbfdef main():\n    return 'ok'\n")
    assert home.record("s")["outputs"] == {"v": "ok"}


def test_json_definition(home):
    home.workflow("w", json.dumps({"inputs": {"n": "integer"}, "steps": [{"id": "a", "set": "${ inputs.n + 1 }"}], "outputs": {"v": "$a.output"}}))
    assert home.record("w", "--input", '{"n":41}')["outputs"] == {"v": 42}


@pytest.mark.parametrize("text,line", [
    ("steps:\n  - id: a\n    set: 1\n   bad: 2\n", 4), ("steps: [\n", 1), ("steps:\n\t- id: a\n", 2), ("a: 1\na: 2\nsteps: []\n", 2),
    ("steps: []\n", 1), ("nope: 1\nsteps: [{id: a, set: 1}]\n", 1), ("steps:\n- {id: a, set: 1}\n- {id: a, set: 2}\n", 3),
    ("steps:\n- {id: a, set: $b.output}\n", 2), ("steps: {a: 1}\n", 1), ("- 1\n", 1), ("hello\n", 1), ("steps: 3\n", 1),
    ("steps: [{id: a, set: 1}]\n---\nsteps: []\n", 2), ("steps:\n- {id: a, set: '${ 1 + }'}\n", 2), ("steps:\n- {id: inputs, set: 1}\n", 2),
    ("steps:\n- {id: 1a, set: 1}\n", 2), ("steps:\n- {id: a}\n", 2), ("steps:\n- {id: a, set: 1, fail: {}}\n", 2), ("steps:\n- {id: a, type: retry}\n", 2),
    ("steps:\n- {id: a, set: 1, retry: {times: 1}}\n", 2), ("timeout: 1h\nsteps: [{id: a, set: 1}]\n", 1), ("steps: [{id: a, set: .inf}]\n", 1),
    ("steps: [{id: a, set: 99999999999999999999}]\n", 1), ("? [1]\n: 2\nsteps: [{id: a, set: 1}]\n", 1), ("steps: [{id: a, set: *x}]\n", 1),
    ("steps: [{id: a, set: !!binary xx}]\n", 1), ("outputs: {v: $x}\nsteps: [{id: a, set: 1}]\n", 1),
])
def test_wrong_definitions_are_refused_with_a_place(home, text, line):
    done = home.run(*FLOW, home.file("w.yaml", text), code=2)
    assert f"w.yaml:{line}:" in done.err, done
    found = home.run(*FLOW, home.files / "w.yaml", "--json", code=2)
    error = json.loads(found.err)
    assert error["diagnostics"] and error["error"]["exit"] == 2
    nothing_stored(home)


def test_all_errors_at_once(home):
    done = home.workflow("w", """
        stepps: 1
        steps:
          - {id: a, script: none}
          - {id: a, set: $zzz.output}
          - {id: b, set: 1, on_error: continue}
        """, code=2)
    for word in ("stepps", "none", "zzz", "on_error"):
        assert word in done.err, done


def test_anchors_under_a_bound(home):
    home.workflow("w", "steps:\n- {id: a, set: &x [1, 2]}\n- {id: b, set: *x}\noutputs: {v: $b.output}\n")
    assert home.record("w")["outputs"] == {"v": [1, 2]}
    laughs = "\n".join(f"  l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]" if n else "  l0: &l0 [lol]" for n in range(12))
    done = home.workflow("lol", f"steps:\n- id: a\n  set:\n{textwrap.indent(laughs, '  ')}\n", code=2)
    assert len(done.err) < 10_000, "not the whole thing expanded"


def nested(depth, inner=""):
    return "[" * depth + inner + "]" * depth


def test_nested_values(home):
    home.workflow("w", f"steps: [{{id: a, set: {nested(60)}}}]\n")
    home.record("w")
    for depth in 200, 10_000, 400_000:
        done = home.run("workflow", "create", "deep", "--file", home.file("deep.yaml", f"steps: [{{id: a, set: {nested(depth)}}}]\n"), code=2)
        assert len(done.err) < 10_000
    home.run("workflow", "create", "deep", "--file", home.file("deep.json", '{"a":' * 100_000), code=2)


def test_nested_entries(home):
    def ifs(depth):
        lines = (f"{'    ' * n}- id: i{n}\n{'    ' * n}  if: true\n{'    ' * n}  then:\n" for n in range(depth))
        return "steps:\n" + "".join(lines) + "    " * depth + "- {id: z, set: 1}\n"
    home.workflow("w", ifs(31))
    home.record("w")
    home.workflow("more", ifs(32), code=2)
    home.workflow("more", ifs(100), code=2)


@pytest.mark.parametrize("depth", [30, 60, 90, 110])
def test_what_is_accepted_can_be_read_again(home, depth):
    done = home.run(*FLOW, home.file("w.yaml", f"steps: [{{id: a, set: {nested(depth, '$run.id')}}}]\n"))
    if done.code == 0:
        home.run("workflow", "show", "w", code=0)
        home.record("w")


def test_a_run_that_builds_deep_values_can_be_read_again(home):
    home.workflow("w", "inputs: {x: {}}\nsteps:\n- {id: a, set: $inputs.x}\n" + "".join(
        f"- {{id: {new}, set: {nested(40, f'${old}.output')}}}\n" for old, new in ("ab", "bc", "cd", "de")) + "outputs: {v: 1}\n")
    done = home.run("workflow", "test", "w", "--input", '{"x":1}')
    assert done.code in (0, 1), done
    home.run("run", "show", home.runs()[0]["id"], code=0)


def test_entries_at_the_bound(home):
    def entries(count):
        return "steps:\n" + "".join(f"- {{id: e{n}, set: {n}}}\n" for n in range(count)) + f"outputs: {{v: $e{count - 1}.output}}\n"
    home.workflow("w", entries(1000))
    assert home.record("w")["outputs"] == {"v": 999}
    assert "1000" in home.workflow("more", entries(1001), code=2).err.replace(",", "")


def test_a_mebibyte_is_the_bound_of_a_definition(home):
    def padded(size):
        return (GOOD + "#" * (size - len(GOOD) - 1) + "\n").encode()
    home.workflow("w", padded(1 << 20))
    home.workflow("w", padded((1 << 20) + 1), code=2)
    assert home.run("workflow", "list", "--json").data()[0]["version"] == 1


def test_huge_line_is_not_quoted_whole(home):
    done = home.workflow("w", "steps: [{id: a, set: \"" + "x" * 500_000 + "\", oops: 1}]\n", code=2)
    assert len(done.err) < 20_000, len(done.err)


@pytest.mark.parametrize("text,line", [
    ("def main(:\n    pass\n", 1), ("x = 1\n\ndef main():\nreturn 1\n", 4), ("def other():\n    pass\n", 1), ("def main():\n\tif 1:\n        x\n", 3),
    ("return 1\ndef main(): pass\n", 1), ("def main():\n    'unfinished\n", 2), ("def main():\n    yield = 1\n", 2), ("(" * 500 + "\ndef main(): pass", 1),
    ("main\n", 1),
])
def test_broken_scripts_are_refused_with_a_line(home, text, line):
    done = home.run(*SCRIPT, home.file("s.py", text), code=2)
    assert f"s.py:{line}:" in done.err, done
    nothing_stored(home)


def test_creating_a_script_does_not_run_it(home):
    home.script("s", "import os\nopen(os.environ['TRACE'], 'w')\ndef main():\n    pass\n")
    assert not home.trace_file.exists()


def test_script_that_is_deeply_nested_does_not_hang_or_crash(home):
    done = home.run(*SCRIPT, home.file("s.py", "def main():\n    return " + "[" * 50_000 + "]" * 50_000 + "\n"))
    assert done.code == 2, done
    done = home.run(*SCRIPT, home.file("s.py", "def main():\n    return " + "-" * 200_000 + "1\n"))
    assert done.code == 2 and "cannot be started" not in done.err, done
    done = home.run(*SCRIPT, home.file("s.py", "def main():\n    return 1" + "+1" * 100_000 + "\n"))
    assert done.code == 2, done


@pytest.mark.parametrize("given", ["", "{", "nope", "[1", "{'a':1}", '{"a":NaN}', '{"a":1}{"b":2}', "@", "@none", "@/", "{\"a\":\"\\ud800\"}",
                                   "\ufeff{}", "{} x", '{"a":01}', '[' * 100_000, '{"a":1,}', "1e999"])
def test_input_that_is_no_json(home, given):
    home.workflow("w", GOOD)
    done = home.run("workflow", "test", "w", f"--input={given}" if len(given) < 1000 else "--input=-", stdin=given.encode(), code=2)
    assert "--input" in done.err or "read" in done.err, done
    assert len(done.err) < 2000
    assert home.runs() == []


@pytest.mark.parametrize("given", ["[]", "1", "null", '"x"', "true", '{"n":"1"}', '{"n":1.5}', '{"n":true}', '{"n":null}', '{"m":1}', "{}", '{"n":1,"x":2}'])
def test_input_that_does_not_fit(home, given):
    home.workflow("w", "inputs: {n: integer}\n" + GOOD)
    done = home.run("workflow", "test", "w", "--input", given, code=2)
    assert done.err.strip() and home.runs() == [], done


def test_duplicate_input_keys_are_not_silently_dropped_or_the_last_wins(home):
    home.workflow("w", "inputs: {n: integer}\nsteps: [{id: a, set: $inputs.n}]\noutputs: {v: $a.output}\n")
    done = home.run("workflow", "test", "w", "--input", '{"n":1,"n":2}')
    assert done.code in (0, 2) and (done.code == 2 or done.out == '{"v":2}\n')


def test_big_inputs_and_exact_numbers(home):
    home.workflow("w", "inputs: {x: {}}\nsteps: [{id: a, set: $inputs.x}]\noutputs: {v: $a.output}\n")
    for value in "x" * (2 << 20), 9223372036854775807, -9223372036854775808, 0.1, 1e300, -0.0, {"b": 1, "a": 2, "": 3}, [[[[]]]], "\u0000\u2028😀\ud7ff", None:
        done = home.run("workflow", "test", "w", "--input", "-", stdin=json.dumps({"x": value}).encode())
        if value is None and done.code == 2:
            continue
        assert done.code == 0, done
        assert json.dumps(json.loads(done.out)) == json.dumps({"v": value})


@pytest.mark.parametrize("text", ["9223372036854775808", "18446744073709551615", "18446744073709551617", "-9223372036854775809", "1" + "0" * 400])
def test_integers_beyond_64_bits_are_refused_not_rounded(home, text):
    home.workflow("w", "inputs: {x: {}}\nsteps: [{id: a, set: $inputs.x}]\noutputs: {v: $a.output}\n")
    home.run("workflow", "test", "w", "--input", '{"x":%s}' % text, code=2)


def test_timeouts_on_the_command_line(home):
    home.workflow("w", GOOD)
    for good in "PT5S", "5000", "P1D", "PT0.5S":
        home.run("workflow", "test", "w", "--timeout", good, code=0)
    for bad in "5s", "-1", "pt5s", "P1Y", "1.5", "NaN", "PT1H ", "99999999999999999999", "PT99999999999999999999H":
        done = home.run("workflow", "test", "w", f"--timeout={bad}", code=2)
        assert "--timeout" in done.err and bad.strip() in done.err, done
    assert len(home.runs()) == 4


@pytest.mark.parametrize("value", ["abc", "0", "-5", "nan", "inf", "1e400", "1800s"])
def test_bad_execution_deadline_falls_back_with_a_warning(home, value):
    home.workflow("w", GOOD)
    done = home.run("workflow", "test", "w", env={"VIAT_EXECUTION_DEADLINE_SECONDS": value}, code=0)
    assert "VIAT_EXECUTION_DEADLINE_SECONDS" in done.err


def test_execution_deadline_holds(home):
    home.step("import viat\ndef main():\n    viat.cancel_event.wait(100)\n")
    done = home.run("workflow", "test", "s", env={"VIAT_EXECUTION_DEADLINE_SECONDS": "0.3"}, code=1)
    assert "deadline_exceeded" in done.err


def test_a_key_that_is_there_twice_is_refused(home):
    home.workflow("w", "inputs: {a: integer}\nsteps: [{id: a, set: $inputs.a}]\noutputs: {a: $a.output}\n")
    assert 'the key "a" is there twice' in home.run("workflow", "test", "w", "--input", '{"a": 1, "a": 2}', code=2).err


def test_a_database_that_is_gone_or_damaged_is_told(home):
    """And nothing new takes its place: the log beside it may have what it lacks."""
    home.step("def main():\n    return 1\n")
    home.record("s")
    database = home.path / "viat.db"
    whole = database.read_bytes()
    for there in (b"", None):
        database.write_bytes(there) if there is not None else database.unlink()
        assert "restore it" in home.run("run", "list", code=4).err
        assert not database.exists() or database.stat().st_size == 0
    database.write_bytes(whole[:-8192] + b"\xff" * 8192)
    doctor = home.run("doctor")
    assert doctor.code == 4 and "damaged" in doctor.out
