//! Inputs in any order, stale and absurd ones included: `decide` never panics, a rejection changes nothing, and the run that
//! the journal tells of is the run in memory after every batch.

mod sample;

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};
use viat_engine::failure::Failure;
use viat_engine::journal::{Batch, Event};
use viat_engine::path::Path;
use viat_engine::policies::class::Class;
use viat_engine::record::RunRecord;
use viat_engine::{Input, Report, Run, decide, due_between, outstanding, to_stop};

use sample::{Evaluator, created, program};

/// What a roll asks for: which input, about which of the things there are, how much later.
type Roll = (u8, u8, u16);

/// The input of a roll: mostly something the run waits for, else something that has nothing to do with it.
fn input(run: &Run, (choice, pick, _): Roll, starts: &mut u32) -> Input {
    let owed = outstanding(run);
    let pick = usize::from(pick);
    let path = Path::from(["a", "fan.left.b", "each[0].c", "each[12].c", "call.d", "nowhere", "", "fan"][pick % 8]);
    let payload = json!(pick);
    match choice % 20 {
        0..=5 if !owed.attempts.is_empty() => {
            let wanted = &owed.attempts[pick % owed.attempts.len()];
            *starts += 1;
            Input::Reserved { path: wanted.path.clone(), attempt: wanted.attempt, id: format!("id{starts}"), queued_ms: 0, tree: Value::Null }
        }
        6..=10 if !owed.running.is_empty() => {
            let running = &owed.running[pick % owed.running.len()];
            Input::Finished { path: running.path.clone(), id: running.id.clone(), report: report(pick) }
        }
        11 if !owed.attempts.is_empty() => {
            let wanted = &owed.attempts[pick % owed.attempts.len()];
            Input::NotStarted { path: wanted.path.clone(), attempt: wanted.attempt, failure: Failure::new(Class::ALL[pick % 13], "no worker") }
        }
        12 if !owed.running.is_empty() => {
            let running = &owed.running[pick % owed.running.len()];
            Input::Deferred { path: running.path.clone(), id: running.id.clone(), workflow: "mail".to_owned(), version: 1, revision: 1, args: payload }
        }
        13 => Input::Event { name: ["paid", "other"][pick % 2].to_owned(), payload },
        14 => Input::Adopted { owner: "another".to_owned() },
        15 if pick < 20 => Input::Cancel { by: None, reason: None },
        16 => Input::Finished { path, id: format!("id{pick}"), report: report(pick) },
        17 => Input::Reserved { path, attempt: u32::from(choice), id: format!("id{pick}"), queued_ms: 7, tree: Value::Null },
        18 => Input::NotStarted { path, attempt: 1, failure: Failure::new(Class::QueueFull, "full") },
        19 => Input::Deferred { path, id: "id1".to_owned(), workflow: "mail".to_owned(), version: 1, revision: 1, args: payload },
        _ => Input::Tick,
    }
}

fn report(pick: usize) -> Report {
    match pick % 5 {
        0 | 1 => Report::Returned(json!(pick)),
        2 => Report::Failed(Failure::new(Class::ALL[pick % 13], "trouble")),
        3 => Report::Failed(Failure::new(Class::Transport, "reset")),
        _ => Report::Stopped,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_journal_tells_of_the_run_in_memory(
        rolls in prop::collection::vec(any::<Roll>(), 1..80),
        deadline in prop::option::of(0_i64..5_000),
        backwards in any::<bool>(),
    ) {
        let program = Arc::new(program());
        let created = created(deadline);
        let mut journal = vec![Batch { at: 0, events: vec![Event::Created(created.clone())] }];
        let mut run = Run::new(Arc::clone(&program), created, 0);
        let (mut now, mut starts) = (0, 0);
        for roll in rolls {
            // The wall clock may step back.
            now += i64::from(roll.2 % 400) - if backwards && roll.2 % 7 == 0 { 500 } else { 0 };
            let input = input(&run, roll, &mut starts);
            let before = run.clone();
            match decide(&mut run, input.clone(), now, &Evaluator) {
                Ok(events) if events.is_empty() => prop_assert_eq!(&run, &before, "{:?} made no event, yet it changed the run", input),
                Ok(events) => journal.push(Batch { at: now, events }),
                Err(_) => prop_assert_eq!(&run, &before, "{:?} was refused, yet it changed the run", input),
            }
            let loaded = Run::load(Arc::clone(&program), &journal, &|_, _| Err("no other version".to_owned())).expect("a journal that loads");
            prop_assert_eq!(&loaded, &run);
            prop_assert!(!before.status.is_terminal() || before == run, "a run that has ended changed");
        }
        let record = RunRecord::of(&journal).expect("a record");
        prop_assert_eq!(record.status.is_terminal(), run.status.is_terminal());
    }

    /// Folding is total: events in an order that no decision would make change nothing or something, but never panic.
    #[test]
    fn folding_is_total(rolls in prop::collection::vec(any::<Roll>(), 1..60), order in prop::collection::vec(any::<prop::sample::Index>(), 1..200)) {
        let program = Arc::new(program());
        let mut run = Run::new(Arc::clone(&program), created(None), 0);
        let (mut events, mut now, mut starts) = (Vec::new(), 0, 0);
        for roll in rolls {
            now += i64::from(roll.2 % 400);
            let input = input(&run, roll, &mut starts);
            events.extend(decide(&mut run, input, now, &Evaluator).unwrap_or_default());
        }
        let mut shuffled = Run::new(program, created(None), 0);
        if !events.is_empty() {
            for index in order {
                shuffled.apply(index.get(&events), now);
                let owed = outstanding(&shuffled);
                prop_assert_eq!(due_between(&shuffled, i64::MIN, i64::MAX).len(), owed.attempts.len());
                prop_assert_eq!(to_stop(&shuffled).len(), owed.running.iter().filter(|running| running.stop).count());
            }
        }
    }
}
