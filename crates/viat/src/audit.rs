//! The audit log: who changed or decided what, when and why. Entries are never changed; the newest come first.

use std::sync::atomic::{AtomicU16, Ordering};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use viat_engine::journal::Millis;
use viat_engine::record::rfc3339;
use viat_runner::clock::wall_now;
use viat_store::{KeyFilter, Op, Store, Unit};

use crate::cli::error::CliError;

/// The space of the store's keys in which entries are kept; a key begins with its time.
const SPACE: &str = "audit";
/// The most entries that a page has.
pub const MAX_ROWS: usize = 1_000;
/// Entries that are looked at in one go where some are filtered out.
const STRIDE: usize = 1_000;

/// For whom a command that the server runs acts: a name, and a token's id.
pub const ACTOR_VARIABLE: &str = "VIAT_ACTOR";
/// See [`ACTOR_VARIABLE`].
pub const TOKEN_VARIABLE: &str = "VIAT_ACTOR_TOKEN";
/// Stands for no token.
pub const NO_TOKEN: &str = "none";

/// An id that sorts by time; those of one process in the order in which they were made, within a millisecond too.
pub fn ordered_id() -> String {
    static MADE: AtomicU16 = AtomicU16::new(0);
    let fresh = viat_store::fresh_id().replace('-', "");
    // The order matters within a millisecond only, which is too short for the number to begin again.
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    format!("{:012x}{number:04x}{}", wall_now().max(0), fresh.get(24..).unwrap_or_default())
}

/// How somebody came to viat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Via {
    /// A command on this machine.
    Cli,
    /// A request to the server.
    Api,
    /// A signed link.
    Link,
}

/// Who acts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Actor {
    /// The user's or the token's name.
    pub name: String,
    /// How they came.
    pub via: Via,
    /// The token's id, if there was one.
    pub token: Option<String>,
}

impl Actor {
    /// Whoever typed the command.
    pub fn at_the_keyboard() -> Actor {
        let named = |variable: &str| std::env::var(variable).ok().filter(|value| !value.is_empty());
        let name = named(ACTOR_VARIABLE).or_else(crate::cli::review::user).unwrap_or_else(|| "unknown".to_owned());
        match named(TOKEN_VARIABLE) {
            Some(token) => Actor { name, via: Via::Api, token: Some(token).filter(|token| token != NO_TOKEN) },
            None => Actor { name, via: Via::Cli, token: None },
        }
    }
}

/// One change or decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its id; later entries have greater ones.
    pub id: String,
    /// When, RFC 3339.
    pub at: String,
    /// Who, as far as viat knows by itself.
    pub actor: String,
    /// How they came.
    pub via: Via,
    /// The token's id, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// In whose name, if they said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// What was done: `workflow.publish`.
    pub action: String,
    /// To what: `workflow hello`, a run's or review's id.
    pub subject: String,
    /// What else there is to know of it: a version, a decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Why, if they said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What is noted of a change, besides who made it and when.
#[derive(Clone, Debug, Default)]
pub struct Change {
    /// What was done.
    pub action: &'static str,
    /// To what.
    pub subject: String,
    /// What else there is to know of it.
    pub detail: Option<String>,
    /// In whose name.
    pub by: Option<String>,
    /// Why.
    pub reason: Option<String>,
}

impl Change {
    /// A change of which there is nothing more to say.
    pub fn of(action: &'static str, subject: impl Into<String>) -> Change {
        Change { action, subject: subject.into(), ..Change::default() }
    }

    /// The same, with more to know of it.
    #[must_use]
    pub fn detail(mut self, detail: impl Into<String>) -> Change {
        self.detail = Some(detail.into());
        self
    }

    /// The operation that notes it, to stand in the unit that makes it.
    pub fn op(self, actor: &Actor) -> Op {
        let id = ordered_id();
        let Change { action, subject, detail, by, reason } = self;
        let at = rfc3339(wall_now());
        let Actor { name, via, token } = actor.clone();
        let entry = Entry { id: id.clone(), at, actor: name, via, token, by, action: action.to_owned(), subject, detail, reason };
        // An entry is made of text alone.
        Op::SetKey { space: SPACE.to_owned(), key: id, value: serde_json::to_vec(&entry).unwrap_or_default() }
    }

    /// What is noted of a request about a run or a review that was granted; `None` of a path that changes nothing of the kind.
    pub fn asked(path: &str, body: &Value) -> Option<Change> {
        let (action, subject) = Change::of_request(path)?;
        let text = |key: &str| body.get(key).and_then(Value::as_str).map(str::to_owned);
        let detail = match action {
            "run.migrate" => body.get("to_version").map(|version| format!("to version {version}")),
            "run.settle" if body.get("not_done") == Some(&Value::Bool(true)) => text("step").map(|step| format!("{step} was not done")),
            "run.settle" => text("step").map(|step| format!("{step} completed")),
            "run.resume" => text("from").map(|from| format!("from {from}")),
            "run.event" => text("name"),
            _ => text("decision").or_else(|| text("until")).or_else(|| text("for")),
        };
        let reason = text("reason").or_else(|| text("comment")).or_else(|| text("accept_repeat"));
        Some(Change { action, subject: subject.to_owned(), detail, by: text("by"), reason })
    }

    /// What a request at this path does, and to which run or review; `None` if nothing of it is noted.
    pub fn of_request(path: &str) -> Option<(&'static str, &str)> {
        let mut segments = path.strip_prefix("/api/v1/")?.split('/');
        let (Some(kind), Some(id), Some(what), None) = (segments.next(), segments.next(), segments.next(), segments.next()) else { return None };
        let action = match (kind, what) {
            ("runs", "cancel") => "run.cancel",
            ("runs", "events") => "run.event",
            ("runs", "settle") => "run.settle",
            ("runs", "compensate") => "run.compensate",
            ("runs", "resume") => "run.resume",
            ("runs", "migrate") => "run.migrate",
            ("reviews", "decision") => "review.decide",
            ("reviews", "extension") => "review.extend",
            ("reviews", "links") => "review.link",
            _ => return None,
        };
        Some((action, id))
    }

    /// Notes what is being done in any case, without waiting until it is durable; what follows in the same store is so only after it.
    pub fn mention(self, store: &dyn Store, actor: &Actor) {
        store.commit(Unit::from(self.op(actor)), Box::new(|_| {}));
    }

    /// Notes what has been done already, in a unit of its own.
    pub fn note(self, store: &dyn Store, actor: &Actor) -> Result<(), CliError> {
        store.commit_blocking(Unit::from(self.op(actor))).map(drop).map_err(CliError::store)
    }
}

/// Which entries are wanted.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Only those of this action, or of all that begin with it and a dot: `workflow`.
    pub action: Option<String>,
    /// Only those of this actor, or in this name.
    pub actor: Option<String>,
    /// Only those about this.
    pub subject: Option<String>,
    /// Only those at this time or later.
    pub since: Option<Millis>,
    /// Only those older than the one with this id.
    pub before: Option<String>,
}

impl Wanted {
    fn matches(&self, entry: &Entry) -> bool {
        let action = |wanted: &String| entry.action == *wanted || entry.action.strip_prefix(wanted.as_str()).is_some_and(|rest| rest.starts_with('.'));
        self.action.as_ref().is_none_or(action)
            && self.actor.as_ref().is_none_or(|actor| entry.actor == *actor || entry.by.as_ref() == Some(actor))
            && self.subject.as_ref().is_none_or(|subject| entry.subject == *subject || entry.subject.split(' ').nth(1) == Some(subject))
    }
}

/// At most `limit` entries, the newest first.
pub fn list(store: &dyn Store, wanted: &Wanted, limit: usize) -> Result<Vec<Entry>, CliError> {
    let since = wanted.since.map(rfc3339);
    let mut before = wanted.before.clone();
    let mut found = Vec::new();
    loop {
        let page = store.keys(&KeyFilter { space: SPACE.to_owned(), before, limit: STRIDE }).map_err(CliError::store)?;
        let last = page.len() < STRIDE;
        before = page.last().map(|(key, _)| key.clone());
        for (key, value) in page {
            let entry: Entry = serde_json::from_slice(&value).map_err(|error| CliError::failed(format!("audit entry {key} cannot be read: {error}")))?;
            // Times as text sort as times do.
            if since.as_ref().is_some_and(|since| entry.at < *since) {
                return Ok(found);
            }
            if wanted.matches(&entry) {
                found.push(entry);
            }
            if found.len() == limit {
                return Ok(found);
            }
        }
        if last {
            return Ok(found);
        }
    }
}

#[cfg(test)]
mod tests {
    use viat_store::MemoryStore;

    use super::*;

    #[test]
    fn entries_are_found_by_what_they_say() {
        let store = MemoryStore::new();
        let ana = Actor { name: "ana".to_owned(), via: Via::Cli, token: None };
        let ci = Actor { name: "ci".to_owned(), via: Via::Api, token: Some("t".to_owned()) };
        Change::of("workflow.create", "workflow w").detail("version 1").note(&store, &ana).expect("noted");
        Change::of("workflow.publish", "workflow w").note(&store, &ci).expect("noted");
        Change { by: Some("ana".to_owned()), reason: Some("wrong".to_owned()), ..Change::of("run.cancel", "r1") }.note(&store, &ci).expect("noted");
        let actions = |wanted: Wanted, limit| list(&store, &wanted, limit).expect("read").into_iter().map(|entry| entry.action).collect::<Vec<_>>();
        assert_eq!(actions(Wanted::default(), 9), ["run.cancel", "workflow.publish", "workflow.create"]);
        assert_eq!(actions(Wanted { action: Some("workflow".to_owned()), ..Wanted::default() }, 1), ["workflow.publish"]);
        assert!(actions(Wanted { action: Some("work".to_owned()), ..Wanted::default() }, 9).is_empty());
        assert_eq!(actions(Wanted { actor: Some("ana".to_owned()), ..Wanted::default() }, 9), ["run.cancel", "workflow.create"]);
        assert_eq!(actions(Wanted { subject: Some("w".to_owned()), ..Wanted::default() }, 9).len(), 2);
        assert!(actions(Wanted { since: Some(i64::MAX / 1_000_000), ..Wanted::default() }, 9).is_empty());
        let first = list(&store, &Wanted::default(), 1).expect("read").remove(0);
        assert_eq!((first.token.as_deref(), first.reason.as_deref()), (Some("t"), Some("wrong")));
        assert_eq!(actions(Wanted { before: Some(first.id), ..Wanted::default() }, 9).len(), 2);
    }
}
