"""Prompts, JSON and texts that scripts ask for: kinds, versions, what a run pins, and what is said of mistakes."""
import json

import pytest

ASK = """
import viat
def main(name, kind=None):
    return viat.resource(name, kind=kind)
"""


def create(home, name, kind, text, code=0, **options):
    path = home.file(f"{name}.resource", text)
    return home.run("resource", "create", "--name", name, "--kind", kind, "--file", path, code=code, **options)


def ask(home, name, kind=None, code=0):
    home.script("ask", ASK)
    args = {"name": name} if kind is None else {"name": name, "kind": kind}
    done = home.run("script", "test", "ask", "--args", json.dumps(args), "--json")
    assert done.code == code, done
    return done.data()


def test_each_kind_gives_its_value(home):
    create(home, "greeting", "prompt", "Say hello.\n")
    create(home, "limits", "json", '{"b": 1, "a": [1.5, null, "ö"], "big": 9007199254740993}')
    create(home, "empty", "text", "")
    home.run("resource", "create", "--name", "piped", "--kind", "text", "--file", "-", stdin="a\r\nb".encode(), code=0)
    assert ask(home, "greeting", "prompt")["value"] == "Say hello.\n"
    limits = ask(home, "limits", "json")["value"]
    assert limits == {"b": 1, "a": [1.5, None, "ö"], "big": 9007199254740993} and list(limits) == ["b", "a", "big"]
    assert ask(home, "empty")["value"] == "" and ask(home, "piped")["value"] == "a\r\nb"
    rows = home.run("resource", "list", "--json", code=0).data()
    assert [(row["name"], row["kind"], row["version"]) for row in rows] == [
        ("piped", "text", 1), ("empty", "text", 1), ("limits", "json", 1), ("greeting", "prompt", 1)]
    assert [row["name"] for row in home.run("resource", "list", "--kind", "json", "--json", code=0).data()] == ["limits"]


def test_scripts_in_javascript_ask_too(home):
    create(home, "limits", "json", '{"most": 3}')
    path = home.file("j.js", """
        export default async function main(args, viat) {
          const [one, two] = await Promise.all([viat.resource("limits"), viat.resource("limits", { kind: "json" })]);
          try { await viat.resource("limits", { kind: "text" }); } catch (error) { return [one.most + two.most, error.name, error.message]; }
        }
        """)
    home.run("script", "create", "--name", "j", "--language", "javascript", "--file", path, code=0)
    assert home.run("script", "test", "j", code=0).data() == [6, "ResourceError", "resource limits is a json, not a text"]


def test_what_is_missing_or_of_another_kind_is_class_resource(home):
    create(home, "greeting", "prompt", "hello")
    for name, kind, said in [("greting", None, "there is no resource greting"), ("greeting", "json", "resource greeting is a prompt, not a json"),
                             ("greeting", "recipe", 'there is no kind "recipe" of resources; there are prompt, json, text, secret')]:
        error = ask(home, name, kind, code=1)["error"]
        assert (error["class"], error["kind"]) == ("resource", "runtime") and said in error["message"], error
    home.step("import viat\ndef main():\n    viat.resource('nope')\n", "retry: {times: 1, initial_ms: 10, factor: 1.0, max_ms: 10, jitter: false}\n")
    record = home.record("s")
    assert [row["class"] for row in record["attempts"]] == ["resource"], "never retried"
    home.step("import viat\ndef main():\n    viat.resource('greeting', kind=7)\n")
    assert "kind must be a string" in home.record("s")["error"]["message"]


@pytest.mark.parametrize("kind, text, said", [
    ("json", '{"a": 1,\n "b": }', "not JSON"), ("json", "", "not JSON"), ("json", "[99999999999999999999]", "64-bit"),
    ("json", "[" * 120 + "]" * 120, "nested deeper"), ("text", b"\xff\xfe", "not UTF-8"), ("prompt", "x" * ((16 << 20) + 1), "16777216 bytes")])
def test_bad_content_is_refused_and_nothing_is_saved(home, kind, text, said):
    assert said in create(home, "r", kind, text, code=2).err
    assert home.run("resource", "list", "--json", code=0).data() == []


def test_bad_names_and_unknown_resources(home):
    assert "cannot name a text" in create(home, "a b", "text", "x", code=2).err
    home.run("resource", "create", "--name", "a", "--kind", "recipe", "--file", "-", code=2)
    home.run("resource", "create", "--name", "a", "--kind", "text", "--file", home.files / "none", code=2)
    create(home, "greeting", "prompt", "hello")
    for command in (["show", "greetin"], ["delete", "greetin"], ["versions", "greetin"]):
        assert "did you mean greeting?" in home.run("resource", *command, code=3).err
    home.run("resource", "show", "greeting", "--version", "2", code=3)
    assert "is a prompt, not a text" in create(home, "greeting", "text", "x", code=3).err
    home.run("secret", "show", "greeting", code=3)
    home.run("secret", "delete", "greeting", code=3)


def test_every_save_is_a_version_and_versions_stay(home):
    for text in ["one", "one", "two"]:
        create(home, "r", "text", text)
    assert [row["version"] for row in home.run("resource", "versions", "r", "--json", code=0).data()] == [3, 2, 1]
    assert [home.run("resource", "show", "r", "--version", n, "--json", code=0).data()["value"] for n in (1, 2, 3)] == ["one", "one", "two"]
    shown = home.run("resource", "show", "r", code=0).out
    assert shown.startswith("text r version 3, ") and shown.endswith("\n\ntwo\n")


WAITING = """
steps:
  - {id: before, script: ask, args: {name: r}}
  - {id: go, wait: {event: go}}
  - {id: after, script: ask, args: {name: r}}
outputs: {before: $before.output, after: $after.output}
"""


def waiting_run(home, text=WAITING):
    home.script("ask", ASK)
    home.workflow("w", text)
    home.run("workflow", "publish", "w", code=0)
    run = home.run("run", "start", "w", "--json", code=0).data()["id"]
    return run


def finish(home, run):
    home.run("event", "send", "--run", run, "go", "--data", "{}", code=0)
    return home.run("run", "resume", run, "--json").data()


def test_a_run_pins_what_it_asks_for(home):
    create(home, "r", "text", "one")
    run = waiting_run(home)
    create(home, "r", "text", "two")
    home.run("resource", "delete", "r", code=0)
    record = finish(home, run)
    assert record["outputs"] == {"before": "one", "after": "one"}, record
    create(home, "r", "text", "three")
    assert home.run("resource", "versions", "r", "--json", code=0).data()[0]["version"] == 3
    new = home.run("run", "start", "w", "--json", code=0).data()["id"]
    assert finish(home, new)["outputs"] == {"before": "three", "after": "three"}


def test_what_was_created_after_the_run_began_is_not_there_for_it(home):
    run = waiting_run(home, WAITING.replace("  - {id: before, script: ask, args: {name: r}}\n", "").replace("before: $before.output, ", ""))
    create(home, "r", "text", "late")
    error = finish(home, run)["error"]
    assert error["class"] == "resource" and "created after the run began" in error["message"], error


def test_show_and_delete_say_which_scripts_name_it(home):
    create(home, "greeting", "prompt", "hello")
    home.script("uses", "import viat\ndef main():\n    return viat.resource('greeting')\n")
    home.script("other", "import viat\ndef main():\n    return viat.resource('greetings')\n")
    assert home.run("resource", "show", "greeting", "--json", code=0).data()["used_by"] == ["uses"]
    done = home.run("resource", "delete", "greeting", code=0)
    assert "script uses names it" in done.err and "runs that pin it keep their version" in done.out


def test_a_large_resource_arrives_whole(home):
    create(home, "r", "text", "0123456789" * 1_000_000)
    home.script("size", "import viat\ndef main():\n    return len(viat.resource('r'))\n")
    assert home.run("script", "test", "size", code=0).data() == 10_000_000


def test_apply_takes_a_folder_of_resources(home):
    folder = home.base / "project"
    (folder / "resources").mkdir(parents=True)
    files = {"greeting.prompt.md": "hello", "limits.json": '{"a": 1}', "terms.txt": "t", "notes.md": "n", "skipped.csv": "x"}
    for name, text in files.items():
        (folder / "resources" / name).write_text(text)
    plan = home.run("apply", folder, "--json", code=0).data()
    assert [(step["kind"], step["name"], step["action"]) for step in plan] == [
        ("resource", name, "create") for name in ("greeting", "limits", "notes", "terms")]
    assert {step["action"] for step in home.run("apply", folder, "--json", code=0).data()} == {"unchanged"}
    kinds = {row["name"]: row["kind"] for row in home.run("resource", "list", "--json", code=0).data()}
    assert kinds == {"greeting": "prompt", "limits": "json", "terms": "text", "notes": "text"}
    (folder / "resources" / "terms.txt").write_text("t2")
    assert "update    resource terms" in home.run("apply", folder, code=0).out
    (folder / "resources" / "limits.json").write_text("{")
    assert "limits.json" in home.run("apply", folder, code=2).err
    (folder / "resources" / "limits.json").write_text("{}")
    (folder / "resources" / "notes.md").rename(folder / "resources" / "notes.prompt.md")
    assert "notes is a text, not a prompt" in home.run("apply", folder, code=3).err
