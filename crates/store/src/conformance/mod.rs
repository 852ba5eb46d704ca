//! The examiner.
