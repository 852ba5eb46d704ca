//! Nothing is lost or out of order: the journal has no gap, the run has ended, each transition begins where the one before ended.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Case, Wrong, text};

const ENDS: [&str; 3] = ["succeeded", "failed", "cancelled"];

pub(super) fn check(case: &Case) -> Wrong {
    let mut wrong = journal(case);
    wrong.extend(end(case));
    wrong.extend(chain(case));
    wrong
}

fn journal(case: &Case) -> Wrong {
    let mut wrong = Wrong::new();
    for (at, batch) in case.facts.journal.iter().enumerate() {
        if batch.number != at as u64 {
            wrong.push(format!("batch {at} of the journal has the number {}", batch.number));
        }
        if batch.events.is_empty() || batch.count != batch.events.len() {
            wrong.push(format!("batch {at} of the journal has {} events and should have {}", batch.events.len(), batch.count));
        }
    }
    if case.facts.events().next().is_none_or(|event| event["type"] != "created") {
        wrong.push("the journal does not begin with `created`".to_owned());
    }
    if !case.stepped && case.facts.journal.windows(2).any(|pair| pair[1].at < pair[0].at) {
        wrong.push("the journal goes back in time, and the clock never did".to_owned());
    }
    wrong
}

fn end(case: &Case) -> Wrong {
    let status = text(&case.facts.record, "status");
    let last = case.facts.events().last().map(|event| text(event, "type")).unwrap_or_default();
    let mut wrong = Wrong::new();
    if !ENDS.contains(&status) {
        wrong.push(format!("it has not ended: it is {status}"));
    } else if last != status {
        wrong.push(format!("its record says {status}, and its journal ends with {last}"));
    }
    wrong
}

fn chain(case: &Case) -> Wrong {
    let mut last: BTreeMap<&str, &Value> = BTreeMap::new();
    let mut wrong = Wrong::new();
    for row in &case.facts.transitions {
        let (step, from) = (text(row, "step_name"), &row["from_status"]);
        let before = last.insert(step, &row["to_status"]).unwrap_or(&Value::Null);
        if from != before {
            wrong.push(format!("a transition of `{step}` begins at {from}, and the one before it ended at {before}"));
        }
    }
    let of_run = last.get("").and_then(|status| status.as_str()).unwrap_or_default();
    if of_run != text(&case.facts.record, "status") {
        wrong.push(format!("its transitions end with {of_run}, its record says {}", case.facts.record["status"]));
    }
    wrong
}
