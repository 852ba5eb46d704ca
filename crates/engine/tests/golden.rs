//! Every kind of event that was ever shipped still loads: one golden file a kind, and none may be missing.
//! `VIAT_BLESS=1` writes the files of kinds that have none yet; an existing file is never rewritten.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use serde_json::{Map, Value, json};
use viat_engine::failure::{Failure, Outcome, RunError};
use viat_engine::ir::InputDeclaration;
use viat_engine::journal::{Batch, Created, Ending, Event, ReviewDecision, ReviewRequest, Undo, UndoScript, Undone, Verdict};
use viat_engine::path::Path;
use viat_engine::policies::class::Class;
use viat_engine::policies::retry::{Decision, Matcher, No, Reason, RetryRule, Yes};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

/// The name of an event's golden file. There is no wildcard arm on purpose: a new kind must not compile until it has a name
/// here, and then an example in [`examples`] and its file.
fn name(event: &Event) -> &'static str {
    match event {
        Event::Created(_) => "created",
        Event::Adopted { .. } => "adopted",
        Event::ScriptEntered { .. } => "script_entered",
        Event::AttemptStarted { .. } => "attempt_started",
        Event::AttemptSucceeded { .. } => "attempt_succeeded",
        Event::AttemptFailed { .. } => "attempt_failed",
        Event::AttemptCancelled { .. } => "attempt_cancelled",
        Event::Continued { .. } => "continued",
        Event::CatchEntered { .. } => "catch_entered",
        Event::ChoiceMade { .. } => "choice_made",
        Event::Completed { .. } => "completed",
        Event::RegionCompleted { .. } => "region_completed",
        Event::ParallelEntered { .. } => "parallel_entered",
        Event::BranchStarted { .. } => "branch_started",
        Event::BranchCompleted { .. } => "branch_completed",
        Event::BranchFailed { .. } => "branch_failed",
        Event::LoopEntered { .. } => "loop_entered",
        Event::IterationStarted { .. } => "iteration_started",
        Event::IterationCompleted { .. } => "iteration_completed",
        Event::IterationFailed { .. } => "iteration_failed",
        Event::ContainerCompleted { .. } => "container_completed",
        Event::ContainerStopped { .. } => "container_stopped",
        Event::EntryFailed { .. } => "entry_failed",
        Event::CallEntered { .. } => "call_entered",
        Event::CallCompleted { .. } => "call_completed",
        Event::WaitEntered { .. } => "wait_entered",
        Event::EventReceived { .. } => "event_received",
        Event::EventTaken { .. } => "event_taken",
        Event::TaskDeferred { .. } => "task_deferred",
        Event::TaskSubmitted { .. } => "task_submitted",
        Event::AlreadyCompleted { .. } => "already_completed",
        Event::ReviewRequested { .. } => "review_requested",
        Event::ReviewReminded { .. } => "review_reminded",
        Event::ReviewExtended { .. } => "review_extended",
        Event::ReviewDecided { .. } => "review_decided",
        Event::ResolveEntered { .. } => "resolve_entered",
        Event::Resolved { .. } => "resolved",
        Event::AttentionNeeded { .. } => "attention_needed",
        Event::Settled { .. } => "settled",
        Event::CompensationPrepared { .. } => "compensation_prepared",
        Event::CompensationStarted { .. } => "compensation_started",
        Event::CompensateEntered { .. } => "compensate_entered",
        Event::CompensationEntered { .. } => "compensation_entered",
        Event::EffectIrreversible { .. } => "effect_irreversible",
        Event::CompensationFailed { .. } => "compensation_failed",
        Event::CompensationExpired {} => "compensation_expired",
        Event::CompensateCompleted { .. } => "compensate_completed",
        Event::Resumed { .. } => "resumed",
        Event::Migrated { .. } => "migrated",
        Event::CancelRequested { .. } => "cancel_requested",
        Event::DeadlineExceeded { .. } => "deadline_exceeded",
        Event::Succeeded { .. } => "succeeded",
        Event::Failed { .. } => "failed",
        Event::Cancelled { .. } => "cancelled",
    }
}

/// The serde tags of all kinds, as the error for an unknown one lists them: what is really compiled in.
fn tags() -> Vec<String> {
    let error = serde_json::from_value::<Event>(json!({ "type": "no such kind" })).expect_err("no such kind");
    let text = error.to_string();
    text.split('`').skip(3).step_by(2).map(str::to_owned).collect()
}

fn refusal() -> Failure {
    Failure { status: Some(409), extra: Some(json!({ "id": 3 })), code: "conflict".to_owned(), ..Failure::new(Class::User, "already there") }
}

fn error() -> RunError {
    let path = Path::from("each[3].send");
    let first = RunError::of_entry(&Path::from("each[3].pay"), "pay", None, &Failure::orchestration("no key"));
    RunError::of_entry(&path, "send", Some(2), &refusal()).caused_by(first)
}

/// At least one event of every kind; of those with optional fields, one with and one without.
fn examples() -> Vec<Event> {
    let path = Path::from("each[3].send");
    let created = Created {
        run: "r1".to_owned(),
        workflow: "order".to_owned(),
        version: 7,
        revision: 12,
        inputs: Map::from_iter([("z".to_owned(), json!(1)), ("a".to_owned(), json!(2.5))]),
        deadline: Some(1_700_000_060_000),
        active_budget_ms: None,
        owner: "engine-1".to_owned(),
        draft: false,
    };
    let failed = |attempt, failure, decision| Event::AttemptFailed { path: path.clone(), attempt, failure, decision };
    let stopped = Decision::Stop { retry: No, reason: Reason::WouldOverrunDeadline, wait_ms: Some(200), remaining_ms: Some(150) };
    let throttled = Failure { retry_after_ms: Some(3_000), ..Failure::new(Class::Transport, "429") };
    let deadline = RunError::of_run(Outcome::DeadlineExceeded, "deadline_exceeded", "the run's timeout of 60 s is over", Some(error()));
    let mut events = vec![
        Event::Created(Created { deadline: None, active_budget_ms: Some(1_800_000), ..created.clone() }),
        Event::Created(Created { owner: String::new(), draft: true, ..created.clone() }),
        Event::Created(created),
        Event::Adopted { owner: "engine-2".to_owned() },
        Event::ScriptEntered { path: path.clone(), args: json!({ "to": "ana" }), key: None },
        Event::AttemptStarted { path: path.clone(), attempt: 1, id: "a1".to_owned(), queued_ms: 0, tree: Value::Null },
        Event::AttemptStarted { path: path.clone(), attempt: 2, id: "a2".to_owned(), queued_ms: 40, tree: json!({ "pid": 4711 }) },
        Event::AttemptSucceeded { path: path.clone(), attempt: 2, output: json!([1, null]) },
        failed(1, throttled, Decision::Retry { retry: Yes, wait_ms: 3_000, remaining_ms: None }),
        failed(1, Failure::new(Class::Timeout, "late"), Decision::Retry { retry: Yes, wait_ms: 100, remaining_ms: Some(5_000) }),
        failed(2, Failure::new(Class::Transport, "reset"), stopped),
        failed(2, refusal(), Decision::stop(Reason::NotRetryable)),
        Event::AttemptCancelled { path: path.clone(), attempt: 2 },
        Event::Continued { path: path.clone(), error: error() },
        Event::CatchEntered { path: path.clone(), error: error() },
        Event::ChoiceMade { path: path.clone(), arm: Some(0) },
        Event::ChoiceMade { path: path.clone(), arm: None },
        Event::Completed { path: path.clone(), output: json!({ "b": 1, "a": 2 }) },
        Event::RegionCompleted { path: path.clone() },
        Event::ParallelEntered { path: path.clone() },
        Event::BranchStarted { path: path.clone(), branch: 1 },
        Event::BranchCompleted { path: path.clone(), branch: 1 },
        Event::BranchFailed { path: path.clone(), branch: 0, error: error() },
        Event::LoopEntered { path: path.clone(), items: Some(vec![json!(1), json!("two")]) },
        Event::LoopEntered { path: path.clone(), items: None },
        Event::IterationStarted { path: path.clone(), index: 0 },
        Event::IterationCompleted { path: path.clone(), index: 0 },
        Event::IterationFailed { path: path.clone(), index: 0, error: error() },
        Event::ContainerCompleted { path: path.clone() },
        Event::ContainerStopped { path: path.clone(), error: error() },
        Event::EntryFailed { path: path.clone(), error: error() },
        Event::CallEntered { path: path.clone(), inputs: Map::new(), deadline: None },
        Event::CallEntered { path: path.clone(), inputs: Map::new(), deadline: Some(1_700_000_030_000) },
        Event::CallCompleted { path: path.clone(), outputs: json!({}) },
        Event::WaitEntered { path: path.clone(), due: Some(1_700_000_005_000), event: None },
        Event::WaitEntered { path: path.clone(), due: None, event: Some("paid".to_owned()) },
        Event::EventReceived { name: "paid".to_owned(), payload: json!({ "amount": 3 }) },
        Event::EventTaken { path: path.clone(), name: "paid".to_owned() },
        Event::TaskDeferred { path: path.clone(), attempt: 2, workflow: "mail".to_owned(), version: 3, revision: 12, args: json!({}) },
        Event::TaskSubmitted { path: path.clone(), workflow: "mail".to_owned(), args: json!({}), run: "r2".to_owned() },
        Event::CancelRequested { by: Some("ana".to_owned()), reason: Some("wrong order".to_owned()) },
        Event::CancelRequested { by: None, reason: None },
        Event::DeadlineExceeded { message: "the run's timeout of 60 s is over".to_owned() },
        Event::Succeeded { outputs: json!({ "ok": true }) },
        Event::Failed { error: error() },
        Event::Failed { error: deadline },
        Event::Cancelled { error: RunError::of_run(Outcome::Cancelled, "cancelled", "the run was cancelled by ana", None) },
    ];
    [reviews(&path), unsettled(&path), undoing(&path)].into_iter().for_each(|more| events.extend(more));
    events
}

fn reviews(path: &Path) -> Vec<Event> {
    let (path, ana) = (path.clone(), Some("ana".to_owned()));
    let field = InputDeclaration { name: "score".to_owned(), schema: json!({ "type": "integer" }), default: Some(json!(3)), required: false };
    let full = ReviewRequest {
        id: "0011223344556677".to_owned(),
        title: "Check the draft".to_owned(),
        show: json!({ "draft": "text" }),
        form: vec![field],
        assignees: vec!["editors".to_owned()],
        due: Some(1_700_000_060_000),
        remind: vec![1_700_000_030_000],
    };
    let bare = ReviewRequest { show: Value::Null, form: Vec::new(), assignees: Vec::new(), due: None, remind: Vec::new(), ..full.clone() };
    let decision = |decision, by, comment, data| Event::ReviewDecided { path: path.clone(), decision: ReviewDecision { decision, by, comment, data } };
    vec![
        Event::ReviewRequested { path: path.clone(), review: Box::new(full) },
        Event::ReviewRequested { path: path.clone(), review: Box::new(bare) },
        Event::ReviewReminded { path: path.clone(), number: 1 },
        Event::ReviewExtended { path: path.clone(), due: Some(1_700_000_090_000), by: ana.clone(), reason: Some("on leave".to_owned()) },
        Event::ReviewExtended { path: path.clone(), due: None, by: None, reason: None },
        decision(Verdict::Approved, ana.clone(), Some("good".to_owned()), json!({ "score": 5 })),
        decision(Verdict::Rejected, ana.clone(), None, Value::Null),
        decision(Verdict::ChangesRequested, ana, None, Value::Null),
        decision(Verdict::Expired, None, None, Value::Null),
    ]
}

fn unsettled(path: &Path) -> Vec<Event> {
    let (path, ana) = (path.clone(), Some("ana".to_owned()));
    vec![
        Event::AlreadyCompleted { path: path.clone() },
        Event::ResolveEntered { path: path.clone(), attempt: 2, args: json!({ "key": "r1" }), at: 1_700_000_000_500 },
        Event::Resolved { path: path.clone(), attempt: 2, output: Some(json!({ "payment": "p1" })) },
        Event::Resolved { path: path.clone(), attempt: 2, output: Some(Value::Null) },
        Event::Resolved { path: path.clone(), attempt: 2, output: None },
        Event::AttentionNeeded { path: path.clone(), error: error() },
        Event::Settled { path: path.clone(), output: Some(Value::Null), by: ana.clone(), reason: Some("asked the bank".to_owned()) },
        Event::Settled { path: path.clone(), output: None, by: None, reason: None },
        Event::Resumed { by: None, reason: None, from: None, accept_repeat: None, deadline: None },
        Event::Resumed {
            by: ana.clone(),
            reason: Some("fixed".to_owned()),
            from: Some(path),
            accept_repeat: Some("it may be sent twice".to_owned()),
            deadline: Some(1_700_000_060_000),
        },
        Event::Migrated { version: 8, revision: 13, reason: "bug fixed".to_owned(), by: ana },
        Event::Migrated { version: 8, revision: 13, reason: "bug fixed".to_owned(), by: None },
    ]
}

fn undoing(path: &Path) -> Vec<Event> {
    let path = path.clone();
    let rule = RetryRule { matches: Matcher::Retryable, times: 3, initial_ms: 100, factor: 2.0, max_ms: 1_000, jitter: true };
    let full = UndoScript { script: "release".to_owned(), args: json!({ "id": 3 }), retry: vec![rule], timeout_ms: Some(5_000), idempotent: true };
    let bare = UndoScript { retry: Vec::new(), timeout_ms: None, idempotent: false, ..full.clone() };
    let prepared = |undo| Event::CompensationPrepared { path: path.clone(), undo };
    let started = |outcome, deadline, by: Option<&str>| Event::CompensationStarted {
        outcome,
        error: error(),
        deadline,
        by: by.map(str::to_owned),
        reason: by.map(|_| "asked to".to_owned()),
    };
    vec![
        prepared(Undo::Script(full)),
        prepared(Undo::Script(bare)),
        prepared(Undo::Irreversible("the e-mail has been sent".to_owned())),
        prepared(Undo::Unusable("no key".to_owned())),
        started(Ending::Failed, Some(1_700_000_300_000), None),
        started(Ending::Cancelled, None, Some("ana")),
        Event::CompensateEntered { path: path.clone(), targets: vec![("reserve".to_owned(), path.clone())], effects: vec![path.clone()] },
        Event::CompensationEntered { path: path.clone() },
        Event::EffectIrreversible { path: path.clone() },
        Event::CompensationFailed { path: path.clone(), failure: Failure::orchestration("no key") },
        Event::CompensationExpired {},
        Event::CompensateCompleted {
            path: path.clone(),
            outcomes: vec![("reserve".to_owned(), Undone::Compensated), ("mail".to_owned(), Undone::Irreversible)],
        },
        Event::CompensateCompleted { path, outcomes: vec![("a".to_owned(), Undone::Skip), ("b".to_owned(), Undone::CompensationFailed)] },
    ]
}

#[test]
fn every_kind_of_event_that_was_ever_shipped_still_loads() {
    let mut by_name: BTreeMap<&str, Vec<Batch>> = BTreeMap::new();
    for event in examples() {
        by_name.entry(name(&event)).or_default().push(Batch { at: 1_700_000_000_000, events: vec![event] });
    }
    let bless = std::env::var_os("VIAT_BLESS").is_some();
    for (name, batches) in &by_name {
        let file = folder().join(format!("{name}.json"));
        if bless && !file.exists() {
            let text = serde_json::to_string_pretty(batches).expect("a batch is JSON");
            fs::write(&file, text + "\n").expect("the golden folder");
        }
        let text = fs::read_to_string(&file).unwrap_or_else(|_| panic!("{name} has no golden file; VIAT_BLESS=1 writes it"));
        let loaded: Vec<Batch> = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name} no longer loads: {error}"));
        assert_eq!(&loaded, batches, "{name} loads, but means something else now");
    }
    let entries = fs::read_dir(folder()).expect("the golden folder");
    let mut files: Vec<String> = entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().replace(".json", "")).collect();
    files.sort();
    assert_eq!(files, by_name.into_keys().collect::<Vec<_>>(), "a file for every kind, and a kind for every file");
}

#[test]
fn every_kind_has_an_example() {
    let mut kinds: Vec<String> = tags();
    kinds.sort();
    let mut shown: Vec<String> = examples().iter().map(|event| name(event).to_owned()).collect();
    shown.sort();
    shown.dedup();
    assert_eq!(kinds, shown);
}

#[test]
fn a_journal_survives_being_written_and_read() {
    for event in examples() {
        let batch = Batch { at: -1, events: vec![event] };
        let text = serde_json::to_string(&batch).expect("a batch is JSON");
        assert_eq!(serde_json::from_str::<Batch>(&text).expect("what was written loads"), batch);
        assert_eq!(serde_json::to_string(&serde_json::from_str::<Batch>(&text).expect("again")).expect("JSON"), text, "the same bytes");
    }
}

#[test]
fn every_class_and_outcome_has_one_name() {
    for class in Class::ALL {
        assert_eq!(serde_json::to_value(class).expect("JSON"), json!(class.name()));
        assert_eq!(serde_json::from_value::<Outcome>(json!(class.name())).expect("an outcome"), Outcome::Failed(class));
    }
    assert_eq!(serde_json::to_value(Outcome::DeadlineExceeded).expect("JSON"), json!("deadline_exceeded"));
    assert_eq!(serde_json::to_value(Outcome::Cancelled).expect("JSON"), json!("cancelled"));
}
