//! Counters and histograms, kept from facts; and the page that shows them beside what the store and the pools say now.

mod page;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use viat_engine::Status;
use viat_engine::facts::{Attempt, Count, End, Fact};
use viat_engine::policies::class::Class;

use super::bounded::Bounded;
use super::export::SpanCounts;
use super::histogram::{ATTEMPT_BOUNDS, COMMIT_BOUNDS, Histogram};

pub use super::text::CONTENT_TYPE;
pub use page::{AGES_S, Now};

/// Label sets of workflow and step, at most.
const MOST_STEPS: usize = 400;
/// Workflows, at most.
const MOST_WORKFLOWS: usize = 100;

/// All that is kept. What is counted begins at zero with the process, as is usual.
pub struct Metrics {
    steps: Bounded<2, Step>,
    ends: Bounded<1, Ends>,
    failures: [AtomicU64; Class::ALL.len()],
    commits: Histogram,
    /// What became of spans.
    pub spans: Arc<SpanCounts>,
}

/// Of one step of one workflow.
struct Step {
    counts: [AtomicU64; Count::ALL.len()],
    queue_wait: Histogram,
    duration: Histogram,
}

/// How runs of one workflow ended: well, with an error, cancelled.
#[derive(Default)]
struct Ends([AtomicU64; ENDS.len()]);

const ENDS: [Status; 3] = [Status::Succeeded, Status::Failed, Status::Cancelled];

impl Default for Step {
    fn default() -> Step {
        Step { counts: Default::default(), queue_wait: Histogram::new(ATTEMPT_BOUNDS), duration: Histogram::new(ATTEMPT_BOUNDS) }
    }
}

impl Default for Metrics {
    fn default() -> Metrics {
        Metrics {
            steps: Bounded::new(MOST_STEPS),
            ends: Bounded::new(MOST_WORKFLOWS),
            failures: Default::default(),
            commits: Histogram::new(COMMIT_BOUNDS),
            spans: Arc::default(),
        }
    }
}

impl Metrics {
    /// Counts what became of a run of this workflow.
    pub fn facts(&self, workflow: &str, facts: &[Fact]) {
        for fact in facts {
            match fact {
                Fact::AttemptBegan { path, queued_ms } => {
                    self.step(workflow, path.pattern()).queue_wait.add(Duration::from_millis(*queued_ms));
                }
                Fact::AttemptEnded(attempt) => self.attempt(workflow, attempt),
                Fact::Counted(count, path) => add(&self.step(workflow, path.pattern()).counts, &Count::ALL, count),
                Fact::RunEnded(part) => add(&self.ends.get([workflow.to_owned()]).0, &ENDS, &part.status),
            }
        }
    }

    /// An append became durable.
    pub fn durable(&self, took: Duration) {
        self.commits.add(took);
    }

    fn attempt(&self, workflow: &str, attempt: &Attempt) {
        if let Some(took_ms) = attempt.took_ms() {
            self.step(workflow, attempt.path.pattern()).duration.add(Duration::from_millis(took_ms));
        }
        if let End::Failed { class, .. } = &attempt.end {
            add(&self.failures, &Class::ALL, class);
        }
    }

    fn step(&self, workflow: &str, step: String) -> Arc<Step> {
        self.steps.get([workflow.to_owned(), step])
    }
}

/// One more of `what`, counted at its place in `all`.
fn add<T: PartialEq>(counters: &[AtomicU64], all: &[T], what: &T) {
    if let Some((counter, _)) = counters.iter().zip(all).find(|(_, each)| *each == what) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}
