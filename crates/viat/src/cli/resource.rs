//! `viat resource` and `viat secret`: one shelf of named prompts, JSON, texts and secrets; the second speaks of secrets only.

use std::collections::BTreeSet;
use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Subcommand, ValueEnum};
use serde_json::{Value, json};
use viat_runner::assets::{SCRIPT, ScriptAsset};
use viat_runner::resources::{self, Body, Kind, MAX_SECRET, MAX_TEXT, New, RESOURCE, ResourceError};
use viat_runner::script::secret_variable;
use viat_store::{Asset, AssetName, At, StoreError};

use super::error::CliError;
use super::output::Output;
use super::script::{newest_first, time};
use super::{given, inputs, missing};
use crate::api::Kind as Wants;
use crate::audit::Change;
use crate::wiring::Home;

/// What can be done with resources.
#[derive(Subcommand)]
pub enum ResourceCommand {
    /// Saves a resource; each save is a new version.
    #[command(
        after_help = "Examples:\n  viat resource create --name greeting --kind prompt --file prompts/greeting.md\n  viat resource create --name limits --kind json --file limits.json"
    )]
    Create {
        /// The name that scripts ask for.
        #[arg(long)]
        name: String,
        /// What it is.
        #[arg(long, value_enum)]
        kind: KindArg,
        /// Its content: a file, or - for stdin.
        #[arg(long)]
        file: PathBuf,
    },
    /// Lists resources.
    #[command(after_help = "Example:\n  viat resource list --kind prompt --json")]
    List {
        /// Only those of one kind.
        #[arg(long, value_enum)]
        kind: Option<KindArg>,
    },
    /// Shows a resource; the value of a secret is never shown.
    #[command(after_help = "Example:\n  viat resource show greeting --version 2")]
    Show {
        /// Its name.
        name: String,
        /// An older version.
        #[arg(long)]
        version: Option<u64>,
    },
    /// Lists its versions, newest first.
    #[command(after_help = "Example:\n  viat resource versions greeting")]
    Versions {
        /// Its name.
        name: String,
    },
    /// Deletes a resource. Runs that pin it keep their version; a secret is erased.
    #[command(after_help = "Example:\n  viat resource delete greeting")]
    Delete {
        /// Its name.
        name: String,
    },
}

/// What can be done with secrets.
#[derive(Subcommand)]
pub enum SecretCommand {
    /// Saves a secret, encrypted; attempts that start from now on are given the new value.
    #[command(
        after_help = "Examples:\n  viat secret create --name api-token < token.txt\n  viat secret create --name api-token --file token.txt\n\nOne line end at the end is not part of the secret. The value is never taken as an argument: others could read it there."
    )]
    Create {
        /// The name that scripts declare.
        #[arg(long)]
        name: String,
        /// Its value: a file, or - for stdin.
        #[arg(long, default_value = "-")]
        file: PathBuf,
    },
    /// Lists secrets, without their values.
    #[command(after_help = "Example:\n  viat secret list --json")]
    List,
    /// Shows what is known of a secret: its version, its key, the scripts that declare it. Never its value.
    #[command(after_help = "Example:\n  viat secret show api-token")]
    Show {
        /// Its name.
        name: String,
    },
    /// Lists its versions, newest first.
    #[command(after_help = "Example:\n  viat secret versions api-token")]
    Versions {
        /// Its name.
        name: String,
    },
    /// Deletes a secret that no script declares, and erases all its versions.
    #[command(after_help = "Example:\n  viat secret delete api-token")]
    Delete {
        /// Its name.
        name: String,
    },
    /// Seals every secret with a new key, or with the first one in VIAT_SECRET_KEY, and erases what the old key opened.
    #[command(after_help = "Examples:\n  viat secret rekey\n  VIAT_SECRET_KEY=$(openssl rand -hex 32) viat secret rekey")]
    Rekey,
}

/// The kinds on the command line.
#[derive(Clone, Copy, ValueEnum)]
pub enum KindArg {
    /// A text for a model.
    Prompt,
    /// A JSON value; it is checked.
    Json,
    /// Any text.
    Text,
    /// Encrypted at rest, given only to scripts that declare it, masked in what they write.
    Secret,
}

impl KindArg {
    fn inner(self) -> Kind {
        match self {
            KindArg::Prompt => Kind::Prompt,
            KindArg::Json => Kind::Json,
            KindArg::Text => Kind::Text,
            KindArg::Secret => Kind::Secret,
        }
    }
}

/// Does what the command says.
pub fn run(command: &ResourceCommand, home: &Home, output: &Output) -> Result<ExitCode, CliError> {
    match command {
        ResourceCommand::Create { name, kind, file } => create(name, kind.inner(), file, home, output)?,
        ResourceCommand::List { kind } => list(kind.map(KindArg::inner), home, output)?,
        ResourceCommand::Show { name, version } => show(name, None, *version, home, output)?,
        ResourceCommand::Versions { name } => versions(name, None, home, output)?,
        ResourceCommand::Delete { name } => delete(name, None, home, output)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The same for secrets alone.
pub fn run_secret(command: &SecretCommand, home: &Home, output: &Output) -> Result<ExitCode, CliError> {
    let only = Some(Kind::Secret);
    match command {
        SecretCommand::Create { name, file } => create(name, Kind::Secret, file, home, output)?,
        SecretCommand::List => list(only, home, output)?,
        SecretCommand::Show { name } => show(name, only, None, home, output)?,
        SecretCommand::Versions { name } => versions(name, only, home, output)?,
        SecretCommand::Delete { name } => delete(name, only, home, output)?,
        SecretCommand::Rekey => rekey(home, output)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// What went wrong, with the exit code that it has.
fn failed(error: ResourceError) -> CliError {
    match error {
        ResourceError::Store(error) => CliError::store(error),
        ResourceError::Missing(what) => CliError::not_found(format!("there is no {what}")),
        ResourceError::Refused(what) => CliError::refused(what),
        ResourceError::Key(what) | ResourceError::Unreadable(what) => CliError::failed(what),
    }
}

fn create(name: &str, kind: Kind, file: &Path, home: &Home, output: &Output) -> Result<(), CliError> {
    check_name(name, kind)?;
    created(name, kind, &text_of(name, kind, file, output)?, home, output)
}

/// Creates a resource from its text.
pub fn create_text(name: &str, kind: Kind, text: String, home: &Home, output: &Output) -> Result<(), CliError> {
    check_name(name, kind)?;
    created(name, kind, &checked(name, kind, text, "the body")?, home, output)
}

fn created(name: &str, kind: Kind, text: &str, home: &Home, output: &Output) -> Result<(), CliError> {
    let saved = save(name, kind, text, home)?;
    if output.json {
        let hash = (kind != Kind::Secret).then(|| saved.hash.to_string());
        return output.value(&json!({"name": name, "kind": kind.name(), "version": saved.version, "hash": hash}));
    }
    output.line(&format!("{} {name} version {}", kind.name(), saved.version))
}

/// Saves a checked text as a new version.
pub fn save(name: &str, kind: Kind, text: &str, home: &Home) -> Result<resources::Saved, CliError> {
    let new = New { name, kind, text, at: inputs::now() };
    let saved = resources::save(home.store.as_ref(), &home.keys(), &new).map_err(failed)?;
    home.note(Change::of("resource.create", format!("{} {name}", kind.name())).detail(format!("version {}", saved.version)))?;
    Ok(saved)
}

/// Checks what a resource is to be called.
fn check_name(name: &str, kind: Kind) -> Result<(), CliError> {
    inputs::name(kind.name(), name)?;
    let variable = secret_variable(name);
    if kind == Kind::Secret && matches!(variable.as_str(), "VIAT_SECRET_KEY" | "VIAT_SECRET_KEY_FILE") {
        return Err(CliError::usage(format!("a secret cannot be called {name}: in shell scripts it would be {variable}, which gives viat its own key")));
    }
    Ok(())
}

fn text_of(name: &str, kind: Kind, file: &Path, output: &Output) -> Result<String, CliError> {
    // one byte more than fits is enough to know, and the end of a secret's line is not counted
    let limit = if kind == Kind::Secret { MAX_SECRET + 2 } else { MAX_TEXT } as u64;
    let (bytes, shown) =
        if file == Path::new("-") { (stdin(kind, limit, output)?, "stdin".to_owned()) } else { (inputs::file(file, limit)?, file.display().to_string()) };
    let text = String::from_utf8(bytes).map_err(|_| CliError::usage(format!("{shown} is not UTF-8 text; encode it, for instance as base64")))?;
    checked(name, kind, text, &shown)
}

/// The text of a resource, if it can be one.
pub fn checked(name: &str, kind: Kind, mut text: String, shown: &str) -> Result<String, CliError> {
    if kind == Kind::Secret {
        let end = text.strip_suffix('\n').map(|rest| rest.strip_suffix('\r').unwrap_or(rest).len());
        text.truncate(end.unwrap_or(text.len()));
    }
    if kind == Kind::Json {
        let value = viat_dialect::json::parse(&text).map_err(|error| CliError::usage(format!("{shown}: resource {name} is not JSON: {error}")))?;
        if viat_engine::template::is_too_deep(&value) {
            return Err(CliError::usage(format!("{shown}: resource {name} is nested deeper than {} levels", viat_engine::template::MAX_DEPTH)));
        }
    }
    match kind.problem_with(&text) {
        Some(problem) => Err(CliError::usage(format!("{shown}: {problem}"))),
        None => Ok(text),
    }
}

fn stdin(kind: Kind, limit: u64, output: &Output) -> Result<Vec<u8>, CliError> {
    if let Some(given) = given::read(Wants::Stdin, Path::new(""), limit) {
        return given;
    }
    let stdin = std::io::stdin();
    if stdin.is_terminal() {
        let hint = if kind == Kind::Secret { "; what is typed shows: --file or a pipe keeps it out of sight" } else { "" };
        output.note(&format!("reading from the terminal, to the end of input (Ctrl-D){hint}"));
    }
    let mut bytes = Vec::new();
    stdin.lock().take(limit + 1).read_to_end(&mut bytes).map_err(|error| CliError::usage(format!("stdin cannot be read: {error}")))?;
    if bytes.len() as u64 > limit {
        return Err(CliError::usage(format!("stdin is larger than {limit} bytes, the most that is taken")));
    }
    Ok(bytes)
}

/// One version, of any kind or of the one that is wanted.
fn find(name: &str, only: Option<Kind>, version: Option<u64>, home: &Home) -> Result<(Asset, Body), CliError> {
    let at = version.map_or(At::Latest, At::Version);
    let found = resources::find(home.store.as_ref(), name, at).map_err(failed)?;
    let (asset, body) = found.ok_or_else(|| missing(home.store.as_ref(), RESOURCE, name, version))?;
    match only {
        Some(wanted) if wanted != body.kind() => {
            Err(CliError::not_found(format!("{name} is a {}, not a {}", body.kind().name(), wanted.name())).help(format!("viat resource show {name}")))
        }
        _ => Ok((asset, body)),
    }
}

fn list(only: Option<Kind>, home: &Home, output: &Output) -> Result<(), CliError> {
    let mut found = home.store.assets(Some(RESOURCE), None).map_err(CliError::store)?;
    newest_first(&mut found);
    let mut rows = Vec::new();
    for info in found {
        let (_, body) = find(&info.name.name, None, Some(info.version), home)?;
        if only.is_none_or(|only| only == body.kind()) {
            rows.push((info, body.kind()));
        }
    }
    if output.json {
        let row = |(info, kind): &(viat_store::AssetInfo, Kind)| json!({"name": info.name.name, "kind": kind.name(), "version": info.version, "created_at": time(info)});
        return output.value(&rows.iter().map(row).collect::<Vec<_>>());
    }
    let rows: Vec<Vec<String>> =
        rows.iter().map(|(info, kind)| vec![info.name.name.clone(), kind.name().to_owned(), info.version.to_string(), time(info)]).collect();
    let empty = match only {
        Some(Kind::Secret) => "no secrets: viat secret create --name N < FILE",
        _ => "no resources: viat resource create --name N --kind prompt --file F",
    };
    output.table(&["NAME", "KIND", "VERSION", "CREATED"], &rows, empty)
}

fn show(name: &str, only: Option<Kind>, version: Option<u64>, home: &Home, output: &Output) -> Result<(), CliError> {
    let (asset, body) = find(name, only, version, home)?;
    let (kind, info) = (body.kind(), &asset.info);
    let used_by = users(name, kind, home)?;
    let (key, value) = match &body {
        Body::Secret(sealed) => (Some(sealed.key.as_str()), None),
        Body::Prompt(text) | Body::Text(text) | Body::Json(text) => (None, Some(text)),
    };
    if output.json {
        let mut row = json!({"name": name, "kind": kind.name(), "version": info.version, "created_at": time(info), "used_by": used_by});
        match (key, value) {
            (Some(key), _) => row["key"] = json!(key),
            (None, value) => {
                row["hash"] = json!(info.hash.to_string());
                row["size"] = json!(value.map(String::len));
                row["value"] = match (kind, value) {
                    (Kind::Json, Some(text)) => serde_json::from_str(text).unwrap_or(Value::Null),
                    (_, value) => json!(value),
                };
            }
        }
        return output.value(&row);
    }
    output.line(&format!("{} {name} version {}, {}", kind.name(), info.version, time(info)))?;
    if !used_by.is_empty() {
        let how = if kind == Kind::Secret { "declared by" } else { "named in" };
        output.line(&format!("{how} script {}", used_by.join(", ")))?;
    }
    match (key, value) {
        (Some(key), _) => output.line(&format!("sealed with key {key}; its value is not shown")),
        (None, value) => {
            output.line("")?;
            output.line(value.map_or("", |text| text.strip_suffix('\n').unwrap_or(text)))
        }
    }
}

/// The scripts that use it: for a secret those that declare it in any version, else those whose newest text has its name.
fn users(name: &str, kind: Kind, home: &Home) -> Result<Vec<String>, CliError> {
    let asset = AssetName::new(RESOURCE, name);
    let mut found: BTreeSet<String> = home.store.referrers(&asset).map_err(CliError::store)?.into_iter().map(|by| by.name).collect();
    if kind != Kind::Secret {
        for info in home.store.assets(Some(SCRIPT), None).map_err(CliError::store)? {
            let script = home.store.asset(&info.name, At::Version(info.version)).map_err(CliError::store)?;
            let script = script.and_then(|script| serde_json::from_slice::<ScriptAsset>(&script.body).ok());
            if script.is_some_and(|script| asks_for(&script.source, name)) {
                found.insert(info.name.name);
            }
        }
    }
    Ok(found.into_iter().collect())
}

/// Whether a script's text has `resource(` and the name in quotes: as much as can be known without running it.
fn asks_for(source: &str, name: &str) -> bool {
    source.contains("resource(") && ['"', '\'', '`'].iter().any(|quote| source.contains(&format!("{quote}{name}{quote}")))
}

fn versions(name: &str, only: Option<Kind>, home: &Home, output: &Output) -> Result<(), CliError> {
    find(name, only, None, home)?;
    let mut found = home.store.asset_versions(&AssetName::new(RESOURCE, name)).map_err(CliError::store)?;
    found.reverse();
    if output.json {
        let rows: Vec<_> = found.iter().map(|info| json!({"version": info.version, "created_at": time(info), "erased": info.size == 0})).collect();
        return output.value(&rows);
    }
    let rows: Vec<Vec<String>> =
        found.iter().map(|info| vec![info.version.to_string(), time(info), if info.size == 0 { "erased" } else { "" }.to_owned()]).collect();
    output.table(&["VERSION", "CREATED", ""], &rows, "no versions")
}

fn delete(name: &str, only: Option<Kind>, home: &Home, output: &Output) -> Result<(), CliError> {
    let (_, body) = find(name, only, None, home)?;
    let kind = body.kind();
    let named_in = if kind == Kind::Secret { Vec::new() } else { users(name, kind, home)? };
    match resources::delete(home.store.as_ref(), &home.keys(), name, inputs::now()) {
        Ok(()) => home.note(Change::of("resource.delete", format!("{} {name}", kind.name())))?,
        Err(ResourceError::Store(StoreError::Referenced { by, .. })) => {
            let holders: Vec<String> = by.iter().map(ToString::to_string).collect();
            return Err(CliError::refused(format!("{} {name} is declared by {}", kind.name(), holders.join(", ")))
                .help("every version of a script counts, for runs may still pin it: delete the script first"));
        }
        Err(error) => return Err(failed(error)),
    }
    if !named_in.is_empty() {
        output.note(&format!("{} script {} names it: new runs that ask for it fail as `resource`", output.paint("33;1", "warning:"), named_in.join(", ")));
    }
    if output.json {
        return output.value(&json!({"name": name, "deleted": true}));
    }
    let after = if kind == Kind::Secret { "all its versions are erased" } else { "runs that pin it keep their version" };
    output.line(&format!("{} {name} is deleted; {after}", kind.name()))
}

fn rekey(home: &Home, output: &Output) -> Result<(), CliError> {
    let done = resources::rekey(home.store.as_ref(), &home.keys(), inputs::now()).map_err(failed)?;
    home.note(Change::of("secret.rekey", format!("key {}", done.key)))?;
    if output.json {
        return output.value(&json!({"key": done.key, "secrets": done.secrets}));
    }
    output.line(&format!("key {} seals from now on; secrets sealed anew: {}", done.key, done.secrets))?;
    if done.file_is_spare {
        output.note(&format!("{} holds no key that is needed any more: it can be removed", home.keys().file().display()));
    }
    Ok(())
}

/// The secrets that a script declares and that are not there, or are something else: it can be saved, and cannot run yet.
pub fn undefined(secrets: &[String], home: &Home) -> Result<Vec<String>, CliError> {
    let mut missing = Vec::new();
    for name in secrets {
        match resources::find(home.store.as_ref(), name, At::Latest).map_err(failed)? {
            Some((_, Body::Secret(_))) => {}
            Some((_, other)) => missing.push(format!("{name} is a {}, not a secret", other.kind().name())),
            None => missing.push(format!("secret {name} does not exist yet: viat secret create --name {name}")),
        }
    }
    Ok(missing)
}
