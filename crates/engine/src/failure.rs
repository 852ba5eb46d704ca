//! Failures as data: of an attempt, of an entry, of a run; and the error value that authors see.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::path::Path;
use crate::policies::class::{Class, Kind};

/// Why an attempt failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// Its class.
    pub class: Class,
    /// The script's own code, an exception's type name, or the class's name.
    pub code: String,
    /// For people.
    pub message: String,
    /// HTTP status of a refusal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// What a refusal carried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra: Option<Value>,
    /// A lower bound of the wait before the next attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

impl Failure {
    /// A failure whose code is its class's name.
    pub fn new(class: Class, message: impl Into<String>) -> Failure {
        Failure { class, code: class.name().to_owned(), message: message.into(), status: None, extra: None, retry_after_ms: None }
    }

    /// A failure of evaluation or of a limit: never retried, seen by no policy of its entry.
    pub fn orchestration(message: impl Into<String>) -> Failure {
        Failure::new(Class::Orchestration, message)
    }
}

/// The class of a run's error: an attempt's class, or one of the two outcomes that no policy sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The run's budget is spent.
    DeadlineExceeded,
    /// The run was cancelled.
    Cancelled,
    /// An entry failed.
    #[serde(untagged)]
    Failed(Class),
}

impl Outcome {
    /// Its name in records.
    pub fn name(self) -> &'static str {
        match self {
            Outcome::DeadlineExceeded => "deadline_exceeded",
            Outcome::Cancelled => "cancelled",
            Outcome::Failed(class) => class.name(),
        }
    }

    /// The coarse sort.
    pub fn kind(self) -> Kind {
        match self {
            Outcome::DeadlineExceeded => Kind::Timeout,
            Outcome::Cancelled => Kind::Runtime,
            Outcome::Failed(class) => class.kind(),
        }
    }
}

/// The error of an entry that failed for good, and of the run if nothing recovers it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunError {
    /// See [`Failure::code`]; `deadline_exceeded` or `cancelled` for those outcomes.
    pub code: String,
    /// For people.
    pub message: String,
    /// The coarse sort of `class`.
    pub kind: Kind,
    /// Why.
    pub class: Outcome,
    /// The entry's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// The entry's path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<Path>,
    /// The last attempt, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// HTTP status of a refusal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// What a refusal carried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra: Option<Value>,
    /// The error that this one followed: the first failure under a failed recovery, the last attempt's under a deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Box<RunError>>,
}

impl RunError {
    /// The error of an entry whose failure is final.
    pub fn of_entry(path: &Path, step: &str, attempt: Option<u32>, failure: &Failure) -> RunError {
        RunError {
            code: failure.code.clone(),
            message: failure.message.clone(),
            kind: failure.class.kind(),
            class: Outcome::Failed(failure.class),
            step: Some(step.to_owned()),
            path: Some(path.clone()),
            attempt,
            status: failure.status,
            extra: failure.extra.clone(),
            cause: None,
        }
    }

    /// The error of a run that ended by `outcome` rather than by an entry.
    pub fn of_run(outcome: Outcome, code: &str, message: impl Into<String>, cause: Option<RunError>) -> RunError {
        RunError {
            code: code.to_owned(),
            message: message.into(),
            kind: outcome.kind(),
            class: outcome,
            step: None,
            path: None,
            attempt: None,
            status: None,
            extra: None,
            cause: cause.map(Box::new),
        }
    }

    /// This error, following `first`.
    pub fn caused_by(mut self, first: RunError) -> RunError {
        match self.cause {
            None => self.cause = Some(Box::new(first)),
            Some(cause) => self.cause = Some(Box::new(cause.caused_by(first))),
        }
        self
    }

    /// The value of `$_error` and `$x._error`: `{code, message, kind, extra?}`.
    pub fn to_value(&self) -> Value {
        let mut map = Map::new();
        map.insert("code".into(), self.code.clone().into());
        map.insert("message".into(), self.message.clone().into());
        map.insert("kind".into(), self.kind.name().into());
        if let Some(extra) = &self.extra {
            map.insert("extra".into(), extra.clone());
        }
        Value::Object(map)
    }
}
