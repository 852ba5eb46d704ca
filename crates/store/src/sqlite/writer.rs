//! What writes: whatever is queued becomes one transaction, one fsync, and then the callbacks, on a thread of its own; a lone
//! unit can be written by the thread that brings it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rusqlite::Connection;

use super::apply;
use super::fault::Stop;
use super::home::Home;
use super::known::KnownRuns;
use super::queue::{Job, Queue};
use crate::contract::Done;
use crate::{Receipt, StoreError};

/// Pages new in the write-ahead log from which an idle writer copies them into the database.
const IDLE_CHECKPOINT_PAGES: i64 = 1_000;

/// Pages from which it does so between two batches. With 4 KiB pages the log stays around 16 MiB.
const BUSY_CHECKPOINT_PAGES: i64 = 4_000;

/// Pages from which it insists that the log begins anew, as other processes that write or read all the time may prevent.
const INSIST_PAGES: i64 = 8_000;

/// How long it insists: appends wait meanwhile.
const INSIST_FOR: Duration = Duration::from_millis(500);

type Answer = Result<Receipt, StoreError>;

/// The writer, shared with threads that borrow its turn (which the queue gives to one at a time); gone once it is closed.
pub(super) type Desk = Mutex<Option<Writer>>;

/// The writer's state.
pub(super) struct Writer {
    conn: Connection,
    home: Home,
    known: KnownRuns,
    /// How long the log is, as of our last commit.
    log_pages: Arc<AtomicI64>,
    /// How much of it is in the database already.
    copied_pages: i64,
}

/// However the writer ends, nobody waits for it in vain, and the database is closed.
struct Farewell<'a>(&'a Desk, &'a Queue);

impl Drop for Farewell<'_> {
    fn drop(&mut self) {
        self.1.abandon();
        drop(lock(self.0).take());
    }
}

fn lock(desk: &Desk) -> std::sync::MutexGuard<'_, Option<Writer>> {
    desk.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The writer's thread: runs until the queue is closed and empty.
pub(super) fn run(desk: &Desk, queue: &Queue) {
    queue.adopt_writer();
    let _farewell = Farewell(desk, queue);
    let mut batch = Vec::new();
    while queue.take(&mut batch) {
        let Some(answers) = lock(desk).as_mut().map(|writer| writer.store(std::mem::take(&mut batch))) else { return };
        for (done, answer) in answers {
            // A callback's panic is its own thread of thought's affair; the others' runs must go on.
            let _ = catch_unwind(AssertUnwindSafe(|| done(answer)));
        }
        if let Some(writer) = lock(desk).as_mut() {
            writer.checkpoint(queue);
        }
    }
}

/// Writes one unit on the calling thread, if that can begin at once and nothing else is due; else it is the writer's work.
pub(super) fn write_here(desk: &Desk, queue: &Queue, unit: &crate::Unit) -> Option<Answer> {
    let _turn = queue.borrow_turn()?;
    lock(desk).as_mut()?.store_one(unit)
}

impl Writer {
    pub fn new(mut conn: Connection, home: Home) -> rusqlite::Result<Self> {
        let log_pages = Arc::new(AtomicI64::new(0));
        let seen = Arc::clone(&log_pages);
        conn.wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, pages: i32| {
            seen.store(i64::from(pages), Ordering::Relaxed);
            Ok(())
        }))?;
        Ok(Self { conn, home, known: KnownRuns::default(), log_pages, copied_pages: 0 })
    }

    /// Makes a batch durable and says what became of each unit.
    fn store(&mut self, batch: Vec<Job>) -> Vec<(Done, Answer)> {
        let (units, callbacks): (Vec<_>, Vec<_>) = batch.into_iter().map(|job| (job.unit, job.done)).unzip();
        let answers = self.begin().and_then(|()| self.transact(&units)).unwrap_or_else(|error| {
            self.undo();
            vec![Err(self.home.explain(&error)); units.len()]
        });
        callbacks.into_iter().zip(answers).collect()
    }

    /// Makes one unit durable without waiting for other processes; `None` if it has to wait for one, or a checkpoint is due.
    fn store_one(&mut self, unit: &crate::Unit) -> Option<Answer> {
        if self.new_pages() >= IDLE_CHECKPOINT_PAGES {
            return None;
        }
        let _ = self.home.wait_at_most(&mut self.conn, Duration::ZERO);
        let begun = self.begin();
        let _ = self.home.wait_at_most(&mut self.conn, self.home.busy_timeout);
        if begun.is_err() {
            self.undo();
            return None;
        }
        let answers = self.transact(std::slice::from_ref(unit));
        Some(answers.map_or_else(
            |error| {
                self.undo();
                Err(self.home.explain(&error))
            },
            |mut answers| answers.pop().unwrap_or(Err(StoreError::Closed)),
        ))
    }

    /// Even a failed BEGIN may leave a transaction open, and a full disk may have closed it.
    fn undo(&mut self) {
        if !self.conn.is_autocommit() {
            let _ = self.conn.execute_batch("ROLLBACK");
        }
        self.known.forget_all();
    }

    fn begin(&self) -> rusqlite::Result<()> {
        self.conn.prepare_cached("BEGIN IMMEDIATE")?.execute([]).map(drop)
    }

    /// Applies units in the transaction that was begun, and commits it.
    fn transact(&mut self, units: &[crate::Unit]) -> rusqlite::Result<Vec<Answer>> {
        self.known.refresh(&self.conn)?;
        let mut answers = Vec::with_capacity(units.len());
        for unit in units {
            answers.push(match apply::unit(&self.conn, &mut self.known, unit) {
                Ok(receipt) => Ok(receipt),
                Err(Stop::Refused(error)) => Err(error),
                Err(Stop::Fault(error)) => return Err(error),
            });
        }
        self.conn.prepare_cached("COMMIT")?.execute([])?;
        Ok(answers)
    }

    /// How much of the log is not in the database yet.
    fn new_pages(&mut self) -> i64 {
        let pages = self.log_pages.load(Ordering::Relaxed);
        if pages < self.copied_pages {
            // It began anew.
            self.copied_pages = 0;
        }
        pages - self.copied_pages
    }

    /// Copies the log into the database when it is due, after everybody has been answered.
    ///
    /// A failure (a full disk) loses nothing: the log is what is durable, and the next batches try again.
    fn checkpoint(&mut self, queue: &Queue) {
        let (new, pages) = (self.new_pages(), self.log_pages.load(Ordering::Relaxed));
        if new < BUSY_CHECKPOINT_PAGES && (new < IDLE_CHECKPOINT_PAGES || !queue.is_idle()) {
            return;
        }
        // PASSIVE waits for nobody.
        let mode = if pages >= INSIST_PAGES { "RESTART" } else { "PASSIVE" };
        let _ = self.home.wait_at_most(&mut self.conn, INSIST_FOR);
        let _ = self.conn.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |_| Ok(()));
        let _ = self.home.wait_at_most(&mut self.conn, self.home.busy_timeout);
        // Also when not all of it was copied: trying again after each batch would cost more than a longer log.
        self.copied_pages = pages;
    }
}
