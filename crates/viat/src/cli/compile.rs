//! From a script's text to what is stored of it: its metadata, its signature, what is run, or why it is refused.

use std::path::{Path, PathBuf};

use serde_json::json;
use viat_dialect::diagnostic::{Report, Source, Span};
use viat_dialect::yaml::{self, Node};
use viat_dialect::{Style, duration, render};
use viat_runner::assets::ScriptAsset;
use viat_runner::script::environments::{Request, State};
use viat_runner::script::http::{Problem, Template};
use viat_runner::script::{Language, Metadata, Parameter, ParameterKind, ScriptDiagnostic, ScriptInfo, inspect, inspect_javascript, inspect_shell};

use super::error::CliError;
use super::output::printable;
use crate::wiring::Home;

/// The module of npm that takes types away: the one that Node itself has inside.
const STRIPPER: &str = "amaro@1.2.1";

/// Checks a script and finds out what has to be known of it to run it.
pub fn script(language: Language, file: &Path, source: String, home: &Home) -> Result<ScriptAsset, CliError> {
    if source.trim().is_empty() {
        return Err(CliError::usage(format!("{}: the script is empty", file.display())));
    }
    let mut metadata = Metadata::of(language, &source).map_err(|wrong| {
        let snippet = source.lines().nth(wrong.line.saturating_sub(1) as usize).unwrap_or_default().to_owned();
        refused(file, &ScriptDiagnostic { line: wrong.line, column: 1, message: wrong.message, snippet })
    })?;
    let (info, code) = match language {
        Language::Python => (python(file, &source, home)?, None),
        Language::JavaScript => javascript(file, &source, home)?,
        Language::Shell => (inspect_shell(&source).map_err(|problem| refused(file, &problem))?, None),
        Language::Http => request(file, &source, &mut metadata)?,
    };
    let environment = Request::of(language, &metadata).map(|request| request.key());
    Ok(ScriptAsset { language: language.name().to_owned(), source, code, info, metadata, environment })
}

fn python(file: &Path, source: &str, home: &Home) -> Result<ScriptInfo, CliError> {
    let info = inspect(&home.interpreter()?, source).map_err(|problem| refused(file, &problem))?;
    if let Some(parameter) = info.parameters.iter().find(|parameter| parameter.kind == ParameterKind::PositionalOnly && parameter.default.is_none()) {
        let message = format!("{}: main takes {} by position only, but arguments are given by name", file.display(), parameter.name);
        return Err(CliError::usage(message).help("take the `/` out of its signature"));
    }
    Ok(info)
}

fn javascript(file: &Path, source: &str, home: &Home) -> Result<(ScriptInfo, Option<String>), CliError> {
    let node = home.node()?;
    let typescript = file.extension().and_then(|ending| ending.to_str()).is_some_and(|ending| matches!(ending, "ts" | "mts" | "cts"));
    let stripper = if typescript && !node.strips { Some(stripper(file, &node, home)?) } else { None };
    let found = inspect_javascript(&node, source, typescript, stripper.as_deref()).map_err(|problem| refused(file, &problem))?;
    Ok((found.info, found.code))
}

/// What newer Nodes take types away with, for an older one: installed once per home, as an environment.
fn stripper(file: &Path, node: &viat_runner::script::Node, home: &Home) -> Result<PathBuf, CliError> {
    let request = Request::of_module(STRIPPER);
    let environments = home.environments();
    let state = environments.ask(&request).and_then(|_| environments.build(&request.key(), &home.tools()));
    let reason = match state {
        Ok(State::Ready { environment }) => return Ok(environments.folder(&environment).join("node_modules/amaro")),
        Ok(State::Failed { reason }) => reason,
        Ok(State::Building) => "its build was broken off".to_owned(),
        Err(error) => error.to_string(),
    };
    let message =
        format!("{}: Node {} cannot take the types out of TypeScript by itself, and {STRIPPER} could not be installed: {reason}", file.display(), node.version);
    Err(CliError::usage(message).help("install Node 22.13 or newer, or save the script as JavaScript"))
}

/// A request template, as data.
fn request(file: &Path, source: &str, metadata: &mut Metadata) -> Result<(ScriptInfo, Option<String>), CliError> {
    let shown = file.display().to_string();
    let text = Source::new(&shown, source);
    let mut report = Report::new(&text);
    let template = yaml::load(&mut report).and_then(|tree| read(&mut report, &tree));
    let diagnostics = report.finish();
    let Some(template) = template else {
        let drawn = render(&diagnostics, source, Style::Plain);
        let data = serde_json::to_value(&diagnostics).unwrap_or_default();
        return Err(CliError::usage(format!("{shown} is no request template; nothing was saved")).drawn(drawn, data));
    };
    // a request says which secrets it needs by using them
    metadata.settings.secrets.extend(template.secrets());
    metadata.settings.secrets.sort();
    metadata.settings.secrets.dedup();
    let (parameters, whole) = template.parameters();
    let parameter = |name: String, default: Option<String>, kind| Parameter { name, annotation: None, shape: None, default, kind };
    let mut parameters: Vec<Parameter> =
        parameters.into_iter().map(|one| parameter(one.name, (!one.required).then(|| "null".to_owned()), ParameterKind::Keyword)).collect();
    if whole {
        parameters.push(parameter("args".to_owned(), None, ParameterKind::Rest));
    }
    let info = ScriptInfo { parameters, signature_known: true, is_async: false, doc: None, returns: None };
    let code = serde_json::to_string(&template).map_err(|error| CliError::usage(error.to_string()))?;
    Ok((info, Some(code)))
}

fn read(report: &mut Report<'_>, tree: &Node) -> Option<Template> {
    let document = match tree.to_json() {
        Ok(document) => document,
        Err(span) => {
            report.error("not-json", span, "JSON has no such number");
            return None;
        }
    };
    let read_duration = |value: &serde_json::Value| duration::from_json(value).map(duration::Duration::millis).map_err(|error| format!("timeout: {error}"));
    match Template::parse(&document, &read_duration) {
        Ok(template) => Some(template),
        Err(problems) => {
            for problem in problems {
                report.error("request", place(tree, &problem), problem.message.clone());
            }
            None
        }
    }
}

/// Where the keys of a problem lead.
fn place(tree: &Node, problem: &Problem) -> Span {
    let (mut at, mut span) = (tree, tree.span);
    for key in &problem.path {
        let Some(entry) = at.get(key) else { break };
        (at, span) = (&entry.value, entry.key_span);
    }
    span
}

fn refused(file: &Path, problem: &ScriptDiagnostic) -> CliError {
    if problem.line == 0 {
        return CliError::usage(format!("{}: {}", file.display(), problem.message));
    }
    let place = format!("{}:{}:{}", file.display(), problem.line, problem.column);
    let error = CliError::usage(format!("{place}: {}", problem.message)).help("nothing was saved; mend the script and create it again");
    let number = problem.line.to_string();
    let caret = " ".repeat(usize::try_from(problem.column).unwrap_or(1).saturating_sub(1));
    let drawn = format!("{number} | {}\n{} | {caret}^", printable(problem.snippet.trim_end()), " ".repeat(number.len()));
    let data = json!([{"file": file.display().to_string(), "line": problem.line, "col": problem.column, "message": problem.message}]);
    if problem.snippet.is_empty() { error } else { error.drawn(drawn, data) }
}
