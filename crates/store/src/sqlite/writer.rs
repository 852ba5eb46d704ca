//! The one thread that writes: whatever is queued becomes one transaction, one fsync, and then the callbacks.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
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

/// The writer's state.
pub(super) struct Writer {
    conn: Connection,
    home: Home,
    queue: Arc<Queue>,
    known: KnownRuns,
    /// How long the log is, as of our last commit.
    log_pages: Arc<AtomicI64>,
    /// How much of it is in the database already.
    copied_pages: i64,
}

/// However the writer ends, nobody waits for it in vain.
struct Farewell(Arc<Queue>);

impl Drop for Farewell {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

impl Writer {
    pub fn new(mut conn: Connection, home: Home, queue: Arc<Queue>) -> rusqlite::Result<Self> {
        let log_pages = Arc::new(AtomicI64::new(0));
        let seen = Arc::clone(&log_pages);
        conn.wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, pages: i32| {
            seen.store(i64::from(pages), Ordering::Relaxed);
            Ok(())
        }))?;
        Ok(Self { conn, home, queue, known: KnownRuns::default(), log_pages, copied_pages: 0 })
    }

    /// Runs until the queue is closed and empty.
    pub fn run(mut self) {
        self.queue.adopt_writer();
        let _farewell = Farewell(Arc::clone(&self.queue));
        let mut batch = Vec::new();
        while self.queue.take(&mut batch) {
            for (done, answer) in self.store(std::mem::take(&mut batch)) {
                // A callback's panic is its own thread of thought's affair; the others' runs must go on.
                let _ = catch_unwind(AssertUnwindSafe(|| done(answer)));
            }
            self.checkpoint();
        }
    }

    /// Makes a batch durable and says what became of each unit.
    fn store(&mut self, batch: Vec<Job>) -> Vec<(Done, Answer)> {
        let (units, callbacks): (Vec<_>, Vec<_>) = batch.into_iter().map(|job| (job.unit, job.done)).unzip();
        let answers = self.transact(&units).unwrap_or_else(|error| {
            // Even a failed BEGIN may leave a transaction open, and a full disk may have closed it.
            if !self.conn.is_autocommit() {
                let _ = self.conn.execute_batch("ROLLBACK");
            }
            self.known.forget_all();
            vec![Err(self.home.explain(&error)); units.len()]
        });
        callbacks.into_iter().zip(answers).collect()
    }

    fn transact(&mut self, units: &[crate::Unit]) -> rusqlite::Result<Vec<Answer>> {
        self.conn.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
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

    /// Copies the log into the database when it is due, after everybody has been answered.
    ///
    /// A failure (a full disk) loses nothing: the log is what is durable, and the next batches try again.
    fn checkpoint(&mut self) {
        let pages = self.log_pages.load(Ordering::Relaxed);
        if pages < self.copied_pages {
            // It began anew.
            self.copied_pages = 0;
        }
        let new = pages - self.copied_pages;
        if new < BUSY_CHECKPOINT_PAGES && (new < IDLE_CHECKPOINT_PAGES || !self.queue.is_idle()) {
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
