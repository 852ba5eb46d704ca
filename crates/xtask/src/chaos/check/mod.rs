//! What must hold when all is over, whatever was done to the server.

mod attempts;
mod history;
mod ledger;
mod promises;
#[cfg(test)]
mod tests;
mod undo;
mod world;

use std::collections::BTreeMap;

use super::effects::{Effects, Line};
use super::facts::Facts;
use super::lab::Lab;
use super::people::{Known, People};
use super::rules::Rules;
use super::truth::Truth;
use crate::shell::Done;

/// Something that must not be: the run (empty: none in particular), and what.
pub type Violation = (String, String);

/// All that there is on one run.
struct Case<'a> {
    facts: &'a Facts,
    lines: &'a [Line],
    rules: &'a Rules,
    /// What people know of it; `None`: nobody has asked for such a run.
    known: Option<&'a Known>,
    /// Whether the server's clock was stepped: then times say nothing about order.
    stepped: bool,
}

/// What is wrong, as sentences.
type Wrong = Vec<String>;

/// Checks everything; `noticed` is what was seen to be wrong on the way.
///
/// # Errors
/// The effects or the flagship's files cannot be read.
pub fn all(lab: &Lab, people: &People, facts: &BTreeMap<String, Facts>, noticed: Vec<Violation>) -> Done<Vec<Violation>> {
    let effects = people.truth.effects()?;
    let by_run: BTreeMap<&str, &Known> = people.known.iter().filter_map(|known| Some((known.run.as_deref()?, known))).collect();
    let mut found = noticed;
    found.extend(people.broken.iter().cloned());
    found.extend(promises::numbers(people, facts));
    found.extend(strangers(&effects, facts));
    for (run, facts) in facts {
        let known = by_run.get(run.as_str()).copied();
        let case = Case { facts, lines: effects.of(run), rules: &people.truth.rules, known, stepped: lab.clock.is_some() };
        let wrong = of_run(&case, &people.truth)?;
        found.extend(wrong.into_iter().map(|what| (run.clone(), what)));
    }
    Ok(found)
}

fn of_run(case: &Case, truth: &Truth) -> Done<Wrong> {
    let mut wrong = history::check(case);
    wrong.extend(attempts::check(case));
    wrong.extend(ledger::check(case));
    wrong.extend(undo::check(case));
    wrong.extend(promises::check(case));
    wrong.extend(world::check(case, truth)?);
    Ok(wrong)
}

/// Effects of runs that do not exist.
fn strangers(effects: &Effects, facts: &BTreeMap<String, Facts>) -> Vec<Violation> {
    let strange = effects.all().filter(|line| !facts.contains_key(&line.run));
    strange.map(|line| (line.run.clone(), format!("{} has run, and there is no such run", line.path))).collect()
}

/// A field of an event or a row, as text; empty if it is not there.
fn text<'a>(value: &'a serde_json::Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}
