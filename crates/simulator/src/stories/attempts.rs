//! What must hold of attempts, of entries and of what finds out and undoes: their number, their order, their waits, their ends.

use std::collections::BTreeMap;

use viat_engine::journal::{Event, Millis, Undo, UndoScript};
use viat_engine::path::{Path, Purpose};
use viat_engine::policies::interrupt;
use viat_engine::policies::retry::{Decision, RetryRule};
use viat_engine::{Op, Program};

use crate::sound::node;
use crate::world::World;

/// What the author says of a series of attempts.
#[derive(Default)]
struct Policy {
    retry: Vec<RetryRule>,
    idempotent: bool,
    timeout_ms: Option<u64>,
}

/// The attempts at one path, as far as the journal has told of them.
#[derive(Default)]
struct Series {
    policy: Policy,
    /// How often the run had been resumed when it began.
    life: u32,
    /// The last attempt before it began.
    before: u32,
    newest: u32,
    in_flight: bool,
    started: u32,
    reruns: u32,
    not_before: Millis,
    /// It is not known what came of the last attempt.
    unsettled: bool,
}

struct Books<'w> {
    program: &'w Program,
    series: BTreeMap<Path, Series>,
    undo: BTreeMap<Path, UndoScript>,
    life: u32,
    deadline: Option<Millis>,
    /// While the run undoes its effects as its last act: until when.
    undo_deadline: Option<Millis>,
}

/// Checks the attempts of a whole journal.
pub fn check(world: &World<'_>, events: &[(Millis, &Event)], program: &Program) -> Result<(), String> {
    let deadline = world.run.created.deadline;
    let mut books = Books { program, series: BTreeMap::new(), undo: BTreeMap::new(), life: 0, deadline, undo_deadline: None };
    for (at, event) in events {
        books.lives(event);
        books.series(event, *at)?;
        books.attempts(event, *at)?;
    }
    let left = books.series.iter().find(|(_, series)| series.in_flight);
    match left {
        Some((path, _)) if world.run.status.is_terminal() => Err(format!("{path}'s attempt has no end")),
        _ => Ok(()),
    }
}

impl Books<'_> {
    fn lives(&mut self, event: &Event) {
        match event {
            Event::Resumed { deadline, .. } => {
                self.life += 1;
                self.deadline = *deadline;
                self.undo_deadline = None;
            }
            Event::CompensationStarted { deadline, .. } => self.undo_deadline = *deadline,
            Event::CompensationPrepared { path, undo: Undo::Script(undo) } => {
                self.undo.insert(path.clone(), undo.clone());
            }
            _ => {}
        }
    }

    /// Series of attempts begin, and it becomes known what came of one.
    fn series(&mut self, event: &Event, now: Millis) -> Result<(), String> {
        match event {
            Event::ScriptEntered { path, .. } => {
                if self.series.get(path).is_some_and(|series| series.life == self.life) {
                    return Err(format!("{path} was entered twice"));
                }
                self.begin(path.clone(), now)?;
            }
            Event::ResolveEntered { path, attempt, at, .. } => {
                self.begin(path.resolution(*attempt), *at)?;
                self.unsettled(path, true)?;
            }
            Event::Resolved { path, .. } | Event::Settled { path, .. } => self.unsettled(path, false)?,
            Event::CompensationEntered { path } => self.begin(path.compensation(), now)?,
            _ => {}
        }
        Ok(())
    }

    fn begin(&mut self, path: Path, not_before: Millis) -> Result<(), String> {
        let policy = self.policy(&path)?;
        let newest = self.series.get(&path).map_or(0, |series| series.newest);
        self.series.insert(path, Series { policy, life: self.life, before: newest, newest, not_before, ..Series::default() });
        Ok(())
    }

    fn policy(&self, path: &Path) -> Result<Policy, String> {
        let node = node(self.program, path.entry().last()).ok_or_else(|| format!("{path} is no entry"))?;
        Ok(match path.purpose() {
            Purpose::Work => Policy {
                retry: node.policy.retry.clone(),
                idempotent: matches!(&node.op, Op::Script(script) if script.idempotent),
                timeout_ms: node.policy.timeout.as_ref().map(|timeout| timeout.ms),
            },
            Purpose::Resolve(_) => {
                let resolve = node.policy.resolve.as_ref().ok_or_else(|| format!("nobody said how to find out what came of {path}"))?;
                Policy { retry: resolve.retry.clone(), idempotent: true, timeout_ms: resolve.timeout_ms }
            }
            Purpose::Compensate => {
                let undo = self.undo.get(&path.entry()).ok_or_else(|| format!("nobody said how {path} is undone"))?;
                Policy { retry: undo.retry.clone(), idempotent: undo.idempotent, timeout_ms: undo.timeout_ms }
            }
        })
    }

    fn unsettled(&mut self, path: &Path, unsettled: bool) -> Result<(), String> {
        let series = self.series.get_mut(path).ok_or_else(|| format!("{path} was not entered"))?;
        if series.unsettled == unsettled {
            return Err(format!("{path}: it was asked, or answered, twice what came of #{}", series.newest));
        }
        series.unsettled = unsettled;
        Ok(())
    }

    fn attempts(&mut self, event: &Event, now: Millis) -> Result<(), String> {
        let deadline = self.undo_deadline.or(self.deadline);
        let (Event::AttemptStarted { path, .. }
        | Event::AttemptFailed { path, .. }
        | Event::AttemptSucceeded { path, .. }
        | Event::AttemptCancelled { path, .. }) = event
        else {
            return Ok(());
        };
        let series = self.series.get_mut(path).ok_or_else(|| format!("{path} was not entered"))?;
        match event {
            Event::AttemptStarted { attempt, .. } => {
                if deadline.is_some_and(|deadline| now >= deadline) {
                    return Err(format!("{path} #{attempt} started after the deadline"));
                }
                series.start(*attempt, now).map_err(|problem| format!("{path} #{attempt} started, {problem}"))
            }
            Event::AttemptFailed { attempt, failure, decision, .. } => {
                series.fail(*attempt, now).map_err(|problem| format!("{path} #{attempt} failed, {problem}"))?;
                let Decision::Retry { wait_ms, remaining_ms, .. } = decision else { return Ok(()) };
                let interrupted = failure.code == interrupt::CODE;
                series.reruns += u32::from(interrupted);
                series.not_before = now + Millis::try_from(*wait_ms).unwrap_or(Millis::MAX);
                let fits = fits(deadline, now, *wait_ms, *remaining_ms);
                let in_band = series.in_band(*wait_ms, failure.retry_after_ms.unwrap_or(0), interrupted);
                fits.and(in_band).map_err(|problem| format!("{path} #{attempt}: {problem}"))
            }
            Event::AttemptSucceeded { attempt, .. } | Event::AttemptCancelled { attempt, .. } => {
                if !series.in_flight || series.newest != *attempt {
                    return Err(format!("{path} #{attempt} ended without being in flight"));
                }
                series.in_flight = false;
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

impl Series {
    fn start(&mut self, attempt: u32, now: Millis) -> Result<(), String> {
        if self.in_flight || attempt != self.newest + 1 {
            return Err(format!("after #{}, in flight: {}", self.newest, self.in_flight));
        }
        if self.unsettled {
            return Err(format!("before it was known what came of #{}", self.newest));
        }
        if now < self.not_before {
            return Err(format!("at {now}, before {}", self.not_before));
        }
        if self.policy.timeout_ms == Some(0) {
            return Err("although its timeout is zero".to_owned());
        }
        (self.newest, self.in_flight) = (attempt, true);
        self.started += 1;
        let times = self.policy.retry.iter().map(|rule| rule.times).max().unwrap_or(0);
        let leave = if self.policy.idempotent { self.reruns.min(interrupt::MAX_RERUNS) } else { 0 };
        let allowed = 1 + times + leave;
        if self.started > allowed { Err(format!("the {}th, {allowed} are allowed", self.started)) } else { Ok(()) }
    }

    fn fail(&mut self, attempt: u32, now: Millis) -> Result<(), String> {
        let unstarted = !self.in_flight;
        if unstarted && now < self.not_before {
            return Err("before its time".to_owned());
        }
        if attempt != self.newest + u32::from(unstarted) {
            return Err(format!("#{} was the newest", self.newest));
        }
        (self.newest, self.in_flight) = (attempt, false);
        Ok(())
    }

    /// A wait lies in the band of its base, is at least what `Retry-After` asks, or is the zero of an idempotent re-run.
    fn in_band(&self, wait_ms: u64, asked_ms: u64, interrupted: bool) -> Result<(), String> {
        if interrupted && wait_ms == 0 && self.policy.idempotent {
            return Ok(());
        }
        let rule = self.policy.retry.first().ok_or("a retry without a policy")?;
        let number = self.newest - self.before;
        if number > rule.times {
            return Err(format!("retry {number}, times is {}", rule.times));
        }
        let base = base_ms(rule, number);
        let (low, high) = if rule.jitter { (0.75 * base, 1.25 * base) } else { (base, base) };
        let wait = wait_ms as f64;
        let asked = asked_ms.min(60_000) as f64;
        if wait + 0.5 < low.max(asked) || wait - 0.5 > high.max(asked) { Err(format!("waits {wait_ms} ms, its base is {base}")) } else { Ok(()) }
    }
}

/// The specification's formula, step by step.
fn base_ms(rule: &RetryRule, n: u32) -> f64 {
    let (initial, max) = (rule.initial_ms as f64, rule.max_ms as f64);
    let grown = (1..n).fold(initial, |base, _| (base * rule.factor).min(max));
    grown.min(max).max(initial)
}

/// A wait is begun only if it fits what was left, with 10 ms to spare; and what was left is not more than the deadline leaves.
fn fits(deadline: Option<Millis>, at: Millis, wait_ms: u64, remaining_ms: Option<u64>) -> Result<(), String> {
    let Some(remaining_ms) = remaining_ms else { return Err("everything in a story has a budget".to_owned()) };
    let wall = deadline.map_or(u64::MAX, |deadline| u64::try_from(deadline - at).unwrap_or(0));
    if remaining_ms > wall || wait_ms + 10 > remaining_ms { Err(format!("waits {wait_ms} ms of {remaining_ms}; the deadline leaves {wall}")) } else { Ok(()) }
}
