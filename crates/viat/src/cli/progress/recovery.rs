//! What is told of recovery: people's decisions, outcomes that are found out, effects that are undone.

use viat_engine::journal::{Event, ReviewDecision, ReviewRequest};
use viat_engine::path::Path;
use viat_engine::record::rfc3339;

const RED: &str = "31";
const GREEN: &str = "32";
const YELLOW: &str = "33";
const DIM: &str = "2";

/// The mark, its style and the line for an event that is worth one.
pub fn told(event: &Event) -> Option<(&'static str, &'static str, String)> {
    Some(match event {
        Event::ReviewRequested { path, review } => ("?", YELLOW, asked(path, review)),
        Event::ReviewReminded { path, number } => ("…", DIM, format!("{path} reminder {number}")),
        Event::ReviewExtended { path, due, by, .. } => {
            let due = due.map_or_else(|| "never expires now".to_owned(), |due| format!("expires {} now", rfc3339(due)));
            ("…", DIM, format!("{path} {due}{}", person(by.as_deref())))
        }
        Event::ReviewDecided { path, decision } => ("●", GREEN, decided(path, decision)),
        Event::AlreadyCompleted { path } => ("✓", DIM, format!("{path} was completed already")),
        Event::ResolveEntered { path, attempt, .. } => ("…", YELLOW, format!("{path} #{attempt} has an unknown outcome: it is being found out")),
        Event::Resolved { path, attempt, output } => ("→", GREEN, format!("{path} #{attempt} {}", took_effect(output.is_some()))),
        Event::AttentionNeeded { path, error } => ("!", RED, format!("{path} needs a person's word: {}", error.message)),
        Event::Settled { path, output, by, .. } => ("●", GREEN, format!("{path} is settled{}: it {}", person(by.as_deref()), took_effect(output.is_some()))),
        Event::CompensationStarted { .. } => ("↩", YELLOW, "what took effect is being undone, newest first".to_owned()),
        Event::CompensateEntered { path, effects, .. } => ("↩", YELLOW, format!("{path} undoes {}", listed(effects))),
        Event::EffectIrreversible { path } => ("!", YELLOW, format!("{path} cannot be undone")),
        Event::CompensationFailed { path, failure } => ("✗", RED, format!("{path} is not undone: {}", failure.message)),
        Event::CompensationExpired {} => ("✗", RED, "the time for undoing is over".to_owned()),
        Event::Resumed { by, from, .. } => {
            let from = from.as_ref().map(|from| format!(" from {from}")).unwrap_or_default();
            ("…", DIM, format!("resumed{from}{}", person(by.as_deref())))
        }
        Event::Migrated { version, by, .. } => ("…", DIM, format!("has version {version} now{}", person(by.as_deref()))),
        _ => return None,
    })
}

fn asked(path: &Path, review: &ReviewRequest) -> String {
    let whom = if review.assignees.is_empty() { String::new() } else { format!(" of {}", review.assignees.join(", ")) };
    let due = review.due.map(|due| format!(", expires {}", rfc3339(due))).unwrap_or_default();
    format!("{path} waits for a decision{whom}{due}: viat review decide {} --decision approved|rejected|changes_requested", review.id)
}

fn decided(path: &Path, decision: &ReviewDecision) -> String {
    let comment = decision.comment.as_ref().map(|comment| format!(": {comment}")).unwrap_or_default();
    format!("{path} {}{}{comment}", decision.decision.name(), person(decision.by.as_deref()))
}

fn person(by: Option<&str>) -> String {
    by.map(|by| format!(" by {by}")).unwrap_or_default()
}

fn took_effect(did: bool) -> &'static str {
    if did { "took effect" } else { "did not take effect" }
}

fn listed(paths: &[Path]) -> String {
    if paths.is_empty() {
        return "nothing: there is no effect in place".to_owned();
    }
    let shown: Vec<&str> = paths.iter().take(5).map(Path::as_str).collect();
    let more = if paths.len() > shown.len() { format!(" and {} more", paths.len() - shown.len()) } else { String::new() };
    format!("{}{more}", shown.join(", "))
}
