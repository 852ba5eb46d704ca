//! What the server has answered is so: a run that it promised exists, a decision that it took counts, a cancel is final.

use std::collections::BTreeMap;

use super::{Case, Violation, Wrong, text};
use crate::chaos::facts::Facts;
use crate::chaos::people::People;

/// Each story has one run, and there is no other run.
pub(super) fn numbers(people: &People, facts: &BTreeMap<String, Facts>) -> Vec<Violation> {
    let promised = people.known.iter().filter_map(|known| known.run.as_ref());
    let mut wrong: Vec<Violation> =
        promised.clone().filter(|run| !facts.contains_key(*run)).map(|run| (run.clone(), "it was promised, and it is lost".to_owned())).collect();
    let started = promised.count();
    if started != people.known.len() || facts.len() != people.known.len() {
        wrong.push((String::new(), format!("{} runs were asked for, {started} were promised, and {} exist", people.known.len(), facts.len())));
    }
    wrong
}

pub(super) fn check(case: &Case) -> Wrong {
    let Some(known) = case.known else { return vec!["nobody has asked for it".to_owned()] };
    let mut wrong = Wrong::new();
    let record = &case.facts.record;
    let differs = known.story.inputs.as_object().into_iter().flatten().any(|(name, value)| record["inputs"][name] != *value);
    if record["workflow"] != known.story.workflow || differs {
        wrong.push("it is not the run that was asked for".to_owned());
    }
    let decisions: Vec<&str> = case.facts.of_type("review_decided").map(|event| text(&event["decision"], "decision")).collect();
    if decisions.len() > 1 {
        wrong.push(format!("its review was decided {} times: {decisions:?}", decisions.len()));
    }
    if let Some(decided) = known.decided
        && decisions != [decided]
    {
        wrong.push(format!("the decision {decided} was accepted, and the journal has {decisions:?}"));
    }
    if known.cancelled && record["status"] != "cancelled" {
        wrong.push(format!("a cancel was accepted, and it is {}", record["status"]));
    }
    for (kind, promised) in [("settled", known.settled), ("resumed", known.resumed)] {
        let count = case.facts.of_type(kind).count();
        if count < promised {
            wrong.push(format!("{promised} times it was accepted that it be {kind}, and the journal has {count}"));
        }
    }
    wrong
}
