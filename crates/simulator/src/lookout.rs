//! What a driver sees that never looks at everything: after each event it asks for what has fallen due since it last looked. That must
//! come to the same as looking at everything.

use std::collections::BTreeSet;

use viat_engine::journal::Millis;
use viat_engine::path::Path;
use viat_engine::{Run, deadline, due_between, has_more, next_unknown, outstanding, to_stop, wanted_at};

/// What has been seen of one run since it was loaded.
pub struct Lookout {
    looked: Millis,
    known: BTreeSet<(Path, u32)>,
}

impl Default for Lookout {
    fn default() -> Lookout {
        Lookout { looked: Millis::MIN, known: BTreeSet::new() }
    }
}

impl Lookout {
    /// Looks at what has fallen due by `now`.
    ///
    /// # Errors
    /// What only who looks at everything sees.
    pub fn look(&mut self, run: &Run, now: Millis) -> Result<(), String> {
        let owed = outstanding(run);
        let key = |wanted: &viat_engine::Wanted| (wanted.path.clone(), wanted.attempt);
        let all: BTreeSet<(Path, u32)> = owed.attempts.iter().map(key).collect();
        self.known.retain(|known| all.contains(known));
        self.known.extend(due_between(run, self.looked, now).iter().map(key));
        self.looked = now;
        let due: BTreeSet<(Path, u32)> = owed.attempts.iter().filter(|wanted| wanted.not_before <= now).map(key).collect();
        if due != self.known {
            return Err(format!("due by {now} are {due:?}, who looks as time goes by has seen {:?}", self.known));
        }
        let later = owed.attempts.iter().map(|wanted| wanted.not_before).filter(|at| *at > now).min();
        let next = next_unknown(run, self.looked, |path, attempt| self.known.contains(&(path.clone(), attempt)));
        if next != later {
            return Err(format!("the next attempt falls due at {later:?}, not at {next:?}"));
        }
        if let Some(lost) = owed.attempts.iter().find(|wanted| wanted_at(run, &wanted.path, wanted.attempt).is_none_or(|found| found.args != wanted.args)) {
            return Err(format!("attempt {} of {} is due and cannot be found", lost.attempt, lost.path));
        }
        let stops: BTreeSet<String> = owed.running.into_iter().filter(|running| running.stop).map(|running| running.id).collect();
        let told: BTreeSet<String> = to_stop(run).into_iter().collect();
        let differ = !run.status.is_terminal() && (stops != told || deadline(run) != owed.deadline || has_more(run) != owed.more);
        if differ { Err(format!("to be stopped are {stops:?}, told are {told:?}; deadline {:?}, more {}", deadline(run), has_more(run))) } else { Ok(()) }
    }
}
