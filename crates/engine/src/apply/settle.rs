//! Folding what becomes of attempts whose outcome is unknown.

use std::sync::Arc;

use serde_json::Value;

use crate::failure::RunError;
use crate::journal::Millis;
use crate::path::Path;
use crate::run::{FrameState, Phase, Run, ScriptState, Unsettled};

impl Run {
    /// It is to be found out what came of an attempt that has just failed.
    pub(super) fn enter_resolve(&mut self, path: &Path, attempt: u32, args: &Value, at: Millis) {
        let Some(script) = self.script_at(path) else { return };
        let (error, retry) = match &script.phase {
            Phase::Exhausted(error) => (Some(error.clone()), false),
            _ => (self.errors.at(path).cloned(), true),
        };
        // What was left open when the run ended.
        let error = error.or_else(|| self.ledger.get(path)?.uncertain.clone());
        let Some(error) = error else { return };
        let key = script.key.clone();
        let first = self.ledger.get(path).map_or(0, |entry| entry.resolutions) + 1;
        let job = Box::new(ScriptState::new(Arc::new(args.clone()), key, first, at));
        self.change_script(path, |script| script.phase = Phase::Resolving(Unsettled { attempt, error, retry }, job));
    }

    /// It is known what came of the attempt: the entry is complete, or goes on as if the attempt had merely failed.
    pub(super) fn settle(&mut self, path: &Path, output: Option<&Value>, at: Millis) {
        let Some(Phase::Resolving(unsettled, _) | Phase::Attention(unsettled)) = self.script_at(path).map(|script| &script.phase) else { return };
        let unsettled = unsettled.clone();
        self.ledger.leave_open(path, None);
        match output {
            Some(output) => self.take_effect(path, output),
            None if unsettled.retry => self.change_script(path, |script| {
                script.attempt = unsettled.attempt + 1;
                script.phase = Phase::Due { at };
            }),
            None => self.change_script(path, |script| script.phase = Phase::Exhausted(unsettled.error)),
        }
    }

    /// Of the entries about which a person has to say something, the first one's error.
    pub(super) fn asked(&self) -> Option<&RunError> {
        self.asking.iter().find_map(|frame| match &self.frames.get(frame)?.state {
            FrameState::Script(_, ScriptState { phase: Phase::Attention(unsettled), .. }) => Some(&unsettled.error),
            _ => None,
        })
    }

    /// It cannot be found out what came of the attempt.
    pub(super) fn ask_for_attention(&mut self, path: &Path, error: &RunError) {
        self.change_script(path, |script| {
            if let Phase::Resolving(unsettled, _) = &script.phase {
                script.phase = Phase::Attention(Unsettled { error: error.clone(), ..unsettled.clone() });
            }
        });
    }
}
