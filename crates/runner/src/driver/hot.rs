//! A run that this engine has in memory, with everything that is under way for it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::oneshot;
use viat_engine::facts::Watch;
use viat_engine::journal::{Batch, Millis};
use viat_engine::path::Path;
use viat_engine::{Input, Run, deadline, next_unknown};
use viat_store::big::Kept;
use viat_store::{Op, OwnerId, RunId, Summary, Unit};

use super::Reply;
use super::handle::NewsSender;
use super::reviews::OpenReviews;
use crate::resources::Asker;
use crate::script::{Answer, Call, Fault, Reservation, ScriptCode, Stop};

/// A run in memory.
pub(super) struct Hot {
    pub id: RunId,
    pub run: Run,
    /// What is counted and timed of it; it knows what is durable.
    pub watch: Watch,
    /// How many batches the store has.
    pub batches: u64,
    /// The append that is under way; until it is durable the run is ahead of the store.
    pub commit: Option<Commit>,
    /// What happened meanwhile.
    pub backlog: VecDeque<Pending>,
    /// Attempts for which a worker has been asked for.
    pub reserving: BTreeSet<(Path, u32)>,
    /// What fell due before this has been asked for, or is no more.
    pub looked: Millis,
    /// Attempts to start once the append is durable.
    pub starts: Vec<Start>,
    /// Attempts that run, by their ids.
    pub flights: BTreeMap<String, Flight>,
    /// Scripts that wait to hear that what they said is durable.
    pub answers: Vec<Answer>,
    /// Callers that wait for the same.
    pub replies: Vec<Reply<()>>,
    /// The script versions that the run pins, as they are asked for.
    pub scripts: BTreeMap<String, Result<Arc<ScriptCode>, Fault>>,
    pub news: Option<NewsSender>,
    /// What goes into the next append besides the run's own events: deferred runs, the key of its start.
    pub children: Vec<Op>,
    /// Its reviews that nobody has decided yet, as the index will have them once the append is durable.
    pub open: OpenReviews,
    /// What the store has of the run.
    pub kept: Kept,
    /// What the store's lists show of the run.
    pub summary: Summary,
    pub timer: Option<(Millis, RunId)>,
    /// The dead owner that the first append takes the run from.
    pub claim_from: Option<Option<OwnerId>>,
}

/// An append that is under way.
pub(super) struct Commit {
    pub batch: Arc<Batch>,
    /// Kept to try again when the machine, not the run, is at fault.
    pub unit: Unit,
    pub since: Instant,
}

/// Something that happened to a run and has not been decided yet.
pub(super) enum Pending {
    Input(Input),
    /// Somebody waits to hear that this is durable, or that it came too late.
    Asked(Input, Reply<()>),
    /// A script waits to hear that this is durable.
    Acknowledged(Input, Answer),
    Reserved {
        path: Path,
        attempt: u32,
        outcome: Result<Reservation, Fault>,
    },
}

/// An attempt that starts once its start is durable.
pub(super) struct Start {
    pub path: Path,
    pub id: String,
    pub reservation: Reservation,
    pub call: Call,
}

/// An attempt that runs.
pub(super) struct Flight {
    pub attempt: u32,
    /// Who asks, if it asks for a resource.
    pub asker: Asker,
    /// Taken when it is told to stop.
    pub stop: Option<oneshot::Sender<Stop>>,
}

impl Hot {
    pub fn new(id: RunId, run: Run, news: Option<NewsSender>) -> Hot {
        Hot {
            id,
            run,
            watch: Watch::default(),
            batches: 0,
            commit: None,
            backlog: VecDeque::new(),
            reserving: BTreeSet::new(),
            looked: Millis::MIN,
            starts: Vec::new(),
            flights: BTreeMap::new(),
            answers: Vec::new(),
            replies: Vec::new(),
            scripts: BTreeMap::new(),
            news,
            children: Vec::new(),
            open: OpenReviews::new(),
            kept: Kept::default(),
            summary: Summary::default(),
            timer: None,
            claim_from: None,
        }
    }

    /// When time alone moves the run: what is due and asked for waits for a worker, not for time.
    pub fn next_wake(&self) -> Option<Millis> {
        let unasked = next_unknown(&self.run, self.looked, |path, attempt| self.reserving.contains(&(path.clone(), attempt)));
        unasked.into_iter().chain(deadline(&self.run)).min()
    }

    /// Whether anything but time is expected to move it.
    pub fn is_at_work(&self) -> bool {
        self.commit.is_some() || !self.flights.is_empty() || !self.reserving.is_empty() || !self.starts.is_empty()
    }
}
