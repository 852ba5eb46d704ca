//! Prints what a durable append costs on the disk under a directory: `append [DIR [N]]`.

use std::error::Error;
use std::io::Write;
use std::path::PathBuf;

use viat_store::bench;

const ROUNDS: u32 = 5;

fn faster(one: bench::Figures, other: bench::Figures) -> bench::Figures {
    if one.per_second < other.per_second { other } else { one }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let parent = args.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let count: u64 = args.next().map_or(Ok(0), |text| text.parse())?;
    let mut out = std::io::stdout();
    let dir = parent.join(format!("viat-bench-{}", std::process::id()));
    std::fs::create_dir_all(&dir)?;
    writeln!(out, "fsync of 512 bytes: p50 {:.3} ms", bench::fsync_p50_ms(&dir)?)?;
    for (concurrency, default) in [(1, 1_000), (16, 20_000), (64, 50_000), (256, 100_000)] {
        let n = if count == 0 { default } else { count };
        // A shared disk may pause for seconds: turn by turn, and the best of each, or the ratio says nothing.
        let (mut bare, mut ours) = (bench::ceiling(&dir, concurrency, n)?, bench::durable_appends(&dir, concurrency, n)?);
        for round in 1..ROUNDS {
            let dir = dir.join(round.to_string());
            std::fs::create_dir_all(&dir)?;
            bare = faster(bare, bench::ceiling(&dir, concurrency, n)?);
            ours = faster(ours, bench::durable_appends(&dir, concurrency, n)?);
        }
        for (name, figures) in [("bare SQLite", &bare), ("viat-store", &ours)] {
            let bench::Figures { per_second, p50_ms, p99_ms, bytes_per_append, .. } = figures;
            writeln!(out, "{concurrency:4} runs  {name:11} {per_second:8.0}/s  p50 {p50_ms:7.3} ms  p99 {p99_ms:7.3} ms  {bytes_per_append:5.0} B/append")?;
        }
        writeln!(out, "           ratio {:.0} %", 100.0 * ours.per_second / bare.per_second)?;
    }
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}
