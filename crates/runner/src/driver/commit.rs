//! Making decisions durable, and acting on them once they are.

use std::sync::Arc;
use std::time::{Duration, Instant};

use viat_engine::journal::{Batch, Created, Event, Millis};
use viat_engine::{Input, Run, deadline, to_stop};
use viat_store::{Op, Receipt, RunId, RunRow, StoreError, Summary, Unit, big};

use super::handle::{NewRun, NewsSender, RUN_KEYS, RunKey, deadline_of};
use super::hot::{Commit, Hot, Pending};
use super::rehearse::Injected;
use super::reviews;
use super::{CANCEL_GRACE, DriverError, Loop, Message, News, Reply};
use crate::script::Stop;

/// How often a failed append is tried again.
const RETRY_EVERY: Duration = Duration::from_millis(200);
/// For how long where somebody waits in the foreground; then the run is let go of, as it is in the store. In the background
/// nobody else would take it up while this engine lives: it is tried until it succeeds.
const RETRY_FOR: Duration = Duration::from_secs(30);

impl Loop {
    pub(super) fn start(&mut self, new: NewRun, news: Option<NewsSender>, reply: Reply<()>) {
        let now = self.clock.now();
        let deadline = deadline_of(now, new.timeout_ms);
        let created = Created {
            run: new.id.to_string(),
            workflow: new.workflow,
            version: new.version,
            revision: new.revision,
            inputs: new.inputs,
            deadline,
            active_budget_ms: deadline.is_none().then_some(self.active_budget_ms),
            owner: self.owner().to_string(),
            draft: new.draft,
        };
        let run = Run::new(new.program, created.clone(), now);
        let mut hot = Hot::new(new.id, run, news);
        hot.children.extend(new.key.map(|RunKey { key, value }| Op::ClaimKey { space: RUN_KEYS.to_owned(), key, value }));
        self.prewarm(&mut hot);
        // The first decision shares the append that creates the run.
        let mut events = vec![Event::Created(created)];
        events.extend(self.decide(&mut hot, Pending::Input(Input::Continue), now));
        events.extend(self.start_attempts(&mut hot, now, 0));
        self.submit_tasks(&mut hot, &mut events, now);
        hot.replies.push(reply);
        self.append(&mut hot, events, now);
        self.keep(hot);
    }

    /// Begins to make events durable.
    pub(super) fn append(&mut self, hot: &mut Hot, events: Vec<Event>, now: Millis) {
        if events.is_empty() {
            // Nothing changes: whoever asked hears that it was heard.
            answer_all(hot);
            return self.act(hot);
        }
        let batch = Arc::new(Batch { at: now, events });
        match self.unit(hot, &batch) {
            Ok(unit) => self.submit(hot, batch, unit, Instant::now()),
            Err(error) => self.lose(hot, StoreError::Io { detail: format!("a batch could not be serialised: {error}") }),
        }
    }

    fn unit(&self, hot: &mut Hot, batch: &Batch) -> Result<Unit, serde_json::Error> {
        let (encoded, big_values) = big::encode(batch, &mut hot.kept)?;
        hot.run.kept_bytes = hot.kept.bytes();
        let summary = summary_of(&hot.run, &hot.summary, batch.at);
        let changed = summary != hot.summary;
        let reviews = reviews::changed(&mut hot.open, &hot.id, batch);
        hot.children.extend(reviews.into_iter().map(Op::PutReview));
        if changed {
            hot.summary.clone_from(&summary);
        }
        if hot.batches == 0 {
            let created = &hot.run.created;
            let row = RunRow {
                id: hot.id.clone(),
                workflow: created.workflow.clone(),
                version: created.version,
                revision: created.revision,
                owner: Some(self.owner().clone()),
                created_at: hot.run.created_at,
                summary,
            };
            let create = Op::CreateRun { row, first: encoded };
            return Ok(Unit::from(big_values.into_iter().chain([create]).chain(hot.children.drain(..)).collect::<Vec<_>>()));
        }
        let claim = hot.claim_from.take().map(|from| Op::ClaimRun { run: hot.id.clone(), from, to: self.owner().clone() });
        let append =
            Op::Append { run: hot.id.clone(), expected: hot.batches, batch: encoded, summary: changed.then_some(summary), fence: self.owner().clone() };
        Ok(Unit::from(claim.into_iter().chain(big_values).chain([append]).chain(hot.children.drain(..)).collect::<Vec<_>>()))
    }

    fn submit(&mut self, hot: &mut Hot, batch: Arc<Batch>, unit: Unit, since: Instant) {
        let (sender, run, witness) = (self.sender.clone(), hot.id.clone(), self.witness.clone());
        let done = Box::new(move |result: Result<Receipt, StoreError>| {
            if let (Ok(_), Some(witness)) = (&result, witness) {
                witness.durable(since.elapsed());
            }
            // A driver that is gone has no use for the news; the store has the facts.
            let _ = sender.send(Message::Committed { run, result });
        });
        if self.is_idle_beside(hot) {
            self.store.commit_here(unit.clone(), done)
        } else {
            self.store.commit(unit.clone(), done)
        }
        hot.commit = Some(Commit { batch, unit, since });
    }

    /// Whether this thread has nothing to do until the run's append is durable. A worker that is being started needs it too,
    /// and so may whoever creates one run after the other.
    fn is_idle_beside(&self, hot: &Hot) -> bool {
        let others = !self.runs.is_empty() || !self.adopting.is_empty();
        let own = !hot.flights.is_empty() || !hot.reserving.is_empty() || !hot.backlog.is_empty() || hot.batches == 0;
        !others && !own
    }

    pub(super) fn committed(&mut self, id: &RunId, result: Result<Receipt, StoreError>) {
        let Some(mut hot) = self.runs.remove(id) else { return };
        let Some(commit) = hot.commit.take() else { return self.keep(hot) };
        match result {
            Ok(_) => {
                hot.batches += 1;
                self.durable(&mut hot, commit.batch);
                // A run that has ended may have been asked to go on meanwhile.
                if !hot.run.status.is_terminal() || !hot.backlog.is_empty() {
                    // What happened meanwhile, what fell due meanwhile, and what the last decision's bound left over.
                    self.stirred.insert(id.clone());
                    self.runs.insert(id.clone(), hot);
                    return;
                }
            }
            Err(error) if hot.batches == 0 || error.is_refusal() || self.is_out_of_patience(commit.since) => return self.lose_and_drop(hot, error),
            Err(error) => {
                self.tell(&hot, News::Troubled(error));
                hot.commit = Some(commit);
                let (sender, run) = (self.sender.clone(), id.clone());
                tokio::spawn(async move {
                    tokio::time::sleep(RETRY_EVERY).await;
                    let _ = sender.send(Message::Retry { run });
                });
            }
        }
        self.keep(hot);
    }

    fn is_out_of_patience(&self, since: Instant) -> bool {
        !self.background && since.elapsed() > RETRY_FOR
    }

    pub(super) fn retry(&mut self, id: &RunId) {
        let Some(mut hot) = self.runs.remove(id) else { return };
        if let Some(commit) = hot.commit.take() {
            self.submit(&mut hot, commit.batch, commit.unit, commit.since);
        }
        self.keep(hot);
    }

    /// What was appended is durable: it may be shown and acted upon.
    fn durable(&mut self, hot: &mut Hot, batch: Arc<Batch>) {
        answer_all(hot);
        if let Some(witness) = &self.witness {
            let facts = hot.watch.note(&batch);
            witness.facts(&hot.run, &facts);
        }
        self.start_tasks(&batch);
        self.decide_reviews(hot, &batch.events);
        self.tell(hot, News::Events(batch));
        self.act(hot);
        if hot.run.status.is_terminal() {
            self.tell(hot, News::Ended);
        }
    }

    /// Starts what has been journaled as started, and stops what should not run any more.
    fn act(&mut self, hot: &mut Hot) {
        let mut interrupted = false;
        for start in std::mem::take(&mut hot.starts) {
            interrupted |= self.rehearsal.injected(&start.path, start.call.context.attempt) == Some(Injected::Interrupt);
            self.launch(hot, start);
        }
        if interrupted {
            self.interrupt(hot);
        }
        for id in to_stop(&hot.run) {
            let stop = hot.flights.get_mut(&id).and_then(|flight| flight.stop.take());
            if let Some(stop) = stop {
                let _ = stop.send(Stop { grace: CANCEL_GRACE });
            }
        }
    }

    /// Lets go of a run that this engine may not or cannot write: the store has it as it was.
    fn lose(&mut self, hot: &mut Hot, error: StoreError) {
        for reply in hot.replies.drain(..) {
            reply.send(Err(DriverError::Store(error.clone())));
        }
        hot.starts.clear();
        for flight in hot.flights.values_mut() {
            if let Some(stop) = flight.stop.take() {
                let _ = stop.send(Stop { grace: Duration::ZERO });
            }
        }
        self.tell(hot, News::Lost(error));
    }

    pub(super) fn tell(&self, hot: &Hot, news: News) {
        if let Some(observer) = &self.observer {
            observer(&hot.id, &news);
        }
        if let Some(sender) = &hot.news {
            sender(news);
        }
    }

    fn lose_and_drop(&mut self, mut hot: Hot, error: StoreError) {
        self.lose(&mut hot, error);
        if let Some(timer) = hot.timer.take() {
            self.timers.remove(&timer);
        }
    }
}

/// What the callers and scripts that wait said is durable.
fn answer_all(hot: &mut Hot) {
    for reply in hot.replies.drain(..) {
        reply.send(Ok(()));
    }
    for answer in hot.answers.drain(..) {
        // A script that died meanwhile hears nothing any more.
        let _ = answer.send(Ok(serde_json::Value::Null));
    }
}

pub(super) fn summary_of(run: &Run, before: &Summary, now: Millis) -> Summary {
    let waiting = matches!(run.status, viat_engine::Status::Waiting | viat_engine::Status::NeedsAttention);
    let status = run.status.name();
    Summary {
        status: status.to_owned(),
        status_since: if before.status == status { before.status_since } else { Some(now) },
        // Nothing of it is due: only its own time can wake it.
        wake_at: if waiting { deadline(run) } else { None },
        error_class: run.error.as_ref().and_then(|error| serde_json::to_value(error.class).ok()).and_then(|class| class.as_str().map(str::to_owned)),
        error_code: run.error.as_ref().map(|error| error.code.clone()),
        // What happens to a run that has ended and stays so does not move its end.
        ended_at: run.status.is_terminal().then(|| before.ended_at.unwrap_or(now)),
        moved_to: (run.version != run.created.version).then_some(run.version),
    }
}
