//! Seeded stories. `VIAT_STORIES=1000000` tells more of them, `VIAT_SEED=N` tells one and shows it.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use viat_engine::journal::Batch;
use viat_simulator::case::Case;
use viat_simulator::stories::tell;

const STORIES: u64 = 10_000;
const THREADS: u64 = 2;

#[test]
fn ten_thousand_stories_hold() {
    if let Some(seed) = number("VIAT_SEED") {
        let told = tell(seed, &Case::languages()).unwrap_or_else(|problem| panic!("{problem}"));
        return println!("story {seed} holds: {} events, {} crashes", events_of(&told.journal), told.crashes);
    }
    let stories = number("VIAT_STORIES").unwrap_or(STORIES);
    let (events, crashes, failures) = (AtomicU64::new(0), AtomicU64::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (events, crashes, failures) = (&events, &crashes, &failures);
            scope.spawn(move || {
                let languages = Case::languages();
                for seed in (thread..stories).step_by(THREADS as usize) {
                    match tell(seed, &languages) {
                        Ok(told) => {
                            events.fetch_add(events_of(&told.journal), Ordering::Relaxed);
                            crashes.fetch_add(told.crashes as u64, Ordering::Relaxed);
                        }
                        Err(problem) => failures.lock().expect("no thread panicked").push((seed, problem)),
                    }
                }
            });
        }
    });
    let mut failures = failures.into_inner().expect("no thread panicked");
    failures.sort();
    println!("{stories} stories, {} events, {} crashes", events.into_inner(), crashes.into_inner());
    for (_, problem) in failures.iter().take(10) {
        println!("{}", problem.lines().next().unwrap_or(""));
    }
    if let Some((seed, problem)) = failures.first() {
        panic!("{problem}\n{} of {stories} stories fail; this one again: VIAT_SEED={seed} cargo test -p viat-simulator --test stories", failures.len());
    }
}

/// Stories that meet nothing prove nothing.
#[test]
fn stories_meet_every_kind_of_event() {
    let languages = Case::languages();
    let mut missing: BTreeSet<&str> = KINDS.into_iter().collect();
    for seed in 0..2_000 {
        let Ok(told) = tell(seed, &languages) else { continue };
        for event in told.journal.iter().flat_map(|batch| &batch.events) {
            let debug = format!("{event:?}");
            let name = debug.split([' ', '(']).next().unwrap_or("");
            missing.remove(name);
        }
        if missing.is_empty() {
            return println!("{seed} stories meet every kind of event");
        }
    }
    panic!("no story has {missing:?}");
}

const KINDS: [&str; 51] = [
    "Created",
    "Adopted",
    "ScriptEntered",
    "AttemptStarted",
    "AttemptSucceeded",
    "AttemptFailed",
    "AttemptCancelled",
    "Continued",
    "CatchEntered",
    "ChoiceMade",
    "Completed",
    "RegionCompleted",
    "ParallelEntered",
    "BranchStarted",
    "BranchCompleted",
    "BranchFailed",
    "LoopEntered",
    "IterationStarted",
    "IterationCompleted",
    "IterationFailed",
    "ContainerCompleted",
    "ContainerStopped",
    "EntryFailed",
    "CallEntered",
    "CallCompleted",
    "WaitEntered",
    "EventReceived",
    "EventTaken",
    "TaskDeferred",
    "TaskSubmitted",
    "CancelRequested",
    "DeadlineExceeded",
    "Succeeded",
    "AlreadyCompleted",
    "ReviewRequested",
    "ReviewReminded",
    "ReviewExtended",
    "ReviewDecided",
    "ResolveEntered",
    "Resolved",
    "AttentionNeeded",
    "Settled",
    "CompensationPrepared",
    "CompensationStarted",
    "CompensateEntered",
    "CompensationEntered",
    "EffectIrreversible",
    "CompensationFailed",
    "CompensationExpired",
    "CompensateCompleted",
    "Resumed",
];

fn events_of(journal: &[Batch]) -> u64 {
    journal.iter().map(|batch| batch.events.len() as u64).sum()
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().expect("a number"))
}
