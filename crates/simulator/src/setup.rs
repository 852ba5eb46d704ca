//! Everything that is not the engine: what runs, what it is given, what scripts and people do, when engines die.

use std::sync::Arc;

use serde_json::{Map, Value};
use viat_engine::expression::Evaluate;
use viat_engine::journal::Millis;
use viat_engine::{Program, Wanted};

use crate::story::{Deed, Outcome};

/// What the scripts of a world do.
pub trait Scripts {
    /// What an attempt comes to.
    ///
    /// # Errors
    /// Nothing is said about the script.
    fn outcome(&self, wanted: &Wanted) -> Result<Outcome, String>;
}

/// Everything that is not the engine.
pub struct Setup<'a> {
    /// What runs.
    pub program: Arc<Program>,
    /// What the run can be migrated to: version 2.
    pub next: Option<Arc<Program>>,
    /// What the run is given.
    pub inputs: Map<String, Value>,
    /// The budget that the caller passes.
    pub timeout_ms: Option<u64>,
    /// The default execution deadline of active time.
    pub active_budget_ms: Option<u64>,
    /// Whether the trace tells idempotency keys apart.
    pub shows_keys: bool,
    /// What people do, by time.
    pub deeds: Vec<(Millis, Deed)>,
    /// What attempts come to.
    pub scripts: &'a dyn Scripts,
    /// Evaluates expressions.
    pub evaluator: &'a dyn Evaluate,
}

/// An engine that dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crash {
    /// After this many batches are durable.
    pub after_batches: usize,
    /// How long no engine is up.
    pub down_ms: Millis,
}
