//! Diagnostics as they are drawn, letter by letter.

use viat_dialect::{Names, Style, compile};

fn drawn(text: &str) -> String {
    let names = Names { scripts: vec!["reserve".into(), "charge".into()], workflows: vec![] };
    compile("w.yaml", text.as_bytes(), &names).rendered(Style::Plain)
}

#[test]
fn each_problem_of_a_policy_is_underlined_at_its_value() {
    let text = "steps:\n  - id: book\n    script: reserv\n    retry: {times: 99, initial_ms: 100, factor: .inf, max_ms: 50}\n";
    let wanted = r#"
error[unknown-script]: there is no script `reserv`
 --> w.yaml:3:13
  |
3 |     script: reserv
  |             ^^^^^^
  |
  = help: did you mean `reserve`? Otherwise create it first: viat script create --name reserv --language python --file reserv.py

error[out-of-range]: `retry.times` must be an integer from 1 to 10, not 99
 --> w.yaml:4:20
  |
4 |     retry: {times: 99, initial_ms: 100, factor: .inf, max_ms: 50}
  |                    ^^

error[out-of-range]: `retry.factor` must be a finite number from 1.0 to 10.0, not .inf
 --> w.yaml:4:49
  |
4 |     retry: {times: 99, initial_ms: 100, factor: .inf, max_ms: 50}
  |                                                 ^^^^

error[out-of-range]: `retry.max_ms` must be at least `initial_ms`, and 50 is less than 100
 --> w.yaml:4:63
  |
4 |     retry: {times: 99, initial_ms: 100, factor: .inf, max_ms: 50}
  |                                    --- the first wait         ^^"#;
    assert_eq!(drawn(text), wanted.trim_start());
}

#[test]
fn a_name_in_an_expression_is_underlined_exactly() {
    let text = "steps:\n  - {id: book, set: 1}\n  - id: pay\n    set: |\n      first line\n      héllo ${ 1 + bok.output.n } and ${ 2 * }\n";
    let wanted = r#"
error[unknown-name]: nothing here is called `bok`
 --> w.yaml:6:20
  |
6 |       héllo ${ 1 + bok.output.n } and ${ 2 * }
  |                    ^^^^^^^^^^^^
  |
  = help: did you mean `book`?

error[bad-expression]: `2 *` is not an expression: something must follow `*`
 --> w.yaml:6:44
  |
6 |       héllo ${ 1 + bok.output.n } and ${ 2 * }
  |                                            ^"#;
    assert_eq!(drawn(text), wanted.trim_start());
}

#[test]
fn a_second_place_explains_the_first() {
    let text = "steps:\n  - id: check\n    if: ${ 1 == 1 }\n    then:\n      - {id: inner, set: 1}\noutputs:\n  v: $inner.output\n";
    let wanted = r#"
error[out-of-scope]: `$inner` is not certain to have run here: it is local to the `then` branch of `check`
 --> w.yaml:7:6
  |
5 |       - {id: inner, set: 1}
  |              ----- it stands here
6 | outputs:
7 |   v: $inner.output
  |      ^^^^^^^^^^^^^
  |
  = help: the value of the whole is `$check.output`"#;
    assert_eq!(drawn(text), wanted.trim_start());
}

#[test]
fn a_warning_and_the_data_form() {
    let text = "timeout: PT1S\nsteps:\n  - {id: a, script: charge, timeout: PT1M}\n";
    let result = compile("w.yaml", text.as_bytes(), &Names { scripts: vec!["charge".into()], workflows: vec![] });
    assert!(result.definition.is_some());
    let data = serde_json::to_value(&result.diagnostics).expect("diagnostics are data");
    assert_eq!(
        data,
        serde_json::json!([{
            "severity": "warning", "code": "timeout-never-reached", "file": "w.yaml",
            "message": "the timeout of `a` (60000 ms) is longer than that of the whole document (1000 ms)",
            "span": {"start": 58, "end": 62, "line": 3, "col": 38},
            "labels": [{"span": {"start": 9, "end": 13, "line": 1, "col": 10}, "message": "the run ends first"}],
            "help": "the strictest budget wins: lengthen the document's, or leave this one out",
        }])
    );
    assert!(result.rendered(Style::Coloured).contains("\u{1b}["));
}

#[test]
fn other_line_ends_and_byte_order_marks_do_not_shift_places() {
    let text = "\u{feff}steps:\r\n  - id: a\r\n    set: |\r\n      x ${ nope } y\r\n  - {id: b, set: $nope2.output}\r\n";
    let drawn = drawn(text);
    assert!(drawn.contains("w.yaml:4:12") && drawn.contains("w.yaml:5:18"), "{drawn}");
}

#[test]
fn a_return_among_others_and_an_entry_of_a_loop_that_is_over() {
    let text = "steps:\n  - id: fan\n    parallel:\n      branches: [{id: a, return: {v: 1}}]\n  - {id: each, loop: {over: [1], steps: [{id: b, set: 1}]}}\noutputs: {v: $b.output}\n";
    let wanted = r#"
error[misplaced-return]: a `return` cannot stand here: the `parallel` around it may be running other entries, too
 --> w.yaml:4:26
  |
3 |     parallel:
  |     -------- it stands in this
4 |       branches: [{id: a, return: {v: 1}}]
  |                          ^^^^^^
  |
  = help: let the entries come to a value and `return` after it

error[out-of-scope]: `$b` is local to the loop `each`, which is over here: an entry of a loop exists only within its iteration
 --> w.yaml:6:14
  |
5 |   - {id: each, loop: {over: [1], steps: [{id: b, set: 1}]}}
  |                                               - it stands here
6 | outputs: {v: $b.output}
  |              ^^^^^^^^^
  |
  = help: `$each.output` lists the value of each iteration"#;
    assert_eq!(drawn(text), wanted.trim_start());
}

/// A document beside the drawing of its diagnostics.
macro_rules! kept {
    ($name:literal) => {
        (include_str!(concat!("drawn/", $name, ".yaml")), include_str!(concat!("drawn/", $name, ".txt")))
    };
}

#[test]
fn what_is_wrong_with_reviews_and_with_undoing() {
    for (text, wanted) in [kept!("compensate"), kept!("review"), kept!("sorts")] {
        assert_eq!(format!("{}\n", drawn(text)), wanted);
    }
}
