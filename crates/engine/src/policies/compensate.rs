//! Compensation.

/// The budget of a run's compensation, if its document gives none, in milliseconds.
pub const DEFAULT_BUDGET_MS: u64 = 300_000;
