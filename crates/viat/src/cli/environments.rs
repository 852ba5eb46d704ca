//! `viat env`: which environments scripts need, how far each is, and building one.

use std::collections::BTreeMap;
use std::process::ExitCode;

use clap::Subcommand;
use serde_json::{Value, json};
use viat_runner::assets::{SCRIPT, ScriptAsset};
use viat_runner::script::Language;
use viat_runner::script::environments::{Request, State};
use viat_store::{At, Store};

use super::build;
use super::error::CliError;
use super::output::Output;
use crate::audit::Change;
use crate::wiring::Home;

/// How much of a key a table shows.
const SHORT: usize = 16;
/// Lines of the tools' words that are shown.
const TAIL: usize = 20;

/// What can be done with environments.
#[derive(Subcommand)]
pub enum EnvCommand {
    /// Lists the environments that scripts need, and how far each is.
    #[command(after_help = "Example:\n  viat env list")]
    List,
    /// Shows an environment: its state, its exact versions, what the tools said.
    #[command(after_help = "Example:\n  viat env show fetch")]
    Show {
        /// A script, or the beginning of an environment's key.
        name: String,
    },
    /// Builds the environment of a script and waits for it; without a name, all that are not ready.
    #[command(after_help = "Example:\n  viat env build fetch\n  viat env build")]
    Build {
        /// A script, or the beginning of an environment's key.
        name: Option<String>,
        /// Build it again though it is ready.
        #[arg(long, requires = "name")]
        force: bool,
        /// Take the newest versions that fit, not those that were found before.
        #[arg(long, requires = "name")]
        upgrade: bool,
    },
    /// Builds what was asked for under a key; this is the process in the background.
    #[command(hide = true, name = build::BUILDER)]
    Work {
        /// The key.
        key: String,
    },
}

/// Does what the command says.
pub fn run(command: &EnvCommand, home: &Home, output: &Output) -> Result<ExitCode, CliError> {
    match command {
        EnvCommand::List => list(home, output)?,
        EnvCommand::Show { name } => show(name, home, output)?,
        EnvCommand::Build { name: Some(name), force, upgrade } => {
            let known = find(name, home)?;
            home.note(Change::of("environment.build", format!("environment {name}")))?;
            build_one(&known, name, *force, *upgrade, home, output)?;
        }
        EnvCommand::Build { name: None, .. } => {
            home.note(Change::of("environment.build", "all environments"))?;
            return build_all(home, output);
        }
        EnvCommand::Work { key } => {
            home.environments().build(key, &home.tools()).map_err(unreadable)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// An environment as it stands.
struct Known {
    key: String,
    request: Request,
    /// `None` if it was never asked for in this home.
    state: Option<State>,
    /// The scripts whose newest version needs it.
    scripts: Vec<String>,
}

impl Known {
    fn state_name(&self) -> &'static str {
        self.state.as_ref().map_or("missing", State::name)
    }
}

/// An environment's state as JSON.
pub fn described(key: &str, state: &State) -> Value {
    let mut described = json!({"key": key});
    if let (Value::Object(described), Ok(Value::Object(state))) = (&mut described, serde_json::to_value(state)) {
        described.extend(state);
    }
    described
}

/// The environment that a script needs, as JSON; `None` if it needs none.
pub fn of(script: &ScriptAsset, home: &Home) -> Result<Option<Value>, CliError> {
    let Some(request) = Language::of(&script.language).and_then(|language| Request::of(language, &script.metadata)) else { return Ok(None) };
    let key = request.key();
    let entry = home.environments().entry(&key).map_err(unreadable)?;
    Ok(Some(entry.map_or_else(|| json!({"key": key, "state": "missing"}), |entry| described(&key, &entry.state))))
}

/// All that was asked for here, and all that scripts need.
fn known(home: &Home) -> Result<Vec<Known>, CliError> {
    let mut found: BTreeMap<String, Known> = BTreeMap::new();
    for (key, entry) in home.environments().entries().map_err(unreadable)? {
        found.insert(key.clone(), Known { key, request: entry.request, state: Some(entry.state), scripts: Vec::new() });
    }
    for (script, request) in needed(home.store.as_ref())? {
        let key = request.key();
        let known = found.entry(key.clone()).or_insert_with(|| Known { key, request, state: None, scripts: Vec::new() });
        known.scripts.push(script);
    }
    Ok(found.into_values().collect())
}

/// The scripts that need an environment, by their newest version.
fn needed(store: &dyn Store) -> Result<Vec<(String, Request)>, CliError> {
    let mut found = Vec::new();
    for info in store.assets(Some(SCRIPT), None).map_err(CliError::store)? {
        let Some(asset) = store.asset(&info.name, At::Latest).map_err(CliError::store)? else { continue };
        let Ok(body) = serde_json::from_slice::<ScriptAsset>(&asset.body) else { continue };
        if let Some(request) = Language::of(&body.language).and_then(|language| Request::of(language, &body.metadata)) {
            found.push((info.name.name, request));
        }
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(found)
}

fn find(name: &str, home: &Home) -> Result<Known, CliError> {
    let mut found = known(home)?;
    if let Some(at) = found.iter().position(|known| known.scripts.iter().any(|script| script == name)) {
        return Ok(found.swap_remove(at));
    }
    found.retain(|known| known.key.starts_with(name));
    match (found.pop(), found.len()) {
        (Some(known), 0) => Ok(known),
        (Some(_), _) => Err(CliError::refused(format!("several environments begin with {name}")).help("give more of the key")),
        (None, _) => {
            let stored = home.store.assets(Some(SCRIPT), None).map_err(CliError::store)?;
            if stored.iter().any(|info| info.name.name == name) {
                return Err(
                    CliError::not_found(format!("script {name} needs no environment")).help("a script that does has `dependencies` in its `script` block")
                );
            }
            Err(CliError::not_found(format!("there is no script and no environment {name}")).help("`viat env list` shows the environments"))
        }
    }
}

fn list(home: &Home, output: &Output) -> Result<(), CliError> {
    let found = known(home)?;
    if output.json {
        let rows: Vec<Value> = found.iter().map(as_json).collect();
        return output.value(&rows);
    }
    let rows: Vec<Vec<String>> = found
        .iter()
        .map(|known| {
            vec![
                known.key.chars().take(SHORT).collect(),
                known.request.language().name().to_owned(),
                known.state_name().to_owned(),
                if known.scripts.is_empty() { "-".to_owned() } else { known.scripts.join(", ") },
                build::shown(&known.request),
            ]
        })
        .collect();
    output.table(&["KEY", "LANGUAGE", "STATE", "SCRIPTS", "NEEDS"], &rows, "no script needs an environment")
}

fn as_json(known: &Known) -> Value {
    let (environment, reason) = match &known.state {
        Some(State::Ready { environment }) => (Some(environment), None),
        Some(State::Failed { reason }) => (None, Some(reason)),
        Some(State::Building) | None => (None, None),
    };
    json!({
        "key": known.key, "language": known.request.language().name(), "state": known.state_name(), "environment": environment, "reason": reason,
        "dependencies": known.request.dependencies(), "requires_python": known.request.requires_python(), "scripts": known.scripts,
    })
}

fn show(name: &str, home: &Home, output: &Output) -> Result<(), CliError> {
    let known = find(name, home)?;
    let (lock, log) = home.environments().lock_and_log(&known.key);
    if output.json {
        let mut shown = as_json(&known);
        shown["lock"] = if lock.is_empty() { Value::Null } else { json!(lock) };
        shown["log"] = json!(log);
        return output.value(&shown);
    }
    output.line(&format!("environment {} ({}) is {}", known.key, known.request.language().name(), known.state_name()))?;
    output.line(&format!("needs {}", build::shown(&known.request)))?;
    if !known.scripts.is_empty() {
        output.line(&format!("used by script {}", known.scripts.join(", ")))?;
    }
    match &known.state {
        Some(State::Ready { environment }) => output.line(&format!("lies in {}", home.environments().folder(environment).display()))?,
        Some(State::Failed { reason }) => output.line(&format!("failed: {reason}"))?,
        Some(State::Building) => output.line(&format!("wait for it: viat env build {name}"))?,
        None => output.line(&format!("build it: viat env build {name}"))?,
    }
    let lines: Vec<&str> = log.lines().collect();
    if !lines.is_empty() && !matches!(known.state, Some(State::Failed { .. })) {
        output.line(&format!("\n{}", lines[lines.len().saturating_sub(TAIL)..].join("\n")))?;
    }
    if !lock.is_empty() {
        // hashes are for the machine: `--json` has them
        let versions: Vec<&str> = lock.lines().filter(|line| !line.trim_start().starts_with("--hash")).map(|line| line.trim_end_matches(" \\")).collect();
        let shown = if known.request.language() == Language::Python { versions.join("\n") } else { locked_packages(&lock).join("\n") };
        output.line(&format!("\n{shown}"))?;
    }
    Ok(())
}

/// `name@version` of each package in npm's lock.
fn locked_packages(lock: &str) -> Vec<String> {
    let lock: Value = serde_json::from_str(lock).unwrap_or_default();
    let packages = lock["packages"].as_object().into_iter().flatten();
    packages
        .filter_map(|(place, package)| {
            Some(format!("{}@{}", place.rsplit("node_modules/").next().filter(|name| !name.is_empty())?, package["version"].as_str()?))
        })
        .collect()
}

fn build_one(known: &Known, name: &str, force: bool, upgrade: bool, home: &Home, output: &Output) -> Result<(), CliError> {
    if force || upgrade {
        home.environments().ask_again(&known.request, upgrade).map_err(unreadable)?;
    }
    let state = build::build(&known.request, name, home, output)?;
    if let State::Failed { reason } = &state {
        return Err(build::failed(&format!("the environment of {name}"), reason, name));
    }
    if output.json {
        return output.value(&described(&known.key, &state));
    }
    output.line(&format!("environment {} is {}", known.key, state.name()))
}

fn build_all(home: &Home, output: &Output) -> Result<ExitCode, CliError> {
    let mut states = Vec::new();
    for known in known(home)?.into_iter().filter(|known| !known.scripts.is_empty()) {
        let state = build::build(&known.request, &known.scripts.join(", "), home, output)?;
        if !output.json {
            let reason = if let State::Failed { reason } = &state { format!(": {reason}") } else { String::new() };
            output.line(&format!("environment {} is {}{reason}", known.key, state.name()))?;
        }
        states.push((known.key, state));
    }
    if output.json {
        output.value(&states.iter().map(|(key, state)| described(key, state)).collect::<Vec<_>>())?;
    } else if states.is_empty() {
        output.note("no script needs an environment");
    }
    let failed = states.iter().any(|(_, state)| matches!(state, State::Failed { .. }));
    Ok(ExitCode::from(if failed { 2 } else { 0 }))
}

fn unreadable(error: std::io::Error) -> CliError {
    CliError::failed(format!("the home's environments cannot be read or written: {error}"))
}
