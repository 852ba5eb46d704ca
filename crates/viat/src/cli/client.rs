//! Requests to whoever drives the runs of a home, over the sockets that lie in it.

use std::path::Path;

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::header::HeaderValue;
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde_json::Value;
use tokio::net::UnixStream;
use viat_store::RunId;

use super::error::CliError;
use crate::api::access::{ACTOR, ACTOR_TOKEN};
use crate::audit::{Actor, NO_TOKEN, Via};
use crate::socket::{self, Place};
use crate::wiring::Home;

/// How long the server may take to answer.
const ANSWER_WITHIN: std::time::Duration = std::time::Duration::from_secs(30);

/// A connection to a running server.
pub struct Client {
    runtime: tokio::runtime::Runtime,
    stream: UnixStream,
}

impl Client {
    /// Connects to the server of a home; `None` if none is running there.
    pub fn find(home: &Path) -> Result<Option<Client>, CliError> {
        Client::at(home, &Place::Server)
    }

    /// Connects to the command that has the run in the foreground, or else to the server of the home; `None` if there is neither.
    pub fn of_run(home: &Home, run: &RunId) -> Result<Option<Client>, CliError> {
        let owner = home.store.run(run).map_err(CliError::store)?.and_then(|row| row.owner);
        let foreground = owner.map(|owner| Client::at(&home.folder, &Place::Owner(owner))).transpose()?.flatten();
        foreground.map_or_else(|| Client::find(&home.folder), |client| Ok(Some(client)))
    }

    fn at(home: &Path, place: &Place) -> Result<Option<Client>, CliError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| CliError::failed(format!("no event loop for the request: {error}")))?;
        let Ok((_folder, path)) = socket::path(home, place) else { return Ok(None) };
        // No socket, or one that nobody listens on any more: there is no server.
        match runtime.block_on(UnixStream::connect(&path)) {
            Ok(stream) => Ok(Some(Client { runtime, stream })),
            Err(_) => Ok(None),
        }
    }

    /// Posts a body and gives the answer's.
    pub fn post(self, path: &str, body: &impl Serialize) -> Result<Value, CliError> {
        let body = serde_json::to_vec(body).map_err(|error| CliError::usage(error.to_string()))?;
        self.ask(Method::POST, path, body)
    }

    /// Gets what lies under a path.
    pub fn get(self, path: &str) -> Result<Value, CliError> {
        self.ask(Method::GET, path, Vec::new())
    }

    /// Posts a body and gives the bytes of the answer's.
    pub fn post_for_bytes(self, path: &str, body: &impl Serialize) -> Result<Vec<u8>, CliError> {
        let body = serde_json::to_vec(body).map_err(|error| CliError::usage(error.to_string()))?;
        self.exchange(Method::POST, path, body).map(|answer| answer.to_vec())
    }

    fn ask(self, method: Method, path: &str, body: Vec<u8>) -> Result<Value, CliError> {
        Ok(serde_json::from_slice(&self.exchange(method, path, body)?).unwrap_or(Value::Null))
    }

    fn exchange(self, method: Method, path: &str, body: Vec<u8>) -> Result<Bytes, CliError> {
        let Client { runtime, stream } = self;
        let exchanged = runtime.block_on(async { tokio::time::timeout(ANSWER_WITHIN, exchange(stream, method, path, body)).await });
        let (status, answer) = match exchanged {
            Err(_) => return Err(CliError::failed(format!("the server does not answer within {} s", ANSWER_WITHIN.as_secs()))),
            Ok(answer) => answer.map_err(|error| CliError::failed(format!("the server does not answer: {error}")))?,
        };
        if (200..300).contains(&status) {
            return Ok(answer);
        }
        let value: Value = serde_json::from_slice(&answer).unwrap_or(Value::Null);
        let text = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
        let detail = text("detail").unwrap_or_else(|| format!("the server answered {status}"));
        let error = match status {
            400..=403 | 411..=499 => CliError::usage(detail),
            404..=410 => CliError::refused(detail),
            _ => CliError::failed(detail),
        };
        Err(match text("help") {
            Some(help) => error.help(help),
            None => error,
        })
    }
}

async fn exchange(stream: UnixStream, method: Method, path: &str, body: Vec<u8>) -> Result<(u16, Bytes), Box<dyn std::error::Error + Send + Sync>> {
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let driven = tokio::spawn(connection);
    let actor = Actor::at_the_keyboard();
    let token = match (actor.via, &actor.token) {
        (Via::Api, Some(token)) => HeaderValue::from_str(token)?,
        (Via::Api, None) => HeaderValue::from_static(NO_TOKEN),
        _ => HeaderValue::from_static(""),
    };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", "localhost")
        .header("content-type", "application/json")
        .header(ACTOR, HeaderValue::from_str(&actor.name).unwrap_or(HeaderValue::from_static("local")))
        .header(ACTOR_TOKEN, token)
        .body(Full::new(Bytes::from(body)))?;
    let response = sender.send_request(request).await?;
    let status = response.status().as_u16();
    let body = response.into_body().collect().await?.to_bytes();
    drop(sender);
    let _ = driven.await;
    Ok((status, body))
}
