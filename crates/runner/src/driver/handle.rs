//! How the rest of the program talks to the driver, from any thread.

use std::sync::mpsc as std_mpsc;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::sync::mpsc;
use viat_engine::facts::Fact;
use viat_engine::journal::{Batch, Millis};
use viat_engine::path::Path;
use viat_engine::template::{MAX_DEPTH, is_too_deep};
use viat_engine::{Input, Program, Rejection, Run};
use viat_store::{OwnerId, Receipt, RunId, StoreError};

use super::adopt::Found;
use super::{Loop, Setup};
use crate::assets::AssetError;
use crate::script::{self, Fault, Notice, PoolStatus, Pools, Reservation};

/// The closed set of what can reach the driver.
pub(crate) enum Message {
    Start { new: Box<NewRun>, news: Option<NewsSender>, reply: Reply<()> },
    Adopt { run: RunId, news: Option<NewsSender>, reply: Reply<()> },
    Adoptable { id: RunId, found: Result<Box<Found>, DriverError>, news: Option<NewsSender>, reply: Reply<()> },
    Sweep,
    Input { run: RunId, input: Input, news: Option<NewsSender>, reply: Reply<()> },
    Reserved { run: RunId, path: Path, attempt: u32, outcome: Result<Reservation, Fault> },
    Finished { run: RunId, path: Path, id: String, report: Box<script::Report> },
    Noticed { run: RunId, path: Path, id: String, notice: Notice },
    Committed { run: RunId, result: Result<Receipt, StoreError> },
    Retry { run: RunId },
    Shutdown { grace: Duration, reply: Reply<()> },
}

/// A run to be created.
pub struct NewRun {
    /// A new UUIDv7.
    pub id: RunId,
    /// The workflow's name.
    pub workflow: String,
    /// Its version.
    pub version: u64,
    /// The catalogue revision that the run pins.
    pub revision: u64,
    /// What it runs.
    pub program: Arc<Program>,
    /// Checked inputs.
    pub inputs: Map<String, Value>,
    /// The strictest of the document's and the caller's budgets, in milliseconds.
    pub timeout_ms: Option<u64>,
    /// Whether this is a rehearsal with drafts.
    pub draft: bool,
    /// A key that no other run may have: it is claimed in the append that creates the run.
    pub key: Option<RunKey>,
}

/// A caller's idempotency key for the start of a run.
pub struct RunKey {
    /// The key.
    pub key: String,
    /// What the next caller with this key is told; see [`viat_store::StoreError::KeyTaken`].
    pub value: Vec<u8>,
}

/// The space of the store's keys that run starts are claimed in.
pub const RUN_KEYS: &str = "run-start";

/// Hears the news of every run of this engine, on the driver's thread.
pub type Observer = Arc<dyn Fn(&RunId, &News) + Send + Sync>;

/// Hears what is counted and timed, once it is durable.
pub trait Witness: Send + Sync {
    /// The facts of a batch that this engine appended to a run, which may be ahead of them. On the driver's thread: be brief.
    fn facts(&self, run: &Run, facts: &[Fact]);

    /// Whether attempts become spans, so that what scripts call may join their traces.
    fn traces(&self) -> bool;

    /// An append became durable so long after it was handed to the store. On any thread: be brief.
    fn durable(&self, took: Duration);
}

/// What a watcher of a run hears.
#[derive(Clone, Debug)]
pub enum News {
    /// These events are durable.
    Events(Arc<Batch>),
    /// An attempt says how far it is.
    Progress {
        /// The script entry.
        path: String,
        /// From 0 to 1.
        fraction: Option<f64>,
        /// What is being done.
        note: Option<String>,
    },
    /// The store fails; the append is tried again.
    Troubled(StoreError),
    /// The run has ended.
    Ended,
    /// This engine no longer has the run, because of this; another one may.
    Lost(StoreError),
}

/// Hears a run's news on the driver's thread: it must be brief, for instance hand them to a channel.
pub type NewsSender = Box<dyn Fn(News) + Send>;

/// Where an answer goes.
pub(crate) struct Reply<T>(std_mpsc::SyncSender<Result<T, DriverError>>);

impl<T> Reply<T> {
    fn new() -> (Reply<T>, std_mpsc::Receiver<Result<T, DriverError>>) {
        let (sender, receiver) = std_mpsc::sync_channel(1);
        (Reply(sender), receiver)
    }

    /// For what nobody waits for.
    pub(crate) fn nobody() -> Reply<T> {
        Reply::new().0
    }

    pub(crate) fn send(self, answer: Result<T, DriverError>) {
        // Whoever asked may have gone; then nobody wants to know.
        let _ = self.0.send(answer);
    }
}

/// Why the driver did not do as it was asked.
#[derive(Debug)]
pub enum DriverError {
    /// The store refused or failed.
    Store(StoreError),
    /// What the run needs cannot be read.
    Assets(AssetError),
    /// The run is not this engine's.
    NotHere,
    /// The run's owner is alive.
    Owned(OwnerId),
    /// The run has ended.
    Ended,
    /// What was asked for cannot be done with the run as it is.
    Refused(String),
    /// As much as may waits to be written for the run.
    Crowded,
    /// The value is nested deeper than values may be.
    TooDeep,
    /// The run would take more than a run may.
    TooBig(String),
    /// The machine failed.
    Io(String),
    /// The driver has been shut down.
    Closed,
}

impl std::fmt::Display for DriverError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            DriverError::Store(error) => error.fmt(formatter),
            DriverError::Assets(error) => error.fmt(formatter),
            DriverError::NotHere => formatter.write_str("the run is not this engine's"),
            DriverError::Owned(owner) => write!(formatter, "the run belongs to another engine that is alive ({owner})"),
            DriverError::Ended => formatter.write_str("the run has ended"),
            DriverError::Refused(why) => formatter.write_str(why),
            DriverError::Crowded => formatter.write_str("too much waits to be written for this run; try again later"),
            DriverError::TooDeep => write!(formatter, "the value is nested deeper than {MAX_DEPTH} levels"),
            DriverError::TooBig(detail) | DriverError::Io(detail) => formatter.write_str(detail),
            DriverError::Closed => formatter.write_str("the engine has been shut down"),
        }
    }
}

impl std::error::Error for DriverError {}

impl From<Rejection> for DriverError {
    fn from(rejection: Rejection) -> DriverError {
        match rejection {
            Rejection::Stale | Rejection::Terminal => DriverError::Ended,
            Rejection::Refused(why) => DriverError::Refused(why),
        }
    }
}

impl From<StoreError> for DriverError {
    fn from(error: StoreError) -> DriverError {
        DriverError::Store(error)
    }
}

/// A running driver. Dropping it shuts it down: workers are killed and proven dead.
pub struct Driver {
    sender: mpsc::UnboundedSender<Message>,
    thread: Mutex<Option<JoinHandle<()>>>,
    owner: OwnerId,
    pools: Pools,
}

impl Driver {
    /// Starts a driver on a thread of its own.
    ///
    /// # Errors
    /// The thread or its event loop could not be made.
    pub fn start(setup: Setup) -> Result<Driver, DriverError> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let owner = setup.lease.owner().clone();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| DriverError::Io(error.to_string()))?;
        let to_itself = sender.clone();
        let pools = Pools::new(setup.scripts.clone());
        let for_loop = pools.clone();
        let body = move || runtime.block_on(async move { Loop::new(setup, for_loop, to_itself).run(receiver).await });
        let thread = std::thread::Builder::new().name("driver".to_owned()).spawn(body).map_err(|error| DriverError::Io(error.to_string()))?;
        Ok(Driver { sender, thread: Mutex::new(Some(thread)), owner, pools })
    }

    /// What the pools of this engine's scripts are doing.
    pub fn pools(&self) -> Vec<PoolStatus> {
        self.pools.status()
    }

    /// This engine's identity: the owner of its runs.
    pub fn owner(&self) -> &OwnerId {
        &self.owner
    }

    /// Creates a run; when this returns it is durable and under way. Its news go to `news`.
    ///
    /// # Errors
    /// The store refused or failed; then there is no such run.
    pub fn start_run(&self, new: NewRun, news: Option<NewsSender>) -> Result<(), DriverError> {
        self.ask(|reply| Message::Start { new: Box::new(new), news, reply })
    }

    /// Takes over a run whose engine is dead, once everything that it left running is proven dead too.
    ///
    /// # Errors
    /// The run has ended, its owner is alive, or the store failed.
    pub fn adopt(&self, run: &RunId, news: Option<NewsSender>) -> Result<(), DriverError> {
        self.ask(|reply| Message::Adopt { run: run.clone(), news, reply })
    }

    /// Cancels a run of this engine; when this returns the request is durable.
    ///
    /// # Errors
    /// The run has ended or is not this engine's.
    pub fn cancel(&self, run: &RunId, by: Option<String>, reason: Option<String>) -> Result<(), DriverError> {
        self.ask_run(run, Input::Cancel { by, reason })
    }

    /// Asks something of a run of this engine, or of one whose engine is dead; when this returns it is durable.
    ///
    /// A run that has ended hears only what can bring it back: resume, compensate, migrate.
    ///
    /// # Errors
    /// The run is another live engine's, or refuses.
    pub fn ask_run(&self, run: &RunId, input: Input) -> Result<(), DriverError> {
        self.ask(|reply| Message::Input { run: run.clone(), input, news: None, reply })
    }

    /// As [`Driver::ask_run`]; from then on the run's news go to `news`.
    ///
    /// # Errors
    /// The run is another live engine's, or refuses.
    pub fn ask_and_watch(&self, run: &RunId, input: Input, news: NewsSender) -> Result<(), DriverError> {
        self.ask(|reply| Message::Input { run: run.clone(), input, news: Some(news), reply })
    }

    /// Sends an event to a run of this engine; when this returns it is durable.
    ///
    /// # Errors
    /// The run has ended or is not this engine's.
    pub fn send_event(&self, run: &RunId, name: String, payload: Value) -> Result<(), DriverError> {
        if is_too_deep(&payload) {
            return Err(DriverError::TooDeep);
        }
        self.ask_run(run, Input::Event { name, payload })
    }

    /// Takes over what dead engines and callers without one have left, now and from time to time.
    ///
    /// # Errors
    /// The driver has been shut down.
    pub fn recover(&self) -> Result<(), DriverError> {
        self.sender.send(Message::Sweep).map_err(|_| DriverError::Closed)
    }

    /// Ends the driver: nothing new starts, what runs may finish within `grace`, the rest is killed and proven dead.
    pub fn shut_down(&self, grace: Duration) {
        // A driver that is gone has nothing left to end.
        let _ = self.ask(|reply| Message::Shutdown { grace, reply });
    }

    fn ask<T>(&self, message: impl FnOnce(Reply<T>) -> Message) -> Result<T, DriverError> {
        let (reply, answer) = Reply::new();
        self.sender.send(message(reply)).map_err(|_| DriverError::Closed)?;
        answer.recv().unwrap_or(Err(DriverError::Closed))
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.shut_down(Duration::ZERO);
        let thread = self.thread.lock().ok().and_then(|mut thread| thread.take());
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

/// The wall-clock deadline of a budget that starts at `now`.
pub(super) fn deadline_of(now: Millis, timeout_ms: Option<u64>) -> Option<Millis> {
    timeout_ms.map(|ms| now.saturating_add(Millis::try_from(ms).unwrap_or(Millis::MAX)))
}
