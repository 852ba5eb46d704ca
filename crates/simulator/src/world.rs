//! The fake world: it does what is outstanding, on a virtual clock, as a setup says.

mod deeds;
mod effects;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use viat_engine::failure::Failure;
use viat_engine::journal::{Batch, Created, Event, Millis};
use viat_engine::path::Path;
use viat_engine::policies::class::Class;
use viat_engine::run::DeferredTask;
use viat_engine::{Input, Program, Rejection, Report, Run, Wanted, decide, outstanding};

use crate::liveness;
use crate::lookout::Lookout;
use crate::setup::{Crash, Setup};
use crate::story::How;
use effects::Effects;

/// How long a stopped attempt takes to end.
const STOP_MS: Millis = 5;
/// How long a decision takes that stopped at its bound.
const YIELD_MS: Millis = 1;
/// More decisions than this in one run are a hang.
const MAX_DECISIONS: usize = 100_000;

/// A world with one run in it.
pub struct World<'a> {
    setup: Setup<'a>,
    /// The virtual clock.
    pub now: Millis,
    /// What is durable.
    pub journal: Vec<Batch>,
    /// What is no fact of the run, but worth a line: which batch it follows, when, what.
    pub notes: Vec<(usize, Millis, String)>,
    /// The tasks submitted in the commit that made the run succeed.
    pub submitted: Vec<DeferredTask>,
    /// How often an engine died.
    pub crashes: usize,
    /// The idempotency key that each attempt was given.
    pub keys: BTreeMap<(Path, u32), String>,
    /// What scripts did to the world, whatever the engine knows of it.
    pub effects: Effects,
    /// The newest engine's memory of the run.
    pub run: Run,
    in_flight: BTreeMap<String, Flight>,
    /// Attempts that stand in the queue: until when, since when.
    queued: BTreeMap<(Path, u32), (Millis, Millis)>,
    lookout: Lookout,
    landed: Vec<(Path, String)>,
    /// What has just ended, and no engine has heard of it yet.
    landing: Option<Landing>,
    starts: u64,
}

#[derive(Clone)]
struct Flight {
    path: Path,
    ends_at: Option<Millis>,
    report: Report,
    timeout_at: Option<Millis>,
    stopping: bool,
    takes_effect: bool,
    /// It tells what came of an attempt; `Some(true)`: it cannot say.
    tells: Option<bool>,
    defers: Vec<(String, Value)>,
}

struct Landing {
    path: Path,
    returned: bool,
    takes_effect: bool,
}

impl<'a> World<'a> {
    /// A world at time zero in which the run has been created.
    pub fn new(mut setup: Setup<'a>) -> World<'a> {
        let budgets = [setup.program.main.timeout_ms, setup.timeout_ms];
        let deadline = budgets.into_iter().flatten().min().and_then(|ms| Millis::try_from(ms).ok());
        let created = Created {
            run: "run".to_owned(),
            workflow: "workflow".to_owned(),
            version: 1,
            revision: 1,
            inputs: setup.inputs.clone(),
            deadline,
            active_budget_ms: setup.active_budget_ms.filter(|_| deadline.is_none()),
            owner: "engine".to_owned(),
            draft: false,
        };
        let journal = vec![Batch { at: 0, events: vec![Event::Created(created.clone())] }];
        // Popped from the end: the earliest last, those of one moment in the order they were written.
        setup.deeds.reverse();
        setup.deeds.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
        let run = Run::new(Arc::clone(&setup.program), created, 0);
        World {
            setup,
            now: 0,
            journal,
            notes: Vec::new(),
            submitted: Vec::new(),
            crashes: 0,
            keys: BTreeMap::new(),
            effects: Effects::default(),
            run,
            in_flight: BTreeMap::new(),
            queued: BTreeMap::new(),
            lookout: Lookout::default(),
            landed: Vec::new(),
            landing: None,
            starts: 0,
        }
    }

    /// Runs until nothing is owed any more, dying where it is told to (earliest first).
    ///
    /// # Errors
    /// The story has a hole, or the run hangs: it is not terminal and nothing will ever move it.
    pub fn play(&mut self, crashes: &[Crash]) -> Result<(), String> {
        let mut crashes = crashes.iter().copied().peekable();
        // Before the engine begins with the run, somebody may already have done something to it.
        let mut next = self.deed_at(0)?.or(Some(Input::Continue));
        for _ in 0..MAX_DECISIONS {
            if let Some(due) = crashes.next_if(|crash| self.journal.len() >= crash.after_batches) {
                let adopted = self.die(due.down_ms)?;
                self.handle(adopted)?;
                // What people do reaches the next engine; everything else died with this one.
                next = match next.filter(|input| matches!(input, Input::Cancel { .. } | Input::Event { .. }) || input.may_be_refused()) {
                    None => self.next_input()?,
                    deed => deed,
                };
            }
            let Some(input) = next.take() else { return Ok(()) };
            self.handle(input)?;
            next = self.next_input()?;
        }
        Err("the run does not come to an end".to_owned())
    }

    /// Whether the trace tells idempotency keys apart.
    pub fn shows_keys(&self) -> bool {
        self.setup.shows_keys
    }

    /// How many attempts are in flight.
    pub fn flying(&self) -> usize {
        self.in_flight.len()
    }

    /// The engine's memory and everything it ran is gone; another one takes over.
    fn die(&mut self, down_ms: Millis) -> Result<Input, String> {
        self.now += down_ms;
        self.crashes += 1;
        if let Some(landing) = self.landing.take() {
            self.effects.unheard(&landing.path, landing.takes_effect);
        }
        for flight in std::mem::take(&mut self.in_flight).into_values() {
            self.effects.unheard(&flight.path, flight.takes_effect);
        }
        self.queued.clear();
        self.lookout = Lookout::default();
        let loaded = self.loaded()?;
        if loaded != self.run {
            return Err("the run that the journal tells of is not the run that the dead engine had in memory".to_owned());
        }
        self.run = loaded;
        Ok(Input::Adopted { owner: "another engine".to_owned() })
    }

    /// What runs at first, and what the run can be migrated to.
    pub fn versions(&self) -> (Arc<Program>, Option<Arc<Program>>) {
        (Arc::clone(&self.setup.program), self.setup.next.clone())
    }

    /// The run that the journal tells of.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub fn loaded(&self) -> Result<Run, String> {
        let next = |_, _| self.setup.next.clone().ok_or_else(|| "there is no version 2".to_owned());
        Run::load(Arc::clone(&self.setup.program), &self.journal, &next)
    }

    fn handle(&mut self, input: Input) -> Result<(), String> {
        if let (Input::Finished { .. }, Some(landing)) = (&input, self.landing.take()) {
            self.effects.unheard(&landing.path, landing.returned || landing.takes_effect);
        }
        let named = if let Input::Finished { path, .. } = &input { Some(path.clone()) } else { None };
        // As the driver does it: what is due comes before what a person asks.
        if input.may_be_refused() && !self.run.status.is_terminal() {
            self.handle(Input::Tick)?;
        }
        let mut events = match decide(&mut self.run, input, self.now, self.setup.evaluator) {
            Ok(events) => events,
            Err(rejection) => {
                let what = named.map_or_else(|| "an input".to_owned(), |path| format!("a report of {path}"));
                let why = match rejection {
                    Rejection::Stale => "stale".to_owned(),
                    Rejection::Terminal => "the run has ended".to_owned(),
                    Rejection::Refused(why) => why,
                };
                self.note(format!("{what} is refused: {why}"));
                if self.run != self.loaded()? {
                    return Err("a refused input changed the run".to_owned());
                }
                return Ok(());
            }
        };
        // As the driver does it: what can start at once is part of the same append.
        loop {
            let startable = self.startable();
            let Some(wanted) = startable.first() else { break };
            events.extend(self.start(wanted)?);
        }
        if !events.is_empty() {
            self.submit(&mut events);
            self.journal.push(Batch { at: self.now, events });
        }
        self.stop_what_should_end();
        self.lookout.look(&self.run, self.now)?;
        liveness::status_says_what_is_owed(&self.run)
    }

    /// Deferred tasks become runs in the very batch that makes this one succeed.
    fn submit(&mut self, events: &mut Vec<Event>) {
        let decided = events.len();
        for task in self.run.submissions() {
            let run = format!("run-{}", self.submitted.len() + 2);
            events.push(Event::TaskSubmitted { path: task.path.clone(), workflow: task.workflow.clone(), args: task.args.clone(), run });
            self.submitted.push(task.clone());
        }
        for event in &events[decided..] {
            self.run.apply(event, self.now);
        }
    }

    fn note(&mut self, text: String) {
        self.notes.push((self.journal.len(), self.now, text));
    }

    /// The attempts that may start now: their time has come and the queue lets them through.
    fn startable(&mut self) -> Vec<Wanted> {
        let due: Vec<Wanted> = outstanding(&self.run).attempts.into_iter().filter(|wanted| wanted.not_before <= self.now).collect();
        let now = self.now;
        self.queued.retain(|(path, attempt), _| due.iter().any(|wanted| wanted.path == *path && wanted.attempt == *attempt));
        let mut ready = Vec::new();
        for wanted in due {
            let queue_ms = self.setup.scripts.outcome(&wanted).map_or(0, |outcome| outcome.queue_ms);
            let (until, _) = *self.queued.entry((wanted.path.clone(), wanted.attempt)).or_insert((now + queue_ms, now));
            if until <= now {
                ready.push(wanted);
            }
        }
        ready
    }

    fn start(&mut self, wanted: &Wanted) -> Result<Vec<Event>, String> {
        let outcome = self.setup.scripts.outcome(wanted)?;
        let (path, attempt) = (wanted.path.clone(), wanted.attempt);
        let since = self.queued.remove(&(path.clone(), attempt)).map_or(self.now, |(_, since)| since);
        if let Some(How::NotStarted(failure)) = outcome.how {
            return self.decided(Input::NotStarted { path, attempt, failure });
        }
        self.starts += 1;
        self.keys.insert((path.clone(), attempt), wanted.idempotency_key.clone());
        let id = format!("attempt-{}", self.starts);
        let tells = if let Some(How::Tells { unknown }) = outcome.how { Some(unknown) } else { None };
        let report = match outcome.how {
            Some(How::Returns(value)) => Report::Returned(value),
            Some(How::Echoes) => Report::Returned((*wanted.args).clone()),
            Some(How::Fails(failure) | How::NotStarted(failure)) => Report::Failed(failure),
            // What it is, is known when it lands.
            Some(How::Tells { .. }) => Report::Returned(Value::Null),
            None => Report::Stopped,
        };
        let hangs = matches!(report, Report::Stopped);
        let timeout_at = wanted.timeout_ms.and_then(|ms| Millis::try_from(ms).ok()).map(|ms| self.now + ms);
        let ends_at = (!hangs).then_some(self.now + outcome.after_ms);
        let (takes_effect, defers) = (outcome.takes_effect, outcome.defers);
        let flight = Flight { path: path.clone(), ends_at, report, timeout_at, stopping: false, takes_effect, tells, defers };
        let queued_ms = u64::try_from(self.now - since).unwrap_or(0);
        let mut events = self.decided(Input::Reserved { path: path.clone(), attempt, id: id.clone(), queued_ms, tree: Value::Null })?;
        for (workflow, args) in &flight.defers {
            let (path, id, workflow, args) = (path.clone(), id.clone(), workflow.clone(), args.clone());
            events.extend(self.decided(Input::Deferred { path, id, workflow, version: 1, revision: 1, args })?);
        }
        self.in_flight.insert(id, flight);
        Ok(events)
    }

    fn decided(&mut self, input: Input) -> Result<Vec<Event>, String> {
        decide(&mut self.run, input, self.now, self.setup.evaluator).map_err(|rejection| format!("the engine refused what it asked for: {rejection:?}"))
    }

    fn stop_what_should_end(&mut self) {
        for running in outstanding(&self.run).running.into_iter().filter(|running| running.stop) {
            if let Some(flight) = self.in_flight.get_mut(&running.id).filter(|flight| !flight.stopping) {
                flight.stopping = true;
                flight.report = Report::Stopped;
                flight.ends_at = Some(self.now + STOP_MS);
                flight.timeout_at = None;
                flight.takes_effect = false;
            }
        }
    }

    /// Lets time pass until something happens; `None` when nothing ever will.
    fn next_input(&mut self) -> Result<Option<Input>, String> {
        let owed = outstanding(&self.run);
        if owed.more {
            self.now += YIELD_MS;
            if let Some(deed) = self.deed_at(self.now)? {
                return Ok(Some(deed));
            }
            return Ok(Some(Input::Continue));
        }
        let deed = self.setup.deeds.last().map(|(at, _)| *at);
        let flight = self.in_flight.iter().filter_map(|(id, flight)| Some((flight.next()?, id.clone()))).min();
        let queue = self.queued.values().map(|(until, _)| *until).min();
        let times = [deed, flight.as_ref().map(|(at, _)| *at), queue, owed.next_after(self.now)];
        let Some(at) = times.into_iter().flatten().min() else { return liveness::at_rest(&self.run, &self.journal, &owed).map(|()| None) };
        self.now = self.now.max(at);
        if deed == Some(at) {
            return self.deed_at(at);
        }
        match flight.filter(|(due, _)| *due == at).and_then(|(_, id)| Some((self.in_flight.remove(&id)?, id))) {
            Some((flight, id)) => Ok(Some(self.lands(id, flight))),
            None => Ok(Some(Input::Tick)),
        }
    }

    fn lands(&mut self, id: String, flight: Flight) -> Input {
        let timed_out = flight.timeout_at.is_some_and(|timeout| flight.ends_at.is_none_or(|end| timeout < end));
        let mut report = if timed_out { Report::Failed(Failure::new(Class::Timeout, "the attempt outran its timeout")) } else { flight.report };
        self.landed.push((flight.path.clone(), id.clone()));
        if let (Report::Returned(answer), Some(unknown)) = (&mut report, flight.tells) {
            *answer = self.effects.answer(&flight.path, unknown);
        }
        let returned = matches!(report, Report::Returned(_));
        self.landing = Some(Landing { path: flight.path.clone(), returned, takes_effect: flight.takes_effect });
        Input::Finished { path: flight.path, id, report }
    }
}

impl Flight {
    fn next(&self) -> Option<Millis> {
        self.ends_at.into_iter().chain(self.timeout_at).min()
    }
}
