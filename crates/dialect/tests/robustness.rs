//! Nothing that anyone can write makes the compiler, the evaluator or the renderer panic.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};
use viat_dialect::{Catalogue, Languages, Style, compile_named, duration};
use viat_engine::Definition;
use viat_engine::expression::{Evaluate, Scope};
use viat_engine::ir::{Expression, InputDeclaration};

const VALID: &str = r#"
description: "all kinds of things: é 世界"
timeout: PT1M
compensation: manual
compensation_timeout: PT2M
inputs: {n: integer, o: {type: object, default: {}}, x: {type: string, required: false}}
steps:
  - id: request
    script: s
    args: {value: '$inputs.o.items[0]["odd key"]?', t: "n=${ inputs.n } of ${ [1, 2].map(x, x + 1) }", l: [&a 1, *a]}
    retry: {times: 3, initial_ms: 100, factor: 2.0, max_ms: 5000, jitter: false}
    timeout: PT0.5S
    idempotency_key: $inputs.x
    resolve: {script: s, args: {key: $run.id}, retry: {times: 1, initial_ms: 10, factor: 1.0, max_ms: 10}, timeout: PT1S}
    compensate: {script: s, args: {id: $request.output.id, n: $inputs.n}, timeout: PT10S, idempotent: true}
    on_error:
      catch:
        - {id: recovery, set: {code: $_error.code, again: $request._error}}
  - {id: mail, script: s, compensate: {irreversible: "the é-mail is sent"}}
  - id: look
    review:
      title: "Check ${ inputs.n }"
      show: {draft: $request.output, l: [1, $inputs.n]}
      form: {score: {type: integer, minimum: 1, maximum: 5}, note: string, tags: {type: array, default: []}}
      assignees: [editors, "${ inputs.n }@x"]
      timeout: PT50S
      remind: [PT20S, 10000]
  - id: size
    if: ${ inputs.n > 10 && has(inputs.o.k) }
    then: [{id: big, script: s, on_error: continue}, {id: early, return: {v: $big._error, w: 'it''s'}}]
    else:
      - id: fan
        parallel:
          branches:
            l:
              - id: b
                set: |
                  block text ${ inputs.n }
            r: [{id: c, workflow: called, args: {x: $inputs.n, note: "text"}}]
          on_failure: wait
          concurrency: 2
      - {id: race, parallel: {branches: [{id: g, wait: {event: "paid_${ run.id }", timeout: P1D}}, {id: h, wait: {for: PT0.5S}}]}}
      - {id: undo, compensate: [request, mail, fan]}
      - {id: decided, if: "${ look.output.decision == 'approved' || 'x' != look.output.by }", then: [{id: score, set: $look.output.data.score}]}
      - {id: each, loop: {over: $inputs.o.rows, as: row, concurrency: 8, max_failures: 2, steps: [{id: d, set: $row}]}}
      - {id: until, loop: {while: "${ iteration.index < 3 }", max_iterations: 7, steps: [{id: k, wait: {until: "2026-01-31T08:00:00Z"}}]}}
      - {id: no, fail: {status: 422, code: "c${ inputs.n }", message: $b.output, extra: {l: [$each._errors, 0.1]}}}
outputs: {v: $size.output, w: "$$literal $${ }"}
"#;

struct World;

impl Catalogue for World {
    fn script_names(&self) -> Vec<String> {
        vec!["s".into()]
    }

    fn workflow_names(&self) -> Vec<String> {
        vec!["called".into()]
    }

    fn calls_of(&self, workflow: &str) -> Vec<String> {
        if workflow == "called" { vec!["deeper".into()] } else { Vec::new() }
    }

    fn inputs_of(&self, workflow: &str) -> Option<Vec<InputDeclaration>> {
        let input = |name: &str, kind: &str, required| InputDeclaration { name: name.into(), schema: json!({ "type": kind }), default: None, required };
        (workflow == "called").then(|| vec![input("x", "integer", true), input("note", "string", false)])
    }
}

fn compile_and_draw(bytes: &[u8]) {
    let result = compile_named("w.yaml", bytes, Some("w"), &World);
    if let Some(definition) = &result.definition {
        viat_engine::check(definition).expect("a sound definition");
        let stored = serde_json::to_string(definition).expect("it can be stored");
        assert_eq!(serde_json::from_str::<Definition>(&stored).expect("it can be read again"), *definition, "{stored}");
    }
    let _ = result.rendered(Style::Plain);
    let _ = result.rendered(Style::Coloured);
    assert!(result.definition.is_some() || !result.diagnostics.is_empty());
    for one in &result.diagnostics {
        assert!(one.span.start <= one.span.end && one.span.end <= result.text.len() && one.span.line >= 1 && one.span.col >= 1, "{one:?}");
        assert!(result.text.is_char_boundary(one.span.start) && result.text.is_char_boundary(one.span.end), "{one:?}");
    }
}

struct Empty(BTreeMap<String, Value>);

impl Scope for Empty {
    fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }
}

const TOKENS: [&str; 58] = [
    "inputs",
    "inputs.n",
    ".",
    "n",
    "o",
    "[",
    "]",
    "(",
    ")",
    "{",
    "}",
    ":",
    ",",
    "+",
    "-",
    "*",
    "/",
    "%",
    "==",
    "!=",
    "<",
    "<=",
    "&&",
    "||",
    "!",
    "?",
    " ",
    "1",
    "2.5",
    "0x1f",
    "'s'",
    "\"t\"",
    "r'\\'",
    "b'x'",
    "3u",
    "null",
    "true",
    "in",
    "loop",
    "has(",
    ".map(x, ",
    ".filter(x, ",
    ".all(x, ",
    ".exists_one(x, ",
    "x",
    "size(",
    ".matches('a+')",
    ".split('')",
    "'\\u00e9'",
    "é",
    "$",
    "`",
    "'",
    "\"\"\"",
    "//c\n",
    "9223372036854775807",
    "1e308",
    "string(",
];

const LINES: [&str; 42] = [
    "    review: {title: t, form: {n: integer}, remind: [1], timeout: 2}\n",
    "    review: {title: $a.output, assignees: $a.output}\n",
    "    compensate: [a]\n",
    "    compensate: [a, b, a]\n",
    "    compensate: {script: s, args: {v: $a.output}}\n",
    "    compensate: {irreversible: x}\n",
    "    resolve: {script: s, timeout: PT1S}\n",
    "compensation: manual\n",
    "    parallel: {branches: {l: [{id: p, set: 1}]}}\n",
    "    parallel: {branches: [{id: q, return: {}}], on_failure: wait}\n",
    "    loop: {over: [1, 2], concurrency: 2, steps: [{id: o, set: $item}]}\n",
    "    loop: {while: true, steps: [{id: w, set: $iteration.index}]}\n",
    "    workflow: called\n",
    "    args: {x: 1}\n",
    "    wait: {for: PT1S}\n",
    "    wait: {event: e, timeout: 5}\n",
    "    fail: {code: c}\n",
    "    return: {v: $a.output}\n",
    "steps:\n",
    "  - id: a\n",
    "    script: s\n",
    "    set: $a.output\n",
    "    if: ${ true }\n",
    "    then:\n",
    "      - {id: b, set: 1}\n",
    "    on_error: {catch: [{id: c, script: s}]}\n",
    "    retry: {times: 1}\n",
    "inputs: {n: {type: integer}}\n",
    "outputs: {v: \"${ inputs.n\"}\n",
    "timeout: P1D\n",
    "    type: retry\n",
    "- x\n",
    "\t",
    "&a ",
    "*a ",
    "? ",
    "|\n",
    "'",
    "\"",
    "---\n",
    "# c\n",
    "é: 世界\n",
];

/// How many cases each property gets; a long run is `VIAT_FUZZ_CASES=400000 cargo test -p viat-dialect --test robustness`.
#[allow(clippy::disallowed_methods, reason = "the crate reads no environment; its tests may")]
fn fuzz_cases() -> u32 {
    std::env::var("VIAT_FUZZ_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(400)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: fuzz_cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        compile_and_draw(&bytes);
    }

    #[test]
    fn arbitrary_text(text in "\\PC{0,200}") {
        compile_and_draw(text.as_bytes());
        let _ = duration::parse(&text);
        let _ = viat_dialect::json::parse(&text);
    }

    #[test]
    fn mutated_documents(edits in prop::collection::vec((any::<prop::sample::Index>(), 0usize..6, "\\PC{0,6}"), 1..4)) {
        let mut text: Vec<char> = VALID.chars().collect();
        for (index, cut, insert) in edits {
            let at = index.index(text.len());
            let end = (at + cut).min(text.len());
            text.splice(at..end, insert.chars());
        }
        compile_and_draw(text.into_iter().collect::<String>().as_bytes());
    }

    #[test]
    fn exchanged_words(edits in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 1..4)) {
        let mut words: Vec<&str> = VALID.split_inclusive(|c: char| !c.is_ascii_alphanumeric() && c != '_').collect();
        for (at, from) in edits {
            let (at, from) = (at.index(words.len()), from.index(words.len()));
            words[at] = words[from];
        }
        compile_and_draw(words.concat().as_bytes());
    }

    #[test]
    fn shuffled_lines(picks in prop::collection::vec(prop::sample::select(LINES.to_vec()), 0..25)) {
        compile_and_draw(picks.concat().as_bytes());
    }

    #[test]
    fn arbitrary_expressions(picks in prop::collection::vec(prop::sample::select(TOKENS.to_vec()), 0..25)) {
        let text = picks.concat();
        let inputs = serde_json::json!({"n": 1, "o": {"x": [1, "a", null]}, "s": "héllo"});
        let scope = Empty([("inputs".to_owned(), inputs)].into());
        let _ = Languages::new().evaluate(&Expression { language: "cel".into(), text: text.clone() }, &scope);
        compile_and_draw(format!("inputs: {{n: {{}}, o: {{}}}}\nsteps:\n  - id: a\n    set: |\n      ${{ {text} }}\n").as_bytes());
        compile_and_draw(format!("steps: [{{id: a, set: {}}}]", serde_json::to_string(&format!("é ${{{text}}} $")).unwrap()).as_bytes());
    }
}

#[test]
fn the_document_that_is_mutated_is_one_with_every_kind() {
    let result = compile_named("w.yaml", VALID.as_bytes(), Some("w"), &World);
    let codes: Vec<&str> = result.diagnostics.iter().map(|one| one.code.as_str()).collect();
    assert_eq!(codes, ["timeout-never-reached"], "{}", result.rendered(Style::Plain));
    let stored = serde_json::to_string(&result.definition.unwrap()).unwrap();
    for kind in ["script", "choice", "set", "parallel", "loop", "call", "wait", "fail", "return", "review", "compensate"] {
        assert!(stored.contains(&format!("\"op\":{{\"{kind}\"")), "{kind}");
    }
}

#[test]
fn what_is_nested_as_deep_as_it_may_be_can_be_read_again() {
    for (open, hole, close) in [("[", "1", "]"), ("[", "$run.id", "]"), ("{a: ", "$run.id", "}"), ("{a: ", "x${ run.id }", "}")] {
        for depth in 20..130 {
            let value = format!("{}{hole}{}", open.repeat(depth), close.repeat(depth));
            compile_and_draw(format!("steps: [{{id: a, loop: {{over: [{value}], steps: [{{id: f, fail: {{extra: {value}}}}}]}}}}]\n").as_bytes());
            let asked = format!("title: t, show: {value}, form: {{f: {{default: {value}}}}}");
            let helper = format!("{{script: s, args: {{v: {value}}}}}");
            let script = format!("{{id: p, script: s, resolve: {helper}, compensate: {helper}}}");
            compile_and_draw(format!("steps: [{{id: a, loop: {{over: [1], steps: [{script}, {{id: r, review: {{{asked}}}}}]}}}}]\n").as_bytes());
            compile_and_draw(format!("inputs: {{o: {{default: {value}}}}}\nsteps: [{{id: a, set: {{examples: {value}}}}}]\n").as_bytes());
        }
    }
}
