//! Taking over the run of an engine that died: what it left running is proven dead before anything else is decided.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use viat_engine::facts::Watch;
use viat_engine::journal::Event;
use viat_engine::{Input, Run, Status, outstanding};
use viat_store::big::{self, Kept, Unreadable};
use viat_store::{Op, OwnerId, RunId, Store, Summary, Unit};

use super::handle::NewsSender;
use super::hot::{Hot, Pending};
use super::reviews::{OpenReviews, open_reviews};
use super::{DriverError, Loop, Message, Reply, wakes};
use crate::assets::{self, AssetError, Pins};
use crate::script::{TreeId, kill_leftover};

/// How often a background engine looks for what others left behind.
const SWEEP_EVERY: Duration = Duration::from_secs(5);
/// The pause while there is more than one look takes; others get their turn in it.
const SWEEP_ON: Duration = Duration::from_millis(50);
/// How many orphans are looked at in one go.
const SWEEP_AT_ONCE: usize = 200;

/// A run as the store has it.
pub(crate) struct Found {
    run: Run,
    watch: Watch,
    open: OpenReviews,
    summary: Summary,
    kept: Kept,
    batches: u64,
    owner: Option<OwnerId>,
}

impl Loop {
    /// Takes over a run whose owner is dead, or that has none.
    pub(super) fn adopt(&mut self, id: RunId, news: Option<NewsSender>, reply: Reply<()>) {
        self.take_over(id, false, news, reply);
    }

    fn take_over(&mut self, id: RunId, ended: bool, news: Option<NewsSender>, reply: Reply<()>) {
        if self.runs.contains_key(&id) || self.adopting.contains_key(&id) {
            return reply.send(Err(DriverError::Owned(self.owner().clone())));
        }
        let found = match self.find(&id, ended) {
            Ok(found) if found.owner.as_ref() == Some(self.owner()) => return reply.send(Err(DriverError::Owned(self.owner().clone()))),
            Ok(found) => found,
            Err(error) => return reply.send(Err(error)),
        };
        self.adopting.insert(id.clone(), Vec::new());
        self.prove_dead(id, found, news, reply);
    }

    /// Goes on once nothing of the run is left running.
    fn prove_dead(&mut self, id: RunId, found: Found, news: Option<NewsSender>, reply: Reply<()>) {
        if outstanding(&found.run).running.is_empty() {
            return self.adoptable(id, Ok(Box::new(found)), news, reply);
        }
        let sender = self.sender.clone();
        tokio::spawn(async move {
            let found = kill_what_is_left(&found.run).await.map(|()| Box::new(found));
            let _ = sender.send(Message::Adoptable { id, found, news, reply });
        });
    }

    /// Takes a run over because something is to reach it.
    pub(super) fn adopt_for(&mut self, id: RunId, input: Input, news: Option<NewsSender>, reply: Reply<()>) {
        let found = match self.find(&id, wakes(&input)) {
            Ok(found) => found,
            Err(error) => return reply.send(Err(error)),
        };
        self.adopting.insert(id.clone(), vec![(input, reply)]);
        self.prove_dead(id, found, news, Reply::nobody());
    }

    /// Nothing of the run is left running anywhere.
    pub(super) fn adoptable(&mut self, id: RunId, found: Result<Box<Found>, DriverError>, news: Option<NewsSender>, reply: Reply<()>) {
        let waiting = self.adopting.remove(&id).unwrap_or_default();
        match found {
            Err(error) => {
                for (_, waiter) in waiting {
                    waiter.send(Err(DriverError::Io(error.to_string())));
                }
                reply.send(Err(error));
            }
            Ok(found) => {
                let mut hot = Hot::new(id, found.run, news);
                hot.watch = found.watch;
                hot.batches = found.batches;
                hot.open = found.open;
                hot.summary = found.summary;
                hot.kept = found.kept;
                hot.claim_from = Some(found.owner);
                hot.replies.push(reply);
                let first = if hot.run.status == Status::Queued { Input::Continue } else { Input::Adopted { owner: self.owner().to_string() } };
                // A cancel that is already asked for comes before any policy's view of what was interrupted.
                let (cancels, others): (Vec<_>, Vec<_>) = waiting.into_iter().partition(|(input, _)| matches!(input, Input::Cancel { .. }));
                let asked = |(input, waiter)| Pending::Asked(input, waiter);
                hot.backlog.extend(cancels.into_iter().map(asked));
                hot.backlog.push_back(Pending::Input(first));
                hot.backlog.extend(others.into_iter().map(asked));
                self.catch_up(&mut hot);
                self.keep(hot);
            }
        }
    }

    /// A run of this engine that is only in the store.
    ///
    /// `ended`: also one that has ended.
    pub(super) fn load(&self, id: &RunId, ended: bool) -> Result<Hot, DriverError> {
        let found = self.find(id, ended)?;
        if found.owner.as_ref() != Some(self.owner()) {
            return Err(DriverError::NotHere);
        }
        let mut hot = Hot::new(id.clone(), found.run, None);
        hot.watch = found.watch;
        hot.batches = found.batches;
        hot.open = found.open;
        hot.summary = found.summary;
        hot.kept = found.kept;
        Ok(hot)
    }

    /// Takes over what dead engines left and what was queued without one; waiting runs change hands all at once.
    pub(super) fn sweep(&mut self) {
        if self.draining.is_some() {
            return;
        }
        let (found, adopted) = self.sweep_once();
        // As long as there are more than one look takes, the next one follows at once.
        let pause = if found == SWEEP_AT_ONCE && adopted > 0 { SWEEP_ON } else { SWEEP_EVERY };
        let sender = self.sender.clone();
        tokio::spawn(async move {
            tokio::time::sleep(pause).await;
            let _ = sender.send(Message::Sweep);
        });
    }

    /// One look: how many orphans there are, and how many of them were taken over now.
    fn sweep_once(&mut self) -> (usize, usize) {
        // What dead engines left behind besides their runs; a sweep that fails is followed by another.
        let _ = self.store.sweep_owners();
        let claimed = self.claim_waiting();
        if claimed {
            self.parked_wake = self.store.next_wake(self.owner()).unwrap_or(None);
        }
        let orphans = self.store.orphans(SWEEP_AT_ONCE).unwrap_or_default();
        let found = orphans.len();
        let mut adopted = 0;
        for row in orphans {
            let known = self.runs.contains_key(&row.id) || self.adopting.contains_key(&row.id);
            if row.summary.status != Status::Waiting.name() && !known {
                self.adopt(row.id, None, Reply::nobody());
                adopted += 1;
            }
        }
        (found, adopted)
    }

    /// Takes over the waiting runs of dead engines; says whether there were any.
    fn claim_waiting(&mut self) -> bool {
        let mut claimed = BTreeSet::new();
        loop {
            let orphans = self.store.orphans(SWEEP_AT_ONCE).unwrap_or_default();
            let waiting = orphans.into_iter().filter(|row| row.summary.status == Status::Waiting.name());
            let Some(from) = waiting.filter_map(|row| row.owner).find(|owner| !claimed.contains(owner)) else { break };
            let op = Op::ClaimRuns { from: from.clone(), to: self.owner().clone(), status: Status::Waiting.name().to_owned() };
            // What could not be claimed now is found again by the next sweep.
            if self.store.commit_blocking(Unit::from(op)).is_err() {
                break;
            }
            claimed.insert(from);
        }
        !claimed.is_empty()
    }

    fn find(&self, id: &RunId, ended: bool) -> Result<Found, DriverError> {
        let store: &dyn Store = self.store.as_ref();
        let row = store.run(id)?.ok_or_else(|| DriverError::Assets(AssetError::Missing(format!("run {id}"))))?;
        if row.summary.ended_at.is_some() && !ended {
            return Err(DriverError::Ended);
        }
        if let Some(owner) = row.owner.as_ref().filter(|owner| *owner != self.owner())
            && store.is_alive(owner)?
        {
            return Err(DriverError::Owned(owner.clone()));
        }
        let journal = store.journal(id, 0)?;
        let unreadable = |problem: String| DriverError::Assets(AssetError::Unreadable(format!("the journal of run {id} cannot be read: {problem}")));
        let broken = |error: Unreadable| unreadable(error.to_string());
        let first = journal.first().map(|batch| big::decode(store, batch)).transpose().map_err(broken)?;
        let draft = matches!(first.as_ref().and_then(|batch| batch.events.first()), Some(Event::Created(created)) if created.draft);
        let pins = Pins { version: row.version, revision: row.revision, draft };
        let program = assets::program(store, &row.workflow, pins).map_err(DriverError::Assets)?;
        let versions = |version, revision| {
            let program = assets::program(store, &row.workflow, Pins { version, revision, draft }).map_err(|error| error.to_string())?;
            Ok(Arc::new(program))
        };
        let rest = journal.get(1..).unwrap_or_default();
        let mut watch = Watch::default();
        let loaded = big::read(store, rest, |rest| {
            // Whoever made these events durable has told of them.
            let batches = first.into_iter().chain(rest).inspect(|batch| drop(watch.note(batch)));
            Run::load(Arc::new(program), batches, &versions)
        });
        let loaded = loaded.map_err(broken)?;
        let mut kept = Kept::default();
        journal.iter().try_for_each(|batch| kept.note(batch)).map_err(broken)?;
        let mut run = loaded.map_err(unreadable)?;
        run.kept_bytes = kept.bytes();
        Ok(Found { run, watch, kept, open: open_reviews(store, id)?, summary: row.summary, batches: journal.len() as u64, owner: row.owner })
    }
}

async fn kill_what_is_left(run: &Run) -> Result<(), DriverError> {
    for running in outstanding(run).running {
        let Ok(tree) = serde_json::from_value::<TreeId>(running.tree) else { continue };
        kill_leftover(&tree).await.map_err(|error| DriverError::Io(format!("what {} left running could not be ended: {error}", running.path)))?;
    }
    Ok(())
}
