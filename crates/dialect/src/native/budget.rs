//! Warnings about time budgets that can never do what they say.

use viat_engine::policies::compensate::DEFAULT_BUDGET_MS;

use super::typed::{Budget, Document, Entry, Helper, Kind, Retry, Review, Undo, Wait};
use crate::diagnostic::Report;

/// Warns about entries that do not fit the document's timeout, and about compensations that do not fit theirs.
pub fn warn(report: &mut Report<'_>, document: &Document) {
    if let Some(budget) = document.timeout {
        walk(report, budget, &document.steps);
    }
    undoing(report, document.compensation_timeout, &document.steps);
}

fn walk(report: &mut Report<'_>, budget: Budget, entries: &[Entry]) {
    for entry in entries {
        match &entry.kind {
            Kind::Script(script) => {
                timeout(report, budget, &entry.id, script.timeout);
                waits(report, budget, &entry.id, script.retry.as_ref());
                if let Some(Helper { timeout: own, retry, .. }) = &script.resolve {
                    let whose = format!("{}.resolve", entry.id);
                    timeout(report, budget, &whose, *own);
                    waits(report, budget, &whose, retry.as_ref());
                }
            }
            Kind::Review(review) => asked(report, budget, &entry.id, review),
            Kind::Wait(Wait::Event { timeout: own, .. }) => timeout(report, budget, &entry.id, *own),
            Kind::Wait(Wait::For(_, Some(own))) if own.ms > budget.ms => {
                let message = format!("`{}` waits for {} ms, which is longer than the timeout of the whole document ({} ms)", entry.id, own.ms, budget.ms);
                report
                    .warning("wait-never-over", own.span, message)
                    .label(budget.span, "the run ends first")
                    .help("wait for less, or lengthen the document's timeout");
            }
            _ => {}
        }
        entry.kind.inner().into_iter().for_each(|inner| walk(report, budget, inner));
    }
}

fn timeout(report: &mut Report<'_>, budget: Budget, id: &str, own: Option<Budget>) {
    if let Some(own) = own
        && own.ms > budget.ms
    {
        report
            .warning(
                "timeout-never-reached",
                own.span,
                format!("the timeout of `{id}` ({} ms) is longer than that of the whole document ({} ms)", own.ms, budget.ms),
            )
            .label(budget.span, "the run ends first")
            .help("the strictest budget wins: lengthen the document's, or leave this one out");
    }
}

/// How many of the retries can come to pass at all: even attempts that take no time must wait between them.
fn waits(report: &mut Report<'_>, budget: Budget, id: &str, retry: Option<&Retry>) {
    let Some(retry) = retry else { return };
    let mut total_ms = 0u64;
    let mut fitting = 0;
    for n in 1..=retry.rule.times {
        total_ms = total_ms.saturating_add(retry.rule.wait_ms(n, 0.0));
        if total_ms.saturating_add(viat_engine::policies::retry::DEADLINE_SLACK_MS) <= budget.ms {
            fitting = n;
        }
    }
    if fitting < retry.rule.times {
        let count = if fitting == 0 { "none".to_owned() } else { format!("at most {fitting}") };
        report
            .warning(
                "retries-never-taken",
                retry.span,
                format!(
                    "{count} of the {} retries of `{id}` can be taken: the waits take at least {total_ms} ms, the run has {} ms",
                    retry.rule.times, budget.ms
                ),
            )
            .label(budget.span, "the run's budget")
            .help("retry less often, wait less, or lengthen the document's timeout");
    }
}

/// A review that outlasts the run never expires, and reminders after the run's end never come.
fn asked(report: &mut Report<'_>, budget: Budget, id: &str, review: &Review) {
    timeout(report, budget, id, review.timeout);
    let late = review.remind.iter().find(|reminder| reminder.ms > budget.ms);
    if let Some(late) = late.filter(|_| review.timeout.is_none()) {
        report
            .warning("reminder-never-due", late.span, format!("`{id}` reminds after {} ms, and the run has {} ms", late.ms, budget.ms))
            .label(budget.span, "the run ends first")
            .help("remind earlier, or lengthen the document's timeout");
    }
}

/// Compensations have a budget of their own, all of them together.
fn undoing(report: &mut Report<'_>, budget: Option<Budget>, entries: &[Entry]) {
    for entry in entries {
        if let Kind::Script(script) = &entry.kind
            && let Some(Undo::Script(helper)) = &script.compensate
            && let Some(own) = helper.timeout
            && own.ms > budget.map_or(DEFAULT_BUDGET_MS, |budget| budget.ms)
        {
            let ms = budget.map_or(DEFAULT_BUDGET_MS, |budget| budget.ms);
            let message = format!("the timeout of `{}.compensate` ({} ms) is longer than all undoing may take ({ms} ms)", entry.id, own.ms);
            let complaint = report.warning("timeout-never-reached", own.span, message);
            if let Some(budget) = budget {
                complaint.label(budget.span, "the undoing ends first");
            }
            complaint.help("give the document a longer `compensation_timeout`");
        }
        entry.kind.inner().into_iter().for_each(|inner| undoing(report, budget, inner));
    }
}
