//! Resources: prompts, JSON, texts and secrets that scripts ask for by name.
//!
//! All of them are assets of one kind and share one space of names. A run sees them as they were at the catalogue revision that
//! it pins; secrets alone are always the newest, so that they can be rotated.

mod keys;
mod save;
mod seal;
mod vault;

use std::fmt;

use serde::{Deserialize, Serialize};
use viat_store::{Asset, AssetName, At, Store, StoreError};

pub use keys::{GIVEN, Keyring, Keys, NAMED};
pub use save::{New, Rekeyed, Saved, delete, keys_in_use, rekey, save};
pub use seal::Sealed;
pub use vault::{Asker, Vault};

/// The kind under which resources are stored.
pub const RESOURCE: &str = "resource";
/// The largest prompt, text or JSON, in bytes.
pub const MAX_TEXT: usize = 16 << 20;
/// The largest secret, in bytes.
pub const MAX_SECRET: usize = 32 << 10;
/// The shortest secret, in bytes: a shorter text would be hidden where it is none.
pub const MIN_SECRET: usize = 4;

/// What a resource is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A text for a model.
    Prompt,
    /// A JSON value.
    Json,
    /// Any text.
    Text,
    /// A text that is encrypted at rest, given only to scripts that declare it, and masked in what they write.
    Secret,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 4] = [Kind::Prompt, Kind::Json, Kind::Text, Kind::Secret];

    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Prompt => "prompt",
            Kind::Json => "json",
            Kind::Text => "text",
            Kind::Secret => "secret",
        }
    }

    /// The kind of that name.
    pub fn of(name: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// What is wrong with a text that is to be of this kind.
    pub fn problem_with(self, text: &str) -> Option<String> {
        let most = if self == Kind::Secret { MAX_SECRET } else { MAX_TEXT };
        if text.len() > most {
            return Some(format!("a {} has at most {most} bytes; this one has {}", self.name(), text.len()));
        }
        match self {
            Kind::Secret if text.len() < MIN_SECRET => {
                Some(format!("a secret has at least {MIN_SECRET} bytes: a shorter one could not be masked without masking what is none"))
            }
            Kind::Secret if text.contains('\0') => Some("a secret has no NUL characters".to_owned()),
            _ => None,
        }
    }
}

/// The stored body of a version.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Body {
    /// A prompt's text.
    Prompt(String),
    /// JSON as it was written.
    Json(String),
    /// A text.
    Text(String),
    /// A secret.
    Secret(Sealed),
}

impl Body {
    /// What it is.
    pub fn kind(&self) -> Kind {
        match self {
            Body::Prompt(_) => Kind::Prompt,
            Body::Json(_) => Kind::Json,
            Body::Text(_) => Kind::Text,
            Body::Secret(_) => Kind::Secret,
        }
    }
}

/// Why a resource cannot be had or saved.
#[derive(Clone, Debug)]
pub enum ResourceError {
    /// The store failed.
    Store(StoreError),
    /// There is none of that name, or not in that version.
    Missing(String),
    /// It is there, and what is wanted of it is not possible.
    Refused(String),
    /// A key is missing or cannot be read.
    Key(String),
    /// What is stored is damaged, or from a newer viat.
    Unreadable(String),
}

impl fmt::Display for ResourceError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ResourceError::Store(error) => error.fmt(formatter),
            ResourceError::Missing(what) => write!(formatter, "there is no {what}"),
            ResourceError::Refused(what) | ResourceError::Key(what) | ResourceError::Unreadable(what) => formatter.write_str(what),
        }
    }
}

impl std::error::Error for ResourceError {}

impl From<StoreError> for ResourceError {
    fn from(error: StoreError) -> ResourceError {
        ResourceError::Store(error)
    }
}

/// One version of a resource.
///
/// # Errors
/// See [`ResourceError`].
pub fn find(store: &dyn Store, name: &str, at: At) -> Result<Option<(Asset, Body)>, ResourceError> {
    let Some(asset) = store.asset(&AssetName::new(RESOURCE, name), at)? else { return Ok(None) };
    if asset.body.is_empty() {
        return Err(ResourceError::Missing(format!("version {} of resource {name} any more: its content has been erased", asset.info.version)));
    }
    let body = serde_json::from_slice(&asset.body).map_err(|error| ResourceError::Unreadable(format!("resource {name} cannot be read: {error}")))?;
    Ok(Some((asset, body)))
}
