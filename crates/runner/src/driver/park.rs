//! Long waits live in the store: such a run costs its row, not memory, until its time or an event comes.

use viat_engine::journal::Millis;
use viat_engine::{Input, Status};
use viat_store::RunId;

use super::hot::{Hot, Pending};
use super::{DriverError, Loop, NewsSender, Reply, wakes};

/// A wait longer than this is not worth the memory.
const PARK_BEYOND_MS: Millis = 10_000;
/// How many parked runs are woken at a time; others get their turn in between.
const WAKE_AT_ONCE: usize = 256;
/// A parked run whose time has come but that could not be woken is looked at again after this.
const WAKE_AGAIN_MS: Millis = 1_000;

impl Loop {
    /// Whether `hot` may leave the memory: it waits, for long, and nothing else is under way for it.
    pub(super) fn park(&mut self, hot: &Hot) -> bool {
        let idle = hot.commit.is_none() && hot.backlog.is_empty() && !hot.is_at_work() && hot.replies.is_empty() && hot.answers.is_empty();
        if !self.background || !idle || hot.news.is_some() || !matches!(hot.run.status, Status::Waiting | Status::NeedsAttention) {
            return false;
        }
        let wake = hot.next_wake();
        if wake.is_some_and(|at| at <= self.clock.now() + PARK_BEYOND_MS) {
            return false;
        }
        self.parked_wake = self.parked_wake.into_iter().chain(wake).min();
        true
    }

    /// Loads the parked runs whose time has come.
    pub(super) fn wake_parked(&mut self, now: Millis) {
        let due = self.store.runs_due(self.owner(), now, WAKE_AT_ONCE).unwrap_or_default();
        let full = due.len() == WAKE_AT_ONCE;
        for row in due {
            if self.runs.contains_key(&row.id) {
                continue;
            }
            if let Ok(mut hot) = self.load(&row.id, false) {
                hot.backlog.push_back(Pending::Input(Input::Tick));
                self.catch_up(&mut hot);
                self.keep(hot);
            }
        }
        // A store that cannot answer now is asked again.
        let next = self.store.next_wake(self.owner()).unwrap_or(Some(now));
        self.parked_wake = if full { Some(now) } else { next.map(|at| at.max(now + WAKE_AGAIN_MS)) };
    }

    /// An input for a run that is not in memory: it is loaded, or taken over, first.
    pub(super) fn reach(&mut self, id: RunId, input: Input, news: Option<NewsSender>, reply: Reply<()>) {
        if let Some(waiting) = self.adopting.get_mut(&id) {
            return waiting.push((input, reply));
        }
        match self.load(&id, wakes(&input)) {
            Ok(mut hot) => {
                hot.news = news;
                hot.backlog.push_back(Pending::Asked(input, reply));
                self.catch_up(&mut hot);
                self.keep(hot);
            }
            Err(DriverError::NotHere) => self.adopt_for(id, input, news, reply),
            Err(error) => reply.send(Err(error)),
        }
    }
}
