//! What happens to failures and budgets; one file per policy.

pub mod class;
pub mod recover;
pub mod retry;
pub mod timeout;
