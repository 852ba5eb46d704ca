//! `review`: a person decides; every outcome, expiry too, is a value.

use serde_json::{Map, Value};

use crate::decide::Rejection;
use crate::ir::Review;
use crate::journal::{Event, Millis, ReviewDecision, ReviewRequest, Verdict};
use crate::key;
use crate::path::Path;
use crate::record::rfc3339;
use crate::run::{ReviewState, Run};
use crate::template::described;
use crate::turn::Turn;

pub(crate) fn enter(turn: &mut Turn<'_>, frame: &Path, path: &Path, review: &Review) -> Result<(), String> {
    if let Some((due, kept)) = kept(turn.run, path) {
        // It was open when the run was moved to another version: it is the same review still.
        let review = Box::new(ReviewRequest { due, ..kept.request });
        turn.emit(Event::ReviewRequested { path: path.clone(), review });
        return Ok(());
    }
    let now = turn.now;
    let after = |ms: u64| now.saturating_add(Millis::try_from(ms).unwrap_or(Millis::MAX));
    let title = match turn.fill(&review.title, frame)? {
        Value::String(title) if !title.trim().is_empty() => title,
        other => return Err(format!("title must be a string with something in it, it is {}", described(&other))),
    };
    let show = review.show.as_ref().map(|show| turn.fill(show, frame)).transpose()?.unwrap_or_default();
    let assignees = match review.assignees.as_ref().map(|assignees| turn.fill(assignees, frame)).transpose()? {
        None => Vec::new(),
        Some(given) => names(given)?,
    };
    let visit = turn.run.ledger.get(path).map_or(0, |entry| entry.attempts) + 1;
    let request = ReviewRequest {
        id: key::review(&turn.run.created.run, path, visit),
        title,
        show,
        form: review.form.clone(),
        assignees,
        due: review.timeout_ms.map(after),
        remind: review.remind_ms.iter().copied().map(after).collect(),
    };
    let expired = request.due.is_some_and(|due| due <= now);
    turn.emit(Event::ReviewRequested { path: path.clone(), review: Box::new(request) });
    if expired {
        expire(turn, path.clone());
    }
    Ok(())
}

fn names(given: Value) -> Result<Vec<String>, String> {
    let wrong = |given: &Value| format!("assignees must be a list of names, it is {}", described(given));
    let Value::Array(items) = &given else { return Err(wrong(&given)) };
    let names = items.iter().map(|item| item.as_str().filter(|name| !name.is_empty()).map(str::to_owned));
    names.collect::<Option<_>>().ok_or_else(|| wrong(&given))
}

fn kept(run: &Run, path: &Path) -> Option<(Option<Millis>, ReviewState)> {
    let wait = run.kept_waits.get(path)?;
    Some((wait.due, *wait.review.clone()?))
}

/// Time has passed: the assignees are reminded, or the review expires.
pub(crate) fn expire(turn: &mut Turn<'_>, path: Path) {
    let now = turn.now;
    loop {
        let Some((_, wait)) = turn.run.waits().find(|(at, _)| *at == path) else { return };
        let Some(review) = &wait.review else { return };
        if wait.due.is_some_and(|due| due <= now) {
            let decision = ReviewDecision { decision: Verdict::Expired, by: None, comment: None, data: Value::Null };
            return turn.emit(Event::ReviewDecided { path, decision });
        }
        if review.request.remind.get(review.reminded).is_none_or(|at| *at > now) {
            return;
        }
        let number = u32::try_from(review.reminded + 1).unwrap_or(u32::MAX);
        turn.emit(Event::ReviewReminded { path: path.clone(), number });
    }
}

/// A person decides.
pub(crate) fn decide(turn: &mut Turn<'_>, review: &str, decision: ReviewDecision) -> Result<(), Rejection> {
    let (path, request) = open(turn, review)?;
    if decision.decision == Verdict::Expired {
        return Err(Rejection::Refused("a review expires by itself; decide approved, rejected or changes_requested".to_owned()));
    }
    let decision = decision.fitting(&request.form, turn.evaluator).map_err(Rejection::Refused)?;
    turn.emit(Event::ReviewDecided { path, decision });
    Ok(())
}

/// A person moves the expiry.
pub(crate) fn extend(turn: &mut Turn<'_>, review: &str, due: Option<Millis>, by: Option<String>, reason: Option<String>) -> Result<(), Rejection> {
    let (path, _) = open(turn, review)?;
    if due.is_some_and(|due| due <= turn.now) {
        return Err(Rejection::Refused("a review is extended to a time that lies ahead".to_owned()));
    }
    turn.emit(Event::ReviewExtended { path, due, by, reason });
    Ok(())
}

fn open(turn: &Turn<'_>, id: &str) -> Result<(Path, ReviewRequest), Rejection> {
    let stopping = turn.run.stopping.is_some();
    let mut found = turn.run.waits().filter(|(path, _)| !stopping && !turn.run.is_stopped(path));
    let found = found.find_map(|(path, wait)| wait.review.as_ref().filter(|review| review.request.id == id).map(|review| (path, review.request.clone())));
    found.ok_or_else(|| Rejection::Refused(format!("the review {id} is not open")))
}

impl ReviewDecision {
    /// The value of the entry: `{decision, by, at, comment, data}`.
    pub fn to_value(&self, at: Millis) -> Value {
        let mut map = Map::new();
        map.insert("decision".into(), self.decision.name().into());
        map.insert("by".into(), self.by.clone().into());
        map.insert("at".into(), rfc3339(at).into());
        map.insert("comment".into(), self.comment.clone().into());
        map.insert("data".into(), self.data.clone());
        Value::Object(map)
    }
}
