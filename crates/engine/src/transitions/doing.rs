//! What a run is doing, as far as its journal tells: something of it goes on, it waits, or it needs a person's word.

use std::collections::{BTreeMap, BTreeSet};

use crate::failure::Outcome;
use crate::journal::Event;
use crate::path::{Path, Purpose};

/// What is under way in a run.
#[derive(Default)]
pub(super) struct Doing {
    /// Attempts that run.
    in_flight: BTreeSet<Path>,
    /// Scripts that are to be attempted or found out about, and effects that are being undone by an entry.
    active: BTreeSet<Path>,
    /// Waits and reviews.
    waiting: BTreeSet<Path>,
    /// Entries about which a person has to say something, and what their attempts failed with.
    asking: BTreeMap<Path, Outcome>,
    /// Scripts whose last attempt failed for good: without an effect they are not tried again.
    exhausted: BTreeSet<Path>,
}

impl Doing {
    /// The run's status while it has not ended, and the class of what it needs a person for; `None` if nothing is open.
    pub fn status(&self) -> Option<(&'static str, Option<Outcome>)> {
        let asking = self.asking.values().next().map(|class| ("needs_attention", Some(*class)));
        match self.active.is_empty() && self.in_flight.is_empty() {
            false => Some(("running", None)),
            true => asking.or_else(|| (!self.waiting.is_empty()).then_some(("waiting", None))),
        }
    }

    pub fn event(&mut self, event: &Event) {
        match event {
            Event::AttemptStarted { path, .. } => {
                self.in_flight.insert(path.clone());
            }
            Event::AttemptSucceeded { path, .. } => {
                self.in_flight.remove(path);
                if path.purpose() == Purpose::Work {
                    self.active.remove(path);
                }
            }
            Event::AttemptCancelled { path, .. } => {
                self.in_flight.remove(path);
                self.active.remove(path);
                self.exhausted.remove(path);
            }
            Event::AttemptFailed { path, decision, .. } => {
                self.in_flight.remove(path);
                if path.purpose() == Purpose::Work {
                    self.failed(path, decision.retry_wait_ms().is_some());
                }
            }
            Event::ScriptEntered { path, .. } | Event::ResolveEntered { path, .. } | Event::CompensateEntered { path, .. } => {
                self.active.insert(path.clone());
            }
            Event::Resolved { path, output, .. } | Event::Settled { path, output, .. } => self.known(path, output.is_some()),
            Event::AttentionNeeded { path, error } => {
                self.active.remove(path);
                self.asking.insert(path.clone(), error.class);
            }
            Event::WaitEntered { path, .. } | Event::ReviewRequested { path, .. } => {
                self.waiting.insert(path.clone());
            }
            Event::Completed { path, .. } | Event::EventTaken { path, .. } | Event::ReviewDecided { path, .. } => {
                self.waiting.remove(path);
            }
            Event::CompensateCompleted { path, .. } => {
                self.active.remove(path);
            }
            Event::ContainerStopped { path, .. } | Event::EntryFailed { path, .. } => self.stopped(path),
            Event::Resumed { .. } | Event::Migrated { .. } | Event::CompensationStarted { .. } => *self = Doing::default(),
            _ => {}
        }
    }

    fn failed(&mut self, path: &Path, again: bool) {
        if again {
            self.active.insert(path.clone());
            self.exhausted.remove(path);
        } else {
            self.active.remove(path);
            self.exhausted.insert(path.clone());
        }
    }

    /// It is known what came of the last attempt.
    fn known(&mut self, path: &Path, took_effect: bool) {
        self.asking.remove(path);
        if took_effect || self.exhausted.contains(path) {
            self.active.remove(path);
        } else {
            self.active.insert(path.clone());
        }
    }

    /// Nothing inside goes on but what runs, and that is being ended.
    fn stopped(&mut self, within: &Path) {
        let outside = |path: &Path| !path.is_inside(within);
        self.active.retain(outside);
        self.waiting.retain(outside);
        self.asking.retain(|path, _| outside(path));
    }
}
