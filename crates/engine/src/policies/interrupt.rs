//! Attempts that were in flight when the engine died: their outcome is uncertain, so only the author's leave repeats them.

use crate::failure::Failure;
use crate::ir::Op;
use crate::journal::Event;
use crate::path::Path;
use crate::policies::class::Class;
use crate::policies::retry::{self, Decision, No, Reason, Yes};
use crate::run::{FrameState, Phase};
use crate::steps::script::situation;
use crate::turn::Turn;

/// The code of an interrupted attempt's failure; its class is `script_broken`.
pub const CODE: &str = "interrupted";
/// How often `idempotent: true` alone re-runs an entry after crashes.
pub const MAX_RERUNS: u32 = 10;

/// Records every attempt in flight as interrupted.
pub(crate) fn attempts(turn: &mut Turn<'_>) {
    for (path, attempt) in in_flight(turn) {
        if turn.run.is_stopped(&path) {
            turn.emit(Event::AttemptCancelled { path, attempt });
            continue;
        }
        let mut failure = Failure::new(Class::ScriptBroken, "the engine died while the attempt ran; whether it took effect is unknown");
        failure.code = CODE.to_owned();
        let decision = decide(turn, &path, attempt, &failure);
        turn.emit(Event::AttemptFailed { path, attempt, failure, decision });
    }
}

fn decide(turn: &Turn<'_>, path: &Path, attempt: u32, failure: &Failure) -> Decision {
    let situation = situation(turn, path, attempt, failure);
    let decision = retry::decide(&turn.run.retry_rules(path), situation);
    let leave = is_idempotent(turn, path) && turn.run.script_at(path).is_some_and(|script| script.reruns < MAX_RERUNS);
    let fits = situation.remaining_ms.is_none_or(|remaining_ms| remaining_ms >= retry::DEADLINE_SLACK_MS);
    match decision {
        Decision::Stop { .. } if leave && fits => Decision::Retry { retry: Yes, wait_ms: 0, remaining_ms: situation.remaining_ms },
        Decision::Stop { .. } if leave => {
            Decision::Stop { retry: No, reason: Reason::WouldOverrunDeadline, wait_ms: Some(0), remaining_ms: situation.remaining_ms }
        }
        decision => decision,
    }
}

fn is_idempotent(turn: &Turn<'_>, path: &Path) -> bool {
    matches!(turn.run.entry(path).map(|node| &node.op), Some(Op::Script(script)) if script.idempotent)
}

fn in_flight(turn: &Turn<'_>) -> Vec<(Path, u32)> {
    let run = &turn.run;
    let busy = run.busy.iter().filter_map(|frame_path| {
        let frame = run.frames.get(frame_path)?;
        let FrameState::Script(number, script) = &frame.state else { return None };
        let node = run.node(frame, *number)?;
        matches!(script.phase, Phase::InFlight { .. }).then(|| (frame_path.child(&node.id), script.attempt))
    });
    busy.collect()
}
