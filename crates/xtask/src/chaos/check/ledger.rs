//! The ledger is the truth: all that completed is in it, and all that is in it happened.

use std::collections::{BTreeMap, BTreeSet};

use super::{Case, Wrong, text};
use crate::chaos::effects::Word;
use crate::chaos::story::WIDE;

pub(super) fn check(case: &Case) -> Wrong {
    let completed = completed(case);
    let mut wrong = lines(case, &completed);
    let rows = case.facts.record["ledger"].as_array().map(Vec::as_slice).unwrap_or_default();
    let in_record: BTreeSet<&str> = rows.iter().map(|row| text(row, "path")).collect();
    let in_journal: BTreeSet<&str> = completed.iter().map(|done| done.path).collect();
    wrong.extend(in_journal.difference(&in_record).map(|path| format!("{path} completed, and the record's ledger does not have it")));
    wrong.extend(in_record.difference(&in_journal).map(|path| format!("the record's ledger has {path}, which never completed")));
    wrong.extend(happened(case, &completed));
    wrong
}

/// An entry's completion, as the journal has it.
struct Completed<'a> {
    path: &'a str,
    /// By its own attempt, not found out or said.
    own: bool,
}

fn completed<'a>(case: &'a Case) -> Vec<Completed<'a>> {
    let done = case.facts.events().filter_map(|event| {
        let path = text(event, "path");
        let own = event["type"] == "attempt_succeeded" && !path.contains(':');
        let otherwise = (event["type"] == "resolved" || event["type"] == "settled") && event.get("output").is_some();
        (own || otherwise).then_some(Completed { path, own })
    });
    done.collect()
}

/// `run ledger` has a line for each completion.
fn lines(case: &Case, completed: &[Completed]) -> Wrong {
    let count = |paths: &mut dyn Iterator<Item = String>| {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        paths.for_each(|path| *counts.entry(path).or_default() += 1);
        counts
    };
    let shown = case.facts.ledger.iter().filter(|line| text(line, "outcome").starts_with("completed_at_"));
    let shown = count(&mut shown.map(|line| text(line, "path").to_owned()));
    let known = count(&mut completed.iter().map(|done| done.path.to_owned()));
    if shown == known { Wrong::new() } else { vec![format!("`run ledger` has these completions: {shown:?}, the journal these: {known:?}")] }
}

/// What completed has happened. Of the flagship's effects `world` knows more.
fn happened(case: &Case, completed: &[Completed]) -> Wrong {
    let wide = case.facts.record["workflow"] == WIDE;
    let word = if wide { Word::Effect } else { Word::End };
    let seen: BTreeSet<&str> = case.lines.iter().filter(|line| line.word == word && line.works()).map(|line| line.path.as_str()).collect();
    let missing = completed.iter().filter(|done| (wide || done.own) && !seen.contains(done.path));
    missing.map(|done| format!("{} is complete, and its effect never happened", done.path)).collect()
}
