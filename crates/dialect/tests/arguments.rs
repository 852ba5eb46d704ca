//! The args of entries are held to what their scripts take, as far as both are written down.

use serde_json::json;
use viat_dialect::signature::{Parameter, Shape, Signature};
use viat_dialect::{Catalogue, Severity, Style, compile};

/// One script `s` with this signature.
struct One(Option<Signature>);

impl Catalogue for One {
    fn script_names(&self) -> Vec<String> {
        vec!["s".into()]
    }

    fn workflow_names(&self) -> Vec<String> {
        vec![]
    }

    fn signature_of(&self, script: &str) -> Option<Signature> {
        self.0.clone().filter(|_| script == "s")
    }
}

fn parameter(name: &str, required: bool, annotation: &str, shape: serde_json::Value) -> Parameter {
    let shape: Shape = serde_json::from_value(shape).expect("a shape");
    Parameter { name: name.into(), required, shape, annotation: (!annotation.is_empty()).then(|| annotation.into()) }
}

fn sample(takes_others: bool) -> One {
    let parameters = vec![
        parameter("count", true, "int", json!("int")),
        parameter("note", false, "str | None", json!({"one_of": ["str", "null"]})),
        parameter("tags", false, "list[str]", json!({"list": "str"})),
        parameter("sizes", false, "dict[str, float]", json!({"dict": "float"})),
        parameter("kind", false, "Literal['new', 1]", json!({"literal": ["new", 1]})),
        parameter("free", false, "", json!("any")),
    ];
    One(Some(Signature { parameters, takes_others }))
}

/// `code@column` of what is found in the args, which begin at column 36.
fn found(catalogue: &One, args: &str) -> Vec<String> {
    let text = format!("inputs: {{x: {{}}}}\nsteps: [{{id: a, script: s, args: {args}}}]\n");
    let compiled = compile("w.yaml", text.as_bytes(), catalogue);
    compiled.diagnostics.iter().map(|each| format!("{}@{}", each.code, each.span.col)).collect()
}

#[test]
fn literal_values_that_do_not_fit_are_refused_where_they_stand() {
    let world = sample(false);
    for fits in [
        "{count: 1}",
        "{count: $inputs.x, note: null, tags: [a, $inputs.x, \"n ${ inputs.x }\"], sizes: {a: 1, b: 2.5, c: $inputs.x}}",
        "{count: \"${ 1 + 1 }\", note: \"n ${ inputs.x }\", kind: new, free: {a: [1, null]}}",
        "{count: 1, kind: 1, tags: []}",
    ] {
        assert_eq!(found(&world, fits), [] as [String; 0], "{fits}");
    }
    for (wrong, expected) in [
        ("{count: \"1\"}", "wrong-argument@42"),
        ("{count: 1.0}", "wrong-argument@42"),
        ("{count: true}", "wrong-argument@42"),
        ("{count: \"n ${ inputs.x }\"}", "wrong-argument@42"),
        ("{count: 1, tags: [a, 2]}", "wrong-argument@55"),
        ("{count: 1, tags: [$inputs.x, 2]}", "wrong-argument@63"),
        ("{count: 1, sizes: {a: b}}", "wrong-argument@56"),
        ("{count: 1, note: 3}", "wrong-argument@51"),
        ("{count: 1, kind: old}", "wrong-argument@51"),
        ("{count: 1, kind: 1.0}", "wrong-argument@51"),
        ("{count: 1, nots: a}", "unknown-argument@45"),
        ("{note: a}", "missing-argument@28"),
        ("{}", "missing-argument@28"),
    ] {
        assert_eq!(found(&world, wrong), [expected], "{wrong}");
    }
}

#[test]
fn what_is_not_known_is_not_held_against_anybody() {
    assert_eq!(found(&One(None), "{anything: 1}"), [] as [String; 0]);
    assert_eq!(found(&sample(true), "{count: 1, anything: 1}"), [] as [String; 0]);
    // what is wrong already is said once
    assert_eq!(found(&sample(false), "{count: $inputs.y}").len(), 1);
    assert_eq!(found(&sample(false), "{count: \"${ 1 + }\"}").len(), 1);
}

#[test]
fn scripts_that_undo_and_find_out_are_held_to_it_too() {
    let text = "steps:\n  - id: a\n    script: s\n    args: {count: 1}\n    resolve: {script: s, args: {count: x}}\n    compensate: {script: s, args: {cuont: 1, count: 1}}\n";
    let compiled = compile("w.yaml", text.as_bytes(), &sample(false));
    let found: Vec<String> = compiled.diagnostics.iter().map(|each| format!("{}@{}", each.code, each.span.line)).collect();
    assert_eq!(found, ["wrong-argument@5", "unknown-argument@6"]);
}

#[test]
fn the_message_names_parameter_given_and_expected() {
    let text = "steps:\n  - {id: a, script: s, args: {count: \"two\", tags: [a, 1], nots: x}}\n  - {id: b, script: s}\n";
    let compiled = compile("w.yaml", text.as_bytes(), &sample(false));
    let wanted = r#"
error[wrong-argument]: `count` of script `s` takes an integer here, not the string "two"
 --> w.yaml:2:38
  |
2 |   - {id: a, script: s, args: {count: "two", tags: [a, 1], nots: x}}
  |                                      ^^^^^
  |
  = help: the script says `count: int`

error[wrong-argument]: `tags` of script `s` takes a string here, not 1
 --> w.yaml:2:55
  |
2 |   - {id: a, script: s, args: {count: "two", tags: [a, 1], nots: x}}
  |                                                       ^
  |
  = help: the script says `tags: list[str]`

error[unknown-argument]: script `s` takes no argument `nots`
 --> w.yaml:2:59
  |
2 |   - {id: a, script: s, args: {count: "two", tags: [a, 1], nots: x}}
  |                                                           ^^^^
  |
  = help: did you mean `note`?

warning[missing-argument]: script `s` needs `count`, which is not given
 --> w.yaml:3:21
  |
3 |   - {id: b, script: s}
  |                     ^
  |
  = help: as it is, each attempt fails with class `annotation`"#;
    assert_eq!(compiled.rendered(Style::Plain), wanted.trim_start());
    assert_eq!(compiled.diagnostics.iter().filter(|each| each.severity == Severity::Error).count(), 3);
}
