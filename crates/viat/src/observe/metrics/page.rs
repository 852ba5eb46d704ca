//! The page: each family with its help, in a fixed order.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};

use viat_engine::facts::Count;
use viat_engine::policies::class::Class;
use viat_runner::script::PoolStatus;
use viat_store::OpenRuns;

use super::super::bounded::OTHER;
use super::super::histogram::Histogram;
use super::super::text::Page;
use super::{ENDS, MOST_WORKFLOWS, Metrics, Step};

/// For how long, in seconds, runs may have had their status to be shown as having it for longer.
pub const AGES_S: [u64; 4] = [60, 600, 3_600, 86_400];
/// Scripts whose pools are shown, at most.
const MOST_SCRIPTS: usize = 100;

/// What is so at this moment.
pub struct Now {
    /// Unfinished runs, and how many have had their status for each of [`AGES_S`]; `None` if the store does not answer.
    pub open: Option<Vec<OpenRuns>>,
    /// The pools.
    pub pools: Vec<PoolStatus>,
}

/// A counter by workflow and step: its name, its help, and a label where several counts share it.
type Family = (&'static str, &'static str, &'static [(Count, Option<(&'static str, &'static str)>)]);

const STEP_COUNTERS: [Family; 7] = [
    ("viat_step_first_tries_total", "First attempts of entries that are over, those that a cancel or a deadline cut short apart.", &[(Count::FirstTry, None)]),
    (
        "viat_step_first_try_successes_total",
        "First attempts that succeeded; by viat_step_first_tries_total this is the first-try success ratio.",
        &[(Count::FirstTrySuccess, None)],
    ),
    ("viat_step_retry_successes_total", "Attempts that succeeded and were not the first.", &[(Count::RetrySuccess, None)]),
    ("viat_step_retries_exhausted_total", "Entries whose last allowed try failed.", &[(Count::RetriesExhausted, None)]),
    ("viat_step_refusals_total", "Entries that ended with a refusal, a business error.", &[(Count::Refusal, None)]),
    (
        "viat_step_refusals_to_person_total",
        "Refusals that were sent to a person: they led to a review, or to needs_attention.",
        &[(Count::RefusalToReview, Some(("by", "review"))), (Count::RefusalToAttention, Some(("by", "needs_attention")))],
    ),
    (
        "viat_step_compensations_total",
        "Effects by what came of undoing them; repeated: skipped because it was undone before, idle: skipped because there was no effect.",
        &[
            (Count::Compensated, Some(("outcome", "compensated"))),
            (Count::CompensationFailed, Some(("outcome", "failed"))),
            (Count::CompensationRepeated, Some(("outcome", "repeated"))),
            (Count::CompensationIdle, Some(("outcome", "idle"))),
            (Count::Irreversible, Some(("outcome", "irreversible"))),
        ],
    ),
];

impl Metrics {
    /// Everything, as text.
    pub fn page(&self, now: &Now) -> String {
        let mut page = Page::default();
        self.steps(&mut page);
        self.runs(&mut page);
        open(&mut page, now.open.as_deref());
        pools(&mut page, &now.pools);
        page.family("viat_commit_duration_seconds", "histogram", "From when an append is handed to the store until it is durable.");
        page.histogram("viat_commit_duration_seconds", &[], &self.commits.read());
        page.family("viat_spans_total", "counter", "Spans by what became of them; dropped: the queue was full, failed: the collector did not take them.");
        for (outcome, counter) in [("sent", &self.spans.sent), ("dropped", &self.spans.dropped), ("failed", &self.spans.failed)] {
            page.sample("viat_spans_total", &[("outcome", outcome)], read(counter));
        }
        page.finish()
    }

    fn steps(&self, page: &mut Page) {
        let all = self.steps.all();
        // A series that began when its first event happened would hide that one from rates: whatever is counted by has all.
        let counted = |step: &Step| step.counts.iter().any(|counter| read(counter) > 0);
        let entries: Vec<_> = all.iter().filter(|(_, step)| counted(step)).collect();
        for (name, help, counts) in STEP_COUNTERS {
            page.family(name, "counter", help);
            for ([workflow, step], kept) in &entries {
                for (count, more) in counts {
                    let value = Count::ALL.iter().zip(&kept.counts).find(|(each, _)| *each == count).map_or(0, |(_, counter)| read(counter));
                    let labels: Vec<(&str, &str)> = [("workflow", workflow.as_str()), ("step", step.as_str())].into_iter().chain(*more).collect();
                    page.sample(name, &labels, value);
                }
            }
        }
        let mut timed = |name: &str, help: &str, of: fn(&Step) -> &Histogram| {
            page.family(name, "histogram", help);
            for ([workflow, step], kept) in &all {
                let reading = of(kept).read();
                if reading.count > 0 {
                    page.histogram(name, &[("workflow", workflow), ("step", step)], &reading);
                }
            }
        };
        timed("viat_attempt_queue_wait_seconds", "How long attempts that got a worker waited for it.", |step| &step.queue_wait);
        timed("viat_attempt_duration_seconds", "From an attempt's start to its end; interrupted attempts apart.", |step| &step.duration);
    }

    fn runs(&self, page: &mut Page) {
        page.family("viat_attempts_failed_total", "counter", "Failed attempts by class.");
        for (class, counter) in Class::ALL.iter().zip(&self.failures) {
            page.sample("viat_attempts_failed_total", &[("class", class.name())], read(counter));
        }
        page.family("viat_runs_ended_total", "counter", "Runs that ended, by status; a run that is begun anew can end again.");
        for ([workflow], ends) in self.ends.all() {
            for (status, counter) in ENDS.iter().zip(&ends.0) {
                page.sample("viat_runs_ended_total", &[("workflow", &workflow), ("status", status.name())], read(counter));
            }
        }
    }
}

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

/// The unfinished runs of the home, whoever has them.
fn open(page: &mut Page, open: Option<&[OpenRuns]>) {
    page.family("viat_store_up", "gauge", "Whether the store answered; without it the gauges of runs are missing.");
    page.sample("viat_store_up", &[], u64::from(open.is_some()));
    let Some(open) = open else { return };
    let shown = largest(open.iter().map(|each| (each.workflow.as_str(), each.count)), MOST_WORKFLOWS);
    let mut sums: BTreeMap<(&str, &str), (u64, [u64; AGES_S.len()])> = BTreeMap::new();
    for each in open {
        let workflow = if shown.contains(each.workflow.as_str()) { each.workflow.as_str() } else { OTHER };
        let (count, since) = sums.entry((workflow, &each.status)).or_default();
        *count += each.count;
        since.iter_mut().zip(&each.since).for_each(|(sum, more)| *sum += more);
    }
    page.family("viat_runs", "gauge", "Unfinished runs by status.");
    for ((workflow, status), (count, _)) in &sums {
        page.sample("viat_runs", &[("workflow", workflow), ("status", status)], *count);
    }
    page.family("viat_runs_in_status_for", "gauge", "Unfinished runs that have had their status for so many seconds or longer.");
    for ((workflow, status), (_, since)) in &sums {
        for (age, count) in AGES_S.iter().zip(since) {
            page.sample("viat_runs_in_status_for", &[("workflow", workflow), ("status", status), ("seconds", &age.to_string())], *count);
        }
    }
}

fn pools(page: &mut Page, pools: &[PoolStatus]) {
    let shown = largest(pools.iter().map(|pool| (pool.script.as_str(), (pool.waiting + pool.busy) as u64)), MOST_SCRIPTS);
    let mut sums: BTreeMap<&str, [usize; 4]> = BTreeMap::new();
    for pool in pools {
        let script = if shown.contains(pool.script.as_str()) { pool.script.as_str() } else { OTHER };
        let sum = sums.entry(script).or_default();
        for (sum, more) in sum.iter_mut().zip([pool.waiting, pool.idle, pool.busy, pool.starting]) {
            *sum += more;
        }
    }
    page.family("viat_queue_depth", "gauge", "Attempts that wait for a worker of a script.");
    for (script, [waiting, ..]) in &sums {
        page.sample("viat_queue_depth", &[("script", script)], *waiting as u64);
    }
    page.family("viat_workers", "gauge", "Workers of a script by what they do.");
    for (script, [_, idle, busy, starting]) in &sums {
        for (state, count) in [("idle", idle), ("busy", busy), ("starting", starting)] {
            page.sample("viat_workers", &[("script", script), ("state", state)], *count as u64);
        }
    }
}

/// The names with the largest sums, at most so many.
fn largest<'a>(counted: impl Iterator<Item = (&'a str, u64)>, most: usize) -> BTreeSet<&'a str> {
    let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
    for (name, count) in counted {
        *sums.entry(name).or_default() += count;
    }
    let mut sorted: Vec<(&str, u64)> = sums.into_iter().collect();
    sorted.sort_by_key(|(name, count)| (std::cmp::Reverse(*count), *name));
    sorted.into_iter().take(most).map(|(name, _)| name).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use viat_engine::facts::Fact;
    use viat_engine::path::Path;

    use super::*;

    fn counted(count: Count, path: &str) -> Fact {
        Fact::Counted(count, Path::from(path))
    }

    #[test]
    fn iterations_are_one_step_and_what_is_counted_by_has_every_series() {
        let metrics = Metrics::default();
        let facts = [counted(Count::FirstTry, "each[0].a"), counted(Count::FirstTry, "each[1].a"), counted(Count::Compensated, "b")];
        metrics.facts("w", &facts);
        metrics.facts("w", &[Fact::AttemptBegan { path: Path::from("b:compensate"), queued_ms: 3 }]);
        metrics.durable(Duration::from_millis(2));
        let page = metrics.page(&Now { open: None, pools: Vec::new() });
        for line in [
            "viat_step_first_tries_total{workflow=\"w\",step=\"each[*].a\"} 2",
            "viat_step_first_try_successes_total{workflow=\"w\",step=\"each[*].a\"} 0",
            "viat_step_compensations_total{workflow=\"w\",step=\"b\",outcome=\"compensated\"} 1",
            "viat_step_retry_successes_total{workflow=\"w\",step=\"b\"} 0",
            "viat_store_up 0",
            "viat_commit_duration_seconds_count 1",
        ] {
            assert!(page.lines().any(|each| each == line), "{line}\n{page}");
        }
        assert!(page.contains("viat_attempt_queue_wait_seconds_bucket{workflow=\"w\",step=\"b:compensate\",le=\"0.005\"} 1\n"), "{page}");
        assert!(!page.contains("viat_step_first_tries_total{workflow=\"w\",step=\"b:compensate\"}") && !page.contains("viat_runs{"), "{page}");
    }

    #[test]
    fn the_smallest_workflows_share_one_series() {
        let many = |number: u64| OpenRuns { workflow: format!("w{number:03}"), status: "waiting".to_owned(), count: 1_000 - number, since: vec![1, 1, 0, 0] };
        let all: Vec<OpenRuns> = (0..MOST_WORKFLOWS as u64 + 2).map(many).collect();
        let page = Metrics::default().page(&Now { open: Some(all), pools: Vec::new() });
        let series: Vec<&str> = page.lines().filter(|line| line.starts_with("viat_runs{")).collect();
        assert_eq!(series.len(), MOST_WORKFLOWS + 1);
        assert_eq!(series[0], "viat_runs{workflow=\"other\",status=\"waiting\"} 1799");
        assert!(page.contains("viat_runs_in_status_for{workflow=\"other\",status=\"waiting\",seconds=\"600\"} 2\n"), "{page}");
    }
}
