//! What must hold of every entry's attempts: their number, their order, their waits, their ends.

use std::collections::BTreeMap;

use viat_engine::ir::Node;
use viat_engine::journal::{Event, Millis};
use viat_engine::path::Path;
use viat_engine::policies::interrupt;
use viat_engine::policies::retry::{Decision, RetryRule};
use viat_engine::{Op, Program};

use crate::sound::node;
use crate::world::World;

/// An entry as far as the journal has told of it.
#[derive(Default)]
struct Entry {
    newest: u32,
    in_flight: bool,
    started: u32,
    reruns: u32,
    not_before: Millis,
}

/// Checks the attempts of a whole journal.
pub fn check(world: &World<'_>, events: &[(Millis, &Event)], program: &Program) -> Result<(), String> {
    let mut entries: BTreeMap<&Path, Entry> = BTreeMap::new();
    for (at, event) in events {
        match event {
            Event::ScriptEntered { path, .. } if entries.contains_key(path) => return Err(format!("{path} was entered twice")),
            Event::ScriptEntered { path, .. } => {
                entries.insert(path, Entry::default());
            }
            Event::AttemptStarted { path, attempt, .. } => {
                let entry = entries.get_mut(path).ok_or_else(|| format!("{path} was not entered"))?;
                started(entry, path, *attempt, *at, scripted(program, path)?)?;
                if world.run.created.deadline.is_some_and(|deadline| *at >= deadline) {
                    return Err(format!("{path} #{attempt} started after the deadline"));
                }
            }
            Event::AttemptFailed { path, attempt, failure, decision } => {
                let entry = entries.get_mut(path).ok_or_else(|| format!("{path} was not entered"))?;
                let unstarted = !entry.in_flight;
                if unstarted && *at < entry.not_before {
                    return Err(format!("{path} #{attempt} failed before its time"));
                }
                if *attempt != entry.newest + u32::from(unstarted) {
                    return Err(format!("{path}: #{attempt} failed, #{} was the newest", entry.newest));
                }
                (entry.newest, entry.in_flight) = (*attempt, false);
                if let Decision::Retry { wait_ms, remaining_ms, .. } = decision {
                    let interrupted = failure.code == interrupt::CODE;
                    entry.reruns += u32::from(interrupted);
                    entry.not_before = at + Millis::try_from(*wait_ms).unwrap_or(Millis::MAX);
                    in_band(scripted(program, path)?, *attempt, *wait_ms, failure.retry_after_ms.unwrap_or(0), interrupted)
                        .map_err(|problem| format!("{path} #{attempt}: {problem}"))?;
                    fits(world, *at, *wait_ms, *remaining_ms).map_err(|problem| format!("{path} #{attempt}: {problem}"))?;
                }
            }
            Event::AttemptSucceeded { path, attempt, .. } | Event::AttemptCancelled { path, attempt } => {
                let entry = entries.get_mut(path).ok_or_else(|| format!("{path} was not entered"))?;
                if !entry.in_flight || entry.newest != *attempt {
                    return Err(format!("{path} #{attempt} ended without being in flight"));
                }
                entry.in_flight = false;
            }
            _ => {}
        }
    }
    let left = entries.iter().find(|(_, entry)| entry.in_flight);
    match left {
        Some((path, _)) if world.run.status.is_terminal() => Err(format!("{path}'s attempt has no end")),
        _ => Ok(()),
    }
}

fn started(entry: &mut Entry, path: &Path, attempt: u32, at: Millis, node: &Node) -> Result<(), String> {
    if entry.in_flight || attempt != entry.newest + 1 {
        return Err(format!("{path}: #{attempt} started after #{}, in flight: {}", entry.newest, entry.in_flight));
    }
    if at < entry.not_before {
        return Err(format!("{path} #{attempt} started at {at}, before {}", entry.not_before));
    }
    if node.policy.timeout.as_ref().is_some_and(|timeout| timeout.ms == 0) {
        return Err(format!("{path} #{attempt} started although its timeout is zero"));
    }
    (entry.newest, entry.in_flight) = (attempt, true);
    entry.started += 1;
    let times = node.policy.retry.iter().map(|rule| rule.times).max().unwrap_or(0);
    let leave = if matches!(&node.op, Op::Script(script) if script.idempotent) { entry.reruns.min(interrupt::MAX_RERUNS) } else { 0 };
    let allowed = 1 + times + leave;
    if entry.started > allowed { Err(format!("{path} ran {} times, {allowed} are allowed", entry.started)) } else { Ok(()) }
}

/// A wait lies in the band of its base, is at least what `Retry-After` asks, or is the zero of an idempotent re-run.
fn in_band(node: &Node, attempt: u32, wait_ms: u64, asked_ms: u64, interrupted: bool) -> Result<(), String> {
    let rerun = interrupted && wait_ms == 0 && matches!(&node.op, Op::Script(script) if script.idempotent);
    if rerun {
        return Ok(());
    }
    let rule = node.policy.retry.first().ok_or("a retry without a policy")?;
    if attempt > rule.times {
        return Err(format!("a retry after attempt {attempt}, times is {}", rule.times));
    }
    let base = base_ms(rule, attempt);
    let (low, high) = if rule.jitter { (0.75 * base, 1.25 * base) } else { (base, base) };
    let wait = wait_ms as f64;
    let asked = asked_ms.min(60_000) as f64;
    if wait + 0.5 < low.max(asked) || wait - 0.5 > high.max(asked) { Err(format!("waits {wait_ms} ms, its base is {base}")) } else { Ok(()) }
}

/// The specification's formula, step by step.
fn base_ms(rule: &RetryRule, n: u32) -> f64 {
    let (initial, max) = (rule.initial_ms as f64, rule.max_ms as f64);
    let grown = (1..n).fold(initial, |base, _| (base * rule.factor).min(max));
    grown.min(max).max(initial)
}

/// A wait is begun only if it fits what was left, with 10 ms to spare; and what was left is not more than the deadline leaves.
fn fits(world: &World<'_>, at: Millis, wait_ms: u64, remaining_ms: Option<u64>) -> Result<(), String> {
    let Some(remaining_ms) = remaining_ms else { return Err("every story has a budget".to_owned()) };
    let wall = world.run.created.deadline.map_or(u64::MAX, |deadline| u64::try_from(deadline - at).unwrap_or(0));
    if remaining_ms > wall || wait_ms + 10 > remaining_ms { Err(format!("waits {wait_ms} ms of {remaining_ms}; the deadline leaves {wall}")) } else { Ok(()) }
}

fn scripted<'a>(program: &'a Program, path: &Path) -> Result<&'a Node, String> {
    node(program, path.last()).ok_or_else(|| format!("{path} is no entry"))
}
