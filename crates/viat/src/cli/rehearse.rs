//! What `workflow test` is told to do in the world's place: `--decide`, `--mock`, `--inject`.

use serde_json::Value;
use viat_dialect::{Languages, suggest};
use viat_engine::Program;
use viat_engine::failure::Failure;
use viat_engine::ir::{Node, Op};
use viat_engine::journal::{ReviewDecision, Verdict};
use viat_engine::policies::class::Class;
use viat_runner::driver::{Injected, Injection, Mock, Rehearsal};

use super::error::CliError;
use super::inputs;

/// Who decides the reviews of a rehearsal, unless it is said.
const REHEARSER: &str = "rehearsal";
const CRASH: &str = "crash";
const INTERRUPT: &str = "interrupt";

/// The flags of a rehearsal.
#[derive(clap::Args, Default)]
pub struct RehearsalArgs {
    /// Decide a review as soon as it is asked for: `check=approved`, or `check={"decision": "approved", "by": "ana", "data": {}}`.
    /// Given again for the same review: its next decision, for a review in a loop.
    #[arg(long, value_name = "ID=DECISION")]
    decide: Vec<String>,
    /// Do not run a script: `pay={"output": {"id": 1}}`, or `pay={"error": {"class": "transport", "code": "reset"}}`. JSON, or @FILE.
    #[arg(long, value_name = "ID=JSON")]
    mock: Vec<String>,
    /// Let an attempt fail on purpose: `pay=timeout`, `pay#2=user`; `pay=crash` kills its worker, `pay=interrupt` the engine under it.
    #[arg(long, value_name = "ID[#ATTEMPT]=CLASS")]
    inject: Vec<String>,
}

impl RehearsalArgs {
    /// What the flags say, for this program.
    pub fn rehearsal(&self, program: &Program) -> Result<Rehearsal, CliError> {
        let names = Names::of(program);
        let mut rehearsal = Rehearsal::default();
        for given in &self.decide {
            let (id, text) = pair(given, "--decide")?;
            names.check(&id, &names.reviews, "review", "--decide")?;
            let decision = decision(&text)?;
            fits(program, &id, &decision)?;
            rehearsal.decisions.entry(id).or_default().push(decision);
        }
        for given in &self.mock {
            let (id, text) = pair(given, "--mock")?;
            names.check(&id, &names.scripts, "script", "--mock")?;
            rehearsal.mocks.insert(id, mock(&text)?);
        }
        for given in &self.inject {
            let (id, text) = pair(given, "--inject")?;
            let injection = injection(&id, &text)?;
            names.check(&injection.step, &names.scripts, "script", "--inject")?;
            rehearsal.injections.push(injection);
        }
        Ok(rehearsal)
    }
}

fn pair(given: &str, flag: &str) -> Result<(String, String), CliError> {
    match given.split_once('=') {
        Some((id, text)) if !id.trim().is_empty() && !text.trim().is_empty() => Ok((id.trim().to_owned(), text.trim().to_owned())),
        _ => Err(CliError::usage(format!("{flag} {given}: it must be ID=VALUE"))),
    }
}

fn decision(text: &str) -> Result<ReviewDecision, CliError> {
    let (word, by, comment, data) = if text.starts_with(['{', '@']) {
        let given = inputs::json(text, "--decide")?;
        let string = |key: &str| given.get(key).and_then(Value::as_str).map(str::to_owned);
        if let Some(unknown) = given.as_object().and_then(|map| map.keys().find(|key| !matches!(key.as_str(), "decision" | "by" | "comment" | "data"))) {
            return Err(CliError::usage(format!("--decide: a decision has decision, by, comment and data, not {unknown}")));
        }
        (string("decision").unwrap_or_default(), string("by"), string("comment"), given.get("data").cloned().unwrap_or_default())
    } else {
        (text.to_owned(), None, None, Value::Null)
    };
    let decided = [Verdict::Approved, Verdict::Rejected, Verdict::ChangesRequested];
    let Some(decision) = decided.into_iter().find(|verdict| verdict.name() == word) else {
        return Err(CliError::usage(format!("--decide: {word:?} is none of approved, rejected, changes_requested"))
            .help("a review that is not decided expires: leave it out and add --fast-forward"));
    };
    Ok(ReviewDecision { decision, by: Some(by.unwrap_or_else(|| REHEARSER.to_owned())), comment, data })
}

/// Whether a decision has what the review's form asks for: found out before anything runs.
fn fits(program: &Program, given: &str, decision: &ReviewDecision) -> Result<(), CliError> {
    for node in nodes(program).filter(|node| node.id == id_of(given)) {
        let Op::Review(review) = &node.op else { continue };
        decision.clone().fitting(&review.form, &Languages::default()).map_err(|problem| {
            CliError::usage(format!("--decide {given}: {problem}"))
                .help(format!("give the form's fields: --decide '{given}={{\"decision\": \"approved\", \"data\": {{...}}}}'"))
        })?;
    }
    Ok(())
}

fn mock(text: &str) -> Result<Mock, CliError> {
    let given = inputs::json(text, "--mock")?;
    let wrong = || CliError::usage(r#"--mock: it must be {"output": VALUE} or {"error": {"class": CLASS, "code": ..., "message": ...}}"#);
    let map = given.as_object().filter(|map| map.len() == 1).ok_or_else(wrong)?;
    if let Some(output) = map.get("output") {
        return Ok(Mock::Output(output.clone()));
    }
    let error = map.get("error").and_then(Value::as_object).ok_or_else(wrong)?;
    let string = |key: &str| error.get(key).and_then(Value::as_str).map(str::to_owned);
    let class = class(&string("class").unwrap_or_else(|| "user".to_owned()), "--mock")?;
    let mut failure = Failure::new(class, string("message").unwrap_or_else(|| "mocked".to_owned()));
    if let Some(code) = string("code") {
        failure.code = code;
    }
    let status = error.get("status").and_then(Value::as_u64).and_then(|status| u16::try_from(status).ok());
    failure.status = status.or((class == Class::User).then_some(400));
    failure.extra = error.get("extra").cloned();
    Ok(Mock::Error(failure))
}

fn injection(id: &str, text: &str) -> Result<Injection, CliError> {
    let (step, attempt) = match id.split_once('#') {
        None => (id, None),
        Some((step, number)) => match number.parse::<u32>() {
            Ok(number) if number > 0 => (step, Some(number)),
            _ => return Err(CliError::usage(format!("--inject {id}: the attempt is a number from 1"))),
        },
    };
    let fault = match text {
        CRASH => Injected::Crash,
        INTERRUPT => Injected::Interrupt,
        name => Injected::Class(class(name, "--inject")?),
    };
    Ok(Injection { step: step.to_owned(), attempt, fault })
}

fn class(name: &str, flag: &str) -> Result<Class, CliError> {
    Class::ALL.into_iter().find(|class| class.name() == name).ok_or_else(|| {
        let names = Class::ALL.map(Class::name);
        let all = if flag == "--inject" { [names.as_slice(), &[CRASH, INTERRUPT]].concat() } else { names.to_vec() };
        CliError::usage(format!("{flag}: there is no failure class {name:?}")).help(match suggest::nearest(name, all.iter().copied()) {
            Some(nearest) => format!("did you mean {nearest}?"),
            None => format!("there are {}", all.join(", ")),
        })
    })
}

fn nodes(program: &Program) -> impl Iterator<Item = &Node> {
    let definitions = std::iter::once(&program.main).chain(program.called.values());
    definitions.flat_map(|definition| &definition.regions).flat_map(|region| &region.nodes)
}

/// The id of the entry that an id or a path names.
fn id_of(given: &str) -> &str {
    let last = given.rsplit('.').next().unwrap_or(given);
    last.split([':', '[']).next().unwrap_or(last)
}

/// The entries that flags can name.
struct Names {
    scripts: Vec<String>,
    reviews: Vec<String>,
}

impl Names {
    fn of(program: &Program) -> Names {
        let (mut scripts, mut reviews) = (Vec::new(), Vec::new());
        for node in nodes(program) {
            match &node.op {
                Op::Script(_) => scripts.push(node.id.clone()),
                Op::Review(_) => reviews.push(node.id.clone()),
                _ => {}
            }
        }
        Names { scripts, reviews }
    }

    /// Whether what a flag names can be met at all: a path by its last id, attempts that undo or find out by their entry's.
    fn check(&self, given: &str, known: &[String], kind: &str, flag: &str) -> Result<(), CliError> {
        let id = id_of(given);
        if known.iter().any(|name| name == id) {
            return Ok(());
        }
        let help = match suggest::nearest(id, known.iter().map(String::as_str)) {
            Some(nearest) => format!("did you mean {nearest}?"),
            None if known.is_empty() => format!("it has no {kind} entry"),
            None => format!("its {kind} entries are {}", suggest::listed(known.iter().map(String::as_str), 20)),
        };
        Err(CliError::usage(format!("{flag}: the workflow has no {kind} entry {id:?}")).help(help))
    }
}
