//! What a run's events say that is worth counting and timing: the fold that metrics and traces are made of.
//!
//! A [`Watch`] is fed a run's batches in order, once they are durable, and answers with [`Fact`]s. Fed with the journal of a
//! run that is taken over, it goes on where the engine before stopped; what it answers to the old batches is then dropped.

mod recovery;

use std::collections::{BTreeMap, BTreeSet};

use crate::failure::{Outcome, RunError};
use crate::journal::{Batch, Event, Millis};
use crate::path::{Path, Purpose};
use crate::policies::class::{Class, Kind};
use crate::policies::retry::{Decision, Reason};
use crate::run::Status;

/// Something that is counted or timed.
#[derive(Clone, Debug, PartialEq)]
pub enum Fact {
    /// An attempt got its worker.
    AttemptBegan {
        /// The attempts' path.
        path: Path,
        /// How long it waited for the worker.
        queued_ms: u64,
    },
    /// An attempt is over.
    AttemptEnded(Attempt),
    /// One more of these, at this entry.
    Counted(Count, Path),
    /// The run has ended, or ended again after it was begun anew.
    RunEnded(Part),
}

/// What entries are counted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Count {
    /// An entry's first attempt was over; one that was cut short by a cancel or a deadline says nothing and is not counted.
    FirstTry,
    /// It was a success.
    FirstTrySuccess,
    /// A later attempt was a success.
    RetrySuccess,
    /// The last try that the retry rules allow failed.
    RetriesExhausted,
    /// An entry ended with a refusal: a business error.
    Refusal,
    /// A refusal led to a review: one was asked for in its recovery, or, where it was continued, later in the same sequence.
    RefusalToReview,
    /// A refusal led to `needs_attention`: what finds out about an attempt refused, or said that it is unknown.
    RefusalToAttention,
    /// An effect was undone.
    Compensated,
    /// An effect could not be undone.
    CompensationFailed,
    /// Undoing was asked for again and skipped: the effect was undone before.
    CompensationRepeated,
    /// Undoing was asked for and skipped: there never was an effect.
    CompensationIdle,
    /// An effect cannot be undone, as its author said.
    Irreversible,
}

impl Count {
    /// Every one, in the order of their declaration.
    pub const ALL: [Count; 12] = [
        Count::FirstTry,
        Count::FirstTrySuccess,
        Count::RetrySuccess,
        Count::RetriesExhausted,
        Count::Refusal,
        Count::RefusalToReview,
        Count::RefusalToAttention,
        Count::Compensated,
        Count::CompensationFailed,
        Count::CompensationRepeated,
        Count::CompensationIdle,
        Count::Irreversible,
    ];
}

/// An attempt that is over.
#[derive(Clone, Debug, PartialEq)]
pub struct Attempt {
    /// The attempts' path.
    pub path: Path,
    /// Its number; 1 is the first.
    pub attempt: u32,
    /// In which part of the run; see [`Part::number`].
    pub part: u32,
    /// When it began; `None` if it never got a worker.
    pub began: Option<Millis>,
    /// When its end was recorded.
    pub ended: Millis,
    /// How it ended.
    pub end: End,
    /// Whether the engine died while it ran: then nobody knows when it really ended.
    pub interrupted: bool,
}

impl Attempt {
    /// How long it ran, in milliseconds, if that is known.
    pub fn took_ms(&self) -> Option<u64> {
        let began = self.began.filter(|_| !self.interrupted)?;
        // A clock that was set back makes it 0.
        Some(u64::try_from(self.ended.saturating_sub(began)).unwrap_or(0))
    }
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq)]
pub enum End {
    /// It returned.
    Succeeded,
    /// It failed.
    Failed {
        /// The failure's class.
        class: Class,
        /// The failure's code.
        code: String,
    },
    /// A cancel or a deadline ended it.
    Cancelled,
}

/// A run from where it began, or was begun anew, to its end.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// 0 is the run from its creation on; each time it goes on after an end, there is one more.
    pub number: u32,
    /// When it began.
    pub began: Millis,
    /// When it ended.
    pub ended: Millis,
    /// As what.
    pub status: Status,
    /// The class and the code of its error.
    pub error: Option<(&'static str, String)>,
}

/// The fold.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    part: u32,
    began: Millis,
    over: bool,
    flights: BTreeMap<Path, Flight>,
    /// Refusals that may still lead to a review: the entry that took each, and how.
    refused: BTreeMap<Path, Taken>,
    undoing: recovery::Undoing,
}

#[derive(Clone, Copy, Debug)]
struct Flight {
    attempt: u32,
    began: Millis,
    interrupted: bool,
}

/// What took a refusal.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Taken {
    /// `on_error: catch`.
    Caught,
    /// `on_error: continue`.
    Continued,
}

impl Watch {
    /// The facts of the next batch of the run.
    pub fn note(&mut self, batch: &Batch) -> Vec<Fact> {
        let mut facts = Vec::new();
        for event in &batch.events {
            self.event(event, batch.at, &mut facts);
        }
        facts
    }

    fn event(&mut self, event: &Event, at: Millis, facts: &mut Vec<Fact>) {
        match event {
            Event::Created(_) => self.began = at,
            Event::Adopted { .. } => self.flights.values_mut().for_each(|flight| flight.interrupted = true),
            Event::AttemptStarted { path, attempt, queued_ms, .. } => {
                self.flights.insert(path.clone(), Flight { attempt: *attempt, began: at, interrupted: false });
                facts.push(Fact::AttemptBegan { path: path.clone(), queued_ms: *queued_ms });
            }
            Event::AttemptSucceeded { path, attempt, .. } => {
                facts.push(self.ended(path, *attempt, at, End::Succeeded));
                self.succeeded(path, *attempt, facts);
            }
            Event::AttemptFailed { path, attempt, failure, decision } => {
                facts.push(self.ended(path, *attempt, at, End::Failed { class: failure.class, code: failure.code.clone() }));
                self.failed(path, *attempt, failure.class, decision, facts);
            }
            Event::AttemptCancelled { path, attempt } => facts.push(self.ended(path, *attempt, at, End::Cancelled)),
            Event::CatchEntered { path, error } => self.took(path, error, Taken::Caught),
            Event::Continued { path, error } => self.took(path, error, Taken::Continued),
            Event::ReviewRequested { path, .. } => self.asked(path, facts),
            Event::IterationCompleted { path, index } => self.leave(&path.iteration(*index)),
            Event::RegionCompleted { path } | Event::ContainerCompleted { path } => self.leave(path),
            Event::AttentionNeeded { path, error } if is_refusal(error) => facts.push(Fact::Counted(Count::RefusalToAttention, path.clone())),
            Event::Resumed { .. } => self.begin_anew(at),
            // A run that has ended is undone because a person asked for it.
            Event::CompensationStarted { .. } if self.over => {
                self.begin_anew(at);
                self.undoing.event(event, facts);
            }
            Event::Succeeded { .. } => facts.push(self.end(Status::Succeeded, None, at)),
            Event::Failed { error } => facts.push(self.end(Status::Failed, Some(error), at)),
            Event::Cancelled { error } => facts.push(self.end(Status::Cancelled, Some(error), at)),
            _ => self.undoing.event(event, facts),
        }
    }

    fn ended(&mut self, path: &Path, attempt: u32, at: Millis, end: End) -> Fact {
        let flight = self.flights.remove(path).filter(|flight| flight.attempt == attempt);
        Fact::AttemptEnded(Attempt {
            path: path.clone(),
            attempt,
            part: self.part,
            began: flight.map(|flight| flight.began),
            ended: at,
            end,
            interrupted: flight.is_some_and(|flight| flight.interrupted),
        })
    }

    fn succeeded(&mut self, path: &Path, attempt: u32, facts: &mut Vec<Fact>) {
        let mut count = |count| facts.push(Fact::Counted(count, path.entry()));
        match path.purpose() {
            Purpose::Work if attempt == 1 => {
                count(Count::FirstTry);
                count(Count::FirstTrySuccess);
            }
            Purpose::Work => count(Count::RetrySuccess),
            Purpose::Compensate => count(Count::Compensated),
            Purpose::Resolve(_) => {}
        }
        match path.purpose() {
            Purpose::Work => self.undoing.done(path),
            Purpose::Compensate => self.undoing.undone(path.entry()),
            Purpose::Resolve(_) => {}
        }
    }

    fn failed(&mut self, path: &Path, attempt: u32, class: Class, decision: &Decision, facts: &mut Vec<Fact>) {
        let entry = path.entry();
        let purpose = path.purpose();
        let last = decision.retry_wait_ms().is_none();
        let mut count = |count| facts.push(Fact::Counted(count, entry.clone()));
        if purpose == Purpose::Compensate && last && !(decision.is_cut_short() && self.undoing.is_taken_up_again(&entry)) {
            count(Count::CompensationFailed);
        }
        if decision.is_cut_short() {
            return;
        }
        if purpose == Purpose::Work && attempt == 1 {
            count(Count::FirstTry);
        }
        if purpose == Purpose::Work && decision.reason() == Some(Reason::Exhausted) {
            count(Count::RetriesExhausted);
        }
        if purpose == Purpose::Work && last && class.kind() == Kind::User {
            count(Count::Refusal);
        }
    }

    fn took(&mut self, path: &Path, error: &RunError, taken: Taken) {
        if error.class == Outcome::Failed(Class::User) {
            self.refused.insert(path.clone(), taken);
        }
    }

    /// A review was asked for: which refusals led to it.
    fn asked(&mut self, review: &Path, facts: &mut Vec<Fact>) {
        let led = |path: &Path, taken: Taken| match taken {
            Taken::Caught => review.is_inside(path),
            Taken::Continued => review.is_inside(&path.parent()),
        };
        let found: BTreeSet<Path> = self.refused.iter().filter(|(path, taken)| led(path, **taken)).map(|(path, _)| path.clone()).collect();
        for path in found {
            self.refused.remove(&path);
            facts.push(Fact::Counted(Count::RefusalToReview, path));
        }
    }

    /// What lies at `path` is through: no review can follow in it any more.
    fn leave(&mut self, path: &Path) {
        if !self.refused.is_empty() {
            self.refused.retain(|refused, taken| !(refused.is_inside(path) || *taken == Taken::Caught && refused == path));
        }
    }

    fn begin_anew(&mut self, at: Millis) {
        if self.over {
            self.part += 1;
            self.began = at;
            self.over = false;
        }
        self.undoing.begin_anew();
    }

    fn end(&mut self, status: Status, error: Option<&RunError>, at: Millis) -> Fact {
        self.over = true;
        self.refused.clear();
        let error = error.map(|error| (error.class.name(), error.code.clone()));
        Fact::RunEnded(Part { number: self.part, began: self.began, ended: at, status, error })
    }
}

/// Whether a refusal is in the error, or in what it followed.
fn is_refusal(error: &RunError) -> bool {
    error.class == Outcome::Failed(Class::User) || error.cause.as_deref().is_some_and(is_refusal)
}
