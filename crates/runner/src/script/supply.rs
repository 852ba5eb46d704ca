//! Where workers come from and go to: starting, handing on, replacing, ending, and the sweep of idle ones.

use std::sync::{Arc, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::attempt::Fate;
use super::config::ScriptCode;
use super::fault::Fault;
use super::log::LogBuffer;
use super::pools::{Pools, Shared};
use super::reservation::Reservation;
use super::roster::Todo;
use super::worker::Worker;

impl Pools {
    /// The worker's attempt is over, or it was not used.
    pub(crate) fn take_back(&self, code: &Arc<ScriptCode>, mut worker: Worker, fate: Fate) {
        self.roster().pool(code, &self.shared.config.pool).counts.served += worker.uncounted();
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
        worker.wear(&pool.config);
        if worker.worn {
            let relieved = pool.idle.iter().any(|other| !other.worn) || (worker.succeeded && pool.spawning == 0);
            if relieved {
                pool.counts.recycled += 1;
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
            let next = pool.waiting.ticket(0);
            let give_way = next.is_some_and(|ticket| roster.is_overtaking(ticket, cap)) && !is_new;
            // a worker whose script failed to load is only good for the attempt that is to report it
            if closed || give_way || (next.is_none() && !worker.loaded) {
                drop(roster);
                return self.retire(code, worker);
            }
            let Some(waiter) = roster.pool(code, &self.shared.config.pool).waiting.pop() else {
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

    pub(super) fn act(&self, todo: Todo) {
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
        let started = match Worker::start(&self.shared.config, self.shared.cgroups.as_ref(), code) {
            Ok(worker) => {
                let marker = worker.tree.marker.clone();
                if self.register(&worker) {
                    worker.ends.tell("k");
                }
                worker.load(&self.shared.config, code).await.map_err(|fault| (fault, Some(marker)))
            }
            Err(fault) => Err((fault, None)),
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
        while let Some(waiter) = pool.waiting.pop() {
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
