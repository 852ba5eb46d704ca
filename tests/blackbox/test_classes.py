"""Each class of failure by a real cause, in each language where it can occur: its kind, and whether it is tried again, as docs/failure.md says."""
import os
import pathlib
import re
import shutil
import signal
import sys

import pytest

from conftest import ROOT, nobody_left, processes_of, until
from dialects import ALL, missing
from remote import Remote
from served import Server

LANGUAGES = ["python", "javascript", "shell", "http"]
RETRY = "retry: {times: 1, initial_ms: 10, factor: 1.0, max_ms: 10, jitter: false}"
# Where a class cannot occur, and why. `orchestration` comes before any script.
CANNOT = {
    ("user", "http"): "a response is no refusal; what the template does not expect is an exception",
    ("annotation", "shell"): "a shell script takes any arguments",
    ("resource", "http"): "it can neither defer nor use resources",
    ("environment_not_ready", "shell"): "it has no dependencies: refused when it is created",
    ("environment_not_ready", "http"): "it has no dependencies: refused when it is created",
}


def promised():
    """Class to kind and whether it is retried, read from the table in docs/failure.md."""
    text = (ROOT / "docs/failure.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| [^|]+ \| `(\w+)` \| (yes|never) \|$", text, re.MULTILINE)
    return {name: (kind, retried == "yes") for name, kind, retried in rows}


class Place:
    """A home, a language, and what `http` scripts talk to."""

    def __init__(self, home, dialect, remote):
        self.home, self.dialect, self.remote = home, dialect, remote

    def make(self, text, more="", args="{}", settings=()):
        self.dialect.create(self.home, "s", text, settings, base=self.remote.base)
        self.home.workflow("w", f"steps: [{{id: s, script: s, args: {args}, {RETRY}{more}}}]\n")
        self.home.run("workflow", "publish", "w", code=0)

    def own(self, what, **parts):
        """The record of a run of a script that every dialect has."""
        self.make(getattr(self.dialect, what), **parts)
        return self.home.record("w")

    def of(self, texts, **parts):
        self.make(texts[self.dialect.name], **parts)
        return self.home.record("w")


def broken(place):
    if place.dialect.name != "http":
        return place.of({"python": "import os\ndef main():\n    os.kill(os.getpid(), 9)\n",
                         "javascript": "export default () => { process.kill(process.pid, 'SIGKILL'); return new Promise(() => {}); };\n",
                         "shell": "kill -9 $$\n"})
    # viat's own worker makes the request: somebody else has to kill it
    place.make(place.dialect.hang)
    server = Server(place.home)
    run = server.begin("w")
    for attempt in (1, 2):
        until(lambda: len(place.remote.asked) == attempt, "it asks")
        worker, = [pid for pid, command in processes_of(place.home) if "--worker http" in command]
        os.kill(worker, signal.SIGKILL)
    return ended(server, run)


def ended(server, run):
    record = server.ended(run)
    server.end()
    return record


def no_worker(place):
    place.make(place.dialect.echo, args="{value: {}}")
    # no working directory can be made
    (place.home.path / "scratch").touch()
    return place.home.record("w")


def crowded(place, settings):
    """Another run has the only worker until this one has failed."""
    file = place.home.base / "go on"
    place.make(place.dialect.hold, args=f"{{file: '{file}'}}", settings=["[tool.viat]", f"pool = {{max = 1, {settings}}}"])
    server = Server(place.home)
    first = server.begin("w")
    until(lambda: [pool["busy"] for pool in server.ask("GET", "/api/v1/pools").data()] == [1], "the worker is busy")
    record = server.ended(server.begin("w"))
    file.touch()
    place.remote.go.set()
    assert server.ended(first)["status"] == "succeeded"
    server.end()
    return record


def unfit(place):
    if place.dialect.name == "javascript":
        return place.own("echo", args="{value: 9007199254740993}")
    return place.own("echo")


def unresourced(place):
    return place.of({"python": "import viat\ndef main():\n    viat.resource('none')\n",
                     "javascript": "export default async (args, viat) => { await viat.resource('none'); };\n",
                     "shell": place.dialect.defer})


def unbuilt(place):
    tool = place.home.file("tool", "#!/bin/sh\nexit 1\n")
    tool.chmod(0o755)
    place.home.env.update(VIAT_UV=str(tool), VIAT_NPM=str(tool))
    needs = {"python": "dependencies = ['thing']", "javascript": "dependencies = {thing = '1'}"}
    return place.own("echo", args="{value: {}}", settings=[needs[place.dialect.name]])


CAUSES = {
    "transport": lambda place: place.own("transient"),
    "timeout": lambda place: place.own("hang", more=", timeout: PT0.3S"),
    "script_broken": broken,
    "pool_spawn_failed": no_worker,
    "queue_full": lambda place: crowded(place, "queue = 0"),
    "queue_wait_timeout": lambda place: crowded(place, "queue_wait = '50ms'"),
    "user": lambda place: place.own("refuse"),
    "exception": lambda place: place.own("throw"),
    "annotation": unfit,
    "invalid_output": lambda place: place.own("bad"),
    "resource": unresourced,
    "environment_not_ready": unbuilt,
}


@pytest.fixture
def remote():
    remote = Remote()
    yield remote
    remote.end()


def test_every_class_is_here():
    assert set(promised()) == {*CAUSES, "orchestration"}


@pytest.mark.parametrize("name, language", [(name, language) for name in CAUSES for language in LANGUAGES if (name, language) not in CANNOT])
def test_a_class_has_its_kind_and_is_retried_or_not(home, remote, name, language):
    if missing(language):
        pytest.skip(missing(language))
    record = CAUSES[name](Place(home, ALL[language], remote))
    kind, retried = promised()[name]
    attempts = record["attempts"]
    assert [each["class"] for each in attempts] == [name] * (2 if retried else 1), record
    assert {each["kind"] for each in attempts} == {kind}
    assert attempts[-1]["decision"] == {"retry": False, "reason": "exhausted" if retried else "not_retryable"}
    error = record["error"]
    assert (record["status"], error["class"], error["kind"], error["step"], error["attempt"]) == ("failed", name, kind, "s", len(attempts)), record
    assert error["message"]
    nobody_left(home)


@pytest.mark.parametrize("language", ["shell", "http"])
def test_what_can_have_no_dependencies_is_refused_with_them(home, language):
    done = ALL[language].create(home, "s", ALL[language].echo, ["dependencies = ['thing']"], code=2, base="http://127.0.0.1")
    assert f"a script in {language} has no dependencies" in done.err


@pytest.mark.parametrize("language", ["python", "javascript", "shell"])
def test_an_interpreter_that_went_away(home, remote, serve, language):
    if missing(language):
        pytest.skip(missing(language))
    folder = home.base / "bin"
    folder.mkdir()
    for tool in ("python3", "node", "sh"):
        found = sys.executable if tool == "python3" else shutil.which(tool)
        if found:
            (folder / tool).symlink_to(pathlib.Path(found).resolve())
    home.env["PATH"] = str(folder)
    Place(home, ALL[language], remote).make(ALL[language].echo, args="{value: {}}")
    server = serve(home)
    shutil.rmtree(folder)
    assert server.ended(server.begin("w"))["error"]["class"] == "pool_spawn_failed"


@pytest.mark.parametrize("language", LANGUAGES)
def test_orchestration_is_nobodys_script(home, remote, language):
    if missing(language):
        pytest.skip(missing(language))
    place = Place(home, ALL[language], remote)
    record = place.own("heed", args='{file: "${ string(1 / 0) }"}')
    assert (record["error"]["class"], record["error"]["kind"], record["attempts"]) == ("orchestration", "runtime", [])
    assert remote.asked == []
