//! Reviewers: they decide at random, let reviews expire, or have the run cancelled; a decision that was taken stays.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use viat_engine::record::rfc3339;

use super::{Desk, People, Stop};
use crate::chaos::story::Review;

/// How far ahead an expiry is moved: the server refuses what is past when it looks.
const NEAR_MS: i64 = 1_000;

impl People {
    /// Goes through what is asked of reviewers.
    pub(super) fn reviews(&mut self, desk: Desk, numbers: &BTreeMap<String, usize>) -> Result<(), Stop> {
        let page = self.ask(desk, "GET", "/api/v1/reviews?limit=500", None, None)?;
        for review in page.body["items"].as_array().into_iter().flatten() {
            let Some(number) = review["run"].as_str().and_then(|run| numbers.get(run)).copied() else { continue };
            if !self.dice.chance(25) {
                continue;
            }
            let id = review["id"].as_str().unwrap_or_default();
            match self.known[number].story.review {
                Review::Decide(decision) => self.decide(desk, number, id, decision)?,
                Review::Expire => self.let_expire(desk, number, id, review)?,
                Review::Cancel => self.cancel(desk, number)?,
            }
        }
        Ok(())
    }

    fn decide(&mut self, desk: Desk, number: usize, id: &str, decision: &'static str) -> Result<(), Stop> {
        let path = format!("/api/v1/reviews/{id}/decision");
        let body = |decision: &str| json!({"decision": decision, "by": "ben", "comment": "seen"});
        let answer = self.ask(desk, "POST", &path, None, Some(&body(decision)))?;
        match answer.status {
            200 => self.known[number].decided = Some(decision),
            // The one before took, and only its answer was lost; or the run was cancelled.
            409 | 503 => return Ok(()),
            _ => self.odd(number, "a decision", &answer),
        }
        if self.dice.chance(30) {
            let other = if decision == "approved" { "rejected" } else { "approved" };
            let second = self.ask(desk, "POST", &path, None, Some(&body(other)))?;
            if !matches!(second.status, 409 | 503) {
                self.odd(number, "a second decision", &second);
            }
        }
        Ok(())
    }

    fn let_expire(&mut self, desk: Desk, number: usize, id: &str, review: &Value) -> Result<(), Stop> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis() as i64 + desk.offset_s * 1_000;
        let near = rfc3339(now + NEAR_MS);
        // It was moved before and is on its way.
        if review["due"].as_str().is_some_and(|due| due <= near.as_str()) {
            return Ok(());
        }
        let body = json!({"by": "ben", "until": near, "reason": "nobody will look at it"});
        let answer = self.ask(desk, "POST", &format!("/api/v1/reviews/{id}/extension"), None, Some(&body))?;
        // 422: the clock was stepped meanwhile, and that is past now.
        if !matches!(answer.status, 200 | 409 | 422 | 503) {
            self.odd(number, "an extension", &answer);
        }
        Ok(())
    }
}
