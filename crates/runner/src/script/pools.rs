//! The pools: who gets which worker, when one is started and when one ends.

use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, oneshot};

use super::cgroup;
use super::config::{PoolConfig, RunnerConfig, ScriptCode};
use super::fault::{Fault, FaultKind};
use super::queue::Waiter;
use super::reservation::Reservation;
use super::roster::{Handed, Key, Roster, Todo};
use super::strict::Profile;

/// All workers of one engine; a clone is another handle on the same ones.
#[derive(Clone)]
pub struct Pools {
    pub(super) shared: Arc<Shared>,
}

pub(super) struct Shared {
    pub(super) config: RunnerConfig,
    pub(super) cgroups: Option<PathBuf>,
    pub(super) roster: Mutex<Roster>,
    pub(super) changed: Notify,
}

/// What a pool is doing, for `script show` and the console.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct PoolStatus {
    /// The script.
    pub script: String,
    /// Its version.
    pub version: u64,
    /// How far its workers are kept from the machine.
    pub profile: Profile,
    /// Workers that wait for an attempt.
    pub idle: usize,
    /// Workers that run one or are held for one.
    pub busy: usize,
    /// Workers being started.
    pub starting: usize,
    /// Attempts that wait for a worker.
    pub waiting: usize,
    /// Workers kept alive once the pool is used.
    pub min: usize,
    /// Workers at most.
    pub max: usize,
    /// Attempts that may wait.
    pub queue: usize,
    /// Attempts that were run, since the engine started.
    pub served: u64,
    /// Workers that were started.
    pub started: u64,
    /// Workers that were replaced because they had served their calls or had grown.
    pub recycled: u64,
}

/// A place in a pool's queue; whoever drops it has left.
pub struct Place {
    pools: Pools,
    code: Arc<ScriptCode>,
    ticket: u64,
    hand: oneshot::Receiver<Handed>,
    asked: Instant,
    queue_wait: Duration,
}

impl Place {
    /// Waits for the worker.
    ///
    /// # Errors
    /// `queue_wait_timeout`, `pool_spawn_failed` or `environment_not_ready`.
    pub async fn wait(mut self) -> Result<Reservation, Fault> {
        let handed = match tokio::time::timeout(self.queue_wait, &mut self.hand).await {
            Ok(handed) => handed,
            Err(_) if self.pools.leave_queue(&self.code, self.ticket) => {
                let message = format!("no worker of script {} came free within {} ms", self.code.name, self.queue_wait.as_millis());
                return Err(Fault::new(FaultKind::QueueWaitTimeout, message));
            }
            Err(_) => self.hand.await, // a worker is on its way to us
        };
        let Ok(handed) = handed else { return Err(shut_down()) };
        let mut reservation = handed?;
        reservation.queued = self.asked.elapsed();
        Ok(reservation)
    }
}

impl Pools {
    /// Pools without workers. Makes the calling process a subreaper (see the module's text).
    pub fn new(mut config: RunnerConfig) -> Pools {
        // workers and guardians live in other folders than the engine
        config.scratch = std::path::absolute(&config.scratch).unwrap_or(config.scratch);
        let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
        let cgroups = config.use_cgroups.then(cgroup::parent).flatten();
        cgroups.as_deref().map(cgroup::sweep);
        let shared = Shared { config, cgroups, roster: Mutex::default(), changed: Notify::new() };
        Pools { shared: Arc::new(shared) }
    }

    /// Whether trees get cgroups of their own on this machine; `doctor` says so.
    pub fn uses_cgroups(&self) -> bool {
        self.shared.cgroups.is_some()
    }

    /// Gives one script version settings of its own.
    pub fn configure(&self, code: &Arc<ScriptCode>, config: PoolConfig) {
        let mut roster = self.roster();
        let pool = roster.pool(code, &self.shared.config.pool);
        (pool.config, pool.configured) = (config, true);
    }

    /// An idle worker, if there is one and nobody waits for it; never blocks.
    pub fn try_reserve(&self, code: &Arc<ScriptCode>) -> Option<Reservation> {
        loop {
            let worker = {
                let mut roster = self.roster();
                let pool = roster.pools.get_mut(&Key(Arc::clone(code)))?;
                if !pool.waiting.is_empty() {
                    return None;
                }
                pool.idle.pop()?
            };
            if worker.is_fit() {
                return Some(Reservation::new(self.clone(), Arc::clone(code), worker));
            }
            self.retire(code, worker);
        }
    }

    /// A worker, waited for in the order of asking; one is started if the pool may have more.
    ///
    /// # Errors
    /// `queue_full`, `queue_wait_timeout`, `pool_spawn_failed` or `environment_not_ready`.
    pub async fn reserve(&self, code: Arc<ScriptCode>) -> Result<Reservation, Fault> {
        self.reserve_for(code, "").await
    }

    /// The same for a run: where several runs wait, they take turns, so that one with many attempts does not hold up the others.
    ///
    /// # Errors
    /// As [`Pools::reserve`].
    pub async fn reserve_for(&self, code: Arc<ScriptCode>, run: &str) -> Result<Reservation, Fault> {
        match self.try_reserve(&code) {
            Some(reservation) => Ok(reservation),
            None => self.queue_up(&code, run)?.wait().await,
        }
    }

    /// A place in the queue of a pool without an idle worker, for an attempt of a run; never blocks.
    ///
    /// # Errors
    /// `queue_full`, or `pool_spawn_failed` once the pools are shut down.
    pub fn queue_up(&self, code: &Arc<ScriptCode>, run: &str) -> Result<Place, Fault> {
        let asked = Instant::now();
        let (ticket, hand, queue_wait) = self.join_queue(code, run)?;
        Ok(Place { pools: self.clone(), code: Arc::clone(code), ticket, hand, asked, queue_wait })
    }

    fn join_queue(&self, code: &Arc<ScriptCode>, run: &str) -> Result<(u64, oneshot::Receiver<Handed>, Duration), Fault> {
        let cap = self.shared.config.max_workers;
        let (hand, handed) = oneshot::channel();
        let mut todo = Todo::default();
        let mut roster = self.roster();
        if roster.closed {
            return Err(shut_down());
        }
        // there is one from now on, which may have room
        roster.pool(code, &self.shared.config.pool);
        let more = usize::from(roster.has_room(code, cap));
        roster.tickets += 1;
        let ticket = roster.tickets;
        let pool = roster.pool(code, &self.shared.config.pool);
        let (bound, queue_wait) = (pool.config.queue, pool.config.queue_wait);
        // attempts for which a worker is being started do not take the queue's places
        let places = bound + pool.spawning + more;
        if pool.waiting.len() >= places {
            pool.waiting.drop_gone();
        }
        if pool.waiting.len() >= places {
            let message = format!("{} attempts already wait for a worker of script {}, the queue's bound", bound, code.name);
            return Err(Fault::new(FaultKind::QueueFull, message));
        }
        pool.waiting.push(&Arc::from(run), Waiter { ticket, hand });
        roster.start_needed(cap, &mut todo);
        drop(roster);
        self.act(todo);
        Ok((ticket, handed, queue_wait))
    }

    /// Leaves the queue after `queue_wait`, unless a worker is here or being started for this attempt.
    fn leave_queue(&self, code: &Arc<ScriptCode>, ticket: u64) -> bool {
        let mut roster = self.roster();
        let Some(pool) = roster.pools.get_mut(&Key(Arc::clone(code))) else { return false };
        pool.waiting.leave(ticket, pool.spawning)
    }

    /// Has a worker started in the background if the pool has none.
    pub fn prewarm(&self, code: &Arc<ScriptCode>) {
        let mut todo = Todo::default();
        let mut roster = self.roster();
        if roster.pool(code, &self.shared.config.pool).live == 0 && roster.total < self.shared.config.max_workers {
            roster.claim(code, self.shared.config.max_workers, &mut todo);
        }
        drop(roster);
        self.act(todo);
    }

    /// What each pool is doing.
    pub fn status(&self) -> Vec<PoolStatus> {
        let roster = self.roster();
        let mut all: Vec<PoolStatus> = roster
            .pools
            .iter()
            .map(|(key, pool)| PoolStatus {
                script: key.0.name.clone(),
                version: key.0.version,
                profile: self.shared.config.profile,
                idle: pool.idle.len(),
                busy: pool.live.saturating_sub(pool.idle.len() + pool.spawning),
                starting: pool.spawning,
                waiting: pool.waiting.len(),
                min: pool.config.min,
                max: pool.config.max,
                queue: pool.config.queue,
                served: pool.counts.served,
                started: pool.counts.started,
                recycled: pool.counts.recycled,
            })
            .collect();
        all.sort_by(|a, b| (&a.script, a.version).cmp(&(&b.script, b.version)));
        all
    }

    /// Kills every tree, those of running attempts too (they report `Stopped`), and returns when all are dead.
    pub async fn shutdown(&self) {
        let mut todo = Todo::default();
        {
            let mut roster = self.roster();
            roster.closed = true;
            let idle: Vec<_> = roster.pools.iter_mut().flat_map(|(key, pool)| pool.idle.drain(..).map(|worker| (Arc::clone(&key.0), worker))).collect();
            for (code, worker) in idle {
                roster.forget(&code, Some(&worker.tree.marker));
                roster.dying += 1;
                todo.kill.push(worker);
            }
            roster.pools.values_mut().for_each(|pool| pool.waiting.clear());
            for switch in roster.switches.values() {
                let _ = (&**switch).write_all(b"k\n");
            }
        }
        self.act(todo);
        loop {
            let changed = self.shared.changed.notified();
            let left = {
                let roster = self.roster();
                roster.total + roster.dying
            };
            if left == 0 {
                return;
            }
            changed.await;
        }
    }

    pub(crate) fn config(&self) -> &RunnerConfig {
        &self.shared.config
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.roster().closed
    }

    pub(super) fn roster(&self) -> MutexGuard<'_, Roster> {
        self.shared.roster.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn shut_down() -> Fault {
    Fault::no_worker("the pools are shut down")
}
