//! Signed links: who has one may take one decision on one review, until it expires. The key lies in the home, not in the database.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use viat_engine::journal::Millis;
use viat_engine::record::rfc3339;
use viat_runner::clock::wall_now;
use viat_store::Store;

use crate::ask::{self, Decision};
use crate::cli::duration_value;
use crate::cli::error::CliError;

/// The key's file in the home.
const KEY: &str = "links.key";
/// What the key is for; another purpose would have another.
const CONTEXT: &str = "viat 2026 signed review links";
/// The longest token that is looked at.
const MAX_TOKEN: usize = 16 << 10;
/// How long a link lasts if nobody says.
const WEEK_MS: u64 = 7 * 86_400_000;
/// The longest that a link may last.
const MAX_MS: u64 = 90 * 86_400_000;
/// Where links lead.
pub const PATH: &str = "/links/review/";
/// The space of the store's keys in which used links are kept.
pub const USED_LINKS: &str = "review-link";

/// What a link permits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// The link's own id: it is used once.
    pub id: String,
    /// The review.
    pub review: String,
    /// The only decision that may be taken, if it is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<Decision>,
    /// Who decides, if it is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Until when.
    pub expires: Millis,
}

/// What signs links. Made at its first use; who removes its file makes all links void.
pub struct Key([u8; 32]);

/// Why a token is worth nothing.
#[derive(Debug, PartialEq, Eq)]
pub enum BadToken {
    /// It was not made with this home's key, or has been changed since.
    Forged,
    /// Its time is over.
    Expired(Millis),
}

impl Key {
    /// The home's key.
    pub fn of(home: &Path) -> io::Result<Key> {
        secret(home, CONTEXT).map(Key)
    }

    /// The token of a grant: safe in a URL.
    pub fn sign(&self, grant: &Grant) -> Result<String, serde_json::Error> {
        let body = hex(&serde_json::to_vec(grant)?);
        let mac = blake3::keyed_hash(&self.0, body.as_bytes()).to_hex();
        Ok(format!("{body}.{mac}"))
    }

    /// What a token permits.
    pub fn check(&self, token: &str, now: Millis) -> Result<Grant, BadToken> {
        if token.len() > MAX_TOKEN {
            return Err(BadToken::Forged);
        }
        let (body, mac) = token.split_once('.').ok_or(BadToken::Forged)?;
        let mac = blake3::Hash::from_hex(mac).map_err(|_| BadToken::Forged)?;
        // blake3 compares hashes in constant time.
        if blake3::keyed_hash(&self.0, body.as_bytes()) != mac {
            return Err(BadToken::Forged);
        }
        let grant: Grant = unhex(body).and_then(|bytes| serde_json::from_slice(&bytes).ok()).ok_or(BadToken::Forged)?;
        if grant.expires <= now { Err(BadToken::Expired(grant.expires)) } else { Ok(grant) }
    }
}

/// What is derived from the home's key for a purpose; the key is made at its first use.
pub fn secret(home: &Path, context: &str) -> io::Result<[u8; 32]> {
    let path = home.join(KEY);
    let secret = match fs::read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            make_key(home, &path)?;
            fs::read(&path)?
        }
        found => found?,
    };
    if secret.len() != 32 {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("{} has {} bytes, not 32: remove it, a new one is made", path.display(), secret.len())));
    }
    Ok(blake3::derive_key(context, &secret))
}

/// Bytes that nobody can guess.
pub fn random() -> io::Result<[u8; 32]> {
    let mut secret = [0; 32];
    let mut filled = 0;
    while filled < secret.len() {
        filled += rustix::rand::getrandom(&mut secret[filled..], rustix::rand::GetRandomFlags::empty())?;
    }
    Ok(secret)
}

/// Makes the key whole or not at all, though several processes may try at once: the first one's stays.
fn make_key(home: &Path, path: &Path) -> io::Result<()> {
    let secret = random()?;
    let draft = home.join(format!("{KEY}.{}", viat_store::fresh_id()));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
    let written = file.write_all(&secret).and_then(|()| file.sync_all());
    let placed = written.and_then(|()| match fs::hard_link(&draft, path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        placed => placed,
    });
    fs::remove_file(&draft)?;
    placed
}

/// What a link is to be.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkBody {
    /// The only decision that it permits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<Decision>,
    /// Who decides with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// For how long: a duration as the language spells it; a week, if it is not given.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub expires: Value,
    /// The server's address as those see it who get the link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
}

/// Makes a link to a review that is open.
pub fn make(store: &dyn Store, home: &Path, review: &str, body: LinkBody, base: &str) -> Result<Value, CliError> {
    let row = ask::find_review(store, review)?;
    ask::refuse_if_over(&row)?;
    if let Some(by) = &body.by {
        ask::word(by, "the name of who decides")?;
    }
    let lasts = duration_value(&body.expires, "expires")?.unwrap_or(WEEK_MS);
    if lasts == 0 || lasts > MAX_MS {
        return Err(CliError::usage("a link lasts more than no time and at most 90 days"));
    }
    let base = body.base.as_deref().unwrap_or(base).trim_end_matches('/');
    if !(base.starts_with("http://") || base.starts_with("https://"))
        || base.len() > 1_000
        || base.contains(['?', '#'])
        || base.chars().any(|each| each.is_whitespace() || each.is_control())
    {
        return Err(CliError::usage(format!("{base:?} is no address of a server")).help("write it as in https://viat.example.org"));
    }
    let expires = wall_now().saturating_add(Millis::try_from(lasts).unwrap_or(Millis::MAX));
    let grant = Grant { id: viat_store::fresh_id(), review: row.id, decision: body.decision, by: body.by, expires };
    let key = Key::of(home).map_err(|error| CliError::failed(format!("the key of links cannot be read or made: {error}")))?;
    let token = key.sign(&grant).map_err(|error| CliError::failed(error.to_string()))?;
    Ok(json!({"url": format!("{base}{PATH}{token}"), "review": grant.review, "expires_at": rfc3339(expires)}))
}

/// Bytes in hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes that hexadecimal digits stand for.
pub fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = text.chars().map(|each| each.to_digit(16).and_then(|digit| u8::try_from(digit).ok())).collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
    Some(digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn grant() -> Grant {
        Grant { id: "1".to_owned(), review: "r".to_owned(), decision: Some(Decision::Approved), by: Some("Ünal".to_owned()), expires: 100 }
    }

    #[test]
    fn a_token_says_what_was_signed() {
        let key = Key([7; 32]);
        let token = key.sign(&grant()).expect("signs");
        assert!(token.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'.'));
        assert_eq!(key.check(&token, 99), Ok(grant()));
        assert_eq!(key.check(&token, 100), Err(BadToken::Expired(100)));
    }

    #[test]
    fn no_other_token_is_taken() {
        let key = Key([7; 32]);
        let token = key.sign(&grant()).expect("signs");
        assert_eq!(Key([8; 32]).check(&token, 0), Err(BadToken::Forged));
        for at in 0..token.len() {
            let mut changed = token.clone().into_bytes();
            changed[at] = if changed[at] == b'0' { b'1' } else { b'0' };
            let changed = String::from_utf8(changed).expect("ASCII");
            assert_eq!(key.check(&changed, 0), Err(BadToken::Forged), "{at}");
        }
        for odd in ["", ".", "..", "zz.zz", &token[..token.len() - 1], &"0".repeat(MAX_TOKEN + 1)] {
            assert_eq!(key.check(odd, 0), Err(BadToken::Forged), "{odd:.40}");
        }
    }

    #[test]
    fn the_key_stays_and_is_the_owners() {
        let home = tempfile::tempdir().expect("a directory");
        let first = Key::of(home.path()).expect("made");
        assert_eq!(first.0, Key::of(home.path()).expect("read").0);
        let mode = fs::metadata(home.path().join(KEY)).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(fs::read_dir(home.path()).expect("readable").count(), 1);
        fs::write(home.path().join(KEY), b"short").expect("writable");
        assert!(Key::of(home.path()).is_err());
    }
}
