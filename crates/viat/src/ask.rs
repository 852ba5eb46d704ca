//! What people ask of runs: decide and extend reviews, settle, compensate, resume, migrate. Shared by the command line and the API.

use std::sync::Arc;

use clap::ValueEnum;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};
use viat_engine::Input;
use viat_engine::journal::{Event, Millis, ReviewDecision, Verdict};
use viat_engine::record::{ReviewRecord, rfc3339};
use viat_engine::template::{MAX_DEPTH, is_too_deep};
use viat_runner::assets::{self, Pins};
use viat_runner::clock::wall_now;
use viat_runner::driver::{Driver, PENDING_REVIEW, WITHDRAWN};
use viat_store::{ReviewRow, RunId, Store};

use crate::cli::error::CliError;
use crate::cli::{duration_value, history, missing, run_record};

/// The most bytes of a name, a reason or a path.
const MAX_WORD: usize = 4_096;
/// The most bytes of a comment.
const MAX_COMMENT: usize = 64 << 10;

/// What a person can decide; a review also expires, but nobody decides that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub enum Decision {
    /// Yes.
    Approved,
    /// No.
    Rejected,
    /// Not like this.
    ChangesRequested,
}

impl Decision {
    /// All of them.
    pub const ALL: [Decision; 3] = [Decision::Approved, Decision::Rejected, Decision::ChangesRequested];

    /// The engine's word for it.
    pub fn verdict(self) -> Verdict {
        match self {
            Decision::Approved => Verdict::Approved,
            Decision::Rejected => Verdict::Rejected,
            Decision::ChangesRequested => Verdict::ChangesRequested,
        }
    }
}

/// A decision on a review.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DecisionBody {
    /// What.
    pub decision: Decision,
    /// Who.
    pub by: String,
    /// What they say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// The form's fields.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub data: Value,
}

/// A new expiry of a review: exactly one of `for` and `until`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExtensionBody {
    /// Who.
    pub by: String,
    /// So much later than now planned: a duration as the language spells it.
    #[serde(default, rename = "for", skip_serializing_if = "Value::is_null")]
    pub span: Value,
    /// At this time: RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What came of an attempt whose outcome is unknown: exactly one of `completed` and `not_done`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SettleBody {
    /// The entry's id or path.
    pub step: String,
    /// It took effect, and this is the entry's output; `null` is an output too.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub completed: Option<Value>,
    /// It did not.
    #[serde(default)]
    pub not_done: bool,
    /// Who says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Who asks, and why.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WhoBody {
    /// Who.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// How a failed run is to go on.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResumeBody {
    /// Who.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// An earlier entry to start again at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Why effects that are in place may be repeated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accept_repeat: Option<String>,
}

/// Where a run is to be moved.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MigrateBody {
    /// The workflow's version.
    pub to_version: u64,
    /// Why.
    pub reason: String,
    /// Who.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// Finds a review by its id.
pub fn find_review(store: &dyn Store, id: &str) -> Result<ReviewRow, CliError> {
    let found = store.review(id).map_err(CliError::store)?;
    found.ok_or_else(|| CliError::not_found(format!("there is no review {id}")).help("`viat review list --status all` shows those there are"))
}

/// What a review asks, and what was answered.
pub fn asked(store: &dyn Store, row: &ReviewRow) -> Result<ReviewRecord, CliError> {
    let record = run_record(store, &row.run)?;
    let found = record.reviews.into_iter().rev().find(|review| review.id == row.id);
    found.ok_or_else(|| CliError::failed(format!("the journal of run {} does not have review {}", row.run, row.id)))
}

/// The form's fields are checked before the run is asked: what does not fit is the caller's mistake.
fn check_data(store: &dyn Store, row: &ReviewRow, body: &DecisionBody) -> Result<(), CliError> {
    if body.data.is_null() && body.decision != Decision::Approved {
        return Ok(());
    }
    let form = asked(store, row)?.form;
    if form.is_empty() {
        let fits = body.data.is_null();
        return if fits { Ok(()) } else { Err(CliError::usage("this review has no form: it takes no data")) };
    }
    let given = if body.data.is_null() { json!({}) } else { body.data.clone() };
    let checked = viat_dialect::check_form(&form, &given);
    checked.map(drop).map_err(|problems| {
        let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
        CliError::usage(format!("the data does not fit the form: {}", lines.join("; ").replace("inputs.", "")))
    })
}

/// Takes a decision; when this returns it is durable.
pub fn decide(store: &dyn Store, driver: &Driver, id: &str, body: DecisionBody) -> Result<ReviewRow, CliError> {
    let row = find_review(store, id)?;
    refuse_if_over(&row)?;
    word(&body.by, "the name of who decides")?;
    if body.comment.as_ref().is_some_and(|comment| comment.len() > MAX_COMMENT) {
        return Err(CliError::usage(format!("a comment has at most {MAX_COMMENT} bytes")));
    }
    shallow(&body.data, "the data")?;
    check_data(store, &row, &body)?;
    let decision = ReviewDecision { decision: body.decision.verdict(), by: Some(body.by), comment: body.comment, data: body.data };
    ask_about(store, driver, &row, Input::Decide { review: row.id.clone(), decision })
}

/// Moves a review's expiry; when this returns it is durable.
pub fn extend(store: &dyn Store, driver: &Driver, id: &str, body: ExtensionBody) -> Result<ReviewRow, CliError> {
    let row = find_review(store, id)?;
    refuse_if_over(&row)?;
    word(&body.by, "the name of who extends it")?;
    optional_word(body.reason.as_deref(), "the reason")?;
    let due = new_due(&body, row.due, wall_now())?;
    ask_about(store, driver, &row, Input::Extend { review: row.id.clone(), due: Some(due), by: Some(body.by), reason: body.reason })
}

/// When a review expires from now on.
fn new_due(body: &ExtensionBody, due: Option<Millis>, now: Millis) -> Result<Millis, CliError> {
    let span = duration_value(&body.span, "for")?;
    let new = match (span, &body.until) {
        (Some(ms), None) => due.unwrap_or(now).max(now).saturating_add(Millis::try_from(ms).unwrap_or(Millis::MAX)),
        (None, Some(until)) => {
            let parsed = until.parse::<jiff::Timestamp>();
            parsed.map_err(|_| CliError::usage(format!("{until:?} is no time")).help("write it as in 2026-01-31T08:00:00Z"))?.as_millisecond()
        }
        _ => return Err(CliError::usage("say either for how long or until when").help("a duration such as P2D, or a time such as 2026-01-31T08:00:00Z")),
    };
    if new <= now {
        return Err(CliError::usage(format!("{} is past: a review is extended into the future", rfc3339(new))));
    }
    Ok(new)
}

/// The first decision is shown to whoever comes second.
pub fn refuse_if_over(row: &ReviewRow) -> Result<(), CliError> {
    if row.status == PENDING_REVIEW { Ok(()) } else { Err(CliError::refused(how_it_ended(row))) }
}

/// What became of a review that is over, in a sentence.
pub fn how_it_ended(row: &ReviewRow) -> String {
    let at = row.decided_at.map(|at| format!(" at {}", rfc3339(at))).unwrap_or_default();
    let by = row.by.as_ref().map(|by| format!(" by {by}")).unwrap_or_default();
    let comment = row.comment.as_ref().filter(|comment| !comment.is_empty()).map(|comment| format!(": {comment}")).unwrap_or_default();
    match row.status.as_str() {
        WITHDRAWN => format!("review {} was withdrawn{at}: its run, or the part of it that asked, has ended", row.id),
        "expired" => format!("review {} expired{at}", row.id),
        status => format!("review {} was already decided: {status}{by}{at}{comment}", row.id),
    }
}

fn ask_about(store: &dyn Store, driver: &Driver, row: &ReviewRow, input: Input) -> Result<ReviewRow, CliError> {
    match driver.ask_run(&row.run, input) {
        Ok(()) => find_review(store, &row.id),
        Err(error) => {
            // Somebody else may have been faster; their decision says more than the engine's refusal.
            let now = find_review(store, &row.id)?;
            refuse_if_over(&now)?;
            let expired = now.due.filter(|due| *due <= wall_now());
            Err(expired.map_or_else(|| CliError::driver(error), |due| CliError::refused(format!("review {} expired at {}", row.id, rfc3339(due)))))
        }
    }
}

/// Settles an attempt whose outcome is unknown; when this returns it is durable.
pub fn settle(driver: &Driver, run: &RunId, body: SettleBody) -> Result<(), CliError> {
    who(body.by.as_deref(), body.reason.as_deref())?;
    word(&body.step, "the step")?;
    let output = match (body.completed, body.not_done) {
        (Some(output), false) => Some(output),
        (None, true) => None,
        _ => return Err(CliError::usage("say either what it completed with or that it was not done")),
    };
    if let Some(output) = &output {
        shallow(output, "the output")?;
    }
    driver.ask_run(run, Input::Settle { step: body.step, output, by: body.by, reason: body.reason }).map_err(CliError::driver)
}

/// The input that asks for a run's compensation.
pub fn compensate(body: WhoBody) -> Result<Input, CliError> {
    who(body.by.as_deref(), body.reason.as_deref())?;
    Ok(Input::Compensate { by: body.by, reason: body.reason })
}

/// The input that lets a failed run go on.
pub fn resume(body: ResumeBody) -> Result<Input, CliError> {
    who(body.by.as_deref(), body.reason.as_deref())?;
    optional_word(body.from.as_deref(), "the step")?;
    optional_word(body.accept_repeat.as_deref(), "the reason to accept a repeat")?;
    Ok(Input::Resume { by: body.by, reason: body.reason, from: body.from, accept_repeat: body.accept_repeat })
}

/// Moves a run to another version of its workflow; when this returns it is durable.
pub fn migrate(store: &dyn Store, driver: &Driver, run: &RunId, body: MigrateBody) -> Result<(), CliError> {
    who(body.by.as_deref(), Some(&body.reason))?;
    let row = store.run(run).map_err(CliError::store)?.ok_or_else(|| CliError::not_found(format!("there is no run {run}")))?;
    let revision = store.revision().map_err(CliError::store)?;
    let draft = is_draft(store, run)?;
    let version = body.to_version;
    let program = match assets::program(store, &row.workflow, Pins { version, revision, draft }) {
        Err(assets::AssetError::Missing(_)) => return Err(missing(store, assets::WORKFLOW, &row.workflow, Some(version))),
        found => found.map_err(CliError::assets)?,
    };
    let input = Input::Migrate { version, revision, program: Arc::new(program), reason: body.reason, by: body.by };
    driver.ask_run(run, input).map_err(CliError::driver)
}

/// A rehearsal goes on using drafts of what it calls.
fn is_draft(store: &dyn Store, run: &RunId) -> Result<bool, CliError> {
    let first = history::read(store, run, |journal| journal.next())?;
    Ok(matches!(first.as_ref().and_then(|batch| batch.events.first()), Some(Event::Created(created)) if created.draft))
}

fn who(by: Option<&str>, reason: Option<&str>) -> Result<(), CliError> {
    optional_word(by, "the name")?;
    optional_word(reason, "the reason")
}

fn optional_word(text: Option<&str>, what: &str) -> Result<(), CliError> {
    text.map_or(Ok(()), |text| word(text, what))
}

/// Names and reasons are short and harmless.
pub fn word(text: &str, what: &str) -> Result<(), CliError> {
    if text.trim().is_empty() || text.len() > MAX_WORD || text.chars().any(char::is_control) {
        return Err(CliError::usage(format!("{what} has 1 to {MAX_WORD} bytes, not only blanks, and no control characters")));
    }
    Ok(())
}

fn shallow(value: &Value, what: &str) -> Result<(), CliError> {
    if is_too_deep(value) { Err(CliError::usage(format!("{what} is nested deeper than {MAX_DEPTH} levels"))) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extension(span: Value, until: Option<&str>) -> ExtensionBody {
        ExtensionBody { by: "ada".to_owned(), span, until: until.map(str::to_owned), reason: None }
    }

    #[test]
    fn an_expiry_moves_from_where_it_is() {
        let due = |span: &str, due, now| new_due(&extension(span.into(), None), due, now).ok();
        assert_eq!(due("PT1S", Some(5_000), 1_000), Some(6_000));
        assert_eq!(due("PT1S", None, 1_000), Some(2_000));
        assert_eq!(due("PT1S", Some(10), 1_000), Some(2_000), "one that is just past counts from now");
        assert_eq!(due("PT0S", None, 1_000), None);
    }

    #[test]
    fn either_for_or_until() {
        let due = |span: Value, until| new_due(&extension(span, until), None, 0).ok();
        assert_eq!(due(Value::Null, Some("1970-01-01T00:00:02Z")), Some(2_000));
        assert_eq!(due(Value::Null, Some("1969-01-01T00:00:02Z")), None);
        assert_eq!(due(Value::Null, Some("tomorrow")), None);
        assert_eq!(due(Value::Null, None), None);
        assert_eq!(due("PT1S".into(), Some("1970-01-01T00:00:02Z")), None);
    }

    #[test]
    fn null_is_an_output() {
        let body: SettleBody = serde_json::from_str(r#"{"step": "a", "completed": null}"#).expect("fits");
        assert_eq!(body.completed, Some(Value::Null));
        let body: SettleBody = serde_json::from_str(r#"{"step": "a", "not_done": true}"#).expect("fits");
        assert_eq!(body.completed, None);
    }

    #[test]
    fn the_second_is_told_of_the_first() {
        let row = ReviewRow {
            id: "i".to_owned(),
            run: RunId::from("r"),
            path: "a".to_owned(),
            title: "t".to_owned(),
            assignees: vec![],
            status: "rejected".to_owned(),
            created_at: 0,
            due: None,
            decided_at: Some(1_000),
            by: Some("ana".to_owned()),
            comment: Some("too long".to_owned()),
        };
        let told = refuse_if_over(&row).expect_err("it is over");
        assert_eq!(told.message(), "review i was already decided: rejected by ana at 1970-01-01T00:00:01.000Z: too long");
        assert_eq!(told.code(), 3);
        let expired = ReviewRow { status: "expired".to_owned(), by: None, comment: None, ..row };
        assert_eq!(how_it_ended(&expired), "review i expired at 1970-01-01T00:00:01.000Z");
    }
}
