//! An attempt that was in flight when the engine died is repeated if and only if its author gave leave.

use std::collections::{BTreeMap, BTreeSet};

use viat_engine::Op;
use viat_engine::journal::{Batch, Event, Undo, UndoScript};
use viat_engine::path::{Path, Purpose};
use viat_engine::policies::interrupt;
use viat_engine::policies::retry::{Decision, Reason, RetryRule};

use super::{Versions, is_inside};

/// The attempts at one path since they last began.
#[derive(Default)]
struct Series {
    /// The last attempt of the series before.
    before: u32,
    newest: u32,
    reruns: u32,
}

#[derive(Default)]
struct Books {
    series: BTreeMap<Path, Series>,
    undo: BTreeMap<Path, UndoScript>,
    /// Which `compensate` entry undoes an effect.
    undone_by: BTreeMap<Path, Path>,
    /// Containers that are being stopped.
    stops: BTreeSet<Path>,
    stopping: bool,
    expired: bool,
}

/// Checks a journal.
pub fn check(journal: &[Batch], versions: &mut Versions) -> Result<(), String> {
    let mut books = Books::default();
    for event in journal.iter().flat_map(|batch| &batch.events) {
        books.pass(event);
        versions.pass(event);
        if let Event::AttemptFailed { path, attempt, failure, decision } = event {
            if failure.code == interrupt::CODE {
                books.follows_the_policy(path, *attempt, decision, versions)?;
            }
            books.series.entry(path.clone()).or_default().newest = *attempt;
        }
    }
    Ok(())
}

impl Books {
    fn pass(&mut self, event: &Event) {
        match event {
            Event::ScriptEntered { path, .. } => self.begin(path),
            Event::CompensationEntered { path } => self.begin(&path.compensation()),
            Event::AttemptStarted { path, attempt, .. } => self.series.entry(path.clone()).or_default().newest = *attempt,
            Event::CompensationPrepared { path, undo: Undo::Script(undo) } => {
                self.undo.insert(path.clone(), undo.clone());
            }
            Event::CompensateEntered { path, effects, .. } => {
                self.undone_by.extend(effects.iter().map(|effect| (effect.clone(), path.clone())));
            }
            Event::ContainerStopped { path, .. } => {
                self.stops.insert(path.clone());
            }
            Event::EntryFailed { path, .. } => {
                self.stops.remove(path);
            }
            Event::CancelRequested { .. } | Event::DeadlineExceeded { .. } => self.stopping = true,
            Event::CompensationExpired {} => self.expired = true,
            Event::CompensationStarted { .. } => {
                (self.stopping, self.expired) = (false, false);
                self.stops.clear();
                self.undone_by.clear();
            }
            Event::Resumed { .. } => (self.stopping, self.expired) = (false, false),
            _ => {}
        }
    }

    fn begin(&mut self, path: &Path) {
        let series = self.series.entry(path.clone()).or_default();
        *series = Series { before: series.newest, newest: series.newest, reruns: 0 };
    }

    fn follows_the_policy(&mut self, path: &Path, attempt: u32, decision: &Decision, versions: &Versions) -> Result<(), String> {
        let entry = path.entry();
        let node = versions.node(path)?;
        let none = Vec::new();
        let (retry, leave): (&[RetryRule], bool) = match path.purpose() {
            Purpose::Work => (&node.policy.retry, matches!(&node.op, Op::Script(script) if script.idempotent)),
            Purpose::Resolve(_) => (node.policy.resolve.as_ref().map_or(&none, |resolve| &resolve.retry), true),
            Purpose::Compensate => {
                let undo = self.undo.get(&entry).ok_or_else(|| format!("nobody said how {entry} is undone"))?;
                (&undo.retry, undo.idempotent)
            }
        };
        let series = self.series.entry(path.clone()).or_default();
        let retried = retry.iter().any(|rule| attempt - series.before <= rule.times);
        let rerun = leave && series.reruns < interrupt::MAX_RERUNS;
        let goes_on = decision.retry_wait_ms().is_some();
        series.reruns += u32::from(goes_on);
        match decision.reason() {
            Some(Reason::WouldOverrunDeadline) => Ok(()),
            Some(Reason::Cancelled) if path.purpose() == Purpose::Compensate && self.is_stopped(&entry) => Ok(()),
            _ if goes_on == (retried || rerun) => Ok(()),
            _ => Err(format!("{path} #{attempt} was interrupted; tries left: {retried}, idempotent: {rerun}, yet {decision:?}")),
        }
    }

    /// Whether the undoing of the effect at `entry` is being stopped.
    fn is_stopped(&self, entry: &Path) -> bool {
        match self.undone_by.get(entry) {
            Some(home) => self.stopping || self.stops.iter().any(|stop| is_inside(home.as_str(), stop.as_str())),
            None => self.expired,
        }
    }
}
