//! `viat workflow`: create, validate, list, show, delete. `test` has a file of its own.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Subcommand;
use serde_json::json;
use viat_dialect::signature::Signature;
use viat_dialect::{Catalogue, Compiled, Diagnostic, Severity, Style, compile_named, render};
use viat_engine::ir::InputDeclaration;
use viat_engine::{Definition, Op as Entry};
use viat_runner::assets::{self, PUBLISHED, SCRIPT, ScriptAsset, WORKFLOW, WorkflowAsset};
use viat_store::{AssetName, At, Hash, Op, Outcome, Precondition, Store, StoreError, Unit};

use super::error::CliError;
use super::output::Output;
use super::script::{newest_first, time};
use super::{inputs, missing, test, versions};
use crate::audit::Change;
use crate::wiring::Home;

/// The largest file that is looked at; the language itself takes less, and says so with a place.
const MAX_FILE: u64 = 64 << 20;

/// What can be done with workflows.
#[derive(Subcommand)]
pub enum WorkflowCommand {
    /// Saves a workflow; each save is a new version, the newest is the draft.
    #[command(after_help = "Example:\n  viat workflow create recover --file workflows/recover.yaml")]
    Create {
        /// The workflow's name.
        name: String,
        /// Its YAML (or JSON) text.
        #[arg(long)]
        file: PathBuf,
    },
    /// Checks a workflow without saving it.
    #[command(after_help = "Example:\n  viat workflow validate --file workflows/recover.yaml")]
    Validate {
        /// Its YAML (or JSON) text.
        #[arg(long)]
        file: PathBuf,
    },
    /// Lists workflows.
    #[command(after_help = "Example:\n  viat workflow list --json")]
    List,
    /// Shows a workflow.
    #[command(after_help = "Example:\n  viat workflow show recover\n  viat workflow show recover --version 1 --json")]
    Show {
        /// Its name.
        name: String,
        /// An older version.
        #[arg(long)]
        version: Option<u64>,
    },
    /// Runs the draft and waits for its end: prints the outputs, exits 0 if the run succeeded, recovered or not.
    #[command(
        after_help = "Example:\n  viat workflow test recover --input '{}'\n  viat workflow test recover --input @input.json --timeout PT10S --json\n  viat workflow test content --input @input.json --decide review=approved --inject notify=timeout --fast-forward"
    )]
    Test(test::TestArgs),
    /// Makes a version the one that runs, endpoints and other workflows use.
    #[command(after_help = "Example:\n  viat workflow publish recover\n  viat workflow publish recover --version 2")]
    Publish {
        /// Its name.
        name: String,
        /// A version other than the newest.
        #[arg(long)]
        version: Option<u64>,
    },
    /// Lists a workflow's versions, newest first.
    #[command(after_help = "Example:\n  viat workflow versions recover")]
    Versions {
        /// Its name.
        name: String,
    },
    /// Shows what changed between two versions.
    #[command(after_help = "Example:\n  viat workflow diff recover\n  viat workflow diff recover --from 1 --to 3")]
    Diff {
        /// Its name.
        name: String,
        /// The older version; the one before `--to` if not given.
        #[arg(long)]
        from: Option<u64>,
        /// The newer version; the newest if not given.
        #[arg(long)]
        to: Option<u64>,
    },
    /// Deletes a workflow that nothing uses. Runs that used it keep their version.
    #[command(after_help = "Example:\n  viat workflow delete recover")]
    Delete {
        /// Its name.
        name: String,
    },
}

/// Does what the command says.
pub fn run(command: &WorkflowCommand, home: &Home, output: &Output) -> Result<ExitCode, CliError> {
    match command {
        WorkflowCommand::Create { name, file } => create(name, file, home, output)?,
        WorkflowCommand::Validate { file } => return validate(file, home, output),
        WorkflowCommand::List => list(home, output)?,
        WorkflowCommand::Show { name, version } => show(name, *version, home, output)?,
        WorkflowCommand::Publish { name, version } => versions::publish(name, *version, home, output)?,
        WorkflowCommand::Versions { name } => versions::versions(name, home, output)?,
        WorkflowCommand::Diff { name, from, to } => versions::diff(name, *from, *to, home, output)?,
        WorkflowCommand::Delete { name } => delete(WORKFLOW, name, home, output)?,
        WorkflowCommand::Test(args) => return test::test(args, home, output),
    }
    Ok(ExitCode::SUCCESS)
}

fn create(name: &str, file: &Path, home: &Home, output: &Output) -> Result<(), CliError> {
    created(name, save(name, file, home, output)?, output)
}

/// Creates a workflow from its text; `file` is for messages, `guard` must hold.
pub fn create_text(name: &str, file: &Path, bytes: &[u8], guard: Option<Precondition>, home: &Home, output: &Output) -> Result<(), CliError> {
    created(name, save_text(name, file, bytes, guard, home, output)?, output)
}

fn created(name: &str, saved: Saved, output: &Output) -> Result<(), CliError> {
    if output.json {
        return output.value(&json!({"name": name, "version": saved.version, "hash": saved.hash.to_string(), "warnings": saved.warnings}));
    }
    output.line(&format!("workflow {name} version {}; try it: viat workflow test {name} --input '{}'", saved.version, saved.example))
}

/// A workflow version that has just been saved.
pub struct Saved {
    version: u64,
    hash: Hash,
    warnings: Vec<Diagnostic>,
    /// What its inputs look like.
    example: String,
}

/// Checks a workflow and saves it as a new version.
pub fn save(name: &str, file: &Path, home: &Home, output: &Output) -> Result<Saved, CliError> {
    inputs::name(WORKFLOW, name)?;
    save_text(name, file, &inputs::file(file, MAX_FILE)?, None, home, output)
}

fn save_text(name: &str, file: &Path, bytes: &[u8], guard: Option<Precondition>, home: &Home, output: &Output) -> Result<Saved, CliError> {
    inputs::name(WORKFLOW, name)?;
    let Checked { source, definition, warnings } = check(Some(name), file, bytes, home, output)?;
    let refs = references(&definition);
    // What the document names was there when it was checked; the store makes sure that it still is.
    let guard = refs.iter().cloned().map(Precondition::AssetLive).chain(guard).collect();
    let example = example(&definition);
    let asset = WorkflowAsset { file: file.display().to_string(), source, definition };
    let body = serde_json::to_vec(&asset).map_err(|error| CliError::usage(error.to_string()))?;
    let hash = Hash::of(asset.source.as_bytes());
    let op = Op::PutAsset { name: AssetName::new(WORKFLOW, name), body, hash, refs, at: inputs::now() };
    let noted = Change::of("workflow.create", format!("workflow {name}")).op(&home.actor);
    let receipt = home.store.commit_blocking(Unit { guard, ops: vec![op, noted] }).map_err(CliError::store)?;
    match receipt.outcomes.first() {
        Some(Outcome::AssetPut { version, .. }) => Ok(Saved { version: *version, hash, warnings, example }),
        _ => Err(CliError::failed("the store did not say which version it made")),
    }
}

/// The inputs that must be given, with a value of the right sort for each.
pub fn example(definition: &Definition) -> String {
    let required = definition.inputs.iter().filter(|input| input.required);
    let value = |input: &InputDeclaration| match input.schema.get("type").and_then(serde_json::Value::as_str) {
        Some("string") => json!("…"),
        Some("integer" | "number") => json!(1),
        Some("boolean") => json!(true),
        Some("array") => json!([]),
        Some("object") => json!({}),
        _ => serde_json::Value::Null,
    };
    let map: serde_json::Map<String, serde_json::Value> = required.map(|input| (input.name.clone(), value(input))).collect();
    serde_json::Value::Object(map).to_string()
}

fn validate(file: &Path, home: &Home, output: &Output) -> Result<ExitCode, CliError> {
    validate_text(file, &inputs::file(file, MAX_FILE)?, home, output)
}

/// Checks a workflow's text; `file` is for messages.
pub fn validate_text(file: &Path, bytes: &[u8], home: &Home, output: &Output) -> Result<ExitCode, CliError> {
    match check(None, file, bytes, home, output) {
        Ok(Checked { definition, warnings, .. }) => {
            let entries: usize = definition.regions.iter().map(|region| region.nodes.len()).sum();
            let verdict = match warnings.len() {
                0 => "nothing wrong".to_owned(),
                1 => "a warning".to_owned(),
                several => format!("{several} warnings"),
            };
            if output.json {
                output.value(&json!({"valid": true, "entries": entries, "diagnostics": warnings}))?;
            } else {
                output.line(&format!("{}: {verdict}, {entries} {}", file.display(), if entries == 1 { "entry" } else { "entries" }))?;
            }
            Ok(ExitCode::SUCCESS)
        }
        // Here the diagnostics are the result.
        Err(error) => match error.data().filter(|_| output.json) {
            Some(diagnostics) => {
                output.value(&json!({"valid": false, "diagnostics": diagnostics}))?;
                Ok(ExitCode::from(error.code()))
            }
            None => Err(error),
        },
    }
}

/// A document without errors.
struct Checked {
    source: String,
    definition: Definition,
    warnings: Vec<Diagnostic>,
}

/// Reads and checks a document; warnings are shown, errors end the command.
fn check(name: Option<&str>, file: &Path, bytes: &[u8], home: &Home, output: &Output) -> Result<Checked, CliError> {
    let shown = file.display().to_string();
    let Compiled { definition, diagnostics, text } = compile_named(&shown, bytes, name, &Stored::of(home)?);
    let style = if output.coloured { Style::Coloured } else { Style::Plain };
    let drawn = || render(&diagnostics, &text, style);
    if let Some(definition) = definition {
        if !diagnostics.is_empty() && !output.json {
            output.note(&drawn());
        }
        return Ok(Checked { source: text, definition, warnings: diagnostics });
    }
    let errors = diagnostics.iter().filter(|diagnostic| diagnostic.severity == Severity::Error).count();
    let count = if errors == 1 { "an error".to_owned() } else { format!("{errors} errors") };
    let saved = if name.is_some() { "; nothing was saved" } else { "" };
    let message = format!("{shown} has {count}{saved}");
    let data = serde_json::to_value(&diagnostics).unwrap_or_default();
    Err(CliError::usage(message).drawn(drawn(), data))
}

fn list(home: &Home, output: &Output) -> Result<(), CliError> {
    let mut found = home.store.assets(Some(WORKFLOW), None).map_err(CliError::store)?;
    newest_first(&mut found);
    if output.json {
        let rows: Vec<_> = found
            .iter()
            .map(|info| json!({"name": info.name.name, "version": info.version, "created_at": time(info), "hash": info.hash.to_string()}))
            .collect();
        return output.value(&rows);
    }
    let rows: Vec<Vec<String>> = found.iter().map(|info| vec![info.name.name.clone(), info.version.to_string(), time(info)]).collect();
    output.table(&["WORKFLOW", "VERSION", "CREATED"], &rows, "no workflows yet: viat workflow create N --file F")
}

fn show(name: &str, version: Option<u64>, home: &Home, output: &Output) -> Result<(), CliError> {
    let at = version.map_or(At::Latest, At::Version);
    let found =
        home.store.asset(&AssetName::new(WORKFLOW, name), at).map_err(CliError::store)?.ok_or_else(|| missing(home.store.as_ref(), WORKFLOW, name, version))?;
    let body: WorkflowAsset = serde_json::from_slice(&found.body).map_err(|error| CliError::usage(format!("workflow {name} cannot be read: {error}")))?;
    let scripts: Vec<String> = references(&body.definition).iter().filter(|used| used.kind == SCRIPT).map(|used| used.name.clone()).collect();
    if output.json {
        return output.value(&json!({
            "name": name, "version": found.info.version, "dialect": body.definition.dialect, "created_at": time(&found.info),
            "hash": found.info.hash.to_string(), "scripts": scripts, "source": body.source,
        }));
    }
    output.line(&format!("workflow {name} version {} ({}), {}", found.info.version, body.definition.dialect, time(&found.info)))?;
    if !scripts.is_empty() {
        output.line(&format!("runs script {}", scripts.join(", ")))?;
    }
    output.line("")?;
    output.line(body.source.trim_end())
}

/// Deletes an asset, unless something that lives refers to it.
pub fn delete(kind: &str, name: &str, home: &Home, output: &Output) -> Result<(), CliError> {
    let delete = |kind: &str| Op::DeleteAsset { name: AssetName::new(kind, name), at: inputs::now() };
    let published = kind == WORKFLOW && assets::published(home.store.as_ref(), name, At::Latest).map_err(CliError::assets)?.is_some();
    let action = if kind == WORKFLOW { "workflow.delete" } else { "script.delete" };
    let mut ops = vec![delete(kind), Change::of(action, format!("{kind} {name}")).op(&home.actor)];
    ops.extend(published.then(|| delete(PUBLISHED)));
    match home.store.commit_blocking(Unit::from(ops)) {
        Ok(_) if output.json => output.value(&json!({"name": name, "deleted": true})),
        Ok(_) => output.line(&format!("{kind} {name} is deleted; runs that used it keep their version")),
        Err(StoreError::Missing { .. }) => Err(missing(home.store.as_ref(), kind, name, None)),
        Err(StoreError::Referenced { by, .. }) => {
            let holders: Vec<String> = by.iter().map(ToString::to_string).collect();
            Err(CliError::refused(format!("{kind} {name} is used by {}", holders.join(", "))).help("delete those first, or save them without it"))
        }
        Err(error) => Err(CliError::store(error)),
    }
}

/// The assets that a definition needs, sorted.
fn references(definition: &Definition) -> Vec<AssetName> {
    let nodes = definition.regions.iter().flat_map(|region| region.nodes.iter());
    let workflows = nodes.filter_map(|node| match &node.op {
        Entry::Call(call) => Some(AssetName::new(WORKFLOW, call.workflow.clone())),
        _ => None,
    });
    let scripts = assets::scripts_in(definition).into_iter().map(|name| AssetName::new(SCRIPT, name));
    workflows.chain(scripts).collect::<std::collections::BTreeSet<_>>().into_iter().collect()
}

/// What a document may name: what is in the store.
struct Stored<'a> {
    store: &'a dyn Store,
    scripts: Vec<String>,
    workflows: Vec<String>,
    others: Vec<AssetName>,
}

impl<'a> Stored<'a> {
    fn of(home: &'a Home) -> Result<Stored<'a>, CliError> {
        let all = home.store.assets(None, None).map_err(CliError::store)?;
        let of_kind = |kind: &str| all.iter().filter(|info| info.name.kind == kind).map(|info| info.name.name.clone()).collect();
        let (scripts, workflows) = (of_kind(SCRIPT), of_kind(WORKFLOW));
        let others = all.iter().map(|info| info.name.clone()).filter(|name| ![SCRIPT, WORKFLOW, PUBLISHED].contains(&name.kind.as_str())).collect();
        Ok(Stored { store: home.store.as_ref(), scripts, workflows, others })
    }

    /// The version of a workflow that a call would run: the published one, or the draft of one that never was.
    fn definition(&self, workflow: &str) -> Option<Definition> {
        let published = assets::published(self.store, workflow, At::Latest).ok()?;
        let (_, body) = assets::workflow(self.store, workflow, published.map_or(At::Latest, At::Version)).ok()?;
        Some(body.definition)
    }
}

impl Catalogue for Stored<'_> {
    fn script_names(&self) -> Vec<String> {
        self.scripts.clone()
    }

    fn workflow_names(&self) -> Vec<String> {
        self.workflows.clone()
    }

    fn other_kind(&self, name: &str) -> Option<String> {
        self.others.iter().find(|other| other.name == name).map(|other| other.kind.clone())
    }

    fn calls_of(&self, workflow: &str) -> Vec<String> {
        let called = self.definition(workflow).map(|definition| references(&definition)).unwrap_or_default();
        called.into_iter().filter(|used| used.kind == WORKFLOW).map(|used| used.name).collect()
    }

    fn signature_of(&self, script: &str) -> Option<Signature> {
        let asset = self.store.asset(&AssetName::new(SCRIPT, script), At::Latest).ok()??;
        let body: ScriptAsset = serde_json::from_slice(&asset.body).ok()?;
        super::script::signature_of(&body)
    }

    fn inputs_of(&self, workflow: &str) -> Option<Vec<InputDeclaration>> {
        self.definition(workflow).map(|definition| definition.inputs)
    }
}
