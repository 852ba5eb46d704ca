//! The worker of `http` scripts: one request for each attempt, its redirects followed by hand, everything bounded.

use std::error::Error;
use std::fs::File;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Method, Response, StatusCode, Url, redirect};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use serde_json::{Map, Value, json};
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;

use super::Start;
use super::channel::{Channel, Given, checked};
use crate::script::ends::watched;
use crate::script::fault::{Fault, FaultKind};
use crate::script::http::{Denied, Filled, Hosts, Template, ValueOf};

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(10);
/// How much of a body goes into an error's `extra`.
const EXTRA: usize = 64 << 10;
/// How many bytes of headers a value may have.
const MAX_HEADERS: usize = 256 << 10;

/// Serves attempts until the engine is gone.
pub(super) fn serve(start: Start, mut channel: Channel, cancel: File) -> io::Result<()> {
    let template: Template = serde_json::from_str(&start.source)?;
    let hosts: Arc<Hosts> = Arc::new(serde_json::from_str(&start.more)?);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let told = Arc::new(Told::default());
    let ear = Arc::clone(&told);
    std::thread::Builder::new().stack_size(128 << 10).spawn(move || ear.listen(cancel))?;
    let mut client = None;
    let idle = {
        let _inside = runtime.enter();
        watched(channel.fd().try_clone_to_owned()?)?
    };
    channel.ready()?;
    loop {
        runtime.block_on(until_called(&idle))?;
        let given = channel.next_call()?;
        told.begin(&given.id);
        let attempt = async {
            let made = match &client {
                Some(made) => Client::clone(made),
                None => client.insert(build(&hosts)?).clone(),
            };
            let attempt = Attempt { template: &template, hosts: &hosts, client: made, limit: start.limit };
            tokio::select! {
                outcome = attempt.run(&given) => outcome,
                () = told.until_asked(&given.id) => Err(Fault::new(FaultKind::Exception, "the request was given up: the attempt was asked to stop")),
            }
        };
        let outcome = runtime.block_on(attempt);
        told.begin("");
        channel.end(outcome)?;
    }
}

/// Comes back when the engine says something. Until then connections are looked after: what was given up is hung up, what the
/// other side closed is let go of.
async fn until_called(idle: &AsyncFd<OwnedFd>) -> io::Result<()> {
    loop {
        // cleared before it is asked, so that what comes afterwards wakes again
        idle.readable().await?.clear_ready();
        match poll(&mut [PollFd::new(idle, PollFlags::IN)], Some(&Timespec::default())) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

/// What the cancel pipe says, and which attempt runs.
#[derive(Default)]
struct Told {
    running: Mutex<(String, String)>,
    asked: Notify,
}

impl Told {
    /// Another attempt runs; the word to stop it may have come before.
    fn begin(&self, id: &str) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        id.clone_into(&mut running.0);
        if !id.is_empty() && running.1 == id {
            self.asked.notify_one();
        }
    }

    /// Comes back when this attempt is asked to stop; a word for an earlier one is no word.
    async fn until_asked(&self, id: &str) {
        loop {
            self.asked.notified().await;
            if self.running.lock().unwrap_or_else(PoisonError::into_inner).1 == id {
                return;
            }
        }
    }

    fn listen(&self, mut cancel: File) {
        let (mut buffer, mut text) = ([0; 4096], String::new());
        loop {
            match cancel.read(&mut buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // the guardian, and so the engine, is gone
                Ok(0) | Err(_) => std::process::exit(70),
                Ok(count) => text.push_str(&String::from_utf8_lossy(&buffer[..count])),
            }
            while let Some(end) = text.find('\n') {
                let line: String = text.drain(..=end).collect();
                let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
                running.1 = line.trim_end().to_owned();
                if running.0 == running.1 {
                    self.asked.notify_one();
                }
            }
        }
    }
}

/// Looks names up as the machine does, and leaves out what may not be asked.
struct Lookup {
    hosts: Arc<Hosts>,
}

impl Resolve for Lookup {
    fn resolve(&self, name: Name) -> Resolving {
        let hosts = Arc::clone(&self.hosts);
        Box::pin(async move {
            let found: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            let mut denied = None;
            let mut allowed = Vec::new();
            for address in found {
                match hosts.check_address(name.as_str(), address.ip()) {
                    Ok(()) => allowed.push(address),
                    Err(why) => denied = Some(why),
                }
            }
            match denied {
                Some(why) if allowed.is_empty() => Err(why.into()),
                _ => Ok(Box::new(allowed.into_iter()) as Addrs),
            }
        })
    }
}

fn build(hosts: &Arc<Hosts>) -> Result<Client, Fault> {
    // a second worker in the same process would find it installed: that is what is wanted
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = Client::builder()
        .user_agent(concat!("viat/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT)
        .redirect(redirect::Policy::none())
        .no_proxy()
        .pool_max_idle_per_host(1)
        .dns_resolver(Arc::new(Lookup { hosts: Arc::clone(hosts) }))
        .build();
    client.map_err(|error| Fault::new(FaultKind::Exception, format!("no request can be made here: {}", chain(&error))))
}

struct Attempt<'a> {
    template: &'a Template,
    hosts: &'a Hosts,
    client: Client,
    limit: usize,
}

/// The response, read to its end.
struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl Attempt<'_> {
    async fn run(&self, given: &Given) -> Result<Vec<u8>, Fault> {
        let misfit = |message: String| Fault::new(FaultKind::Annotation, message);
        let filled = self.template.fill(&given.arguments()?, &given.secrets).map_err(misfit)?;
        let within = Duration::from_millis(self.template.timeout_ms);
        let asked = Instant::now();
        let shown = format!("{} {}", filled.method, without_query(&filled.url));
        let answer = match tokio::time::timeout(within, self.follow(filled, &given.context.idempotency_key)).await {
            Ok(answer) => answer,
            Err(_) => Err(Fault::new(FaultKind::Timeout, format!("{shown} had no answer within the request's timeout of {} ms", within.as_millis()))),
        };
        let answer = match answer {
            Ok(answer) => answer,
            Err(fault) => {
                note(&format!("{shown}: {}", fault.message));
                return Err(fault);
            }
        };
        note(&format!("{shown}: {} in {} ms, {} bytes", answer.status.as_u16(), asked.elapsed().as_millis(), answer.body.len()));
        self.judge(&shown, answer)
    }

    /// Sends the request, and goes where it is sent on to.
    async fn follow(&self, filled: Filled, key: &str) -> Result<Answer, Fault> {
        let misfit = |message: String| Fault::new(FaultKind::Annotation, message);
        let mut url = Url::parse(&filled.url).map_err(|error| misfit(format!("{:?} is no URL: {error}", filled.url)))?;
        if !filled.query.is_empty() {
            url.query_pairs_mut().extend_pairs(&filled.query);
        }
        let mut headers = headers(&filled.headers).map_err(misfit)?;
        if !headers.contains_key("idempotency-key") {
            let value = HeaderValue::from_str(key).map_err(|_| misfit("the idempotency key cannot be a header".to_owned()))?;
            headers.insert("idempotency-key", value);
        }
        let mut method = Method::from_bytes(filled.method.as_bytes()).map_err(|error| misfit(error.to_string()))?;
        let mut body = filled.body;
        for _ in 0..=self.template.redirects {
            self.check(&url)?;
            let mut request = self.client.request(method.clone(), url.clone()).headers(headers.clone());
            if let Some(body) = &body {
                request = request.body(body.clone());
            }
            let response = request.send().await.map_err(|error| failure(&error))?;
            let Some(next) = onward(&response, &url)? else { return self.read(response).await };
            let status = response.status();
            if status == StatusCode::SEE_OTHER && method != Method::HEAD || matches!(status.as_u16(), 301 | 302) && method == Method::POST {
                (method, body) = (Method::GET, None);
                headers.remove("content-type");
            }
            if next.origin() != url.origin() {
                // what was meant for the one host is not told to another
                headers = headers.into_iter().filter_map(|(name, value)| name.map(|name| (name, value))).filter(|(name, _)| is_harmless(name)).collect();
            }
            url = next;
        }
        let message = format!("more than {} redirects, the most that are followed (`redirects`)", self.template.redirects);
        Err(Fault { code: "too_many_redirects".to_owned(), ..Fault::new(FaultKind::Exception, message) })
    }

    fn check(&self, url: &Url) -> Result<(), Fault> {
        let host = url.host_str().filter(|_| matches!(url.scheme(), "http" | "https"));
        let host = host.ok_or_else(|| denied(&Denied(format!("{} is neither http nor https", without_query(url.as_str())))))?;
        self.hosts.check_name(host, url.port_or_known_default().unwrap_or(0)).map_err(|why| denied(&why))
    }

    async fn read(&self, mut response: Response) -> Result<Answer, Fault> {
        let most = self.template.max_bytes.and_then(|most| usize::try_from(most).ok()).unwrap_or(self.limit).min(self.limit);
        let too_big = || Fault::new(FaultKind::InvalidOutput, format!("the response has more than {most} bytes, the most that is read"));
        if response.content_length().is_some_and(|length| length > most as u64) {
            return Err(too_big());
        }
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| failure(&error))? {
            if body.len() + chunk.len() > most {
                return Err(too_big());
            }
            body.extend_from_slice(&chunk);
        }
        Ok(Answer { status: response.status(), headers: response.headers().clone(), body })
    }

    fn judge(&self, shown: &str, answer: Answer) -> Result<Vec<u8>, Fault> {
        let status = answer.status.as_u16();
        let expected = if self.template.expect.is_empty() { answer.status.is_success() } else { self.template.expect.contains(&status) };
        if self.template.transient_statuses.contains(&status) {
            let mut fault = Fault::new(FaultKind::Transport, format!("{shown} answered {status}, which the template calls transient"));
            fault.retry_after_ms = retry_after(&answer.headers);
            return Err(fault);
        }
        if !expected {
            let mut text = String::from_utf8_lossy(&answer.body[..answer.body.len().min(EXTRA)]).into_owned();
            if answer.body.len() > EXTRA {
                // In the words of the other cuts: so that what it leaves of a secret is found.
                text.push_str(&format!("… ({} bytes more)", answer.body.len() - EXTRA));
            }
            let body = serde_json::from_slice(&answer.body).ok().filter(|_| answer.body.len() <= EXTRA).unwrap_or(Value::String(text));
            let extra = json!({"status": status, "headers": shown_headers(&answer.headers)?, "body": body});
            let message = format!("{shown} answered {status}, which was not expected");
            return Err(Fault { code: format!("http_{status}"), extra: Some(extra), ..Fault::new(FaultKind::Exception, message) });
        }
        match self.template.value {
            ValueOf::Status => Ok(status.to_string().into_bytes()),
            ValueOf::Headers => checked(&Value::Object(shown_headers(&answer.headers)?), self.limit, "the headers"),
            ValueOf::Body => checked(&body_value(&answer)?, self.limit, "the body"),
        }
    }
}

/// JSON if the response says so, else text; nothing is null.
fn body_value(answer: &Answer) -> Result<Value, Fault> {
    let wrong = |problem: String| Fault::new(FaultKind::InvalidOutput, problem);
    if answer.body.is_empty() {
        return Ok(Value::Null);
    }
    let kind = answer.headers.get("content-type").and_then(|kind| kind.to_str().ok()).unwrap_or_default().to_ascii_lowercase();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if kind == "application/json" || kind.ends_with("+json") {
        return serde_json::from_slice(&answer.body).map_err(|error| wrong(format!("the body calls itself JSON and is none: {error}")));
    }
    let text = std::str::from_utf8(&answer.body).map_err(|_| wrong(format!("the body ({kind}) is neither JSON nor UTF-8 text")))?;
    Ok(Value::String(text.to_owned()))
}

/// Names in lower case; of several headers of one name the values in a list.
fn shown_headers(headers: &HeaderMap) -> Result<Map<String, Value>, Fault> {
    let size: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    if size > MAX_HEADERS {
        return Err(Fault::new(FaultKind::InvalidOutput, format!("the response's headers have {size} bytes; the most is {MAX_HEADERS}")));
    }
    let text = |value: &HeaderValue| Value::String(String::from_utf8_lossy(value.as_bytes()).into_owned());
    let read = |name: &HeaderName| {
        let mut all: Vec<Value> = headers.get_all(name).iter().map(text).collect();
        (name.as_str().to_owned(), if all.len() == 1 { all.remove(0) } else { Value::Array(all) })
    };
    Ok(headers.keys().map(read).collect())
}

fn headers(given: &[(String, String)]) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for (name, value) in given {
        let key = HeaderName::from_bytes(name.as_bytes()).map_err(|_| format!("{name:?} cannot name a header"))?;
        let value = HeaderValue::from_str(value).map_err(|_| format!("header {name}: its value holds what a header cannot"))?;
        headers.insert(key, value);
    }
    Ok(headers)
}

/// Where the response sends the request on to.
fn onward(response: &Response, url: &Url) -> Result<Option<Url>, Fault> {
    if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return Ok(None);
    }
    let Some(target) = response.headers().get("location") else { return Ok(None) };
    let target = target.to_str().ok().and_then(|target| url.join(target).ok());
    let wrong = || Fault::new(FaultKind::Exception, "the response sends the request on to what is no URL".to_owned());
    target.map(Some).ok_or_else(wrong)
}

fn is_harmless(name: &HeaderName) -> bool {
    matches!(name.as_str(), "accept" | "accept-language" | "content-type" | "idempotency-key" | "user-agent")
}

fn denied(why: &Denied) -> Fault {
    Fault { code: "host_not_allowed".to_owned(), ..Fault::new(FaultKind::Exception, why.to_string()) }
}

/// A request that did not come through.
fn failure(error: &reqwest::Error) -> Fault {
    let mut source = error.source();
    while let Some(cause) = source {
        if let Some(why) = cause.downcast_ref::<Denied>() {
            return denied(why);
        }
        source = cause.source();
    }
    let text = chain(error);
    if error.is_builder() { Fault::new(FaultKind::Exception, text) } else { Fault::new(FaultKind::Transport, text) }
}

/// The causes of an error, without the URL, whose query may hold what nobody should read.
fn chain(error: &reqwest::Error) -> String {
    let mut causes: Vec<String> = Vec::new();
    let mut source = error.source();
    while let Some(cause) = source {
        causes.push(cause.to_string());
        source = cause.source();
    }
    causes.dedup();
    let what = if error.is_connect() {
        "no connection"
    } else if error.is_body() || error.is_decode() {
        "the answer broke off"
    } else {
        "the request failed"
    };
    if causes.is_empty() { what.to_owned() } else { format!("{what}: {}", causes.join(": ")) }
}

/// `Retry-After` in either of its forms, in milliseconds.
fn retry_after(headers: &HeaderMap) -> Option<u64> {
    let text = headers.get("retry-after")?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse::<u64>() {
        return Some(seconds.saturating_mul(1000));
    }
    let at = httpdate::parse_http_date(text).ok()?;
    let wait = at.duration_since(SystemTime::now()).unwrap_or_default();
    u64::try_from(wait.as_millis()).ok()
}

fn without_query(url: &str) -> &str {
    url.split(['?', '#']).next().unwrap_or(url)
}

/// A line of the attempt's log.
fn note(line: &str) {
    let text = format!("{line}\n");
    let _ = rustix::io::write(rustix::stdio::stderr(), text.as_bytes());
}
