//! What goes into an attempt and what comes out of it.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::oneshot;

use super::fault::Fault;
use super::secrets::Secrets;

/// What `viat.context` shows the script.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Context {
    /// The run.
    pub run_id: String,
    /// The workflow's name.
    pub workflow: String,
    /// The workflow's version; `None` for a draft.
    pub version: Option<u64>,
    /// The entry's id.
    pub step: String,
    /// The entry's place in the run, iterations included.
    pub path: String,
    /// The attempt's number, from 1.
    pub attempt: u32,
    /// The same for every attempt of this entry in this run.
    pub idempotency_key: String,
    /// When the run's budget is spent, RFC 3339; `None` if it has none.
    pub deadline: Option<String>,
    /// The attempt's W3C trace context; `None` if no spans are sent.
    pub traceparent: Option<String>,
}

/// One attempt to be made.
#[derive(Debug, Clone)]
pub struct Call {
    /// The attempt's id, never used twice; it must not contain a line break.
    pub attempt_id: String,
    /// The arguments: the text of a JSON object.
    pub args: Arc<str>,
    /// What `viat.context` shows.
    pub context: Context,
    /// The attempt's timeout; zero times out at once and sends nothing.
    pub timeout: Option<Duration>,
    /// What it may ask for, and what is hidden in all that it writes; `None` if its script declares no secrets.
    pub secrets: Option<Arc<Secrets>>,
}

/// The word to end an attempt that is running: its run is cancelled or out of time.
#[derive(Debug, Clone, Copy)]
pub struct Stop {
    /// How long the script may take to end by itself.
    pub grace: Duration,
}

/// The answer to a [`Notice`] that the script waits for; `Err` raises `viat.ResourceError` with that text.
pub type Answer = oneshot::Sender<Result<Value, String>>;

/// What a script says while it runs.
#[derive(Debug)]
pub enum Notice {
    /// `viat.defer(workflow, args)`; the call returns when `ack` is answered.
    Defer {
        /// The workflow to start once the run has succeeded.
        workflow: String,
        /// Its input.
        args: Value,
        /// Answer once the task is recorded; the value is ignored.
        ack: Answer,
    },
    /// `viat.progress(fraction, note)`; of a flood only some arrive, the last one always.
    Progress {
        /// From 0 to 1.
        fraction: Option<f64>,
        /// What is being done.
        note: Option<String>,
    },
    /// `viat.resource(name, kind=...)`; the call returns the answer's value.
    Resource {
        /// The resource's name.
        name: String,
        /// The kind the script expects.
        kind: Option<String>,
        /// Answer with the resource's value.
        ack: Answer,
    },
}

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// `main` returned this.
    Returned(Value),
    /// It failed.
    Failed(Fault),
    /// It ended because of a [`Stop`], or because the pools were shut down.
    Stopped,
}

/// The attempt's end; when it is given, the attempt's process tree is idle or proven dead.
#[derive(Debug, Clone)]
pub struct Report {
    /// How it ended.
    pub outcome: Outcome,
    /// What the script and its children wrote.
    pub log: Log,
    /// A result that came after the attempt had been ended: a line for the log, never used.
    pub late: Option<String>,
    /// From the args being sent to the result, or to the proven death.
    pub ran: Duration,
}

/// The attempt's stdout and stderr: head and tail, the cut marked in the text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Log {
    /// What is kept; not always valid UTF-8.
    pub bytes: Vec<u8>,
    /// How many bytes were written.
    pub total: u64,
}

impl Log {
    /// The log as text, with the invalid bytes replaced.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}
