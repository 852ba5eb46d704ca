//! Prints how several processes that append to one home at once fare: `share HOME SECONDS RUNS`, started once per process.

use std::error::Error;
use std::io::Write;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use viat_store::{EncodedBatch, Op, RunId, RunRow, SqliteStore, Store, Summary};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [home, seconds, runs] = args.as_slice() else { return Err("usage: share HOME SECONDS RUNS".into()) };
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(home)?);
    let lease = store.lease()?;
    let owner = lease.owner();
    let batch = || EncodedBatch { body: vec![b'x'; 200], events: 2 };
    let (sender, receiver) = channel();
    let id = |run: usize| RunId::from(format!("{owner}-{run}"));
    let append = |run: usize, number: u64| {
        let (sender, start) = (sender.clone(), Instant::now());
        let op = Op::Append { run: id(run), expected: number, batch: batch(), summary: None, fence: owner.clone() };
        store.commit(op.into(), Box::new(move |answer| _ = sender.send((run, number, start.elapsed(), answer.err()))));
    };
    for run in 0..runs.parse()? {
        let summary = Summary { status: "running".to_owned(), ..Summary::default() };
        let row = RunRow { id: id(run), workflow: "w".to_owned(), version: 1, revision: 1, owner: Some(owner.clone()), created_at: 0, summary };
        store.commit_blocking(Op::CreateRun { row, first: batch() }.into())?;
        append(run, 1);
    }
    let end = Instant::now() + Duration::from_secs(seconds.parse()?);
    let mut latencies = Vec::new();
    let mut refused = 0;
    for (run, number, latency, error) in &receiver {
        latencies.push(latency);
        refused += u32::from(error.is_some());
        if Instant::now() > end {
            break;
        }
        append(run, number + u64::from(error.is_none()));
    }
    latencies.sort_unstable();
    let at = |share: usize| latencies.get(latencies.len() * share / 1000).copied().unwrap_or_default();
    let (count, p50, p99, max) = (latencies.len(), at(500), at(990), latencies.last().copied().unwrap_or_default());
    writeln!(std::io::stdout(), "{count} appends, {refused} failed, p50 {p50:?}, p99 {p99:?}, longest {max:?}")?;
    Ok(())
}
