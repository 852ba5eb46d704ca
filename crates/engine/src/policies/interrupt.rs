//! Attempts that were in flight when the engine died: their outcome is uncertain, so only the author's leave repeats them.

use crate::failure::Failure;
use crate::journal::Event;
use crate::path::{Path, Purpose};
use crate::policies::class::Class;
use crate::policies::resolve;
use crate::policies::retry::{self, Decision, No, Reason, Yes};
use crate::steps::script::situation;
use crate::turn::Turn;

/// The code of an interrupted attempt's failure; its class is `script_broken`.
pub const CODE: &str = "interrupted";
/// How often `idempotent: true` alone re-runs an entry after crashes.
pub const MAX_RERUNS: u32 = 10;

/// Records every attempt in flight as interrupted.
pub(crate) fn attempts(turn: &mut Turn<'_>) {
    for (path, attempt, stopped) in in_flight(turn) {
        let undoes = path.purpose() == Purpose::Compensate;
        if stopped && !undoes {
            turn.emit(Event::AttemptCancelled { path, attempt });
            continue;
        }
        let mut failure = Failure::new(Class::ScriptBroken, "the engine died while the attempt ran; whether it took effect is unknown");
        failure.code = CODE.to_owned();
        let decision = if stopped { Decision::stop(Reason::Cancelled) } else { decide(turn, &path, attempt, &failure) };
        turn.emit(Event::AttemptFailed { path: path.clone(), attempt, failure: failure.clone(), decision: decision.clone() });
        match path.purpose() {
            Purpose::Work => resolve::enter(turn, &path, attempt),
            Purpose::Resolve(_) if decision.retry_wait_ms().is_none() => resolve::unknown(turn, &path, &failure),
            Purpose::Resolve(_) | Purpose::Compensate => {}
        }
    }
}

fn decide(turn: &Turn<'_>, path: &Path, attempt: u32, failure: &Failure) -> Decision {
    let situation = situation(turn, path, attempt, failure);
    let decision = retry::decide(&turn.run.retry_rules(path), situation);
    let leave = turn.run.is_idempotent(path) && turn.run.job_at(path).is_some_and(|job| job.reruns < MAX_RERUNS);
    let fits = situation.remaining_ms.is_none_or(|remaining_ms| remaining_ms >= retry::DEADLINE_SLACK_MS);
    match decision {
        Decision::Stop { .. } if leave && fits => Decision::Retry { retry: Yes, wait_ms: 0, remaining_ms: situation.remaining_ms },
        Decision::Stop { .. } if leave => {
            Decision::Stop { retry: No, reason: Reason::WouldOverrunDeadline, wait_ms: Some(0), remaining_ms: situation.remaining_ms }
        }
        decision => decision,
    }
}

/// The attempts in flight, and whether each is being stopped.
fn in_flight(turn: &Turn<'_>) -> Vec<(Path, u32, bool)> {
    let run = &turn.run;
    let jobs = run.jobs().filter(|job| job.state.is_in_flight());
    jobs.map(|job| (job.path.clone(), job.state.attempt, run.is_job_stopped(&job))).collect()
}
