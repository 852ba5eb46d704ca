"""Environments through the whole binary: built in the background, waited for, failed, taken up after kill -9."""
import os
import pathlib
import shutil
import signal
import sys
import time
import zipfile

import pytest

from conftest import ROOT, until

# Stands in for uv: finds thing==1.0, and waits at its installation for as long as a file is there.
UV = """#!/bin/sh
here=$(dirname "$0")
for last; do :; done
case "$1 $2" in
"pip compile") echo thing==1.0 ;;
"venv --quiet") mkdir -p "$last/bin" && ln -s {python} "$last/bin/python" ;;
"pip install") touch "$here/installing"; while [ -e "$here/hold" ]; do sleep 0.02; done; touch "$(dirname "$last")/bin/installed" ;;
esac
"""
NEEDY = "# /// script\n# dependencies = ['thing']\n# ///\ndef main():\n    return 7\n"


@pytest.fixture
def uv(home):
    file = home.file("uv", UV.format(python=sys.executable))
    file.chmod(0o755)
    home.env["VIAT_UV"] = str(file)
    yield file
    (file.parent / "hold").unlink(missing_ok=True)


def states(home):
    return [row["state"] for row in home.run("env", "list", "--json", code=0).data()]


def builders(home):
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"work" in words and str(home.path).encode() in words:
                found.append(int(entry.name))
    return found


def test_the_build_goes_on_in_the_background_and_what_needs_it_says_so(home, uv):
    (uv.parent / "hold").touch()
    home.step(NEEDY)
    assert states(home) == ["building"]
    record = home.record("s")
    assert record["error"]["class"] == "environment_not_ready" and "viat env build s" in record["error"]["message"], record
    assert [each["decision"]["reason"] for each in record["attempts"]] == ["not_retryable"]
    (uv.parent / "hold").unlink()
    assert "is ready" in home.run("env", "build", "s", code=0).out  # waits for the one at work
    assert home.record("s")["outputs"] == {"v": 7}
    assert "thing==1.0" in home.run("env", "show", "s", code=0).out
    # the same dependencies in another script: nothing to build
    assert "environment is ready" in home.script("other", NEEDY + "# other\n").err
    assert [row["scripts"] for row in home.run("env", "list", "--json", code=0).data()] == [["other", "s"]]


def test_a_builder_killed_leaves_no_half_environment_and_is_taken_up(home, uv):
    (uv.parent / "hold").touch()
    home.step(NEEDY)
    until((uv.parent / "installing").exists, "it is installing")
    for pid in builders(home):
        os.kill(pid, signal.SIGKILL)
    until(lambda: not builders(home), "the builder is dead")
    folder = home.path / "environments"
    assert sorted(each.name.split("-")[0] for each in folder.iterdir()) == ["building", "requests"]
    assert states(home) == ["building"]
    (uv.parent / "hold").unlink()
    assert home.record("s")["error"]["class"] == "environment_not_ready"  # this engine has it built again
    until(lambda: states(home) == ["ready"], "it was taken up")
    assert home.record("s")["outputs"] == {"v": 7}
    assert sorted(len(each.name) for each in folder.iterdir()) == [8, 32]


def test_wait_says_what_came_of_it(home, uv):
    done = home.run("script", "create", "--name", "a", "--language", "python", "--file", home.file("a.py", NEEDY), "--wait", "--json", code=0)
    assert done.data()["environment"]["state"] == "ready"
    uv.write_text("#!/bin/sh\necho 'no such thing' >&2\nexit 1\n")
    other = home.file("b.py", NEEDY.replace("thing", "nothing"))
    done = home.run("script", "create", "--name", "b", "--language", "python", "--file", other, "--wait", code=2)
    assert "script b version 1 is saved" in done.err and "no such thing" in done.err and "viat env build b" in done.err
    done = home.run("env", "build", "--json", code=2)
    assert sorted(each["state"] for each in done.data()) == ["failed", "ready"]
    assert "needs no environment" in (home.script("plain", "def main(): pass\n"), home.run("env", "show", "plain", code=3))[1].err


def real_uv():
    return shutil.which("uv") or shutil.which("uv", path=f"{ROOT / 'target/venv/bin'}:{pathlib.Path(sys.executable).parent}") or os.environ.get("VIAT_UV")


@pytest.mark.skipif(real_uv() is None, reason="no uv: cargo xtask setup installs it")
def test_a_real_package(home):
    home.env["VIAT_UV"] = real_uv()
    wheel = home.files / "greet-1.2-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("greet.py", "def hello(name):\n    return f'hello {name}'\n")
        archive.writestr("greet-1.2.dist-info/METADATA", "Metadata-Version: 2.1\nName: greet\nVersion: 1.2\n")
        archive.writestr("greet-1.2.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr("greet-1.2.dist-info/RECORD", "greet.py,,\ngreet-1.2.dist-info/METADATA,,\ngreet-1.2.dist-info/WHEEL,,\ngreet-1.2.dist-info/RECORD,,\n")
    text = f"# /// script\n# dependencies = ['greet @ file://{wheel}']\n# ///\nimport greet\ndef main():\n    return greet.hello('you')\n"
    file = home.file("s.py", text)
    home.run("script", "create", "--name", "s", "--language", "python", "--file", file, "--wait", code=0)
    home.workflow("s", "steps: [{id: s, script: s}]\noutputs: {v: $s.output}\n")
    assert home.record("s")["outputs"] == {"v": "hello you"}
    shown = home.run("env", "show", "s", "--json", code=0).data()
    assert "greet @ file://" in shown["lock"] and "--hash=sha256:" in shown["lock"]
