//! `viat script`: create, list, show, delete, and the way to the others.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Subcommand, ValueEnum};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use viat_dialect::signature::{Shape, Signature};
use viat_runner::assets::{SCRIPT, ScriptAsset};
use viat_runner::resources::RESOURCE;
use viat_runner::script::environments::{Request, State};
use viat_runner::script::{self, Parameter, ParameterKind, ScriptInfo};
use viat_store::{AssetInfo, AssetName, At, Hash, Op, Outcome, Precondition, Unit};

use super::error::CliError;
use super::output::Output;
use super::{build, compile, environments, inputs, missing, resource, script_logs, trial, workers};
use crate::audit::Change;
use crate::wiring::Home;

/// The largest script that is taken, in bytes.
const MAX_SCRIPT: u64 = 1 << 20;

/// What can be done with scripts.
#[derive(Subcommand)]
pub enum ScriptCommand {
    /// Saves a script; each save is a new version.
    #[command(after_help = "Example:\n  viat script create --name fetch --language python --file scripts/fetch.py")]
    Create {
        /// The name that workflows use.
        #[arg(long)]
        name: String,
        /// The language it is written in.
        #[arg(long, value_enum)]
        language: Language,
        /// Its text.
        #[arg(long)]
        file: PathBuf,
        /// Wait until the environment that it needs is built.
        #[arg(long)]
        wait: bool,
    },
    /// Lists scripts.
    #[command(after_help = "Example:\n  viat script list --json")]
    List,
    /// Shows a script.
    #[command(after_help = "Example:\n  viat script show fetch\n  viat script show fetch --version 2 --json")]
    Show {
        /// Its name.
        name: String,
        /// An older version.
        #[arg(long)]
        version: Option<u64>,
    },
    /// Runs a script alone, once, and prints its value; nothing is kept.
    #[command(after_help = "Example:\n  viat script test fetch --args '{\"url\": \"https://example.com\"}'")]
    Test(trial::TrialArgs),
    /// Prints what its newest attempts wrote, whichever run they belong to.
    #[command(after_help = "Example:\n  viat script logs fetch --limit 3")]
    Logs {
        /// Its name.
        name: String,
        /// At most so many attempts.
        #[arg(long, default_value_t = 10)]
        limit: usize,
    },
    /// Deletes a script that no workflow uses. Runs that used it keep their version.
    #[command(after_help = "Example:\n  viat script delete fetch")]
    Delete {
        /// Its name.
        name: String,
    },
}

/// The languages that scripts can be written in.
#[derive(Clone, Copy, ValueEnum, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    /// `def main(**args)`.
    Python,
    /// `export default async function main(args, viat)`; TypeScript in files that end in .ts.
    #[value(name = "javascript")]
    JavaScript,
    /// A shell script: arguments on stdin and in VIAT_ARG_*, the last line of stdout is the value.
    Shell,
    /// A request template in YAML.
    Http,
}

impl Language {
    /// The runner's word for it.
    pub fn inner(self) -> script::Language {
        match self {
            Language::Python => script::Language::Python,
            Language::JavaScript => script::Language::JavaScript,
            Language::Shell => script::Language::Shell,
            Language::Http => script::Language::Http,
        }
    }
}

/// Does what the command says.
pub fn run(command: &ScriptCommand, home: &Home, output: &Output) -> Result<ExitCode, CliError> {
    match command {
        ScriptCommand::Create { name, language, file, wait } => create(name, language.inner(), file, *wait, home, output)?,
        ScriptCommand::List => list(home, output)?,
        ScriptCommand::Show { name, version } => show(name, *version, home, output)?,
        ScriptCommand::Test(args) => return trial::run(args, home, output),
        ScriptCommand::Logs { name, limit } => script_logs::show(name, *limit, home, output)?,
        ScriptCommand::Delete { name } => super::workflow::delete(SCRIPT, name, home, output)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn create(name: &str, language: script::Language, file: &Path, wait: bool, home: &Home, output: &Output) -> Result<(), CliError> {
    created(name, language, save(name, language, file, home)?, wait, home, output)
}

/// Creates a script from its text; `file` is for messages, `guard` must hold.
pub fn create_text(
    name: &str,
    language: script::Language,
    file: &Path,
    bytes: Vec<u8>,
    guard: Option<Precondition>,
    home: &Home,
    output: &Output,
) -> Result<(), CliError> {
    if bytes.len() as u64 > MAX_SCRIPT {
        return Err(CliError::usage(format!("{} is larger than {MAX_SCRIPT} bytes, the most that is taken", file.display())));
    }
    created(name, language, save_text(name, language, file, bytes, guard, home)?, false, home, output)
}

fn created(name: &str, language: script::Language, saved: Saved, wait: bool, home: &Home, output: &Output) -> Result<(), CliError> {
    saved.warn_of_secrets(name, home, output)?;
    let what = format!("script {name} version {}", saved.version);
    let environment = match &saved.request {
        Some(request) if wait => {
            let state = build::build(request, &what, home, output)?;
            if let State::Failed { reason } = &state {
                return Err(build::failed(&format!("{what} is saved, but its environment"), reason, name));
            }
            Some(state)
        }
        Some(request) => Some(build::begin(request, home)?),
        None => None,
    };
    if output.json {
        return output.value(&json!({
            "name": name, "version": saved.version, "language": language.name(), "hash": saved.hash.to_string(), "info": saved.info,
            "environment": environment.as_ref().zip(saved.request.as_ref()).map(|(state, request)| environments::described(&request.key(), state)),
        }));
    }
    output.line(&format!("{what}: {}", signature(language.name(), &saved.info)))?;
    match environment {
        Some(State::Building) => output.note(&format!("its environment is being built; how far it is: viat env show {name}")),
        Some(_) => output.note("its environment is ready"),
        None => {}
    }
    Ok(())
}

/// A script version that has just been saved.
pub struct Saved {
    version: u64,
    hash: Hash,
    info: ScriptInfo,
    /// The environment that it needs; somebody has to see to it that it is built.
    pub request: Option<Request>,
    secrets: Vec<String>,
}

impl Saved {
    /// Says which of the secrets that it declares are not there: they may be created later.
    pub fn warn_of_secrets(&self, name: &str, home: &Home, output: &Output) -> Result<(), CliError> {
        for problem in resource::undefined(&self.secrets, home)? {
            output.note(&format!("{} script {name} declares what is not there: {problem}", output.paint("33;1", "warning:")));
        }
        Ok(())
    }
}

/// Checks a script and saves it as a new version.
pub fn save(name: &str, language: script::Language, file: &Path, home: &Home) -> Result<Saved, CliError> {
    inputs::name(SCRIPT, name)?;
    save_text(name, language, file, inputs::file(file, MAX_SCRIPT)?, None, home)
}

fn save_text(name: &str, language: script::Language, file: &Path, bytes: Vec<u8>, guard: Option<Precondition>, home: &Home) -> Result<Saved, CliError> {
    inputs::name(SCRIPT, name)?;
    // Python takes a byte order mark; so do we, and keep the text without it.
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").map(<[u8]>::to_vec).unwrap_or(bytes);
    let source = String::from_utf8(bytes).map_err(|error| {
        let line = error.as_bytes()[..error.utf8_error().valid_up_to()].iter().filter(|byte| **byte == b'\n').count() + 1;
        CliError::usage(format!("{}:{line}: the script is not UTF-8 text", file.display()))
    })?;
    let asset: ScriptAsset = compile::script(language, file, source, home)?;
    let body = serde_json::to_vec(&asset).map_err(|error| CliError::usage(error.to_string()))?;
    let hash = Hash::of(asset.source.as_bytes());
    // what it declares cannot be deleted while it is there
    let refs = asset.metadata.settings.secrets.iter().map(|secret| AssetName::new(RESOURCE, secret)).collect();
    let op = Op::PutAsset { name: AssetName::new(SCRIPT, name), body, hash, refs, at: inputs::now() };
    let noted = Change::of("script.create", format!("script {name}")).op(&home.actor);
    let receipt = home.store.commit_blocking(Unit { guard: guard.into_iter().collect(), ops: vec![op, noted] }).map_err(CliError::store)?;
    match receipt.outcomes.first() {
        Some(Outcome::AssetPut { version, .. }) => {
            Ok(Saved { version: *version, hash, info: asset.info, request: Request::of(language, &asset.metadata), secrets: asset.metadata.settings.secrets })
        }
        _ => Err(CliError::usage("the store did not say which version it made")),
    }
}

fn list(home: &Home, output: &Output) -> Result<(), CliError> {
    let mut found = home.store.assets(Some(SCRIPT), None).map_err(CliError::store)?;
    newest_first(&mut found);
    if output.json {
        let rows: Vec<_> = found
            .iter()
            .map(|info| json!({"name": info.name.name, "version": info.version, "created_at": time(info), "hash": info.hash.to_string()}))
            .collect();
        return output.value(&rows);
    }
    let rows: Vec<Vec<String>> = found.iter().map(|info| vec![info.name.name.clone(), info.version.to_string(), time(info)]).collect();
    output.table(&["SCRIPT", "VERSION", "CREATED"], &rows, "no scripts yet: viat script create --name N --language python --file F")
}

fn show(name: &str, version: Option<u64>, home: &Home, output: &Output) -> Result<(), CliError> {
    let asset_name = AssetName::new(SCRIPT, name);
    let at = version.map_or(At::Latest, At::Version);
    let found = home.store.asset(&asset_name, at).map_err(CliError::store)?.ok_or_else(|| missing(home.store.as_ref(), SCRIPT, name, version))?;
    let body: ScriptAsset = serde_json::from_slice(&found.body).map_err(|error| CliError::usage(format!("script {name} cannot be read: {error}")))?;
    let used_by = home.store.referrers(&asset_name).map_err(CliError::store)?;
    let used_by: Vec<String> = used_by.iter().map(|by| by.name.clone()).collect();
    let environment = environments::of(&body, home)?;
    if output.json {
        let (profile, limits) = workers::bounds(&body, home)?;
        return output.value(&json!({
            "name": name, "version": found.info.version, "language": body.language, "profile": profile, "limits": limits, "created_at": time(&found.info),
            "hash": found.info.hash.to_string(), "info": body.info, "signature": signature(&body.language, &body.info),
            "environment": environment, "settings": body.metadata.settings, "pool": workers::settings(&body, home)?,
            "workers": workers::live(name, home)?, "used_by": used_by, "source": body.source,
        }));
    }
    output.line(&format!("script {name} version {} ({}), {}", found.info.version, body.language, time(&found.info)))?;
    output.line(&signature(&body.language, &body.info))?;
    if let Some(environment) = &environment {
        output.line(&format!("environment {} is {}", environment["key"].as_str().unwrap_or_default(), environment["state"].as_str().unwrap_or_default()))?;
    }
    workers::show(name, &body, home, output)?;
    let secrets = &body.metadata.settings.secrets;
    if !secrets.is_empty() {
        output.line(&format!("is given the secrets {}", secrets.join(", ")))?;
    }
    if !used_by.is_empty() {
        output.line(&format!("used by workflow {}", used_by.join(", ")))?;
    }
    output.line("")?;
    output.line(body.source.trim_end())
}

/// What is known of the arguments that a script takes before it runs; `None` if it takes what it is given.
pub fn signature_of(script: &ScriptAsset) -> Option<Signature> {
    let language = script::Language::of(&script.language)?;
    // a function in JavaScript is not asked what it takes, and a shell script takes everything
    if !script.info.signature_known || !matches!(language, script::Language::Python | script::Language::Http) {
        return None;
    }
    let shape = |value: &serde_json::Value| serde_json::from_value(value.clone()).unwrap_or(Shape::Any);
    let named = script.info.parameters.iter().filter(|one| one.kind == ParameterKind::Keyword);
    let parameters = named.map(|one| viat_dialect::signature::Parameter {
        name: one.name.clone(),
        required: one.default.is_none(),
        shape: one.shape.as_ref().map_or(Shape::Any, shape),
        annotation: one.annotation.clone(),
    });
    Some(Signature { parameters: parameters.collect(), takes_others: script.info.parameters.iter().any(|one| one.kind == ParameterKind::Rest) })
}

/// The signature as an author would write it.
fn signature(language: &str, info: &ScriptInfo) -> String {
    match script::Language::of(language) {
        Some(script::Language::Shell) => return "arguments on stdin and in VIAT_ARG_*".to_owned(),
        Some(script::Language::Http) => {
            let names: Vec<String> = info.parameters.iter().map(|one| format!("{}{}", one.name, if one.default.is_some() { "?" } else { "" })).collect();
            return if names.is_empty() { "a request without arguments".to_owned() } else { format!("a request with {}", names.join(", ")) };
        }
        _ if !info.signature_known => return "main: its signature shows only when it runs".to_owned(),
        Some(script::Language::JavaScript) => return javascript(info),
        Some(script::Language::Python) | None => {}
    }
    let mut parameters: Vec<String> = info.parameters.iter().map(parameter).collect();
    let by_position = info.parameters.iter().take_while(|parameter| parameter.kind == ParameterKind::PositionalOnly).count();
    if by_position > 0 {
        parameters.insert(by_position, "/".to_owned());
    }
    let returns = info.returns.as_ref().map(|returns| format!(" -> {returns}")).unwrap_or_default();
    format!("{}main({}){returns}", if info.is_async { "async " } else { "" }, parameters.join(", "))
}

fn javascript(info: &ScriptInfo) -> String {
    let one = |parameter: &Parameter| match (&parameter.default, parameter.kind) {
        (_, ParameterKind::Rest) => format!("...{}", parameter.name),
        (Some(default), _) => format!("{} = {default}", parameter.name),
        (None, _) => parameter.name.clone(),
    };
    let parameters: Vec<String> = info.parameters.iter().map(one).collect();
    let whole = info.parameters.len() == 1 && info.parameters[0].kind == ParameterKind::Rest;
    let inner = match parameters.as_slice() {
        [] => String::new(),
        [_] if whole => info.parameters[0].name.clone(),
        several => format!("{{{}}}", several.join(", ")),
    };
    format!("{}main({inner})", if info.is_async { "async " } else { "" })
}

fn parameter(parameter: &Parameter) -> String {
    let mut text = if parameter.kind == ParameterKind::Rest { format!("**{}", parameter.name) } else { parameter.name.clone() };
    if let Some(annotation) = &parameter.annotation {
        text.push_str(&format!(": {annotation}"));
    }
    if let Some(default) = &parameter.default {
        text.push_str(&format!(" = {default}"));
    }
    text
}

/// When a version was created, for people and programs.
pub fn time(info: &AssetInfo) -> String {
    viat_engine::record::rfc3339(info.at)
}

/// As every list is sorted.
pub fn newest_first(found: &mut [AssetInfo]) {
    found.sort_by_key(|info| std::cmp::Reverse(info.revision));
}
