//! Templates as they are lowered, and the definition as a whole.

use serde_json::{Value, json};
use viat_dialect::{Names, Style, compile};
use viat_engine::ir::{Definition, Op, Template};

fn compiled(text: &str) -> Definition {
    let names = Names { scripts: vec!["s".into()], workflows: vec![] };
    let result = compile("w.yaml", text.as_bytes(), &names);
    result.definition.clone().unwrap_or_else(|| panic!("{text}\n{}", result.rendered(Style::Plain)))
}

fn template(yaml: &str) -> Template {
    match compiled(&format!("inputs: {{o: {{}}, n: integer}}\nsteps:\n  - id: a\n    set: {yaml}\n")).regions.remove(0).nodes.remove(0).op {
        Op::Set(template) => template,
        other => panic!("{other:?}"),
    }
}

fn shown(yaml: &str) -> Value {
    serde_json::to_value(template(yaml)).expect(yaml)
}

#[test]
fn literals_collapse_and_keep_their_types() {
    for (yaml, wanted) in [
        ("$$inputs.o", json!("$inputs.o")),
        ("$5.00", json!("$5.00")),
        ("\"cost: $\"", json!("cost: $")),
        ("$", json!("$")),
        ("$inputs.o items", json!("$inputs.o items")),
        ("see $inputs.o", json!("see $inputs.o")),
        ("$${ x }", json!("${ x }")),
        ("a $${ x } b", json!("a ${ x } b")),
        ("a $$ b", json!("a $$ b")),
        ("$$", json!("$")),
        ("$$$", json!("$$")),
        ("{b: 1, a: [2.0, yes, null, ~]}", json!({"b": 1, "a": [2.0, "yes", null, null]})),
        ("0o17", json!(15)),
        ("{$a: 1}", json!({"$a": 1})),
        ("\"\"", json!("")),
        ("1e3", json!(1000.0)),
        ("{on: 1, 1: 2, true: 3}", json!({"on": 1, "1": 2, "true": 3})),
        ("|\n      line\n      two\n", json!("line\ntwo\n")),
        ("!!str 12", json!("12")),
    ] {
        assert_eq!(shown(yaml), json!({ "literal": wanted }), "{yaml}");
    }
    assert_eq!(serde_json::to_string(&shown("{b: 1, a: 2.0}")).unwrap(), r#"{"literal":{"b":1,"a":2.0}}"#);
}

#[test]
fn references_expressions_and_text() {
    let cel = |text: &str| json!({"language": "cel", "text": text});
    assert_eq!(shown("$inputs.o.items[1].name?")["reference"]["path"].as_array().unwrap().len(), 4);
    assert_eq!(shown("${ inputs.n > 1 }"), json!({ "expression": cel("inputs.n > 1") }));
    assert_eq!(shown("\"${ '}' + \\\"}\\\" }\""), json!({ "expression": cel("'}' + \"}\"") }));
    assert_eq!(shown("\"${ {'a': {}} }\""), json!({ "expression": cel("{'a': {}}") }));
    assert_eq!(
        shown("n=${ inputs.n } of ${ 2 }!"),
        json!({"text": [{"text": "n="}, {"expression": cel("inputs.n")}, {"text": " of "}, {"expression": cel("2")}, {"text": "!"}]})
    );
    assert_eq!(shown("$$${inputs.n}"), json!({"text": [{"text": "$"}, {"expression": cel("inputs.n")}]}));
    assert_eq!(shown("\"${1}${2}\""), json!({"text": [{"expression": cel("1")}, {"expression": cel("2")}]}));
    assert_eq!(shown("[1, $inputs.n]")["list"][0], json!({"literal": 1}));
    let map = shown("{z: 1, a: $inputs.n}");
    assert_eq!((&map["map"][0][0], &map["map"][1][0]), (&json!("z"), &json!("a")));
}

#[test]
fn aliases_expand() {
    assert_eq!(shown("[&x {k: 1}, *x, *x]"), json!({"literal": [{"k": 1}, {"k": 1}, {"k": 1}]}));
}

#[test]
fn a_whole_definition() {
    let definition = compiled(
        "description: all of it\ntimeout: PT1M\ninputs:\n  name: string\n  count: {type: integer, minimum: 1, default: 3}\n  note: {type: string, required: false}\nsteps:\n  \
         - id: one\n    script: s\n    args: {n: $inputs.count, who: \"${ inputs.name + '!' }\"}\n    retry: {times: 2, initial_ms: 10, factor: 1, max_ms: 20}\n    timeout: PT0.5S\n    idempotent: true\n    \
         on_error:\n      catch:\n        - {id: saved, set: $_error.code}\n  - id: two\n    if: ${ inputs.count > 1 }\n    then: [{id: t, set: 1}]\n    else: [{id: e, set: 2}]\noutputs: {v: $two.output, w: fixed}\n",
    );
    let value = serde_json::to_value(&definition).unwrap();
    assert_eq!(value["timeout_ms"], 60_000);
    assert_eq!(
        value["inputs"],
        json!([
            {"name": "name", "schema": {"type": "string"}, "required": true},
            {"name": "count", "schema": {"type": "integer", "minimum": 1}, "default": 3, "required": false},
            {"name": "note", "schema": {"type": "string"}, "required": false},
        ])
    );
    let one = &value["regions"][0]["nodes"][0];
    assert_eq!(one["next"], 1);
    assert_eq!(one["policy"]["retry"], json!([{"matches": "retryable", "times": 2, "initial_ms": 10, "factor": 1.0, "max_ms": 20, "jitter": true}]));
    assert_eq!(one["policy"]["recover"], json!([{"matches": "any", "then": {"catch": 1}}]));
    assert_eq!(one["policy"]["timeout"], json!({"ms": 500, "scope": "attempt"}));
    assert_eq!(one["op"]["script"]["idempotent"], true);
    assert_eq!(value["regions"][0]["nodes"][1]["op"]["choice"]["otherwise"], 3);
    assert_eq!(value["regions"].as_array().unwrap().len(), 4);
    assert_eq!(serde_json::from_value::<Definition>(value).unwrap(), definition);
}

#[test]
fn json_is_accepted_with_its_key_order() {
    let definition = compiled(r#"{"inputs": {}, "steps": [{"id": "a", "script": "s", "args": {"z": 1, "a": "\u00e9"}}], "outputs": {"v": "$a.output"}}"#);
    assert!(serde_json::to_string(&definition).unwrap().contains(r#"{"z":1,"a":"é"}"#));
}
