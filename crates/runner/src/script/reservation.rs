//! A worker held for one attempt.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use super::attempt::{self, Fate};
use super::call::{Call, Notice, Outcome, Report, Stop};
use super::config::ScriptCode;
use super::fault::{Fault, FaultKind};
use super::log::LogBuffer;
use super::pools::Pools;
use super::tree::TreeId;
use super::worker::Worker;

/// A worker held for one attempt; dropped unused it goes back to its pool.
///
/// Dropping the future of [`Reservation::run`] kills the worker's tree in the background, unproven: give a
/// [`Stop`] instead.
pub struct Reservation {
    pools: Pools,
    code: Arc<ScriptCode>,
    worker: Option<Worker>,
    tree: TreeId,
    pub(crate) queued: Duration,
    running: bool,
}

impl Reservation {
    pub(crate) fn new(pools: Pools, code: Arc<ScriptCode>, worker: Worker) -> Reservation {
        let tree = worker.tree.clone();
        Reservation { pools, code, worker: Some(worker), tree, queued: Duration::ZERO, running: false }
    }

    /// The identity of the worker's process tree, to be journaled before the attempt is run.
    pub fn tree(&self) -> TreeId {
        self.tree.clone()
    }

    /// The script that it runs.
    pub fn code(&self) -> &ScriptCode {
        &self.code
    }

    /// How long the attempt waited for this worker, its start included.
    pub fn queued(&self) -> Duration {
        self.queued
    }

    /// Makes the attempt. A `stop` whose sender is dropped never stops it.
    ///
    /// The call is sent at once, so that the worker is on its way while the caller finds the time to listen.
    pub fn run(mut self, call: Call, stop: oneshot::Receiver<Stop>, notices: mpsc::UnboundedSender<Notice>) -> impl Future<Output = Report> {
        self.running = true;
        let language = self.code.language;
        let begun = self.worker.as_mut().map(|worker| attempt::begin(worker, self.pools.config(), language, &call));
        async move { self.listen(&call, begun, stop, notices).await }
    }

    async fn listen(
        &mut self,
        call: &Call,
        begun: Option<Result<LogBuffer, Report>>,
        stop: oneshot::Receiver<Stop>,
        notices: mpsc::UnboundedSender<Notice>,
    ) -> Report {
        let (mut report, fate) = match (self.worker.as_mut(), begun) {
            (Some(worker), Some(Ok(log))) => attempt::run(worker, self.pools.config(), self.code.is_used_once(), call, log, stop, notices).await,
            (_, Some(Err(report))) => (report, Fate::Keep),
            _ => return nothing_to_run_on(),
        };
        self.running = false;
        if let Some(worker) = self.worker.take() {
            let shut = fate != Fate::Keep && self.pools.is_closed();
            self.pools.take_back(&self.code, worker, fate);
            if shut && matches!(&report.outcome, Outcome::Failed(fault) if fault.kind == FaultKind::ScriptBroken) {
                report.outcome = Outcome::Stopped;
            }
        }
        report
    }

    /// Takes the worker out of a reservation that nobody came for.
    pub(crate) fn into_worker(mut self) -> Option<Worker> {
        self.worker.take()
    }
}

/// A reservation holds its worker until it is run or dropped, so this is never reached.
fn nothing_to_run_on() -> Report {
    let outcome = Outcome::Failed(Fault::broken("the reservation holds no worker"));
    Report { outcome, log: super::call::Log::default(), late: None, ran: Duration::ZERO }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if let Some(worker) = self.worker.take() {
            if self.running {
                self.pools.retire(&self.code, worker);
            } else {
                self.pools.take_back(&self.code, worker, Fate::Keep);
            }
        }
    }
}

impl std::fmt::Debug for Reservation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reservation").field("script", &self.code.name).field("tree", &self.tree).finish_non_exhaustive()
    }
}
