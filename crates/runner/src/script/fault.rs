//! What can go wrong with an attempt, in the words of the specification's error classes.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The class of a failed attempt, as far as running a script can tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// The pool's queue was at its bound.
    QueueFull,
    /// No worker came free within the pool's `queue_wait`.
    QueueWaitTimeout,
    /// The worker died, was killed by the system, or broke the protocol during the attempt.
    ScriptBroken,
    /// No worker process could be started.
    PoolSpawnFailed,
    /// The attempt outran its timeout.
    Timeout,
    /// The script raised `viat.TransportError`.
    Transport,
    /// The script raised `ViatError`.
    User,
    /// The script raised anything else.
    Exception,
    /// The arguments do not fit `main`.
    Annotation,
    /// The return value is not JSON, or too big.
    InvalidOutput,
    /// A resource or workflow the script asked for is missing or of another kind.
    Resource,
    /// The script's dependency environment is not built.
    EnvironmentNotReady,
}

impl FaultKind {
    /// The class's name, which is also the default `code`.
    pub fn name(self) -> &'static str {
        match self {
            FaultKind::QueueFull => "queue_full",
            FaultKind::QueueWaitTimeout => "queue_wait_timeout",
            FaultKind::ScriptBroken => "script_broken",
            FaultKind::PoolSpawnFailed => "pool_spawn_failed",
            FaultKind::Timeout => "timeout",
            FaultKind::Transport => "transport",
            FaultKind::User => "user",
            FaultKind::Exception => "exception",
            FaultKind::Annotation => "annotation",
            FaultKind::InvalidOutput => "invalid_output",
            FaultKind::Resource => "resource",
            FaultKind::EnvironmentNotReady => "environment_not_ready",
        }
    }
}

/// One failure, ready to be recorded on the attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fault {
    /// The class.
    pub kind: FaultKind,
    /// The script's code for `user`, the exception's type name for `exception`, else the class's name.
    pub code: String,
    /// One sentence for a person.
    pub message: String,
    /// The HTTP status a `ViatError` asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The `extra` of a `ViatError`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra: Option<Value>,
    /// The lower bound of the next wait that a `TransportError` asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

impl Fault {
    /// A fault whose code is its class's name.
    pub fn new(kind: FaultKind, message: impl Into<String>) -> Fault {
        Fault { kind, code: kind.name().to_string(), message: message.into(), status: None, extra: None, retry_after_ms: None }
    }

    pub(crate) fn broken(message: impl Into<String>) -> Fault {
        Fault::new(FaultKind::ScriptBroken, message)
    }

    pub(crate) fn no_worker(message: impl Into<String>) -> Fault {
        Fault::new(FaultKind::PoolSpawnFailed, message)
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.kind.name(), self.message)
    }
}

impl std::error::Error for Fault {}
