//! Undoing: in the reverse order of completion, each effect at most once, none forgotten unless it is reported.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Case, Wrong, text};
use crate::chaos::effects::Word;
use crate::chaos::rules::Undo;

pub(super) fn check(case: &Case) -> Wrong {
    let mut fold = Fold::default();
    case.facts.events().for_each(|event| fold.event(event));
    let mut wrong = std::mem::take(&mut fold.wrong);
    wrong.extend(standings(case, &fold));
    wrong.extend(forgotten(case, &fold));
    wrong.extend(in_the_world(case, &fold));
    wrong.extend(repeated(case));
    wrong
}

/// How an effect stands, in the words of the record's ledger.
type Standing = &'static str;

#[derive(Default)]
struct Fold {
    /// Each effect's standing, and its place in the order of completion.
    effects: BTreeMap<String, (Standing, usize)>,
    completed: usize,
    /// The stretch of undoing that is under way: each has its own order.
    stretch: usize,
    /// The place of the effect that was undone last in it.
    last: Option<usize>,
    /// Of each attempt to undo: its stretch, and the place of its effect.
    attempts: BTreeMap<(String, u64), (usize, usize)>,
    wrong: Wrong,
}

impl Fold {
    fn event(&mut self, event: &Value) {
        let (kind, path) = (text(event, "type"), text(event, "path"));
        let entry = path.split(':').next().unwrap_or_default();
        let undoes = path.ends_with(":compensate");
        match kind {
            "attempt_succeeded" if undoes => self.undone(entry, "compensated"),
            "attempt_failed" if undoes && event["decision"]["retry"] != true => self.undone(entry, "compensation_failed"),
            "attempt_started" if undoes => {
                let place = self.effects.get(entry).map_or(0, |(_, place)| *place);
                self.attempts.insert((path.to_owned(), event["attempt"].as_u64().unwrap_or_default()), (self.stretch, place));
            }
            "attempt_succeeded" if !path.contains(':') => self.complete(path),
            "resolved" | "settled" if event.get("output").is_some() => self.complete(path),
            "compensation_started" | "compensate_entered" => (self.stretch, self.last) = (self.stretch + 1, None),
            "compensation_entered" => self.turn(path),
            "effect_irreversible" => {
                self.turn(path);
                self.undone(path, "irreversible");
            }
            "compensation_failed" => self.undone(path, "compensation_failed"),
            _ => {}
        }
    }

    fn complete(&mut self, path: &str) {
        self.completed += 1;
        if self.effects.get(path).is_some_and(|(standing, _)| *standing != "compensated") {
            self.wrong.push(format!("{path} completed again, and it was not undone before"));
        }
        self.effects.insert(path.to_owned(), ("completed", self.completed));
    }

    /// It is this effect's turn.
    fn turn(&mut self, path: &str) {
        let Some((_, place)) = self.effects.get(path) else { return self.wrong.push(format!("{path} was to be undone, and it never completed")) };
        if self.last.is_some_and(|last| *place >= last) {
            self.wrong.push(format!("{path} was undone out of order: it completed after what was undone before it"));
        }
        self.last = Some(*place);
    }

    fn undone(&mut self, path: &str, standing: Standing) {
        let Some((before, _)) = self.effects.get_mut(path) else { return self.wrong.push(format!("{path} was undone, and it never completed")) };
        if *before == "compensated" {
            self.wrong.push(format!("{path} was undone, and it had been undone before"));
        }
        *before = standing;
    }
}

/// The record's ledger says the same.
fn standings(case: &Case, fold: &Fold) -> Wrong {
    let rows = case.facts.record["ledger"].as_array().into_iter().flatten();
    let differ = rows.filter_map(|row| {
        let (standing, _) = fold.effects.get(text(row, "path"))?;
        (text(row, "status") != *standing).then(|| format!("the record says that {} is {}, the journal says {standing}", row["path"], row["status"]))
    });
    let mut wrong: Wrong = differ.collect();
    let lines = |outcome: &str| case.facts.ledger.iter().filter(|line| text(line, "outcome") == outcome).count();
    let failed = case.facts.record["ledger"].as_array().into_iter().flatten().filter(|row| row["status"] == "compensation_failed").count();
    if failed > lines("compensation_failed") {
        wrong.push(format!("{failed} effects could not be undone, and `run ledger` reports fewer"));
    }
    wrong
}

/// A run that ended badly has undone all that it could.
fn forgotten(case: &Case, fold: &Fold) -> Wrong {
    if case.facts.record["status"] == "succeeded" {
        return Wrong::new();
    }
    let left = fold.effects.iter().filter(|(path, (standing, _))| {
        let undo = case.rules.of(path).map_or(Undo::Nothing, |rule| rule.undo);
        *standing == "completed" && undo != Undo::Nothing
    });
    left.map(|(path, _)| format!("{path} is in place, although the run is {}", case.facts.record["status"])).collect()
}

/// What is called undone was, in the same order.
fn in_the_world(case: &Case, fold: &Fold) -> Wrong {
    let undone: Vec<_> = case.lines.iter().filter(|line| line.undoes() && line.word == Word::End).collect();
    let mut wrong = Wrong::new();
    let compensated = fold.effects.iter().filter(|(_, (standing, _))| *standing == "compensated");
    for (path, _) in compensated.filter(|(path, _)| !undone.iter().any(|line| line.entry() == path.as_str())) {
        wrong.push(format!("{path} is called undone, and nothing has undone it"));
    }
    let places: Vec<_> = undone.iter().filter_map(|line| Some((line, fold.attempts.get(&(line.path.clone(), line.attempt))?))).collect();
    for pair in places.windows(2) {
        let ((before, (stretch, place)), (line, (next_stretch, next_place))) = (pair[0], pair[1]);
        let again = before.path == line.path;
        if next_stretch < stretch || (next_stretch == stretch && next_place >= place && !again) {
            wrong.push(format!("{} was really undone after {}, and should have been before", line.path, before.path));
        }
    }
    wrong
}

/// What may not be repeated was not, even where the engine died in the middle of it.
fn repeated(case: &Case) -> Wrong {
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for line in case.lines.iter().filter(|line| line.undoes() && line.word == Word::Effect) {
        let rule = case.rules.of(line.entry());
        if rule.is_some_and(|rule| rule.undo == Undo::Script { repeats: false }) {
            *counts.entry((&line.path, &line.key)).or_default() += 1;
        }
    }
    let twice = counts.into_iter().filter(|(_, count)| *count > 1);
    twice.map(|((path, _), count)| format!("{path} had its effect {count} times, and nothing allows it to be repeated")).collect()
}
