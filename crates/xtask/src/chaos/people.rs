//! The people around the runs: they start, decide, cancel, settle and resume over the API, and keep what they were promised.

mod recover;
mod review;

use std::collections::BTreeMap;

use serde_json::{Value, json};
use viat_simulator::stories::dice::Dice;

use super::http::{self, Answer, Gone};
use super::lab::Lab;
use super::story::{CONTENT, Story};
use super::truth::Truth;
use crate::shell::Done;

/// What is known of one story's run.
#[derive(Clone, Debug)]
pub struct Known {
    /// What it is about.
    pub story: Story,
    /// Its id, once the server has promised that it exists.
    pub run: Option<String>,
    /// The decision that the server has taken.
    pub decided: Option<&'static str>,
    /// Whether a cancel was accepted.
    pub cancelled: bool,
    /// How many settlements were accepted.
    pub settled: usize,
    /// How many resumes were accepted.
    pub resumed: usize,
    /// A person knows that something has happened that must not be repeated, and leaves the run as it is.
    pub left: bool,
    /// Nobody has anything to do with it any more.
    over: bool,
}

/// All of them.
pub struct People {
    /// By the story's number.
    pub known: Vec<Known>,
    /// Broken promises that were noticed at once.
    pub broken: Vec<(String, String)>,
    /// How often the server was gone before it had answered.
    pub unanswered: usize,
    /// How often it said that it could not now.
    pub unavailable: usize,
    /// What really happened.
    pub truth: Truth,
    dice: Dice,
    prefix: String,
}

/// Why a round ended early.
pub enum Stop {
    /// The server is gone.
    Gone,
    /// The test itself is wrong.
    Error(Box<dyn std::error::Error>),
}

impl From<Gone> for Stop {
    fn from(_: Gone) -> Stop {
        Stop::Gone
    }
}

impl<E: Into<Box<dyn std::error::Error>>> From<E> for Stop
where
    E: std::fmt::Debug,
{
    fn from(error: E) -> Stop {
        Stop::Error(error.into())
    }
}

/// A server, and how far its clock is off.
#[derive(Clone, Copy)]
pub struct Desk {
    /// Where it listens.
    pub port: u16,
    /// In seconds.
    pub offset_s: i64,
}

impl People {
    /// Nothing has happened yet.
    ///
    /// # Errors
    /// The workflows cannot be read, or the results that are in the way cannot be put there.
    pub fn new(mut stories: Vec<Story>, lab: &Lab, seed: u64) -> Done<People> {
        let truth = Truth::new(lab)?;
        for story in stories.iter_mut().filter(|story| story.workflow == CONTENT) {
            story.inputs["outbox"] = lab.outbox.to_string_lossy().into();
            if story.conflict {
                std::fs::write(truth.result(story), "another result\n")?;
            }
        }
        let fresh = |story| Known { story, run: None, decided: None, cancelled: false, settled: 0, resumed: 0, left: false, over: false };
        let known = stories.into_iter().map(fresh).collect();
        let (dice, prefix) = (Dice::named(seed, "people", 0), format!("chaos-{seed}"));
        Ok(People { known, broken: Vec::new(), unanswered: 0, unavailable: 0, truth, dice, prefix })
    }

    /// Whether all runs are started and none needs anybody any more.
    pub fn are_done(&self) -> bool {
        self.known.iter().all(|known| known.over)
    }

    /// Everybody does something, or not. The first `started` stories may have begun.
    ///
    /// # Errors
    /// The server died, or the test is wrong.
    pub fn round(&mut self, lab: &Lab, desk: Desk, started: usize) -> Result<Vec<Value>, Stop> {
        self.start(desk, started)?;
        // On a full disk this may fail like anything else.
        let Ok(Value::Array(rows)) = lab.json(&["run", "list", "--json", "--limit", "1000"]) else { return Ok(Vec::new()) };
        let numbers: BTreeMap<String, usize> = self.known.iter().enumerate().filter_map(|(at, known)| Some((known.run.clone()?, at))).collect();
        for row in &rows {
            let Some(number) = row["id"].as_str().and_then(|run| numbers.get(run)) else { continue };
            self.look(desk, *number, row)?;
        }
        self.reviews(desk, &numbers)?;
        Ok(rows)
    }

    /// Starts what may start and was not promised yet; the key makes sure that a lost answer does not start it twice.
    fn start(&mut self, desk: Desk, started: usize) -> Result<(), Stop> {
        for number in 0..started.min(self.known.len()) {
            if self.known[number].run.is_some() {
                continue;
            }
            let story = &self.known[number].story;
            let (body, key) = (json!({"workflow": story.workflow, "inputs": story.inputs}), format!("{}-{number}", self.prefix));
            let answer = self.ask(desk, "POST", "/api/v1/runs", Some(&key), Some(&body))?;
            match answer.status {
                200 | 201 => self.known[number].run = answer.body["id"].as_str().map(str::to_owned),
                503 => {}
                _ => return Err(format!("a run could not be started: {answer:?}").into()),
            }
        }
        Ok(())
    }

    fn look(&mut self, desk: Desk, number: usize, row: &Value) -> Result<(), Stop> {
        let status = row["status"].as_str().unwrap_or_default();
        match status {
            "succeeded" | "cancelled" => self.known[number].over = true,
            "failed" => self.failed(desk, number, row)?,
            "needs_attention" => self.settle(desk, number)?,
            "queued" | "running" | "waiting" if self.known[number].story.cancel && self.dice.chance(15) => self.cancel(desk, number)?,
            _ => {}
        }
        Ok(())
    }

    fn cancel(&mut self, desk: Desk, number: usize) -> Result<(), Stop> {
        let body = json!({"by": "ana", "reason": "not wanted any more"});
        let answer = self.about(desk, number, "cancel", &body)?;
        match answer.status {
            202 => self.known[number].cancelled = true,
            // It has ended meanwhile.
            409 | 503 => {}
            _ => self.odd(number, "cancel", &answer),
        }
        Ok(())
    }

    /// Asks about a story's run.
    fn about(&mut self, desk: Desk, number: usize, what: &str, body: &Value) -> Result<Answer, Stop> {
        let run = self.known[number].run.clone().unwrap_or_default();
        self.ask(desk, "POST", &format!("/api/v1/runs/{run}/{what}"), None, Some(body))
    }

    fn ask(&mut self, desk: Desk, method: &str, path: &str, key: Option<&str>, body: Option<&Value>) -> Result<Answer, Stop> {
        let answer = http::ask(desk.port, method, path, key, body);
        match &answer {
            Err(Gone) => self.unanswered += 1,
            Ok(answer) if answer.status == 503 => self.unavailable += 1,
            Ok(_) => {}
        }
        Ok(answer?)
    }

    /// An answer that nothing explains.
    fn odd(&mut self, number: usize, what: &str, answer: &Answer) {
        let run = self.known[number].run.clone().unwrap_or_default();
        self.broken.push((run, format!("{what} was answered with {} {}", answer.status, answer.body)));
    }
}
