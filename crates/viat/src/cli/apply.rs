//! `viat apply`: makes the home's resources, scripts and workflows those of a project folder.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use viat_runner::assets::{self, SCRIPT, WORKFLOW};
use viat_runner::resources::{Body, Kind, MAX_TEXT, RESOURCE};
use viat_runner::script::Language;
use viat_runner::script::environments::State;
use viat_store::{Asset, AssetName, At, Hash};

use super::error::CliError;
use super::output::Output;
use super::{build, inputs, resource, script, versions, workflow};
use crate::wiring::Home;

/// The largest file of a project.
const MAX_FILE: u64 = 1 << 20;

/// The folders in which a project has its files; nothing else of it is read.
pub const FOLDERS: [&str; 3] = ["scripts", "resources", "workflows"];

/// The endings of scripts' files.
const SCRIPTS: [(&str, Language); 10] = [
    ("py", Language::Python),
    ("js", Language::JavaScript),
    ("mjs", Language::JavaScript),
    ("cjs", Language::JavaScript),
    ("ts", Language::JavaScript),
    ("mts", Language::JavaScript),
    ("cts", Language::JavaScript),
    ("sh", Language::Shell),
    ("http.yaml", Language::Http),
    ("http.yml", Language::Http),
];
/// The endings of resources' files. Secrets have none: they are no part of a project.
const RESOURCES: [(&str, Kind); 5] = [("prompt.md", Kind::Prompt), ("prompt.txt", Kind::Prompt), ("json", Kind::Json), ("md", Kind::Text), ("txt", Kind::Text)];
/// The endings of workflows' files.
const WORKFLOWS: [&str; 3] = ["yaml", "yml", "json"];

/// What `apply` takes.
#[derive(Args)]
pub struct ApplyArgs {
    /// The project folder: scripts/*.py (or .js, .ts, .sh, .http.yaml), workflows/*.yaml (or .yml, .json) and resources/*.prompt.md
    /// (or .prompt.txt, .json, .md, .txt).
    #[arg(default_value = ".")]
    dir: PathBuf,
    /// Say what would be done, and do nothing.
    #[arg(long)]
    dry_run: bool,
    /// Publish the newest version of every workflow of the project.
    #[arg(long)]
    publish: bool,
}

/// One thing to do.
#[derive(Clone, Debug, Serialize)]
struct Step {
    kind: &'static str,
    name: String,
    action: Action,
    #[serde(skip)]
    file: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Action {
    Create,
    Update,
    Unchanged,
}

/// Does it: resources first, then scripts, then workflows, those that are called before those that call them.
pub fn run(args: &ApplyArgs, home: &Home, output: &Output) -> Result<ExitCode, CliError> {
    let plan = plan(&args.dir, home)?;
    if !args.dry_run {
        carry_out(&plan, home, output)?;
        if args.publish {
            publish(&plan, home)?;
        }
    }
    if output.json {
        output.value(&plan)?;
        return Ok(ExitCode::SUCCESS);
    }
    for step in &plan {
        let action = match step.action {
            Action::Create => "create",
            Action::Update => "update",
            Action::Unchanged => "unchanged",
        };
        output.line(&format!("{action:<9} {} {}", step.kind, step.name))?;
    }
    if args.dry_run {
        output.note("nothing was changed (--dry-run)");
    }
    Ok(ExitCode::SUCCESS)
}

/// Makes the home's assets those of the folder.
pub fn apply(dir: &Path, home: &Home, output: &Output) -> Result<(), CliError> {
    carry_out(&plan(dir, home)?, home, output)
}

fn plan(dir: &Path, home: &Home) -> Result<Vec<Step>, CliError> {
    let scripts = found(&dir.join("scripts"), &SCRIPTS.map(|(ending, _)| ending))?;
    let workflows = found(&dir.join("workflows"), &WORKFLOWS)?;
    let resources = found(&dir.join("resources"), &RESOURCES.map(|(ending, _)| ending))?;
    if scripts.is_empty() && workflows.is_empty() && resources.is_empty() {
        return Err(CliError::usage(format!("{} has no scripts (scripts/*.py, .js, .ts, .sh, .http.yaml) and no workflows/*.yaml", dir.display()))
            .help("`viat init` makes a project folder"));
    }
    for (kind, files) in [(RESOURCE, &resources), (SCRIPT, &scripts), (WORKFLOW, &workflows)] {
        let mut seen: BTreeMap<&str, &Path> = BTreeMap::new();
        for file in files {
            if let Some(other) = seen.insert(stem(file), file) {
                return Err(CliError::usage(format!("{} and {} name the same {kind}", other.display(), file.display())).help("keep one of them"));
            }
        }
    }
    let resources = resources.into_iter().map(|file| step(RESOURCE, file, home));
    let scripts = scripts.into_iter().map(|file| step(SCRIPT, file, home));
    let workflows = workflows.into_iter().map(|file| step(WORKFLOW, file, home));
    resources.chain(scripts).chain(workflows).collect()
}

fn found(folder: &Path, endings: &[&str]) -> Result<Vec<PathBuf>, CliError> {
    let names = inputs::folder(folder)?.unwrap_or_default();
    let fits = |name: &String| endings.iter().any(|ending| name.strip_suffix(ending).is_some_and(|name| name.ends_with('.')));
    Ok(names.into_iter().filter(fits).map(|name| folder.join(name)).collect())
}

/// The asset's name: the file's, without its ending.
fn stem(file: &Path) -> &str {
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let known = SCRIPTS.iter().map(|(ending, _)| *ending).chain(RESOURCES.iter().map(|(ending, _)| *ending)).chain(WORKFLOWS);
    let stems = known.filter_map(|ending| name.strip_suffix(ending)?.strip_suffix('.'));
    // `.http.yaml` is longer than `.yaml`
    stems.min_by_key(|stem| stem.len()).unwrap_or(name)
}

/// The language of a script by its file's ending.
fn language(file: &Path) -> Language {
    let name = file.to_string_lossy();
    SCRIPTS.iter().find(|(ending, _)| name.ends_with(&format!(".{ending}"))).map_or(Language::Python, |(_, language)| *language)
}

fn step(kind: &'static str, file: PathBuf, home: &Home) -> Result<Step, CliError> {
    let name = stem(&file).to_owned();
    inputs::name(kind, &name)?;
    let limit = if kind == RESOURCE { MAX_TEXT as u64 } else { MAX_FILE };
    let hash = Hash::of(&inputs::file(&file, limit)?);
    let stored = home.store.asset(&AssetName::new(kind, name.as_str()), At::Latest).map_err(CliError::store)?;
    let action = match stored {
        None => Action::Create,
        Some(asset) if asset.info.hash == hash && (kind != RESOURCE || is_of(kind_of(&file), &asset)) => Action::Unchanged,
        Some(_) => Action::Update,
    };
    Ok(Step { kind, name, action, file })
}

/// What a resource is by its file's ending.
fn kind_of(file: &Path) -> Kind {
    let name = file.to_string_lossy();
    RESOURCES.iter().find(|(ending, _)| name.ends_with(&format!(".{ending}"))).map_or(Kind::Text, |(_, kind)| *kind)
}

fn is_of(kind: Kind, asset: &Asset) -> bool {
    serde_json::from_slice::<Body>(&asset.body).is_ok_and(|body| body.kind() == kind)
}

fn save_resource(step: &Step, home: &Home) -> Result<(), CliError> {
    let (kind, shown) = (kind_of(&step.file), step.file.display().to_string());
    let text = String::from_utf8(inputs::file(&step.file, MAX_TEXT as u64)?).map_err(|_| CliError::usage(format!("{shown} is not UTF-8 text")))?;
    let text = resource::checked(&step.name, kind, text, &shown)?;
    resource::save(&step.name, kind, &text, home).map(|_| ())
}

fn publish(plan: &[Step], home: &Home) -> Result<(), CliError> {
    for step in plan.iter().filter(|step| step.kind == WORKFLOW) {
        let newest = home.store.asset(&AssetName::new(WORKFLOW, step.name.as_str()), At::Latest).map_err(CliError::store)?;
        let published = assets::published(home.store.as_ref(), &step.name, At::Latest).map_err(CliError::assets)?;
        if newest.is_some_and(|newest| published != Some(newest.info.version)) {
            versions::set_published(&step.name, None, home)?;
        }
    }
    Ok(())
}

fn carry_out(plan: &[Step], home: &Home, output: &Output) -> Result<(), CliError> {
    let open: Vec<&Step> = plan.iter().filter(|step| step.action != Action::Unchanged).collect();
    for step in open.iter().filter(|step| step.kind == RESOURCE) {
        save_resource(step, home)?;
    }
    for step in open.iter().filter(|step| step.kind == SCRIPT) {
        let saved = script::save(&step.name, language(&step.file), &step.file, home)?;
        saved.warn_of_secrets(&step.name, home, output)?;
        if let Some(request) = &saved.request
            && build::begin(request, home)? == State::Building
        {
            output.note(&format!("script {}: its environment is being built; how far it is: viat env list", step.name));
        }
    }
    // A workflow that calls another one of the project can be saved only after it: go round as long as that helps.
    let mut left: Vec<&Step> = open.into_iter().filter(|step| step.kind == WORKFLOW).collect();
    while !left.is_empty() {
        let mut refused = Vec::new();
        let mut first_error = None;
        for step in &left {
            match workflow::save(&step.name, &step.file, home, output) {
                Ok(_) => {}
                Err(error) => {
                    // What another file of the project is to blame for says less than what is wrong in a file itself.
                    let says_little = |error: &CliError| error.is_only("unknown-workflow");
                    if first_error.as_ref().is_none_or(|first| says_little(first) && !says_little(&error)) {
                        first_error = Some(error);
                    }
                    refused.push(*step);
                }
            }
        }
        match first_error {
            Some(error) if refused.len() == left.len() => return Err(error),
            _ => left = refused,
        }
    }
    Ok(())
}
