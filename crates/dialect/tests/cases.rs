//! Documents as users write them, one per behaviour of the acceptance cases: each must compile, be sound, and be the same
//! once it was stored and read.

use viat_dialect::{Names, Style, compile_named};
use viat_engine::Definition;

fn compiles(text: &str) -> Definition {
    let scripts = ["echo", "kinds", "nap", "odd", "refuse", "slow", "step", "long", "sleep", "deferring", "dies", "boom"].map(String::from).to_vec();
    let names = Names { scripts, workflows: ["inner", "other", "through"].map(String::from).to_vec() };
    let result = compile_named("w.yaml", text.as_bytes(), Some("w"), &names);
    let drawn = result.rendered(Style::Plain);
    let definition = result.definition.unwrap_or_else(|| panic!("refused: {text}\n{drawn}"));
    assert_eq!(drawn, "", "{text}");
    viat_engine::check(&definition).expect("a sound definition");
    let stored = serde_json::to_string(&definition).expect("it can be stored");
    assert_eq!(serde_json::from_str::<Definition>(&stored).expect("it can be read again"), definition);
    definition
}

const IF: &str = "
inputs: {n: integer}
steps:
  - id: size
    if: ${ inputs.n > 10 }
    then: [{id: big, script: echo, args: {value: big}}]
    else:
      - id: mid
        if: ${ inputs.n > 5 }
        then: [{id: m, set: middling}]
outputs: {v: $size.output}
";

const CONCURRENT_LOOP: &str = "
inputs: {xs: array}
steps:
  - id: each
    loop:
      over: $inputs.xs
      as: x
      concurrency: 5
      steps: [{id: s, script: nap, args: {n: $x}}]
outputs: {v: $each.output}
";

const PARALLEL: &str = "
steps:
  - id: fan
    parallel:
      branches:
        l: [{id: a, script: nap, args: {v: 1}}]
        r: [{id: b, script: nap, args: {v: 2}}]
outputs: {v: \"${ a.output + b.output }\"}
";

const END: &str = "
inputs: {n: integer}
steps:
  - id: c
    if: ${ inputs.n < 0 }
    then: [{id: f, fail: {status: 422, code: negative, message: \"got ${ inputs.n }\"}}]
    else: [{id: r, if: \"${ inputs.n == 0 }\", then: [{id: early, return: {v: zero}}]}]
outputs: {v: positive}
";

#[test]
fn structure() {
    for text in [IF, CONCURRENT_LOOP, PARALLEL, END] {
        compiles(text);
    }
    for text in [
        "steps: [{id: l, loop: {over: [], steps: [{id: s, set: 1}]}}]\noutputs: {v: $l.output}\n",
        "steps: [{id: l, loop: {over: [a, b], steps: [{id: s, set: \"${ string(iteration.index) + item }\"}]}}]\noutputs: {v: $l.output}\n",
        "steps: [{id: l, loop: {while: \"${ iteration.index < 3 }\", steps: [{id: s, set: $iteration.index}]}}]\noutputs: {v: $l.output}\n",
        "steps: [{id: l, loop: {while: true, max_iterations: 5, steps: [{id: s, set: 1}]}}]\n",
        "steps: [{id: l, loop: {over: [0, 1, 2, 3], max_failures: 2, steps: [{id: s, script: odd, args: {n: $item}}]}}]\noutputs: {v: $l.output, e: $l._errors}\n",
        "inputs: {v: {}}\nsteps: [{id: l, loop: {over: $inputs.v, steps: [{id: s, set: 1}]}}]\n",
        "steps:\n  - {id: f, parallel: {branches: {l: [{id: a, script: refuse}], r: [{id: b, script: slow, args: {s: 20}}]}, on_failure: cancel}}\n",
        "steps:\n  - {id: f, parallel: {branches: {l: [{id: a, script: refuse}], r: [{id: b, script: slow, args: {s: 0.3}}]}, on_failure: wait}}\n",
        "steps: [{id: w, workflow: inner, args: {x: 1}}]\noutputs: {v: $w.output.sum}\n",
        "steps: [{id: a, workflow: other}]\n",
    ] {
        compiles(text);
    }
}

#[test]
fn time_and_recovery() {
    for text in [
        "steps:\n  - {id: s0, script: step, args: {name: s0}}\n  - {id: nap, wait: {for: PT2S}}\n  - {id: last, script: step, args: {name: last}}\noutputs: {n: $s0.output.n, l: $last.output.n}\n",
        "steps:\n  - {id: nap, wait: {for: PT60S}}\n",
        "steps:\n  - {id: go, wait: {event: go, timeout: PT10S}}\noutputs: {v: $go.output}\n",
        "steps:\n  - {id: a, workflow: inner}\n  - {id: b, script: sleep, timeout: PT0.5S, retry: {times: 2, initial_ms: 10, factor: 1.0, max_ms: 10}}\n",
        "timeout: PT0.7S\nsteps:\n  - {id: a, script: sleep, on_error: {catch: [{id: c, script: echo, args: {value: 1}}]}}\n  - {id: b, script: echo, args: {value: 2}}\n",
        "steps:\n  - id: x\n    script: boom\n    on_error: {catch: [{id: fan, parallel: {branches: {l: [{id: a, script: echo}], r: [{id: b, script: echo}]}}}]}\noutputs: {v: $x.output}\n",
        "steps:\n  - id: a\n    script: long\n    idempotent: true\noutputs: {v: $a.output}\n",
    ] {
        compiles(text);
    }
}

#[test]
fn the_meaning_of_a_document_does_not_change_unnoticed() {
    let stored = serde_json::to_value(compiles(END)).unwrap();
    let wanted = serde_json::json!({
        "ir": 1,
        "dialect": "native",
        "inputs": [{"name": "n", "schema": {"type": "integer"}, "required": true}],
        "outputs": {"literal": {"v": "positive"}},
        "regions": [
            {"nodes": [{"id": "c", "op": {"choice": {"arms": [{"when": {"expression": {"language": "cel", "text": "inputs.n < 0"}}, "body": 1}], "otherwise": 2}}}]},
            {"nodes": [{"id": "f", "op": {"fail": {"status": 422, "code": {"literal": "negative"}, "message": {"text": [
                {"text": "got "}, {"expression": {"language": "cel", "text": "inputs.n"}}
            ]}}}}]},
            {"nodes": [{"id": "r", "op": {"choice": {"arms": [{"when": {"expression": {"language": "cel", "text": "inputs.n == 0"}}, "body": 3}]}}}]},
            {"nodes": [{"id": "early", "op": {"return": {"literal": {"v": "zero"}}}}]}
        ],
        "root": 0
    });
    assert_eq!(stored, wanted);
}
