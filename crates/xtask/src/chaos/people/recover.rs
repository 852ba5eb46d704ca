//! Whoever is on duty: settles what nobody could find out, and resumes what a crash has stopped, after a look at the world.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Desk, People, Stop};

impl People {
    /// Says of each entry that waits for it what really came of its attempt.
    pub(super) fn settle(&mut self, desk: Desk, number: usize) -> Result<(), Stop> {
        let run = self.known[number].run.clone().unwrap_or_default();
        let found = self.ask(desk, "GET", &format!("/api/v1/runs/{run}/transitions"), None, None)?;
        for (path, key) in waiting(&found.body) {
            let outcome = self.truth.outcome(&self.known[number].story, &run, &path, &key)?;
            let mut body = json!({"step": path, "by": "eva", "reason": "looked into the effects file"});
            match outcome {
                Some(output) => body["completed"] = output,
                None => body["not_done"] = true.into(),
            }
            let answer = self.about(desk, number, "settle", &body)?;
            match answer.status {
                202 => self.known[number].settled += 1,
                // Settled before, and only the answer was lost; or the run is being cancelled.
                409 | 503 => {}
                _ => self.odd(number, "settle", &answer),
            }
        }
        Ok(())
    }

    /// A refusal is final. What a crash has stopped goes on, unless something has happened that would then happen twice, or
    /// the crash has left it open whether something was undone.
    pub(super) fn failed(&mut self, desk: Desk, number: usize, row: &Value) -> Result<(), Stop> {
        if self.known[number].over {
            return Ok(());
        }
        if row["error_class"] == "user" || self.known[number].cancelled {
            self.known[number].over = true;
            return Ok(());
        }
        let run = self.known[number].run.clone().unwrap_or_default();
        let transitions = self.ask(desk, "GET", &format!("/api/v1/runs/{run}/transitions"), None, None)?;
        let record = self.ask(desk, "GET", &format!("/api/v1/runs/{run}"), None, None)?;
        if transitions.status != 200 || record.status != 200 || record.body["status"] != "failed" {
            return Ok(());
        }
        let undone_or_not = record.body["ledger"].as_array().into_iter().flatten().any(|entry| entry["status"] == "compensation_failed");
        if undone_or_not || !self.truth.loose(&run, &transitions.body)?.is_empty() {
            self.known[number].left = true;
            self.known[number].over = true;
            return Ok(());
        }
        let answer = self.about(desk, number, "resume", &json!({"by": "eva", "reason": "nothing has happened that would happen twice"}))?;
        match answer.status {
            202 => self.known[number].resumed += 1,
            409 | 503 => {}
            _ => self.odd(number, "resume", &answer),
        }
        Ok(())
    }
}

/// The entries that wait to be settled, and the keys of their effects.
fn waiting(transitions: &Value) -> Vec<(String, String)> {
    let mut last: BTreeMap<&str, &Value> = BTreeMap::new();
    for row in transitions.as_array().into_iter().flatten() {
        if let Some(step) = row["step_name"].as_str() {
            last.insert(step, row);
        }
    }
    let waiting = last.into_iter().filter(|(_, row)| row["to_status"] == "needs_attention");
    waiting.map(|(step, row)| (step.to_owned(), row["side_effect_id"].as_str().unwrap_or_default().to_owned())).collect()
}
