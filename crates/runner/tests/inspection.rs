//! What is known of a script before it ever runs, and which Python is started.

mod support;

use serde_json::json;
use support::python;
use viat_runner::script::{Interpreter, ParameterKind, inspect};

#[test]
fn the_signature_of_main_is_read() {
    let source = "\"\"\"Module.\"\"\"\nimport nowhere_to_be_found\nasync def main(a: int, /, b: 'list[str]' = [1, 2], *, c=None, **rest: str) -> dict:\n    \"\"\"Does it.\"\"\"\n";
    let info = inspect(&python(), source).unwrap();
    assert!(info.is_async && info.signature_known);
    assert_eq!((info.doc.as_deref(), info.returns.as_deref()), (Some("Does it."), Some("dict")));
    let shown: Vec<_> = info.parameters.iter().map(|each| (each.name.as_str(), each.annotation.as_deref(), each.default.as_deref(), each.kind)).collect();
    assert_eq!(
        shown,
        [
            ("a", Some("int"), None, ParameterKind::PositionalOnly),
            ("b", Some("'list[str]'"), Some("[1, 2]"), ParameterKind::Keyword),
            ("c", None, Some("None"), ParameterKind::Keyword),
            ("rest", Some("str"), None, ParameterKind::Rest),
        ]
    );
    assert!(!inspect(&python(), "from x import y as main").unwrap().signature_known);
    assert!(!inspect(&python(), "main = lambda: 1").unwrap().signature_known);
    assert!(inspect(&python(), "if True:\n    def main(): pass").unwrap().signature_known);
}

#[test]
fn annotations_are_told_as_shapes_where_the_text_alone_tells() {
    let head =
        "import typing as t\nfrom typing import Literal, Optional as Maybe, List\nfrom enum import Enum\nclass Kind(Enum):\n    A = 1\nclass bool: pass\n";
    for (annotation, shape) in [
        ("int", json!("int")),
        ("'float'", json!("float")),
        ("None", json!("null")),
        ("list", json!({"list": "any"})),
        ("list[dict[str, int]]", json!({"list": {"dict": "int"}})),
        ("List[str]", json!({"list": "str"})),
        ("tuple[int, str]", json!({"list": "any"})),
        ("int | None", json!({"one_of": ["int", "null"]})),
        ("Maybe[str]", json!({"one_of": ["str", "null"]})),
        ("t.Union[int, str, 'list[int]']", json!({"one_of": ["int", "str", {"list": "int"}]})),
        ("Literal['a', 1, True, None]", json!({"literal": ["a", 1, true, null]})),
        ("t.Annotated[int, 'of them']", json!("int")),
        // what only running it could tell
        ("Kind", json!("any")),
        ("bool", json!("any")),
        ("int | Kind", json!("any")),
        ("Union[int, str]", json!("any")),
        ("list[Kind]", json!({"list": "any"})),
        ("t.Any", json!("any")),
        ("Literal[Kind.A]", json!("any")),
    ] {
        let info = inspect(&python(), &format!("{head}def main(a: {annotation}): pass\n")).unwrap();
        assert_eq!(info.parameters[0].shape, Some(shape), "{annotation}");
    }
    assert_eq!(inspect(&python(), "def main(a): pass\n").unwrap().parameters[0].shape, None);
}

#[test]
fn a_script_that_cannot_run_is_refused_with_its_line() {
    let refused = inspect(&python(), "def main():\n    x = (1,\n    return x\n").unwrap_err();
    assert!(refused.line == 2 && refused.snippet == "    x = (1,", "{refused:?}");
    let refused = inspect(&python(), "def main():\n  pass\nreturn 1\n").unwrap_err();
    assert!(refused.line == 3 && refused.message.contains("outside function"), "{refused:?}");
    let refused = inspect(&python(), "def man():\n  pass\n").unwrap_err();
    assert!(refused.message.contains("no function `main`"), "{refused:?}");
    assert!(inspect(&python(), "").is_err() && inspect(&python(), "def main(): \0").is_err());
    let refused = inspect(&Interpreter::at("/nowhere/python3"), "").unwrap_err();
    assert!(refused.line == 0 && refused.message.contains("/nowhere/python3"), "{refused:?}");
}

#[test]
fn the_interpreter_behind_a_shim_is_found_once() {
    let folder = tempfile::tempdir().unwrap();
    let (shim, count) = (folder.path().join("python3"), folder.path().join("count"));
    let text = format!("#!/bin/sh\necho x >> {}\nexec {} \"$@\"\n", count.display(), python().path.display());
    std::fs::write(&shim, text).unwrap();
    std::fs::set_permissions(&shim, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    for _ in 0..3 {
        let found = Interpreter::resolve(&folder.path().join("cache"), Some(&shim)).unwrap();
        assert_eq!(found, python());
    }
    assert_eq!(support::read(&count).lines().count(), 1);
    assert!(Interpreter::resolve(folder.path(), Some("/bin/false".as_ref())).is_err());
    assert!(Interpreter::resolve(folder.path(), Some("/nowhere/python3".as_ref())).is_err());
}
