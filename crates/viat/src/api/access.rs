//! The gate that every request passes: from where it comes, who asks, whether they may, how often, how much; and what is noted of it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::extract::{ConnectInfo, FromRequestParts, MatchedPath, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http_body_util::BodyExt;
use serde_json::Value;
use viat_store::Store;

use super::guard;
use super::problem::Problem;
use super::rate::Rate;
use super::route::{Needs, Route};
use super::runs::blocking;
use crate::audit::{Actor, Change, NO_TOKEN, Via};
use crate::tokens::{self, Scope};

/// How long a part of a body may take to come, and the whole of it.
const PART_WITHIN: Duration = Duration::from_secs(10);
const BODY_WITHIN: Duration = Duration::from_secs(300);
/// The largest form of a link's page, in bytes.
const MAX_FORM: usize = 1 << 20;
/// How often an address may come with a token that is worth nothing: a second, and at once.
const GUESSES: (f64, f64) = (1.0, 20.0);
/// Who a command on this machine acts for, as it says itself. Only believed on the socket, which is the owner's alone.
pub const ACTOR: HeaderName = HeaderName::from_static("viat-actor");

/// The token's id, where the command acts for somebody who came with one; empty for who sits at the keyboard.
pub const ACTOR_TOKEN: HeaderName = HeaderName::from_static("viat-actor-token");

/// Where requests come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// The socket in the home: whoever can open it owns the home.
    Socket,
    /// A loopback address of a home whose owner works alone on it.
    Open,
    /// An address where everybody needs a token.
    Tokens,
}

/// What holds at one door.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The door.
    pub door: Door,
    /// The largest body, in bytes.
    pub max_body: usize,
    /// How many requests a second one client may make; 0: any number.
    pub per_second: u32,
}

impl Bounds {
    /// For commands on the same home.
    pub fn of_the_socket() -> Bounds {
        Bounds { door: Door::Socket, max_body: 64 << 20, per_second: 0 }
    }
}

/// What decides on requests at one door.
pub struct Gate {
    /// The door.
    pub door: Door,
    /// Where tokens are known, and changes are noted.
    pub store: Arc<dyn Store>,
    /// The largest body, in bytes.
    pub max_body: usize,
    /// How often a client may come.
    pub rate: Option<Rate>,
    /// How often an address may be wrong.
    pub guesses: Rate,
    /// What each route asks for.
    rules: Vec<(Method, &'static str, Needs)>,
}

impl Gate {
    /// A gate at this door.
    pub fn new(bounds: Bounds, store: Arc<dyn Store>, routes: &[Route]) -> Gate {
        let Bounds { door, max_body, per_second } = bounds;
        let rules = routes.iter().map(|route| (route.method.clone(), route.path, route.needs)).collect();
        let rate = (per_second > 0).then(|| Rate::new(per_second.into(), f64::from(per_second) * 2.0));
        Gate { door, store, max_body, rate, guesses: Rate::new(GUESSES.0, GUESSES.1), rules }
    }

    /// Whom a route lets in; where there is none, anybody who is known may learn so.
    fn needs(&self, method: &Method, path: &str) -> Needs {
        let method = if *method == Method::HEAD { &Method::GET } else { method };
        self.rules.iter().find(|(of, at, _)| of == method && *at == path).map_or(Needs::Known, |(_, _, needs)| *needs)
    }
}

/// Who asks, and what they may.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Who.
    pub actor: Actor,
    rights: Rights,
}

#[derive(Clone, Debug)]
enum Rights {
    /// The home's owner.
    All,
    /// Who has a token.
    Scopes(Vec<Scope>),
    /// Who has shown nothing.
    None,
}

impl Caller {
    /// Whether one of these scopes is theirs; the scope admin is all of them.
    pub fn may(&self, any: &[Scope]) -> bool {
        match &self.rights {
            Rights::All => true,
            Rights::Scopes(scopes) => scopes.iter().any(|scope| *scope == Scope::Admin || any.contains(scope)),
            Rights::None => false,
        }
    }

    /// Whether they have shown who they are.
    pub fn is_known(&self) -> bool {
        !matches!(self.rights, Rights::None)
    }
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Caller, Problem> {
        // The gate puts it there.
        parts.extensions.get::<Caller>().cloned().ok_or_else(|| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "nobody looked at who asks"))
    }
}

/// Lets a request through, or says why not.
pub async fn gate(State(gate): State<Arc<Gate>>, request: Request, next: Next) -> Response {
    match pass(&gate, request, next).await {
        Ok(response) | Err(response) => response,
    }
}

async fn pass(gate: &Gate, mut request: Request, next: Next) -> Result<Response, Response> {
    let route = request.extensions().get::<MatchedPath>().map_or_else(String::new, |path| path.as_str().to_owned());
    if gate.door != Door::Socket {
        guard::same_origin(&request, gate.door == Door::Open).map_err(IntoResponse::into_response)?;
    }
    let needs = gate.needs(request.method(), &route);
    let address = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(address)| address.ip().to_string());
    let caller = match needs {
        Needs::Nothing => Ok(nobody()),
        Needs::Itself => {
            caller(gate, request.headers(), address.as_deref()).await.or_else(|refused| if refused.is_guess() { Ok(nobody()) } else { Err(refused) })
        }
        Needs::Known | Needs::One(_) => caller(gate, request.headers(), address.as_deref()).await,
    };
    let caller = caller.map_err(IntoResponse::into_response)?;
    if matches!(needs, Needs::Known | Needs::One(_)) && !caller.is_known() {
        return Err(unauthorized("this server asks for an access token"));
    }
    if let Needs::One(scopes) = needs
        && !caller.may(scopes)
    {
        let wanted: Vec<&str> = scopes.iter().chain(&[Scope::Admin]).map(|scope| scope.name()).collect();
        return Err(Problem::new(StatusCode::FORBIDDEN, format!("this needs a token with the scope {}", wanted.join(" or "))).into_response());
    }
    if let Some(rate) = &gate.rate {
        let client = caller.actor.token.clone().or(address).unwrap_or_default();
        rate.take(&client, Instant::now()).map_err(|wait| too_often(wait, "too many requests"))?;
    }
    let limit = if route.starts_with("/links/") { MAX_FORM.min(gate.max_body) } else { gate.max_body };
    let body = std::mem::take(request.body_mut());
    let body = whole(request.headers(), body, limit).await.map_err(IntoResponse::into_response)?;
    let asked = changes(&request, &body);
    *request.body_mut() = Body::from(body);
    request.extensions_mut().insert(caller.clone());
    let response = unless_it_panics(next.run(request)).await;
    if let Some(change) = asked.filter(|_| response.status().is_success()) {
        let store = Arc::clone(&gate.store);
        blocking(move || change.note(store.as_ref(), &caller.actor)).await.map_err(IntoResponse::into_response)?;
    }
    Ok(response)
}

/// Why somebody is not known.
enum Refused {
    /// The token is worth nothing.
    Guess,
    /// Too many were worth nothing.
    TooOften(Duration),
    /// The store does not answer.
    Problem(Problem),
}

impl Refused {
    fn is_guess(&self) -> bool {
        matches!(self, Refused::Guess)
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        match self {
            Refused::Guess => unauthorized("this access token is unknown, expired or revoked"),
            Refused::TooOften(wait) => too_often(wait, "too many unknown access tokens"),
            Refused::Problem(problem) => problem.into_response(),
        }
    }
}

fn nobody() -> Caller {
    Caller { actor: Actor { name: "anonymous".to_owned(), via: Via::Api, token: None }, rights: Rights::None }
}

async fn caller(gate: &Gate, headers: &HeaderMap, address: Option<&str>) -> Result<Caller, Refused> {
    if gate.door == Door::Socket {
        let said = |name| headers.get(name).and_then(|text: &HeaderValue| text.to_str().ok()).filter(|text| !text.is_empty());
        let (name, token) = (said(ACTOR).unwrap_or("local").to_owned(), said(ACTOR_TOKEN));
        let via = if token.is_some() { Via::Api } else { Via::Cli };
        let token = token.filter(|token| *token != NO_TOKEN).map(str::to_owned);
        return Ok(Caller { actor: Actor { name, via, token }, rights: Rights::All });
    }
    let Some(text) = bearer(headers) else {
        let local = Caller { actor: Actor { name: "local".to_owned(), via: Via::Api, token: None }, rights: Rights::All };
        return Ok(if gate.door == Door::Open { local } else { nobody() });
    };
    let (store, text) = (Arc::clone(&gate.store), text.to_owned());
    let found = blocking(move || tokens::check(store.as_ref(), &text)).await.map_err(Refused::Problem)?;
    let Some(found) = found else {
        let known = gate.guesses.take(address.unwrap_or_default(), Instant::now());
        return Err(known.err().map_or(Refused::Guess, Refused::TooOften));
    };
    Ok(Caller { actor: Actor { name: found.name, via: Via::Api, token: Some(found.id) }, rights: Rights::Scopes(found.scopes) })
}

/// What an `Authorization` header says; any other scheme is a token that is worth nothing.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().unwrap_or_default();
    match value.split_once(' ') {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => Some(token.trim()),
        _ => Some(""),
    }
}

/// The answer to who has not shown a good token.
pub fn unauthorized(why: &str) -> Response {
    let problem = Problem::new(StatusCode::UNAUTHORIZED, why).help("send one as `Authorization: Bearer TOKEN`; `viat token create` makes one");
    with(problem, header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))
}

fn too_often(wait: Duration, why: &str) -> Response {
    let seconds = wait.as_secs() + 1;
    with(Problem::new(StatusCode::TOO_MANY_REQUESTS, format!("{why}; come again in {seconds} s")), header::RETRY_AFTER, HeaderValue::from(seconds))
}

fn with(problem: Problem, name: HeaderName, value: HeaderValue) -> Response {
    let mut response = problem.into_response();
    response.headers_mut().insert(name, value);
    response
}

/// The whole body, unless it is too large or too slow.
async fn whole(headers: &HeaderMap, mut body: Body, limit: usize) -> Result<Bytes, Problem> {
    let too_large = || Problem::new(StatusCode::PAYLOAD_TOO_LARGE, format!("the body is larger than {limit} bytes, the most that is taken"));
    let too_slow = |_| Problem::new(StatusCode::REQUEST_TIMEOUT, "the body comes too slowly");
    let announced = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()).and_then(|length| length.parse::<usize>().ok());
    if announced.is_some_and(|length| length > limit) {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    let until = Instant::now() + BODY_WITHIN;
    loop {
        let patience = PART_WITHIN.min(until.saturating_duration_since(Instant::now()));
        let frame = match tokio::time::timeout(patience, body.frame()).await.map_err(too_slow)? {
            None => return Ok(bytes.into()),
            Some(Ok(frame)) => frame,
            Some(Err(error)) => return Err(Problem::new(StatusCode::BAD_REQUEST, format!("the body breaks off: {error}"))),
        };
        // What is no data are trailers, which mean nothing here.
        let Ok(data) = frame.into_data() else { continue };
        if bytes.len() + data.len() > limit {
            return Err(too_large());
        }
        bytes.extend_from_slice(&data);
    }
}

/// What will be noted of a request if it is granted. What changes assets and tokens notes itself, in the unit that does it.
fn changes(request: &Request, body: &[u8]) -> Option<Change> {
    // Most bodies, the large ones among them, are nobody's business here: they are not read twice.
    if request.method() != Method::POST || Change::of_request(request.uri().path()).is_none() {
        return None;
    }
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    Change::asked(request.uri().path(), &body)
}

/// A handler that panics answers 500, as any failure of ours.
async fn unless_it_panics(work: impl Future<Output = Response> + Send + 'static) -> Response {
    /// Whoever goes away ends what was done for them.
    struct Ended(tokio::task::AbortHandle);
    impl Drop for Ended {
        fn drop(&mut self) {
            self.0.abort();
        }
    }
    let task = tokio::spawn(work);
    let _ended = Ended(task.abort_handle());
    match task.await {
        Ok(response) => response,
        Err(_) => Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "the request's work was broken off").into_response(),
    }
}
