//! Recovery on entries that are no scripts, which the native language does not write but the engine allows; and what the
//! record says of attempts that a container recovered.

mod sample;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use viat_engine::failure::Failure;
use viat_engine::ir::{Branch, Call, Loop, Node, OnFailure, Parallel, Policy, Reference, Source, Template};
use viat_engine::journal::{Batch, Event};
use viat_engine::path::Path;
use viat_engine::policies::class::Class;
use viat_engine::policies::recover::{RecoverRule, Recovery};
use viat_engine::policies::retry::Matcher;
use viat_engine::record::RunRecord;
use viat_engine::{Input, Op, Program, Report, Run, Status, decide, outstanding};

use sample::{Evaluator, created, definition, node, region, script};

/// Runs a program whose scripts fail with `exception` if their name begins with `bad`.
fn run(program: Program) -> (Run, Vec<Batch>) {
    let mut run = Run::new(Arc::new(program), created(None), 0);
    let mut journal = vec![Batch { at: 0, events: vec![Event::Created(created(None))] }];
    let mut inputs = vec![Input::Continue];
    while let Some(input) = inputs.pop() {
        let events = decide(&mut run, input, 1, &Evaluator).expect("accepted");
        journal.push(Batch { at: 1, events });
        let owed = outstanding(&run);
        if let Some(wanted) = owed.attempts.first() {
            let id = format!("{}", wanted.path);
            inputs.push(Input::Reserved { path: wanted.path.clone(), attempt: 1, id, queued_ms: 0, tree: Value::Null });
        } else if let Some(running) = owed.running.first() {
            let failed = Report::Failed(Failure::new(Class::Exception, "bad"));
            let report = if running.path.last().starts_with("bad") { failed } else { Report::Returned(json!("fine")) };
            inputs.push(Input::Finished { path: running.path.clone(), id: running.id.clone(), report });
        }
    }
    (run, journal)
}

fn recovering(id: &str, op: Op, then: Recovery) -> Node {
    Node { policy: Policy { recover: vec![RecoverRule { matches: Matcher::Any, then }], ..Policy::default() }, ..node(id, op) }
}

fn plain(id: &str) -> Node {
    script(id, Policy::default())
}

#[test]
fn a_parallel_can_be_continued() {
    let branches = [("x", 1), ("y", 2)].map(|(name, body)| Branch { name: name.to_owned(), body }).to_vec();
    let fan = Op::Parallel(Parallel { branches, on_failure: OnFailure::Cancel, concurrency: None });
    let regions = vec![region(vec![recovering("fan", fan, Recovery::Continue), plain("after")]), region(vec![plain("bad")]), region(vec![plain("other")])];
    let (run, journal) = run(definition(regions, None).into());
    assert_eq!(run.status, Status::Succeeded, "{journal:#?}");
    let record = RunRecord::of(&journal).expect("a record");
    let bad = record.attempts.iter().find(|attempt| attempt.step == "bad").expect("an attempt");
    assert!(bad.recovered, "the run went on past it");
}

#[test]
fn a_loop_can_be_caught() {
    let source = Source::Over { list: Template::Literal(json!([1, 2])), name: "item".to_owned() };
    let each = Op::Loop(Loop { source, concurrency: 2, max_iterations: 10, max_failures: 0, body: 1 });
    let regions = vec![region(vec![recovering("each", each, Recovery::Catch(2))]), region(vec![plain("bad")]), region(vec![plain("rescue")])];
    let (run, journal) = run(definition(regions, None).into());
    assert_eq!(run.status, Status::Succeeded, "{journal:#?}");
}

#[test]
fn a_call_is_caught_also_when_only_its_outputs_fail() {
    let mut called = definition(vec![region(vec![plain("fine")])], None);
    called.outputs = Template::Reference(Reference { text: "$nothing".to_owned(), root: "nothing".to_owned(), path: Vec::new() });
    let call = Op::Call(Call { workflow: "sub".to_owned(), version: None, args: Template::Literal(json!({})) });
    let main = definition(vec![region(vec![recovering("call", call, Recovery::Continue)])], None);
    let program = Program { main: Arc::new(main), called: BTreeMap::from([("sub".to_owned(), Arc::new(called))]) };
    assert_eq!(run(program).0.status, Status::Succeeded);
}

#[test]
fn attempts_of_a_tolerated_iteration_are_recovered() {
    let source = Source::Over { list: Template::Literal(json!([1, 2])), name: "item".to_owned() };
    let each = Op::Loop(Loop { source, concurrency: 1, max_iterations: 10, max_failures: 2, body: 1 });
    let regions = vec![region(vec![node("each", each)]), region(vec![plain("bad")])];
    let (run, journal) = run(definition(regions, None).into());
    assert_eq!(run.status, Status::Succeeded);
    let record = RunRecord::of(&journal).expect("a record");
    assert_eq!(
        record.attempts.iter().map(|attempt| (attempt.path.clone(), attempt.recovered)).collect::<Vec<_>>(),
        [(Path::from("each[0].bad"), true), (Path::from("each[1].bad"), true)]
    );
}
