//! Saving, deleting and sealing anew.

use std::collections::BTreeMap;

use viat_engine::journal::Millis;
use viat_store::{AssetName, At, Hash, Op, Outcome, Precondition, Store, Unit};

use super::keys::{Keyring, Keys};
use super::seal::{self, Bound};
use super::{Body, Kind, RESOURCE, ResourceError, find};

/// A version to be saved. Its text has been checked ([`Kind::problem_with`]).
pub struct New<'a> {
    /// Its name.
    pub name: &'a str,
    /// What it is.
    pub kind: Kind,
    /// Its content.
    pub text: &'a str,
    /// When.
    pub at: Millis,
}

/// A version that has been saved.
#[derive(Clone, Copy, Debug)]
pub struct Saved {
    /// Its number.
    pub version: u64,
    /// Its content's hash; of a secret, of what is stored.
    pub hash: Hash,
}

/// Saves a new version.
///
/// # Errors
/// If the name is of another kind, or a secret cannot be sealed with a key that opens the other secrets too.
pub fn save(store: &dyn Store, keys: &Keys, new: &New<'_>) -> Result<Saved, ResourceError> {
    // secrets are bound to their version: nobody else may take its number meanwhile
    let _lock = keys.lock()?;
    if let Some((_, body)) = find(store, new.name, At::Latest)?
        && body.kind() != new.kind
    {
        let kind = body.kind().name();
        return Err(ResourceError::Refused(format!("{} is a {kind}, not a {}: delete it first, or choose another name", new.name, new.kind.name())));
    }
    if new.kind == Kind::Secret {
        let ring = ring(store, keys)?;
        return put_secret(store, &ring, new);
    }
    let body = match new.kind {
        Kind::Prompt => Body::Prompt(new.text.to_owned()),
        Kind::Json => Body::Json(new.text.to_owned()),
        _ => Body::Text(new.text.to_owned()),
    };
    put(store, new, &body)
}

fn put_secret(store: &dyn Store, ring: &Keyring, new: &New<'_>) -> Result<Saved, ResourceError> {
    let key = ring.first().ok_or_else(|| ResourceError::Key("there is no key to seal with".to_owned()))?;
    let versions = store.asset_versions(&AssetName::new(RESOURCE, new.name))?;
    let version = versions.last().map_or(1, |last| last.version + 1);
    let sealed = seal::seal(key, Bound { name: new.name, version }, new.text)?;
    let saved = put(store, new, &Body::Secret(sealed))?;
    if saved.version != version {
        return Err(ResourceError::Unreadable(format!("secret {} was changed by somebody else meanwhile: save it again", new.name)));
    }
    Ok(saved)
}

fn put(store: &dyn Store, new: &New<'_>, body: &Body) -> Result<Saved, ResourceError> {
    let bytes = serde_json::to_vec(body).map_err(|error| ResourceError::Unreadable(error.to_string()))?;
    // the hash of a secret is that of its seal: of the value itself it would tell whether a guess is right
    let hash = if new.kind == Kind::Secret { Hash::of(&bytes) } else { Hash::of(new.text.as_bytes()) };
    let name = AssetName::new(RESOURCE, new.name);
    let unit = Unit::from(Op::PutAsset { name, body: bytes, hash, refs: Vec::new(), at: new.at });
    match store.commit_blocking(unit)?.outcomes.first() {
        Some(Outcome::AssetPut { version, .. }) => Ok(Saved { version: *version, hash }),
        _ => Err(ResourceError::Unreadable("the store did not say which version it made".to_owned())),
    }
}

/// The keys to seal with. A new one is made only where nothing is sealed yet: else the key that is wanted is merely elsewhere.
fn ring(store: &dyn Store, keys: &Keys) -> Result<Keyring, ResourceError> {
    let ring = keys.load()?;
    let sealed = secrets(store)?;
    if let Some((name, body)) = sealed.iter().find(|(_, body)| !ring.has(&body.key)) {
        return Err(ring.missing(&format!("secret {name}"), &body.key));
    }
    if ring.first().is_some() { Ok(ring) } else { keys.make() }
}

/// The newest version of every secret, sealed.
fn secrets(store: &dyn Store) -> Result<Vec<(String, seal::Sealed)>, ResourceError> {
    let mut found = Vec::new();
    for info in store.assets(Some(RESOURCE), None)? {
        if let Some((_, Body::Secret(sealed))) = find(store, &info.name.name, At::Latest)? {
            found.push((info.name.name, sealed));
        }
    }
    Ok(found)
}

/// The keys that secrets are sealed with, each with one of the secrets that need it.
///
/// # Errors
/// If the store cannot be read.
pub fn keys_in_use(store: &dyn Store) -> Result<BTreeMap<String, String>, ResourceError> {
    Ok(secrets(store)?.into_iter().map(|(name, sealed)| (sealed.key, name)).collect())
}

/// Deletes a resource; of a secret every version is erased.
///
/// # Errors
/// If there is none, or live scripts declare it.
pub fn delete(store: &dyn Store, keys: &Keys, name: &str, at: Millis) -> Result<(), ResourceError> {
    let _lock = keys.lock()?;
    let (_, body) = find(store, name, At::Latest)?.ok_or_else(|| ResourceError::Missing(format!("resource {name}")))?;
    let asset = AssetName::new(RESOURCE, name);
    let mut ops = vec![Op::DeleteAsset { name: asset.clone(), at }];
    if body.kind() == Kind::Secret {
        ops.push(Op::EraseAsset { name: asset.clone(), below: u64::MAX });
    }
    store.commit_blocking(Unit::from(ops).guarded(Precondition::AssetLive(asset)))?;
    Ok(())
}

/// What sealing anew has done.
#[derive(Clone, Debug)]
pub struct Rekeyed {
    /// The key that seals now.
    pub key: String,
    /// How many secrets have been sealed anew.
    pub secrets: usize,
    /// Whether the home's file holds only keys that nothing is sealed with any more.
    pub file_is_spare: bool,
}

/// Seals every secret with a new key, or with the first one that the operator gives, and erases what was sealed before.
///
/// Broken off at any point nothing is lost: the old key goes last. Done again, it ends what was begun.
///
/// # Errors
/// If a secret cannot be opened; then nothing has been dropped.
pub fn rekey(store: &dyn Store, keys: &Keys, at: Millis) -> Result<Rekeyed, ResourceError> {
    let _lock = keys.lock()?;
    let before = keys.load()?;
    // all of them can be opened, or nothing is begun
    for (name, sealed) in secrets(store)? {
        if !before.has(&sealed.key) {
            return Err(before.missing(&format!("secret {name}"), &sealed.key));
        }
    }
    let ring = if keys.are_given() { before } else { keys.add()? };
    let key = ring.first_id().ok_or_else(|| ResourceError::Key("there is no key to seal with".to_owned()))?;
    let mut count = 0;
    for (name, sealed) in secrets(store)? {
        if sealed.key != key {
            reseal(store, &ring, &name, at)?;
            count += 1;
        }
    }
    if !keys.are_given() {
        keys.keep_first()?;
    }
    Ok(Rekeyed { key, secrets: count, file_is_spare: keys.are_given() && keys.file().exists() })
}

fn reseal(store: &dyn Store, ring: &Keyring, name: &str, at: Millis) -> Result<(), ResourceError> {
    let Some((asset, Body::Secret(sealed))) = find(store, name, At::Latest)? else { return Ok(()) };
    let value = seal::open(ring, Bound { name, version: asset.info.version }, &sealed)?;
    let saved = put_secret(store, ring, &New { name, kind: Kind::Secret, text: &value, at })?;
    store.commit_blocking(Unit::from(Op::EraseAsset { name: AssetName::new(RESOURCE, name), below: saved.version }))?;
    Ok(())
}
