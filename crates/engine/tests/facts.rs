//! What is counted and timed of a journal, event by event.

use serde_json::{Value, json};
use viat_engine::Status;
use viat_engine::facts::{Attempt, Count, End, Fact, Part, Watch};
use viat_engine::failure::{Failure, Outcome, RunError};
use viat_engine::journal::{Batch, Ending, Event, ReviewRequest, Undo, UndoScript, Undone};
use viat_engine::key;
use viat_engine::path::Path;
use viat_engine::policies::class::Class;
use viat_engine::policies::retry::{Decision, Reason, Yes};

#[path = "sample/mod.rs"]
mod sample;

fn created() -> Event {
    Event::Created(sample::created(None))
}

fn started(path: &str, attempt: u32, queued_ms: u64) -> Event {
    Event::AttemptStarted { path: Path::from(path), attempt, id: format!("{path}-{attempt}"), queued_ms, tree: Value::Null }
}

fn returned(path: &str, attempt: u32) -> Event {
    Event::AttemptSucceeded { path: Path::from(path), attempt, output: json!(1) }
}

fn failed(path: &str, attempt: u32, class: Class, decision: Decision) -> Event {
    Event::AttemptFailed { path: Path::from(path), attempt, failure: Failure::new(class, "no"), decision }
}

fn again() -> Decision {
    Decision::Retry { retry: Yes, wait_ms: 5, remaining_ms: None }
}

fn error(path: &str, class: Class) -> RunError {
    RunError::of_entry(&Path::from(path), Path::from(path).last(), Some(1), &Failure::new(class, "no"))
}

fn review(path: &str) -> Event {
    let review =
        ReviewRequest { id: "r".to_owned(), title: "?".to_owned(), show: Value::Null, form: Vec::new(), assignees: Vec::new(), due: None, remind: Vec::new() };
    Event::ReviewRequested { path: Path::from(path), review: Box::new(review) }
}

/// A batch for each event, 10 ms apart.
fn facts(events: Vec<Event>) -> Vec<Fact> {
    let mut watch = Watch::default();
    let batches = events.into_iter().zip(0..).map(|(event, number)| Batch { at: number * 10, events: vec![event] });
    batches.flat_map(|batch| watch.note(&batch)).collect()
}

fn counts(events: Vec<Event>) -> Vec<(Count, String)> {
    let counted = |fact| match fact {
        Fact::Counted(count, path) => Some((count, path.to_string())),
        _ => None,
    };
    facts(events).into_iter().filter_map(counted).collect()
}

fn counted(expected: &[(Count, &str)]) -> Vec<(Count, String)> {
    expected.iter().map(|(count, path)| (*count, (*path).to_owned())).collect()
}

#[test]
fn first_tries_and_later_ones() {
    let events = vec![
        created(),
        started("a", 1, 0),
        returned("a", 1),
        started("b", 1, 0),
        failed("b", 1, Class::Transport, again()),
        started("b", 2, 0),
        returned("b", 2),
        started("c", 1, 0),
        failed("c", 1, Class::Transport, again()),
        failed("c", 2, Class::QueueFull, Decision::stop(Reason::Exhausted)),
        started("d", 1, 0),
        Event::AttemptCancelled { path: Path::from("d"), attempt: 1 },
        failed("e", 1, Class::ScriptBroken, Decision::stop(Reason::Cancelled)),
    ];
    let expected = [
        (Count::FirstTry, "a"),
        (Count::FirstTrySuccess, "a"),
        (Count::FirstTry, "b"),
        (Count::RetrySuccess, "b"),
        (Count::FirstTry, "c"),
        (Count::RetriesExhausted, "c"),
    ];
    assert_eq!(counts(events), counted(&expected));
}

#[test]
fn a_refusal_is_sent_to_a_person_by_the_review_that_it_leads_to() {
    let refused = |path: &str| vec![failed(path, 1, Class::User, Decision::stop(Reason::NotRetryable))];
    let caught = |path: &str| Event::CatchEntered { path: Path::from(path), error: error(path, Class::User) };
    let continued = |path: &str| Event::Continued { path: Path::from(path), error: error(path, Class::User) };
    let own = |path: &str| counted(&[(Count::FirstTry, path), (Count::Refusal, path)]);
    let sent = |path: &str| [own(path), counted(&[(Count::RefusalToReview, path)])].concat();
    let story = |path: &str, then: Vec<Event>| counts([vec![created()], refused(path), then].concat());

    assert_eq!(story("a", vec![caught("a"), review("a.ask"), review("a.ask_again")]), sent("a"), "in its recovery, and once");
    assert_eq!(story("a", vec![caught("a"), Event::RegionCompleted { path: Path::from("a") }, review("later")]), own("a"), "not after its recovery");
    assert_eq!(story("a", vec![continued("a"), review("ask")]), sent("a"), "later in the same sequence");
    assert_eq!(story("fan.left.a", vec![continued("fan.left.a"), review("fan.left.if.ask")]), sent("fan.left.a"), "or deeper in it");
    assert_eq!(story("fan.left.a", vec![continued("fan.left.a"), review("fan.right.ask")]), own("fan.left.a"), "not in another branch");
    assert_eq!(story("a", vec![review("ask")]), own("a"), "a refusal that nobody took leads nowhere");
    let through = Event::IterationCompleted { path: Path::from("each"), index: 0 };
    assert_eq!(story("each[0].a", vec![continued("each[0].a"), through, review("each[0].ask")]), own("each[0].a"), "an iteration that is through");
    let other = Event::CatchEntered { path: Path::from("a"), error: error("a", Class::Exception) };
    assert_eq!(counts(vec![created(), other, review("a.ask")]), [], "other failures are no refusals");
}

#[test]
fn a_refusal_to_say_what_came_of_an_attempt_is_sent_to_a_person() {
    let attention = |cause| Event::AttentionNeeded { path: Path::from("pay"), error: error("pay", Class::Timeout).caused_by(error("pay:resolve[1]", cause)) };
    assert_eq!(counts(vec![created(), attention(Class::User)]), counted(&[(Count::RefusalToAttention, "pay")]));
    assert_eq!(counts(vec![created(), attention(Class::Exception)]), []);
}

fn prepared(path: &str, idempotent: bool) -> Event {
    let undo = UndoScript { script: "undo".to_owned(), args: json!({}), retry: Vec::new(), timeout_ms: None, idempotent };
    Event::CompensationPrepared { path: Path::from(path), undo: Undo::Script(undo) }
}

fn compensate(entry: &str, id: &str, outcome: Undone) -> [Event; 2] {
    let (path, target) = (Path::from(entry), Path::from(id));
    [
        Event::CompensateEntered { path: path.clone(), targets: vec![(id.to_owned(), target.clone())], effects: vec![target] },
        Event::CompensateCompleted { path, outcomes: vec![(id.to_owned(), outcome)] },
    ]
}

#[test]
fn undoing_is_counted_by_what_came_of_it() {
    let [first, first_over] = compensate("back", "a", Undone::Compensated);
    let [second, second_over] = compensate("back_again", "a", Undone::Skip);
    let [third, third_over] = compensate("idle", "never", Undone::Skip);
    let events = vec![
        created(),
        returned("a", 1),
        prepared("a", false),
        first,
        started("a:compensate", 1, 0),
        failed("a:compensate", 1, Class::Transport, again()),
        started("a:compensate", 2, 0),
        returned("a:compensate", 2),
        first_over,
        second,
        second_over,
        third,
        third_over,
        Event::CompensationStarted { outcome: Ending::Failed, error: error("x", Class::Exception), deadline: None, by: None, reason: None },
        failed("b:compensate", 1, Class::Exception, Decision::stop(Reason::NotRetryable)),
        Event::EffectIrreversible { path: Path::from("c") },
        Event::CompensationFailed { path: Path::from("d"), failure: Failure::orchestration("no") },
    ];
    let expected = [
        (Count::FirstTry, "a"),
        (Count::FirstTrySuccess, "a"),
        (Count::Compensated, "a"),
        (Count::CompensationRepeated, "a"),
        (Count::CompensationIdle, "never"),
        (Count::CompensationFailed, "b"),
        (Count::Irreversible, "c"),
        (Count::CompensationFailed, "d"),
    ];
    assert_eq!(counts(events), counted(&expected));
}

#[test]
fn undoing_that_is_taken_up_again_has_not_failed() {
    let cut_short = |idempotent| {
        let cut = failed("a:compensate", 1, Class::ScriptBroken, Decision::stop(Reason::Cancelled));
        counts(vec![created(), prepared("a", idempotent), cut])
    };
    assert_eq!(cut_short(true), []);
    assert_eq!(cut_short(false), counted(&[(Count::CompensationFailed, "a")]));
}

#[test]
fn what_is_done_again_after_it_was_undone_is_no_repeat() {
    let [again, over] = compensate("back", "a", Undone::Skip);
    let events = vec![created(), returned("a:compensate", 1), returned("a", 2), again, over];
    assert_eq!(counts(events).last(), counted(&[(Count::CompensationIdle, "a")]).last());
}

fn attempts(events: Vec<Event>) -> Vec<Attempt> {
    let ended = |fact| match fact {
        Fact::AttemptEnded(attempt) => Some(attempt),
        _ => None,
    };
    facts(events).into_iter().filter_map(ended).collect()
}

#[test]
fn attempts_are_timed_from_their_start_to_their_end() {
    let begun = |path: &str, queued_ms| Fact::AttemptBegan { path: Path::from(path), queued_ms };
    let all = facts(vec![created(), started("each[0].a", 1, 7), started("b", 1, 0)]);
    assert_eq!(all, [begun("each[0].a", 7), begun("b", 0)]);

    let events = vec![created(), started("a", 1, 0), started("b", 1, 0), failed("b", 1, Class::Transport, again()), returned("a", 1)];
    let ended = attempts(events);
    let expected = End::Failed { class: Class::Transport, code: "transport".to_owned() };
    assert_eq!((ended[0].path.as_str(), ended[0].began, ended[0].ended, &ended[0].end), ("b", Some(20), 30, &expected));
    assert_eq!((ended[1].path.as_str(), ended[1].took_ms(), &ended[1].end), ("a", Some(30), &End::Succeeded));

    let unstarted = attempts(vec![created(), failed("a", 1, Class::QueueFull, again())]);
    assert_eq!((unstarted[0].began, unstarted[0].took_ms()), (None, None), "it never got a worker");
}

#[test]
fn an_attempt_whose_engine_died_ends_when_that_is_found_out_but_nobody_knows_how_long_it_took() {
    let adopted = Event::Adopted { owner: "heir".to_owned() };
    let interrupted = failed("a", 1, Class::ScriptBroken, again());
    let mut watch = Watch::default();
    let before = watch.note(&Batch { at: 0, events: vec![created(), started("a", 1, 0)] });
    assert_eq!(before.len(), 1);
    let after = watch.note(&Batch { at: 5_000, events: vec![adopted, interrupted] });
    let Some(Fact::AttemptEnded(attempt)) = after.first() else { panic!("an attempt has ended: {after:?}") };
    assert_eq!((attempt.began, attempt.ended, attempt.interrupted, attempt.took_ms()), (Some(0), 5_000, true, None));
}

#[test]
fn a_run_that_goes_on_after_its_end_has_another_part() {
    let resumed = Event::Resumed { by: None, reason: None, from: None, accept_repeat: None, deadline: None };
    let events = vec![
        created(),
        Event::Failed { error: error("a", Class::Transport) },
        resumed,
        started("a", 2, 0),
        returned("a", 2),
        Event::Succeeded { outputs: json!({}) },
    ];
    let parts: Vec<Part> = facts(events.clone()).into_iter().filter_map(|fact| if let Fact::RunEnded(part) = fact { Some(part) } else { None }).collect();
    let first = Part { number: 0, began: 0, ended: 10, status: Status::Failed, error: Some(("transport", "transport".to_owned())) };
    assert_eq!(parts, [first, Part { number: 1, began: 20, ended: 50, status: Status::Succeeded, error: None }]);
    assert_eq!(attempts(events)[0].part, 1);

    let undone = Event::CompensationStarted { outcome: Ending::Cancelled, error: error("a", Class::User), deadline: None, by: None, reason: None };
    let cancelled = || Event::Cancelled { error: RunError::of_run(Outcome::Cancelled, "cancelled", "by ana", None) };
    let numbers = |events: Vec<Event>| -> Vec<u32> {
        facts(events).iter().filter_map(|fact| if let Fact::RunEnded(part) = fact { Some(part.number) } else { None }).collect()
    };
    assert_eq!(numbers(vec![created(), cancelled(), undone.clone(), cancelled()]), [0, 1], "a person had it undone");
    assert_eq!(numbers(vec![created(), undone, cancelled()]), [0], "the run's end undid it");
}

#[test]
fn ids_of_a_trace_are_derived() {
    let run = "01a22d89-f81a-7624-b9f8-63ca9d84d050";
    assert_eq!(key::trace(run)[..4], [0x01, 0xa2, 0x2d, 0x89], "a UUID is the trace's id itself");
    assert_eq!(key::trace(run)[15], 0x50);
    for odd in ["", "r", "00000000-0000-0000-0000-000000000000", "01a22d89-f81a-7624-b9f8-63ca9d84d05é"] {
        assert_ne!(key::trace(odd), [0; 16], "{odd:?}");
    }
    let a = Path::from("a");
    let ids = [key::part_span(run, 0), key::part_span(run, 1), key::attempt_span(run, &a, 1), key::attempt_span(run, &a, 2), key::attempt_span("r", &a, 1)];
    for (number, id) in ids.iter().enumerate() {
        assert!(!ids[..number].contains(id) && *id != [0; 8]);
    }
    assert_eq!(key::attempt_span(run, &a, 1), ids[2]);
    let parent = key::traceparent(run, &a, 1);
    assert_eq!((parent.len(), &parent[..37], &parent[52..]), (55, "00-01a22d89f81a7624b9f863ca9d84d050-", "-01"));
    assert_eq!(parent[36..52], key::hex(&ids[2]));
}
