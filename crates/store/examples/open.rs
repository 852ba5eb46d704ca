//! Prints how long opening an existing home takes, with what a command of the CLI then does: `open HOME`.

use std::error::Error;
use std::io::Write;
use std::time::Instant;

use viat_store::{RunFilter, SqliteStore, Store};

fn main() -> Result<(), Box<dyn Error>> {
    let home = std::env::args().nth(1).ok_or("usage: open HOME")?;
    drop(SqliteStore::open(&home)?);
    let mut out = std::io::stdout();
    for _ in 0..5 {
        let start = Instant::now();
        let store = SqliteStore::open(&home)?;
        let opened = start.elapsed();
        let runs = store.list_runs(&RunFilter::default())?;
        let listed = start.elapsed();
        drop(store);
        writeln!(out, "open {opened:?}, list of {} {listed:?}, closed {:?}", runs.len(), start.elapsed())?;
    }
    Ok(())
}
