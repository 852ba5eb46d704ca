//! Sends spans to a collector from a thread of its own; whoever hands them over never waits.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use axum::http::header::{CONTENT_TYPE, HOST};
use http_body_util::{BodyExt, Full, Limited};
use hyper::Request;
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::otlp::{self, Sent};
use super::settings::Settings;

/// How long what is queued may take to be sent once the engine ends.
const FAREWELL: Duration = Duration::from_secs(3);
/// Waits before a request is tried again, if the collector is not there or asks for it.
const AGAIN_AFTER: [Duration; 4] = [Duration::from_millis(500), Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(4)];
/// The longest answer that is read, in bytes.
const MOST_ANSWER: usize = 64 << 10;

/// Says something to whoever runs the engine.
pub type Tell = Box<dyn Fn(&str) + Send>;

/// What became of spans.
#[derive(Default)]
pub struct SpanCounts {
    /// The collector took them.
    pub sent: AtomicU64,
    /// The queue was full.
    pub dropped: AtomicU64,
    /// The collector did not take them, or was not there.
    pub failed: AtomicU64,
}

/// The way to the collector. Dropping it sends what is queued, for at most [`FAREWELL`].
pub struct Exporter {
    queue: Option<mpsc::Sender<Sent>>,
    ending: watch::Sender<bool>,
    thread: Mutex<Option<JoinHandle<()>>>,
    counts: Arc<SpanCounts>,
}

impl Exporter {
    /// Starts the thread. What goes wrong is told once, and again when it goes well.
    ///
    /// # Errors
    /// The thread or its event loop could not be made.
    pub fn start(settings: Settings, counts: Arc<SpanCounts>, tell: Tell) -> std::io::Result<Exporter> {
        let (queue, heard) = mpsc::channel(settings.queue);
        let (ending, ends) = watch::channel(false);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let sending = Sending { settings, counts: Arc::clone(&counts), ends, tell, in_trouble: false };
        let thread = std::thread::Builder::new().name("spans".to_owned()).spawn(move || runtime.block_on(sending.run(heard)))?;
        Ok(Exporter { queue: Some(queue), ending, thread: Mutex::new(Some(thread)), counts })
    }

    /// Hands a span over, or drops it if too many wait.
    pub fn send(&self, span: Sent) {
        let taken = self.queue.as_ref().is_some_and(|queue| queue.try_send(span).is_ok());
        if !taken {
            self.counts.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        self.queue = None;
        let _ = self.ending.send(true);
        if let Some(thread) = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = thread.join();
        }
    }
}

struct Sending {
    settings: Settings,
    counts: Arc<SpanCounts>,
    ends: watch::Receiver<bool>,
    tell: Tell,
    in_trouble: bool,
}

impl Sending {
    async fn run(mut self, mut heard: mpsc::Receiver<Sent>) {
        let mut ends = self.ends.clone();
        let too_late = async move {
            // A sender that is gone is an end, too.
            let _ = ends.wait_for(|ended| *ended).await;
            sleep(FAREWELL).await;
        };
        let all = async {
            while let Some(batch) = self.batch(&mut heard).await {
                self.deliver(&batch).await;
            }
        };
        tokio::select! {
            () = all => {}
            () = too_late => {}
        }
    }

    /// The next spans: as many as fit a request, or what came within the delay. `None` when nobody sends any more.
    async fn batch(&self, heard: &mut mpsc::Receiver<Sent>) -> Option<Vec<Sent>> {
        let mut batch = vec![heard.recv().await?];
        let until = Instant::now() + self.settings.delay;
        while batch.len() < self.settings.batch {
            // Once nobody sends any more, what is left comes without a wait.
            match timeout_at(until, heard.recv()).await {
                Ok(Some(span)) => batch.push(span),
                Ok(None) | Err(_) => break,
            }
        }
        Some(batch)
    }

    async fn deliver(&mut self, batch: &[Sent]) {
        let body = Bytes::from(otlp::request(&self.settings.resource, batch));
        let outcome = self.persistently(&body).await;
        let counter = if outcome.is_ok() { &self.counts.sent } else { &self.counts.failed };
        counter.fetch_add(batch.len() as u64, Ordering::Relaxed);
        let (before, now) = (self.in_trouble, outcome.is_err());
        self.in_trouble = now;
        match outcome {
            Ok(()) if before => (self.tell)(&format!("spans reach {} again", self.settings.endpoint)),
            Err(problem) if !before => (self.tell)(&format!("{} spans did not reach {}: {problem}", batch.len(), self.settings.endpoint)),
            _ => {}
        }
    }

    async fn persistently(&self, body: &Bytes) -> Result<(), String> {
        let mut ends = self.ends.clone();
        for wait in AGAIN_AFTER {
            match self.post(body).await {
                Ok(()) => return Ok(()),
                Err(Refused { problem, again: false }) => return Err(problem),
                Err(Refused { problem, again: true }) if *ends.borrow() => return Err(problem),
                Err(Refused { again: true, .. }) => {}
            }
            tokio::select! {
                () = sleep(wait) => {}
                _ = ends.wait_for(|ended| *ended) => {}
            }
        }
        self.post(body).await.map_err(|refused| refused.problem)
    }

    async fn post(&self, body: &Bytes) -> Result<(), Refused> {
        let exchange = timeout(self.settings.timeout, exchange(&self.settings, body.clone())).await;
        let again = |problem: String| Refused { problem, again: true };
        let status = exchange.map_err(|_| again(format!("no answer within {} ms", self.settings.timeout.as_millis())))?;
        match status.map_err(|error| again(error.to_string()))? {
            200..=299 => Ok(()),
            status @ (429 | 502 | 503 | 504) => Err(again(format!("it answered {status}"))),
            status => Err(Refused { problem: format!("it answered {status}"), again: false }),
        }
    }
}

/// Why a request was of no use, and whether another may be.
struct Refused {
    problem: String,
    again: bool,
}

async fn exchange(settings: &Settings, body: Bytes) -> Result<u16, Box<dyn std::error::Error + Send + Sync>> {
    let uri = &settings.endpoint;
    let (host, port) = (uri.host().unwrap_or("localhost"), uri.port_u16().unwrap_or(80));
    let stream = TcpStream::connect(format!("{host}:{port}")).await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let driven = tokio::spawn(connection);
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let authority = uri.port_u16().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
    let mut request = Request::post(path).header(HOST, authority).header(CONTENT_TYPE, "application/json").body(Full::new(body))?;
    request.headers_mut().extend(settings.headers.iter().cloned());
    let response = sender.send_request(request).await?;
    let status = response.status().as_u16();
    // What it says of spans that it did not want is not ours to mend.
    let _ = Limited::new(response.into_body(), MOST_ANSWER).collect().await;
    driven.abort();
    Ok(status)
}
