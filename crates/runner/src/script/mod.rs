//! Workers of every language: one pool per script version, one attempt at a time per worker.
//!
//! # Processes
//!
//! ```text
//! engine ──┬─ protocol socket ───────────────────┬─ worker (python3, node, or this binary for shell and http)
//!          ├─ control socket ── guardian ─ cancel ┤     └─ whatever the script starts
//!          └─ log pipe ──────────────────────────┘
//! ```
//!
//! Each worker has a guardian ([`guardian_main`], the same binary re-executed), which is a subreaper and the
//! only one who can *prove* the tree dead: when it has no children left, nothing of the tree is left, daemons
//! included. The tree is killed through its own cgroup where the machine allows one, and by walking the
//! guardian's descendants in any case. If the guardian itself is killed, the engine (a subreaper too) kills the
//! tree from outside, by cgroup and by the marker in the environment; [`kill_leftover`] does the same for the
//! next engine. A worker whose guardian is gone also ends itself when it sees its cancel pipe closed.
//!
//! # Decisions
//!
//! - *Queue wait* runs from the submission to the reservation, spawn included, and is what
//!   [`Reservation::queued`] says. But `queue_wait` bounds only the wait for workers in use: an attempt for which
//!   a worker is being started waits for it (that is bounded by `spawn_limit`, and its failure is
//!   `pool_spawn_failed`), so that a short `queue_wait` does not fail every cold start.
//! - *Processes left behind*: an attempt is over only when its tree is; if `main` has returned and other processes
//!   live in the tree, the whole tree is killed, the worker with it (its state may refer to them), the result
//!   stands, and a new worker is started in the background. Threads left behind are kept, being part of the worker.
//! - *A script whose top level raises* is reported on each attempt with what it raised; such a worker is never
//!   kept, so the next attempt tries to load the script anew.
//! - *A result in the grace* is told as [`Report::late`], and the worker is kept.
//! - *Fresh processes*: a Python worker with `isolation = "fresh"` is a fork server, and each attempt is a fork of it.
//!   Node cannot fork: there each attempt has a worker of its own. A shell worker starts a shell for each attempt.
//! - *Limits* are set on the worker by its guardian before it runs; what the kernel does not hold for a tree (memory and
//!   processes, without a cgroup that can) the guardian watches.
//! - *Nesting*: a value deeper than 100 levels is `invalid_output`.
//!
//! Everything here runs in a tokio runtime with I/O and time; [`Pools::new`] and [`Pools::prewarm`] too.

mod attempt;
mod call;
mod cgroup;
mod config;
mod ends;
pub mod environments;
mod exchange;
mod fault;
mod guardian;
pub mod http;
mod inspect;
mod interpreter;
mod javascript;
mod launch;
mod limits;
mod log;
mod mask;
mod native;
mod node;
mod pools;
mod process;
mod python;
mod queue;
mod reservation;
mod roster;
mod secrets;
mod settings;
mod strict;
mod supply;
mod tree;
mod worker;

/// Whether trees get cgroups of their own on this machine.
pub fn uses_cgroups() -> bool {
    cgroup::parent().is_some()
}

/// Which limits of a tree its cgroup can hold on this machine.
pub fn cgroup_holds() -> Vec<&'static str> {
    cgroup::parent().map(|folder| cgroup::holds(&folder)).unwrap_or_default()
}

pub use call::{Answer, Call, Context, Log, Notice, Outcome, Report, Stop};
pub use config::{Language, PoolConfig, RunnerConfig, ScriptCode};
pub use fault::{Fault, FaultKind};
pub use guardian::{ARGUMENT as GUARDIAN_ARGUMENT, guardian_main};
pub use inspect::{Inspected, Parameter, ParameterKind, ScriptDiagnostic, ScriptInfo, inspect, inspect_javascript, inspect_shell};
pub use interpreter::Interpreter;
pub use limits::Limits;
pub use mask::{MARK, Mask};
pub use node::{Node, NodeFinder};
pub use pools::{Place, PoolStatus, Pools};
pub use reservation::Reservation;
pub use secrets::Secrets;
pub use settings::{Isolation, Metadata, MetadataError, PoolSettings, Settings, secret_variable};
pub use strict::{InForce, Profile, probe as probe_strict};
pub use tree::{TreeId, kill_leftover};
