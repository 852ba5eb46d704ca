//! One attempt on one worker: send the args, listen, keep time, and end it for certain.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};

use super::call::{Call, Log, Notice, Outcome, Report, Stop};
use super::config::{Language, RunnerConfig};
use super::ends::{Arrival, Frame, frame};
use super::exchange::{Progress, call_frame, describe_late, read_question, read_result};
use super::fault::{Fault, FaultKind};
use super::log::LogBuffer;
use super::mask::Mask;
use super::worker::Worker;

/// Progress that comes faster than this is thinned out.
const PROGRESS_EVERY: Duration = Duration::from_millis(50);
/// How long the guardian's word on how the worker ended may lag behind the closed socket.
const LAST_WORD: Duration = Duration::from_millis(500);

/// Whether the worker can take another attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Yes.
    Keep,
    /// No, and its tree is dead.
    Dead,
    /// No, and its tree is dead, but its script is in good order: have another one ready.
    Replace,
}

/// Why the attempt is being ended from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Timeout(Duration),
    Stop,
}

enum Happened {
    Arrived(Arrival),
    Answered(Result<Value, String>),
    Stopped(Stop),
    TimeUp,
}

type Waiting = oneshot::Receiver<Result<Value, String>>;

struct Attempt<'a> {
    worker: &'a mut Worker,
    config: &'a RunnerConfig,
    call: &'a Call,
    notices: mpsc::UnboundedSender<Notice>,
    log: LogBuffer,
    stop: Option<oneshot::Receiver<Stop>>,
    answer: Option<Waiting>,
    progress: Option<Notice>,
    progress_due: Option<Instant>,
    started: Option<Instant>,
    until: Option<Instant>,
    ending: Option<Ending>,
    /// The worker serves this attempt alone.
    fresh: bool,
}

/// Sends the worker its call; gives the attempt's log, or the report of an attempt that is over before it was sent.
pub(crate) fn begin(worker: &mut Worker, config: &RunnerConfig, language: Language, call: &Call) -> Result<LogBuffer, Report> {
    if call.timeout == Some(Duration::ZERO) {
        let outcome = Outcome::Failed(timed_out(Duration::ZERO));
        return Err(Report { outcome, log: Log::default(), late: None, ran: Duration::ZERO });
    }
    let mut log = match worker.early_log.take() {
        Some(early) => early,
        None => {
            // what threads of an earlier attempt wrote since belongs to no attempt
            worker.ends.drain_log(&mut LogBuffer::new(0));
            LogBuffer::new(config.log_limit)
        }
    };
    if let Some(mask) = mask_of(call) {
        log.mask(Arc::clone(mask));
    }
    worker.calls += 1;
    let body = match call_frame(call, language) {
        Ok(body) => body,
        Err(error) => {
            let outcome = Outcome::Failed(Fault::new(FaultKind::Annotation, format!("the arguments cannot be sent: {error}")));
            return Err(Report { outcome, log: log.finish(), late: None, ran: Duration::ZERO });
        }
    };
    worker.prepare();
    worker.ends.send(body);
    Ok(log)
}

/// Sees the attempt through; the report is given when the worker is idle again or its tree is proven dead.
pub(crate) async fn run(
    worker: &mut Worker,
    config: &RunnerConfig,
    fresh: bool,
    call: &Call,
    log: LogBuffer,
    stop: oneshot::Receiver<Stop>,
    notices: mpsc::UnboundedSender<Notice>,
) -> (Report, Fate) {
    let attempt = Attempt {
        worker,
        config,
        call,
        notices,
        log,
        stop: Some(stop),
        answer: None,
        progress: None,
        progress_due: None,
        started: None,
        until: None,
        ending: None,
        fresh,
    };
    attempt.listen().await
}

impl Attempt<'_> {
    async fn listen(mut self) -> (Report, Fate) {
        let mut timer = pin!(None);
        let mut armed = None;
        loop {
            self.note_start();
            if armed != self.until {
                armed = self.until;
                timer.set(armed.map(sleep_until));
            }
            match self.next(timer.as_mut()).await {
                Happened::Arrived(Arrival::Frame(frame)) => match frame.kind() {
                    b'r' | b'x' | b'y' => return self.end_with(&frame).await,
                    // the worker forked, and its fork died: it is in good order itself
                    b'b' => return self.end_with_fork(&frame).await,
                    _ => {
                        if let Err(problem) = self.take_notice(&frame) {
                            return self.end_broken(problem).await;
                        }
                    }
                },
                Happened::Arrived(Arrival::Garbage(_)) if mask_of(self.call).is_some() => {
                    // what it sent is cut off, and part of a secret cannot be told from other text
                    return self.end_broken("the worker broke the protocol".to_string()).await;
                }
                Happened::Arrived(Arrival::Garbage(text)) => {
                    return self.end_broken(format!("the worker broke the protocol: it sent {text:?}")).await;
                }
                Happened::Arrived(Arrival::Control(line)) if line.starts_with('e') => {
                    return self.end_after_exit(&line[1..]).await;
                }
                Happened::Arrived(Arrival::ProtocolClosed) => {
                    let problem = self.last_word().await;
                    return self.end_broken(problem).await;
                }
                Happened::Arrived(Arrival::Control(line)) if line.starts_with('l') => {
                    return self.end_broken(line[1..].to_string()).await;
                }
                Happened::Arrived(Arrival::Control(_)) => {}
                Happened::Arrived(Arrival::ControlClosed) => {
                    return self.end_broken("the worker's guardian was killed".to_string()).await;
                }
                Happened::Answered(answer) => self.answer(&answer),
                Happened::Stopped(stop) => self.wind_up(Ending::Stop, stop.grace),
                Happened::TimeUp => match (self.ending, self.call.timeout) {
                    (None, Some(timeout)) => self.wind_up(Ending::Timeout(timeout), self.config.timeout_grace),
                    _ => return self.end_by_force(None).await,
                },
            }
        }
    }

    /// The timeout's clock starts when the args have left.
    fn note_start(&mut self) {
        if self.started.is_none() && self.worker.ends.is_sent() {
            let now = Instant::now();
            self.started = Some(now);
            if self.ending.is_none() {
                self.until = self.call.timeout.and_then(|timeout| now.checked_add(timeout));
            }
        }
    }

    async fn next(&mut self, mut timer: Pin<&mut Option<tokio::time::Sleep>>) -> Happened {
        let unsent = !self.worker.ends.is_sent();
        poll_fn(|cx| {
            if let Poll::Ready(arrival) = self.worker.ends.poll_arrival(cx, &mut self.log) {
                return Poll::Ready(Happened::Arrived(arrival));
            }
            if let Some(stop) = &mut self.stop
                && let Poll::Ready(said) = Pin::new(stop).poll(cx)
            {
                self.stop = None; // a sender that is gone will never stop it
                if let Ok(stop) = said {
                    return Poll::Ready(Happened::Stopped(stop));
                }
            }
            if let Some(answer) = &mut self.answer
                && let Poll::Ready(answer) = Pin::new(answer).poll(cx)
            {
                self.answer = None;
                return Poll::Ready(Happened::Answered(answer.unwrap_or_else(|_| Err("the engine gave no answer".to_string()))));
            }
            if let Some(timer) = timer.as_mut().as_pin_mut()
                && timer.poll(cx).is_ready()
            {
                return Poll::Ready(Happened::TimeUp);
            }
            if unsent && self.worker.ends.is_sent() {
                // all has left now: go round once to start the clock
                return Poll::Ready(Happened::Arrived(Arrival::Control(String::new())));
            }
            Poll::Pending
        })
        .await
    }

    /// Gives the cooperative signal and the time until force is used; a later reason can only shorten it.
    fn wind_up(&mut self, ending: Ending, grace: Duration) {
        let until = Instant::now().checked_add(grace);
        match self.ending {
            None => {
                self.ending = Some(ending);
                self.worker.ends.tell(&format!("c{}", self.call.attempt_id));
                self.until = until;
            }
            Some(_) => self.until = [self.until, until].into_iter().flatten().min(),
        }
    }

    fn take_notice(&mut self, frame: &Frame) -> Result<(), String> {
        let wrong = |error: serde_json::Error| format!("the worker broke the protocol: {error}");
        if frame.kind() == b'p' {
            let said: Progress = serde_json::from_slice(frame.body()).map_err(wrong)?;
            let now = Instant::now();
            let mut notice = Notice::Progress { fraction: said.fraction, note: said.note };
            if let Some(mask) = mask_of(self.call) {
                mask.notice(&mut notice);
            }
            if self.progress_due.is_none_or(|due| due <= now) {
                self.progress_due = Some(now + PROGRESS_EVERY);
                self.progress = None;
                let _ = self.notices.send(notice);
            } else {
                self.progress = Some(notice);
            }
            return Ok(());
        }
        let (ack, answer) = oneshot::channel();
        let mut notice = read_question(frame, ack).map_err(wrong)?;
        if let Some(mask) = mask_of(self.call) {
            mask.notice(&mut notice);
        }
        self.answer = Some(answer);
        let _ = self.notices.send(notice); // nobody listens: the ack is dropped, and refused
        Ok(())
    }

    fn answer(&mut self, answer: &Result<Value, String>) {
        let body = match answer {
            Ok(value) => serde_json::json!({ "value": value }),
            Err(refusal) => serde_json::json!({ "refused": refusal }),
        };
        self.worker.ends.send(frame(b'a', &[body.to_string().as_bytes()]));
    }

    /// The worker's last frame of the attempt is here.
    async fn end_with(self, frame: &Frame) -> (Report, Fate) {
        let outcome = match read_result(frame) {
            Ok(outcome) => outcome,
            Err(error) => return self.end_broken(format!("the worker broke the protocol: {error}")).await,
        };
        let done = frame.kind() == b'y' || self.fresh;
        self.end_with_outcome(outcome, done).await
    }

    async fn end_with_fork(self, frame: &Frame) -> (Report, Fate) {
        let how = self.worker.explain(&String::from_utf8_lossy(frame.body()));
        self.end_with_outcome(Outcome::Failed(Fault::broken(format!("the worker process {how}"))), false).await
    }

    /// `done` says that the worker takes no other attempt.
    async fn end_with_outcome(mut self, mut outcome: Outcome, done: bool) -> (Report, Fate) {
        if let Some(mask) = mask_of(self.call) {
            mask.outcome(&mut outcome);
        }
        self.worker.ends.drain_log(&mut self.log);
        let ran = self.ran();
        let keep = self.worker.loaded && !done && !self.worker.has_strays() && self.worker.clear_work().await.is_ok();
        let fate = if self.worker.loaded { Fate::Replace } else { Fate::Dead };
        let (outcome, late) = match self.ending {
            None => (outcome, None),
            Some(ending) => (outcome_of(ending), Some(describe_late(&outcome))),
        };
        if keep {
            return (self.report(outcome, late, ran), Fate::Keep);
        }
        match self.worker.kill(&mut self.log).await {
            Ok(()) => (self.report(outcome, late, ran), fate),
            Err(error) => self.undead(&error),
        }
    }

    async fn end_after_exit(self, how: &str) -> (Report, Fate) {
        let problem = format!("the worker process {}", self.worker.explain(how));
        self.end_broken(problem).await
    }

    async fn end_broken(self, problem: String) -> (Report, Fate) {
        self.end_by_force(Some(problem)).await
    }

    async fn end_by_force(mut self, problem: Option<String>) -> (Report, Fate) {
        if let Err(error) = self.worker.kill(&mut self.log).await {
            return self.undead(&error);
        }
        let ran = self.ran();
        let outcome = match (self.ending, problem) {
            (Some(ending), _) => outcome_of(ending),
            (None, Some(mut problem)) => {
                if let Some(mask) = mask_of(self.call) {
                    mask.text(&mut problem);
                }
                Outcome::Failed(Fault::broken(problem))
            }
            (None, None) => Outcome::Stopped,
        };
        (self.report(outcome, None, ran), Fate::Dead)
    }

    /// A process that survives SIGKILL hangs in the kernel; it is said, not hidden.
    fn undead(self, error: &std::io::Error) -> (Report, Fate) {
        let ran = self.ran();
        let outcome = Outcome::Failed(Fault::broken(format!("the worker's process tree could not be ended: {error}")));
        (self.report(outcome, None, ran), Fate::Dead)
    }

    /// The protocol socket closed: the worker is about to end, or the script closed it.
    async fn last_word(&mut self) -> String {
        let wait = async {
            loop {
                match poll_fn(|cx| self.worker.ends.poll_arrival(cx, &mut self.log)).await {
                    Arrival::Control(line) if line.starts_with('e') => return format!("the worker process {}", self.worker.explain(&line[1..])),
                    Arrival::Control(line) if line.starts_with('l') => return line[1..].to_string(),
                    Arrival::ControlClosed => return "the worker's guardian was killed".to_string(),
                    _ => {}
                }
            }
        };
        tokio::time::timeout(LAST_WORD, wait).await.unwrap_or_else(|_| "the worker closed its channel to the engine".to_string())
    }

    fn ran(&self) -> Duration {
        self.started.map_or(Duration::ZERO, |started| started.elapsed())
    }

    fn report(mut self, outcome: Outcome, late: Option<String>, ran: Duration) -> Report {
        if let Some(notice) = self.progress.take() {
            let _ = self.notices.send(notice);
        }
        Report { outcome, log: self.log.finish(), late, ran }
    }
}

/// What hides the attempt's secrets, if it has some.
fn mask_of(call: &Call) -> Option<&Arc<Mask>> {
    call.secrets.as_ref().and_then(|secrets| secrets.mask())
}

fn outcome_of(ending: Ending) -> Outcome {
    match ending {
        Ending::Timeout(timeout) => Outcome::Failed(timed_out(timeout)),
        Ending::Stop => Outcome::Stopped,
    }
}

fn timed_out(timeout: Duration) -> Fault {
    Fault::new(FaultKind::Timeout, format!("the attempt outran its timeout of {} ms", timeout.as_millis()))
}
