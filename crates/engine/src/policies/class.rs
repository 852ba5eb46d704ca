//! The closed set of failure classes, and whether each may be retried.

use serde::{Deserialize, Serialize};

/// Why an attempt, or an entry that never came to an attempt, failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// The script's pool queue was at its bound when the attempt was submitted.
    QueueFull,
    /// The attempt waited in the queue longer than the pool allows.
    QueueWaitTimeout,
    /// The worker process died, was killed, or broke the protocol mid-attempt.
    ScriptBroken,
    /// No worker process could be started.
    PoolSpawnFailed,
    /// The attempt outran its own timeout.
    Timeout,
    /// The connection to what does the work failed, or the script said so itself.
    Transport,
    /// The script refused: a business decision, not a fault.
    User,
    /// Any other exception, exit code or unexpected answer.
    Exception,
    /// The arguments do not fit the signature of `main`.
    Annotation,
    /// The returned value is not JSON, or is too large.
    InvalidOutput,
    /// A script, workflow or resource is missing or of another kind.
    Resource,
    /// The script's dependency environment is not built, or its build failed.
    EnvironmentNotReady,
    /// An expression failed, a loop ran over something that is no list, a limit was exceeded.
    Orchestration,
}

/// The coarse sort that an author sees in `$x._error.kind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The script said no.
    User,
    /// There was no room for the attempt.
    Overload,
    /// A budget was spent.
    Timeout,
    /// Anything else.
    Runtime,
}

impl Class {
    /// Every class, in the specification's order.
    pub const ALL: [Class; 13] = [
        Class::QueueFull,
        Class::QueueWaitTimeout,
        Class::ScriptBroken,
        Class::PoolSpawnFailed,
        Class::Timeout,
        Class::Transport,
        Class::User,
        Class::Exception,
        Class::Annotation,
        Class::InvalidOutput,
        Class::Resource,
        Class::EnvironmentNotReady,
        Class::Orchestration,
    ];

    /// Whether a retry policy may try again after a failure of this class.
    ///
    /// There is no wildcard arm on purpose: a new class must not compile until someone decides, and the default answer is no.
    pub const fn is_retryable(self) -> bool {
        match self {
            Class::QueueFull | Class::QueueWaitTimeout | Class::ScriptBroken | Class::PoolSpawnFailed | Class::Timeout | Class::Transport => true,
            Class::User | Class::Exception | Class::Annotation | Class::InvalidOutput | Class::Resource | Class::EnvironmentNotReady | Class::Orchestration => {
                false
            }
        }
    }

    /// Whether an attempt that had begun and failed like this may have taken effect all the same.
    pub const fn is_uncertain(self) -> bool {
        match self {
            Class::ScriptBroken | Class::Timeout | Class::Transport => true,
            Class::QueueFull
            | Class::QueueWaitTimeout
            | Class::PoolSpawnFailed
            | Class::User
            | Class::Exception
            | Class::Annotation
            | Class::InvalidOutput
            | Class::Resource
            | Class::EnvironmentNotReady
            | Class::Orchestration => false,
        }
    }

    /// The coarse sort of this class.
    pub const fn kind(self) -> Kind {
        match self {
            Class::QueueFull | Class::QueueWaitTimeout => Kind::Overload,
            Class::Timeout => Kind::Timeout,
            Class::User => Kind::User,
            Class::ScriptBroken
            | Class::PoolSpawnFailed
            | Class::Transport
            | Class::Exception
            | Class::Annotation
            | Class::InvalidOutput
            | Class::Resource
            | Class::EnvironmentNotReady
            | Class::Orchestration => Kind::Runtime,
        }
    }

    /// The class's name in definitions, records and journals.
    pub const fn name(self) -> &'static str {
        match self {
            Class::QueueFull => "queue_full",
            Class::QueueWaitTimeout => "queue_wait_timeout",
            Class::ScriptBroken => "script_broken",
            Class::PoolSpawnFailed => "pool_spawn_failed",
            Class::Timeout => "timeout",
            Class::Transport => "transport",
            Class::User => "user",
            Class::Exception => "exception",
            Class::Annotation => "annotation",
            Class::InvalidOutput => "invalid_output",
            Class::Resource => "resource",
            Class::EnvironmentNotReady => "environment_not_ready",
            Class::Orchestration => "orchestration",
        }
    }
}

impl Kind {
    /// The kind's name in records and error values.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::User => "user",
            Kind::Overload => "overload",
            Kind::Timeout => "timeout",
            Kind::Runtime => "runtime",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_six_retryable_classes_are_those_of_the_specification() {
        let retryable: Vec<&str> = Class::ALL.iter().filter(|class| class.is_retryable()).map(|class| class.name()).collect();
        assert_eq!(retryable, ["queue_full", "queue_wait_timeout", "script_broken", "pool_spawn_failed", "timeout", "transport"]);
    }

    #[test]
    fn names_are_those_that_are_stored() {
        for class in Class::ALL {
            assert_eq!(serde_json::to_value(class).unwrap(), class.name());
            assert_eq!(serde_json::to_value(class.kind()).unwrap(), class.kind().name());
        }
    }
}
