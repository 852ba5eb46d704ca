"""Where a command is run: its streams, its environment, its home folder, its Python."""
import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from conftest import BINARY, PATIENCE, Home, processes_of, until

GOOD = "steps: [{id: a, script: s}]\noutputs: {v: $a.output}\n"


def ready(home):
    home.script("s", "def main():\n    print('said')\n    return 'done'\n")
    home.workflow("w", GOOD)
    return home


def shell(home, line, **more):
    return subprocess.run(["bash", "-c", line.replace("viat", str(BINARY))], env=home.env, capture_output=True, timeout=PATIENCE, cwd=home.base, **more)


# --- streams

def test_reader_that_goes_away(home):
    ready(home)
    for words in "script list", "workflow list --json", "run list", "workflow test w", "workflow test w --json", "doctor", "script show s", "--help":
        done = shell(home, f"viat {words} | head -c 0; exit ${{PIPESTATUS[0]}}")
        assert done.returncode in (0, 141) and b"panick" not in done.stderr, (words, done)
    assert {row["status"] for row in home.runs()} == {"succeeded"}


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", ">&- 2>&- <&-", ">/dev/full", "2>/dev/full"])
def test_closed_and_full_streams(home, closed):
    ready(home)
    done = shell(home, f"viat workflow test w {closed}")
    assert b"panick" not in done.stderr + done.stdout
    if ">" in closed and "2>" not in closed:
        assert done.returncode in (0, 2, 4), done
    else:
        assert done.returncode == 0, done
    rows = home.runs()
    assert [row["status"] for row in rows] == ["succeeded"], "what is printed has no say in what is done"
    home.run("run", "show", rows[0]["id"], code=0)
    home.run("doctor", code=0)


def test_closed_streams_do_not_harm_the_store(home):
    """With 0, 1 and 2 closed the first files opened get their numbers: what is printed must not end up in them."""
    ready(home)
    for words in "run list", "script list --json", "workflow test w --json", "doctor", "run show x", "nonsense":
        shell(home, f"viat {words} >&- 2>&- <&-")
    home.run("run", "list", code=0)
    assert home.record("w")["status"] == "succeeded"


def test_no_answer_is_a_failure(home):
    """A full disk under stdout must not look like success."""
    ready(home)
    assert shell(home, "viat workflow list --json >/dev/full").returncode != 0


def test_stdin_is_left_alone_unless_asked_for(home):
    ready(home)
    done = shell(home, "printf 'one\\ntwo\\n' | (viat workflow test w >/dev/null; cat)")
    assert done.stdout == b"one\ntwo\n"


def test_scripts_do_not_read_the_terminal(home):
    home.step("import sys\ndef main():\n    return sys.stdin.read()\n")
    assert home.record("s", stdin=b"secret words")["outputs"] == {"v": ""}


# --- environment

def test_almost_no_environment(home):
    ready(home)
    for env in ({"PATH": home.env["PATH"]}, {"PATH": home.env["PATH"], "HOME": "/nonexistent"}, {"PATH": home.env["PATH"], "LC_ALL": "C", "LANG": "tr_TR"}):
        env["VIAT_HOME"] = str(home.path)
        done = subprocess.run([BINARY, "workflow", "test", "w"], env=env, capture_output=True, timeout=PATIENCE, cwd="/")
        assert done.returncode == 0 and done.stdout == b'{"v":"done"}\n', done


def test_scripts_see_a_clean_environment(home):
    home.step("import os\ndef main():\n    return sorted(os.environ)\n")
    seen = set(home.record("s", env={"SECRET_KEY": "x", "VIAT_TOKEN": "t", "PYTHONPATH": "/x", "PYTHONSTARTUP": "/x", "LD_PRELOAD": ""})["outputs"]["v"])
    assert "TRACE" in seen and "PATH" in seen
    assert not seen & {"SECRET_KEY", "VIAT_TOKEN", "VIAT_HOME", "PYTHONPATH", "PYTHONSTARTUP", "NO_COLOR", "PYTEST_CURRENT_TEST"}, seen


@pytest.mark.parametrize("names,expected", [("A,B", ["A", "B"]), (" A , ,B,", ["A", "B"]), ("NONE", []), ("", []), ("A=1", []), ("*", []), ("É", ["É"])])
def test_variables_that_are_let_through(home, names, expected):
    home.step("import os\ndef main():\n    return [name for name in ('A', 'B', 'C', 'É') if name in os.environ]\n")
    assert home.record("s", env={"A": "1", "B": "ü", "C": "3", "É": "4", "VIAT_SCRIPT_ENV": names})["outputs"]["v"] == expected


def test_modules_beside_the_command_do_not_shadow_the_library(home):
    (home.base / "viat.py").write_text("raise SystemExit('hijacked')\n")
    (home.base / "json.py").write_text("raise SystemExit('hijacked')\n")
    home.step("import json, viat\ndef main():\n    return json.dumps(viat.context.step)\n")
    assert home.record("s", env={"PYTHONPATH": str(home.base)})["outputs"] == {"v": '"s"'}


# --- homes

@pytest.mark.parametrize("name", ["with space", "ünïcode-雪-😀", "quote'\"$HOME`id`", "-dash", "a?b#c%20d", "new\nline", "deep/" * 20 + "end", "n" * 200, "dot.", "*"])
def test_odd_homes(tmp_path, name):
    home = ready(Home(tmp_path, tmp_path / name))
    run = home.record("w")
    assert run["outputs"] == {"v": "done"} and home.log(run["id"]) == "said\n"
    home.run("doctor", code=0)
    assert home.run("--home", home.path, "run", "list", "--json", env={"VIAT_HOME": None}, code=0).data()[0]["id"] == run["id"]


def test_home_that_is_no_unicode(tmp_path):
    home = ready(Home(tmp_path, os.fsdecode(bytes(tmp_path) + b"/caf\xe9")))
    assert home.record("w")["outputs"] == {"v": "done"}


def test_home_longer_than_a_path_can_be(tmp_path):
    home = Home(tmp_path, tmp_path / ("n" * 200 + "/") / "/".join(["n" * 200] * 21))
    done = home.run("script", "list")
    assert done.code == 4 and done.err.strip(), done


def test_default_home_is_in_the_working_folder(home):
    ready(home)
    for folder in home.base / "one", home.base / "two":
        folder.mkdir()
        home.run("run", "list", "--json", env={"VIAT_HOME": None}, cwd=folder, code=0)
        assert (folder / ".viat").is_dir()


def test_relative_home(home):
    relative = {"VIAT_HOME": "rel/home"}
    home.run("script", "create", "--name", "s", "--language", "python", "--file", home.file("s.py", "import os\ndef main():\n    open('x', 'w')\n    return os.getcwd()\n"), env=relative, code=0)
    home.run("workflow", "create", "w", "--file", home.file("w.yaml", GOOD), env=relative, code=0)
    record = home.record("w", env=relative)
    assert record["outputs"]["v"].startswith(str(home.base / "rel/home"))
    assert list((home.base / "rel/home/scratch").iterdir()) == [], "a worker's folder goes with it"
    assert not list((home.base / "rel").rglob("rel"))


def test_file_in_place_of_the_home(home):
    home.path.write_text("mine")
    for words in ["script", "list"], ["run", "list", "--json"], ["doctor"], ["workflow", "test", "w"]:
        done = home.run(*words)
        assert done.code == 4 and "home" in done.err + done.out, done
    assert home.path.read_text() == "mine"


@pytest.mark.parametrize("inside", ["viat.db", "owners", "logs", "scratch", "cache"])
def test_something_in_the_way_within_the_home(home, inside):
    ready(home)
    where = home.path / inside
    if where.is_dir():
        shutil.rmtree(where)
        where.write_text("in the way")
    else:
        home.path.joinpath(inside).unlink(missing_ok=True)
        where.mkdir() if inside == "viat.db" else where.write_text("in the way")
    done = home.run("workflow", "test", "w")
    assert done.code in (0, 1, 2, 4) and (done.code == 0 or done.err.strip()), done


@pytest.mark.parametrize("content", [b"", b"not a database at all, but long enough to look at" * 100, b"SQLite format 3\0" + b"\xff" * 5000])
def test_database_that_is_none(home, content):
    home.path.mkdir()
    (home.path / "viat.db").write_bytes(content)
    done = home.run("run", "list")
    assert done.code == (0 if content == b"" else 4), done
    if content:
        assert (home.path / "viat.db").read_bytes() == content, "what is not ours is not touched"


def test_another_programs_database(home):
    import sqlite3
    home.path.mkdir()
    with sqlite3.connect(home.path / "viat.db") as db:
        db.execute("CREATE TABLE theirs (x)")
        db.execute("PRAGMA application_id=1234")
    before = (home.path / "viat.db").read_bytes()
    done = home.run("script", "list", code=4)
    assert "viat.db" in done.err
    assert (home.path / "viat.db").read_bytes() == before


@pytest.fixture
def tiny(tmp_path):
    """Two mebibytes of file system."""
    place = tmp_path / "tiny"
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", place], capture_output=True).returncode:
        pytest.skip("mounting is not permitted here")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def fill(place):
    with open(place / "ballast", "ab", buffering=0) as ballast:
        for size in 65536, 4096, 1:
            try:
                while True:
                    ballast.write(b"x" * size)
            except OSError:
                pass


def test_full_disk(tmp_path, tiny):
    home = Home(tmp_path, tiny / "home")
    ready(home)
    kept = home.record("w")["id"]
    fill(tiny)
    for words in (["workflow", "create", "w", "--file", home.files / "w.yaml"], ["script", "create", "--name", "s", "--language", "python", "--file", home.files / "s.py"]):
        for _ in range(3):
            done = home.run(*words)
            assert done.code in (0, 4), done
            if done.code == 4:
                assert "full" in done.err or "space" in done.err, done
    done = home.run("workflow", "test", "w")
    assert done.code in (0, 4) and done.err.strip(), done
    home.run("doctor")
    (tiny / "ballast").unlink()
    assert home.show(kept)["status"] == "succeeded"
    assert home.record("w")["outputs"] == {"v": "done"}
    assert {row["status"] for row in home.runs()} <= {"succeeded", "running", "failed"}


def test_home_cannot_be_made_on_a_full_disk(tmp_path, tiny):
    fill(tiny)
    done = Home(tmp_path, tiny / "home").run("script", "list")
    assert done.code == 4 and ("full" in done.err or "space" in done.err), done


def test_disk_that_fills_up_during_a_run_and_is_emptied_again(tmp_path, tiny):
    """The engine says that it waits for space and goes on when there is some; nothing runs twice."""
    home = Home(tmp_path, tiny / "home")
    home.script("big", "import os\ndef main(n):\n    fd = os.open(os.environ['TRACE'], os.O_APPEND | os.O_CREAT | os.O_WRONLY)\n    os.write(fd, f'{n}\\n'.encode())\n    os.close(fd)\n    return os.urandom(30000).hex()\n")
    home.workflow("w", "steps:\n" + "".join(f"- {{id: b{n}, script: big, args: {{n: {n}}}}}\n" for n in range(12)))
    fill(tiny)
    with open(tiny / "ballast", "r+b") as ballast:
        ballast.truncate(os.path.getsize(tiny / "ballast") - 300_000)
    process = home.start("workflow", "test", "w")
    until(lambda: process.poll() is not None or len(home.trace()) >= 2, "the run begins")
    try:
        process.wait(2)
    except subprocess.TimeoutExpired:
        pass
    (tiny / "ballast").unlink()
    out, err = process.communicate(timeout=PATIENCE)
    assert home.trace() == [str(n) for n in range(len(home.trace()))], "in order, each once"
    assert process.returncode in (0, 4), (out, err)
    home.run("run", "list", code=0)
    if process.returncode == 0:
        assert len(home.trace()) == 12


def test_read_only_home(tmp_path, tiny):
    home = Home(tmp_path, tiny / "home")
    ready(home)
    subprocess.run(["mount", "-o", "remount,ro", tiny], check=True)
    for words in ["script", "list"], ["workflow", "test", "w"], ["workflow", "create", "w", "--file", home.files / "w.yaml"], ["doctor"]:
        done = home.run(*words)
        assert done.code == 4 and ("written" in done.err + done.out or "read-only" in done.err + done.out), done
    subprocess.run(["mount", "-o", "remount,rw", tiny], check=True)
    home.record("w")


def test_home_that_cannot_be_made(home):
    for path in "/proc/viat", "/dev/null/home", "/sys/viat":
        done = home.run("--home", path, "script", "list", env={"VIAT_HOME": None})
        assert done.code == 4 and path.split("/")[1] in done.err, done


def test_empty_home_is_refused_or_the_default(home):
    for words in ["--home", "", "script", "list"], ["script", "list"]:
        done = home.run(*words, env={"VIAT_HOME": ""})
        assert done.code in (0, 2, 4), done
    assert not pathlib.Path("viat.db").exists() and not (home.base / "viat.db").exists()


def test_working_folder_that_is_gone(home):
    ready(home)
    done = shell(home, "mkdir gone && cd gone && rmdir ../gone && viat workflow test w")
    assert (done.returncode, done.stdout) == (0, b'{"v":"done"}\n'), done


def test_home_that_is_a_link_to_nowhere(home):
    home.path.symlink_to(home.base / "nowhere")
    done = home.run("script", "list")
    assert done.code in (0, 4) and "a file is in the way" not in done.err, done


def test_home_through_a_link(home):
    ready(home)
    (home.base / "link").symlink_to(home.path)
    home.run("--home", home.base / "link", "workflow", "test", "w", env={"VIAT_HOME": None}, code=0)
    assert len(home.runs()) == 1


@pytest.mark.parametrize("limits", ["-n 8", "-n 12", "-n 16", "-n 24", "-n 40", "-v 200000", "-f 50", "-s 256"])
def test_under_tight_limits(home, limits):
    ready(home)
    done = shell(home, f"ulimit {limits}; viat workflow test w")
    assert done.returncode and done.stdout == b"" or done.stdout == b'{"v":"done"}\n', done
    assert b"panick" not in done.stderr
    for row in home.runs():
        if row["status"] == "running":
            home.run("run", "resume", row["id"])
    assert all(row["ended_at"] for row in home.runs())


def test_home_is_the_owners_alone(home):
    ready(home)
    home.record("w")
    for path in [home.path, home.path / "viat.db", *home.path.glob("viat.db-*")]:
        assert path.stat().st_mode & 0o077 == 0, path


def test_nothing_is_left_in_the_home(home):
    ready(home)
    for _ in range(3):
        home.record("w")
    assert list((home.path / "scratch").iterdir()) == []
    assert list((home.path / "owners").iterdir()) == []


# --- Python

@pytest.mark.parametrize("env", [{"PATH": "/nonexistent"}, {"PATH": ""}, {"PATH": None}, {"VIAT_PYTHON": "/nonexistent"}, {"VIAT_PYTHON": "/bin/true"},
                                 {"VIAT_PYTHON": "/bin/false"}, {"VIAT_PYTHON": "/etc/passwd"}, {"VIAT_PYTHON": "/"}, {"VIAT_PYTHON": "/bin/cat"}])
def test_no_python(home, env):
    ready(home)
    done = home.run("workflow", "test", "w", env=env)
    assert done.code not in (0, 1) and "ython" in done.err and done.out == "", done
    assert home.runs() == [], "no run is begun that cannot run"
    done = home.run("script", "create", "--name", "t", "--language", "python", "--file", home.files / "s.py", env=env)
    assert done.code != 0 and "ython" in done.err, done
    for words in ["run", "list"], ["script", "list"], ["workflow", "show", "w"], ["workflow", "validate", "--file", home.files / "w.yaml"]:
        home.run(*words, env=env, code=0)
    doctor = home.run("doctor", env=env)
    assert doctor.code == 4 and "FAIL" in doctor.out and "VIAT_PYTHON" in doctor.out, doctor


def old_pythons():
    """Interpreters below 3.9 that happen to be here, as pyenv keeps them or on PATH."""
    places = [*pathlib.Path.home().glob(".pyenv/versions/*/bin/python"), *(pathlib.Path(found) for name in ("python2", "python3.6", "python3.7", "python3.8") if (found := shutil.which(name)))]
    for place in places:
        asked = subprocess.run([place, "-c", "import sys; print(sys.version_info < (3, 9))"], capture_output=True)
        if asked.stdout.strip() == b"True":
            yield place


def test_python_that_is_too_old(home):
    ready(home)
    found = list(old_pythons())
    if not found:
        pytest.skip("no old Python is here")
    for python in found:
        doctor = home.run("doctor", env={"VIAT_PYTHON": python})
        assert doctor.code == 4 and "3.9" in doctor.out, doctor
    for python in found:
        before = len(home.runs())
        for words in ["workflow", "test", "w"], ["script", "create", "--name", "t", "--language", "python", "--file", home.files / "s.py"]:
            done = home.run(*words, env={"VIAT_PYTHON": python})
            assert done.code not in (0, 1) and "3.9" in done.err and "attribute" not in done.err, done
        assert len(home.runs()) == before


def test_interpreter_by_its_bare_name(home):
    ready(home)
    home.run("workflow", "test", "w", env={"VIAT_PYTHON": "python3"}, code=0)


def test_missing_interpreter_is_named(home):
    ready(home)
    done = home.run("workflow", "test", "w", env={"VIAT_PYTHON": "/nonexistent/python3"})
    assert done.code == 2 and "/nonexistent/python3" in done.err, done


def test_interpreter_that_goes_away_after_it_was_found(home):
    """What is remembered about the interpreter is forgotten when it is gone."""
    link = home.base / "python3"
    link.symlink_to(sys.executable)
    ready(home)
    home.run("workflow", "test", "w", env={"VIAT_PYTHON": link}, code=0)
    link.unlink()
    done = home.run("workflow", "test", "w", env={"VIAT_PYTHON": link})
    assert done.code not in (0, 1) and "ython" in done.err, done


def test_workflow_without_scripts_needs_no_python(home):
    home.workflow("w", "steps: [{id: a, set: 1}]\noutputs: {v: $a.output}\n")
    done = home.run("workflow", "test", "w", env={"VIAT_PYTHON": "/nonexistent"})
    assert done.code == 0 or "ython" in done.err


def test_a_broken_cache_is_no_trouble(home):
    ready(home)
    for content in b"", b"\n", os.urandom(3000), b"x" * 10:
        for cached in (home.path / "cache").iterdir():
            cached.write_bytes(content)
        done = home.run("workflow", "test", "w")
        assert done.code == 0, (content, done)


def test_many_homes_many_processes_leave_nobody(home):
    ready(home)
    for _ in range(5):
        home.record("w")
    assert processes_of(home) == []


def test_json_errors_are_one_object(home):
    ready(home)
    for words in ["script", "show", "x"], ["workflow", "test", "w", "--input", "{"], ["run", "list", "--limit", "0"]:
        done = home.run(*words, "--json")
        assert done.out == "" and json.loads(done.err)["error"]["exit"] == done.code, done
