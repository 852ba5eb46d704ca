//! A journal as a ledger that people can read: one line an event, `TIME PATH what`.

use serde_json::Value;
use viat_engine::failure::{Failure, Outcome, RunError};
use viat_engine::journal::{Event, Millis, Undo};
use viat_engine::path::Path;
use viat_engine::policies::class::Class;
use viat_engine::policies::retry::{Decision, Reason};

use crate::world::World;

/// A batch of more lines than this shows only its ends.
const LONGEST_BATCH: usize = 60;
/// How many lines of each end it shows.
const SHOWN: usize = 4;

/// What a world leaves behind: its journal with the notes between, how the run rests, what became of deferred tasks.
pub fn trace(world: &World<'_>) -> String {
    let mut text = String::new();
    let mut notes = world.notes.iter().peekable();
    let mut keys = Keys { world, seen: Vec::new() };
    for (number, batch) in world.journal.iter().enumerate() {
        for (_, at, note) in std::iter::from_fn(|| notes.next_if(|(after, ..)| *after <= number)) {
            push(&mut text, *at, note);
        }
        let lines: Vec<String> = batch.events.iter().filter_map(|event| Some(format!("{}{}", line(event)?, keys.of(event)))).collect();
        let hidden = if lines.len() > LONGEST_BATCH { SHOWN..lines.len() - SHOWN } else { 0..0 };
        for (number, line) in lines.iter().enumerate().filter(|(number, _)| !hidden.contains(number) || *number == hidden.start) {
            let more = format!("… {} lines …", hidden.len());
            push(&mut text, batch.at, if hidden.contains(&number) { &more } else { line });
        }
    }
    for (_, at, note) in notes {
        push(&mut text, *at, note);
    }
    ending(&mut text, world);
    text
}

/// Idempotency keys by their order of appearance, if the story asks for them.
struct Keys<'w> {
    world: &'w World<'w>,
    seen: Vec<&'w String>,
}

impl Keys<'_> {
    fn of(&mut self, event: &Event) -> String {
        let Event::AttemptStarted { path, attempt, .. } = event else { return String::new() };
        let Some(key) = self.world.keys.get(&(path.clone(), *attempt)).filter(|_| self.world.shows_keys()) else { return String::new() };
        let known = self.seen.iter().position(|seen| *seen == key);
        let number = known.unwrap_or_else(|| {
            self.seen.push(key);
            self.seen.len() - 1
        });
        format!(" with key {}", number + 1)
    }
}

fn ending(text: &mut String, world: &World<'_>) {
    let run = &world.run;
    if !run.status.is_terminal() {
        push(text, world.now, &format!("rests {}", run.status.name()));
        return;
    }
    for task in run.deferred_tasks().iter().filter(|task| !world.submitted.contains(task)) {
        push(text, world.now, &format!("discards {} {} of {} #{}", task.workflow, task.args, task.path, task.attempt));
    }
}

fn push(text: &mut String, at: Millis, line: &str) {
    text.push_str(&format!("{at:>6}  {line}\n"));
}

fn line(event: &Event) -> Option<String> {
    Some(match event {
        // Every case begins with it.
        Event::Created(_) => return None,
        Event::Adopted { .. } => "taken over".to_owned(),
        Event::ScriptEntered { path, args, key: None } => format!("{path} args {args}"),
        Event::ScriptEntered { path, args, key: Some(key) } => format!("{path} args {args} key {key}"),
        Event::AttemptStarted { path, attempt, queued_ms: 0, .. } => format!("{path} #{attempt} started"),
        Event::AttemptStarted { path, attempt, queued_ms, .. } => format!("{path} #{attempt} started after {queued_ms} in the queue"),
        Event::AttemptSucceeded { path, attempt, output } => format!("{path} #{attempt} returned {output}"),
        Event::AttemptFailed { path, attempt, failure, decision } => format!("{path} #{attempt} failed {}; {}", failed(failure), decided(decision)),
        Event::AttemptCancelled { path, attempt } => format!("{path} #{attempt} cancelled"),
        Event::Continued { path, error } => format!("{path} continues past {}", error.code),
        Event::CatchEntered { path, error } => format!("{path} catches {}", error.code),
        Event::ChoiceMade { path, arm: Some(arm) } => format!("{path} takes arm {arm}"),
        Event::ChoiceMade { path, arm: None } => format!("{path} finds no condition true"),
        Event::Completed { path, output } => format!("{path} = {output}"),
        Event::RegionCompleted { path } => format!("{path} through"),
        Event::ParallelEntered { path } => format!("{path} entered"),
        Event::BranchStarted { path, branch } => format!("{path} branch {branch} started"),
        Event::BranchCompleted { path, branch } => format!("{path} branch {branch} through"),
        Event::BranchFailed { path, branch, error } => format!("{path} branch {branch} failed: {}", error.code),
        Event::LoopEntered { path, items } => match items {
            Some(items) => format!("{path} over {} items", items.len()),
            None => format!("{path} while"),
        },
        Event::IterationStarted { path, index } => format!("{path}[{index}] started"),
        Event::IterationCompleted { path, index } => format!("{path}[{index}] through"),
        Event::IterationFailed { path, index, error } => format!("{path}[{index}] failed: {}", error.code),
        Event::ContainerCompleted { path } => format!("{path} through"),
        Event::ContainerStopped { path, error } => format!("{path} is stopped: {}", error.code),
        Event::EntryFailed { path, error } => format!("{path} failed: {}", error.code),
        Event::CallEntered { path, inputs, .. } => format!("{path} called with {}", Value::Object(inputs.clone())),
        Event::CallCompleted { path, outputs } => format!("{path} gave {outputs}"),
        Event::WaitEntered { path, due, event } => waits(path.as_str(), *due, event.as_deref()),
        Event::EventReceived { name, payload } => format!("event {name} {payload}"),
        Event::EventTaken { path, name } => format!("{path} takes event {name}"),
        Event::TaskSubmitted { path, workflow, args, run } => format!("submits {workflow} {args} of {path} as {run}"),
        Event::TaskDeferred { path, attempt, workflow, args, .. } => format!("{path} #{attempt} defers {workflow} {args}"),
        Event::CancelRequested { .. } => "cancel requested".to_owned(),
        Event::DeadlineExceeded { message } => format!("deadline: {message}"),
        Event::Succeeded { outputs } => format!("succeeded {outputs}"),
        Event::Failed { error } => format!("failed {}", causes(error)),
        Event::Cancelled { .. } => "cancelled".to_owned(),
        event => return recovery(event),
    })
}

fn recovery(event: &Event) -> Option<String> {
    Some(match event {
        Event::AlreadyCompleted { path } => format!("{path} already completed"),
        Event::ReviewRequested { path, review } => {
            let due = review.due.map(|due| format!(" until {due}")).unwrap_or_default();
            format!("{path} asks {:?}{due}", review.title)
        }
        Event::ReviewReminded { path, number } => format!("{path} reminder {number}"),
        Event::ReviewExtended { path, due, .. } => format!("{path} extended to {due:?}"),
        Event::ReviewDecided { path, decision } if decision.data.is_null() => format!("{path} {}", decision.decision.name()),
        Event::ReviewDecided { path, decision } => format!("{path} {} {}", decision.decision.name(), decision.data),
        Event::ResolveEntered { path, attempt, args, at } => format!("{path} #{attempt} to be resolved at {at} with {args}"),
        Event::Resolved { path, attempt, output: Some(output) } => format!("{path} #{attempt} took effect: {output}"),
        Event::Resolved { path, attempt, output: None } => format!("{path} #{attempt} did not take effect"),
        Event::AttentionNeeded { path, error } => format!("{path} needs attention: {}", causes(error)),
        Event::Settled { path, output: Some(output), .. } => format!("{path} settled: {output}"),
        Event::Settled { path, output: None, .. } => format!("{path} settled: not done"),
        Event::CompensationPrepared { path, undo } => match undo {
            Undo::Script(undo) => format!("{path} can be undone by {} {}", undo.script, undo.args),
            Undo::Irreversible(why) => format!("{path} cannot be undone: {why}"),
            Undo::Unusable(why) => format!("{path} cannot be undone: {why}"),
        },
        Event::CompensationStarted { error, deadline, .. } => format!("compensates after {}, until {}", error.code, deadline.unwrap_or_default()),
        Event::CompensateEntered { path, effects, .. } => {
            let effects: Vec<&str> = effects.iter().map(Path::as_str).collect();
            format!("{path} undoes [{}]", effects.join(", "))
        }
        Event::CompensationEntered { path } => format!("{path} to be undone"),
        Event::EffectIrreversible { path } => format!("{path} irreversible"),
        Event::CompensationFailed { path, failure } => format!("{path} not undone: {} ({})", failed(failure), failure.message),
        Event::CompensationExpired {} => "the time for compensation is over".to_owned(),
        Event::CompensateCompleted { path, outcomes } => {
            let outcomes: Vec<String> = outcomes.iter().map(|(id, undone)| format!("{id} {}", undone.name())).collect();
            format!("{path} through: {}", outcomes.join(", "))
        }
        Event::Resumed { from, deadline, .. } => {
            let from = from.as_ref().map(|from| format!(" from {from}")).unwrap_or_default();
            format!("resumed{from}{}", deadline.map(|deadline| format!(", deadline {deadline}")).unwrap_or_default())
        }
        Event::Migrated { version, .. } => format!("migrated to version {version}"),
        _ => return None,
    })
}

fn waits(path: &str, due: Option<Millis>, event: Option<&str>) -> String {
    let mut text = format!("{path} waits");
    if let Some(event) = event {
        text.push_str(&format!(" for event {event}"));
    }
    if let Some(due) = due {
        text.push_str(&format!(" until {due}"));
    }
    text
}

fn failed(failure: &Failure) -> String {
    let class = failure.class.name();
    if failure.code == class { class.to_owned() } else { format!("{class} {}", failure.code) }
}

fn decided(decision: &Decision) -> String {
    match decision {
        Decision::Retry { wait_ms, .. } => format!("retry in {wait_ms}"),
        Decision::Stop { reason, wait_ms: Some(wait_ms), remaining_ms: Some(remaining_ms), .. } => {
            format!("{}: {wait_ms} + 10 > {remaining_ms}", name(*reason))
        }
        Decision::Stop { reason, .. } => name(*reason),
    }
}

fn name(reason: Reason) -> String {
    let name = serde_json::to_value(reason).ok();
    name.as_ref().and_then(Value::as_str).unwrap_or("stop").to_owned()
}

/// `CODE [CLASS] [STATUS] [at PATH #ATTEMPT] [(MESSAGE)] [, after CAUSE]`; what follows from the code is left out.
fn causes(error: &RunError) -> String {
    let mut text = error.code.clone();
    if let Outcome::Failed(class) = error.class
        && class.name() != error.code
    {
        text = format!("{} {text}", class.name());
    }
    if let Some(status) = error.status {
        text.push_str(&format!(" {status}"));
    }
    if let Some(path) = &error.path {
        text.push_str(&format!(" at {path}"));
    }
    if let Some(attempt) = error.attempt {
        text.push_str(&format!(" #{attempt}"));
    }
    if matches!(error.class, Outcome::Failed(Class::Orchestration | Class::Resource) | Outcome::DeadlineExceeded) {
        text.push_str(&format!(" ({})", error.message));
    }
    for other in error.extra.iter().filter_map(|extra| extra.get("also")?.as_array()).flatten() {
        text.push_str(&format!(", also {} at {}", other["code"], other["path"]).replace('"', ""));
    }
    if let Some(cause) = &error.cause {
        text.push_str(&format!(", after {}", causes(cause)));
    }
    text
}
