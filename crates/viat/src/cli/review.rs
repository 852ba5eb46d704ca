//! `viat review`: list, show, decide, extend, link.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use viat_engine::record::rfc3339;
use viat_runner::driver::{PENDING_REVIEW, WITHDRAWN};
use viat_store::{ReviewFilter, ReviewRow, Store};

use super::client::Client;
use super::error::CliError;
use super::output::{Output, printable};
use super::tell::tell;
use super::{find_run, inputs};
use crate::ask::{self, Decision, DecisionBody, ExtensionBody, find_review};
use crate::audit::Change;
use crate::links::{self, LinkBody};
use crate::wiring::Home;

/// The most rows that a list shows at once.
pub const MAX_ROWS: usize = 1_000;
/// What stands for every status.
const ALL: &str = "all";
/// Where a server is reached that does not run yet.
const DEFAULT_BASE: &str = "http://127.0.0.1:8427";

/// What can be done with reviews.
#[derive(Subcommand)]
pub enum ReviewCommand {
    /// Lists reviews, newest first; those that wait for a decision, unless a status is given.
    #[command(after_help = "Example:\n  viat review list --assignee editors\n  viat review list --status all --json")]
    List {
        /// pending_review, approved, rejected, changes_requested, expired, withdrawn, or all.
        #[arg(long, default_value = PENDING_REVIEW)]
        status: String,
        /// Only those that name this assignee.
        #[arg(long)]
        assignee: Option<String>,
        /// Only those of this run.
        #[arg(long)]
        run: Option<String>,
        /// At most so many.
        #[arg(long, default_value_t = 100)]
        limit: usize,
    },
    /// Shows a review: what is asked, what there is to look at, what was decided.
    #[command(after_help = "Example:\n  viat review show 3f2a9c0d11e45b67")]
    Show {
        /// The review's id.
        id: String,
    },
    /// Decides a review; once, a second decision is refused. The run goes on where it is: in a server, in a command in another
    /// terminal; or else when it is resumed.
    #[command(after_help = "Example:\n  viat review decide 3f2a9c0d11e45b67 --decision approved --by ana --comment 'well done' --data '{\"score\": 4}'")]
    Decide(DecideArgs),
    /// Moves the time at which a review expires.
    #[command(after_help = "Example:\n  viat review extend 3f2a9c0d11e45b67 --for P1D --reason 'on holiday'")]
    Extend(ExtendArgs),
    /// Makes a link with which somebody can decide a review in a browser, once and until it expires.
    #[command(after_help = "Example:\n  viat review link 3f2a9c0d11e45b67 --by ana --expires P2D")]
    Link(LinkArgs),
}

/// What `decide` takes.
#[derive(Args)]
pub struct DecideArgs {
    /// The review's id.
    id: String,
    /// What is decided.
    #[arg(long, value_enum)]
    decision: Decision,
    /// Who decides [default: the user's name].
    #[arg(long)]
    by: Option<String>,
    /// What they say.
    #[arg(long)]
    comment: Option<String>,
    /// The form's fields: JSON, @FILE, or - for stdin.
    #[arg(long)]
    data: Option<String>,
}

/// What `extend` takes.
#[derive(Args)]
#[command(group = clap::ArgGroup::new("when").required(true))]
pub struct ExtendArgs {
    /// The review's id.
    id: String,
    /// So much later than planned until now (from now, if it never expired).
    #[arg(long = "for", value_name = "DURATION", group = "when")]
    span: Option<String>,
    /// At this time, RFC 3339.
    #[arg(long, value_name = "TIME", group = "when")]
    until: Option<String>,
    /// Who extends it [default: the user's name].
    #[arg(long)]
    by: Option<String>,
    /// Why.
    #[arg(long)]
    reason: Option<String>,
}

/// What `link` takes.
#[derive(Args)]
pub struct LinkArgs {
    /// The review's id.
    id: String,
    /// The only decision that the link permits.
    #[arg(long, value_enum)]
    decision: Option<Decision>,
    /// Who decides with it; if it is not given, they say so themselves.
    #[arg(long)]
    by: Option<String>,
    /// For how long it can be used.
    #[arg(long, value_name = "DURATION", default_value = "P7D")]
    expires: String,
    /// The server's address as those see it who get the link [default: the running server's].
    #[arg(long, value_name = "URL")]
    base: Option<String>,
}

/// Does what the command says.
pub fn run(command: &ReviewCommand, home: &Home, output: &Output) -> Result<ExitCode, CliError> {
    match command {
        ReviewCommand::List { status, assignee, run, limit } => {
            let run = run.as_deref().map(|run| find_run(home.store.as_ref(), run)).transpose()?;
            list(filter(Some(status), assignee.clone(), *limit)?, run, home, output)?;
        }
        ReviewCommand::Show { id } => show(id, home, output)?,
        ReviewCommand::Decide(args) => decide(args, home, output)?,
        ReviewCommand::Extend(args) => extend(args, home, output)?,
        ReviewCommand::Link(args) => link(args, home, output)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Which reviews are wanted; without a status, all.
pub fn filter(status: Option<&str>, assignee: Option<String>, limit: usize) -> Result<ReviewFilter, CliError> {
    if limit == 0 || limit > MAX_ROWS {
        return Err(CliError::usage(format!("the limit must be 1 to {MAX_ROWS}")));
    }
    let known: Vec<&str> = [PENDING_REVIEW].into_iter().chain(viat_engine::journal::Verdict::ALL.map(|each| each.name())).chain([WITHDRAWN, ALL]).collect();
    if let Some(status) = status.filter(|status| !known.contains(status)) {
        return Err(CliError::usage(format!("there is no status {status}")).help(format!("the statuses are {}", known.join(", "))));
    }
    let status = status.filter(|status| *status != ALL).map(str::to_owned);
    Ok(ReviewFilter { status, assignee, limit, ..ReviewFilter::default() })
}

/// A review as data.
pub fn row_json(store: &dyn Store, row: &ReviewRow) -> Result<Value, CliError> {
    let run = store.run(&row.run).map_err(CliError::store)?;
    Ok(json!({
        "id": row.id, "run": row.run.as_str(), "workflow": run.map(|run| run.workflow), "step": row.path.rsplit('.').next(), "path": row.path,
        "title": row.title, "status": row.status, "assignees": row.assignees, "due": row.due.map(rfc3339), "created_at": rfc3339(row.created_at),
        "decided_at": row.decided_at.map(rfc3339), "by": row.by, "comment": row.comment,
    }))
}

/// The same, with what there is to look at, the form, and its data once it is decided.
pub fn full_json(store: &dyn Store, row: &ReviewRow) -> Result<Value, CliError> {
    let mut value = row_json(store, row)?;
    let asked = ask::asked(store, row)?;
    if let Some(map) = value.as_object_mut() {
        map.insert("show".to_owned(), asked.show);
        map.insert("form".to_owned(), json!(asked.form));
        map.insert("data".to_owned(), asked.data);
    }
    Ok(value)
}

fn list(filter: ReviewFilter, run: Option<viat_store::RunId>, home: &Home, output: &Output) -> Result<(), CliError> {
    let limit = filter.limit;
    let rows = home.store.reviews(&ReviewFilter { run, ..filter }).map_err(CliError::store)?;
    if output.json {
        return output.value(&rows.iter().map(|row| row_json(home.store.as_ref(), row)).collect::<Result<Vec<_>, _>>()?);
    }
    if rows.len() == limit {
        output.note(&format!("the newest {limit}; --limit shows more"));
    }
    let table: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            let due = row.due.map(rfc3339).unwrap_or_default();
            vec![row.id.clone(), printable(&row.title), row.status.clone(), printable(&row.assignees.join(", ")), due, format!("{} {}", row.run, row.path)]
        })
        .collect();
    output.table(&["REVIEW", "TITLE", "STATUS", "FOR", "EXPIRES", "ASKED BY"], &table, "no reviews")
}

fn show(id: &str, home: &Home, output: &Output) -> Result<(), CliError> {
    let row = find_review(home.store.as_ref(), id)?;
    let value = full_json(home.store.as_ref(), &row)?;
    if output.json {
        return output.value(&value);
    }
    output.line(&format!("review {}  {}", row.id, row.status))?;
    output.line(&printable(&row.title))?;
    let due = row.due.map(|due| format!(", expires {}", rfc3339(due))).unwrap_or_default();
    output.line(&format!("asked by run {} at {}, {}{due}", row.run, row.path, rfc3339(row.created_at)))?;
    if !row.assignees.is_empty() {
        output.line(&format!("for      {}", printable(&row.assignees.join(", "))))?;
    }
    for (key, heading) in [("show", "show"), ("form", "form"), ("data", "data")] {
        let part = value.get(key).filter(|part| !part.is_null() && part.as_array().is_none_or(|items| !items.is_empty()));
        if let Some(part) = part {
            output.line(&format!("{heading}     {part}"))?;
        }
    }
    if row.status != PENDING_REVIEW {
        output.line(&printable(&ask::how_it_ended(&row)))?;
    } else {
        output.note(&format!("decide it: viat review decide {} --decision {}", row.id, Decision::ALL.map(|each| each.verdict().name()).join("|")));
    }
    Ok(())
}

fn decide(args: &DecideArgs, home: &Home, output: &Output) -> Result<(), CliError> {
    let data = args.data.as_deref().map(|data| inputs::json(data, "--data")).transpose()?.unwrap_or_default();
    let by = args.by.clone().or_else(user).ok_or_else(nameless)?;
    let body = DecisionBody { decision: args.decision, by, comment: args.comment.clone(), data };
    // Found out here, so that it is the same with and without a server.
    let run = find_review(home.store.as_ref(), &args.id)?.run;
    let path = format!("/api/v1/reviews/{}/decision", args.id);
    tell(&run, &path, body, home, output, |driver, body| ask::decide(home.store.as_ref(), driver, &args.id, body))?;
    let row = find_review(home.store.as_ref(), &args.id)?;
    report(&row, &format!("review {} is decided: {}", row.id, row.status), home, output)
}

fn extend(args: &ExtendArgs, home: &Home, output: &Output) -> Result<(), CliError> {
    inputs::duration(args.span.as_deref(), "--for")?;
    let by = args.by.clone().or_else(user).ok_or_else(nameless)?;
    let body = ExtensionBody { by, span: args.span.clone().into(), until: args.until.clone(), reason: args.reason.clone() };
    let run = find_review(home.store.as_ref(), &args.id)?.run;
    let path = format!("/api/v1/reviews/{}/extension", args.id);
    tell(&run, &path, body, home, output, |driver, body| ask::extend(home.store.as_ref(), driver, &args.id, body))?;
    let row = find_review(home.store.as_ref(), &args.id)?;
    let due = row.due.map_or_else(|| "never".to_owned(), rfc3339);
    report(&row, &format!("review {} expires {due}", row.id), home, output)
}

fn report(row: &ReviewRow, line: &str, home: &Home, output: &Output) -> Result<(), CliError> {
    if output.json { output.value(&row_json(home.store.as_ref(), row)?) } else { output.line(line) }
}

fn link(args: &LinkArgs, home: &Home, output: &Output) -> Result<(), CliError> {
    let row = find_review(home.store.as_ref(), &args.id)?;
    ask::refuse_if_over(&row)?;
    inputs::duration(Some(&args.expires), "--expires")?;
    let body = LinkBody { decision: args.decision, by: args.by.clone(), expires: args.expires.clone().into(), base: args.base.clone() };
    let path = format!("/api/v1/reviews/{}/links", args.id);
    let made = match Client::find(&home.folder)? {
        Some(client) => client.post(&path, &body)?,
        None => {
            output.note("no server runs on this home: the link works once one does (viat server)");
            let change = Change::asked(&path, &json!(body));
            let made = links::make(home.store.as_ref(), &home.folder, &row.id, body, DEFAULT_BASE)?;
            if let Some(change) = change {
                home.note(change)?;
            }
            made
        }
    };
    if output.json {
        return output.value(&made);
    }
    output.line(made.get("url").and_then(Value::as_str).unwrap_or_default())
}

/// Who sits at the keyboard, as far as the environment and the system say.
pub fn user() -> Option<String> {
    let said = ["USER", "LOGNAME"].iter().filter_map(|name| std::env::var(name).ok()).find(|name| !name.trim().is_empty());
    said.or_else(|| whoami::username().ok())
}

fn nameless() -> CliError {
    CliError::usage("it is not known who you are").help("say so with --by NAME")
}
