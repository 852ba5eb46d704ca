//! `/api/v1/runs/ID/events`: what happens to a run, as server-sent events. An event's id says where it stands in the journal, so
//! that whoever lost the connection goes on with `Last-Event-ID`.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use http_body_util::channel::{Channel, Sender};
use serde_json::{Value, json};
use tokio::sync::Notify;
use viat_engine::journal::Batch;
use viat_engine::record::rfc3339;
use viat_runner::driver::{News, Observer};
use viat_store::{RunId, big};

use super::Engine;
use super::problem::Problem;
use super::runs::blocking;
use super::take::Place;
use crate::cli::error::CliError;
use crate::cli::{find_run, history};

/// How often a run is looked at though nobody said that something happened: another engine may have it.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// After how many of these looks without news a sign of life is sent.
const QUIET: u32 = 15;
/// Journal batches that are read at once, and events that wait for a slow reader.
const AHEAD: usize = 64;

/// Those who want to hear when something happens to a run.
#[derive(Clone, Default)]
pub struct Ears(Arc<Mutex<BTreeMap<RunId, Vec<Arc<Notify>>>>>);

/// One of them; it is taken off on drop.
struct Ear {
    ears: Ears,
    run: RunId,
    heard: Arc<Notify>,
}

impl Drop for Ear {
    fn drop(&mut self) {
        let mut all = self.ears.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(of_run) = all.get_mut(&self.run) else { return };
        of_run.retain(|ear| !Arc::ptr_eq(ear, &self.heard));
        if of_run.is_empty() {
            all.remove(&self.run);
        }
    }
}

impl Ears {
    /// Hears the news, and passes them on.
    pub fn before(&self, next: Observer) -> Observer {
        let ears = self.clone();
        Arc::new(move |run, news| {
            next(run, news);
            if matches!(news, News::Events(_) | News::Ended | News::Lost(_)) {
                ears.tell(run);
            }
        })
    }

    fn listen(&self, run: &RunId) -> Ear {
        let heard = Arc::new(Notify::new());
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(run.clone()).or_default().push(Arc::clone(&heard));
        Ear { ears: self.clone(), run: run.clone(), heard }
    }

    fn tell(&self, run: &RunId) {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // One that is not waiting just now will find that it was told.
        all.get(run).into_iter().flatten().for_each(|ear| ear.notify_one());
    }
}

/// Where an event stands: its batch, and its place in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Position {
    batch: u64,
    /// How many events of the batch were sent.
    sent: usize,
}

impl Position {
    /// The position after the event with this id.
    fn after(id: &str) -> Option<Position> {
        let (batch, index) = id.split_once('.')?;
        Some(Position { batch: batch.parse().ok()?, sent: index.parse::<usize>().ok()?.checked_add(1)? })
    }
}

/// Streams what happens to a run, from its beginning or from after the last event that was seen, until it ends.
pub async fn stream(State(engine): State<Engine>, Place(run): Place<String>, headers: HeaderMap) -> Result<Response, Problem> {
    let position = match headers.get("last-event-id").map(|id| id.to_str().unwrap_or_default()) {
        None | Some("") => Position::default(),
        Some(id) => Position::after(id).ok_or_else(|| Problem::new(StatusCode::BAD_REQUEST, format!("{id:?} is no id of an event of a run")))?,
    };
    let store = Arc::clone(&engine.store);
    let (id, ended) = blocking(move || {
        let id = find_run(store.as_ref(), &run)?;
        Ok((id.clone(), store.run(&id).map_err(CliError::store)?.is_some_and(|row| row.summary.ended_at.is_some())))
    })
    .await?;
    let ear = engine.ears.listen(&id);
    let first = news(&engine, &id, position).await?;
    // A browser comes again when a stream ends; that there is nothing more makes it stop.
    if ended && first.events.is_empty() && position != Position::default() {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let (sender, body) = Channel::<Bytes, Infallible>::new(AHEAD);
    tokio::spawn(send(engine, id, ear, first, sender));
    let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
    Ok((headers, Body::new(body)).into_response())
}

/// What is new, and whether that is all there will ever be.
struct Fresh {
    events: Vec<String>,
    position: Position,
    ended: bool,
}

async fn news(engine: &Engine, id: &RunId, position: Position) -> Result<Fresh, Problem> {
    let (store, id) = (Arc::clone(&engine.store), id.clone());
    blocking(move || {
        // The row first: once it says that the run has ended, the journal has everything.
        let ended = store.run(&id).map_err(CliError::store)?.is_none_or(|row| row.summary.ended_at.is_some());
        let journal = store.journal(&id, position.batch).map_err(CliError::store)?;
        let more = journal.len() > AHEAD;
        let (mut events, mut position) = (Vec::new(), position);
        for encoded in journal.iter().take(AHEAD) {
            let batch = big::decode(store.as_ref(), encoded).map_err(|error| history::unreadable(&id, &error))?;
            events.extend(written(&batch, position));
            position = Position { batch: position.batch + 1, sent: 0 };
        }
        Ok(Fresh { events, position, ended: ended && !more })
    })
    .await
}

/// The events of a batch from a position on, as they are sent.
fn written(batch: &Batch, from: Position) -> Vec<String> {
    let at = rfc3339(batch.at);
    let events = batch.events.iter().enumerate().skip(from.sent);
    events
        .map(|(index, event)| {
            let mut data = json!({"at": at});
            if let (Some(data), Value::Object(event)) = (data.as_object_mut(), json!(event)) {
                // Which processes an attempt has is nobody's business outside.
                data.extend(event.into_iter().filter(|(key, _)| key != "tree"));
            }
            let kind = data["type"].as_str().unwrap_or_default();
            format!("id: {}.{index}\nevent: {kind}\ndata: {data}\n\n", from.batch)
        })
        .collect()
}

async fn send(engine: Engine, id: RunId, ear: Ear, mut fresh: Fresh, mut sender: Sender<Bytes, Infallible>) {
    let mut quiet = 0;
    loop {
        let idle = fresh.events.is_empty();
        for event in fresh.events {
            // Whoever has gone needs no more.
            if sender.send_data(event.into()).await.is_err() {
                return;
            }
        }
        if fresh.ended {
            // A stream that ends is opened again by browsers: this tells programs that it need not be.
            let _ = sender.send_data(Bytes::from_static(b"event: end\ndata: {}\n\n")).await;
            return;
        }
        if idle {
            // Nothing happened, or another engine has the run.
            let _ = tokio::time::timeout(LOOK_EVERY, ear.heard.notified()).await;
            quiet += 1;
        } else {
            quiet = 0;
        }
        if quiet >= QUIET {
            quiet = 0;
            if sender.send_data(Bytes::from_static(b": still here\n\n")).await.is_err() {
                return;
            }
        }
        fresh = match news(&engine, &id, fresh.position).await {
            Ok(fresh) => fresh,
            // The stream breaks off; the reader comes again with the last id it has.
            Err(_) => return,
        };
    }
}

#[cfg(test)]
mod tests {
    use viat_engine::journal::Event;

    use super::*;

    #[test]
    fn nobody_is_remembered_who_has_gone() {
        let ears = Ears::default();
        let run = RunId::from("r");
        let (first, second) = (ears.listen(&run), ears.listen(&run));
        drop(first);
        ears.tell(&run);
        drop(second);
        assert!(ears.0.lock().expect("not poisoned").is_empty());
    }

    #[test]
    fn an_id_says_where_to_go_on() {
        let batch = Batch { at: 0, events: vec![Event::Adopted { owner: "a".to_owned() }, Event::Adopted { owner: "b".to_owned() }] };
        let all = written(&batch, Position { batch: 7, sent: 0 });
        assert_eq!(all[1], "id: 7.1\nevent: adopted\ndata: {\"at\":\"1970-01-01T00:00:00.000Z\",\"type\":\"adopted\",\"owner\":\"b\"}\n\n");
        let after = Position::after("7.0").expect("an id");
        assert_eq!(written(&batch, after), all[1..]);
        assert!(written(&batch, Position::after("7.1").expect("an id")).is_empty());
        for bad in ["", "7", "7.", ".1", "a.b", "1.18446744073709551615"] {
            assert_eq!(Position::after(bad), None, "{bad}");
        }
    }
}
