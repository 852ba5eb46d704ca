//! The pools: who gets which worker, when one is started and when one ends.

use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, oneshot};

use super::attempt::Fate;
use super::cgroup;
use super::config::{PoolConfig, RunnerConfig, ScriptCode};
use super::fault::{Fault, FaultKind};
use super::log::LogBuffer;
use super::reservation::Reservation;
use super::roster::{Handed, Key, Roster, Todo, Waiter};
use super::worker::Worker;

/// All workers of one engine; a clone is another handle on the same ones.
#[derive(Clone)]
pub struct Pools {
    shared: Arc<Shared>,
}

struct Shared {
    config: RunnerConfig,
    cgroups: Option<PathBuf>,
    roster: Mutex<Roster>,
    changed: Notify,
}

/// What a pool is doing, for `script show` and the console.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct PoolStatus {
    /// The script.
    pub script: String,
    /// Its version.
    pub version: u64,
    /// Workers that wait for an attempt.
    pub idle: usize,
    /// Workers that run one or are held for one.
    pub busy: usize,
    /// Workers being started.
    pub starting: usize,
    /// Attempts that wait for a worker.
    pub waiting: usize,
    /// Workers at most.
    pub max: usize,
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
    pub async fn reserve(&self, code: Arc<ScriptCode>) -> Result<Reservation, Fault> {
        if let Some(reservation) = self.try_reserve(&code) {
            return Ok(reservation);
        }
        let asked = Instant::now();
        let (ticket, mut hand, queue_wait) = self.join_queue(&code)?;
        let handed = match tokio::time::timeout(queue_wait, &mut hand).await {
            Ok(handed) => handed,
            Err(_) if self.leave_queue(&code, ticket) => {
                let message = format!("no worker of script {} came free within {} ms", code.name, queue_wait.as_millis());
                return Err(Fault::new(FaultKind::QueueWaitTimeout, message));
            }
            Err(_) => hand.await, // a worker is on its way to us
        };
        let Ok(handed) = handed else { return Err(shut_down()) };
        let mut reservation = handed?;
        reservation.queued = asked.elapsed();
        Ok(reservation)
    }

    #[expect(clippy::result_large_err, reason = "a refusal is rare, and the caller passes it on")]
    fn join_queue(&self, code: &Arc<ScriptCode>) -> Result<(u64, oneshot::Receiver<Handed>, Duration), Fault> {
        let cap = self.shared.config.max_workers;
        let (hand, handed) = oneshot::channel();
        let mut todo = Todo::default();
        let mut roster = self.roster();
        if roster.closed {
            return Err(shut_down());
        }
        roster.pool(code, &self.shared.config.pool).waiting.retain(|waiter| !waiter.hand.is_closed());
        let more = usize::from(roster.has_room(code, cap));
        roster.tickets += 1;
        let ticket = roster.tickets;
        let pool = roster.pool(code, &self.shared.config.pool);
        let (bound, queue_wait) = (pool.config.queue, pool.config.queue_wait);
        // attempts for which a worker is being started do not take the queue's places
        if pool.waiting.len() >= bound + pool.spawning + more {
            let message = format!("{} attempts already wait for a worker of script {}, the queue's bound", bound, code.name);
            return Err(Fault::new(FaultKind::QueueFull, message));
        }
        pool.waiting.push_back(Waiter { ticket, hand });
        roster.start_needed(cap, &mut todo);
        drop(roster);
        self.act(todo);
        Ok((ticket, handed, queue_wait))
    }

    /// Leaves the queue after `queue_wait`, unless a worker is here or being started for this attempt.
    fn leave_queue(&self, code: &Arc<ScriptCode>, ticket: u64) -> bool {
        let mut roster = self.roster();
        let Some(pool) = roster.pools.get_mut(&Key(Arc::clone(code))) else { return false };
        match pool.waiting.iter().position(|waiter| waiter.ticket == ticket) {
            Some(place) if place >= pool.spawning => pool.waiting.remove(place).is_some(),
            _ => false,
        }
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
                idle: pool.idle.len(),
                busy: pool.live.saturating_sub(pool.idle.len() + pool.spawning),
                starting: pool.spawning,
                waiting: pool.waiting.len(),
                max: pool.config.max,
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

    fn roster(&self) -> MutexGuard<'_, Roster> {
        self.shared.roster.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The worker's attempt is over, or it was not used.
    pub(crate) fn take_back(&self, code: &Arc<ScriptCode>, worker: Worker, fate: Fate) {
        match fate {
            Fate::Keep if worker.loaded => self.keep(code, worker),
            Fate::Keep => self.retire(code, worker),
            Fate::Dead | Fate::Replace => {
                let mut todo = Todo::default();
                let mut roster = self.roster();
                roster.forget(code, Some(&worker.tree.marker));
                roster.start_needed(self.shared.config.max_workers, &mut todo);
                drop(roster);
                drop(worker);
                self.act(todo);
                if fate == Fate::Replace {
                    self.prewarm(code);
                }
                self.shared.changed.notify_waiters();
            }
        }
    }

    /// A worker that has served its calls stays until its successor is there, so that no call finds none.
    fn keep(&self, code: &Arc<ScriptCode>, mut worker: Worker) {
        let mut todo = Todo::default();
        let mut roster = self.roster();
        let pool = roster.pool(code, &self.shared.config.pool);
        let limit = pool.config.recycle_after;
        if worker.calls >= limit {
            let relieved = pool.idle.iter().any(|other| other.calls < limit) || (worker.succeeded && pool.spawning == 0);
            if relieved {
                drop(roster);
                return self.retire(code, worker);
            }
            if !worker.succeeded {
                worker.succeeded = true;
                roster.claim_successor(code, &mut todo);
            }
        }
        drop(roster);
        self.act(todo);
        self.hand_on(code, worker, false);
    }

    /// Gives the worker to who waits longest, or lets it rest.
    fn hand_on(&self, code: &Arc<ScriptCode>, mut worker: Worker, is_new: bool) {
        let mut was_spawning = is_new;
        let cap = self.shared.config.max_workers;
        loop {
            let mut todo = Todo::default();
            let mut roster = self.roster();
            let closed = roster.closed;
            let pool = roster.pool(code, &self.shared.config.pool);
            if std::mem::take(&mut was_spawning) {
                pool.spawning = pool.spawning.saturating_sub(1);
            }
            let next = pool.waiting.front().map(|waiter| waiter.ticket);
            let give_way = next.is_some_and(|ticket| roster.is_overtaking(ticket, cap)) && !is_new;
            // a worker whose script failed to load is only good for the attempt that is to report it
            if closed || give_way || (next.is_none() && !worker.loaded) {
                drop(roster);
                return self.retire(code, worker);
            }
            let Some(waiter) = roster.pool(code, &self.shared.config.pool).waiting.pop_front() else {
                worker.idle_since = Instant::now();
                let pool = roster.pool(code, &self.shared.config.pool);
                let relieved = pool.idle.iter().position(|other| is_new && other.succeeded).map(|at| pool.idle.remove(at));
                pool.idle.push(worker);
                if let Some(old) = relieved {
                    roster.forget(code, Some(&old.tree.marker));
                    roster.dying += 1;
                    todo.kill.push(old);
                }
                if roster.total >= cap {
                    roster.start_needed(cap, &mut todo);
                }
                drop(roster);
                return self.act(todo);
            };
            drop(roster);
            match waiter.hand.send(Ok(Reservation::new(self.clone(), Arc::clone(code), worker))) {
                Ok(()) => return,
                Err(Ok(unwanted)) => match unwanted.into_worker() {
                    Some(back) => worker = back,
                    None => return,
                },
                Err(Err(_)) => return,
            }
        }
    }

    /// Ends a worker in the background.
    pub(crate) fn retire(&self, code: &Arc<ScriptCode>, worker: Worker) {
        let mut todo = Todo::default();
        let mut roster = self.roster();
        roster.forget(code, Some(&worker.tree.marker));
        roster.dying += 1;
        todo.kill.push(worker);
        roster.start_needed(self.shared.config.max_workers, &mut todo);
        drop(roster);
        self.act(todo);
    }

    fn act(&self, todo: Todo) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            // the guardian kills the tree when its control socket closes with the worker
            let guardians: Vec<_> = todo.kill.into_iter().map(|worker| worker.into_guardian()).collect();
            let mut roster = self.roster();
            roster.dying = roster.dying.saturating_sub(guardians.len());
            roster.graveyard.extend(guardians);
            return;
        };
        for mut worker in todo.kill {
            let pools = self.clone();
            runtime.spawn(async move {
                let _ = worker.kill(&mut LogBuffer::new(0)).await;
                drop(worker);
                let mut roster = pools.roster();
                roster.dying = roster.dying.saturating_sub(1);
                drop(roster);
                pools.shared.changed.notify_waiters();
            });
        }
        for code in todo.start {
            self.keep_house(&runtime);
            let pools = self.clone();
            runtime.spawn(async move { pools.start(&code).await });
        }
    }

    async fn start(&self, code: &Arc<ScriptCode>) {
        let started = match Worker::start(&self.shared.config, self.shared.cgroups.as_ref()) {
            Ok(worker) => {
                let marker = worker.tree.marker.clone();
                if self.register(&worker) {
                    worker.ends.tell("k");
                }
                worker.load(&self.shared.config, code).await.map_err(|fault| (fault, Some(marker)))
            }
            Err(error) => {
                let message = format!("no worker process could be started for script {}: {error}", code.name);
                Err((Fault::no_worker(message), None))
            }
        };
        match started {
            Ok(worker) => self.hand_on(code, worker, true),
            Err((fault, marker)) => self.give_up(code, fault, marker.as_deref()),
        }
        self.shared.changed.notify_waiters();
    }

    /// Notes how to kill the worker in a shutdown; tells whether there has been one.
    fn register(&self, worker: &Worker) -> bool {
        let mut roster = self.roster();
        roster.switches.insert(worker.tree.marker.clone(), Arc::clone(&worker.switch));
        roster.closed
    }

    /// A start failed: so does the attempt that waits longest; the others get starts of their own.
    fn give_up(&self, code: &Arc<ScriptCode>, fault: Fault, marker: Option<&str>) {
        let mut todo = Todo::default();
        let mut roster = self.roster();
        roster.forget(code, marker);
        let pool = roster.pool(code, &self.shared.config.pool);
        pool.spawning = pool.spawning.saturating_sub(1);
        let mut told = None;
        while let Some(waiter) = pool.waiting.pop_front() {
            if !waiter.hand.is_closed() {
                told = Some(waiter);
                break;
            }
        }
        roster.start_needed(self.shared.config.max_workers, &mut todo);
        drop(roster);
        if let Some(waiter) = told {
            let _ = waiter.hand.send(Err(fault));
        }
        self.act(todo);
    }

    /// One task per engine looks after idle workers for as long as there are workers.
    fn keep_house(&self, runtime: &tokio::runtime::Handle) {
        if !std::mem::replace(&mut self.roster().keeper, true) {
            runtime.spawn(keep_house(Arc::downgrade(&self.shared)));
        }
    }
}

async fn keep_house(shared: Weak<Shared>) {
    loop {
        let Some(pause) = shared.upgrade().map(|shared| sweep_every(&shared)) else { return };
        tokio::time::sleep(pause).await;
        let Some(shared) = shared.upgrade() else { return };
        let pools = Pools { shared };
        let cap = pools.shared.config.max_workers;
        let mut todo = Todo::default();
        let mut roster = pools.roster();
        roster.sweep(Instant::now(), &mut todo);
        roster.start_needed(cap, &mut todo);
        roster.fill(cap, &mut todo);
        let done = roster.total == 0 && todo.start.is_empty();
        roster.keeper = !done;
        drop(roster);
        pools.act(todo);
        if done {
            return;
        }
    }
}

fn sweep_every(shared: &Shared) -> Duration {
    let roster = shared.roster.lock().unwrap_or_else(PoisonError::into_inner);
    let soonest = roster.pools.values().map(|pool| pool.config.idle_after).min().unwrap_or(shared.config.pool.idle_after);
    (soonest / 2).clamp(Duration::from_millis(20), Duration::from_secs(10))
}

fn shut_down() -> Fault {
    Fault::no_worker("the pools are shut down")
}
