//! Every document that must be refused, with what its diagnostics must say; and those that must be accepted.
#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "the tests measure time; the crate does not")]

use viat_dialect::{Compiled, Names, Severity, Style, compile};

fn names() -> Names {
    Names { scripts: ["echo", "wf_fail", "wf_echo", "s"].map(String::from).to_vec(), workflows: vec!["other".into()] }
}

fn compiled(text: &str) -> Compiled {
    compile("w.yaml", text.as_bytes(), &names())
}

/// Refused for these reasons.
fn refused(text: &str, wanted: &[&str]) -> String {
    let result = compiled(text);
    let drawn = result.rendered(Style::Plain);
    assert!(result.definition.is_none(), "accepted: {text}\n{drawn}");
    for word in wanted {
        assert!(drawn.contains(word), "lacks {word:?}:\n{drawn}");
    }
    assert!(drawn.contains("w.yaml:"), "lacks the place:\n{drawn}");
    assert!(result.diagnostics.iter().any(|one| one.severity == Severity::Error), "no error:\n{drawn}");
    drawn
}

fn accepted(text: &str) -> Compiled {
    let result = compiled(text);
    let definition = result.definition.as_ref().unwrap_or_else(|| panic!("refused: {text}\n{}", result.rendered(Style::Plain)));
    viat_engine::check(definition).expect("a sound definition");
    let stored = serde_json::to_string(definition).expect("it can be stored");
    assert_eq!(serde_json::from_str::<viat_engine::Definition>(&stored).expect("it can be read again"), *definition);
    result
}

#[test]
fn bad_documents_get_a_place_and_a_name() {
    for (text, name) in [
        ("steps: []\n", "steps"),
        ("outputs: {}\n", "steps"),
        ("steps: [{id: twin, script: echo}, {id: twin, script: echo}]\n", "twin"),
        ("steps: [{id: inputs, script: echo}]\n", "inputs"),
        ("steps: [{id: 1a, script: echo}]\n", "1a"),
        ("steps: [{id: a, script: nope}]\n", "nope"),
        ("steps: [{id: a, script: ecko}]\n", "echo"),
        ("step: [{id: a, script: echo}]\n", "steps"),
        ("steps: [{id: a, script: echo, arg: {}}]\n", "args"),
        ("steps: [{id: a, script: echo, args: {value: $later.output}}, {id: later, set: 1}]\n", "$later"),
        ("steps: [{id: selfish, script: echo, args: {value: $selfish.output}}]\n", "$selfish"),
        ("steps: [{id: a, script: echo, args: {value: \"${ 1 + }\"}}]\n", "1 +"),
        ("steps: [{id: a, script: echo, args: {value: $inputs.absent}}]\n", "absent"),
        ("steps: [{id: loop, script: echo}]\n", "loop"),
        ("steps:\n  - id: a\n    script: echo\n    script: echo\n", "script"),
        ("steps: [{id: a, script: echo\n", ":"),
        ("- just\n- a list\n", "steps"),
        ("", "empty"),
        ("# only a comment\n\n", "empty"),
        ("---\n...\n", "empty"),
        ("42\n", "steps"),
        ("steps:\n\t- {id: a, script: echo}\n", "tab"),
        ("steps: [{id: a, set: 1}]\n---\nsteps: [{id: a, set: 1}]\n", "second"),
        ("steps: [{id: a, set: !custom 1}]\n", "!custom"),
        ("steps: [{id: a, set: *nowhere}]\n", "nowhere"),
        ("steps: [{id: a, set: &x [*x]}]\n", "alias"),
        ("steps: [{id: a, set: 99999999999999999999}]\n", "99999999999999999999"),
        ("steps: [{id: a, set: .inf}]\n", ".inf"),
        ("steps: [{id: a, set: {[1]: 2}}]\n", "key"),
        ("steps: [{id: a, script: echo, args: [1]}]\n", "args"),
        ("steps: [{id: a, script: other}]\n", "workflow"),
        ("steps: [{id: a, set: 1}]\ntimeout: PT5X\n", "timeout"),
        ("steps: [{id: 1, set: 1}]\n", "id"),
        ("steps: [{set: 1}]\n", "id"),
        ("steps: [7]\n", "entry"),
        ("steps:\n  id: a\n  set: 1\n", "list"),
        ("retry: {}\nsteps: [{id: a, set: 1}]\n", "entry"),
        ("steps: [{id: a, if: 1, then: [{id: b, set: 1}]}]\n", "if"),
        ("steps: [{id: a, if: inputs.n > 1, then: [{id: b, set: 1}]}]\n", "${ inputs.n > 1 }"),
        ("steps: [{id: a, if: true}]\n", "then"),
        ("steps: [{id: a, if: true, then: []}]\n", "then"),
        ("steps: [{id: a, set: $run.idd}]\n", "run.id"),
        ("steps: [{id: a, set: $iteration.index}]\n", "loop"),
        ("steps: [{id: a, set: 1}, {id: b, set: $a}]\n", "$a.output"),
        ("steps: [{id: a, set: 1}, {id: b, set: $a.value}]\n", "$a.output"),
        ("steps: [{id: a, set: 1}, {id: b, set: \"${ a.outptu }\"}]\n", "outptu"),
        ("steps: [{id: a, set: 1}, {id: b, set: $a._error}]\n", "_error"),
        ("steps: [{id: a, set: 'x ${ 1'}]\n", "closing"),
        ("steps: [{id: a, set: '${ \"x }'}]\n", "not closed"),
        ("steps: [{id: a, set: '${ $inputs.x }'}]\n", "without `$`"),
        ("steps: [{id: a, set: '${ inputs.in }'}]\n", "[\"in\"]"),
        ("steps: [{id: a, set: '${ siez(\"x\") }'}]\n", "size"),
        ("steps: [{id: a, set: '${ [1].exists(x, y > 1) }'}]\n", "`y`"),
    ] {
        refused(text, &[name]);
    }
}

#[test]
fn all_errors_of_a_file_at_once() {
    refused(
        "steps:\n  - {id: a, script: nope}\n  - {id: b, script: echo, retry: {times: 99, initial_ms: 10, factor: 1.0, max_ms: 10}}\n  - {id: c, set: $zzz.output}\n",
        &["nope", "times", "zzz", ":2:", ":3:", ":4:"],
    );
}

#[test]
fn retry_fields_out_of_range_are_refused_at_their_value() {
    for (field, value) in [
        ("times", "0"),
        ("times", "11"),
        ("times", "1.5"),
        ("times", "3.0"),
        ("times", "\"3\""),
        ("times", "null"),
        ("initial_ms", "9"),
        ("initial_ms", "60001"),
        ("initial_ms", "10.5"),
        ("factor", "0.99"),
        ("factor", "10.01"),
        ("factor", ".inf"),
        ("factor", ".nan"),
        ("factor", "\"2\""),
        ("max_ms", "99"),
        ("max_ms", "60001"),
        ("jitter", "\"yes please\""),
        ("jitter", "yes"),
        ("attempts", "3"),
    ] {
        let mut fields = vec![("times", "3"), ("initial_ms", "100"), ("factor", "2.0"), ("max_ms", "5000"), ("jitter", "false")];
        fields.retain(|(name, _)| *name != field);
        fields.push((field, value));
        let text: Vec<String> = fields.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        let drawn = refused(&format!("steps:\n  - id: a\n    script: wf_fail\n    retry: {{{}}}\n", text.join(", ")), &[field, ":4:"]);
        assert_eq!(drawn.matches("error[").count(), 1, "{drawn}");
    }
    for missing in ["times", "initial_ms", "factor", "max_ms"] {
        let text: Vec<&str> = ["times: 3", "initial_ms: 100", "factor: 2.0", "max_ms: 5000"].into_iter().filter(|field| !field.starts_with(missing)).collect();
        refused(&format!("steps:\n  - {{id: a, script: wf_fail, retry: {{{}}}}}\n", text.join(", ")), &[missing]);
    }
}

#[test]
fn misplaced_policies_are_refused_on_their_line() {
    for entry in [
        "{id: x, if: true, then: [{id: a, script: wf_fail}], retry: {times: 1, initial_ms: 10, factor: 1.0, max_ms: 10}}",
        "{id: x, parallel: {branches: {l: [{id: a, script: wf_fail}]}}, on_error: continue}",
        "{id: x, loop: {over: [1], steps: [{id: a, script: wf_fail}]}, on_error: continue}",
    ] {
        refused(&format!("steps:\n  - {entry}\n"), &[":2:", "`a`", "`x`"]);
    }
    for entry in [
        "{id: x, workflow: other, retry: {times: 1, initial_ms: 10, factor: 1.0, max_ms: 10}}",
        "{id: x, type: retry}",
        "{id: x, catch: [{id: a, script: wf_fail}]}",
        "{id: x, script: wf_fail, on_error: {catch: []}}",
        "{id: x, script: wf_fail, on_error: ignore}",
        "{id: x, script: wf_fail, on_error: {}}",
        "{id: x, script: wf_fail, on_error: {catch: [{id: a, script: wf_echo}], also: 1}}",
        "{id: x, script: wf_fail, if: true, then: [{id: a, script: wf_fail}]}",
        "{id: x}",
    ] {
        refused(&format!("steps:\n  - {entry}\n"), &[":2:"]);
    }
}

#[test]
fn a_nested_catch_is_refused_at_any_depth() {
    for inner in [
        "{id: i, script: wf_fail, on_error: {catch: [{id: j, script: wf_echo, args: {value: 1}}]}}",
        "{id: i, if: true, then: [{id: k, script: wf_fail, on_error: {catch: [{id: j, script: wf_echo, args: {value: 1}}]}}]}",
        "{id: i, loop: {over: [1], steps: [{id: k, script: wf_fail, on_error: {catch: [{id: j, script: wf_echo, args: {value: 1}}]}}]}}",
        "{id: i, parallel: {branches: {l: [{id: k, script: wf_fail, on_error: {catch: [{id: j, script: wf_echo, args: {value: 1}}]}}]}}}",
    ] {
        refused(&format!("steps:\n  - id: x\n    script: wf_fail\n    on_error:\n      catch:\n        - {inner}\n"), &["`catch` inside a `catch`"]);
    }
}

#[test]
fn scope_is_that_of_what_is_certain_to_have_run() {
    refused("steps:\n  - {id: f, parallel: {branches: {l: [{id: a, set: 1}], r: [{id: b, set: $a.output}]}}}\n", &["$a", "branch `l`"]);
    refused("steps:\n  - {id: f, parallel: {branches: {l: [{id: a, set: 1}]}}}\n  - {id: b, set: $f.output}\n", &["no value"]);
    refused("steps:\n  - {id: f, if: true, then: [{id: big, set: 1}]}\noutputs: {v: $big.output}\n", &["big", "`then` branch of `f`", "$f.output"]);
    refused("steps:\n  - {id: l, loop: {over: [1], as: x, steps: [{id: b, set: $x}]}}\n  - {id: c, set: $x}\n", &["variable of the loop `l`"]);
    refused("steps:\n  - {id: l, loop: {over: $item, steps: [{id: b, set: 1}]}}\n", &["$item"]);
    refused("steps:\n  - {id: item, set: 1}\n  - {id: l, loop: {over: [1], steps: [{id: b, set: 1}]}}\n", &["loop variable `item`"]);
    refused("steps:\n  - {id: l, loop: {over: [1], steps: [{id: m, loop: {over: [1], steps: [{id: b, set: 1}]}}]}}\n", &["loop variable `item`"]);
    let catch = |reference: &str| {
        format!(
            "steps:\n  - id: request\n    script: wf_fail\n    on_error:\n      catch:\n        - {{id: recovery, script: wf_echo, args: {{value: $_error.code}}}}\noutputs:\n  result: {reference}\n"
        )
    };
    for reference in ["$recovery.output", "$request._error.code", "$_error.code", "$requst.output"] {
        let drawn = refused(&catch(reference), &[reference.split('.').next().unwrap(), ":8:"]);
        if reference.starts_with("$requst") {
            assert!(drawn.contains("did you mean `$request`?"), "{drawn}");
        }
    }
    accepted(&catch("$request.output"));
    accepted(
        "inputs: {o: {}}\nsteps: [{id: a, script: s, on_error: continue}, {id: b, set: '${ has(a.output) && has(a._error.code) && has(inputs.o) && a[\"output\"].x == 1 }'}]\n",
    );
    refused("steps: [{id: a, set: 1}, {id: b, set: '${ has(a.oupput) }'}, {id: c, set: '${ has(inputs.nope) }'}]\n", &["oupput", "nope"]);
    accepted(&catch("$request.output").replace("$_error.code", "$request._error.code"));
    refused(&catch("$request.output").replace("$_error.code", "$request.output"), &["$request._error"]);
    accepted(
        "steps:\n  - id: x\n    script: wf_fail\n    on_error:\n      catch:\n        - {id: inner, script: wf_fail, on_error: continue}\n        - {id: last, script: wf_echo, args: {value: $inner._error.code}}\noutputs: {v: $x.output}\n",
    );
}

#[test]
fn durations_are_accepted_and_refused() {
    for spelling in ["PT5S", "PT1M", "PT1H", "P1D", "PT0.5S", "PT1H30M", "5000", "\"5000\"", "null", "\"\"", "P1W", "0", "PT"] {
        accepted(&format!("timeout: {spelling}\nsteps: [{{id: a, set: 1}}]\n"));
    }
    for spelling in ["-1", "\"-1\"", ".inf", ".nan", "[5]", "{a: 1}", "true", "P1Y", "P1M", "soon", "PT5X", "5s5", "1.5e400", "PT-5S"] {
        refused(&format!("timeout: {spelling}\nsteps: [{{id: a, script: s}}]\n"), &["timeout", ":1:"]);
        refused(&format!("steps:\n  - id: a\n    script: s\n    timeout: {spelling}\n"), &["timeout", ":4:"]);
    }
    accepted("steps:\n  - {id: a, script: s, timeout: PT24H}\n");
    refused("steps:\n  - {id: a, script: s, timeout: PT24H1S}\n", &["PT24H1S"]);
}

#[test]
fn hostile_documents_are_refused_quickly_and_without_a_crash() {
    let begin = std::time::Instant::now();
    let mut bomb = String::from("        a: &a [x, x, x, x, x, x, x, x, x, x]\n");
    for (last, next) in ('a'..='l').zip('b'..='m') {
        bomb.push_str(&format!("        {next}: &{next} [{}]\n", vec![format!("*{last}"); 10].join(", ")));
    }
    refused(&format!("steps:\n  - id: z\n    script: echo\n    args:\n      value:\n{bomb}"), &["aliases"]);
    for nested in ["[", "{a: ", "- ", "? ", "[{a: ", "!!seq [", "&a [", "\"", "${", "- - ? "] {
        refused(&format!("steps: {}", nested.repeat(100_000)), &[]);
        refused(&nested.repeat(100_000), &[]);
    }
    refused(&format!("steps: [{{id: a, set: '${{ {} }}'}}]", "(".repeat(10_000)), &["expression"]);
    for expression in ["1+", "!-", "a?b:", "a.", "a[", "[", "{'a':", "x.map(x,", "-", "!", "\"\"+", "f(", "a&&", "1?", "a.b().", "`"] {
        for times in [60, 900, 5000] {
            let text = format!("steps: [{{id: a, set: \"${{ {}1 }}\"}}]", expression.repeat(times).replace('"', "\\\""));
            compiled(&text).rendered(Style::Plain);
        }
    }
    refused(&format!("steps: [{{id: a, set: \"{}\"}}]", "x".repeat(1 << 20)), &["1 MiB"]);
    let many: String = (0..1100).map(|n| format!("  - {{id: a{n}, set: $b{n}.output}}\n")).collect();
    let drawn = refused(&format!("steps:\n{many}"), &["and ", " more"]);
    assert!(drawn.matches("error[").count() == 51);
    let many: String = (0..1100).map(|n| format!("  - {{id: a{n}, set: 1}}\n")).collect();
    refused(&format!("steps:\n{many}"), &["1000 entries", "w.yaml:1002:5"]);
    let targets = |from: usize| (from..from + 1_000).map(|n| format!("nope_{n}")).collect::<Vec<_>>().join(", ");
    let many: String = (0..80).map(|n| format!("  - {{id: an_entry_{n}, compensate: [{}]}}\n", targets(n * 1_000))).collect();
    refused(&format!("steps:\n{many}"), &["there is no entry `nope_0`", "more"]);
    refused(&format!("steps: [{{id: a, compensate: [{}]}}]", "x, ".repeat(1_001)), &["1001 ids", "1000 entries"]);
    let deep: String = (0..40).map(|n| format!("{{id: a{n}, if: true, then: [")).collect();
    refused(&format!("steps: [{deep}{{id: z, set: 1}}{}]", "]}".repeat(40)), &["32"]);
    assert!(compile("w.yaml", b"steps:\n  - \xff\n", &names()).rendered(Style::Plain).contains("w.yaml:2:5"));
    assert!(compiled("steps: \0").rendered(Style::Plain).contains("NUL"));
    assert!(begin.elapsed().as_secs() < 20, "{:?}", begin.elapsed());
}

#[test]
fn large_documents_are_compiled_and_drawn_quickly() {
    let begin = std::time::Instant::now();
    let items: String = (0..30_000).map(|n| format!("\"é${{ nope{n} }} x\", ")).collect();
    let drawn = refused(&format!("{{\"steps\": [{{\"id\": \"a\", \"set\": [{items} 1]}}]}}"), &["nope0", "more"]);
    assert!(drawn.len() < 100_000, "{}", drawn.len());
    let items: String = (0..90_000).map(|n| format!("k{n}: v, ")).collect();
    refused(&format!("steps: [{{id: a, set: {{{items} }}}}, {{id: a, script: nope}}]"), &["nope"]);
    refused(&format!("steps: [{{id: a, set: [&x {}, {}]}}]", "y".repeat(500_000), vec!["*x"; 50_000].join(", ")), &["MiB of text"]);
    refused(&format!("steps:\n{}", "  - a: [".repeat(30_000)), &[]);
    refused(&"a:\n".repeat(200_000), &["twice"]);
    assert!(begin.elapsed().as_secs() < 20, "{:?}", begin.elapsed());
    println!("large documents: {:?}", begin.elapsed());
}

#[test]
fn syntax_errors_in_yaml_say_quote_it() {
    for text in [
        "steps:\n  - id: a\n    set: ${ 1 > 0 ? 1 : 2 }\n",
        "steps: [{id: a, set: ${ 1 }}]\n",
        "steps:\n  - id: a\n    set:\n      - ${ true ? 1 : 2 }\n",
        "steps:\n  - id: a\n    set: ${ 'x' # y }\n",
    ] {
        refused(text, &["quote"]);
    }
}

#[test]
fn a_condition_written_as_text_is_shown_as_the_expression_that_was_meant() {
    let text = "inputs: {n: integer}\nsteps: [{id: a, if: $inputs.n > 3, then: [{id: b, set: 1}]}]\n";
    let result = compile("w.yaml", text.as_bytes(), &Names::default());
    assert!(
        result.rendered(Style::Plain).contains("write `if`: \"${ inputs.n > 3 }\"")
            || result.rendered(Style::Plain).contains("write if: \"${ inputs.n > 3 }\""),
        "{}",
        result.rendered(Style::Plain)
    );
    let mended = text.replace("$inputs.n > 3", "\"${ inputs.n > 3 }\"");
    assert!(compile("w.yaml", mended.as_bytes(), &Names::default()).definition.is_some());
}
