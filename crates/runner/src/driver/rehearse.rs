//! Rehearsal: attempts that are mocked or fail on purpose, and reviews that are decided by themselves.

use std::collections::BTreeMap;

use serde_json::Value;
use viat_engine::failure::Failure;
use viat_engine::journal::{Event, Millis, ReviewDecision};
use viat_engine::path::Path;
use viat_engine::policies::class::Class;
use viat_engine::{Input, Report, Wanted, decide};

use super::hot::{Hot, Pending};
use super::{Loop, News};
use crate::script::Stop;

/// What a rehearsal does in the world's place. Entries are named by id or by path; `id:compensate` is what undoes an effect,
/// `id:resolve` what finds out about its attempts.
#[derive(Clone, Debug, Default)]
pub struct Rehearsal {
    /// What attempts come to, without running anything.
    pub mocks: BTreeMap<String, Mock>,
    /// Attempts that fail on purpose; the first that fits is taken.
    pub injections: Vec<Injection>,
    /// The decisions of each review, in order; the last one repeats.
    pub decisions: BTreeMap<String, Vec<ReviewDecision>>,
}

/// What a mocked attempt comes to.
#[derive(Clone, Debug)]
pub enum Mock {
    /// This output.
    Output(Value),
    /// This failure.
    Error(Failure),
}

/// An attempt that fails on purpose.
#[derive(Clone, Debug)]
pub struct Injection {
    /// The entry's id or path.
    pub step: String,
    /// Which attempt; `None`: the first.
    pub attempt: Option<u32>,
    /// How.
    pub fault: Injected,
}

/// How an attempt fails on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Injected {
    /// With this class; the script does not run.
    Class(Class),
    /// Its worker is killed.
    Crash,
    /// The engine dies while it runs, and comes back.
    Interrupt,
}

impl Rehearsal {
    fn mock(&self, path: &Path) -> Option<&Mock> {
        names(path).into_iter().find_map(|name| self.mocks.get(name))
    }

    /// What goes wrong with this attempt.
    pub(super) fn injected(&self, path: &Path, attempt: u32) -> Option<Injected> {
        let fits = |injection: &&Injection| injection.attempt.unwrap_or(1) == attempt && names(path).contains(&injection.step.as_str());
        self.injections.iter().find(fits).map(|injection| injection.fault)
    }

    /// The decision of a review, and from now on the one after it.
    fn decide(&mut self, path: &Path) -> Option<ReviewDecision> {
        let key = names(path).into_iter().find(|name| self.decisions.contains_key(*name))?;
        let decisions = self.decisions.get_mut(key)?;
        if decisions.len() > 1 { Some(decisions.remove(0)) } else { decisions.first().cloned() }
    }
}

/// What an entry's attempts can be called, the most exact first: its path, its id, and of what finds out about an attempt
/// `id:resolve`, whichever attempt it is about.
fn names(path: &Path) -> [&str; 3] {
    let last = path.last();
    let about_any = if last.contains(':') { last.split('[').next().unwrap_or(last) } else { last };
    [path.as_str(), last, about_any]
}

/// Whether an attempt that fails like this never had a worker.
fn comes_before_the_start(class: Class) -> bool {
    matches!(class, Class::QueueFull | Class::QueueWaitTimeout | Class::PoolSpawnFailed | Class::Resource | Class::EnvironmentNotReady | Class::Orchestration)
}

impl Loop {
    /// What the rehearsal makes of an attempt that is due; `None`: it is a real one.
    pub(super) fn rehearsed(&mut self, hot: &mut Hot, wanted: &Wanted, now: Millis) -> Option<Vec<Event>> {
        let (path, attempt) = (&wanted.path, wanted.attempt);
        let report = match (self.rehearsal.injected(path, attempt), self.rehearsal.mock(path)) {
            (Some(Injected::Class(class)), _) => {
                let failure = Failure::new(class, format!("injected: {}", class.name()));
                if comes_before_the_start(class) {
                    let input = Input::NotStarted { path: path.clone(), attempt, failure };
                    return Some(decide(&mut hot.run, input, now, self.languages.as_ref()).unwrap_or_default());
                }
                Report::Failed(failure)
            }
            (None, Some(Mock::Output(output))) => Report::Returned(output.clone()),
            (None, Some(Mock::Error(failure))) => Report::Failed(failure.clone()),
            // A worker, or the engine, dies under a real attempt.
            (Some(Injected::Crash | Injected::Interrupt), _) | (None, None) => return None,
        };
        let id = viat_store::fresh_id();
        let reserved = Input::Reserved { path: path.clone(), attempt, id: id.clone(), queued_ms: 0, tree: Value::Null };
        let mut events = decide(&mut hot.run, reserved, now, self.languages.as_ref()).unwrap_or_default();
        let finished = Input::Finished { path: path.clone(), id, report };
        events.extend(decide(&mut hot.run, finished, now, self.languages.as_ref()).unwrap_or_default());
        Some(events)
    }

    /// The engine dies under the attempts that run, as far as they can tell.
    pub(super) fn interrupt(&mut self, hot: &mut Hot) {
        for flight in hot.flights.values_mut() {
            if let Some(stop) = flight.stop.take() {
                let _ = stop.send(Stop { grace: std::time::Duration::ZERO });
            }
        }
        let owner = self.owner().to_string();
        hot.backlog.push_back(Pending::Input(Input::Adopted { owner }));
    }

    /// Reviews that were asked for just now are decided, where the rehearsal says how.
    pub(super) fn decide_reviews(&mut self, hot: &mut Hot, events: &[Event]) {
        for event in events {
            let Event::ReviewRequested { path, review } = event else { continue };
            if let Some(decision) = self.rehearsal.decide(path) {
                hot.backlog.push_back(Pending::Input(Input::Decide { review: review.id.clone(), decision }));
            }
        }
    }

    /// Says that a decision of the rehearsal does not fit its review.
    pub(super) fn undecided(&self, hot: &Hot, review: &str, why: &str) {
        let note = format!("review {review} stays open: {why}");
        self.tell(hot, News::Progress { path: String::new(), fraction: None, note: Some(note) });
    }
}
