//! What happens to failures and budgets; one file per policy.

pub mod cancel;
pub mod class;
pub mod compensate;
pub mod deadline;
pub mod interrupt;
pub mod migrate;
pub mod recover;
pub mod resolve;
pub mod resume;
pub mod retry;
pub mod timeout;
