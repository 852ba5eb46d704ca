//! Access tokens: a name, scopes and an expiry; only a hash of the secret is kept.

use clap::ValueEnum;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use viat_engine::journal::Millis;
use viat_engine::record::rfc3339;
use viat_runner::clock::wall_now;
use viat_store::{Hash, KeyFilter, Op, Precondition, Store, StoreError, Unit};

use crate::ask::word;
use crate::audit::{Actor, Change, ordered_id};
use crate::cli::error::CliError;
use crate::links::random;

/// The space of the store's keys in which tokens are kept.
const SPACE: &str = "token";
/// What every token begins with, so that it is recognised where it was lost.
const PREFIX: &str = "viat";
/// The longest text that is looked at.
const MAX_TEXT: usize = 200;
/// The most tokens that there may be.
const MOST: usize = 10_000;
/// How exactly the last use is known: noting it costs a write.
const USED_EVERY_MS: Millis = 60_000;

/// What a token permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Looking at everything.
    Read,
    /// Starting runs, and telling them something.
    Run,
    /// Looking at reviews, and deciding them.
    Review,
    /// Everything.
    Admin,
}

impl Scope {
    /// Its word.
    pub fn name(self) -> &'static str {
        match self {
            Scope::Read => "read",
            Scope::Run => "run",
            Scope::Review => "review",
            Scope::Admin => "admin",
        }
    }
}

/// A token as it is kept.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Kept {
    name: String,
    scopes: Vec<Scope>,
    /// Of the whole text. The secret has 256 random bits: nobody can try them all, so a fast hash will do.
    hash: String,
    created_at: Millis,
    created_by: String,
    expires_at: Option<Millis>,
    revoked_at: Option<Millis>,
    last_used_at: Option<Millis>,
}

/// A token as people see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Token {
    /// Its id, a part of the token that is no secret.
    pub id: String,
    /// Its name.
    pub name: String,
    /// What it permits.
    pub scopes: Vec<Scope>,
    /// `active`, `expired` or `revoked`.
    pub status: &'static str,
    /// When it was made, RFC 3339.
    pub created_at: String,
    /// By whom.
    pub created_by: String,
    /// Until when it can be used.
    pub expires_at: Option<String>,
    /// When it was last used, to the minute.
    pub last_used_at: Option<String>,
    /// When it was revoked.
    pub revoked_at: Option<String>,
}

impl Kept {
    fn status(&self, now: Millis) -> &'static str {
        match (self.revoked_at, self.expires_at) {
            (Some(_), _) => "revoked",
            (None, Some(at)) if at <= now => "expired",
            (None, _) => "active",
        }
    }

    fn shown(&self, id: &str) -> Token {
        Token {
            id: id.to_owned(),
            name: self.name.clone(),
            scopes: self.scopes.clone(),
            status: self.status(wall_now()),
            created_at: rfc3339(self.created_at),
            created_by: self.created_by.clone(),
            expires_at: self.expires_at.map(rfc3339),
            last_used_at: self.last_used_at.map(rfc3339),
            revoked_at: self.revoked_at.map(rfc3339),
        }
    }
}

/// What a token is to be.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenBody {
    /// Its name; no two active tokens have the same.
    pub name: String,
    /// What it permits.
    pub scopes: Vec<Scope>,
    /// For how long: a duration as the language spells it; for ever, if it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<String>,
}

/// Who comes with a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bearer {
    /// The token's id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// What it permits.
    pub scopes: Vec<Scope>,
}

/// Makes a token; gives its text, which is told only this once.
pub fn create(store: &dyn Store, actor: &Actor, body: TokenBody) -> Result<(Token, String), CliError> {
    word(&body.name, "the name")?;
    if body.scopes.is_empty() {
        return Err(CliError::usage("a token without scopes permits nothing").help("scopes are read, run, review and admin"));
    }
    let now = wall_now();
    let lasts = crate::cli::duration_value(&body.expires.map_or(serde_json::Value::Null, Into::into), "expires")?;
    if lasts == Some(0) {
        return Err(CliError::usage("a token lasts more than no time"));
    }
    let all = all(store)?;
    if all.len() >= MOST {
        return Err(CliError::refused(format!("there are {MOST} tokens already, the most there may be")));
    }
    if let Some((id, _)) = all.iter().find(|(_, kept)| kept.name == body.name && kept.status(now) == "active") {
        return Err(CliError::refused(format!("there is a token named {} already", body.name)).help(format!("revoke it first: viat token revoke {id}")));
    }
    let id = ordered_id();
    let secret = random().map_err(|error| CliError::failed(format!("there is no randomness: {error}")))?;
    let text = format!("{PREFIX}_{id}_{}", crate::links::hex(&secret));
    let mut scopes = body.scopes;
    scopes.sort_unstable();
    scopes.dedup();
    let kept = Kept {
        name: body.name,
        scopes,
        hash: Hash::of(text.as_bytes()).to_string(),
        created_at: now,
        created_by: actor.name.clone(),
        expires_at: lasts.map(|ms| now.saturating_add(Millis::try_from(ms).unwrap_or(Millis::MAX))),
        revoked_at: None,
        last_used_at: None,
    };
    let names: Vec<&str> = kept.scopes.iter().map(|scope| scope.name()).collect();
    let noted = Change::of("token.create", format!("token {id}")).detail(format!("{}: {}", kept.name, names.join(", ")));
    let claim = Op::ClaimKey { space: SPACE.to_owned(), key: id.clone(), value: encoded(&kept)? };
    store.commit_blocking(Unit::from(vec![claim, noted.op(actor)])).map_err(CliError::store)?;
    Ok((kept.shown(&id), text))
}

/// All tokens, newest first.
pub fn list(store: &dyn Store) -> Result<Vec<Token>, CliError> {
    Ok(all(store)?.iter().map(|(id, kept)| kept.shown(id)).collect())
}

/// Whether anybody could come with a token that permits everything.
pub fn any_admin(store: &dyn Store) -> Result<bool, CliError> {
    let now = wall_now();
    Ok(all(store)?.iter().any(|(_, kept)| kept.status(now) == "active" && kept.scopes.contains(&Scope::Admin)))
}

/// Takes a token's worth away for good; it is named by its id, the beginning of it, or its name.
pub fn revoke(store: &dyn Store, actor: &Actor, given: &str) -> Result<Token, CliError> {
    let all = all(store)?;
    let by_id: Vec<_> = all.iter().filter(|(id, _)| !given.is_empty() && id.starts_with(given)).collect();
    let by_name: Vec<_> = all.iter().filter(|(_, kept)| kept.name == given && kept.revoked_at.is_none()).collect();
    let (id, kept) = match (by_id.as_slice(), by_name.as_slice()) {
        ([one], _) | ([], [one]) => one,
        ([], []) => return Err(CliError::not_found(format!("there is no token {given}")).help("`viat token list` shows those there are")),
        _ => return Err(CliError::refused(format!("several tokens are meant by {given}")).help("give the whole id")),
    };
    if kept.revoked_at.is_some() {
        return Err(CliError::refused(format!("token {id} was revoked already")));
    }
    let revoked = Kept { revoked_at: Some(wall_now()), ..kept.clone() };
    let set = Op::SetKey { space: SPACE.to_owned(), key: id.clone(), value: encoded(&revoked)? };
    let noted = Change::of("token.revoke", format!("token {id}")).detail(kept.name.clone());
    // Whatever was noted of its use meanwhile gives way.
    store.commit_blocking(Unit::from(vec![set, noted.op(actor)])).map_err(CliError::store)?;
    Ok(revoked.shown(id))
}

/// Who comes with this text; `None` if it is worth nothing.
pub fn check(store: &dyn Store, text: &str) -> Result<Option<Bearer>, CliError> {
    let mut parts = text.split('_');
    let (Some(PREFIX), Some(id), Some(_), None) = (parts.next(), parts.next(), parts.next(), parts.next()) else { return Ok(None) };
    if text.len() > MAX_TEXT {
        return Ok(None);
    }
    let Some(value) = store.key(SPACE, id).map_err(CliError::store)? else { return Ok(None) };
    let kept = decoded(id, &value)?;
    let now = wall_now();
    // Of hashes one may learn how they begin: what was hashed stays unknown.
    if Hash::of(text.as_bytes()).to_string() != kept.hash || kept.status(now) != "active" {
        return Ok(None);
    }
    if kept.last_used_at.is_none_or(|at| now.saturating_sub(at) >= USED_EVERY_MS) {
        let used = encoded(&Kept { last_used_at: Some(now), ..kept.clone() })?;
        let set = Op::SetKey { space: SPACE.to_owned(), key: id.to_owned(), value: used };
        // Only if nobody has changed it since, by revoking it for instance. A use that is not noted is no reason to refuse it.
        let unit = Unit::from(set).guarded(Precondition::KeyIs { space: SPACE.to_owned(), key: id.to_owned(), value });
        store.commit(unit, Box::new(|_: Result<_, StoreError>| {}));
    }
    Ok(Some(Bearer { id: id.to_owned(), name: kept.name, scopes: kept.scopes }))
}

fn all(store: &dyn Store) -> Result<Vec<(String, Kept)>, CliError> {
    let found = store.keys(&KeyFilter { space: SPACE.to_owned(), before: None, limit: MOST }).map_err(CliError::store)?;
    found.into_iter().map(|(id, value)| decoded(&id, &value).map(|kept| (id, kept))).collect()
}

fn encoded(kept: &Kept) -> Result<Vec<u8>, CliError> {
    serde_json::to_vec(kept).map_err(|error| CliError::failed(error.to_string()))
}

fn decoded(id: &str, value: &[u8]) -> Result<Kept, CliError> {
    serde_json::from_slice(value).map_err(|error| CliError::failed(format!("token {id} cannot be read: {error}")))
}

#[cfg(test)]
mod tests {
    use viat_store::MemoryStore;

    use super::*;
    use crate::audit::Via;

    fn actor() -> Actor {
        Actor { name: "ana".to_owned(), via: Via::Cli, token: None }
    }

    fn made(store: &dyn Store, name: &str) -> (Token, String) {
        create(store, &actor(), TokenBody { name: name.to_owned(), scopes: vec![Scope::Run, Scope::Read, Scope::Run], expires: None }).expect("made")
    }

    #[test]
    fn a_token_is_known_by_its_hash_until_it_is_revoked() {
        let store = MemoryStore::new();
        let (token, text) = made(&store, "ci");
        let bearer = check(&store, &text).expect("read").expect("good");
        assert_eq!((bearer.name.as_str(), bearer.scopes.as_slice()), ("ci", [Scope::Read, Scope::Run].as_slice()));
        let kept = String::from_utf8(store.key(SPACE, &token.id).expect("read").expect("there")).expect("text");
        assert!(!kept.contains(text.rsplit('_').next().expect("a secret")), "{kept}");
        let last = text.chars().last().expect("not empty");
        let other = format!("{}{}", &text[..text.len() - 1], if last == '0' { '1' } else { '0' });
        for bad in [other.as_str(), "", "viat__", "viat_x_y", &format!("{text}_"), &text.to_uppercase()] {
            assert_eq!(check(&store, bad).expect("read"), None, "{bad}");
        }
        assert!(list(&store).expect("read")[0].last_used_at.is_some());
        assert!(create(&store, &actor(), TokenBody { name: "ci".to_owned(), scopes: vec![Scope::Read], expires: None }).is_err(), "the name is taken");
        assert_eq!(revoke(&store, &actor(), "ci").expect("revoked").status, "revoked");
        assert_eq!(check(&store, &text).expect("read"), None);
        assert!(revoke(&store, &actor(), &token.id).is_err());
        let (again, _) = made(&store, "ci");
        assert_eq!(list(&store).expect("read").iter().map(|token| token.id.as_str()).collect::<Vec<_>>(), [again.id.as_str(), token.id.as_str()]);
    }

    #[test]
    fn an_expired_token_is_worth_nothing() {
        let store = MemoryStore::new();
        let body = TokenBody { name: "short".to_owned(), scopes: vec![Scope::Admin], expires: Some("PT0.001S".to_owned()) };
        let (token, text) = create(&store, &actor(), body).expect("made");
        let kept = Kept { expires_at: Some(1), ..decoded(&token.id, &store.key(SPACE, &token.id).expect("read").expect("there")).expect("readable") };
        let set = Op::SetKey { space: SPACE.to_owned(), key: token.id.clone(), value: encoded(&kept).expect("encoded") };
        store.commit_blocking(Unit::from(set)).expect("set");
        assert_eq!(check(&store, &text).expect("read"), None);
        assert_eq!((list(&store).expect("read")[0].status, any_admin(&store).expect("read")), ("expired", false));
    }
}
