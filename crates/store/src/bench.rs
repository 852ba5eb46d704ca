//! Measures durable appends through the real store, beside the disk's own pace and a bare SQLite loop's.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::Connection;

use crate::{EncodedBatch, Op, OwnerId, RunId, RunRow, SqliteStore, Store, StoreError, Summary};

/// Steps of one run, each durable before the next begins.
const STEPS: u64 = 10;

/// What a script entry's end and the next one's start look like: about 200 bytes.
const BODY: &str = r#"{"at":1764520000000,"events":[{"type":"attempt_succeeded","path":"charge","attempt":1,"output":{"id":81723}},{"type":"attempt_started","path":"notify","attempt":1,"id":"0199c0f2-7c1e-7d11"}]}"#;

/// One measurement.
#[derive(Clone, Debug)]
pub struct Figures {
    /// Runs in flight at a time.
    pub concurrency: usize,
    /// Durable appends per second.
    pub per_second: f64,
    /// Median latency in milliseconds, from commit to callback.
    pub p50_ms: f64,
    /// 99th percentile of the latency.
    pub p99_ms: f64,
    /// Bytes that the database and its log grew by, for each append; 0 where not measured.
    pub bytes_per_append: f64,
}

fn percentile(sorted: &[Duration], share: f64) -> f64 {
    let index = ((sorted.len() as f64 * share) as usize).min(sorted.len().saturating_sub(1));
    sorted.get(index).map_or(0.0, |latency| latency.as_secs_f64() * 1e3)
}

fn figures(concurrency: usize, mut latencies: Vec<Duration>, elapsed: Duration, bytes: u64) -> Figures {
    latencies.sort_unstable();
    let count = latencies.len() as f64;
    Figures {
        concurrency,
        per_second: count / elapsed.as_secs_f64(),
        p50_ms: percentile(&latencies, 0.5),
        p99_ms: percentile(&latencies, 0.99),
        bytes_per_append: bytes as f64 / count,
    }
}

/// The disk's own pace: the median time, in milliseconds, to append 512 bytes to a file in `dir` and sync them.
pub fn fsync_p50_ms(dir: &Path) -> io::Result<f64> {
    let path = dir.join("fsync.probe");
    let mut file = File::create(&path)?;
    let mut latencies = Vec::new();
    for _ in 0..200 {
        let start = Instant::now();
        file.write_all(&[0x5a; 512])?;
        file.sync_data()?;
        latencies.push(start.elapsed());
    }
    fs::remove_file(path)?;
    latencies.sort_unstable();
    Ok(percentile(&latencies, 0.5))
}

/// `n` appends in a new home in `dir`, by `concurrency` runs at a time of ten appends each after their creation.
///
/// No thread waits: each callback commits the run's next batch, as the engine's driver would.
pub fn durable_appends(dir: &Path, concurrency: usize, n: u64) -> Result<Figures, StoreError> {
    let home = dir.join(format!("appends-{concurrency}"));
    let store = Arc::new(SqliteStore::open(&home)?);
    let lease = store.lease()?;
    let before = size(&home);
    let (sender, receiver) = channel();
    let load = Arc::new(Load {
        store: Arc::clone(&store) as Arc<dyn Store>,
        owner: lease.owner().clone(),
        next: AtomicU64::new(0),
        runs: n.div_ceil(STEPS),
        latencies: Mutex::new(Vec::new()),
    });
    let start = Instant::now();
    for _ in 0..concurrency {
        load.begin_run(sender.clone());
    }
    drop(sender);
    // Each of the chains drops its sender when no run is left to begin.
    let failures: Vec<StoreError> = receiver.iter().collect();
    let elapsed = start.elapsed();
    if let Some(error) = failures.into_iter().next() {
        return Err(error);
    }
    let latencies = std::mem::take(&mut *load.latencies.lock().unwrap_or_else(PoisonError::into_inner));
    drop(load);
    drop(store);
    let bytes = size(&home).saturating_sub(before);
    Ok(figures(concurrency, latencies, elapsed, bytes))
}

struct Load {
    store: Arc<dyn Store>,
    owner: OwnerId,
    next: AtomicU64,
    runs: u64,
    latencies: Mutex<Vec<Duration>>,
}

impl Load {
    fn begin_run(self: &Arc<Self>, failed: Sender<StoreError>) {
        if self.next.fetch_add(1, Ordering::Relaxed) >= self.runs {
            return;
        }
        let id = RunId::from(uuid::Uuid::now_v7().to_string());
        let row = RunRow {
            id: id.clone(),
            workflow: "order".to_owned(),
            version: 1,
            revision: 1,
            owner: Some(self.owner.clone()),
            created_at: 0,
            summary: Summary { status: "running".to_owned(), ..Summary::default() },
        };
        let this = Arc::clone(self);
        let op = Op::CreateRun { row, first: body() };
        // Creations take their time but are not counted.
        self.store.commit(op.into(), Box::new(move |answer| this.go_on(answer.err(), id, 1, failed)));
    }

    fn go_on(self: &Arc<Self>, error: Option<StoreError>, run: RunId, number: u64, failed: Sender<StoreError>) {
        if let Some(error) = error {
            let _ = failed.send(error);
        } else if number > STEPS {
            self.begin_run(failed);
        } else {
            self.append(run, number, failed);
        }
    }

    fn append(self: &Arc<Self>, run: RunId, number: u64, failed: Sender<StoreError>) {
        let summary = (number == STEPS).then(|| Summary { status: "succeeded".to_owned(), ended_at: Some(1), ..Summary::default() });
        let op = Op::Append { run: run.clone(), expected: number, batch: body(), summary, fence: self.owner.clone() };
        let this = Arc::clone(self);
        let start = Instant::now();
        self.store.commit(
            op.into(),
            Box::new(move |answer| {
                this.latencies.lock().unwrap_or_else(PoisonError::into_inner).push(start.elapsed());
                this.go_on(answer.err(), run, number + 1, failed);
            }),
        );
    }
}

fn body() -> EncodedBatch {
    EncodedBatch { body: BODY.as_bytes().to_vec(), events: 2 }
}

fn size(home: &Path) -> u64 {
    ["viat.db", "viat.db-wal"].iter().filter_map(|name| fs::metadata(home.join(name)).ok()).map(|meta| meta.len()).sum()
}

/// The same load on bare SQLite: the least that a durable step can cost here. One loop inserts an event row and a step
/// row for whatever is due, commits, and has each run's next step due; nothing is queued, looked up or checked.
pub fn ceiling(dir: &Path, concurrency: usize, n: u64) -> Result<Figures, StoreError> {
    bare(dir, concurrency, n).map_err(|error| StoreError::Io { detail: format!("bare SQLite: {error}") })
}

fn bare(dir: &Path, concurrency: usize, n: u64) -> rusqlite::Result<Figures> {
    let path = dir.join(format!("ceiling-{concurrency}.db"));
    let conn = Connection::open(&path)?;
    conn.execute_batch(
        "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA wal_autocheckpoint=4000;
         CREATE TABLE event (run INT, number INT, at INT, kind TEXT, data TEXT, PRIMARY KEY (run, number)) WITHOUT ROWID;
         CREATE TABLE step (run INT, number INT, state TEXT, output TEXT, PRIMARY KEY (run, number)) WITHOUT ROWID;",
    )?;
    let runs = n.div_ceil(STEPS);
    let mut begun = (concurrency as u64).min(runs);
    let mut due: VecDeque<(u64, u64, Instant)> = (0..begun).map(|run| (run, 0, Instant::now())).collect();
    let mut latencies = Vec::new();
    let start = Instant::now();
    while !due.is_empty() {
        let batch: Vec<_> = due.drain(..due.len().min(512)).collect();
        insert_steps(&conn, &batch)?;
        for (run, number, since) in batch {
            latencies.push(since.elapsed());
            if number + 1 < STEPS {
                due.push_back((run, number + 1, Instant::now()));
            } else if begun < runs {
                due.push_back((begun, 0, Instant::now()));
                begun += 1;
            }
        }
    }
    Ok(figures(concurrency, latencies, start.elapsed(), 0))
}

fn insert_steps(conn: &Connection, batch: &[(u64, u64, Instant)]) -> rusqlite::Result<()> {
    conn.execute_batch("BEGIN IMMEDIATE")?;
    let mut event = conn.prepare_cached("INSERT INTO event VALUES (?1, ?2, 0, 'step_completed', ?3)")?;
    let mut step = conn.prepare_cached("INSERT INTO step VALUES (?1, ?2, 'done', ?3)")?;
    for (run, number, _) in batch {
        let (run, number) = (run.cast_signed(), number.cast_signed());
        event.execute((run, number * 2, r#"{"attempt":1,"ok":true,"out":{"v":1}}"#))?;
        step.execute((run, number, r#"{"v":1}"#))?;
    }
    conn.execute_batch("COMMIT")
}
