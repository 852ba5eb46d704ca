//! Deferred tasks are submitted once, in the commit that makes the run succeed: of each entry only the last attempt's, and none of
//! an entry that the run's end undid or that was begun anew.

use std::collections::BTreeMap;

use viat_engine::journal::{Event, Millis};
use viat_engine::path::{Path, Purpose};
use viat_engine::run::DeferredTask;

use crate::sound::is_inside;
use crate::world::World;

/// Checks a journal against what was submitted.
pub fn check(world: &World<'_>, events: &[(Millis, &Event)]) -> Result<(), String> {
    let mut newest: BTreeMap<&Path, u32> = BTreeMap::new();
    let mut reached: BTreeMap<&Path, usize> = BTreeMap::new();
    let mut tasks: Vec<DeferredTask> = Vec::new();
    let (mut submitted, mut ending) = (0, false);
    for (number, (_, event)) in events.iter().enumerate() {
        match event {
            Event::ScriptEntered { path, .. }
            | Event::WaitEntered { path, .. }
            | Event::ReviewRequested { path, .. }
            | Event::LoopEntered { path, .. }
            | Event::CompensateEntered { path, .. } => {
                reached.entry(path).or_insert(number);
            }
            Event::AttemptStarted { path, attempt, .. } | Event::AttemptFailed { path, attempt, .. } => {
                newest.insert(path, *attempt);
            }
            Event::TaskDeferred { path, attempt, workflow, version, revision, args } => tasks.push(DeferredTask {
                path: path.clone(),
                attempt: *attempt,
                workflow: workflow.clone(),
                version: *version,
                revision: *revision,
                args: args.clone(),
            }),
            Event::TaskSubmitted { .. } => submitted += 1,
            Event::CompensationStarted { .. } => ending = true,
            Event::AttemptSucceeded { path, .. } if ending && path.purpose() == Purpose::Compensate => tasks.retain(|task| task.path != path.entry()),
            Event::Resumed { from, .. } => {
                ending = false;
                if let Some(from) = from {
                    let named = |path: &Path| path == from || is_inside(path.as_str(), from.as_str());
                    let first = reached.iter().filter(|(path, _)| named(path)).map(|(_, at)| *at).min().unwrap_or(usize::MAX);
                    tasks.retain(|task| reached.get(&task.path).is_some_and(|at| *at < first));
                }
            }
            _ => {}
        }
    }
    tasks.retain(|task| newest.get(&task.path) == Some(&task.attempt));
    if !events.iter().any(|(_, event)| matches!(event, Event::Succeeded { .. })) {
        tasks.clear();
    }
    if tasks == world.submitted && tasks.len() == submitted { Ok(()) } else { Err(format!("submitted {:?} instead of {tasks:?}", world.submitted)) }
}
