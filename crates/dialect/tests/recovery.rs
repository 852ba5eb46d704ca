//! Resolve, compensate and review: what they mean to the engine, what is refused and why.

use serde_json::{Value, json};
use viat_dialect::{Compiled, Names, Style, compile};
use viat_engine::Definition;

fn compiled(text: &str) -> Compiled {
    compile("w.yaml", text.as_bytes(), &Names { scripts: ["s", "find", "undo"].map(String::from).to_vec(), workflows: vec!["other".into()] })
}

fn entry(text: &str) -> String {
    format!("inputs: {{n: {{}}}}\nsteps:\n  - {{id: x, {text}}}\n")
}

/// What an accepted document is stored as; nothing is warned of, and it is the same once it was stored and read.
fn stored(text: &str) -> Value {
    let result = compiled(text);
    let drawn = result.rendered(Style::Plain);
    assert_eq!(drawn, "", "{text}");
    let definition = result.definition.expect("no errors");
    viat_engine::check(&definition).expect("a sound definition");
    let json = serde_json::to_string(&definition).expect("it can be stored");
    assert_eq!(serde_json::from_str::<Definition>(&json).expect("it can be read again"), definition, "{json}");
    serde_json::from_str(&json).expect("JSON")
}

fn node(text: &str) -> Value {
    stored(&entry(text))["regions"][0]["nodes"][0].clone()
}

/// Refused with exactly one error, which says these words.
fn refused(text: &str, wanted: &[&str]) {
    let result = compiled(text);
    let drawn = result.rendered(Style::Plain);
    assert!(result.definition.is_none(), "accepted: {text}");
    assert_eq!(drawn.matches("error[").count(), 1, "{text}\n{drawn}");
    for word in wanted {
        assert!(drawn.contains(word), "lacks {word:?}:\n{drawn}");
    }
}

/// Accepted with exactly this warning.
fn warned(text: &str, code: &str, wanted: &[&str]) {
    let result = compiled(text);
    let drawn = result.rendered(Style::Plain);
    assert!(result.definition.is_some(), "{drawn}");
    let codes: Vec<&str> = result.diagnostics.iter().map(|one| one.code.as_str()).collect();
    assert_eq!(codes, [code], "{text}\n{drawn}");
    for word in wanted {
        assert!(drawn.contains(word), "lacks {word:?}:\n{drawn}");
    }
}

#[test]
fn a_document_says_who_undoes_and_how_long_it_may_take() {
    let keys = |text: &str| {
        let definition = stored(&format!("{text}\nsteps: [{{id: a, set: 1}}]\n"));
        (definition["compensation"].clone(), definition["compensation_timeout_ms"].clone())
    };
    assert_eq!(keys(""), (Value::Null, Value::Null));
    assert_eq!(keys("compensation: auto"), (Value::Null, Value::Null));
    assert_eq!(keys("compensation: manual\ncompensation_timeout: PT10M"), (json!("manual"), json!(600_000)));
    assert_eq!(keys("compensation_timeout: \"\""), (Value::Null, Value::Null));
    for (text, wanted) in [
        ("compensation: maual", "did you mean `manual`?"),
        ("compensation: true", "the boolean true"),
        ("compensation_timeout: 0", "write `compensation: manual`"),
        ("compensation_timeout: PT0S", "would undo nothing"),
        ("compensation_timeout: none", "`none` is not a duration"),
        ("compensation_timeout: -1", "negative"),
        ("compensation_timout: PT1S", "did you mean `compensation_timeout`?"),
    ] {
        refused(&format!("{text}\nsteps: [{{id: a, set: 1}}]\n"), &[wanted, ":1:"]);
    }
}

#[test]
fn resolve_is_a_script_that_sees_what_the_entry_sees() {
    let bare = node("script: s, resolve: {script: find}");
    assert_eq!(bare["policy"]["resolve"], json!({"script": "find", "args": {"literal": {}}}));
    let full = node("script: s, resolve: {script: find, args: {n: $inputs.n}, retry: {times: 2, initial_ms: 10, factor: 1.0, max_ms: 10}, timeout: PT1S}");
    let resolve = &full["policy"]["resolve"];
    assert_eq!((&resolve["timeout_ms"], &resolve["retry"][0]["times"]), (&json!(1_000), &json!(2)));
    assert_eq!(full["policy"]["retry"], Value::Null);
    for (text, wanted) in [
        ("find", "write `resolve: {script: find_it"),
        ("null", "must be a map, not null"),
        ("{}", "`resolve` needs `script`"),
        ("{script: fin}", "did you mean `find`?"),
        ("{script: other}", "`other` is a workflow, not a script"),
        ("{script: $inputs.n}", "choose with an `if` entry"),
        ("{script: find, idempotent: true}", "unknown key `idempotent` in `resolve`"),
        ("{script: find, arg: {}}", "did you mean `args`?"),
        ("{script: find, args: [1]}", "a map of names to values"),
        ("{script: find, args: {v: $x.output}}", "refers to the entry itself"),
        ("{script: find, retry: {times: 1}}", "`retry` needs"),
        ("{script: find, timeout: P2D}", "longer than 24 hours"),
    ] {
        refused(&entry(&format!("script: s, resolve: {text}")), &[wanted, ":3:"]);
    }
}

#[test]
fn compensate_beside_a_script_says_how_to_undo_it() {
    let bare = node("script: s, compensate: {script: undo}");
    assert_eq!(bare["policy"]["compensate"], json!({"script": {"script": "undo", "args": {"literal": {}}}}));
    let full = node(
        "script: s, compensate: {script: undo, args: {id: $x.output.id, n: $inputs.n}, retry: {times: 2, initial_ms: 10, factor: 1.0, max_ms: 10}, timeout: 500, idempotent: true}",
    );
    let undo = &full["policy"]["compensate"]["script"];
    assert_eq!((&undo["timeout_ms"], &undo["idempotent"], &undo["retry"][0]["times"]), (&json!(500), &json!(true), &json!(2)));
    assert_eq!(undo["args"]["map"][0][1]["reference"]["root"], "x");
    assert_eq!(node("script: s, compensate: {irreversible: \"costs $5\"}")["policy"]["compensate"], json!({"irreversible": "costs $5"}));
    for (text, wanted) in [
        ("undo", "write `compensate: {script: undo_it"),
        ("[x]", "a list of ids makes a `compensate` entry of its own"),
        ("null", "must be a map, not null"),
        ("{}", "`compensate` needs `script`"),
        ("{script: und}", "did you mean `undo`?"),
        ("{script: undo, irreversible: no way}", "`compensate` has `script` and `irreversible`"),
        ("{irreversible: no way, retry: {}}", "`retry` goes with `script`"),
        ("{irreversible: \" \"}", "must say why"),
        ("{irreversible: 3}", "`irreversible` must be a string"),
        ("{irreversible: $inputs.n}", "nothing in it is evaluated"),
        ("{irreversible: \"n ${ inputs.n }\"}", "nothing in it is evaluated"),
        ("{script: undo, irreversibel: x}", "did you mean `irreversible`?"),
        ("{script: undo, args: {v: $nope.output}}", "$nope"),
        ("{script: undo, idempotent: 1}", "must be a boolean"),
        ("{script: undo, timeout: soon}", "`soon`"),
    ] {
        refused(&entry(&format!("script: s, compensate: {text}")), &[wanted, ":3:"]);
    }
    refused(&entry("if: true, then: [{id: a, script: s}], compensate: {script: undo}"), &["put it on a script entry inside"]);
    refused(&entry("workflow: other, compensate: {script: undo}"), &["of its own script entries"]);
    refused(&entry("set: 1, compensate: [x]"), &["make two entries of it"]);
    refused(&entry("compensate: {script: undo}"), &["stands on the script entry that has it"]);
}

#[test]
fn a_compensate_entry_names_what_stands_before_it_and_can_be_undone() {
    let before = "steps:\n  - {id: a, script: s, compensate: {script: undo}}\n  - {id: i, if: true, then: [{id: b, script: s, compensate: {irreversible: sent}}, {id: p, set: 1}]}\n  - {id: call, workflow: other}\n  - {id: n, script: s}\n  - {id: f, parallel: {branches: [{id: g, script: s, compensate: {script: undo}}]}}\n";
    let after = |ids: &str| format!("{before}  - {{id: u, compensate: {ids}}}\n  - {{id: z, script: s, compensate: {{script: undo}}}}\n");
    assert_eq!(stored(&after("[a, i, call, f, g]"))["regions"][0]["nodes"][5]["op"], json!({"compensate": ["a", "i", "call", "f", "g"]}));
    stored(&format!(
        "{before}  - {{id: v, if: true, then: [{{id: l, loop: {{over: [1], steps: [{{id: u, compensate: [a]}}]}}}}]}}\noutputs: {{v: $v.output}}\n"
    ));
    stored("steps:\n  - {id: a, script: s, compensate: {script: undo}}\n  - {id: b, script: s, on_error: {catch: [{id: u, compensate: [a]}]}}\n");
    for (ids, wanted) in [
        ("[]", "needs at least one id"),
        ("a", "write `compensate: [a]`"),
        ("3", "a list of ids, not 3"),
        ("[3]", "each element of `compensate` must be a string"),
        ("[$a]", "write `a`"),
        ("[$a.output]", "write `a`"),
        ("[\"${ 1 }\"]", "an id has no `$`"),
        ("[a, i, a]", "`a` is named twice"),
        ("[z]", "`z` is declared later"),
        ("[u]", "`u` is this entry itself"),
        ("[b]", "name `i`: that undoes whatever was done inside it"),
        ("[cal]", "did you mean `call`?"),
        ("[nothing]", "entries that can be undone: `a`, `b`, `call`, `f`, `g`, `i`, `z`"),
        ("[n]", "give `n` a `compensate: {script"),
    ] {
        refused(&after(ids), &[wanted, ":7:"]);
    }
    refused("steps:\n  - {id: a, set: 1}\n  - {id: u, compensate: [a]}\n", &["it runs no script"]);
    refused("steps:\n  - {id: a, set: 1}\n  - {id: u, compensate: [b]}\n", &["no entry of this document has a `compensate`"]);
    refused("steps:\n  - {id: i, if: true, then: [{id: a, script: s}]}\n  - {id: u, compensate: [i]}\n", &["no script entry inside `i`"]);
    refused(
        "steps:\n  - {id: a, script: s, compensate: {script: undo}, on_error: {catch: [{id: u, compensate: [a]}]}}\n",
        &["`a` has failed where this stands"],
    );
    refused("steps:\n  - {id: l, loop: {over: [1], steps: [{id: u, compensate: [item]}]}}\n", &["`item` is the variable of a loop"]);
    let inside = |ids: &str| {
        format!("steps:\n  - {{id: l, loop: {{over: [1], steps: [{{id: a, script: s, compensate: {{script: undo}}}}, {{id: u, compensate: {ids}}}]}}}}\n")
    };
    stored(&inside("[a]"));
    refused(&inside("[l]"), &["`l` is not finished here"]);
    refused(
        "steps:\n  - {id: f, parallel: {branches: {l: [{id: a, script: s, compensate: {script: undo}}], r: [{id: u, compensate: [a]}]}}}\n",
        &["local to the branch `l` of `f`", "only after the `parallel`"],
    );
    refused(&after("[a]").replace("compensate: [a]", "compensate: [a], retry: {}"), &["misplaced-policy"]);
    // One mistake is one error, although it leaves nothing to undo.
    refused("steps:\n  - {id: a, script: s, compensate: {script: und}}\n  - {id: u, compensate: [a]}\n", &["did you mean `undo`?"]);
}

#[test]
fn a_review_asks_a_person() {
    assert_eq!(node("review: {title: Check}")["op"], json!({"review": {"title": {"literal": "Check"}}}));
    let full = node(
        "review: {title: \"Check ${ inputs.n }\", show: {draft: $inputs.n}, form: {score: {type: integer, minimum: 1}, note: string}, assignees: [editors, $inputs.n], timeout: P2D, remind: [P1D, PT4H, 5000]}",
    );
    let review = &full["op"]["review"];
    assert_eq!((&review["timeout_ms"], &review["remind_ms"]), (&json!(172_800_000), &json!([5_000, 14_400_000, 86_400_000])));
    let form = json!([
        {"name": "score", "schema": {"type": "integer", "minimum": 1}, "required": true},
        {"name": "note", "schema": {"type": "string"}, "required": true},
    ]);
    assert_eq!(review["form"], form);
    assert_eq!(node("review: {title: t, timeout: 0}")["op"]["review"]["timeout_ms"], 0);
    assert_eq!(node("review: {title: t, show: null, form: null, assignees: null, timeout: null, remind: null}"), node("review: {title: t}"));
    for text in ["{title: $inputs.n, assignees: $inputs.n}", "{title: t, assignees: \"${ inputs.n }\"}", "{title: t, assignees: []}", "{title: t, remind: []}"]
    {
        node(&format!("review: {text}"));
    }
    for (text, wanted) in [
        ("Check", "write `review: {title:"),
        ("{}", "`review` needs `title`"),
        ("{title: \" \"}", "a string that is not empty"),
        ("{title: 3}", "quote it: \"3\""),
        ("{title: {a: $run.id}}", "`title` must be a string"),
        ("{title: t, show: $nope.output}", "$nope"),
        ("{title: t, show: $x.output}", "refers to the entry itself"),
        ("{title: t, form: [score]}", "`form` must be a map"),
        ("{title: t, form: {score: int}}", "did you mean `integer`?"),
        ("{title: t, form: {score: 3}}", "the field `score` is declared by 3"),
        ("{title: t, form: {score: {type: intger}}}", "the schema of the field `score`"),
        ("{title: t, form: {score: {type: integer, default: x}}}", "the default of the field `score`"),
        ("{title: t, assignees: editors}", "write `assignees: [editors]`"),
        ("{title: t, assignees: [3]}", "an assignee is a name that is not empty, not 3"),
        ("{title: t, assignees: [\"\"]}", "an assignee is a name"),
        ("{title: t, assignees: {a: $run.id}}", "a list of names, not a map"),
        ("{title: t, assignees: \"a ${ run.id }\"}", "a list of names"),
        ("{title: t, assignees: $nope.output}", "$nope"),
        ("{title: t, timeout: none}", "`none` is not a duration"),
        ("{title: t, timeout: -1}", "negative"),
        ("{title: t, timeout: $inputs.n}", "the `timeout` of a review is fixed"),
        ("{title: t, remind: PT4H}", "write `remind: [PT4H]`"),
        ("{title: t, remind: {a: 1}}", "a list of durations, not a map"),
        ("{title: t, remind: [soon]}", "bad reminder: `soon`"),
        ("{title: t, remind: [null]}", "gives no duration"),
        ("{title: t, remind: [0]}", "at the moment when it is asked for"),
        ("{title: t, remind: [PT1M, 60000]}", "the same moment as another reminder"),
        ("{title: t, remind: [P2D], timeout: P2D}", "would come when the review is over"),
        ("{title: t, remind: [1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21]}", "at most 20 reminders"),
        ("{title: t, tilte: u}", "did you mean `title`?"),
        ("{title: t, retry: {}}", "`retry` on `x`: a `review` entry cannot have it"),
        ("{title: t}, on_error: continue", "`on_error` on `x`: a `review` entry cannot have it"),
        ("{title: t}, timeout: PT1S", "the keys of `review` stand inside it"),
    ] {
        refused(&entry(&format!("review: {text}")), &[wanted, ":3:"]);
    }
}

#[test]
fn what_a_review_comes_to_is_known() {
    let with = |used: &str| format!("steps:\n  - {{id: r, review: {{title: t, form: {{score: integer}}}}}}\noutputs: {{v: {used}}}\n");
    for used in [
        "$r.output",
        "$r.output.by?",
        "$r.output.data.score",
        "\"${ r.output.decision == 'approved' }\"",
        "\"${ r.output.decision in ['rejected', 'expired'] }\"",
        "\"${ r.output.data.score == 'x' }\"",
        "\"${ r.output.comment == 'aproved' }\"",
        "\"${ [1].all(r, r == 'aproved') }\"",
    ] {
        stored(&with(used));
    }
    refused(&with("$r.output.decison"), &["did you mean `$r.output.decision`?", ":3:"]);
    refused(&with("$r.output.score"), &["`$r.output.data.score`"]);
    refused(&with("$r.output.verdict"), &["it has `decision`"]);
    refused(&with("\"${ r.output.data.scor > 1 }\""), &["did you mean `r.output.data.score`?"]);
    refused(&with("$r._error"), &["only a script entry with `on_error: continue` has an error"]);
    refused("steps:\n  - {id: r, review: {title: t}}\n  - {id: a, set: $r.output.data.x}\n", &["the review has no `form`"]);
    warned(&with("\"${ r.output.decision == 'aproved' }\""), "unknown-decision", &["did you mean `approved`?", "'aproved'"]);
    warned(&with("\"${ 'yes' != r.output['decision'] }\""), "unknown-decision", &["a review comes to `approved`"]);
    warned(&with("\"${ r.output.decision in ['approved', 'change_requested'] }\""), "unknown-decision", &["did you mean `changes_requested`?"]);
}

#[test]
fn budgets_that_cannot_hold_are_warned_of() {
    let script = |keys: &str| format!("timeout: PT1M\nsteps: [{{id: a, script: s, {keys}}}]\n");
    warned(&script("resolve: {script: find, timeout: PT2M}"), "timeout-never-reached", &["the timeout of `a.resolve` (120000 ms)"]);
    warned(&script("compensate: {script: undo, timeout: PT6M}"), "timeout-never-reached", &["`a.compensate` (360000 ms)", "(300000 ms)"]);
    let longer = script("compensate: {script: undo, timeout: PT6M}");
    stored(&format!("compensation_timeout: PT6M\n{longer}"));
    warned(&format!("compensation_timeout: PT5M59S\n{longer}"), "timeout-never-reached", &["the undoing ends first"]);
    warned("timeout: PT1M\nsteps: [{id: a, review: {title: t, timeout: PT2M}}]\n", "timeout-never-reached", &["the timeout of `a`"]);
    warned("timeout: PT1M\nsteps: [{id: a, review: {title: t, remind: [PT2M]}}]\n", "reminder-never-due", &["reminds after 120000 ms"]);
}
