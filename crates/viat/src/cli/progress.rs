//! What a run is doing, line by line on stderr; on a terminal with a live line beneath.

mod recovery;

use std::collections::BTreeMap;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use viat_engine::failure::Failure;
use viat_engine::journal::{Batch, Event, Millis};
use viat_engine::path::Path;
use viat_engine::policies::retry::{Decision, Reason};
use viat_engine::record::AttemptRecord;
use viat_store::StoreError;

use super::output::{Output, printable};

/// Draws a run's progress.
pub struct Progress {
    output: Output,
    live: Option<ProgressBar>,
    /// When each running attempt began.
    running: BTreeMap<Path, (u32, Millis)>,
    troubled: bool,
}

impl Progress {
    /// Progress for a command with this output; silent with `--json`.
    pub fn new(output: &Output) -> Progress {
        let live = (output.terminal && !output.json).then(|| {
            let bar = ProgressBar::new_spinner();
            let style = ProgressStyle::with_template("  {spinner} {msg}").unwrap_or_else(|_| ProgressStyle::default_spinner());
            bar.set_style(style);
            bar.enable_steady_tick(Duration::from_millis(100));
            bar
        });
        Progress { output: output.clone(), live, running: BTreeMap::new(), troubled: false }
    }

    /// Shows what has become durable.
    pub fn events(&mut self, batch: &Batch) {
        self.troubled = false;
        for event in &batch.events {
            self.event(event, batch.at);
        }
        self.refresh();
    }

    /// Shows what a script says of itself.
    pub fn said(&mut self, path: &str, fraction: Option<f64>, note: Option<&str>) {
        let percent = fraction.map(|fraction| format!(" {:.0} %", fraction * 100.0)).unwrap_or_default();
        self.line(&self.output.paint("2", &format!("  … {path}{percent} {}", printable(note.unwrap_or_default()))));
    }

    /// Says, once, that the store fails.
    pub fn troubled(&mut self, error: &StoreError) {
        if !std::mem::replace(&mut self.troubled, true) {
            self.line(&format!("{} {error}; trying again", self.output.paint("33;1", "store:")));
        }
    }

    /// Takes the live line away.
    pub fn finish(&mut self) {
        if let Some(live) = self.live.take() {
            live.finish_and_clear();
        }
    }

    fn event(&mut self, event: &Event, at: Millis) {
        match event {
            Event::AttemptStarted { path, attempt, .. } => {
                self.running.insert(path.clone(), (*attempt, at));
            }
            Event::AttemptSucceeded { path, attempt, .. } => {
                let line = format!("  {} {path}{} {}", self.output.paint("32", "✓"), numbered(*attempt), self.took(path, at));
                self.line(&line);
            }
            Event::AttemptFailed { path, attempt, failure, decision } => {
                let (mark, style) = if decision.retry_wait_ms().is_some() { ("↻", "33") } else { ("✗", "31") };
                let took = self.took(path, at);
                let what = printable(&format!("{}: {}", failed(failure), failure.message));
                self.line(&format!("  {} {path} #{attempt} {took} {what}", self.output.paint(style, mark)));
                self.line(&self.output.paint("2", &format!("    {}", decided(decision))));
            }
            Event::AttemptCancelled { path, attempt } => {
                let line = format!("  {} {path} #{attempt} {} cancelled", self.output.paint("33", "■"), self.took(path, at));
                self.line(&line);
            }
            Event::Continued { path, error } => self.line(&format!("  {} {path} continues past {}", self.output.paint("33", "→"), error.code)),
            Event::CatchEntered { path, error } => self.line(&format!("  {} {path} recovers from {}", self.output.paint("33", "→"), error.code)),
            Event::Adopted { .. } => self.line("  … taken over from an engine that is gone"),
            Event::DeadlineExceeded { message } => self.line(&format!("  {} {message}", self.output.paint("31", "⏱"))),
            Event::CancelRequested { .. } => self.line("  ■ cancel requested"),
            Event::WaitEntered { path, due, event, .. } => self.waits(path, *due, event.as_deref()),
            _ => {
                if let Some((mark, style, text)) = recovery::told(event) {
                    self.line(&format!("  {} {}", self.output.paint(style, mark), printable(&text)));
                }
            }
        }
    }

    fn waits(&self, path: &Path, due: Option<Millis>, event: Option<&str>) {
        let event = event.map(|name| format!(" for event {name}")).unwrap_or_default();
        let until = due.map(|due| format!(" until {}", viat_engine::record::rfc3339(due))).unwrap_or_default();
        self.line(&format!("  … {path} waits{event}{until}"));
    }

    fn took(&mut self, path: &Path, at: Millis) -> String {
        let began = self.running.remove(path).map(|(_, began)| began);
        let text = began.map(|began| span(at - began)).unwrap_or_default();
        self.output.paint("2", &text)
    }

    fn line(&self, text: &str) {
        match &self.live {
            Some(live) => live.suspend(|| self.output.note(text)),
            None if self.output.json => {}
            None => self.output.note(text),
        }
    }

    fn refresh(&self) {
        let Some(live) = &self.live else { return };
        let running: Vec<String> = self.running.iter().take(4).map(|(path, (attempt, _))| format!("{path}{}", numbered(*attempt))).collect();
        let more = if self.running.len() > running.len() { format!(" and {} more", self.running.len() - running.len()) } else { String::new() };
        live.set_message(if running.is_empty() { "waiting".to_owned() } else { format!("{}{more}", running.join(", ")) });
    }
}

/// A first attempt is not worth a number.
fn numbered(attempt: u32) -> String {
    if attempt == 1 { String::new() } else { format!(" #{attempt}") }
}

/// A failure's class, and its code where that says more.
pub fn failed(failure: &Failure) -> String {
    let class = failure.class.name();
    if failure.code == class { class.to_owned() } else { format!("{class} {}", failure.code) }
}

/// The same of an attempt's record, with its message.
pub fn failed_record(attempt: &AttemptRecord) -> String {
    let class = attempt.class.map(|class| class.name()).unwrap_or_default();
    let code = attempt.code.as_deref().filter(|code| *code != class).map(|code| format!(" {code}")).unwrap_or_default();
    printable(&format!("{class}{code}: {}", attempt.message.as_deref().unwrap_or_default()))
}

/// What was decided about a failed attempt, in words.
pub fn decided(decision: &Decision) -> String {
    match decision {
        Decision::Retry { wait_ms, .. } => format!("next attempt in {}", span(i64::try_from(*wait_ms).unwrap_or(i64::MAX))),
        Decision::Stop { reason, wait_ms, remaining_ms, .. } => match reason {
            Reason::NoRetryConfigured => "not tried again: the entry has no `retry`".to_owned(),
            Reason::NotRetryable => "not tried again: this class is never retried".to_owned(),
            Reason::Exhausted => "not tried again: all tries are used up".to_owned(),
            Reason::WouldOverrunDeadline => format!(
                "not tried again: the wait of {} ms and 10 ms slack do not fit the {} ms that are left",
                wait_ms.unwrap_or_default(),
                remaining_ms.unwrap_or_default()
            ),
            Reason::Cancelled => "not tried again: what it belongs to is being stopped".to_owned(),
            Reason::Resolved => "not tried again: its outcome was found out".to_owned(),
        },
    }
}

/// A span of time for people.
pub fn span(ms: Millis) -> String {
    match ms {
        ..=999 => format!("{} ms", ms.max(0)),
        1_000..=59_999 => format!("{:.1} s", ms as f64 / 1000.0),
        60_000..=3_599_999 => format!("{} min {} s", ms / 60_000, ms % 60_000 / 1000),
        _ => format!("{} h {} min", ms / 3_600_000, ms % 3_600_000 / 60_000),
    }
}
