//! What must hold of every run, whatever happens to it, read off its journal without the engine's help.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;
use viat_engine::journal::{Ending, Event, Millis};
use viat_engine::path::{Path, Purpose};
use viat_engine::{Op, Program, Run, Status};

use super::{attempts, recovery, tasks};
use crate::sound::{self, is_inside, node};
use crate::world::World;

/// How long a stopped attempt takes to end, with some to spare for the decision that ends it.
const STOP_MS: Millis = 5;

/// Checks everything.
///
/// # Errors
/// The first thing that does not hold.
pub fn check(world: &World<'_>, program: &Arc<Program>) -> Result<(), String> {
    sound::check(world)?;
    let events: Vec<(Millis, &Event)> = world.journal.iter().flat_map(|batch| batch.events.iter().map(|event| (batch.at, event))).collect();
    attempts::check(world, &events, program)?;
    stopping_is_sticky(world, &events)?;
    one_end(world, &events)?;
    containers_keep_their_bounds(&events, program)?;
    stopped_containers_start_nothing(&events)?;
    tasks::check(world, &events)?;
    recovery::check(world, &events)?;
    loops_keep_their_order(&events)?;
    the_active_clock_is_right(world, program)
}

/// The default deadline counts the time in which the run is running, and none in which no engine is up; anew when it is resumed.
fn the_active_clock_is_right(world: &World<'_>, program: &Arc<Program>) -> Result<(), String> {
    let created = &world.run.created;
    let (Some(budget), None) = (created.active_budget_ms, created.deadline) else { return Ok(()) };
    let mut run = Run::new(Arc::clone(program), created.clone(), 0);
    let (mut used, mut last) = (0, 0);
    for batch in world.journal.iter().skip(1) {
        let taken_over = matches!(batch.events.first(), Some(Event::Adopted { .. }));
        if run.status == Status::Running && !taken_over {
            used += u64::try_from(batch.at - last).unwrap_or(0);
        }
        last = batch.at;
        batch.events.iter().for_each(|event| run.apply(event, batch.at));
        if batch.events.iter().any(|event| matches!(event, Event::Resumed { .. })) {
            used = 0;
        }
        let left = run.remaining_ms(batch.at);
        if !run.status.is_terminal() && left != Some(budget.saturating_sub(used)) {
            return Err(format!("at {}: {left:?} ms of {budget} are left, {used} were used", batch.at));
        }
    }
    Ok(())
}

/// How far a run is in ending.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Course {
    Running,
    /// It is being stopped, since then: by a cancel, or by a deadline.
    Stopping(Millis, Ending),
    /// It undoes its effects, to end like this.
    Undoing(Ending),
    Ended,
}

/// After a cancel or a deadline nothing begins and no policy acts; the run ends, or undoes its effects, as soon as what was in
/// flight is dead. While it undoes them, nothing else happens.
fn stopping_is_sticky(world: &World<'_>, events: &[(Millis, &Event)]) -> Result<(), String> {
    let mut course = Course::Running;
    for (at, event) in events {
        course = followed(world, course, *at, event)?;
    }
    Ok(())
}

fn followed(world: &World<'_>, course: Course, at: Millis, event: &Event) -> Result<Course, String> {
    let undoes = |path: &Path| path.purpose() == Purpose::Compensate;
    let in_time = |since: Millis| if world.crashes == 0 && at - since > STOP_MS { Err(format!("it took {} ms to stop", at - since)) } else { Ok(()) };
    Ok(match (course, event) {
        (_, Event::Adopted { .. } | Event::EventReceived { .. } | Event::TaskSubmitted { .. }) => course,
        (Course::Running, Event::CancelRequested { .. }) => Course::Stopping(at, Ending::Cancelled),
        (Course::Running, Event::DeadlineExceeded { .. }) => Course::Stopping(at, Ending::Failed),
        (Course::Running | Course::Ended, Event::CompensationStarted { outcome, .. }) => Course::Undoing(*outcome),
        (Course::Stopping(since, ending), Event::CompensationStarted { outcome, .. }) if ending == *outcome => {
            in_time(since)?;
            Course::Undoing(ending)
        }
        (Course::Running, Event::Succeeded { .. } | Event::Failed { .. }) => Course::Ended,
        (Course::Running, Event::Cancelled { .. }) => return Err("cancelled without a request".to_owned()),
        (Course::Running, _) => Course::Running,
        (Course::Stopping(since, Ending::Cancelled), Event::Cancelled { .. }) => {
            in_time(since)?;
            Course::Ended
        }
        (Course::Stopping(_, Ending::Failed), Event::Failed { error }) if error.code == "deadline_exceeded" => Course::Ended,
        (Course::Stopping(..), Event::AttemptCancelled { .. } | Event::TaskDeferred { .. }) => course,
        (Course::Undoing(Ending::Failed), Event::Failed { .. }) | (Course::Undoing(Ending::Cancelled), Event::Cancelled { .. }) => Course::Ended,
        (Course::Stopping(..) | Course::Undoing(_), Event::AttemptSucceeded { path, .. } | Event::AttemptFailed { path, .. }) if undoes(path) => course,
        (Course::Undoing(Ending::Failed), Event::CancelRequested { .. }) => Course::Undoing(Ending::Cancelled),
        (Course::Undoing(_), Event::AttemptStarted { path, .. }) if undoes(path) => course,
        (
            Course::Undoing(_),
            Event::CompensationEntered { .. } | Event::EffectIrreversible { .. } | Event::CompensationFailed { .. } | Event::CompensationExpired {},
        ) => course,
        (Course::Ended, Event::Resumed { .. }) => Course::Running,
        _ => return Err(format!("{event:?}, and the run is {course:?}")),
    })
}

/// Nothing is in flight behind the end, and no run succeeds after its deadline. That nothing follows it is checked elsewhere.
fn one_end(world: &World<'_>, events: &[(Millis, &Event)]) -> Result<(), String> {
    let ends = |event: &Event| matches!(event, Event::Succeeded { .. } | Event::Failed { .. } | Event::Cancelled { .. });
    let last = events.iter().rfind(|(_, event)| !matches!(event, Event::TaskSubmitted { .. })).ok_or("an empty journal")?;
    if ends(last.1) != world.run.status.is_terminal() {
        return Err(format!("the run is {}, the last event is {:?}", world.run.status.name(), last.1));
    }
    if ends(last.1) && world.flying() > 0 {
        return Err("the run has ended and something still runs".to_owned());
    }
    let mut deadline = world.run.created.deadline;
    for (at, event) in events {
        match event {
            Event::Resumed { deadline: anew, .. } => deadline = *anew,
            Event::Succeeded { .. } if deadline.is_some_and(|deadline| *at >= deadline) => return Err("the run succeeded after its deadline".to_owned()),
            _ => {}
        }
    }
    Ok(())
}

/// No more branches or iterations live than allowed; no more iterations fail than tolerated, but the one that stops it.
fn containers_keep_their_bounds(events: &[(Millis, &Event)], program: &Program) -> Result<(), String> {
    let mut live: BTreeMap<&Path, usize> = BTreeMap::new();
    let mut failed: BTreeMap<&Path, usize> = BTreeMap::new();
    for (number, (_, event)) in events.iter().enumerate() {
        let (path, delta) = match event {
            Event::Resumed { .. } => {
                live.clear();
                failed.clear();
                continue;
            }
            Event::BranchStarted { path, .. } | Event::IterationStarted { path, .. } => (path, 1),
            Event::BranchCompleted { path, .. } | Event::BranchFailed { path, .. } => (path, 0),
            Event::IterationCompleted { path, .. } | Event::IterationFailed { path, .. } => (path, 0),
            _ => continue,
        };
        let count = live.entry(path).or_default();
        *count = if delta == 1 { *count + 1 } else { count.checked_sub(1).ok_or_else(|| format!("{path}: more ends than starts"))? };
        let (limit, tolerated) = match node(program, path.last()).map(|node| &node.op) {
            Some(Op::Parallel(parallel)) => (parallel.concurrency.unwrap_or(usize::MAX), usize::MAX),
            Some(Op::Loop(looped)) => (looped.concurrency, looped.max_failures),
            _ => return Err(format!("{path} is no container")),
        };
        if *count > limit {
            return Err(format!("{path}: {count} at once, {limit} are allowed"));
        }
        if let Event::IterationFailed { .. } = event {
            let failures = failed.entry(path).or_default();
            *failures += 1;
            let stops = matches!(events.get(number + 1), Some((_, Event::ContainerStopped { path: stopped, .. })) if stopped == path);
            if stops != (*failures > tolerated) {
                return Err(format!("{path}: {failures} failed, {tolerated} are tolerated; stopped: {stops}"));
            }
        }
    }
    Ok(())
}

/// Inside a stopped container nothing starts and nothing fails; what was in flight is recorded as cancelled before it fails.
fn stopped_containers_start_nothing(events: &[(Millis, &Event)]) -> Result<(), String> {
    let mut stopped: BTreeSet<&str> = BTreeSet::new();
    let mut flying: BTreeSet<&str> = BTreeSet::new();
    // What undoes an effect lies where the `compensate` entry does.
    let mut homes: BTreeMap<&Path, &Path> = BTreeMap::new();
    for (_, event) in events {
        let inside = |path: &Path| stopped.iter().any(|stop| is_inside(path.as_str(), stop));
        match event {
            Event::AttemptStarted { path, .. } | Event::AttemptSucceeded { path, .. } | Event::AttemptFailed { path, .. }
                if path.purpose() == Purpose::Compensate =>
            {
                let Some(home) = homes.get(&path.entry()) else { continue };
                if matches!(event, Event::AttemptStarted { .. }) && inside(home) {
                    return Err(format!("{path} started for {home}, inside a stopped container"));
                }
                if matches!(event, Event::AttemptStarted { .. }) {
                    flying.insert(home.as_str())
                } else {
                    flying.remove(home.as_str())
                };
            }
            Event::AttemptStarted { path, .. } => {
                if inside(path) {
                    return Err(format!("{path} started inside a stopped container"));
                }
                flying.insert(path.as_str());
            }
            Event::Resolved { path, .. } | Event::Settled { path, .. } | Event::AttentionNeeded { path, .. } | Event::ReviewDecided { path, .. }
                if inside(path) =>
            {
                return Err(format!("{event:?} inside a stopped container"));
            }
            Event::AttemptSucceeded { path, .. } | Event::AttemptFailed { path, .. } | Event::Continued { path, .. } | Event::Completed { path, .. } => {
                if inside(path) {
                    return Err(format!("{event:?} inside a stopped container"));
                }
                flying.remove(path.as_str());
            }
            Event::AttemptCancelled { path, .. } => {
                flying.remove(path.as_str());
            }
            Event::CompensateEntered { path, effects, .. } => homes.extend(effects.iter().map(|effect| (effect, path))),
            Event::ContainerStopped { path, .. } => {
                stopped.insert(path.as_str());
            }
            Event::EntryFailed { path, .. } => {
                if let Some(left) = flying.iter().find(|left| is_inside(left, path.as_str())) {
                    return Err(format!("{path} failed while {left} was in flight"));
                }
                stopped.retain(|stop| *stop != path.as_str() && !is_inside(stop, path.as_str()));
            }
            Event::Resumed { .. } | Event::CompensationStarted { .. } => {
                stopped.clear();
                homes.clear();
            }
            _ => {}
        }
    }
    Ok(())
}

/// A loop's value lists its iterations in input order: a script's value is its own path.
fn loops_keep_their_order(events: &[(Millis, &Event)]) -> Result<(), String> {
    let end = events.iter().rev().find_map(|(_, event)| if let Event::Succeeded { outputs } = event { outputs.as_object() } else { None });
    let Some(outputs) = end else { return Ok(()) };
    for (id, value) in outputs {
        for (index, item) in value.as_array().into_iter().flatten().enumerate() {
            let (own, prefix) = (format!("{id}["), format!("{id}[{index}]"));
            let mut strings = Vec::new();
            collect_strings(item, &mut strings);
            if let Some(stray) = strings.into_iter().find(|text| text.starts_with(&own) && !text.starts_with(&prefix)) {
                return Err(format!("{id}: item {index} holds {stray}"));
            }
        }
    }
    Ok(())
}

fn collect_strings<'v>(value: &'v Value, into: &mut Vec<&'v str>) {
    match value {
        Value::String(text) => into.push(text),
        Value::Array(items) => items.iter().for_each(|item| collect_strings(item, into)),
        Value::Object(map) => map.values().for_each(|item| collect_strings(item, into)),
        _ => {}
    }
}
