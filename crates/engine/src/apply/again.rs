//! Folding how a run is begun anew: resumed, or moved to another version; and reviews, which go on across it.

use std::sync::Arc;

use serde_json::Value;

use crate::journal::{Millis, ReviewRequest};
use crate::path::Path;
use crate::run::{ActiveClock, FrameState, Memo, ReviewState, Run, Status, WaitState, bound};

impl Run {
    /// What the entry came to before is used again.
    pub(super) fn already_completed(&mut self, path: &Path) {
        let Some(memo) = self.ledger.memo(path).cloned() else { return };
        let value = match memo {
            Memo::Bound(value) => value,
            Memo::Continued(error) => Arc::new(bound(Value::Null, error.to_value())),
            Memo::Caught(_) => return,
        };
        let output = value.get("output").cloned().unwrap_or_default();
        self.move_on(path, value, output);
    }

    pub(super) fn resume(&mut self, from: Option<&Path>, deadline: Option<Millis>, at: Millis) {
        if let Some(from) = from {
            let first = self.ledger.named(from.as_str()).unwrap_or_default();
            let again: Vec<Path> = self.ledger.from(&first).into_iter().map(|(path, _)| path.clone()).collect();
            for path in again {
                self.ledger.forget(&path);
                self.deferred.retain(|task| task.path != path);
            }
        }
        for path in self.ledger.forget_undone() {
            self.deferred.retain(|task| task.path != path);
        }
        self.ledger.retry_undoing();
        self.status = Status::Running;
        self.error = None;
        self.outputs = None;
        self.stopping = None;
        self.errors.clear();
        self.deadline = deadline;
        self.budget_since = at;
        self.active = ActiveClock::default();
        self.begin_anew();
    }

    /// The run goes on with another version: from its first entry if it is live, when it is resumed otherwise.
    pub(super) fn migrate(&mut self, version: u64, revision: u64) {
        let Some(program) = self.next_program.take() else { return };
        self.program = program;
        self.version = version;
        self.revision = revision;
        if let Value::Object(run) = &mut self.run_value {
            run.insert("version".to_owned(), version.into());
        }
        if self.status.is_terminal() {
            return;
        }
        let waits: Vec<(Path, WaitState)> = self.waits().map(|(path, wait)| (path, wait.clone())).collect();
        self.kept_waits.extend(waits);
        self.begin_anew();
    }

    fn begin_anew(&mut self) {
        self.ledger.reentered = true;
        self.close_all();
        self.open_root();
    }

    /// The waits and reviews that are open, by path.
    pub(crate) fn waits(&self) -> impl Iterator<Item = (Path, &WaitState)> {
        self.frames.iter().filter_map(|(frame_path, frame)| match &frame.state {
            FrameState::Waiting(number, wait) => Some((frame_path.child(&self.node(frame, *number)?.id), wait)),
            _ => None,
        })
    }

    pub(super) fn request_review(&mut self, path: &Path, request: &ReviewRequest) {
        let Some((frame, number)) = self.locate(path) else { return };
        let kept = self.kept_waits.remove(path).and_then(|wait| wait.review);
        if kept.is_none() {
            self.ledger.enter(path).attempts += 1;
        }
        let reminded = kept.map_or(0, |review| review.reminded);
        let review = ReviewState { request: request.clone(), reminded };
        self.set_state(&frame, FrameState::Waiting(number, WaitState { due: request.due, event: None, review: Some(Box::new(review)) }));
    }

    pub(super) fn change_wait(&mut self, path: &Path, change: impl FnOnce(&mut WaitState)) {
        let Some((frame, _)) = self.locate(path) else { return };
        if let Some(FrameState::Waiting(_, wait)) = self.frames.get_mut(&frame).map(|frame| &mut frame.state) {
            change(wait);
        }
        self.reindex(&frame);
    }
}
