//! What scripts and workflows are stored as, and how a run's program is put together from what it pins.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use viat_engine::ir::{Compensate, Node};
use viat_engine::{Definition, Op, Program};
use viat_store::{Asset, AssetName, At, Store, StoreError};

use crate::script::{Language, Metadata, ScriptCode, ScriptInfo};

/// The kind under which scripts are stored.
pub const SCRIPT: &str = "script";
/// The kind under which workflows are stored.
pub const WORKFLOW: &str = "workflow";

/// The kind under which it is stored which version of a workflow is published.
pub const PUBLISHED: &str = "published";

/// The stored body of a publication.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Publication {
    /// The published version.
    pub version: u64,
}

/// The stored body of a script version.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ScriptAsset {
    /// `python`, `javascript`, `shell` or `http`.
    pub language: String,
    /// Its text.
    pub source: String,
    /// What is run, if that is not the text itself: types taken away, a request template as data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// What was found out about it when it was created.
    pub info: ScriptInfo,
    /// What it says of itself.
    #[serde(default)]
    pub metadata: Metadata,
    /// The key of its environment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<String>,
}

/// The stored body of a workflow version.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WorkflowAsset {
    /// The name of the file it came from, for messages.
    pub file: String,
    /// Its text as the author wrote it.
    pub source: String,
    /// What it means; a run keeps the meaning it started with.
    pub definition: Definition,
}

/// Why a run's program cannot be put together.
#[derive(Clone, Debug)]
pub enum AssetError {
    /// The store failed.
    Store(StoreError),
    /// There is no such asset, or not in that version.
    Missing(String),
    /// What is stored cannot be read: it is damaged, or from a newer viat.
    Unreadable(String),
}

impl std::fmt::Display for AssetError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            AssetError::Store(error) => error.fmt(formatter),
            AssetError::Missing(what) => write!(formatter, "there is no {what}"),
            AssetError::Unreadable(what) => write!(formatter, "{what}"),
        }
    }
}

impl std::error::Error for AssetError {}

impl From<StoreError> for AssetError {
    fn from(error: StoreError) -> AssetError {
        AssetError::Store(error)
    }
}

/// A script version, ready to be run.
///
/// # Errors
/// See [`AssetError`].
pub fn script(store: &dyn Store, name: &str, at: At) -> Result<ScriptCode, AssetError> {
    let (asset, body): (Asset, ScriptAsset) = read(store, SCRIPT, name, at)?;
    let unknown = || AssetError::Unreadable(format!("script {name} is in {}, which this viat cannot run", body.language));
    let language = Language::of(&body.language).ok_or_else(unknown)?;
    Ok(ScriptCode {
        name: name.to_owned(),
        version: asset.info.version,
        language,
        source: Arc::from(body.code.unwrap_or(body.source)),
        hash: asset.info.hash.to_string(),
        settings: body.metadata.settings,
        environment: body.environment,
    })
}

/// A workflow version.
///
/// # Errors
/// See [`AssetError`].
pub fn workflow(store: &dyn Store, name: &str, at: At) -> Result<(Asset, WorkflowAsset), AssetError> {
    let (asset, body): (Asset, WorkflowAsset) = read(store, WORKFLOW, name, at)?;
    viat_engine::check(&body.definition).map_err(|problem| AssetError::Unreadable(format!("workflow {name}: {problem}")))?;
    Ok((asset, body))
}

/// The version of a workflow that is published; `None` if none ever was.
///
/// # Errors
/// See [`AssetError`].
pub fn published(store: &dyn Store, name: &str, at: At) -> Result<Option<u64>, AssetError> {
    match read::<Publication>(store, PUBLISHED, name, at) {
        Ok((_, publication)) => Ok(Some(publication.version)),
        Err(AssetError::Missing(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// What a run pins.
#[derive(Clone, Copy, Debug)]
pub struct Pins {
    /// The version of its own workflow.
    pub version: u64,
    /// The catalogue revision that everything else is taken from.
    pub revision: u64,
    /// Whether called workflows that were never published are used as drafts.
    pub draft: bool,
}

/// The program of a run: its workflow's version, and the published versions of the workflows that it can call, as they
/// were at the pinned revision.
///
/// A called workflow that does not exist is left out: the call then fails as `resource`.
///
/// # Errors
/// See [`AssetError`].
pub fn program(store: &dyn Store, name: &str, pins: Pins) -> Result<Program, AssetError> {
    let Pins { version, revision, draft } = pins;
    let (_, main) = workflow(store, name, At::Version(version))?;
    let mut called = BTreeMap::new();
    let mut wanted = calls(&main.definition);
    while let Some((key, name, version)) = wanted.pop() {
        if called.contains_key(&key) {
            continue;
        }
        let pinned = match version {
            Some(version) => Some(At::Version(version)),
            None => published(store, &name, At::Revision(revision))?.map(At::Version).or(draft.then_some(At::Revision(revision))),
        };
        let Some(at) = pinned else { continue };
        match workflow(store, &name, at) {
            Ok((_, body)) => {
                wanted.extend(calls(&body.definition));
                called.insert(key, Arc::new(body.definition));
            }
            Err(AssetError::Missing(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Program { main: Arc::new(main.definition), called })
}

/// The scripts that a program can run, sorted.
pub fn scripts_of(program: &Program) -> Vec<String> {
    let definitions = std::iter::once(&program.main).chain(program.called.values());
    let names: BTreeSet<&str> = definitions.flat_map(|definition| scripts_in(definition)).collect();
    names.into_iter().map(str::to_owned).collect()
}

/// The scripts that a definition names: of its entries, and those that resolve and undo them.
pub fn scripts_in(definition: &Definition) -> BTreeSet<&str> {
    definition.regions.iter().flat_map(|region| region.nodes.iter()).flat_map(scripts_at).collect()
}

fn scripts_at(node: &Node) -> impl Iterator<Item = &str> {
    let own = match &node.op {
        Op::Script(script) => Some(script.name.as_str()),
        _ => None,
    };
    let resolve = node.policy.resolve.as_ref().map(|resolve| resolve.script.as_str());
    let undo = match node.policy.compensate.as_deref() {
        Some(Compensate::Script { script, .. }) => Some(script.as_str()),
        Some(Compensate::Irreversible(_)) | None => None,
    };
    [own, resolve, undo].into_iter().flatten()
}

fn calls(definition: &Definition) -> Vec<(String, String, Option<u64>)> {
    let nodes = definition.regions.iter().flat_map(|region| region.nodes.iter());
    let found = nodes.filter_map(|node| match &node.op {
        Op::Call(call) => Some((call.key(), call.workflow.clone(), call.version)),
        _ => None,
    });
    found.collect()
}

fn read<T: for<'de> Deserialize<'de>>(store: &dyn Store, kind: &str, name: &str, at: At) -> Result<(Asset, T), AssetError> {
    let wanted = || match at {
        At::Version(version) => format!("version {version} of {kind} {name}"),
        At::Latest | At::Revision(_) => format!("{kind} {name}"),
    };
    let asset = store.asset(&AssetName::new(kind, name), at)?.ok_or_else(|| AssetError::Missing(wanted()))?;
    let body = serde_json::from_slice(&asset.body).map_err(|error| AssetError::Unreadable(format!("{} cannot be read: {error}", wanted())))?;
    Ok((asset, body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scripts_that_resolve_and_undo_are_named_too() {
        let script = |name: &str, policy: serde_json::Value| {
            let literal = serde_json::json!({"literal": {}});
            serde_json::json!({"id": name, "op": {"script": {"name": name, "args": literal}}, "policy": policy})
        };
        let helper = |name: &str| serde_json::json!({"script": name, "args": {"literal": {}}});
        let nodes = [
            script("pay", serde_json::json!({"resolve": helper("find"), "compensate": {"script": helper("refund")}})),
            script("mail", serde_json::json!({"compensate": {"irreversible": "sent"}})),
            script("pay", serde_json::json!({})),
        ];
        let definition = serde_json::json!({
            "ir": 1, "dialect": "native", "outputs": {"literal": {}}, "regions": [{"nodes": []}, {"nodes": nodes}], "root": 0,
        });
        let definition: Definition = serde_json::from_value(definition).expect("a definition");
        let program = Program { main: Arc::new(definition), called: BTreeMap::new() };
        assert_eq!(scripts_of(&program), ["find", "mail", "pay", "refund"]);
    }
}
