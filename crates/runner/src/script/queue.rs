//! The attempts that wait for a pool's workers: runs take turns, and within a run who asked first is served first.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use tokio::sync::oneshot;

use super::roster::Handed;

/// An attempt in a pool's queue.
pub(crate) struct Waiter {
    /// In the order of asking, over all pools.
    pub(crate) ticket: u64,
    pub(crate) hand: oneshot::Sender<Handed>,
}

/// Who waits, by run.
#[derive(Default)]
pub(crate) struct Queue {
    /// The runs that wait, whose turn it is first.
    turns: VecDeque<Arc<str>>,
    runs: HashMap<Arc<str>, VecDeque<Waiter>>,
    len: usize,
}

impl Queue {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn push(&mut self, run: &Arc<str>, waiter: Waiter) {
        self.len += 1;
        if let Some(waiting) = self.runs.get_mut(run) {
            return waiting.push_back(waiter);
        }
        self.turns.push_back(Arc::clone(run));
        self.runs.insert(Arc::clone(run), VecDeque::from([waiter]));
    }

    /// Takes out who is served next; then it is another run's turn.
    pub(crate) fn pop(&mut self) -> Option<Waiter> {
        let run = self.turns.pop_front()?;
        let waiting = self.runs.get_mut(&run)?;
        let waiter = waiting.pop_front();
        if waiting.is_empty() {
            self.runs.remove(&run);
        } else {
            self.turns.push_back(run);
        }
        self.len -= usize::from(waiter.is_some());
        waiter
    }

    /// The ticket of who is served after `before` others.
    pub(crate) fn ticket(&self, before: usize) -> Option<u64> {
        self.in_turn().nth(before).map(|waiter| waiter.ticket)
    }

    /// Takes out the attempt with a ticket, unless it is among the first `safe` to be served.
    pub(crate) fn leave(&mut self, ticket: u64, safe: usize) -> bool {
        if self.in_turn().take(safe).any(|waiter| waiter.ticket == ticket) {
            return false;
        }
        let before = self.len;
        self.retain(|waiter| waiter.ticket != ticket);
        self.len < before
    }

    /// Forgets those who wait no longer.
    pub(crate) fn drop_gone(&mut self) {
        self.retain(|waiter| !waiter.hand.is_closed());
    }

    pub(crate) fn clear(&mut self) {
        *self = Queue::default();
    }

    fn retain(&mut self, keep: impl Fn(&Waiter) -> bool) {
        self.runs.retain(|_, waiting| {
            waiting.retain(&keep);
            !waiting.is_empty()
        });
        let runs = &self.runs;
        self.turns.retain(|run| runs.contains_key(run));
        self.len = self.runs.values().map(VecDeque::len).sum();
    }

    /// Everybody in the order in which they would be served.
    fn in_turn(&self) -> impl Iterator<Item = &Waiter> {
        let longest = self.runs.values().map(VecDeque::len).max().unwrap_or(0);
        (0..longest).flat_map(move |round| self.turns.iter().filter_map(move |run| self.runs.get(run)?.get(round)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(asked: &[(&str, u64)]) -> (Queue, Vec<oneshot::Receiver<Handed>>) {
        let mut queue = Queue::default();
        let mut hands = Vec::new();
        for (run, ticket) in asked {
            let (hand, handed) = oneshot::channel();
            queue.push(&Arc::from(*run), Waiter { ticket: *ticket, hand });
            hands.push(handed);
        }
        (queue, hands)
    }

    fn served(queue: &mut Queue) -> Vec<u64> {
        std::iter::from_fn(|| queue.pop()).map(|waiter| waiter.ticket).collect()
    }

    #[test]
    fn runs_take_turns() {
        let (mut queue, _hands) = queue(&[("a", 1), ("a", 2), ("a", 3), ("b", 4), ("c", 5), ("c", 6)]);
        assert_eq!((0..7).map(|place| queue.ticket(place)).collect::<Vec<_>>(), [1, 4, 5, 2, 6, 3].map(Some).into_iter().chain([None]).collect::<Vec<_>>());
        assert_eq!(served(&mut queue), [1, 4, 5, 2, 6, 3]);
        assert!(queue.is_empty());
    }

    #[test]
    fn who_leaves_is_gone_and_who_is_about_to_be_served_stays() {
        let (mut queue, mut hands) = queue(&[("a", 1), ("a", 2), ("b", 3)]);
        assert!(!queue.leave(3, 2) && queue.leave(2, 2) && !queue.leave(2, 0));
        assert_eq!(queue.len(), 2);
        hands.remove(0);
        queue.drop_gone();
        assert_eq!((queue.len(), served(&mut queue)), (1, vec![3]));
    }
}
