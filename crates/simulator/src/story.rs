//! What the world does in a case: inputs, what each script's attempts come to, and what people do meanwhile.
//!
//! ```text
//! input {"n": 1}
//! show keys                                     the trace tells idempotency keys apart: `key 1`, `key 2`
//! fetch fails transport "connection reset"      the first attempt of script `fetch`
//! fetch returns {"ok": true} after 200          the second one, 200 ms after its start; later ones repeat it
//! slow hangs                                    until it is stopped or its timeout is over
//! send queues 300 then dies                     it waits 300 ms for a worker, which then dies
//! send finds queue_full                         no worker can be had
//! send defers mail {"to": "a"} then echoes      asks for work to be submitted if the run succeeds
//! at 500 cancel
//! at 900 event paid {"amount": 3}
//! at 900 crash for 5000                         the engine dies; another one takes over 5 s later
//! at 950 decide check approved {"score": 5}     who is asked in entry `check` decides
//! at 950 settle pay {"id": 1}                   somebody says that it took effect; `not_done`: that it did not
//! at 950 compensate, resume [from pay], migrate
//! at 950 late fetch                             the last ended attempt of entry `fetch` reports once more
//! ```

use std::collections::BTreeMap;

use serde_json::Value;
use viat_engine::failure::Failure;
use viat_engine::journal::{Millis, Verdict};
use viat_engine::policies::class::Class;

/// How long an attempt takes unless the story says otherwise.
pub const DEFAULT_MS: Millis = 1;

/// The parsed story.
#[derive(Clone, Debug)]
pub struct Story {
    /// What the run is given; `{}` unless the story says otherwise.
    pub inputs: Value,
    /// A budget that the caller passes.
    pub timeout_ms: Option<u64>,
    /// The default execution deadline of active time, if the case is about it.
    pub active_budget_ms: Option<u64>,
    /// Whether the trace tells idempotency keys apart.
    pub shows_keys: bool,
    /// Outcomes of each script's attempts, in order; the last one repeats.
    pub outcomes: BTreeMap<String, Vec<Outcome>>,
    /// What people do, by time.
    pub deeds: Vec<(Millis, Deed)>,
}

/// What an attempt comes to.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// How; `None`: it hangs.
    pub how: Option<How>,
    /// How long it takes.
    pub after_ms: Millis,
    /// How long it waits for a worker.
    pub queue_ms: Millis,
    /// Whether it takes effect although it fails or nobody hears of it.
    pub takes_effect: bool,
    /// The tasks it defers as soon as it runs: workflow and arguments.
    pub defers: Vec<(String, Value)>,
}

/// What an attempt ends with.
#[derive(Clone, Debug)]
pub enum How {
    /// This value.
    Returns(Value),
    /// Its arguments.
    Echoes,
    /// This failure.
    Fails(Failure),
    /// What the world knows of the attempt that it asks about; unless it cannot say.
    Tells {
        /// Whether it cannot say.
        unknown: bool,
    },
    /// No worker could be had.
    NotStarted(Failure),
}

/// Instead of an entry: one that the deed fits, if there is one.
pub const ANY: &str = "*";

/// What somebody does to the run.
#[derive(Clone, Debug)]
pub enum Deed {
    /// Asks for it to be cancelled.
    Cancel,
    /// Sends it an event.
    Event(String, Value),
    /// Kills the engine; the next one comes up after this long.
    Crash(Millis),
    /// Reports the last ended attempt of the entry at this path once more.
    Late(String),
    /// Decides the open review of the entry at this path.
    Decide(String, Verdict, Value),
    /// Moves that review's expiry to this long from now.
    Extend(String, Millis),
    /// Says what came of an attempt: the output, if it took effect.
    Settle(String, Option<Value>),
    /// Asks for the effects to be undone.
    Compensate,
    /// Lets the failed run go on: from which entry, and whether effects may be repeated.
    Resume(Option<String>, bool),
    /// Moves the run to version 2.
    Migrate,
}

impl Story {
    /// Reads a story.
    ///
    /// # Errors
    /// The line that makes no sense.
    pub fn parse(text: &str) -> Result<Story, String> {
        let mut story = Story {
            inputs: Value::Object(serde_json::Map::new()),
            timeout_ms: None,
            active_budget_ms: None,
            shows_keys: false,
            outcomes: BTreeMap::new(),
            deeds: Vec::new(),
        };
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            story.line(line).map_err(|problem| format!("story: {line}: {problem}"))?;
        }
        Ok(story)
    }

    /// What attempt `attempt` (1 is the first) of a script comes to.
    ///
    /// # Errors
    /// The story says nothing about the script.
    pub fn outcome(&self, script: &str, attempt: u32) -> Result<&Outcome, String> {
        let outcomes = self.outcomes.get(script).ok_or_else(|| format!("the story does not say what {script} does"))?;
        let index = (attempt as usize).saturating_sub(1).min(outcomes.len() - 1);
        Ok(&outcomes[index])
    }

    fn line(&mut self, line: &str) -> Result<(), String> {
        let (first, rest) = line.split_once(' ').ok_or("too short")?;
        match first {
            "input" => self.inputs = json(rest)?,
            "timeout" => self.timeout_ms = Some(rest.parse().map_err(|_| "not a number of milliseconds")?),
            "active_budget" => self.active_budget_ms = Some(rest.parse().map_err(|_| "not a number of milliseconds")?),
            "show" if rest == "keys" => self.shows_keys = true,
            "at" => {
                let (at, deed) = rest.split_once(' ').ok_or("what happens then?")?;
                self.deeds.push((at.parse().map_err(|_| "not a number of milliseconds")?, deed_of(deed)?));
            }
            script => self.outcomes.entry(script.to_owned()).or_default().push(outcome(rest)?),
        }
        Ok(())
    }
}

fn deed_of(text: &str) -> Result<Deed, String> {
    if let Some(deed) = recovery_deed(text)? {
        return Ok(deed);
    }
    let mut words = text.splitn(3, ' ');
    match (words.next(), words.next(), words.next()) {
        (Some("cancel"), None, None) => Ok(Deed::Cancel),
        (Some("crash"), None, None) => Ok(Deed::Crash(0)),
        (Some("crash"), Some("for"), Some(down)) => Ok(Deed::Crash(down.parse().map_err(|_| "not a number of milliseconds")?)),
        (Some("late"), Some(path), None) => Ok(Deed::Late(path.to_owned())),
        (Some("event"), Some(name), payload) => Ok(Deed::Event(name.to_owned(), payload.map_or(Ok(Value::Null), json)?)),
        _ => Err("what can happen: cancel, event NAME [JSON], crash [for MS], late PATH, decide PATH VERDICT [JSON], extend PATH MS, \
            settle STEP JSON|not_done, compensate, resume [from STEP] [accepting], migrate"
            .to_owned()),
    }
}

fn recovery_deed(text: &str) -> Result<Option<Deed>, String> {
    let (verb, rest) = text.split_once(' ').unwrap_or((text, ""));
    let (first, last) = rest.split_once(' ').unwrap_or((rest, ""));
    Ok(Some(match verb {
        "decide" => {
            let (word, data) = last.split_once(' ').unwrap_or((last, "null"));
            let verdict = Verdict::ALL.into_iter().find(|verdict| verdict.name() == word).ok_or_else(|| format!("there is no decision {word}"))?;
            Deed::Decide(first.to_owned(), verdict, json(data)?)
        }
        "extend" => Deed::Extend(first.to_owned(), last.parse().map_err(|_| "not a number of milliseconds")?),
        "settle" if last == "not_done" => Deed::Settle(first.to_owned(), None),
        "settle" => Deed::Settle(first.to_owned(), Some(json(last)?)),
        "compensate" => Deed::Compensate,
        "resume" => {
            let words: Vec<&str> = rest.split_whitespace().collect();
            match words.as_slice() {
                [] => Deed::Resume(None, false),
                ["from", step] => Deed::Resume(Some((*step).to_owned()), false),
                ["accepting"] => Deed::Resume(None, true),
                ["from", step, "accepting"] => Deed::Resume(Some((*step).to_owned()), true),
                _ => return Err("resume [from STEP] [accepting]".to_owned()),
            }
        }
        "migrate" => Deed::Migrate,
        _ => return Ok(None),
    }))
}

fn outcome(text: &str) -> Result<Outcome, String> {
    if let Some((first, rest)) = text.split_once(" then ") {
        let mut outcome = outcome(rest)?;
        match first.split_once(' ') {
            Some(("queues", ms)) => outcome.queue_ms = ms.parse().map_err(|_| "queues for how many milliseconds?")?,
            Some(("defers", task)) => {
                let (workflow, args) = task.split_once(' ').unwrap_or((task, "{}"));
                outcome.defers.insert(0, (workflow.to_owned(), json(args)?));
            }
            _ => return Err("before `then` a script can: queue MS, defer WORKFLOW JSON".to_owned()),
        }
        return Ok(outcome);
    }
    let (text, after_ms) = match text.rsplit_once(" after ") {
        Some((text, after)) => (text, after.trim().parse().map_err(|_| "after how many milliseconds?")?),
        None => (text, DEFAULT_MS),
    };
    let (verb, rest) = text.split_once(' ').unwrap_or((text, ""));
    let how = match verb {
        "returns" => Some(How::Returns(json(rest)?)),
        "echoes" => Some(How::Echoes),
        "hangs" => None,
        "dies" => Some(How::Fails(Failure::new(Class::ScriptBroken, "the worker died"))),
        "fails" => Some(How::Fails(failure(rest)?)),
        "finds" => Some(How::NotStarted(failure(rest)?)),
        _ => return Err("a script can: return JSON, echo, hang, die, fail CLASS [CODE [STATUS]] [retry_after=MS] [\"MESSAGE\"] [EXTRA], find CLASS".to_owned()),
    };
    Ok(Outcome { how, after_ms, queue_ms: 0, takes_effect: false, defers: Vec::new() })
}

fn failure(text: &str) -> Result<Failure, String> {
    let mut parts = text.splitn(3, '"');
    let (words, message, extra) = (parts.next().unwrap_or(""), parts.next(), parts.next().map(str::trim).filter(|extra| !extra.is_empty()));
    let mut words = words.split_whitespace();
    let name = words.next().ok_or("which class?")?;
    let class = Class::ALL.into_iter().find(|class| class.name() == name).ok_or_else(|| format!("there is no class {name}"))?;
    let mut failure = Failure::new(class, message.unwrap_or("as the story has it"));
    failure.extra = extra.map(json).transpose()?;
    if class == Class::User {
        failure.status = Some(400);
    }
    for word in words {
        if let Some(ms) = word.strip_prefix("retry_after=") {
            failure.retry_after_ms = Some(ms.parse().map_err(|_| "retry_after is a number of milliseconds")?);
        } else if let Ok(status) = word.parse() {
            failure.status = Some(status);
        } else {
            word.clone_into(&mut failure.code);
        }
    }
    Ok(failure)
}

fn json(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))
}
