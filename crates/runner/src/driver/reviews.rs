//! The index of reviews follows the journal: which rows the events of a batch change, in the very unit that appends it.

use std::collections::BTreeMap;

use viat_engine::journal::{Batch, Event, Millis};
use viat_engine::path::Path;
use viat_store::{ReviewFilter, ReviewRow, RunId, Store, StoreError};

/// The status of a review that nobody has decided yet.
pub const PENDING_REVIEW: &str = "pending_review";
/// The status of a review whose answer nobody needs any more: its run, or the part of it that asked, has ended.
pub const WITHDRAWN: &str = "withdrawn";

/// The most open reviews of one run that are looked at.
const MAX_OPEN: usize = 100_000;

/// A run's open reviews, by the entries that ask.
pub(super) type OpenReviews = BTreeMap<String, ReviewRow>;

/// The open reviews of a run that is loaded.
pub(super) fn open_reviews(store: &dyn Store, run: &RunId) -> Result<OpenReviews, StoreError> {
    let filter = ReviewFilter { status: Some(PENDING_REVIEW.to_owned()), run: Some(run.clone()), limit: MAX_OPEN, ..ReviewFilter::default() };
    let found = store.reviews(&filter)?;
    Ok(found.into_iter().map(|row| (row.path.clone(), row)).collect())
}

/// The rows that a batch changes, each once; `open` is brought up to date.
pub(super) fn changed(open: &mut OpenReviews, run: &RunId, batch: &Batch) -> Vec<ReviewRow> {
    let mut rows = BTreeMap::new();
    for event in &batch.events {
        for row in event_changes(open, run, event, batch.at) {
            rows.insert(row.id.clone(), row);
        }
    }
    rows.into_values().collect()
}

fn event_changes(open: &mut OpenReviews, run: &RunId, event: &Event, at: Millis) -> Vec<ReviewRow> {
    match event {
        Event::ReviewRequested { path, review } => {
            // A run that was moved to another version asks what it had asked before anew.
            let before = open.get(path.as_str()).filter(|row| row.id == review.id);
            let row = ReviewRow {
                id: review.id.clone(),
                run: run.clone(),
                path: path.to_string(),
                title: review.title.clone(),
                assignees: review.assignees.clone(),
                status: PENDING_REVIEW.to_owned(),
                created_at: before.map_or(at, |row| row.created_at),
                due: review.due,
                decided_at: None,
                by: None,
                comment: None,
            };
            open.insert(row.path.clone(), row.clone());
            vec![row]
        }
        Event::ReviewExtended { path, due, .. } => {
            let row = open.get_mut(path.as_str());
            row.map(|row| {
                row.due = *due;
                row.clone()
            })
            .into_iter()
            .collect()
        }
        Event::ReviewDecided { path, decision } => {
            let row = open.remove(path.as_str()).map(|row| ReviewRow {
                status: decision.decision.name().to_owned(),
                decided_at: Some(at),
                by: decision.by.clone(),
                comment: decision.comment.clone(),
                ..row
            });
            row.into_iter().collect()
        }
        // What asked is being ended from outside.
        Event::ContainerStopped { path, .. } | Event::EntryFailed { path, .. } => withdraw(open, at, |asking| is_inside(asking, path)),
        Event::CompensationStarted { .. } | Event::Succeeded { .. } | Event::Failed { .. } | Event::Cancelled { .. } => withdraw(open, at, |_| true),
        _ => Vec::new(),
    }
}

fn withdraw(open: &mut OpenReviews, at: Millis, which: impl Fn(&str) -> bool) -> Vec<ReviewRow> {
    let over: Vec<String> = open.keys().filter(|path| which(path)).cloned().collect();
    let rows = over.iter().filter_map(|path| open.remove(path));
    rows.map(|row| ReviewRow { status: WITHDRAWN.to_owned(), decided_at: Some(at), ..row }).collect()
}

fn is_inside(asking: &str, outer: &Path) -> bool {
    asking.strip_prefix(outer.as_str()).is_some_and(|rest| rest.starts_with(['.', '[']))
}

#[cfg(test)]
mod tests {
    use viat_engine::failure::{Outcome, RunError};
    use viat_engine::journal::{ReviewDecision, ReviewRequest, Verdict};

    use super::*;

    fn requested(path: &str, id: &str) -> Event {
        let review =
            ReviewRequest { id: id.to_owned(), title: format!("T {id}"), show: 1.into(), form: vec![], assignees: vec![], due: Some(9), remind: vec![] };
        Event::ReviewRequested { path: Path::from(path), review: Box::new(review) }
    }

    fn decided(path: &str) -> Event {
        let decision = ReviewDecision { decision: Verdict::Rejected, by: Some("ada".to_owned()), comment: Some("no".to_owned()), data: 1.into() };
        Event::ReviewDecided { path: Path::from(path), decision }
    }

    fn error() -> RunError {
        RunError::of_run(Outcome::Cancelled, "cancelled", "m", None)
    }

    fn told(open: &mut OpenReviews, at: Millis, events: Vec<Event>) -> Vec<String> {
        let rows = changed(open, &RunId::from("r"), &Batch { at, events });
        let text = rows.iter().map(|row| format!("{} {} {} due {:?} over {:?} by {:?}", row.id, row.path, row.status, row.due, row.decided_at, row.by));
        text.collect()
    }

    #[test]
    fn a_review_is_asked_extended_and_decided() {
        let mut open = OpenReviews::new();
        assert_eq!(told(&mut open, 1, vec![requested("a", "1")]), ["1 a pending_review due Some(9) over None by None"]);
        let extended = Event::ReviewExtended { path: Path::from("a"), due: None, by: None, reason: None };
        assert_eq!(told(&mut open, 2, vec![extended]), ["1 a pending_review due None over None by None"]);
        assert_eq!(told(&mut open, 3, vec![decided("a")]), ["1 a rejected due None over Some(3) by Some(\"ada\")"]);
        assert!(open.is_empty());
        assert!(told(&mut open, 4, vec![decided("a"), Event::Failed { error: error() }]).is_empty(), "a review is over once");
    }

    #[test]
    fn one_batch_gives_each_review_one_row() {
        let mut open = OpenReviews::new();
        let rows = told(&mut open, 5, vec![requested("a", "1"), requested("b", "2"), decided("a")]);
        assert_eq!(rows, ["1 a rejected due Some(9) over Some(5) by Some(\"ada\")", "2 b pending_review due Some(9) over None by None"]);
        assert_eq!(open.len(), 1);
    }

    #[test]
    fn what_ends_from_outside_withdraws_what_it_asked() {
        let mut open = OpenReviews::new();
        told(&mut open, 1, vec![requested("fan.l.a", "1"), requested("fan2", "2"), requested("fan[3].b", "3")]);
        let stopped = Event::ContainerStopped { path: Path::from("fan"), error: error() };
        let over = |id: &str, path: &str, at: i64| format!("{id} {path} withdrawn due Some(9) over Some({at}) by None");
        assert_eq!(told(&mut open, 2, vec![stopped]), [over("1", "fan.l.a", 2), over("3", "fan[3].b", 2)]);
        assert_eq!(told(&mut open, 3, vec![Event::Cancelled { error: error() }]), [over("2", "fan2", 3)]);
    }
}
