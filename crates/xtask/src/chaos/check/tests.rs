//! Each check finds what it is for: a run in which all is well, and the same run with one thing wrong.

use serde_json::{Value, json};

use super::{Case, Wrong, attempts, history, ledger, undo};
use crate::chaos::effects::{Line, Word};
use crate::chaos::facts::{Batch, Facts};
use crate::chaos::rules::Rules;

/// `first` and `plain` complete, `last` is refused, and both are undone, newest first.
struct Sound {
    facts: Facts,
    lines: Vec<Line>,
}

fn sound() -> Sound {
    let attempt = |kind: &str, path: &str| json!({"type": kind, "path": path, "attempt": 1, "decision": {"retry": false}});
    let (start, done) = (|path| attempt("attempt_started", path), |path| attempt("attempt_succeeded", path));
    let turn = |path: &str| json!({"type": "compensation_entered", "path": path});
    let plain = |kind: &str| json!({"type": kind});
    let events = vec![
        vec![plain("created"), start("first")],
        vec![done("first"), start("fan.plain.plain")],
        vec![done("fan.plain.plain"), start("last")],
        vec![attempt("attempt_failed", "last"), plain("compensation_started"), turn("fan.plain.plain"), start("fan.plain.plain:compensate")],
        vec![done("fan.plain.plain:compensate"), turn("first"), start("first:compensate")],
        vec![done("first:compensate"), plain("failed")],
    ];
    let batch = |(number, events): (usize, Vec<Value>)| Batch { number: number as u64, count: events.len(), at: number as i64, events };
    let line = |path: &str, outcome: &str| json!({"path": path, "outcome": outcome});
    let row = |step: Value, from: Value, to: &str| json!({"step_name": step, "from_status": from, "to_status": to, "side_effect_id": "k"});
    let mut transitions = vec![row(Value::Null, Value::Null, "queued"), row(Value::Null, "queued".into(), "failed")];
    transitions.extend(["first", "fan.plain.plain", "last"].map(|step| row(step.into(), Value::Null, "entered")));
    let status = |path: &str| json!({"path": path, "status": "compensated"});
    let facts = Facts {
        record: json!({"workflow": "wide", "status": "failed", "ledger": [status("first"), status("fan.plain.plain")]}),
        ledger: vec![line("first", "completed_at_1"), line("fan.plain.plain", "completed_at_1"), line("last", "manual_review")],
        transitions,
        journal: events.into_iter().enumerate().map(batch).collect(),
    };
    let whole = |path: &str| [Word::Begin, Word::Effect, Word::End].map(|word| told(path, word));
    let paths = ["first", "fan.plain.plain", "fan.plain.plain:compensate", "first:compensate"];
    let mut lines: Vec<Line> = paths.into_iter().flat_map(whole).collect();
    lines.push(told("last", Word::Begin));
    Sound { facts, lines }
}

fn told(path: &str, word: Word) -> Line {
    Line { run: "r".to_owned(), path: path.to_owned(), key: "k".to_owned(), attempt: 1, word }
}

fn rules() -> Rules {
    let ours = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("chaos");
    Rules::read(&ours).expect("the workflows compile")
}

/// What the checks say once `spoil` has had its way.
fn wrong(spoil: impl FnOnce(&mut Sound)) -> Wrong {
    let (mut sound, rules) = (sound(), rules());
    spoil(&mut sound);
    let case = Case { facts: &sound.facts, lines: &sound.lines, rules: &rules, known: None, stepped: false };
    [history::check(&case), attempts::check(&case), ledger::check(&case), undo::check(&case)].concat()
}

fn finds(what: &str, spoil: impl FnOnce(&mut Sound)) {
    let found = wrong(spoil);
    assert!(found.iter().any(|wrong| wrong.contains(what)), "{what}: {found:?}");
}

#[test]
fn what_is_sound_passes() {
    assert_eq!(wrong(|_| {}), Wrong::new());
}

#[test]
fn a_gap_and_a_run_that_has_not_ended() {
    finds("has the number", |sound| sound.facts.journal[3].number = 4);
    finds("events and should have", |sound| sound.facts.journal[3].count = 3);
    finds("goes back in time", |sound| sound.facts.journal[3].at = 0);
    finds("it has not ended", |sound| sound.facts.record["status"] = "running".into());
    finds("its journal ends with", |sound| sound.facts.record["status"] = "succeeded".into());
    finds("the one before it ended at", |sound| sound.facts.transitions[1]["from_status"] = "running".into());
    finds("the one before it ended at", |sound| drop(sound.facts.transitions.remove(0)));
}

#[test]
fn an_attempt_twice_or_from_nowhere() {
    finds("ran twice", |sound| sound.lines.push(told("last", Word::Begin)));
    finds("its start is not in the journal", |sound| sound.lines.push(told("fan.plain.plain_too", Word::Begin)));
    finds("it never came to its end", |sound| sound.lines.retain(|line| line.path != "first" || line.word != Word::End));
    finds("had its effect 2 times", |sound| sound.lines.push(told("first", Word::Effect)));
    finds("which no transition names", |sound| sound.lines[0].key = "other".to_owned());
}

#[test]
fn a_ledger_that_is_not_the_truth() {
    finds("the record's ledger does not have it", |sound| drop(sound.facts.record["ledger"].as_array_mut().map(|rows| rows.remove(0))));
    finds("which never completed", |sound| sound.facts.record["ledger"][0]["path"] = "last".into());
    finds("`run ledger` has these", |sound| drop(sound.facts.ledger.remove(0)));
    finds("its effect never happened", |sound| sound.lines.retain(|line| line.path != "first"));
}

#[test]
fn undone_twice_in_the_wrong_order_or_not_at_all() {
    finds("out of order", |sound| {
        sound.facts.journal[3].events[2]["path"] = "first".into();
        sound.facts.journal[4].events[1]["path"] = "fan.plain.plain".into();
    });
    finds("had been undone before", |sound| sound.facts.journal[5].events[0]["path"] = "fan.plain.plain:compensate".into());
    finds("it never completed", |sound| sound.facts.journal[5].events[0]["path"] = "last:compensate".into());
    finds("is in place, although the run is", |sound| sound.facts.journal[5].events[0] = json!({"type": "noted"}));
    finds("nothing has undone it", |sound| sound.lines.retain(|line| line.path != "first:compensate"));
    finds("should have been before", |sound| sound.lines.rotate_left(9));
    finds("nothing allows it to be repeated", |sound| sound.lines.push(told("first:compensate", Word::Effect)));
    finds("the journal says", |sound| sound.facts.record["ledger"][0]["status"] = "completed".into());
}
