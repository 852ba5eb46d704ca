//! Requests that wait for the end of a run: they hear of it through the driver's news, and no more than so many wait at once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use viat_runner::driver::{News, Observer};
use viat_store::RunId;

/// The most requests that wait at once; each costs a connection and an entry here.
const MOST: usize = 1_000;

/// The requests that wait, by their run.
#[derive(Default)]
struct Waiting {
    by_run: BTreeMap<RunId, Vec<(u64, oneshot::Sender<()>)>>,
    count: usize,
    next: u64,
    closed: bool,
}

/// Those who wait for ends.
#[derive(Clone, Default)]
pub struct Waiters(Arc<Mutex<Waiting>>);

/// A place among them; given up on drop.
pub struct Wait {
    waiters: Waiters,
    run: RunId,
    number: u64,
    heard: oneshot::Receiver<()>,
}

/// Why nobody more can wait.
#[derive(Debug, PartialEq, Eq)]
pub enum NoWait {
    /// As many wait as may.
    Full,
    /// The server is ending.
    Closed,
}

impl Waiters {
    /// What the driver is to tell its news.
    pub fn observer(&self) -> Observer {
        let waiters = self.clone();
        Arc::new(move |run, news| {
            if matches!(news, News::Ended | News::Lost(_)) {
                waiters.tell(run);
            }
        })
    }

    /// Begins to wait for a run's end. Whether it has ended already is to be asked after this.
    pub fn wait(&self, run: &RunId) -> Result<Wait, NoWait> {
        let mut waiting = self.lock();
        if waiting.closed {
            return Err(NoWait::Closed);
        }
        if waiting.count >= MOST {
            return Err(NoWait::Full);
        }
        let (sender, heard) = oneshot::channel();
        let number = waiting.next;
        waiting.next += 1;
        waiting.count += 1;
        waiting.by_run.entry(run.clone()).or_default().push((number, sender));
        Ok(Wait { waiters: self.clone(), run: run.clone(), number, heard })
    }

    /// Whether there is room for one more.
    pub fn has_room(&self) -> bool {
        let waiting = self.lock();
        waiting.closed || waiting.count < MOST
    }

    /// The server is ending: everybody hears it, and nobody waits any more.
    pub fn close(&self) {
        let mut waiting = self.lock();
        waiting.closed = true;
        // A dropped sender wakes its receiver.
        waiting.by_run.clear();
        waiting.count = 0;
    }

    fn tell(&self, run: &RunId) {
        let mut waiting = self.lock();
        let Some(told) = waiting.by_run.remove(run) else { return };
        waiting.count = waiting.count.saturating_sub(told.len());
        for (_, sender) in told {
            // Who has gone needs no news.
            let _ = sender.send(());
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wait {
    /// Until the run has ended, or is not this server's any more, or the server ends.
    pub async fn over(&mut self) {
        // A sender that is gone means that the server ends: the waiting is over too.
        let _ = (&mut self.heard).await;
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        let mut waiting = self.waiters.lock();
        let Some(mine) = waiting.by_run.get_mut(&self.run) else { return };
        let before = mine.len();
        mine.retain(|(number, _)| *number != self.number);
        let (gone, empty) = (before - mine.len(), mine.is_empty());
        if empty {
            waiting.by_run.remove(&self.run);
        }
        waiting.count = waiting.count.saturating_sub(gone);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_over(wait: &mut Wait) -> bool {
        wait.heard.try_recv() != Err(oneshot::error::TryRecvError::Empty)
    }

    #[test]
    fn each_run_has_its_own_and_a_place_is_given_back() {
        let waiters = Waiters::default();
        let (a, b) = (RunId::from("a"), RunId::from("b"));
        let (mut first, mut second, mut other) = (waiters.wait(&a).expect("room"), waiters.wait(&a).expect("room"), waiters.wait(&b).expect("room"));
        waiters.observer()(&a, &News::Progress { path: "x".to_owned(), fraction: None, note: None });
        assert!(!is_over(&mut first));
        waiters.observer()(&a, &News::Ended);
        assert!(is_over(&mut first) && is_over(&mut second) && !is_over(&mut other));
        drop((first, second, other));
        assert_eq!(waiters.lock().count, 0);
        assert!(waiters.lock().by_run.is_empty());
    }

    #[test]
    fn there_is_a_bound_and_an_end() {
        let waiters = Waiters::default();
        let run = RunId::from("r");
        let mut all: Vec<Wait> = (0..MOST).map(|_| waiters.wait(&run).expect("room")).collect();
        assert!(!waiters.has_room());
        assert_eq!(waiters.wait(&run).err(), Some(NoWait::Full));
        all.pop();
        assert!(waiters.has_room());
        waiters.close();
        assert!(all.iter_mut().all(is_over));
        assert_eq!(waiters.wait(&run).err(), Some(NoWait::Closed));
    }
}
