//! Attempts: finding the script, reserving a worker, running it, hearing of its end.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use viat_engine::failure::Failure;
use viat_engine::journal::{Event, Millis};
use viat_engine::path::Path;
use viat_engine::policies::class::Class;
use viat_engine::{Input, Report, Wanted, decide, due_between, key, wanted_at};
use viat_store::{At, RunId};

use super::hot::{Flight, Hot, Pending, Start};
use super::rehearse::Injected;
use super::{Loop, MAX_APPEND_BYTES, Message, News};
use crate::assets::{self, AssetError};
use crate::resources::Asker;
use crate::script::{self, Call, Context, Fault, FaultKind, Notice, Outcome, Place, Reservation, ScriptCode, kill_leftover};

/// The largest `extra` of a refusal that is kept, in bytes of JSON.
const MAX_EXTRA_BYTES: usize = 1 << 20;

impl Loop {
    /// Reserves workers for the attempts that have fallen due since it was last looked: at once where one is idle, otherwise in the
    /// background.
    ///
    /// `bytes` is what the append has already; once that is enough, the rest waits for the next one.
    pub(super) fn start_attempts(&mut self, hot: &mut Hot, now: Millis, mut bytes: usize) -> Vec<Event> {
        let mut events = Vec::new();
        if self.starts_nothing() {
            return events;
        }
        let due = due_between(&hot.run, hot.looked, now);
        hot.looked = now;
        for wanted in due {
            if bytes >= MAX_APPEND_BYTES {
                hot.looked = wanted.not_before;
                break;
            }
            if hot.reserving.contains(&(wanted.path.clone(), wanted.attempt)) {
                continue;
            }
            let decided = self.start_attempt(hot, wanted, now);
            bytes += decided.iter().map(Event::weight).sum::<usize>();
            events.extend(decided);
        }
        events
    }

    fn start_attempt(&mut self, hot: &mut Hot, wanted: Wanted, now: Millis) -> Vec<Event> {
        if let Some(rehearsed) = self.rehearsed(hot, &wanted, now) {
            return rehearsed;
        }
        let asked = self.script(hot, &wanted.script).and_then(|code| {
            self.vault.given(&code)?;
            match self.pools.try_reserve(&code) {
                Some(reservation) => Ok(Ok(reservation)),
                None => self.pools.queue_up(&code, hot.id.as_str()).map(Err),
            }
        });
        match asked {
            Ok(Ok(reservation)) => self.begin(hot, wanted, reservation, now),
            Ok(Err(place)) => {
                hot.reserving.insert((wanted.path.clone(), wanted.attempt));
                self.wait_for(hot.id.clone(), wanted, place);
                Vec::new()
            }
            // Known at once: it does not keep those waiting that get a worker.
            Err(fault) => {
                let input = Input::NotStarted { path: wanted.path, attempt: wanted.attempt, failure: failure_of(fault) };
                decide(&mut hot.run, input, now, self.languages.as_ref()).unwrap_or_default()
            }
        }
    }

    fn begin(&mut self, hot: &mut Hot, wanted: Wanted, reservation: Reservation, now: Millis) -> Vec<Event> {
        let (input, start) = self.starting(hot, &wanted, reservation);
        match decide(&mut hot.run, input, now, self.languages.as_ref()) {
            Ok(events) => {
                hot.starts.extend(start);
                events
            }
            Err(_) => Vec::new(),
        }
    }

    fn wait_for(&self, run: RunId, wanted: Wanted, place: Place) {
        let sender = self.sender.clone();
        tokio::spawn(async move {
            let outcome = place.wait().await;
            let _ = sender.send(Message::Reserved { run, path: wanted.path, attempt: wanted.attempt, outcome });
        });
    }

    /// A worker came, or could not be had, for an attempt that was due when it was asked for.
    pub(super) fn reserved(&mut self, hot: &mut Hot, path: Path, attempt: u32, outcome: Result<Reservation, Fault>) -> Option<(Input, Option<Start>)> {
        hot.reserving.remove(&(path.clone(), attempt));
        if self.starts_nothing() {
            return None;
        }
        match outcome {
            Err(fault) => Some((Input::NotStarted { path, attempt, failure: failure_of(fault) }, None)),
            Ok(reservation) => {
                let wanted = wanted_at(&hot.run, &path, attempt)?;
                Some(self.starting(hot, &wanted, reservation))
            }
        }
    }

    /// Sends a worker its arguments; the attempt's start is durable.
    pub(super) fn launch(&mut self, hot: &mut Hot, start: Start) {
        let injected = self.rehearsal.injected(&start.path, start.call.context.attempt);
        if injected == Some(Injected::Crash) {
            let tree = start.reservation.tree();
            tokio::spawn(async move { kill_leftover(&tree).await });
        }
        let (stop, stopped) = oneshot::channel();
        let (notices, mut heard) = mpsc::unbounded_channel::<Notice>();
        let (sender, run, path, id) = (self.sender.clone(), hot.id.clone(), start.path.clone(), start.id.clone());
        let asker = Asker { script: start.reservation.code().name.clone(), secrets: start.call.secrets.clone(), at: At::Revision(hot.run.revision) };
        hot.flights.insert(start.id.clone(), Flight { attempt: start.call.context.attempt, asker, stop: Some(stop) });
        let ended = start.reservation.run(start.call, stopped, notices);
        tokio::spawn(async move {
            tokio::pin!(ended);
            loop {
                tokio::select! {
                    biased;
                    Some(notice) = heard.recv() => {
                        let _ = sender.send(Message::Noticed { run: run.clone(), path: path.clone(), id: id.clone(), notice });
                    }
                    report = &mut ended => {
                        let _ = sender.send(Message::Finished { run, path, id, report: Box::new(report) });
                        return;
                    }
                }
            }
        });
    }

    pub(super) fn finished(&mut self, run: &RunId, path: Path, id: String, report: script::Report) {
        let Some(hot) = self.runs.get_mut(run) else { return };
        let attempt = hot.flights.remove(&id).map_or(0, |flight| flight.attempt);
        let mut lost = None;
        let mut log = report.log.bytes;
        if let Some(late) = report.late {
            log.extend_from_slice(late.as_bytes());
            log.push(b'\n');
        }
        if !log.is_empty()
            && let Err(error) = self.logs.write(run.as_str(), path.as_str(), attempt, &log)
        {
            let note = format!("the log of attempt {attempt} could not be kept: {error}");
            lost = Some(News::Progress { path: path.to_string(), fraction: None, note: Some(note) });
        }
        if let Some(news) = lost
            && let Some(hot) = self.runs.get(run)
        {
            self.tell(hot, news);
        }
        let crashes = self.rehearsal.injected(&path, attempt) == Some(Injected::Crash);
        let report = match report.outcome {
            // It was quicker than its end: that comes between what it did and its telling.
            Outcome::Returned(_) if crashes => Report::Failed(failure_of(Fault::new(FaultKind::ScriptBroken, "injected: the worker died"))),
            Outcome::Returned(value) => Report::Returned(value),
            Outcome::Failed(fault) => Report::Failed(failure_of(fault)),
            Outcome::Stopped => Report::Stopped,
        };
        self.happened(run, Pending::Input(Input::Finished { path, id, report }));
    }

    pub(super) fn noticed(&mut self, run: &RunId, path: Path, id: String, notice: Notice) {
        match notice {
            Notice::Progress { fraction, note } => {
                if let Some(hot) = self.runs.get(run) {
                    self.tell(hot, News::Progress { path: path.to_string(), fraction, note });
                }
            }
            Notice::Resource { name, kind, ack } => {
                let flight = self.runs.get(run).and_then(|hot| hot.flights.get(&id));
                // an attempt that is no more gets no answer
                let Some(asker) = flight.map(|flight| flight.asker.clone()) else { return };
                let vault = Arc::clone(&self.vault);
                tokio::task::spawn_blocking(move || {
                    let _ = ack.send(vault.answer(&asker, &name, kind.as_deref()));
                });
            }
            Notice::Defer { workflow, args, ack } => match self.deferrable(run, &workflow, &args) {
                Err(problem) => {
                    let _ = ack.send(Err(problem));
                }
                Ok((version, revision)) => {
                    let input = Input::Deferred { path, id, workflow, version, revision, args };
                    self.happened(run, Pending::Acknowledged(input, ack));
                }
            },
        }
    }

    /// Starts workers for the run's scripts before they are asked for, so that a first run does not wait for each in turn.
    pub(super) fn prewarm(&mut self, hot: &mut Hot) {
        for name in assets::scripts_of(&hot.run.program) {
            if let Ok(code) = self.script(hot, &name) {
                self.pools.prewarm(&code);
            }
        }
    }

    /// The attempt's start, or that it cannot be given what its script declares.
    fn starting(&self, hot: &Hot, wanted: &Wanted, reservation: Reservation) -> (Input, Option<Start>) {
        let secrets = match self.vault.given(reservation.code()) {
            Ok(secrets) => secrets,
            Err(fault) => return (Input::NotStarted { path: wanted.path.clone(), attempt: wanted.attempt, failure: failure_of(fault) }, None),
        };
        let traced = self.witness.as_ref().is_some_and(|witness| witness.traces());
        let created = &hot.run.created;
        let id = viat_store::fresh_id();
        let tree = serde_json::to_value(reservation.tree()).unwrap_or_default();
        let queued_ms = u64::try_from(reservation.queued().as_millis()).unwrap_or(u64::MAX);
        let call = Call {
            attempt_id: id.clone(),
            args: Arc::from(wanted.args.to_string()),
            context: Context {
                run_id: created.run.clone(),
                workflow: created.workflow.clone(),
                version: Some(hot.run.version),
                step: wanted.path.entry().last().to_owned(),
                path: wanted.path.to_string(),
                attempt: wanted.attempt,
                idempotency_key: wanted.idempotency_key.clone(),
                deadline: hot.run.deadline.map(viat_engine::record::rfc3339),
                traceparent: traced.then(|| key::traceparent(&created.run, &wanted.path, wanted.attempt)),
            },
            timeout: wanted.timeout_ms.map(Duration::from_millis),
            secrets,
        };
        let input = Input::Reserved { path: wanted.path.clone(), attempt: wanted.attempt, id: id.clone(), queued_ms, tree };
        (input, Some(Start { path: wanted.path.clone(), id, reservation, call }))
    }

    fn script(&self, hot: &mut Hot, name: &str) -> Result<Arc<ScriptCode>, Fault> {
        if let Some(known) = hot.scripts.get(name) {
            return known.clone();
        }
        let found = match assets::script(self.store.as_ref(), name, At::Revision(hot.run.revision)) {
            Ok(code) => Ok(Arc::new(code)),
            Err(AssetError::Missing(what)) => Err(Fault::new(FaultKind::Resource, format!("there is no {what}"))),
            Err(error) => Err(Fault::new(FaultKind::Resource, error.to_string())),
        };
        hot.scripts.insert(name.to_owned(), found.clone());
        found
    }
}

/// A fault of the pools in the engine's words.
pub fn failure_of(fault: Fault) -> Failure {
    let class = match fault.kind {
        FaultKind::QueueFull => Class::QueueFull,
        FaultKind::QueueWaitTimeout => Class::QueueWaitTimeout,
        FaultKind::ScriptBroken => Class::ScriptBroken,
        FaultKind::PoolSpawnFailed => Class::PoolSpawnFailed,
        FaultKind::Timeout => Class::Timeout,
        FaultKind::Transport => Class::Transport,
        FaultKind::User => Class::User,
        FaultKind::Exception => Class::Exception,
        FaultKind::Annotation => Class::Annotation,
        FaultKind::InvalidOutput => Class::InvalidOutput,
        FaultKind::Resource => Class::Resource,
        FaultKind::EnvironmentNotReady => Class::EnvironmentNotReady,
    };
    let extra = fault.extra.map(|extra| match extra.to_string().len() {
        size if size > MAX_EXTRA_BYTES => serde_json::json!({"dropped": format!("extra had {size} bytes, the most is {MAX_EXTRA_BYTES}")}),
        _ => extra,
    });
    let message = if fault.message.trim().is_empty() { "(it came without a message)".to_owned() } else { fault.message };
    Failure { class, code: fault.code, message, status: fault.status, extra, retry_after_ms: fault.retry_after_ms }
}
