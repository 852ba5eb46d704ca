//! Who is where: the pools' idle workers, those being started, and those who wait, as plain data.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::os::unix::net::UnixStream;
use std::process::Child;
use std::sync::Arc;
use std::time::Instant;

use super::config::{PoolConfig, ScriptCode};
use super::fault::Fault;
use super::queue::Queue;
use super::reservation::Reservation;
use super::worker::Worker;

/// A script version as the name of its pool.
#[derive(Debug, Clone)]
pub(crate) struct Key(pub(crate) Arc<ScriptCode>);

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.0.name, self.0.version, &self.0.hash).hash(state);
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || (self.0.version == other.0.version && self.0.hash == other.0.hash && self.0.name == other.0.name)
    }
}

impl Eq for Key {}

/// What an attempt that waits gets in the end.
pub(crate) type Handed = Result<Reservation, Fault>;

/// The workers of one script version.
pub(crate) struct Pool {
    pub(crate) config: PoolConfig,
    pub(crate) configured: bool,
    pub(crate) idle: Vec<Worker>,
    pub(crate) waiting: Queue,
    /// Workers idle, busy or being started.
    pub(crate) live: usize,
    pub(crate) spawning: usize,
    pub(crate) counts: Counts,
}

/// What a pool has done since the engine started.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counts {
    /// Attempts that were run.
    pub(crate) served: u64,
    /// Workers that were started.
    pub(crate) started: u64,
    /// Workers that were replaced because they had served their calls or had grown.
    pub(crate) recycled: u64,
}

/// What is to be done once the lock is open again.
#[derive(Default)]
pub(crate) struct Todo {
    pub(crate) start: Vec<Arc<ScriptCode>>,
    pub(crate) kill: Vec<Worker>,
}

/// All pools.
#[derive(Default)]
pub(crate) struct Roster {
    pub(crate) pools: HashMap<Key, Pool>,
    /// Workers over all pools, dying ones not counted.
    pub(crate) total: usize,
    pub(crate) dying: usize,
    pub(crate) closed: bool,
    pub(crate) keeper: bool,
    pub(crate) tickets: u64,
    /// One per worker that is not dying, by its tree's marker.
    pub(crate) switches: HashMap<String, Arc<UnixStream>>,
    /// Guardians of workers dropped outside a runtime, yet to be waited for.
    pub(crate) graveyard: Vec<Child>,
}

impl Roster {
    pub(crate) fn pool(&mut self, code: &Arc<ScriptCode>, config: &PoolConfig) -> &mut Pool {
        self.pools.entry(Key(Arc::clone(code))).or_insert_with(|| Pool {
            config: code.settings.pool.over(config),
            configured: false,
            idle: Vec::new(),
            waiting: Queue::default(),
            counts: Counts::default(),
            live: 0,
            spawning: 0,
        })
    }

    /// A worker is no longer one of its pool's.
    pub(crate) fn forget(&mut self, code: &Arc<ScriptCode>, marker: Option<&str>) {
        if let Some(pool) = self.pools.get_mut(&Key(Arc::clone(code))) {
            pool.live = pool.live.saturating_sub(1);
        }
        self.total = self.total.saturating_sub(1);
        if let Some(marker) = marker {
            self.switches.remove(marker);
        }
    }

    /// Whether a worker could be started for this pool now.
    pub(crate) fn has_room(&self, code: &Arc<ScriptCode>, cap: usize) -> bool {
        let key = Key(Arc::clone(code));
        self.pools.get(&key).is_some_and(|pool| pool.live < pool.config.max)
            && (self.total < cap || self.pools.iter().any(|(other, pool)| *other != key && !pool.idle.is_empty()))
    }

    /// Claims the place of a worker to be started; at the cap the longest idle worker of another pool goes.
    pub(crate) fn claim(&mut self, code: &Arc<ScriptCode>, cap: usize, todo: &mut Todo) -> bool {
        if self.closed || !self.has_room(code, cap) {
            return false;
        }
        let key = Key(Arc::clone(code));
        if self.total >= cap && !self.evict(&key, todo) {
            return false;
        }
        if let Some(pool) = self.pools.get_mut(&key) {
            pool.live += 1;
            pool.spawning += 1;
            pool.counts.started += 1;
            self.total += 1;
            todo.start.push(Arc::clone(code));
        }
        true
    }

    /// Claims a place for the successor of a worker that has served its calls; the bounds are passed by one meanwhile.
    pub(crate) fn claim_successor(&mut self, code: &Arc<ScriptCode>, todo: &mut Todo) {
        let Some(pool) = self.pools.get_mut(&Key(Arc::clone(code))) else { return };
        if !self.closed && pool.spawning == 0 {
            pool.live += 1;
            pool.spawning += 1;
            pool.counts.started += 1;
            self.total += 1;
            todo.start.push(Arc::clone(code));
        }
    }

    fn evict(&mut self, not: &Key, todo: &mut Todo) -> bool {
        let oldest = |pool: &Pool| pool.idle.first().map(|worker| worker.idle_since);
        let victim = self
            .pools
            .iter()
            .filter(|(key, pool)| *key != not && !pool.idle.is_empty())
            .min_by_key(|(_, pool)| oldest(pool))
            .map(|(key, _)| Arc::clone(&key.0));
        let Some(victim) = victim else { return false };
        let Some(pool) = self.pools.get_mut(&Key(Arc::clone(&victim))) else { return false };
        let worker = pool.idle.remove(0);
        self.forget(&victim, Some(&worker.tree.marker));
        self.dying += 1;
        todo.kill.push(worker);
        true
    }

    /// Starts what waiting attempts need, the longest waiting first.
    pub(crate) fn start_needed(&mut self, cap: usize, todo: &mut Todo) {
        let mut needy: Vec<(u64, Arc<ScriptCode>)> = self
            .pools
            .iter()
            .filter(|(_, pool)| pool.waiting.len() > pool.spawning)
            .filter_map(|(key, pool)| Some((pool.waiting.ticket(pool.spawning)?, Arc::clone(&key.0))))
            .collect();
        needy.sort_by_key(|(ticket, _)| *ticket);
        for (_, code) in needy {
            let key = Key(Arc::clone(&code));
            while self.pools.get(&key).is_some_and(|pool| pool.waiting.len() > pool.spawning) && self.claim(&code, cap, todo) {}
        }
    }

    /// At the cap, a pool without any worker whose attempt waits longer than `ticket`: it is its turn.
    pub(crate) fn is_overtaking(&self, ticket: u64, cap: usize) -> bool {
        self.total >= cap && self.pools.values().any(|pool| pool.live == 0 && pool.waiting.ticket(0).is_some_and(|first| first < ticket))
    }

    /// Takes out the workers that were idle for too long or died, and forgets pools nobody uses.
    pub(crate) fn sweep(&mut self, now: Instant, todo: &mut Todo) {
        let mut gone: Vec<(Arc<ScriptCode>, Worker)> = Vec::new();
        for (key, pool) in &mut self.pools {
            let mut spare = pool.live.saturating_sub(pool.config.min);
            let idle_after = pool.config.idle_after;
            for worker in std::mem::take(&mut pool.idle) {
                let expired = spare > 0 && now.saturating_duration_since(worker.idle_since) >= idle_after;
                if expired || !worker.is_fit() {
                    spare = spare.saturating_sub(1);
                    gone.push((Arc::clone(&key.0), worker));
                } else {
                    pool.idle.push(worker);
                }
            }
        }
        for (code, worker) in gone {
            self.forget(&code, Some(&worker.tree.marker));
            self.dying += 1;
            todo.kill.push(worker);
        }
        self.pools.retain(|_, pool| pool.live > 0 || pool.configured || !pool.waiting.is_empty());
        self.graveyard.retain_mut(|guardian| matches!(guardian.try_wait(), Ok(None)));
    }

    /// Starts workers up to each used pool's `min`.
    pub(crate) fn fill(&mut self, cap: usize, todo: &mut Todo) {
        let short: Vec<(Arc<ScriptCode>, usize)> = self
            .pools
            .iter()
            .filter(|(_, pool)| pool.live > 0 || pool.configured)
            .map(|(key, pool)| (Arc::clone(&key.0), pool.config.min.saturating_sub(pool.live)))
            .collect();
        for (code, count) in short {
            for _ in 0..count {
                if self.total >= cap || !self.claim(&code, cap, todo) {
                    break;
                }
            }
        }
    }
}
