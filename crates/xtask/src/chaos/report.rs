//! What a chaos run came to, in figures.

use std::collections::BTreeMap;

use serde_json::Value;

use super::ChaosArgs;
use super::check::Violation;
use super::effects::Word;
use super::facts::Facts;
use super::people::People;
use super::storm::Storm;
use crate::output;

/// Prints it.
pub fn print(seed: u64, args: &ChaosArgs, storm: &Storm, people: &People, facts: &BTreeMap<String, Facts>, violations: &[Violation]) {
    for (run, what) in violations {
        output::line(&format!("violation: {} {what}", if run.is_empty() { "(no run)" } else { run }));
    }
    let sum = |of: fn(&super::people::Known) -> usize| people.known.iter().map(of).sum::<usize>();
    let mut rows = vec![("seed", seed.to_string()), ("kills", storm.kills.to_string())];
    if args.disk_full {
        rows.push(("disk full", format!("{} times; {} servers did not come up on it", storm.full, storm.refused_starts)));
    }
    if args.clock {
        rows.push(("clock stepped", format!("{} times, by an hour", storm.steps)));
    }
    rows.push(("requests", format!("{} without an answer, {} answered with 503", people.unanswered, people.unavailable)));
    rows.push(("runs", by(facts.values().map(|facts| word(&facts.record["status"])))));
    rows.push(("failed by", by(facts.values().filter(|facts| facts.record["status"] == "failed").map(|facts| word(&facts.record["error"]["code"])))));
    rows.push(("reviews", by(events(facts, "review_decided").map(|event| word(&event["decision"]["decision"])))));
    rows.push(("effects", effects(people)));
    rows.push(("attempts", events(facts, "attempt_started").count().to_string()));
    rows.push(("interrupted", events(facts, "attempt_failed").filter(|event| event["failure"]["code"] == "interrupted").count().to_string()));
    rows.push(("resolved", by(events(facts, "resolved").map(|event| if event.get("output").is_some() { "had happened" } else { "had not" }.to_owned()))));
    rows.push(("settled by a person", events(facts, "settled").count().to_string()));
    rows.push(("resumed by a person", format!("{} ({} promised)", events(facts, "resumed").count(), sum(|known| known.resumed))));
    rows.push(("left as they are", format!("{} (something has happened that a resume would repeat)", sum(|known| usize::from(known.left)))));
    let ledger = facts.values().flat_map(|facts| facts.record["ledger"].as_array().into_iter().flatten());
    rows.push(("ledger", by(ledger.map(|row| word(&row["status"])))));
    rows.push(("violations", violations.len().to_string()));
    for (name, value) in rows {
        output::line(&format!("{name:<20} {value}"));
    }
}

fn events<'a>(facts: &'a BTreeMap<String, Facts>, kind: &'static str) -> impl Iterator<Item = &'a Value> {
    facts.values().flat_map(move |facts| facts.of_type(kind))
}

fn word(value: &Value) -> String {
    value.as_str().unwrap_or("none").to_owned()
}

/// How many there are of each, the most first.
fn by(words: impl Iterator<Item = String>) -> String {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    words.for_each(|word| *counts.entry(word).or_default() += 1);
    let total: usize = counts.values().sum();
    let mut sorted: Vec<_> = counts.into_iter().collect();
    sorted.sort_by_key(|(word, count)| (std::cmp::Reverse(*count), word.clone()));
    let each: Vec<String> = sorted.iter().map(|(word, count)| format!("{count} {word}")).collect();
    if each.is_empty() { "0".to_owned() } else { format!("{total}: {}", each.join(", ")) }
}

fn effects(people: &People) -> String {
    let Ok(effects) = people.truth.effects() else { return "cannot be read".to_owned() };
    let count = |undoes: bool| effects.all().filter(|line| line.word == Word::Effect && line.undoes() == undoes).count();
    let of_flagship = effects.all().filter(|line| line.word == Word::End).count();
    format!("{} of the wide workflow, {} undone; {of_flagship} scripts came to their end", count(false), count(true))
}
