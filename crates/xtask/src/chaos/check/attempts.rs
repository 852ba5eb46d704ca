//! What ran is what the journal says ran: nothing without its start being durable, nothing twice, nothing invented.

use std::collections::{BTreeMap, BTreeSet};

use super::{Case, Wrong, text};
use crate::chaos::effects::Word;

pub(super) fn check(case: &Case) -> Wrong {
    let mut wrong = begun(case);
    wrong.extend(returned(case));
    wrong.extend(once(case));
    wrong.extend(keys(case));
    wrong
}

type Attempt<'a> = (&'a str, u64);

fn attempts<'a>(case: &'a Case, kind: &'static str) -> Vec<Attempt<'a>> {
    case.facts.of_type(kind).map(|event| (text(event, "path"), event["attempt"].as_u64().unwrap_or_default())).collect()
}

/// An attempt begins at most once, and only when its start is in the journal.
fn begun(case: &Case) -> Wrong {
    let started = attempts(case, "attempt_started");
    let mut wrong = Wrong::new();
    let distinct: BTreeSet<Attempt> = started.iter().copied().collect();
    if distinct.len() != started.len() {
        wrong.push("the journal has two starts of one attempt".to_owned());
    }
    let mut seen = BTreeSet::new();
    for line in case.lines.iter().filter(|line| line.word == Word::Begin) {
        let attempt = (line.path.as_str(), line.attempt);
        if !distinct.contains(&attempt) {
            wrong.push(format!("{} #{} ran, and its start is not in the journal", line.path, line.attempt));
        }
        if !seen.insert(attempt) {
            wrong.push(format!("{} #{} ran twice", line.path, line.attempt));
        }
    }
    wrong
}

/// What the journal says has returned did so.
fn returned(case: &Case) -> Wrong {
    let ended: BTreeSet<Attempt> = case.lines.iter().filter(|line| line.word == Word::End).map(|line| (line.path.as_str(), line.attempt)).collect();
    let invented = attempts(case, "attempt_succeeded").into_iter().filter(|attempt| !ended.contains(attempt));
    invented.map(|(path, attempt)| format!("the journal says that {path} #{attempt} succeeded, and it never came to its end")).collect()
}

/// An entry that nobody allowed to repeat has at most one effect under one key; nothing begins again under a key that is complete.
fn once(case: &Case) -> Wrong {
    let mut effects: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for line in case.lines.iter().filter(|line| line.word == Word::Effect && line.works()) {
        if case.rules.of(&line.path).is_some_and(|rule| rule.once) {
            *effects.entry((&line.path, &line.key)).or_default() += 1;
        }
    }
    let twice = effects.into_iter().filter(|(_, count)| *count > 1);
    twice.map(|((path, key), count)| format!("{path} had its effect {count} times under the key {key}")).collect()
}

/// The key that a script was given is the one that the transitions name.
fn keys(case: &Case) -> Wrong {
    let rows = case.facts.transitions.iter().map(|row| (text(row, "step_name"), text(row, "side_effect_id")));
    let named: BTreeSet<(&str, &str)> = rows.collect();
    let odd = case.lines.iter().filter(|line| line.works() && !named.contains(&(line.path.as_str(), line.key.as_str())));
    odd.map(|line| format!("{} #{} was given the key {}, which no transition names", line.path, line.attempt, line.key)).collect()
}
