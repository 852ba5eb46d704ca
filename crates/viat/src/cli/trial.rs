//! `viat script test`: one attempt of one script, without a workflow and without a trace in the store.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use viat_engine::failure::Failure;
use viat_runner::assets::{self, AssetError, SCRIPT};
use viat_runner::driver::failure_of;
use viat_runner::resources::{Asker, Vault};
use viat_runner::script::{Call, Context, Log, Notice, Outcome, Pools, Report, ScriptCode, Secrets, Stop};
use viat_store::{At, Store, fresh_id};

use super::error::CliError;
use super::output::{Output, printable};
use super::progress::Progress;
use super::{inputs, missing};
use crate::wiring::Home;

/// How long an attempt that is interrupted may take to end by itself.
const GRACE: Duration = Duration::from_secs(5);

/// What `script test` takes.
#[derive(Args)]
pub struct TrialArgs {
    /// The script's name.
    name: String,
    /// Its arguments: a JSON object, @FILE, or - for stdin.
    #[arg(long, default_value = "{}")]
    args: String,
    /// An older version.
    #[arg(long)]
    version: Option<u64>,
    /// The attempt's timeout.
    #[arg(long, value_name = "DURATION")]
    timeout: Option<String>,
}

/// Makes the attempt and prints its value; exits 1 if it fails.
pub fn run(args: &TrialArgs, home: &Home, output: &Output) -> Result<ExitCode, CliError> {
    let given = inputs::json(&args.args, "--args")?;
    if !given.is_object() {
        return Err(CliError::usage("--args is not an object").help("arguments have names: --args '{\"name\": 1}'"));
    }
    let timeout = inputs::duration(args.timeout.as_deref(), "--timeout")?.map(Duration::from_millis);
    let code = assets::script(home.store.as_ref(), &args.name, args.version.map_or(At::Latest, At::Version)).map_err(|error| match error {
        AssetError::Missing(_) => missing(home.store.as_ref(), SCRIPT, &args.name, args.version),
        other => CliError::assets(other),
    })?;
    let vault = Arc::new(Vault::new(Arc::clone(&home.store), home.keys()));
    let secrets = match vault.given(&code) {
        Ok(secrets) => secrets,
        Err(fault) => return conclude(&args.name, not_run(Outcome::Failed(fault)), output),
    };
    let call = call(&code, &given, timeout, secrets);
    let config = home.scripts()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| CliError::failed(format!("the attempt's threads cannot be started: {error}")))?;
    let report = runtime.block_on(async {
        let pools = Pools::new(config);
        let report = attempt(&pools, Arc::new(code), call, &vault, home, output).await;
        pools.shutdown().await;
        report
    })?;
    conclude(&args.name, report, output)
}

fn call(code: &ScriptCode, args: &Value, timeout: Option<Duration>, secrets: Option<Arc<Secrets>>) -> Call {
    let context = Context {
        run_id: fresh_id(),
        workflow: String::new(),
        version: None,
        step: code.name.clone(),
        path: code.name.clone(),
        attempt: 1,
        idempotency_key: fresh_id().replace('-', ""),
        deadline: None,
        traceparent: None,
    };
    Call { attempt_id: fresh_id(), args: Arc::from(args.to_string()), context, timeout, secrets }
}

async fn attempt(pools: &Pools, code: Arc<ScriptCode>, call: Call, vault: &Vault, home: &Home, output: &Output) -> Result<Report, CliError> {
    let asker = Asker { script: code.name.clone(), secrets: call.secrets.clone(), at: At::Latest };
    let mut interrupts = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt())
        .map_err(|error| CliError::failed(format!("signals cannot be handled: {error}")))?;
    let reserved = tokio::select! {
        reserved = pools.reserve(code) => reserved,
        _ = interrupts.recv() => return Ok(not_run(Outcome::Stopped)),
    };
    let reservation = match reserved {
        Ok(reservation) => reservation,
        Err(fault) => return Ok(not_run(Outcome::Failed(fault))),
    };
    let (stop, stopped) = oneshot::channel();
    let (notices, mut heard) = mpsc::unbounded_channel();
    let mut stop = Some(stop);
    let mut progress = Progress::new(output);
    let ended = reservation.run(call, stopped, notices);
    tokio::pin!(ended);
    let report = loop {
        tokio::select! {
            biased;
            Some(notice) = heard.recv() => answer(notice, &asker, vault, home, &mut progress, output),
            _ = interrupts.recv() => match stop.take() {
                Some(stop) => { let _ = stop.send(Stop { grace: GRACE }); }
                // an attempt that nobody waits for is ended with its pool
                None => break not_run(Outcome::Stopped),
            },
            report = &mut ended => break report,
        }
    };
    progress.finish();
    Ok(report)
}

fn not_run(outcome: Outcome) -> Report {
    Report { outcome, log: Log::default(), late: None, ran: Duration::ZERO }
}

/// What the script says or asks meanwhile; nothing of it has an effect.
fn answer(notice: Notice, asker: &Asker, vault: &Vault, home: &Home, progress: &mut Progress, output: &Output) {
    match notice {
        Notice::Progress { fraction, note } => progress.said(&asker.script, fraction, note.as_deref()),
        Notice::Defer { workflow, args, ack } => {
            let answer = deferrable(home.store.as_ref(), &workflow);
            if answer.is_ok() {
                output.note(&format!("  would defer {} {}", printable(&workflow), printable(&args.to_string())));
            }
            let _ = ack.send(answer.map(|()| Value::Null));
        }
        Notice::Resource { name, kind, ack } => {
            let _ = ack.send(vault.answer(asker, &name, kind.as_deref()));
        }
    }
}

fn deferrable(store: &dyn Store, workflow: &str) -> Result<(), String> {
    match assets::published(store, workflow, At::Latest).map_err(|error| error.to_string())? {
        Some(_) => Ok(()),
        None => Err(format!("workflow {workflow} cannot be deferred: it is not published (viat workflow publish {workflow})")),
    }
}

fn conclude(name: &str, report: Report, output: &Output) -> Result<ExitCode, CliError> {
    let ran_ms = u64::try_from(report.ran.as_millis()).unwrap_or(u64::MAX);
    let log = report.log.text();
    let (status, value, failure) = match report.outcome {
        Outcome::Returned(value) => ("succeeded", Some(value), None),
        Outcome::Failed(fault) => ("failed", None, Some(failure_of(fault))),
        Outcome::Stopped => ("cancelled", None, None),
    };
    let code = ExitCode::from(u8::from(value.is_none()));
    if output.json {
        let error = failure.as_ref().map(as_json);
        output.value(&json!({"script": name, "status": status, "value": value, "error": error, "log": log, "ran_ms": ran_ms}))?;
        return Ok(code);
    }
    for line in log.lines() {
        output.note(&format!("  │ {}", printable(line)));
    }
    match (&value, &failure) {
        (Some(value), _) => output.value(value)?,
        (None, Some(failure)) => output.note(&format!("{} {}", output.paint("31;1", "error:"), printable(&sentence(failure)))),
        (None, None) => output.note(&format!("interrupted after {ran_ms} ms")),
    }
    Ok(code)
}

/// As the error of a run record has it.
fn as_json(failure: &Failure) -> Value {
    json!({
        "class": failure.class.name(), "kind": failure.class.kind().name(), "code": failure.code, "message": failure.message,
        "status": failure.status, "extra": failure.extra, "retry_after_ms": failure.retry_after_ms,
    })
}

fn sentence(failure: &Failure) -> String {
    let class = failure.class.name();
    let code = if failure.code == class { String::new() } else { format!(" {}", failure.code) };
    let status = failure.status.map(|status| format!(" (status {status})")).unwrap_or_default();
    let extra = failure.extra.as_ref().filter(|extra| !extra.is_null()).map(|extra| format!("\n  extra {extra}")).unwrap_or_default();
    format!("{class}{code}{status}: {}{extra}", failure.message)
}
