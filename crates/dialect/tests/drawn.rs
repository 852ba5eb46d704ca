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

#[test]
fn what_a_compensate_entry_cannot_name() {
    let text = "\
steps:
  - {id: book, script: reserve, compensate: {script: charge, args: {id: $book.output.id}}}
  - {id: look, if: true, then: [{id: inner, script: reserve, compensate: {irreversible: sent}}]}
  - {id: plain, script: charge}
  - {id: undo, compensate: [book, book, plain, inner, undo, after, bok, $book.output]}
  - {id: after, script: charge, compensate: {script: reserve, irreversible: sent}}
  - {id: mail, script: charge, compensate: {irreversible: sent, args: {}}}
";
    let wanted = r#"
error[duplicate-id]: `book` is named twice
 --> w.yaml:5:35
  |
5 |   - {id: undo, compensate: [book, book, plain, inner, undo, after, bok, $book.output]}
  |                             ----  ^^^^
  |                             |
  |                             the first time
  |
  = help: an effect is undone once

error[nothing-to-undo]: `plain` does not say how its effect is undone
 --> w.yaml:5:41
  |
4 |   - {id: plain, script: charge}
  |          ----- the entry
5 |   - {id: undo, compensate: [book, book, plain, inner, undo, after, bok, $book.output]}
  |                                         ^^^^^
  |
  = help: give `plain` a `compensate: {script: …, args: {…}}`

error[out-of-scope]: `inner` is not certain to have run here: it is local to the `then` branch of `look`
 --> w.yaml:5:48
  |
3 |   - {id: look, if: true, then: [{id: inner, script: reserve, compensate: {irreversible: sent}}]}
  |                                      ----- it stands here
4 |   - {id: plain, script: charge}
5 |   - {id: undo, compensate: [book, book, plain, inner, undo, after, bok, $book.output]}
  |                                                ^^^^^
  |
  = help: name `look`: that undoes whatever was done inside it

error[out-of-scope]: `undo` is this entry itself
 --> w.yaml:5:55
  |
5 |   - {id: undo, compensate: [book, book, plain, inner, undo, after, bok, $book.output]}
  |                                                       ^^^^
  |
  = help: name an entry before it

error[out-of-scope]: `after` is declared later: only what stands before can be undone
 --> w.yaml:5:61
  |
5 |   - {id: undo, compensate: [book, book, plain, inner, undo, after, bok, $book.output]}
  |                                                             ^^^^^
6 |   - {id: after, script: charge, compensate: {script: reserve, irreversible: sent}}
  |          ----- it stands here
  |
  = help: move it before this entry

error[unknown-name]: there is no entry `bok`
 --> w.yaml:5:68
  |
5 |   - {id: undo, compensate: [book, book, plain, inner, undo, after, bok, $book.output]}
  |                                                                    ^^^
  |
  = help: did you mean `book`?

error[bad-value]: `$book.output` is not an id: an id has no `$`
 --> w.yaml:5:73
  |
5 |   - {id: undo, compensate: [book, book, plain, inner, undo, after, bok, $book.output]}
  |                                                                         ^^^^^^^^^^^^
  |
  = help: write `book`

error[two-kinds]: `compensate` has `script` and `irreversible`; it takes one of them
 --> w.yaml:6:46
  |
6 |   - {id: after, script: charge, compensate: {script: reserve, irreversible: sent}}
  |                                              ^^^^^^           ------------ the other one
  |
  = help: what a script can undo is not irreversible

error[unknown-key]: `args` goes with `script`: nothing is run for an effect that is `irreversible`
 --> w.yaml:7:65
  |
7 |   - {id: mail, script: charge, compensate: {irreversible: sent, args: {}}}
  |                                             ------------        ^^^^
  |                                             |
  |                                             it says that nothing can undo it"#;
    assert_eq!(drawn(text), wanted.trim_start());
}

#[test]
fn what_is_wrong_with_a_review_and_with_undoing() {
    let text = "\
compensation_timeout: 0
steps:
  - id: look
    review: {title: Check, form: {score: {type: integer, default: x}}, assignees: editors, timeout: PT2H, remind: [PT1H, PT2H, 0]}
  - {id: pay, script: charge, resolve: {script: serve, args: {v: $pay.output}}, compensate: {irreversible: $look.output}}
  - if: ${ look.output.decision == 'aproved' }
    id: route
    then: [{id: a, set: $look.output.data.scor}, {id: b, set: $look.output.score}]
  - {id: call, set: 1, compensate: {script: charge}}
";
    let wanted = r#"
error[bad-duration]: a `compensation_timeout` of nothing would undo nothing
 --> w.yaml:1:23
  |
1 | compensation_timeout: 0
  |                       ^
  |
  = help: to leave the undoing to a person write `compensation: manual`; without this key it may take 300 s

error[bad-default]: the default of the field `score` does not fit its own schema: "x" is not of type "integer"
 --> w.yaml:4:67
  |
4 |     review: {title: Check, form: {score: {type: integer, default: x}}, assignees: editors, timeout: PT2H, remind: [PT1H, PT2H, 0]}
  |                                                                   ^

error[wrong-type]: `assignees` must be a list of names, not the string "editors"
 --> w.yaml:4:83
  |
4 |     review: {title: Check, form: {score: {type: integer, default: x}}, assignees: editors, timeout: PT2H, remind: [PT1H, PT2H, 0]}
  |                                                                                   ^^^^^^^
  |
  = help: write `assignees: [editors]`

error[bad-duration]: the reminder `PT2H` would come when the review is over: its timeout is 7200000 ms
 --> w.yaml:4:122
  |
4 |     review: {title: Check, form: {score: {type: integer, default: x}}, assignees: editors, timeout: PT2H, remind: [PT1H, PT2H, 0]}
  |                                                                                                     ---- the timeout     ^^^^

error[bad-duration]: `0` reminds of the review at the moment when it is asked for
 --> w.yaml:4:128
  |
4 |     review: {title: Check, form: {score: {type: integer, default: x}}, assignees: editors, timeout: PT2H, remind: [PT1H, PT2H, 0]}
  |                                                                                                                                ^

error[unknown-script]: there is no script `serve`
 --> w.yaml:5:49
  |
5 |   - {id: pay, script: charge, resolve: {script: serve, args: {v: $pay.output}}, compensate: {irreversible: $look.output}}
  |                                                 ^^^^^
  |
  = help: did you mean `reserve`? Otherwise create it first: viat script create --name serve --language python --file serve.py

error[out-of-scope]: `$pay` refers to the entry itself, which has no output yet
 --> w.yaml:5:66
  |
5 |   - {id: pay, script: charge, resolve: {script: serve, args: {v: $pay.output}}, compensate: {irreversible: $look.output}}
  |                                                                  ^^^^^^^^^^^

error[bad-value]: `irreversible` is fixed text: nothing in it is evaluated
 --> w.yaml:5:108
  |
5 |   - {id: pay, script: charge, resolve: {script: serve, args: {v: $pay.output}}, compensate: {irreversible: $look.output}}
  |                                                                                                            ^^^^^^^^^^^^
  |
  = help: for example `irreversible: "the e-mail has been sent"`

warning[unknown-decision]: no review is ever decided `aproved`
 --> w.yaml:6:36
  |
6 |   - if: ${ look.output.decision == 'aproved' }
  |                                    ^^^^^^^^^
  |
  = help: did you mean `approved`?

error[unknown-name]: the form of the review `look` has no field `scor`
 --> w.yaml:8:25
  |
8 |     then: [{id: a, set: $look.output.data.scor}, {id: b, set: $look.output.score}]
  |                         ^^^^^^^^^^^^^^^^^^^^^^
  |
  = help: did you mean `$look.output.data.score`?

error[unknown-name]: the value of a review has no `score`
 --> w.yaml:8:63
  |
8 |     then: [{id: a, set: $look.output.data.scor}, {id: b, set: $look.output.score}]
  |                                                               ^^^^^^^^^^^^^^^^^^
  |
  = help: it is a field of the form: `$look.output.data.score`

error[two-kinds]: an entry has exactly one kind; this one has `set` and `compensate`
 --> w.yaml:9:24
  |
9 |   - {id: call, set: 1, compensate: {script: charge}}
  |                ---     ^^^^^^^^^^
  |                |
  |                the first one
  |
  = help: only a script entry says how its effect is undone: put it on a script entry inside"#;
    assert_eq!(drawn(text), wanted.trim_start());
}
