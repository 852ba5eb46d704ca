//! `viat workflow publish|versions|diff`.

use serde_json::json;
use similar::TextDiff;
use viat_runner::assets::{self, PUBLISHED, Publication, WORKFLOW, WorkflowAsset};
use viat_store::{Asset, AssetName, At, Hash, Op, Precondition, Unit};

use super::error::CliError;
use super::output::Output;
use super::script::time;
use super::workflow::example;
use super::{inputs, missing};
use crate::audit::Change;
use crate::wiring::Home;

/// Publishes a version.
pub fn publish(name: &str, version: Option<u64>, home: &Home, output: &Output) -> Result<(), CliError> {
    let version = set_published(name, version, home)?;
    let (_, body) = find(name, Some(version), home)?;
    if output.json {
        return output.value(&json!({"name": name, "published": version}));
    }
    output.line(&format!("workflow {name} version {version} is published; start it: viat run start {name} --input '{}'", example(&body.definition)))
}

/// Makes a version, or the newest, the published one; gives its number.
pub fn set_published(name: &str, version: Option<u64>, home: &Home) -> Result<u64, CliError> {
    let (asset, _) = find(name, version, home)?;
    let version = asset.info.version;
    let body = serde_json::to_vec(&Publication { version }).map_err(|error| CliError::usage(error.to_string()))?;
    let hash = Hash::of(&body);
    let put = Op::PutAsset { name: AssetName::new(PUBLISHED, name), body, hash, refs: Vec::new(), at: inputs::now() };
    let noted = Change::of("workflow.publish", format!("workflow {name}")).detail(format!("version {version}")).op(&home.actor);
    let unit = Unit::from(vec![put, noted]).guarded(Precondition::AssetLive(AssetName::new(WORKFLOW, name)));
    home.store.commit_blocking(unit).map_err(CliError::store)?;
    Ok(version)
}

/// Lists versions.
pub fn versions(name: &str, home: &Home, output: &Output) -> Result<(), CliError> {
    let mut found = home.store.asset_versions(&AssetName::new(WORKFLOW, name)).map_err(CliError::store)?;
    if found.is_empty() {
        return Err(missing(home.store.as_ref(), WORKFLOW, name, None));
    }
    found.reverse();
    let published = assets::published(home.store.as_ref(), name, At::Latest).map_err(CliError::assets)?;
    if output.json {
        let rows: Vec<_> = found
            .iter()
            .map(|info| json!({"version": info.version, "published": published == Some(info.version), "created_at": time(info), "hash": info.hash.to_string()}))
            .collect();
        return output.value(&rows);
    }
    let newest = found.first().map(|info| info.version);
    let note = |version: u64| match (published == Some(version), newest == Some(version)) {
        (true, _) => "published",
        (false, true) => "draft",
        (false, false) => "",
    };
    let rows: Vec<Vec<String>> = found.iter().map(|info| vec![info.version.to_string(), note(info.version).to_owned(), time(info)]).collect();
    output.table(&["VERSION", "", "CREATED"], &rows, "no versions")
}

/// Shows what changed.
pub fn diff(name: &str, from: Option<u64>, to: Option<u64>, home: &Home, output: &Output) -> Result<(), CliError> {
    let (newer, new) = find(name, to, home)?;
    let to = newer.info.version;
    let from = from.unwrap_or(to.saturating_sub(1));
    if from == 0 {
        return Err(CliError::refused(format!("workflow {name} has one version only")));
    }
    let (_, old) = find(name, Some(from), home)?;
    let (before, after) = (format!("{name} v{from}"), format!("{name} v{to}"));
    let text = TextDiff::from_lines(&old.source, &new.source).unified_diff().context_radius(3).header(&before, &after).to_string();
    if output.json {
        return output.value(&json!({"name": name, "from": from, "to": to, "diff": text}));
    }
    if text.is_empty() {
        output.note(&format!("{before} and {after} are the same"));
        return Ok(());
    }
    output.line(text.trim_end())
}

fn find(name: &str, version: Option<u64>, home: &Home) -> Result<(Asset, WorkflowAsset), CliError> {
    match assets::workflow(home.store.as_ref(), name, version.map_or(At::Latest, At::Version)) {
        Err(assets::AssetError::Missing(_)) => Err(missing(home.store.as_ref(), WORKFLOW, name, version)),
        found => found.map_err(CliError::assets),
    }
}
