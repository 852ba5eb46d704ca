//! The flagship's own effects, as they lie in its outbox: saved once, told once, nothing staged left behind.

use serde_json::Value;

use super::{Case, Wrong, text};
use crate::chaos::story::CONTENT;
use crate::chaos::truth::Truth;
use crate::shell::Done;

pub(super) fn check(case: &Case, truth: &Truth) -> Done<Wrong> {
    let Some(story) = case.known.map(|known| &known.story).filter(|story| story.workflow == CONTENT) else { return Ok(Wrong::new()) };
    let rows = case.facts.record["ledger"].as_array().map(Vec::as_slice).unwrap_or_default();
    let standing = |step: &str| rows.iter().find(|row| text(row, "path").rsplit('.').next() == Some(step)).map(|row| text(row, "status"));
    let mut wrong = Wrong::new();
    let told = truth.told(story)?;
    if told > 1 {
        wrong.push(format!("the author was told {told} times"));
    }
    if standing("notify").is_some() && told == 0 {
        wrong.push("the author is said to have been told, and was not".to_owned());
    }
    let saved = std::fs::read_to_string(truth.result(story)).ok();
    let ours = saved.as_ref().is_some_and(|text| serde_json::from_str::<Value>(text).is_ok());
    if standing("save_result").is_some() && !ours {
        wrong.push("the result is said to be saved, and is not".to_owned());
    }
    if ours && !case.facts.events().any(|event| event["type"] == "script_entered" && text(event, "path") == "outcome.save_result") {
        wrong.push("a result is saved that nobody has approved".to_owned());
    }
    if story.conflict && ours {
        wrong.push("another result was overwritten".to_owned());
    }
    let staged_stays = standing("stage_draft") == Some("compensation_failed");
    // An attempt that a cancel ended may have staged it all the same: that is not known, and nobody undoes it.
    let cut_off = standing("stage_draft").is_none();
    if truth.staged(story).exists() && !staged_stays && !cut_off {
        wrong.push("the staged draft is still there".to_owned());
    }
    Ok(wrong)
}
