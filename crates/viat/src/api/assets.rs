//! `/api/v1/scripts`, `workflows`, `endpoints`, `environments`: what the commands do, and answers as they print with `--json`.

use std::path::PathBuf;

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use viat_runner::assets::{SCRIPT, WORKFLOW};
use viat_store::AssetName;

use super::Engine;
use super::access::Caller;
use super::child;
use super::pages::{PageQuery, cut};
use super::problem::Problem;
use super::runs::{blocking, read};
use super::take::{Asked, Condition, Place};
use crate::cli::endpoint::{self, EndpointAuth, EndpointCommand, Mode};
use crate::cli::environments::{self, EnvCommand};
use crate::cli::error::CliError;
use crate::cli::output::Output;
use crate::cli::script::{self, Language, ScriptCommand};
use crate::cli::workflow::{self, WorkflowCommand};
use crate::wiring::Home;

/// A script that is to be saved.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScriptBody {
    /// The language it is written in.
    pub language: Language,
    /// Its text.
    pub source: String,
    /// The name of the file it comes from, for messages; one that ends in .ts says that it is TypeScript.
    pub file: Option<String>,
}

/// A workflow that is to be saved or checked.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkflowBody {
    /// Its text: YAML or JSON.
    pub source: String,
    /// The name of the file it comes from, for messages.
    pub file: Option<String>,
}

/// Which version is to be published.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PublishBody {
    /// A version other than the newest.
    pub version: Option<u64>,
}

/// A route that is to be bound.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EndpointBody {
    /// The route, below /e.
    pub path: String,
    /// The workflow's name.
    pub workflow: String,
    /// Whether requests wait for the run's end; they do, unless it is said.
    pub mode: Option<Mode>,
    /// For how long they wait: a duration as the language spells it.
    pub timeout: Option<String>,
    /// Whom it answers.
    pub auth: Option<EndpointAuth>,
}

/// One attempt of a script, alone.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TrialBody {
    /// Its arguments.
    #[serde(default)]
    pub args: serde_json::Map<String, Value>,
    /// An older version.
    pub version: Option<u64>,
    /// The attempt's timeout.
    pub timeout: Option<String>,
}

/// A run of the draft.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RehearsalBody {
    /// Its inputs.
    #[serde(default)]
    pub inputs: serde_json::Map<String, Value>,
    /// A budget.
    pub timeout: Option<String>,
    /// Skip waits, retry delays and the time of reviews while nothing real is running.
    #[serde(default)]
    pub fast_forward: bool,
    /// As `--decide`: `ID=DECISION`.
    #[serde(default)]
    pub decide: Vec<String>,
    /// As `--mock`: `ID=JSON`.
    #[serde(default)]
    pub mock: Vec<String>,
    /// As `--inject`: `ID[#ATTEMPT]=CLASS`.
    #[serde(default)]
    pub inject: Vec<String>,
}

/// How an environment is to be built.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BuildBody {
    /// Build it again though it is ready.
    #[serde(default)]
    pub force: bool,
    /// Take the newest versions that fit.
    #[serde(default)]
    pub upgrade: bool,
}

/// Which version is looked at.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VersionQuery {
    /// An older version.
    pub version: Option<u64>,
}

/// Which versions are compared.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DiffQuery {
    /// The older; the one before `to`, if it is not given.
    from: Option<u64>,
    /// The newer; the newest, if it is not given.
    to: Option<u64>,
}

/// How much of a log is wanted.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LogsQuery {
    /// At most so many attempts.
    #[schemars(range(min = 1, max = 1000))]
    limit: Option<usize>,
}

/// What a command prints with `--json`, on the home of this server and for this caller.
pub async fn printed(engine: Engine, caller: Caller, work: impl FnOnce(&Home, &Output) -> Result<(), CliError> + Send + 'static) -> Result<Value, Problem> {
    blocking(move || {
        let home = Home::for_caller(&engine.home, &engine.store, caller.actor);
        let output = Output::keeping();
        work(&home, &output)?;
        Ok(output.kept())
    })
    .await
}

/// An asset's version is its tag.
fn tagged(status: StatusCode, value: Value) -> Response {
    let tag = format!("\"{}\"", value["version"]);
    (status, [(header::ETAG, tag)], Json(value)).into_response()
}

fn file(given: Option<String>, name: &str, ending: &str) -> PathBuf {
    PathBuf::from(given.unwrap_or_else(|| format!("{name}.{ending}")))
}

/// Scripts, newest first.
pub async fn scripts(State(engine): State<Engine>, caller: Caller, Asked(page): Asked<PageQuery>) -> Result<Response, Problem> {
    let all = printed(engine, caller, |home, output| script::run(&ScriptCommand::List, home, output).map(drop)).await?;
    Ok(Json(cut(all, &page, "name")?).into_response())
}

/// One script.
pub async fn show_script(
    State(engine): State<Engine>,
    caller: Caller,
    Place(name): Place<String>,
    Asked(query): Asked<VersionQuery>,
) -> Result<Response, Problem> {
    let command = ScriptCommand::Show { name, version: query.version };
    Ok(tagged(StatusCode::OK, printed(engine, caller, move |home, output| script::run(&command, home, output).map(drop)).await?))
}

/// Saves a script as a new version.
pub async fn put_script(
    State(engine): State<Engine>,
    caller: Caller,
    Place(name): Place<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    let body: ScriptBody = read(&headers, &body)?;
    let condition = Condition::of(&headers)?;
    let path = file(body.file, &name, "txt");
    let saved = printed(engine, caller, move |home, output| {
        let guard = condition.precondition(AssetName::new(SCRIPT, name.as_str()));
        script::create_text(&name, body.language.inner(), &path, body.source.into_bytes(), guard, home, output)
    });
    saved.await.map(|saved| tagged(StatusCode::OK, saved)).map_err(|problem| condition.explain(problem))
}

/// Deletes a script.
pub async fn delete_script(State(engine): State<Engine>, caller: Caller, Place(name): Place<String>) -> Result<Response, Problem> {
    let command = ScriptCommand::Delete { name };
    Ok(Json(printed(engine, caller, move |home, output| script::run(&command, home, output).map(drop)).await?).into_response())
}

/// Makes one attempt of a script.
pub async fn test_script(
    State(engine): State<Engine>,
    caller: Caller,
    Place(name): Place<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    let body: TrialBody = read(&headers, &body)?;
    let mut args = words(&["--json", "script", "test", "--args", "-"]);
    args.extend(body.version.map(|version| format!("--version={version}")));
    args.extend(body.timeout.map(|timeout| format!("--timeout={timeout}")));
    args.extend(["--".to_owned(), name]);
    Ok(Json(child::result(&engine, &caller, &args, json!(body.args).to_string().into_bytes()).await?).into_response())
}

/// What a script's newest attempts wrote.
pub async fn script_logs(
    State(engine): State<Engine>,
    caller: Caller,
    Place(name): Place<String>,
    Asked(query): Asked<LogsQuery>,
) -> Result<Response, Problem> {
    let limit = super::pages::size(query.limit.or(Some(10)))?;
    let command = ScriptCommand::Logs { name, limit };
    Ok(Json(printed(engine, caller, move |home, output| script::run(&command, home, output).map(drop)).await?).into_response())
}

/// Workflows, newest first.
pub async fn workflows(State(engine): State<Engine>, caller: Caller, Asked(page): Asked<PageQuery>) -> Result<Response, Problem> {
    let all = printed(engine, caller, |home, output| workflow::run(&WorkflowCommand::List, home, output).map(drop)).await?;
    Ok(Json(cut(all, &page, "name")?).into_response())
}

/// One workflow.
pub async fn show_workflow(
    State(engine): State<Engine>,
    caller: Caller,
    Place(name): Place<String>,
    Asked(query): Asked<VersionQuery>,
) -> Result<Response, Problem> {
    let command = WorkflowCommand::Show { name, version: query.version };
    Ok(tagged(StatusCode::OK, printed(engine, caller, move |home, output| workflow::run(&command, home, output).map(drop)).await?))
}

/// Saves a workflow as a new version.
pub async fn put_workflow(
    State(engine): State<Engine>,
    caller: Caller,
    Place(name): Place<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    let body: WorkflowBody = read(&headers, &body)?;
    let condition = Condition::of(&headers)?;
    let path = file(body.file, &name, "yaml");
    let saved = printed(engine, caller, move |home, output| {
        let guard = condition.precondition(AssetName::new(WORKFLOW, name.as_str()));
        workflow::create_text(&name, &path, &body.source.into_bytes(), guard, home, output)
    });
    saved.await.map(|saved| tagged(StatusCode::OK, saved)).map_err(|problem| condition.explain(problem))
}

/// Checks a workflow without saving it.
pub async fn validate(State(engine): State<Engine>, caller: Caller, headers: HeaderMap, body: Bytes) -> Result<Response, Problem> {
    let body: WorkflowBody = read(&headers, &body)?;
    let path = file(body.file, "workflow", "yaml");
    let verdict = printed(engine, caller, move |home, output| workflow::validate_text(&path, &body.source.into_bytes(), home, output).map(drop));
    Ok(Json(verdict.await?).into_response())
}

/// Deletes a workflow.
pub async fn delete_workflow(State(engine): State<Engine>, caller: Caller, Place(name): Place<String>) -> Result<Response, Problem> {
    let command = WorkflowCommand::Delete { name };
    Ok(Json(printed(engine, caller, move |home, output| workflow::run(&command, home, output).map(drop)).await?).into_response())
}

/// Publishes a version.
pub async fn publish(State(engine): State<Engine>, caller: Caller, Place(name): Place<String>, headers: HeaderMap, body: Bytes) -> Result<Response, Problem> {
    let body: PublishBody = if body.is_empty() { PublishBody::default() } else { read(&headers, &body)? };
    let command = WorkflowCommand::Publish { name, version: body.version };
    Ok(Json(printed(engine, caller, move |home, output| workflow::run(&command, home, output).map(drop)).await?).into_response())
}

/// A workflow's versions, newest first.
pub async fn versions(State(engine): State<Engine>, caller: Caller, Place(name): Place<String>, Asked(page): Asked<PageQuery>) -> Result<Response, Problem> {
    let command = WorkflowCommand::Versions { name };
    let mut all = printed(engine, caller, move |home, output| workflow::run(&command, home, output).map(drop)).await?;
    // Cursors are text.
    for row in all.as_array_mut().into_iter().flatten() {
        row["cursor"] = row["version"].to_string().into();
    }
    let mut page = cut(all, &page, "cursor")?;
    for row in page["items"].as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
        row.shift_remove("cursor");
    }
    Ok(Json(page).into_response())
}

/// What changed between two versions.
pub async fn diff(State(engine): State<Engine>, caller: Caller, Place(name): Place<String>, Asked(query): Asked<DiffQuery>) -> Result<Response, Problem> {
    let command = WorkflowCommand::Diff { name, from: query.from, to: query.to };
    Ok(Json(printed(engine, caller, move |home, output| workflow::run(&command, home, output).map(drop)).await?).into_response())
}

/// Runs the draft and waits for its end.
pub async fn test_workflow(
    State(engine): State<Engine>,
    caller: Caller,
    Place(name): Place<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    let body: RehearsalBody = read(&headers, &body)?;
    let mut args = words(&["--json", "workflow", "test", "--input", "-"]);
    args.extend(body.timeout.map(|timeout| format!("--timeout={timeout}")));
    args.extend(body.fast_forward.then(|| "--fast-forward".to_owned()));
    for (flag, given) in [("--decide", body.decide), ("--mock", body.mock), ("--inject", body.inject)] {
        if given.iter().any(|text| text.split_once('=').is_some_and(|(_, value)| value.trim_start().starts_with(['@', '-']))) {
            return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, format!("{flag} takes JSON here, not a file")));
        }
        args.extend(given.into_iter().map(|text| format!("{flag}={text}")));
    }
    args.extend(["--".to_owned(), name]);
    Ok(Json(child::result(&engine, &caller, &args, json!(body.inputs).to_string().into_bytes()).await?).into_response())
}

/// Endpoints, newest first.
pub async fn endpoints(State(engine): State<Engine>, caller: Caller, Asked(page): Asked<PageQuery>) -> Result<Response, Problem> {
    let all = printed(engine, caller, |home, output| endpoint::run(&EndpointCommand::List, home, output).map(drop)).await?;
    Ok(Json(cut(all, &page, "path")?).into_response())
}

/// Binds a route to a workflow.
pub async fn post_endpoint(State(engine): State<Engine>, caller: Caller, headers: HeaderMap, body: Bytes) -> Result<Response, Problem> {
    let EndpointBody { path, workflow, mode, timeout, auth } = read(&headers, &body)?;
    let command = EndpointCommand::Create { path, workflow, mode: mode.unwrap_or(Mode::Sync), timeout, auth };
    let made = printed(engine, caller, move |home, output| endpoint::run(&command, home, output).map(drop)).await?;
    Ok((StatusCode::CREATED, Json(made)).into_response())
}

/// Frees a route.
pub async fn delete_endpoint(State(engine): State<Engine>, caller: Caller, Place(path): Place<String>) -> Result<Response, Problem> {
    let command = EndpointCommand::Delete { path: format!("/{path}") };
    Ok(Json(printed(engine, caller, move |home, output| endpoint::run(&command, home, output).map(drop)).await?).into_response())
}

/// The environments that scripts need.
pub async fn all_environments(State(engine): State<Engine>, caller: Caller, Asked(page): Asked<PageQuery>) -> Result<Response, Problem> {
    let all = printed(engine, caller, |home, output| environments::run(&EnvCommand::List, home, output).map(drop)).await?;
    Ok(Json(cut(all, &page, "key")?).into_response())
}

/// One environment.
pub async fn show_environment(State(engine): State<Engine>, caller: Caller, Place(name): Place<String>) -> Result<Response, Problem> {
    let command = EnvCommand::Show { name };
    Ok(Json(printed(engine, caller, move |home, output| environments::run(&command, home, output).map(drop)).await?).into_response())
}

/// Builds an environment and waits for it.
pub async fn build_environment(
    State(engine): State<Engine>,
    caller: Caller,
    Place(name): Place<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    let body: BuildBody = if body.is_empty() { BuildBody::default() } else { read(&headers, &body)? };
    let mut args = words(&["--json", "env", "build"]);
    args.extend(body.force.then(|| "--force".to_owned()));
    args.extend(body.upgrade.then(|| "--upgrade".to_owned()));
    args.extend(["--".to_owned(), name]);
    Ok(Json(child::result(&engine, &caller, &args, Vec::new()).await?).into_response())
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// What an attempt of a run wrote.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunLogsQuery {
    /// Only those of this entry: its id or its path.
    step: Option<String>,
    /// Only this attempt.
    attempt: Option<u32>,
}

/// What the attempts of a run wrote.
pub async fn run_logs(State(engine): State<Engine>, caller: Caller, Place(run): Place<String>, Asked(query): Asked<RunLogsQuery>) -> Result<Response, Problem> {
    use crate::cli::run::RunCommand;
    let command = RunCommand::Logs { run, step: query.step, attempt: query.attempt };
    Ok(Json(printed(engine, caller, move |home, output| crate::cli::run::run(&command, home, output).map(drop)).await?).into_response())
}
