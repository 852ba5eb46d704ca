//! What attempts are given: the secrets that their scripts declare, and answers to what they ask for.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use viat_store::{AssetName, At, Store};

use super::keys::{Keyring, Keys};
use super::seal::{self, Bound};
use super::{Body, Kind, RESOURCE, ResourceError, find};
use crate::script::{Fault, FaultKind, ScriptCode, Secrets};

/// So many values before the newest are still hidden: a warm worker may have kept one.
const EARLIER: usize = 4;

/// Opens secrets and reads resources. Shared by all that run scripts.
pub struct Vault {
    store: Arc<dyn Store>,
    keys: Keys,
    /// By the names that a script declares.
    opened: Mutex<BTreeMap<Vec<String>, Opened>>,
}

/// Secrets, and the catalogue revision at which they were read.
type Opened = (u64, Arc<Secrets>);

/// The attempt that asks.
#[derive(Clone, Debug)]
pub struct Asker {
    /// Its script.
    pub script: String,
    /// What it was given.
    pub secrets: Option<Arc<Secrets>>,
    /// What its run pins; [`At::Latest`] outside of runs.
    pub at: At,
}

impl Vault {
    /// A vault over this store and these keys.
    pub fn new(store: Arc<dyn Store>, keys: Keys) -> Vault {
        Vault { store, keys, opened: Mutex::default() }
    }

    /// The secrets that a script declares, as they are now; `None` if it declares none.
    ///
    /// # Errors
    /// A fault of class `resource` if one is missing or cannot be opened.
    pub fn given(&self, code: &ScriptCode) -> Result<Option<Arc<Secrets>>, Fault> {
        let names = &code.settings.secrets;
        if names.is_empty() {
            return Ok(None);
        }
        self.open(names, &code.name).map(Some).map_err(|error| Fault::new(FaultKind::Resource, error.to_string()))
    }

    fn open(&self, names: &[String], script: &str) -> Result<Arc<Secrets>, ResourceError> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        // every save and every deletion moves the revision
        let revision = self.store.revision()?;
        if let Some((_, known)) = opened.get(names).filter(|(at, _)| *at == revision) {
            return Ok(Arc::clone(known));
        }
        let keys = self.keys.load()?;
        let (mut values, mut earlier) = (BTreeMap::new(), Vec::new());
        for name in names {
            values.insert(name.clone(), self.secret(&keys, name, script)?);
            earlier.extend(self.earlier(&keys, name)?);
        }
        let secrets = Arc::new(Secrets::new(values, &earlier));
        opened.insert(names.to_vec(), (revision, Arc::clone(&secrets)));
        Ok(secrets)
    }

    fn secret(&self, keys: &Keyring, name: &str, script: &str) -> Result<String, ResourceError> {
        match find(self.store.as_ref(), name, At::Latest)? {
            Some((asset, Body::Secret(sealed))) => seal::open(keys, Bound { name, version: asset.info.version }, &sealed),
            Some((_, other)) => Err(ResourceError::Refused(format!("script {script} declares the secret {name}, but {name} is a {}", other.kind().name()))),
            None => Err(ResourceError::Missing(format!("secret {name}, which script {script} declares: viat secret create --name {name}"))),
        }
    }

    /// Values that it had before, as far as they can still be opened: they are only to be hidden.
    fn earlier(&self, keys: &Keyring, name: &str) -> Result<Vec<String>, ResourceError> {
        let versions = self.store.asset_versions(&AssetName::new(RESOURCE, name))?;
        let mut values = Vec::new();
        for info in versions.iter().rev().skip(1).filter(|info| info.size > 0).take(EARLIER) {
            if let Ok(Some((_, Body::Secret(sealed)))) = find(self.store.as_ref(), name, At::Version(info.version)) {
                values.extend(seal::open(keys, Bound { name, version: info.version }, &sealed));
            }
        }
        Ok(values)
    }

    /// The answer to `viat.resource(name, kind=...)`.
    ///
    /// # Errors
    /// A sentence for the script's author.
    pub fn answer(&self, asker: &Asker, name: &str, kind: Option<&str>) -> Result<Value, String> {
        if let Some(word) = kind.filter(|word| Kind::of(word).is_none()) {
            return Err(format!("there is no kind {word:?} of resources; there are {}", Kind::ALL.map(Kind::name).join(", ")));
        }
        let fits = |found: Kind| match kind {
            Some(word) if word != found.name() => Err(format!("resource {name} is a {}, not a {word}", found.name())),
            _ => Ok(()),
        };
        if let Some(value) = asker.secrets.as_ref().and_then(|secrets| secrets.get(name)) {
            return fits(Kind::Secret).map(|()| Value::from(value));
        }
        match find(self.store.as_ref(), name, asker.at).map_err(|error| error.to_string())? {
            Some((_, Body::Secret(_))) => Err(undeclared(&asker.script, name)),
            Some((_, Body::Prompt(text))) => fits(Kind::Prompt).map(|()| Value::from(text)),
            Some((_, Body::Text(text))) => fits(Kind::Text).map(|()| Value::from(text)),
            Some((_, Body::Json(text))) => {
                fits(Kind::Json)?;
                serde_json::from_str(&text).map_err(|error| format!("resource {name} cannot be read: {error}"))
            }
            None => Err(self.absent(asker, name)),
        }
    }

    fn absent(&self, asker: &Asker, name: &str) -> String {
        match find(self.store.as_ref(), name, At::Latest) {
            Ok(Some((_, Body::Secret(_)))) => undeclared(&asker.script, name),
            Ok(Some(_)) => format!("there is no resource {name} at the catalogue revision that this run pins; it was created after the run began"),
            _ => format!("there is no resource {name}"),
        }
    }
}

fn undeclared(script: &str, name: &str) -> String {
    format!("{name} is a secret, and script {script} does not declare it: add secrets = [{name:?}] to the table [tool.viat] of its script block")
}
