//! Parallel, loop, wait, fail and return: what is refused and why, and what the accepted ones mean to the engine.

use serde_json::{Value, json};
use viat_dialect::{Compiled, Names, Style, compile};
use viat_engine::Definition;

fn compiled(text: &str) -> Compiled {
    compile("w.yaml", text.as_bytes(), &Names { scripts: vec!["s".into()], workflows: vec!["other".into()] })
}

fn entry(text: &str) -> String {
    format!("inputs: {{n: {{}}}}\nsteps:\n  - {{id: x, {text}}}\n")
}

/// What an accepted document is stored as; it is sound, and the same once it was stored and read.
fn stored(text: &str) -> Value {
    let result = compiled(text);
    let drawn = result.rendered(Style::Plain);
    let definition = result.definition.unwrap_or_else(|| panic!("refused: {text}\n{drawn}"));
    viat_engine::check(&definition).expect("a sound definition");
    let json = serde_json::to_string(&definition).expect("it can be stored");
    assert_eq!(serde_json::from_str::<Definition>(&json).expect("it can be read again"), definition, "{json}");
    serde_json::from_str(&json).expect("JSON")
}

/// The first entry's meaning.
fn op(text: &str) -> Value {
    stored(&entry(text))["regions"][0]["nodes"][0]["op"].clone()
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

#[test]
fn a_parallel_is_its_branches() {
    let named = op("parallel: {branches: {left: [{id: a, set: 1}, {id: b, set: 2}], run: [{id: c, set: 3}]}}");
    assert_eq!(named, json!({"parallel": {"branches": [{"name": "left", "body": 1}, {"name": "run", "body": 2}], "on_failure": "cancel"}}));
    let listed = op("parallel: {branches: [{id: a, set: 1}, {id: b, set: 2}], on_failure: wait, concurrency: 256}");
    let branches = json!([{"name": "0", "body": 1}, {"name": "1", "body": 2}]);
    assert_eq!(listed, json!({"parallel": {"branches": branches, "on_failure": "wait", "concurrency": 256}}));
    for (text, wanted) in [
        ("parallel: {}", "needs `branches`"),
        ("parallel: [{id: a, set: 1}]", "must be a map"),
        ("parallel: {branches: {}}", "at least one branch"),
        ("parallel: {branches: []}", "at least one branch"),
        ("parallel: {branches: 3}", "a map of names to lists of entries"),
        ("parallel: {branches: {l: []}}", "the branch `l` needs at least one entry"),
        ("parallel: {branches: {l: {id: a, set: 1}}}", "must be a list of entries"),
        ("parallel: {branches: {l.r: [{id: a, set: 1}]}}", "`l.r` is not the name of a branch"),
        ("parallel: {branches: {\"0\": [{id: a, set: 1}]}}", "`0` is not the name of a branch"),
        ("parallel: {branches: {\"\": [{id: a, set: 1}]}}", "is not the name of a branch"),
        ("parallel: {branches: {l: [{id: a, set: 1}], l: [{id: b, set: 1}]}}", "twice"),
        ("parallel: {branches: {l: [{id: a, set: 1}]}, on_failure: canel}", "did you mean `cancel`?"),
        ("parallel: {branches: {l: [{id: a, set: 1}]}, concurrency: 0}", "from 1 to 256, not 0"),
        ("parallel: {branches: {l: [{id: a, set: 1}]}, concurrency: 257}", "from 1 to 256, not 257"),
        ("parallel: {branches: {l: [{id: a, set: 1}]}, concurrency: 1.5}", "must be an integer"),
        ("parallel: {branches: {l: [{id: a, set: 1}]}, concurrency: $inputs.n}", "must be an integer"),
        ("parallel: {branches: {l: [{id: a, script: s}]}, on_error: continue}", "`on_error` on `x`"),
        ("parallel: {branches: {l: [{id: a, script: s}]}}, retry: {}", "put it on the script entry inside: `a`"),
        ("parallel: {branch: {l: [{id: a, set: 1}]}, branches: {l: [{id: b, set: 1}]}}", "did you mean `branches`?"),
        ("parallel: {branches: {l: [{id: a, set: 1}]}}, timeout: PT1S", "the keys of `parallel` stand inside it"),
    ] {
        refused(&entry(text), &[wanted]);
    }
}

#[test]
fn a_loop_is_a_source_and_its_bounds() {
    let over = op("loop: {over: $inputs.n, steps: [{id: a, set: $item}]}");
    assert_eq!(over["loop"]["source"]["over"]["name"], "item");
    let bounds = |op: &Value| ["concurrency", "max_iterations", "max_failures", "body"].map(|key| op["loop"][key].as_u64().unwrap());
    assert_eq!(bounds(&over), [1, 10_000, 0, 1]);
    let condition = op("loop: {while: true, steps: [{id: a, set: $iteration.index}]}");
    assert_eq!(condition["loop"]["source"], json!({"while": {"literal": true}}));
    assert_eq!(bounds(&condition), [1, 1_000, 0, 1]);
    let all = op("loop: {over: [1, $run.id], as: row, concurrency: 256, max_iterations: 1000000, max_failures: 1000000, steps: [{id: a, set: $row}]}");
    assert_eq!(bounds(&all), [256, 1_000_000, 1_000_000, 1]);
    op("loop: {over: [], steps: [{id: a, set: 1}]}");
    op("loop: {while: \"${ iteration.index < 3 }\", max_failures: 1, max_iterations: 1, steps: [{id: a, set: 1}]}");
    for (text, wanted) in [
        ("loop: {steps: [{id: a, set: 1}]}", "needs `over` or `while`"),
        ("loop: {over: [1], while: true, steps: [{id: a, set: 1}]}", "it takes one of them"),
        ("loop: {over: [1]}", "needs `steps`"),
        ("loop: {over: [1], steps: []}", "at least one entry"),
        ("loop: 3", "must be a map"),
        ("loop: {over: 3, steps: [{id: a, set: 1}]}", "`over` must be a list, not 3"),
        ("loop: {over: \"${ 1 } ${ 2 }\", steps: [{id: a, set: 1}]}", "`over` must be a list"),
        ("loop: {over: {a: $run.id}, steps: [{id: a, set: 1}]}", "`over` must be a list, not a map"),
        ("loop: {over: null, steps: [{id: a, set: 1}]}", "`over` must be a list, not null"),
        ("loop: {over: .nan, steps: [{id: a, set: 1}]}", "`.nan`"),
        ("loop: {over: [1, 2], max_iterations: 1, steps: [{id: a, set: 1}]}", "the list has 2 items"),
        ("loop: {over: [1], concurrency: 0, steps: [{id: a, set: 1}]}", "from 1 to 256"),
        ("loop: {over: [1], concurrency: 257, steps: [{id: a, set: 1}]}", "from 1 to 256"),
        ("loop: {over: [1], max_iterations: 0, steps: [{id: a, set: 1}]}", "from 1 to 1000000"),
        ("loop: {over: [1], max_iterations: 1000001, steps: [{id: a, set: 1}]}", "from 1 to 1000000"),
        ("loop: {over: [1], max_failures: -1, steps: [{id: a, set: 1}]}", "from 0 to 1000000"),
        ("loop: {over: [1], max_failures: \"1\", steps: [{id: a, set: 1}]}", "the string \"1\""),
        ("loop: {while: true, concurrency: 2, steps: [{id: a, set: 1}]}", "`concurrency` goes with `over`"),
        ("loop: {while: true, as: y, steps: [{id: a, set: 1}]}", "`as` goes with `over`"),
        ("loop: {while: 1, steps: [{id: a, set: 1}]}", "`while` takes an expression"),
        ("loop: {while: inputs.n > 1, steps: [{id: a, set: 1}]}", "while: \"${ inputs.n > 1 }\""),
        ("loop: {while: \"${ item > 1 }\", steps: [{id: a, set: 1}]}", "item"),
        ("loop: {while: \"${ a.output > 1 }\", steps: [{id: a, set: 1}]}", "not visible to the loop's own keys"),
        ("loop: {over: [1], as: inputs, steps: [{id: a, set: 1}]}", "the loop variable `inputs` is reserved"),
        ("loop: {over: [1], as: in, steps: [{id: a, set: 1}]}", "the loop variable `in` is reserved"),
        ("loop: {over: [1], as: 1x, steps: [{id: a, set: 1}]}", "`1x` is not a name"),
        ("loop: {over: [1], as: 3, steps: [{id: a, set: 1}]}", "`as` must be a name"),
        ("loop: {over: [1], as: a, steps: [{id: a, set: 1}]}", "also the id of an entry"),
        ("loop: {over: [1], as: r, steps: [{id: y, loop: {over: [1], as: r, steps: [{id: a, set: 1}]}}]}", "`r` is that of a loop around"),
        ("loop: {over: $item, steps: [{id: a, set: 1}]}", "$item"),
        ("loop: {over: [1], steps: [{id: a, script: s}], retry: {times: 1}}", "`retry` on `x`: a `loop` entry cannot have it"),
        ("loop: {over: [1], step: [{id: a, set: 1}], steps: [{id: b, set: 1}]}", "did you mean `steps`?"),
    ] {
        refused(&entry(text), &[wanted]);
    }
}

#[test]
fn a_loops_names_are_those_of_its_iteration() {
    stored(
        "steps:\n  - {id: l, loop: {over: [1], as: r, steps: [{id: a, set: $r}, {id: m, loop: {over: $a.output, steps: [{id: b, set: [$r, $item, $iteration.index, $a.output]}]}}]}}\n  - {id: n, loop: {over: $l.output, as: r, steps: [{id: c, set: $r}]}}\noutputs: {v: $l.output, e: $l._errors, f: \"${ l._errors.size() }\"}\n",
    );
    let after = |used: &str| format!("steps:\n  - {{id: l, loop: {{over: [1], steps: [{{id: a, set: 1}}]}}}}\noutputs: {{v: {used}}}\n");
    refused(&after("$a.output"), &["local to the loop `l`, which is over here", "`$l.output` lists the value of each iteration", ":3:"]);
    refused(&after("\"${ a.output + 1 }\""), &["which is over here", "`l.output`"]);
    refused(&after("$item"), &["variable of the loop `l`"]);
    refused(&after("$iteration.index"), &["only inside a loop"]);
    refused(&after("$l._error"), &["write `$l._errors`"]);
    refused(&after("$l._erors"), &["`$l._errors`"]);
    refused(&after("$l"), &["`$l.output`"]);
    refused("steps:\n  - {id: z, set: $a.output}\n  - {id: l, loop: {over: [1], steps: [{id: a, set: 1}]}}\n", &["local to the loop `l`"]);
    refused("steps:\n  - {id: p, set: 1}\n  - {id: z, set: $p._errors}\n", &["only a loop has `_errors`"]);
}

#[test]
fn what_is_inside_a_parallel_is_visible_after_it() {
    stored(
        "steps:\n  - {id: f, parallel: {branches: {l: [{id: a, set: 1}], r: [{id: g, parallel: {branches: [{id: b, set: 1}]}}]}}}\n  - {id: c, set: [$a.output, $b.output]}\n",
    );
    let after =
        |used: &str| format!("steps:\n  - {{id: f, parallel: {{branches: {{l: [{{id: a, set: 1}}], r: [{{id: b, set: 1}}]}}}}}}\noutputs: {{v: {used}}}\n");
    for used in ["$f.output", "$f", "$f._error", "$f.nothing", "\"${ f.output }\""] {
        refused(&after(used), &["has no value of its own", "a parallel has no own value; its entries are visible after it"]);
    }
    let branch =
        "steps:\n  - {id: l, loop: {over: [1], steps: [{id: f, parallel: {branches: [{id: a, set: 1}]}}, {id: b, set: $a.output}]}}\noutputs: {v: VALUE}\n";
    stored(&branch.replace("VALUE", "$l.output"));
    refused(&branch.replace("VALUE", "$a.output"), &["local to the loop `l`"]);
    refused("steps: [{id: f, parallel: {branches: [{id: a, set: 1}, {id: b, set: $a.output}]}}]\n", &["local to the branch `0` of `f`"]);
}

#[test]
fn a_wait_has_one_way_to_end() {
    for (text, wanted) in [
        ("{for: PT2S}", json!({"for": {"literal": "PT2S"}})),
        ("{for: 5000}", json!({"for": {"literal": 5000}})),
        ("{for: \"0\"}", json!({"for": {"literal": "0"}})),
        ("{for: \"PT${ inputs.n }S\"}", json!({"for": {"text": [{"text": "PT"}, {"expression": {"language": "cel", "text": "inputs.n"}}, {"text": "S"}]}})),
        ("{until: \"2026-01-31T08:00:00Z\"}", json!({"until": {"literal": "2026-01-31T08:00:00Z"}})),
        ("{until: 2026-01-31T08:00:00.25+01:00}", json!({"until": {"literal": "2026-01-31T08:00:00.25+01:00"}})),
        ("{event: paid}", json!({"event": {"name": {"literal": "paid"}}})),
        ("{event: paid, timeout: PT1M}", json!({"event": {"name": {"literal": "paid"}, "timeout_ms": 60_000}})),
        ("{event: paid, timeout: 0}", json!({"event": {"name": {"literal": "paid"}, "timeout_ms": 0}})),
        ("{event: paid, timeout: null}", json!({"event": {"name": {"literal": "paid"}}})),
    ] {
        assert_eq!(op(&format!("wait: {text}")), json!({ "wait": wanted }), "{text}");
    }
    for text in ["{for: $inputs.n}", "{until: $inputs.n}", "{event: $inputs.n}", "{event: \"paid_${ run.id }\"}"] {
        op(&format!("wait: {text}"));
    }
    for (text, wanted) in [
        ("PT5S", "wait: {for: PT5S}"),
        ("{}", "exactly one of"),
        ("{timeout: PT1S, event: }", "must be the name of an event, not null"),
        ("{for: PT1S, until: \"2026-01-31T08:00:00Z\"}", "exactly one of"),
        ("{for: PT1S, event: e}", "exactly one of"),
        ("{for: PT1S, timeout: PT1S}", "`timeout` goes with `event`"),
        ("{for: null}", "gives no duration"),
        ("{for: \"\"}", "gives no duration"),
        ("{for: -1}", "negative"),
        ("{for: .nan}", "not finite"),
        ("{for: 1.5}", "a whole number"),
        ("{for: [1]}", "it is a list"),
        ("{for: {a: $run.id}}", "it is a map"),
        ("{for: 5s}", "write an ISO 8601 duration"),
        ("{for: P1M}", "`P1M`"),
        ("{for: $$5}", "not a duration"),
        ("{for: \"${ 1 + }\"}", "1 +"),
        ("{for: $nope.output}", "$nope"),
        ("{until: tomorrow}", "RFC 3339"),
        ("{until: 2026-01-31}", "RFC 3339"),
        ("{until: \"2026-01-31T08:00:00\"}", "RFC 3339"),
        ("{until: \"2026-01-31 08:00:00Z\"}", "RFC 3339"),
        ("{until: \"2026-02-31T08:00:00Z\"}", "RFC 3339"),
        ("{until: \"2026-01-31T08:00:00+01\"}", "RFC 3339"),
        ("{until: \"2026-01-31T08:00:00.Z\"}", "RFC 3339"),
        ("{until: \"2026-01-31T08:00:00é\"}", "RFC 3339"),
        ("{until: 1769846400}", "RFC 3339"),
        ("{until: null}", "not null"),
        ("{event: \"\"}", "the name of an event"),
        ("{event: 3}", "the name of an event, not 3"),
        ("{event: [e]}", "the name of an event, not a list"),
        ("{event: e, timeout: soon}", "`soon`"),
        ("{event: e, timeout: \"${ inputs.n }\"}", "the `timeout` of a wait is fixed"),
        ("{for: PT1S, on_error: continue}", "only a script entry can"),
        ("{event: e, timout: PT1S}", "did you mean `timeout`?"),
    ] {
        refused(&entry(&format!("wait: {text}")), &[wanted]);
    }
    let warned = |text: &str| compiled(&format!("timeout: PT1M\n{}", entry(text))).diagnostics.into_iter().map(|one| one.code).collect::<Vec<_>>();
    assert_eq!(warned("wait: {for: PT61S}"), ["wait-never-over"]);
    assert_eq!(warned("wait: {event: e, timeout: PT61S}"), ["timeout-never-reached"]);
    assert_eq!(warned("wait: {for: PT1M}"), [""; 0]);
}

#[test]
fn fail_is_a_refusal_of_its_own() {
    let bare = json!({"fail": {"status": 400, "code": {"literal": "failed"}, "message": {"literal": "failed"}}});
    assert_eq!(op("fail: "), bare);
    assert_eq!(op("fail: {}"), bare);
    assert_eq!(op("fail: {extra: null}"), bare);
    let full = op("fail: {status: 599, code: $inputs.n, message: \"got ${ inputs.n }\", extra: {n: $inputs.n}}");
    assert_eq!(full["fail"]["status"], 599);
    assert!(full["fail"]["extra"]["map"].is_array(), "{full}");
    assert_eq!(op("fail: {code: negative}")["fail"]["message"], json!({"literal": "negative"}));
    assert_eq!(op("fail: {message: \"\"}")["fail"]["message"], json!({"literal": ""}));
    for (text, wanted) in [
        ("no", "fail: {status: 422"),
        ("{status: 399}", "from 400 to 599"),
        ("{status: 600}", "from 400 to 599"),
        ("{status: \"422\"}", "the string \"422\""),
        ("{status: $inputs.n}", "from 400 to 599"),
        ("{code: \"\"}", "`code` must be a string that is not empty"),
        ("{code: 42}", "quote it: \"42\""),
        ("{code: null}", "`code` must be a string"),
        ("{code: [a]}", "`code` must be a string"),
        ("{message: {a: $run.id}}", "`message` must be a string, not a map"),
        ("{message: \"${ 1 + }\"}", "1 +"),
        ("{code: $nope.output}", "$nope"),
        ("{extra: $nope.output}", "$nope"),
        ("{reason: x}", "unknown key `reason`"),
    ] {
        refused(&entry(&format!("fail: {text}")), &[wanted]);
    }
}

#[test]
fn return_ends_the_workflow_where_nothing_runs_beside_it() {
    assert_eq!(op("return: {v: 1}"), json!({"return": {"literal": {"v": 1}}}));
    assert_eq!(op("return: "), json!({"return": {"literal": {}}}));
    op("return: $inputs.n");
    op("return: \"${ inputs.n }\"");
    op("loop: {over: [1], steps: [{id: a, if: true, then: [{id: r, return: {v: $item}}]}]}");
    op("loop: {over: [1], concurrency: 1, steps: [{id: r, return: {v: 1}}]}");
    op("loop: {while: true, steps: [{id: r, return: {v: 1}}]}");
    op("script: s, on_error: {catch: [{id: r, return: {v: $_error}}]}");
    for (text, wanted) in [
        ("return: 3", "a map of outputs, not 3"),
        ("return: [1]", "a map of outputs, not a list"),
        ("return: text", "a map of outputs"),
        ("return: \"a ${ run.id }\"", "a map of outputs"),
        ("return: {v: $nope.output}", "$nope"),
        ("return: {v: \"${ 1 + }\"}", "1 +"),
    ] {
        refused(&entry(text), &[wanted]);
    }
    let inner = "{id: r, return: {v: 1}}";
    let inside_if = format!("{{id: i, if: true, then: [{inner}]}}");
    let inside_catch = format!("{{id: c, script: s, on_error: {{catch: [{inner}]}}}}");
    let inside_loop = format!("{{id: o, loop: {{over: [1], steps: [{inner}]}}}}");
    for steps in [inner, &inside_if, &inside_catch, &inside_loop] {
        refused(&entry(&format!("parallel: {{branches: {{l: [{steps}]}}}}")), &["misplaced-return", "the `parallel` around it", ":3:"]);
        refused(&entry(&format!("parallel: {{branches: [{steps}], concurrency: 1}}")), &["misplaced-return"]);
        refused(&entry(&format!("loop: {{over: [1], as: y, concurrency: 2, steps: [{steps}]}}")), &["misplaced-return", "the concurrent loop"]);
    }
    stored(
        "steps:\n  - {id: f, parallel: {branches: [{id: a, set: 1}]}}\n  - {id: l, loop: {over: [1], concurrency: 2, steps: [{id: b, set: 1}]}}\n  - {id: r, return: {v: 1}}\n",
    );
}

#[test]
fn what_follows_the_end_is_never_reached() {
    let warned = |text: &str| compiled(text).diagnostics.into_iter().map(|one| (one.code, one.span.line)).collect::<Vec<_>>();
    let unreachable = |line| vec![("unreachable".to_owned(), line)];
    assert_eq!(warned("steps:\n  - {id: r, return: {}}\n  - {id: a, set: 1}\n  - {id: b, set: 1}\n"), unreachable(3));
    assert_eq!(warned("steps:\n  - {id: r, fail: {}}\n  - {id: a, set: 1}\n"), unreachable(3));
    assert_eq!(warned("steps:\n  - id: l\n    loop:\n      over: [1]\n      steps:\n        - {id: r, fail: {}}\n        - {id: a, set: 1}\n"), unreachable(7));
    assert_eq!(warned("steps:\n  - {id: i, if: true, then: [{id: r, return: {}}]}\n  - {id: a, set: 1}\n"), []);
    refused("steps:\n  - {id: i, if: true, then: [{id: r, return: {}}], else: [{id: a, set: 1}]}\n  - {id: b, set: $a.output}\n", &["not certain to have run"]);
}
