//! What really happened, as somebody knows who can look at the world: asked before a person settles or resumes, and by the checks.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::effects::{Effects, Word};
use super::lab::Lab;
use super::rules::Rules;
use super::story::{CONTENT, Story};
use crate::shell::Done;

/// Where to look.
pub struct Truth {
    /// What each entry allows.
    pub rules: Rules,
    effects: PathBuf,
    outbox: PathBuf,
}

impl Truth {
    /// In this lab.
    ///
    /// # Errors
    /// A workflow does not compile.
    pub fn new(lab: &Lab) -> Done<Truth> {
        let project = lab.workflows.parent().unwrap_or(&lab.workflows);
        Ok(Truth { rules: Rules::read(project)?, effects: lab.effects.clone(), outbox: lab.outbox.clone() })
    }

    /// The effects file as it is now.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn effects(&self) -> Done<Effects> {
        Effects::read(&self.effects)
    }

    /// How often the author of a task of the flagship was told.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn told(&self, story: &Story) -> Done<usize> {
        let key = format!("{}-notify", story.inputs["task_id"].as_str().unwrap_or_default());
        let log = self.outbox.join("notifications.log");
        if !log.exists() {
            return Ok(0);
        }
        Ok(std::fs::read_to_string(log)?.lines().filter(|line| line.split(' ').next() == Some(key.as_str())).count())
    }

    /// The file that the flagship saves under a task's key.
    pub fn result(&self, story: &Story) -> PathBuf {
        result(&self.outbox, story)
    }

    /// The file that the flagship stages.
    pub fn staged(&self, story: &Story) -> PathBuf {
        self.outbox.join("staged").join(result(Path::new(""), story))
    }

    /// What an entry's effect came to, if it has happened: what a person answers who is asked.
    ///
    /// # Errors
    /// The world cannot be read.
    pub fn outcome(&self, story: &Story, run: &str, path: &str, key: &str) -> Done<Option<Value>> {
        if story.workflow == CONTENT {
            return Ok((self.told(story)? > 0).then(|| json!({"told": "looked up"})));
        }
        let effects = self.effects()?;
        let happened = effects.of(run).iter().any(|line| line.word == Word::Effect && line.path == path && line.key == key);
        Ok(happened.then(|| json!({"key": key})))
    }

    /// The entries whose effect has happened and that the run's transitions do not know to be complete, where it must not be
    /// repeated: nobody who knows of one lets the run go on as if nothing were there. What an entry's `resolve` finds out by
    /// itself does not count.
    ///
    /// # Errors
    /// The effects file cannot be read.
    pub fn loose(&self, run: &str, transitions: &Value) -> Done<BTreeSet<String>> {
        let rows = transitions.as_array().map(Vec::as_slice).unwrap_or_default();
        let effects = self.effects()?;
        let own = effects.of(run).iter().filter(|line| line.word == Word::Effect && line.works());
        let matters = own.filter(|line| self.rules.of(&line.path).is_some_and(|rule| rule.once && !rule.resolves));
        let open = matters.filter(|line| {
            let complete =
                |row: &Value| row["step_name"] == line.path.as_str() && row["to_status"] == "completed" && row["side_effect_id"] == line.key.as_str();
            !rows.iter().any(complete)
        });
        Ok(open.map(|line| line.path.clone()).collect())
    }
}

fn result(folder: &Path, story: &Story) -> PathBuf {
    folder.join(format!("{}.json", story.inputs["task_id"].as_str().unwrap_or_default()))
}
