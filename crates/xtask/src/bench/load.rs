//! Runs on the real driver: one at a time, many at once, with scripts and without.

use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use serde::Serialize;
use viat_engine::journal::Event;
use viat_runner::driver::News;

use super::floor::{self, Pipe};
use super::lab::{Lab, Workflow};
use super::samples::{Spread, spread};
use crate::shell::Done;

/// Entries of a document of `set` entries: the most that one may have.
const SETS: usize = 1_000;

/// One run at a time.
#[derive(Clone, Debug, Serialize)]
pub struct Sequential {
    /// Appending 512 bytes to a file and syncing them.
    pub fsync: Spread,
    /// There and back over a pipe to a Python process that only echoes, both on one core.
    pub pipe: Spread,
    /// The same with the process on another core.
    pub pipe_apart: Option<Spread>,
    /// The same where the kernel puts both ends, once after each sync, as a step has it.
    pub pipe_loose: Spread,
    /// From one step's durable end to the next one's.
    pub step: Spread,
    /// Steps per second of wall time, the runs' own beginning and end included.
    pub steps_per_second: f64,
}

/// Several runs at once.
#[derive(Clone, Debug, Serialize)]
pub struct AtOnce {
    /// How many.
    pub runs: usize,
    /// From one step's durable end to the same run's next one.
    pub step: Spread,
    /// Steps per second of wall time.
    pub steps_per_second: f64,
}

enum Heard {
    Step(Duration),
    Ended,
    Failed(String),
}

/// Runs one after the other; before each of them the disk and the pipe are measured.
pub fn sequential(lab: &Lab, workflow: &Workflow, runs: usize, dir: &Path) -> Done<Sequential> {
    let (mut pipe, mut apart) = Pipe::both(lab.python())?;
    let mut loose = Pipe::loose(lab.python())?;
    let (mut fsync, mut trips, mut apart_trips, mut loose_trips, mut steps) = (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
    many(lab, workflow, 1, 1)?; // the workers are warm now
    let mut took = Duration::ZERO;
    for _ in 0..runs {
        fsync.extend(floor::fsyncs(dir, 100)?);
        trips.extend(pipe.round_trips(500)?);
        if let Some(apart) = &mut apart {
            apart_trips.extend(apart.round_trips(500)?);
        }
        loose_trips.append(&mut loose.trips_after_syncs(dir, 100)?);
        let (mut heard, elapsed) = many(lab, workflow, 1, 1)?;
        steps.append(&mut heard);
        took += elapsed;
    }
    let steps_per_second = (runs * workflow.entries) as f64 / took.as_secs_f64();
    let pipe_apart = apart.map(|_| spread(apart_trips));
    let (pipe, pipe_loose) = (spread(trips), spread(loose_trips));
    Ok(Sequential { fsync: spread(fsync), pipe, pipe_apart, pipe_loose, step: spread(steps), steps_per_second })
}

/// `runs` runs, `at_once` of them under way at any time.
pub fn at_once(lab: &Lab, workflow: &Workflow, at_once: usize, runs: usize) -> Done<AtOnce> {
    let (steps, took) = many(lab, workflow, at_once, runs)?;
    Ok(AtOnce { runs: at_once, step: spread(steps), steps_per_second: (runs * workflow.entries) as f64 / took.as_secs_f64() })
}

/// `set` entries per second.
pub fn pure(lab: &Lab, runs: usize) -> Done<f64> {
    let workflow = lab.sets(SETS)?;
    let (_, took) = many(lab, &workflow, 1, runs)?;
    Ok((runs * SETS) as f64 / took.as_secs_f64())
}

fn many(lab: &Lab, workflow: &Workflow, at_once: usize, runs: usize) -> Done<(Vec<Duration>, Duration)> {
    let (sender, receiver) = channel();
    let start = Instant::now();
    for _ in 0..at_once.min(runs) {
        begin(lab, workflow, &sender)?;
    }
    let mut steps = Vec::new();
    for ended in 1..=runs {
        until_one_ends(&receiver, &mut steps)?;
        if ended + at_once <= runs {
            begin(lab, workflow, &sender)?;
        }
    }
    Ok((steps, start.elapsed()))
}

fn until_one_ends(receiver: &Receiver<Heard>, steps: &mut Vec<Duration>) -> Done {
    loop {
        match receiver.recv()? {
            Heard::Step(took) => steps.push(took),
            Heard::Ended => return Ok(()),
            Heard::Failed(problem) => return Err(problem.into()),
        }
    }
}

fn begin(lab: &Lab, workflow: &Workflow, sender: &Sender<Heard>) -> Done {
    let sender = sender.clone();
    // The first step's end has none before it; the driver has one thread, so the cell is never contended.
    let before = std::sync::Mutex::new(None::<Instant>);
    let news = move |news: News| {
        let heard = match news {
            News::Events(batch) => {
                let ends = batch.events.iter().filter(|event| matches!(event, Event::AttemptSucceeded { .. })).count();
                let now = Instant::now();
                match before.lock().ok().filter(|_| ends > 0).and_then(|mut before| before.replace(now)) {
                    Some(before) => Heard::Step(now - before),
                    None => return,
                }
            }
            News::Ended => Heard::Ended,
            News::Lost(error) | News::Troubled(error) => Heard::Failed(error.to_string()),
            News::Progress { .. } => return,
        };
        let _ = sender.send(heard);
    };
    lab.start(workflow, Box::new(news))
}
