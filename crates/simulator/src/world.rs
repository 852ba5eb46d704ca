//! The fake world: it does what is outstanding, on a virtual clock, as the story says.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use viat_engine::expression::Evaluate;
use viat_engine::failure::Failure;
use viat_engine::journal::{Batch, Created, Event, Millis};
use viat_engine::path::Path;
use viat_engine::policies::class::Class;
use viat_engine::{Input, Outstanding, Rejection, Report, Run, Wanted, decide, outstanding};

use crate::case::Case;
use crate::story::{Deed, How};

/// How long a stopped attempt takes to end.
const STOP_MS: Millis = 5;
/// More decisions than this in one case are a hang.
const MAX_DECISIONS: usize = 100_000;

/// An engine that dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crash {
    /// After this many batches are durable.
    pub after_batches: usize,
    /// How long no engine is up.
    pub down_ms: Millis,
}

/// A world with one run in it.
pub struct World<'a> {
    case: &'a Case,
    evaluator: &'a dyn Evaluate,
    now: Millis,
    /// What is durable.
    pub journal: Vec<Batch>,
    run: Run,
    in_flight: BTreeMap<String, Flight>,
    deeds: Vec<(Millis, Deed)>,
    starts: u64,
}

struct Flight {
    path: Path,
    ends_at: Option<Millis>,
    report: Report,
    timeout_at: Option<Millis>,
    stopping: bool,
}

impl<'a> World<'a> {
    /// A world at time zero in which the case's run has been created.
    pub fn new(case: &'a Case, evaluator: &'a dyn Evaluate) -> World<'a> {
        let budgets = [case.program.main.timeout_ms, case.story.timeout_ms];
        let deadline = budgets.into_iter().flatten().min().and_then(|ms| Millis::try_from(ms).ok());
        let created = Created {
            run: "run".to_owned(),
            workflow: "workflow".to_owned(),
            version: 1,
            revision: 1,
            inputs: case.inputs.clone(),
            deadline,
            active_budget_ms: case.story.active_budget_ms.filter(|_| deadline.is_none()),
            owner: "engine".to_owned(),
        };
        let program = Arc::new(case.program.clone());
        let journal = vec![Batch { at: 0, events: vec![Event::Created(created.clone())] }];
        let mut deeds = case.story.deeds.clone();
        deeds.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
        World { case, evaluator, now: 0, journal, run: Run::new(program, created, 0), in_flight: BTreeMap::new(), deeds, starts: 0 }
    }

    /// Runs until nothing is owed any more, dying once if asked to.
    ///
    /// # Errors
    /// The story has a hole, or the run hangs: it is not terminal and nothing will ever move it.
    pub fn play(&mut self, mut crash: Option<Crash>) -> Result<&Run, String> {
        let mut next = Some(Input::Continue);
        for _ in 0..MAX_DECISIONS {
            if let Some(due) = crash.filter(|crash| self.journal.len() >= crash.after_batches) {
                crash = None;
                next = Some(self.die(due)?);
            }
            let Some(input) = next.take() else { return Ok(&self.run) };
            self.handle(input)?;
            next = self.next_input()?;
        }
        Err("the run does not come to an end".to_owned())
    }

    /// The engine's memory and everything it ran is gone; another one takes over.
    fn die(&mut self, crash: Crash) -> Result<Input, String> {
        self.now += crash.down_ms;
        self.in_flight.clear();
        self.run = Run::load(Arc::clone(&self.run.program), &self.journal)?;
        Ok(Input::Adopted { owner: "another engine".to_owned() })
    }

    fn handle(&mut self, input: Input) -> Result<(), String> {
        let mut events = match decide(&mut self.run, input, self.now, self.evaluator) {
            Ok(events) => events,
            Err(Rejection::Stale | Rejection::Terminal) => return Ok(()),
        };
        // As the driver does it: what can start at once is part of the same append.
        for wanted in self.startable() {
            events.extend(self.start(&wanted)?);
        }
        if !events.is_empty() {
            self.journal.push(Batch { at: self.now, events });
        }
        self.stop_what_should_end();
        Ok(())
    }

    fn startable(&self) -> Vec<Wanted> {
        outstanding(&self.run).attempts.into_iter().filter(|wanted| wanted.not_before <= self.now).collect()
    }

    fn start(&mut self, wanted: &Wanted) -> Result<Vec<Event>, String> {
        let outcome = self.case.story.outcome(&wanted.script, wanted.attempt)?.clone();
        let (path, attempt) = (wanted.path.clone(), wanted.attempt);
        if let Some(How::NotStarted(failure)) = outcome.how {
            return self.decided(Input::NotStarted { path, attempt, failure });
        }
        self.starts += 1;
        let id = format!("attempt-{}", self.starts);
        let report = match outcome.how {
            Some(How::Returns(value)) => Report::Returned(value),
            Some(How::Echoes) => Report::Returned((*wanted.args).clone()),
            Some(How::Fails(failure)) | Some(How::NotStarted(failure)) => Report::Failed(failure),
            None => Report::Stopped,
        };
        let hangs = matches!(report, Report::Stopped);
        let timeout_at = wanted.timeout_ms.and_then(|ms| Millis::try_from(ms).ok()).map(|ms| self.now + ms);
        let flight = Flight { path: path.clone(), ends_at: (!hangs).then_some(self.now + outcome.after_ms), report, timeout_at, stopping: false };
        let events = self.decided(Input::Reserved { path, attempt, id: id.clone(), queued_ms: 0, tree: Value::Null })?;
        self.in_flight.insert(id, flight);
        Ok(events)
    }

    fn decided(&mut self, input: Input) -> Result<Vec<Event>, String> {
        decide(&mut self.run, input, self.now, self.evaluator).map_err(|rejection| format!("the engine refused what it asked for: {rejection:?}"))
    }

    fn stop_what_should_end(&mut self) {
        for running in outstanding(&self.run).running.into_iter().filter(|running| running.stop) {
            if let Some(flight) = self.in_flight.get_mut(&running.id).filter(|flight| !flight.stopping) {
                flight.stopping = true;
                flight.report = Report::Stopped;
                flight.ends_at = Some(self.now + STOP_MS);
                flight.timeout_at = None;
            }
        }
    }

    /// Lets time pass until something happens; `None` when nothing ever will.
    fn next_input(&mut self) -> Result<Option<Input>, String> {
        let owed = outstanding(&self.run);
        if owed.more {
            return Ok(Some(Input::Continue));
        }
        let deed = self.deeds.last().map(|(at, _)| *at);
        let flight = self.in_flight.iter().filter_map(|(id, flight)| Some((flight.next()?, id.clone()))).min();
        let times = [deed, flight.as_ref().map(|(at, _)| *at), owed.next_after(self.now)];
        let Some(at) = times.into_iter().flatten().min() else { return self.at_rest(&owed) };
        self.now = self.now.max(at);
        if deed == Some(at) {
            return Ok(self.deeds.pop().map(|(_, deed)| input_of(deed)));
        }
        match flight.filter(|(due, _)| *due == at).and_then(|(_, id)| Some((self.in_flight.remove(&id)?, id))) {
            Some((flight, id)) => Ok(Some(self.landed(id, flight))),
            None => Ok(Some(Input::Tick)),
        }
    }

    fn landed(&self, id: String, flight: Flight) -> Input {
        let timed_out = flight.timeout_at.is_some_and(|timeout| flight.ends_at.is_none_or(|end| timeout < end));
        let report = if timed_out { Report::Failed(Failure::new(Class::Timeout, "the attempt outran its timeout")) } else { flight.report };
        Input::Finished { path: flight.path, id, report }
    }

    fn at_rest(&self, owed: &Outstanding) -> Result<Option<Input>, String> {
        let waits_for_an_event = self.run.status == viat_engine::Status::Waiting;
        if self.run.status.is_terminal() || waits_for_an_event {
            return Ok(None);
        }
        Err(format!("the run is {} and nothing will ever move it; it is owed {owed:?}", self.run.status.name()))
    }
}

impl Flight {
    fn next(&self) -> Option<Millis> {
        self.ends_at.into_iter().chain(self.timeout_at).min()
    }
}

fn input_of(deed: Deed) -> Input {
    match deed {
        Deed::Cancel => Input::Cancel { by: Some("ana".to_owned()), reason: None },
        Deed::Event(name, payload) => Input::Event { name, payload },
    }
}
