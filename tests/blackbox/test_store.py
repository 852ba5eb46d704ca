"""`viat store`: a copy of a database in use, and a home that is as it was."""
from conftest import TOUCH
from served import Server, published

STEP = TOUCH + "def main(name):\n    mark(name)\n    return name\n"


def test_a_copy_made_in_use_brings_everything_back(home, tmp_path):
    home.script("step", STEP)
    published(home, "w", "steps:\n  - {id: a, script: step, args: {name: a}}\n  - {id: nap, wait: {event: go}}\noutputs: {v: $a.output}\n")
    server = Server(home)
    run = server.begin("w")
    server.reaches(run, "waiting")
    copy = tmp_path / "copy.db"
    done = home.run("store", "backup", copy, "--json", code=0)
    assert done.data()["bytes"] == copy.stat().st_size and copy.stat().st_mode & 0o077 == 0
    assert "is there" in home.run("store", "backup", copy, code=3).err or copy.exists()
    home.run("event", "send", "go", "--run", run, code=0)
    server.ended(run)
    server.end()
    assert "viat.db" in home.run("store", "restore", copy, code=3).err, "what is there is not replaced"
    for name in ("viat.db", "viat.db-wal", "viat.db-shm"):
        (home.path / name).unlink(missing_ok=True)
    home.run("store", "restore", copy, code=0)
    home.run("store", "check", code=0)
    assert home.show(run)["status"] == "waiting", "as it was"
    home.run("event", "send", "go", "--run", run, code=0)
    home.run("run", "resume", run)
    assert home.show(run)["outputs"] == {"v": "a"} and home.trace() == ["a"]


def test_what_is_no_copy_is_refused(home, tmp_path):
    fresh = tmp_path / "fresh"
    for name, text in {"empty": b"", "text": b"hello" * 1000}.items():
        (tmp_path / name).write_bytes(text)
        home.run("--home", fresh, "store", "restore", tmp_path / name, code=4)
    home.run("--home", fresh, "store", "restore", tmp_path / "nothing", code=4)
    home.step("def main():\n    return 1\n")
    home.run("store", "backup", tmp_path / "copy.db", code=0)
    whole = (tmp_path / "copy.db").read_bytes()
    (tmp_path / "cut.db").write_bytes(whole[: len(whole) // 2])
    home.run("--home", fresh, "store", "restore", tmp_path / "cut.db", code=4)
    assert not (fresh / "viat.db").exists()
    assert not (tmp_path / "nowhere").exists() and home.run("store", "backup", tmp_path / "nowhere" / "copy.db", code=4).err


def test_it_is_not_taken_for_a_copy_of_a_server_elsewhere(home, tmp_path):
    for command in (["check"], ["backup", tmp_path / "copy.db"], ["restore", tmp_path / "copy.db"]):
        assert "VIAT_URL" in home.run("store", *command, env={"VIAT_URL": "http://127.0.0.1:1"}, code=2).err
    assert not (tmp_path / "copy.db").exists()
