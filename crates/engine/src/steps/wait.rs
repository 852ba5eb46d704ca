//! `wait`: for a time, until a time, or for an event.

use jiff::Timestamp;
use serde_json::Value;

use crate::ir::Wait;
use crate::journal::{Event, Millis};
use crate::path::Path;
use crate::run::{FrameState, Run};
use crate::template::described;
use crate::turn::Turn;

pub(crate) fn enter(turn: &mut Turn<'_>, frame: &Path, path: &Path, wait: &Wait) -> Result<(), String> {
    if let Some(kept) = turn.run.kept_waits.get(path).filter(|kept| kept.review.is_none()).cloned() {
        // It was open when the run was moved to another version: its time goes on.
        turn.emit(Event::WaitEntered { path: path.clone(), due: kept.due, event: kept.event });
        return Ok(());
    }
    let now = turn.now;
    let after = |ms: u64| now.saturating_add(Millis::try_from(ms).unwrap_or(Millis::MAX));
    let (due, event) = match wait {
        Wait::For(duration) => (Some(after(turn.evaluator.duration_ms(&turn.fill(duration, frame)?)?)), None),
        Wait::Until(time) => (Some(moment(&turn.fill(time, frame)?)?), None),
        Wait::Event { name, timeout_ms } => (timeout_ms.map(after), Some(event_name(&turn.fill(name, frame)?)?)),
    };
    turn.emit(Event::WaitEntered { path: path.clone(), due, event: event.clone() });
    match event {
        Some(name) if turn.run.inbox.get(&name).is_some_and(|kept| !kept.is_empty()) => turn.emit(Event::EventTaken { path: path.clone(), name }),
        _ if due.is_some_and(|due| due <= now) => turn.emit(Event::Completed { path: path.clone(), output: Value::Null }),
        _ => {}
    }
    Ok(())
}

/// An event came: the first wait for it, in path order, takes it; without one it is kept.
pub(crate) fn received(turn: &mut Turn<'_>, name: String, payload: Value) {
    turn.emit(Event::EventReceived { name: name.clone(), payload });
    let taker = if turn.run.stopping.is_none() { turn.run.wait_for(&name) } else { None };
    if let Some(path) = taker {
        turn.emit(Event::EventTaken { path, name });
    }
}

fn event_name(value: &Value) -> Result<String, String> {
    match value {
        Value::String(name) if !name.is_empty() => Ok(name.clone()),
        other => Err(format!("event must be a non-empty string, it is {}", described(other))),
    }
}

fn moment(value: &Value) -> Result<Millis, String> {
    let parsed = value.as_str().and_then(|text| text.parse::<Timestamp>().ok());
    let timestamp = parsed.ok_or_else(|| format!("until must be a time like \"2026-01-31T08:00:00Z\", it is {}", described(value)))?;
    Ok(timestamp.as_millisecond())
}

impl Run {
    /// The first entry, in path order, that waits for this event.
    fn wait_for(&self, name: &str) -> Option<Path> {
        self.frames.iter().find_map(|(frame_path, frame)| {
            let FrameState::Waiting(number, wait) = &frame.state else { return None };
            let path = frame_path.child(&self.node(frame, *number)?.id);
            (wait.event.as_deref() == Some(name)).then_some(path)
        })
    }
}
