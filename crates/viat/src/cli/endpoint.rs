//! `viat endpoint`: create, list, delete. A bound workflow cannot be deleted.

use std::process::ExitCode;

use clap::{Subcommand, ValueEnum};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use viat_runner::assets::{self, WORKFLOW};
use viat_store::{AssetName, At, Hash, Op, Precondition, StoreError, Unit};

use super::error::CliError;
use super::output::Output;
use super::script::time;
use super::{inputs, missing};
use crate::audit::Change;
use crate::signature;
use crate::wiring::Home;

/// The kind under which endpoints are stored.
pub const ENDPOINT: &str = "endpoint";

/// How long a request waits where the endpoint does not say.
pub const DEFAULT_TIMEOUT_MS: u64 = 30_000;
/// The longest that an endpoint may let a request wait.
const MAX_TIMEOUT_MS: u64 = 3_600_000;

/// What can be done with endpoints.
#[derive(Subcommand)]
pub enum EndpointCommand {
    /// Binds a route to a published workflow. The server answers `POST /e/PATH` with it; the body is its inputs.
    #[command(after_help = "Example:\n  viat endpoint create /orders --workflow order --mode async")]
    Create {
        /// The route, below /e.
        path: String,
        /// The workflow's name.
        #[arg(long)]
        workflow: String,
        /// Whether a request waits for the run's end.
        #[arg(long, value_enum, default_value_t = Mode::Sync)]
        mode: Mode,
        /// How long a request of a sync endpoint waits for the run's end before it is told where to look [default: PT30S].
        #[arg(long, value_name = "DURATION")]
        timeout: Option<String>,
        /// Whom the route answers: `none`: anybody; `token`: who has an access token with the scope run; `signature`: who signs with the
        /// secret that this command prints. Unless given, a server that asks for tokens asks for one here too.
        #[arg(long, value_enum)]
        auth: Option<EndpointAuth>,
    },
    /// Lists endpoints.
    #[command(after_help = "Example:\n  viat endpoint list --json")]
    List,
    /// Deletes an endpoint.
    #[command(after_help = "Example:\n  viat endpoint delete /orders")]
    Delete {
        /// The route.
        path: String,
    },
}

/// Whether a request waits for the run's end.
#[derive(Clone, Copy, Debug, ValueEnum, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// It does, and the answer is the run's output.
    Sync,
    /// It does not, and the answer is the run's id.
    Async,
}

/// Whom an endpoint answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EndpointAuth {
    /// Anybody.
    None,
    /// Who has an access token that permits running.
    Token,
    /// Who signs the request with the endpoint's secret.
    Signature,
}

/// The stored body of an endpoint.
#[derive(Clone, Serialize, Deserialize)]
pub struct EndpointAsset {
    /// The workflow's name; requests run its published version.
    pub workflow: String,
    /// Whether requests wait.
    pub mode: Mode,
    /// For how long; `None`: [`DEFAULT_TIMEOUT_MS`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Whom it answers; `None`: as the server answers everybody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<EndpointAuth>,
    /// What its secret is derived with, if requests are signed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub salt: Option<String>,
}

/// Does what the command says.
pub fn run(command: &EndpointCommand, home: &Home, output: &Output) -> Result<ExitCode, CliError> {
    match command {
        EndpointCommand::Create { path, workflow, mode, timeout, auth } => {
            let timeout_ms = inputs::duration(timeout.as_deref(), "--timeout")?;
            let salt = (*auth == Some(EndpointAuth::Signature)).then(viat_store::fresh_id);
            create(path, EndpointAsset { workflow: workflow.clone(), mode: *mode, timeout_ms, auth: *auth, salt }, home, output)?;
        }
        EndpointCommand::List => list(home, output)?,
        EndpointCommand::Delete { path } => delete(path, home, output)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn create(path: &str, endpoint: EndpointAsset, home: &Home, output: &Output) -> Result<(), CliError> {
    check(path)?;
    if endpoint.timeout_ms.is_some_and(|ms| ms == 0 || ms > MAX_TIMEOUT_MS) {
        return Err(CliError::usage("--timeout must be more than zero and at most one hour"));
    }
    let workflow = endpoint.workflow.as_str();
    let bound = AssetName::new(WORKFLOW, workflow);
    if home.store.asset(&bound, At::Latest).map_err(CliError::store)?.is_none() {
        return Err(missing(home.store.as_ref(), WORKFLOW, workflow, None));
    }
    if assets::published(home.store.as_ref(), workflow, At::Latest).map_err(CliError::assets)?.is_none() {
        return Err(CliError::refused(format!("workflow {workflow} was never published")).help(format!("publish it first: viat workflow publish {workflow}")));
    }
    let body = serde_json::to_vec(&endpoint).map_err(|error| CliError::usage(error.to_string()))?;
    let name = AssetName::new(ENDPOINT, path);
    let put = Op::PutAsset { name: name.clone(), hash: Hash::of(&body), body, refs: vec![bound.clone()], at: inputs::now() };
    let noted = Change::of("endpoint.create", format!("endpoint {path}")).detail(format!("workflow {workflow}")).op(&home.actor);
    let secret = endpoint.salt.as_deref().map(|salt| signature::secret(&home.folder, salt)).transpose()?;
    let unit = Unit::from(vec![put, noted]).guarded(Precondition::AssetLive(bound)).guarded(Precondition::AssetAbsent(name));
    home.store.commit_blocking(unit).map_err(CliError::store)?;
    if output.json {
        let mut made = json!({"path": path, "workflow": workflow, "mode": endpoint.mode, "auth": endpoint.auth});
        if let (Some(secret), Some(map)) = (secret, made.as_object_mut()) {
            map.insert("secret".to_owned(), secret.into());
        }
        return output.value(&made);
    }
    output.line(&format!("endpoint {path} runs workflow {workflow}; call it: POST /e{path}"))?;
    match secret {
        Some(secret) => {
            output.note("requests are signed with this secret, which is shown this once:");
            output.line(&secret)
        }
        None => Ok(()),
    }
}

fn list(home: &Home, output: &Output) -> Result<(), CliError> {
    let mut found = home.store.assets(Some(ENDPOINT), None).map_err(CliError::store)?;
    super::script::newest_first(&mut found);
    let mut rows = Vec::new();
    for info in &found {
        let asset = home.store.asset(&info.name, At::Version(info.version)).map_err(CliError::store)?;
        let body = asset.and_then(|asset| serde_json::from_slice::<EndpointAsset>(&asset.body).ok());
        let body = body.ok_or_else(|| CliError::failed(format!("endpoint {} cannot be read", info.name.name)))?;
        rows.push((info, body));
    }
    if output.json {
        let rows: Vec<_> = rows
            .iter()
            .map(|(info, body)| json!({"path": info.name.name, "workflow": body.workflow, "mode": body.mode, "auth": body.auth, "created_at": time(info)}))
            .collect();
        return output.value(&rows);
    }
    let rows: Vec<Vec<String>> = rows
        .iter()
        .map(|(info, body)| {
            let mode = if matches!(body.mode, Mode::Sync) { "sync" } else { "async" };
            vec![info.name.name.clone(), body.workflow.clone(), mode.to_owned(), auth_name(body.auth).to_owned(), time(info)]
        })
        .collect();
    output.table(&["ENDPOINT", "WORKFLOW", "MODE", "AUTH", "CREATED"], &rows, "no endpoints")
}

fn auth_name(auth: Option<EndpointAuth>) -> &'static str {
    match auth {
        None => "",
        Some(EndpointAuth::None) => "none",
        Some(EndpointAuth::Token) => "token",
        Some(EndpointAuth::Signature) => "signature",
    }
}

fn delete(path: &str, home: &Home, output: &Output) -> Result<(), CliError> {
    let op = Op::DeleteAsset { name: AssetName::new(ENDPOINT, path), at: inputs::now() };
    let noted = Change::of("endpoint.delete", format!("endpoint {path}")).op(&home.actor);
    match home.store.commit_blocking(Unit::from(vec![op, noted])) {
        Ok(_) if output.json => output.value(&json!({"path": path, "deleted": true})),
        Ok(_) => output.line(&format!("endpoint {path} is deleted")),
        Err(StoreError::Missing { .. }) => Err(missing(home.store.as_ref(), ENDPOINT, path, None)),
        Err(error) => Err(CliError::store(error)),
    }
}

fn check(path: &str) -> Result<(), CliError> {
    let segments = path.strip_prefix('/').map(|rest| rest.split('/'));
    let good = |segment: &str| {
        !segment.is_empty() && segment != "." && segment != ".." && segment.chars().all(|each| each.is_ascii_alphanumeric() || "-_.~".contains(each))
    };
    let fits = segments.is_some_and(|mut segments| segments.all(good)) && path.len() <= 256;
    if fits {
        return Ok(());
    }
    Err(CliError::usage(format!("{path:?} cannot be a route"))
        .help("write it like /orders or /orders/new: letters, digits and - _ . ~ between slashes, at most 256 in all"))
}
