//! What people do, as inputs of the engine.

use serde_json::Value;
use viat_engine::journal::{Event, Millis, ReviewDecision};
use viat_engine::path::Path;
use viat_engine::{Input, Report};

use super::World;
use crate::liveness;
use crate::story::{ANY, Deed};

impl World<'_> {
    pub(super) fn deed_at(&mut self, at: Millis) -> Result<Option<Input>, String> {
        let Some((_, deed)) = self.setup.deeds.pop_if(|(when, _)| *when <= at) else { return Ok(None) };
        Ok(Some(match deed {
            Deed::Cancel => Input::Cancel { by: Some("ana".to_owned()), reason: None },
            Deed::Event(name, payload) => Input::Event { name, payload },
            Deed::Crash(down_ms) => self.die(down_ms)?,
            Deed::Decide(path, decision, data) => {
                let decision = ReviewDecision { decision, by: Some("ana".to_owned()), comment: None, data };
                Input::Decide { review: self.review(&path), decision }
            }
            Deed::Extend(path, ms) => Input::Extend { review: self.review(&path), due: Some(self.now + ms), by: None, reason: None },
            Deed::Settle(step, output) => self.settle(step, output),
            Deed::Compensate => Input::Compensate { by: None, reason: None },
            Deed::Resume(from, accepting) => {
                let from = from.and_then(|from| if from == ANY { self.any_entry() } else { Some(from) });
                Input::Resume { by: None, reason: None, from, accept_repeat: accepting.then(|| "as the story has it".to_owned()) }
            }
            Deed::Migrate => {
                let program = self.setup.next.clone().ok_or("there is no section `version 2`")?;
                Input::Migrate { version: 2, revision: 2, program, reason: "as the story has it".to_owned(), by: None }
            }
            Deed::Late(path) => {
                let path = Path::from(path.as_str());
                let id = self.landed.iter().rev().find(|(landed, _)| *landed == path).map(|(_, id)| id.clone());
                let Some(id) = id else { return Ok(Some(Input::Tick)) };
                Input::Finished { path, id, report: Report::Returned(Value::String("late".to_owned())) }
            }
        }))
    }

    fn settle(&self, step: String, output: Option<Value>) -> Input {
        let asking = if step == ANY { liveness::asking(&self.journal) } else { None };
        let (step, output) = match asking {
            Some(path) => (path.to_string(), self.effects.output(path)),
            None => (step, output),
        };
        Input::Settle { step, output, by: None, reason: None }
    }

    /// Some script entry that was reached.
    fn any_entry(&self) -> Option<String> {
        let events = self.journal.iter().flat_map(|batch| &batch.events);
        let entered = events.filter_map(|event| if let Event::ScriptEntered { path, .. } = event { Some(path) } else { None });
        let entered: Vec<&Path> = entered.collect();
        let number = usize::try_from(self.now).ok()?.checked_rem(entered.len())?;
        Some(entered[number].to_string())
    }

    /// The newest review that the entry at `path` asked for.
    fn review(&self, path: &str) -> String {
        let asked = self.journal.iter().rev().flat_map(|batch| batch.events.iter().rev());
        let id = asked.into_iter().find_map(|event| match event {
            Event::ReviewRequested { path: at, review } if path == ANY || at.as_str() == path => Some(review.id.clone()),
            _ => None,
        });
        id.unwrap_or_else(|| format!("of {path}"))
    }
}
