//! The record of recovery: what was undone, what people decided, how often the run was begun anew.

use serde_json::Value;

use super::{Compensation, Decision, Failure, Fold, LedgerStatus, Millis, Path, Reason, ReviewRecord, Status};
use crate::journal::{Event, ReviewDecision, ReviewRequest, Undo};

/// The status of a review that nobody has decided yet.
const PENDING: &str = "pending_review";

impl Fold {
    pub(super) fn recovery(&mut self, event: &Event, at: Millis) {
        match event {
            Event::CompensationPrepared { path, undo } => {
                let irreversible = if let Undo::Irreversible(why) = undo { Some(why.clone()) } else { None };
                if let Undo::Unusable(why) = undo {
                    self.explain(path, why);
                }
                self.undoable.insert(path.clone(), irreversible);
            }
            Event::CompensationStarted { error, .. } => {
                self.withdraw_reviews();
                self.asking.clear();
                if let Some(record) = &mut self.record {
                    record.status = Status::Compensating;
                    record.compensation = Compensation::Running;
                    record.error = Some(error.clone());
                    record.ended_at = None;
                }
            }
            Event::EffectIrreversible { path } => {
                let why = self.undoable.get(path).cloned().flatten();
                self.undone(path, LedgerStatus::Irreversible, why);
            }
            Event::CompensationFailed { path, failure } => self.undone(path, LedgerStatus::CompensationFailed, Some(failure.message.clone())),
            Event::Resolved { path, attempt, output: Some(_) } => {
                if let Some(row) = self.attempt(path, *attempt) {
                    row.decision = Some(Decision::stop(Reason::Resolved));
                }
                self.completed(path);
            }
            Event::AttentionNeeded { path, error } => {
                self.asking.insert(path.clone(), error.clone());
                self.ask();
            }
            Event::ContainerStopped { path, .. } => {
                self.asking.retain(|asking, _| !asking.is_inside(path));
                self.ask();
            }
            Event::Settled { path, output, .. } => {
                self.asking.remove(path);
                self.ask();
                self.leave_open(path, false);
                if output.is_some() {
                    self.completed(path);
                }
            }
            Event::Resolved { path, output: None, .. } => self.leave_open(path, false),
            Event::Resumed { deadline, from, .. } => self.resumed(*deadline, from.as_ref()),
            Event::Migrated { version, revision, .. } => self.record.iter_mut().for_each(|record| (record.version, record.revision) = (*version, *revision)),
            Event::ReviewRequested { path, review } => self.review_requested(path, review, at),
            Event::ReviewExtended { path, due, .. } => self.review(path).into_iter().for_each(|review| review.due = *due),
            Event::ReviewDecided { path, decision } => self.review_decided(path, decision, at),
            _ => {}
        }
    }

    /// Notes the order in which entries are reached first.
    pub(super) fn reach(&mut self, event: &Event) {
        if let Event::ScriptEntered { path, .. }
        | Event::WaitEntered { path, .. }
        | Event::ReviewRequested { path, .. }
        | Event::LoopEntered { path, .. }
        | Event::CompensateEntered { path, .. } = event
        {
            let next = self.reached.len();
            self.reached.entry(path.clone()).or_insert(next);
        }
    }

    /// While the run goes on its error is that of the first entry about which a person has to say something.
    fn ask(&mut self) {
        let error = self.asking.values().next().cloned();
        self.record.iter_mut().for_each(|record| record.error.clone_from(&error));
    }

    fn resumed(&mut self, deadline: Option<Millis>, from: Option<&Path>) {
        let Some(record) = &mut self.record else { return };
        record.status = Status::Running;
        record.compensation = Compensation::None;
        record.error = None;
        record.outputs = None;
        record.ended_at = None;
        record.deadline = deadline;
        let again = |path: &Path| self.again.permitted(path);
        for row in record.ledger.iter_mut().filter(|row| row.status == LedgerStatus::CompensationFailed && again(&row.path)) {
            (row.status, row.reason) = (LedgerStatus::Completed, None);
        }
        // What is done again asks again for its tasks.
        let named = |path: &Path| from.is_some_and(|from| path == from || path.is_inside(from));
        let first = self.reached.iter().filter(|(path, _)| named(path)).map(|(_, at)| *at).min();
        for task in self.discarded_by_end.drain(..) {
            let task = &mut record.deferred[task];
            let again = first.is_some_and(|first| self.reached.get(&task.path).is_some_and(|at| *at >= first));
            task.discarded = again;
        }
    }

    pub(super) fn undone(&mut self, path: &Path, status: LedgerStatus, reason: Option<String>) {
        let rows = self.record.iter_mut().flat_map(|record| &mut record.ledger);
        for row in rows.filter(|row| row.path == *path) {
            row.status = status;
            row.reason.clone_from(&reason);
        }
        if status == LedgerStatus::Compensated && self.record.as_ref().is_some_and(|record| record.compensation == Compensation::Running) {
            self.discard_tasks(|task| task.path == *path);
            let tasks = self.record.as_ref().map_or(&[][..], |record| &record.deferred);
            self.discarded_by_end.retain(|at| tasks.get(*at).is_some_and(|task| task.path != *path));
        }
    }

    /// The effect at `path` is in place, and cannot be undone.
    fn explain(&mut self, path: &Path, why: &str) {
        let rows = self.record.iter_mut().flat_map(|record| &mut record.ledger);
        for row in rows.filter(|row| row.path == *path) {
            row.reason = Some(why.to_owned());
        }
    }

    pub(super) fn undo_failed(&mut self, path: &Path, failure: &Failure, decision: &Decision) {
        let by_run = self.record.as_ref().is_some_and(|record| record.compensation == Compensation::Running);
        let has_another_go = decision.is_cut_short() && !by_run && self.again.may_repeat(path);
        if decision.retry_wait_ms().is_none() && !has_another_go {
            self.undone(path, LedgerStatus::CompensationFailed, Some(format!("{}: {}", failure.code, failure.message)));
        }
    }

    /// Where compensation stands once the run has ended.
    pub(super) fn conclude_compensation(&mut self, status: Status) {
        let Some(record) = &mut self.record else { return };
        let rows = record.ledger.iter().filter(|row| self.undoable.contains_key(&row.path));
        let standings: Vec<LedgerStatus> = rows.map(|row| row.status).collect();
        record.compensation = match status {
            Status::Succeeded => Compensation::None,
            _ if standings.is_empty() => Compensation::None,
            _ if standings.contains(&LedgerStatus::Completed) => Compensation::Available,
            _ if standings.iter().all(|standing| *standing == LedgerStatus::Compensated) => Compensation::Complete,
            _ => Compensation::Partial,
        };
    }

    fn review_requested(&mut self, path: &Path, review: &ReviewRequest, at: Millis) {
        let Some(record) = &mut self.record else { return };
        // The same one again, after the run was moved to another version.
        record.reviews.retain(|known| known.id != review.id);
        record.reviews.push(ReviewRecord {
            id: review.id.clone(),
            step: path.last().to_owned(),
            path: path.clone(),
            title: review.title.clone(),
            show: review.show.clone(),
            form: review.form.clone(),
            assignees: review.assignees.clone(),
            status: PENDING,
            created_at: at,
            due: review.due,
            decided_at: None,
            by: None,
            comment: None,
            data: Value::Null,
        });
    }

    fn review_decided(&mut self, path: &Path, decision: &ReviewDecision, at: Millis) {
        let Some(review) = self.review(path) else { return };
        review.status = decision.decision.name();
        review.decided_at = Some(at);
        review.by.clone_from(&decision.by);
        review.comment.clone_from(&decision.comment);
        review.data = decision.data.clone();
    }

    fn review(&mut self, path: &Path) -> Option<&mut ReviewRecord> {
        self.record.as_mut()?.reviews.iter_mut().rev().find(|review| review.path == *path && review.status == PENDING)
    }

    pub(super) fn withdraw_reviews(&mut self) {
        let reviews = self.record.iter_mut().flat_map(|record| &mut record.reviews);
        for review in reviews.filter(|review| review.status == PENDING) {
            review.status = "withdrawn";
        }
    }
}
