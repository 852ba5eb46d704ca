//! The bounded queue in front of the writer thread: producers wait when it is full, the writer takes what is there.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use crate::contract::Done;
use crate::{StoreError, Unit};

/// How much may wait, and how much the writer takes at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub queued_units: usize,
    pub queued_bytes: usize,
    pub batch_units: usize,
    pub batch_bytes: usize,
}

/// A unit with whom to tell.
pub(super) struct Job {
    pub unit: Unit,
    pub done: Done,
    weight: usize,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    bytes: usize,
    closed: bool,
    writer: Option<ThreadId>,
    /// Whether the writer sleeps, so that producers make no system call when it does not.
    asleep: bool,
    /// Whether somebody writes: the writer with what it took last, or a thread that has borrowed its turn.
    writing: bool,
    blocked: usize,
}

/// The right to write in the writer's place; the writer has it back when this is dropped.
pub(super) struct Turn<'a>(&'a Queue);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.writing = false;
        let wake = (state.closed || !state.jobs.is_empty()) && std::mem::take(&mut state.asleep);
        drop(state);
        if wake {
            self.0.filled.notify_one();
        }
    }
}

/// The queue.
pub(super) struct Queue {
    bounds: Bounds,
    state: Mutex<State>,
    filled: Condvar,
    drained: Condvar,
}

impl Queue {
    pub fn new(bounds: Bounds) -> Self {
        Self { bounds, state: Mutex::default(), filled: Condvar::new(), drained: Condvar::new() }
    }

    /// No code that can panic runs under this lock, so a poisoned one is as good as any.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a unit; once the queue is closed, answers it at once.
    pub fn push(&self, unit: Unit, done: Done) {
        let weight = unit.weight();
        let mut state = self.lock();
        // The writer itself never waits for room: only it can make some.
        while !state.closed && self.is_full(&state) && state.writer != Some(thread::current().id()) {
            state.blocked += 1;
            state = self.drained.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.blocked -= 1;
        }
        if state.closed {
            drop(state);
            done(Err(StoreError::Closed));
            return;
        }
        state.bytes += weight;
        state.jobs.push_back(Job { unit, done, weight });
        // Whoever has borrowed the writer's turn wakes it afterwards.
        let wake = !state.writing && std::mem::take(&mut state.asleep);
        drop(state);
        if wake {
            self.filled.notify_one();
        }
    }

    /// The writer's turn, if nothing waits and nobody writes: the units of one thread stay in order.
    pub fn borrow_turn(&self) -> Option<Turn<'_>> {
        let mut state = self.lock();
        let free = state.jobs.is_empty() && !state.writing && !state.closed;
        state.writing |= free;
        free.then(|| Turn(self))
    }

    fn is_full(&self, state: &State) -> bool {
        state.jobs.len() >= self.bounds.queued_units || state.bytes >= self.bounds.queued_bytes
    }

    /// Moves the next batch into `batch`, waiting for one; false once closed and empty.
    pub fn take(&self, batch: &mut Vec<Job>) -> bool {
        let mut state = self.lock();
        state.writing = false;
        while state.jobs.is_empty() || state.writing {
            if state.closed && !state.writing {
                return false;
            }
            state.asleep = true;
            state = self.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        (state.asleep, state.writing) = (false, true);
        let mut bytes = 0;
        while batch.len() < self.bounds.batch_units {
            let fits = state.jobs.front().is_some_and(|job| batch.is_empty() || bytes + job.weight <= self.bounds.batch_bytes);
            let Some(job) = fits.then(|| state.jobs.pop_front()).flatten() else { break };
            bytes += job.weight;
            batch.push(job);
        }
        state.bytes -= bytes;
        if state.blocked > 0 {
            self.drained.notify_all();
        }
        true
    }

    /// Whether nothing waits.
    pub fn is_idle(&self) -> bool {
        self.lock().jobs.is_empty()
    }

    /// The calling thread is the writer from now on.
    pub fn adopt_writer(&self) {
        self.lock().writer = Some(thread::current().id());
    }

    /// Whether the calling thread is the writer.
    pub fn on_writer(&self) -> bool {
        self.lock().writer == Some(thread::current().id())
    }

    /// Refuses everything that is not queued yet.
    pub fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        self.filled.notify_all();
        self.drained.notify_all();
    }

    /// Closes, and answers what is still queued: nobody will store it any more.
    pub fn abandon(&self) {
        self.close();
        let left = std::mem::take(&mut self.lock().jobs);
        for job in left {
            (job.done)(Err(StoreError::Closed));
        }
    }
}
