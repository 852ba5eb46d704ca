//! Checks with several threads: nothing is lost, and nothing is told before it is so.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;

use super::{append, bodies, commit, create, done};
use crate::{RunId, Store, StoreError, expect_refusal};

const THREADS: u64 = 16;
const APPENDS: u64 = 500;

/// Sixteen threads append to runs of their own at once, and every batch is there, in order.
pub fn many_threads(store: Arc<dyn Store>) {
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let store = &store;
            scope.spawn(move || {
                let id = format!("r{thread}");
                let (sender, receiver) = channel();
                store.commit(create(&id).into(), Box::new(|answer| assert!(answer.is_ok())));
                // Not one by one, which would take one fsync each.
                for number in 1..=APPENDS {
                    let sender = sender.clone();
                    let unit = append(&id, number, format!("{thread}:{number}")).into();
                    let done = Box::new(move |answer: Result<_, _>| _ = sender.send(answer.is_ok()));
                    if number % 7 == thread % 7 { store.commit_here(unit, done) } else { store.commit(unit, done) }
                }
                drop(sender);
                assert_eq!(receiver.iter().filter(|accepted| *accepted).count() as u64, APPENDS);
            });
        }
    });
    for thread in 0..THREADS {
        let expected: Vec<_> = (1..=APPENDS).map(|number| format!("{thread}:{number}").into_bytes()).collect();
        assert_eq!(bodies(&*store, &format!("r{thread}"), 1), expected);
    }
}

/// Threads that fight for one run: exactly one wins each version.
pub fn contended_run(store: Arc<dyn Store>) {
    const VERSIONS: u64 = 50;
    done(&*store, create("r"));
    let wins: u64 = thread::scope(|scope| {
        let fight = |thread: u64| {
            let store = &store;
            move || {
                let attempt = |number: &u64| commit(&**store, append("r", *number, format!("{thread}"))).is_ok();
                (1..=VERSIONS).filter(attempt).count() as u64
            }
        };
        let threads: Vec<_> = (0..4).map(|thread| scope.spawn(fight(thread))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    });
    // A thread that is late for one version is still in time for a later one, so in the end all are taken.
    assert_eq!(wins, VERSIONS);
    assert_eq!(bodies(&*store, "r", 1).len() as u64, VERSIONS);
}

/// When a callback is called, a read on another thread sees what was written.
pub fn durable_when_called(store: Arc<dyn Store>) {
    done(&*store, create("r"));
    let (sender, receiver) = channel();
    for number in 1..=100 {
        let (seen, sender) = (Arc::clone(&store), sender.clone());
        let unit = append("r", number, "x").into();
        store.commit(
            unit,
            Box::new(move |answer| {
                let there = seen.journal(&RunId::from("r"), number).map(|batches| batches.len());
                _ = sender.send(answer.is_ok() && there.is_ok_and(|there| there >= 1));
            }),
        );
    }
    drop(sender);
    assert_eq!(receiver.iter().filter(|seen| *seen).count(), 100);
}

/// A thread that writes itself is answered when its unit can be read, may commit again from its callback, and nobody else waits
/// for it in vain.
pub fn committing_here(store: Arc<dyn Store>) {
    done(&*store, create("r"));
    let (sender, receiver) = channel();
    for number in 0..50u64 {
        let (inner, sender, number) = (Arc::clone(&store), sender.clone(), 2 * number + 1);
        let second = sender.clone();
        let done = move |answer: Result<_, _>| {
            let seen = inner.journal(&RunId::from("r"), number).map(|batches| batches.len());
            let unit = append("r", number + 1, "second").into();
            inner.commit(unit, Box::new(move |answer: Result<_, _>| _ = second.send(answer.is_ok())));
            _ = sender.send(answer.is_ok() && seen == Ok(1));
        };
        store.commit_here(append("r", number, "first").into(), Box::new(done));
        assert_eq!((receiver.recv(), receiver.recv()), (Ok(true), Ok(true)));
    }
    assert_eq!(bodies(&*store, "r", 1).len(), 100);
}

fn chain(store: &Arc<dyn Store>, number: u64, end: Sender<u64>) {
    let next = Arc::clone(store);
    store.commit(
        append("r", number, number.to_string()).into(),
        Box::new(move |answer| match answer {
            Ok(_) if number < 2_000 => chain(&next, number + 1, end),
            _ => _ = end.send(number),
        }),
    );
}

/// A callback may commit the next unit, thousands of times over.
pub fn callbacks_commit(store: Arc<dyn Store>) {
    done(&*store, create("r"));
    let (sender, receiver) = channel();
    chain(&store, 1, sender);
    assert_eq!(receiver.recv(), Ok(2_000));
    assert_eq!(bodies(&*store, "r", 1).len(), 2_000);
}

/// Closing finishes what is queued; after it everything is refused.
pub fn closing(store: Arc<dyn Store>) {
    let answers = Arc::new(Mutex::new(Vec::new()));
    for number in 0..200u64 {
        let op = if number == 0 { create("r") } else { append("r", number, "x") };
        let answers = Arc::clone(&answers);
        let done = Box::new(move |answer: Result<_, _>| answers.lock().expect("not poisoned").push(answer.is_ok()));
        if number < 3 { store.commit_here(op.into(), done) } else { store.commit(op.into(), done) }
    }
    store.close();
    assert_eq!(*answers.lock().expect("not poisoned"), vec![true; 200]);
    expect_refusal!(commit(&*store, append("r", 200, "x")), StoreError::Closed);
    let late = Arc::clone(&answers);
    store.commit_here(append("r", 200, "x").into(), Box::new(move |answer| late.lock().expect("not poisoned").push(answer.is_ok())));
    assert_eq!(answers.lock().expect("not poisoned").last(), Some(&false));
    store.close();
}
