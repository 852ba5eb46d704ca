//! Retry: which failures are tried again, how long to wait before it, and why not.

use serde::{Deserialize, Serialize};

use crate::mutants::{self, Mutant};
use crate::policies::class::Class;

/// A wait that would leave less than this of the run's budget is not taken, in milliseconds.
pub const DEADLINE_SLACK_MS: u64 = 10;
/// The most that a `Retry-After` may lengthen a wait to, in milliseconds.
pub const RETRY_AFTER_CAP_MS: u64 = 60_000;

/// One rule of a retry policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RetryRule {
    /// Which failures it is about.
    pub matches: Matcher,
    /// How many tries beyond the first.
    pub times: u32,
    /// Wait before the first retry, and the floor of every base wait.
    pub initial_ms: u64,
    /// What the wait grows by.
    pub factor: f64,
    /// The cap of the base wait; jitter may go beyond it.
    pub max_ms: u64,
    /// Whether a wait is multiplied by a factor drawn from 0.75 to 1.25.
    pub jitter: bool,
}

/// Which failures a rule is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Matcher {
    /// The classes whose [`Class::is_retryable`] says so.
    Retryable,
    /// Every class.
    Any,
}

impl Matcher {
    /// Whether a failure of this class is meant.
    pub fn covers(self, class: Class) -> bool {
        match self {
            Matcher::Retryable => class.is_retryable(),
            Matcher::Any => true,
        }
    }
}

impl RetryRule {
    /// The wait before retry `n` (1 is the first) without jitter, in milliseconds; halves round up.
    pub fn base_ms(&self, n: u32) -> f64 {
        let grown = self.initial_ms as f64 * self.factor.powf(f64::from(n.saturating_sub(1)));
        // An overflow to infinity is capped like any other large value.
        grown.min(self.max_ms as f64).max(self.initial_ms as f64)
    }

    /// The wait before retry `n`; `draw` in [0, 1) places it in the jitter's band.
    pub fn wait_ms(&self, n: u32, draw: f64) -> u64 {
        let factor = if self.jitter { 0.75 + 0.5 * draw } else { 1.0 };
        (self.base_ms(n) * factor + 0.5).floor() as u64
    }
}

/// What was decided about a failed attempt; nobody should have to guess why a retry stopped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Decision {
    /// It is tried again.
    Retry {
        /// Always `true`.
        retry: Yes,
        /// The wait before the next attempt.
        wait_ms: u64,
        /// What was left of the run's budget when it was decided; `None` if it has none.
        remaining_ms: Option<u64>,
    },
    /// It is not.
    Stop {
        /// Always `false`.
        retry: No,
        /// Why.
        reason: Reason,
        /// The wait that did not fit, with `would_overrun_deadline`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        wait_ms: Option<u64>,
        /// What was left of the run's budget, with `would_overrun_deadline`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        remaining_ms: Option<u64>,
    },
}

/// `true` as a type: the tag of [`Decision::Retry`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Yes;
/// `false` as a type: the tag of [`Decision::Stop`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct No;

macro_rules! boolean_tag {
    ($name:ident, $value:literal) => {
        impl Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_bool($value)
            }
        }
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                match bool::deserialize(deserializer)? {
                    $value => Ok($name),
                    _ => Err(serde::de::Error::custom(concat!("expected ", stringify!($value)))),
                }
            }
        }
    };
}
boolean_tag!(Yes, true);
boolean_tag!(No, false);

/// Why no further attempt follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The entry has no retry rule, and the class is one that could be retried.
    NoRetryConfigured,
    /// The class is never retried.
    NotRetryable,
    /// All tries are used up.
    Exhausted,
    /// The wait and its slack do not fit what is left of the run's budget.
    WouldOverrunDeadline,
    /// The run is being cancelled.
    Cancelled,
    /// The outcome was found out otherwise.
    Resolved,
}

impl Decision {
    /// No further attempt, for this reason.
    pub fn stop(reason: Reason) -> Decision {
        Decision::Stop { retry: No, reason, wait_ms: None, remaining_ms: None }
    }

    /// Whether attempts ended because something around them did.
    pub fn is_cut_short(&self) -> bool {
        self.reason() == Some(Reason::Cancelled)
    }

    /// Why no further attempt follows, if none does.
    pub fn reason(&self) -> Option<Reason> {
        match self {
            Decision::Retry { .. } => None,
            Decision::Stop { reason, .. } => Some(*reason),
        }
    }

    /// The wait before the next attempt, if there is one.
    pub fn retry_wait_ms(&self) -> Option<u64> {
        match self {
            Decision::Retry { wait_ms, .. } => Some(*wait_ms),
            Decision::Stop { .. } => None,
        }
    }
}

/// What is known when an attempt has failed.
#[derive(Clone, Copy, Debug)]
pub struct Situation {
    /// The failure's class.
    pub class: Class,
    /// The attempt that failed, 1 being the first.
    pub attempt: u32,
    /// How often the matching rule was used before.
    pub used: u32,
    /// What is left of the run's budget; `None` if it has none.
    pub remaining_ms: Option<u64>,
    /// A lower bound of the wait that the failure asks for.
    pub retry_after_ms: Option<u64>,
    /// In [0, 1): the one sample of the jitter.
    pub draw: f64,
    /// Whether the run is being cancelled.
    pub cancelled: bool,
}

/// Decides about a failed attempt.
pub fn decide(rules: &[RetryRule], situation: Situation) -> Decision {
    if situation.cancelled {
        return Decision::stop(Reason::Cancelled);
    }
    if rules.is_empty() {
        let reason = if situation.class.is_retryable() { Reason::NoRetryConfigured } else { Reason::NotRetryable };
        return Decision::stop(reason);
    }
    let Some(rule) = rules.iter().find(|rule| rule.matches.covers(situation.class)) else {
        return Decision::stop(Reason::NotRetryable);
    };
    let allowed = rule.times + u32::from(mutants::on(Mutant::RetryCeiling));
    if situation.used >= allowed {
        return Decision::stop(Reason::Exhausted);
    }
    let asked_ms = situation.retry_after_ms.unwrap_or(0).min(RETRY_AFTER_CAP_MS);
    let wait_ms = rule.wait_ms(situation.used + 1, situation.draw).max(asked_ms);
    match situation.remaining_ms {
        Some(remaining_ms) if wait_ms + DEADLINE_SLACK_MS > remaining_ms => {
            Decision::Stop { retry: No, reason: Reason::WouldOverrunDeadline, wait_ms: Some(wait_ms), remaining_ms: Some(remaining_ms) }
        }
        remaining_ms => Decision::Retry { retry: Yes, wait_ms, remaining_ms },
    }
}
