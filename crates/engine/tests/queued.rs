//! A run that no engine has begun with: what can happen to it, and that its clock stands still.

mod sample;

use std::sync::Arc;

use serde_json::Value;
use viat_engine::journal::{Batch, Event};
use viat_engine::record::RunRecord;
use viat_engine::{Input, Run, Status, decide};

use sample::{Evaluator, created, program};

fn queued() -> Run {
    Run::new(Arc::new(program()), created(None), 0)
}

#[test]
fn a_cancelled_one_ends_at_once_and_was_never_started() {
    let mut run = queued();
    let events = decide(&mut run, Input::Cancel { by: None, reason: None }, 50, &Evaluator).expect("accepted");
    assert_eq!(run.status, Status::Cancelled);
    let journal = [Batch { at: 0, events: vec![Event::Created(created(None))] }, Batch { at: 50, events }];
    let record = RunRecord::of(&journal).expect("a record");
    assert_eq!((record.status, record.started_at, record.ended_at), (Status::Cancelled, None, Some(50)));
}

#[test]
fn an_event_that_comes_before_the_start_is_kept_and_starts_no_clock() {
    let mut run = queued();
    run.apply(&Event::EventReceived { name: "paid".to_owned(), payload: Value::Null }, 100);
    assert_eq!(run.status, Status::Queued);
    assert_eq!(run.remaining_ms(10_000), Some(20_000), "nothing of it was active yet");
    decide(&mut run, Input::Continue, 10_000, &Evaluator).expect("accepted");
    assert_eq!((run.status, run.remaining_ms(11_000)), (Status::Running, Some(19_000)));
}
