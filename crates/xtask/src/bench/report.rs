//! The figures, the targets, and the table that shows both.

use serde::Serialize;

use super::cold::Cold;
use super::load::{AtOnce, Sequential};
use super::machine::Machine;
use super::store::Appends;

/// DBOS for Rust on PostgreSQL, as it was once seen on a machine of two cores: steps per second at 1 and at 16.
const PEER: [(usize, f64); 2] = [(1, 1_648.0), (16, 3_067.0)];

/// Everything that one bench found.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Where.
    pub machine: Machine,
    /// One run at a time.
    pub sequential: Sequential,
    /// Several at once.
    pub concurrent: Vec<AtOnce>,
    /// `set` entries per second.
    pub pure: f64,
    /// By how much the home grew, for each script step.
    pub bytes_per_step: f64,
    /// The store's writer beside bare SQLite.
    pub store: Vec<Appends>,
    /// Cold starts.
    pub cold: Cold,
}

/// A target and what was found.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// What is wanted.
    pub target: String,
    /// What was found.
    pub found: String,
    /// Whether it is met.
    pub met: bool,
}

impl Report {
    /// What a step cannot do without, in milliseconds: with the cheapest of the pipes, which is the strictest target.
    fn floor_ms(&self) -> f64 {
        self.sequential.fsync.p50_ms + self.sequential.pipe.p50_ms
    }

    /// Each target with what was found.
    pub fn verdicts(&self) -> Vec<Verdict> {
        let (floor, step) = (self.floor_ms(), self.sequential.step);
        let mut all = vec![
            at_most("step p50 under 2.5 x (fsync + pipe)", step.p50_ms / floor, 2.5, "x"),
            at_most("step p99 under 25 x (fsync + pipe)", step.p99_ms / floor, 25.0, "x"),
            at_most("`workflow test` of the fixture under 250 ms", self.cold.test.p50_ms, 250.0, " ms"),
        ];
        all.extend(self.cold.packaged.map(|packaged| at_most("first call of a script with an environment under 150 ms", packaged.p50_ms, 150.0, " ms")));
        if let Some(sixteen) = self.store.iter().find(|each| each.runs == 16) {
            all.push(at_least("the store reaches half of bare SQLite at 16 runs", sixteen.store / sixteen.ceiling, 0.5, "x"));
        }
        for (runs, peer) in PEER {
            let concurrent = self.concurrent.iter().find(|each| each.runs == runs).map(|each| each.steps_per_second);
            if let Some(ours) = concurrent.or((runs == 1).then_some(self.sequential.steps_per_second)) {
                all.push(at_least(&format!("above {peer} steps/s at {runs} (seen of DBOS Rust on PostgreSQL)"), ours, peer, " steps/s"));
            }
        }
        all
    }

    /// Name and value of each figure.
    pub fn figures(&self) -> Vec<(String, String)> {
        let alone = &self.sequential;
        let mut all = vec![
            row("fsync of the disk, p50 / p99", &pair(alone.fsync.p50_ms, alone.fsync.p99_ms)),
            row("bare pipe round trip to Python, one core, p50 / p99", &pair(alone.pipe.p50_ms, alone.pipe.p99_ms)),
            row(
                "durable Python step, one run, p50 / p90 / p99",
                &format!("{:.3} / {} ms", alone.step.p50_ms, pair(alone.step.p90_ms, alone.step.p99_ms).trim_end_matches(" ms")),
            ),
            row("the same as a multiple of fsync + pipe, p50", &format!("{:.2} x", alone.step.p50_ms / self.floor_ms())),
            row("durable Python steps, one run", &per_second(alone.steps_per_second)),
        ];
        if let Some(apart) = alone.pipe_apart {
            all.insert(2, row("bare pipe round trip to Python, two cores, p50 / p99", &pair(apart.p50_ms, apart.p99_ms)));
            let ratio = alone.step.p50_ms / (alone.fsync.p50_ms + apart.p50_ms);
            all.insert(5, row("the same with the pipe over two cores, p50", &format!("{ratio:.2} x")));
        }
        let loose = alone.pipe_loose;
        all.insert(2, row("bare pipe round trip to Python, after a sync, p50 / p99", &pair(loose.p50_ms, loose.p99_ms)));
        let ratio = alone.step.p50_ms / (alone.fsync.p50_ms + loose.p50_ms);
        all.insert(all.len() - 1, row("the same with the pipe after a sync, p50", &format!("{ratio:.2} x")));
        for each in &self.concurrent {
            all.push(row(&format!("durable Python steps, {} runs at once", each.runs), &per_second(each.steps_per_second)));
            all.push(row(&format!("one of them, {} runs at once, p50 / p99", each.runs), &pair(each.step.p50_ms, each.step.p99_ms)));
        }
        all.push(row("`set` entries", &per_second(self.pure)));
        for each in &self.store {
            let found = format!("{} of {}, {:.2} x", thousands(each.store), per_second(each.ceiling), each.store / each.ceiling);
            all.push(row(&format!("store appends of bare SQLite's, {} at once", each.runs), &found));
        }
        all.push(row("`viat --version`, p50 / p99", &pair(self.cold.version.p50_ms, self.cold.version.p99_ms)));
        all.push(row("`viat workflow test` of the fixture, p50 / p99", &pair(self.cold.test.p50_ms, self.cold.test.p99_ms)));
        let packaged = self.cold.packaged.map_or_else(|| "not measured".to_owned(), |packaged| pair(packaged.p50_ms, packaged.p99_ms));
        all.push(row("the first call of a script with an environment, p50 / p99", &packaged));
        all.push(row("on disk, per durable Python step", &format!("{} bytes", thousands(self.bytes_per_step))));
        all
    }

    /// For a terminal.
    pub fn table(&self) -> String {
        let mut lines = vec![self.machine_line(), String::new()];
        lines.extend(self.caution().map(|caution| format!("CAUTION: {caution}\n")));
        lines.extend(self.figures().iter().map(|(name, value)| format!("{name:<56} {value}")));
        lines.push(String::new());
        for verdict in self.verdicts() {
            let word = if verdict.met { "met " } else { "MISSED" };
            lines.push(format!("{word:<7} {:<64} {}", verdict.target, verdict.found));
        }
        lines.join("\n")
    }

    /// What makes these figures useless, if something does.
    pub fn caution(&self) -> Option<&'static str> {
        if self.sequential.step.p50_ms < self.floor_ms() {
            return Some("a step took less than its own fsync and pipe: the machine was so busy that the ratios mean nothing; measure again");
        }
        let busy = self.machine.cpu_stalled.is_some_and(|share| share > 0.5);
        busy.then_some("the machine was busy with other work: do not compare these figures with others")
    }

    /// Where and when.
    pub fn machine_line(&self) -> String {
        let Machine { date, processor, cores, kernel, file_system, cpu_stalled } = &self.machine;
        let stalled = cpu_stalled.map(|share| format!("; in {:.0} % of the time something waited for a core", share * 100.0)).unwrap_or_default();
        format!("{date}: {cores} x {processor}, {kernel}, {file_system}{stalled}")
    }
}

fn at_most(target: &str, found: f64, limit: f64, unit: &str) -> Verdict {
    Verdict { target: target.to_owned(), found: format!("{found:.2}{unit}"), met: found < limit }
}

fn at_least(target: &str, found: f64, limit: f64, unit: &str) -> Verdict {
    let shown = if limit < 10.0 { format!("{found:.2}") } else { thousands(found) };
    Verdict { target: target.to_owned(), found: format!("{shown}{unit}"), met: found >= limit }
}

fn row(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

fn pair(first: f64, second: f64) -> String {
    format!("{first:.3} / {second:.3} ms")
}

fn per_second(value: f64) -> String {
    format!("{}/s", thousands(value))
}

fn thousands(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut shown = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}
