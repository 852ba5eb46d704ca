//! The effects file: what scripts wrote of themselves, in the order in which it happened.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use crate::shell::Done;

/// What a line tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Word {
    /// `main` was entered.
    Begin,
    /// What the script is for has happened.
    Effect,
    /// `main` was about to return.
    End,
}

/// A line.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Line {
    /// The run.
    pub run: String,
    /// The path of the attempt.
    pub path: String,
    /// The idempotency key.
    pub key: String,
    /// The attempt.
    pub attempt: u64,
    /// What happened.
    pub word: Word,
}

impl Line {
    /// The entry that the attempt belongs to, whatever it is for.
    pub fn entry(&self) -> &str {
        self.path.split(':').next().unwrap_or_default()
    }

    /// Whether the attempt undoes.
    pub fn undoes(&self) -> bool {
        self.path.ends_with(":compensate")
    }

    /// Whether it is the entry's own work.
    pub fn works(&self) -> bool {
        !self.path.contains(':')
    }
}

/// The lines by run.
#[derive(Clone, Debug, Default)]
pub struct Effects(BTreeMap<String, Vec<Line>>);

impl Effects {
    /// Reads the file.
    ///
    /// # Errors
    /// It cannot be read, or a line is damaged.
    pub fn read(file: &Path) -> Done<Effects> {
        let mut found = Effects::default();
        let text = std::fs::read_to_string(file)?;
        // A last line without an end is still being written.
        for line in text.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
            let line: Line = serde_json::from_str(line).map_err(|error| format!("{}: {error}: {line}", file.display()))?;
            found.0.entry(line.run.clone()).or_default().push(line);
        }
        Ok(found)
    }

    /// Of one run.
    pub fn of(&self, run: &str) -> &[Line] {
        self.0.get(run).map(Vec::as_slice).unwrap_or_default()
    }

    /// Of all.
    pub fn all(&self) -> impl Iterator<Item = &Line> {
        self.0.values().flatten()
    }
}
