//! What only the memory backend can: faults on demand, a held disk, crashes.

use std::sync::mpsc::channel;

use viat_store::big::{self, Kept};
use viat_store::{MemoryStore, Op, Receipt, Store, StoreError};

fn claim(key: &str) -> Op {
    Op::ClaimKey { space: "s".to_owned(), key: key.to_owned(), value: Vec::new() }
}

fn is_there(store: &MemoryStore, key: &str) -> bool {
    store.key("s", key).expect("readable").is_some()
}

#[test]
fn faults_are_as_many_as_asked_for() {
    let store = MemoryStore::new();
    let full = StoreError::DiskFull { path: "memory".to_owned() };
    store.fail_next(2, &full);
    for _ in 0..2 {
        assert_eq!(store.commit_blocking(claim("a").into()), Err(full.clone()));
        assert!(!is_there(&store, "a"));
    }
    assert!(store.commit_blocking(claim("a").into()).is_ok());
}

#[test]
fn what_is_held_waits_for_the_disk() {
    let store = MemoryStore::new();
    store.hold();
    let (sender, receiver) = channel();
    store.commit(claim("a").into(), Box::new(move |answer| _ = sender.send(answer)));
    assert!(receiver.try_recv().is_err());
    assert!(!is_there(&store, "a"));
    store.resume();
    assert!(matches!(receiver.try_recv(), Ok(Ok(Receipt { .. }))));
    assert!(is_there(&store, "a"));
}

#[test]
fn a_crash_keeps_what_was_durable() {
    let store = MemoryStore::new();
    let lease = store.lease().expect("a lease");
    store.commit_blocking(claim("a").into()).expect("claimed");
    store.hold();
    let (sender, receiver) = channel::<Result<Receipt, StoreError>>();
    store.commit(claim("b").into(), Box::new(move |answer| _ = sender.send(answer)));
    let after = store.crash();
    assert!(receiver.recv().is_err(), "never answered");
    assert!(is_there(&after, "a") && !is_there(&after, "b"));
    assert_eq!(after.is_alive(lease.owner()), Ok(false));
    assert_eq!(store.commit_blocking(claim("c").into()), Err(StoreError::Closed));
    assert!(after.commit_blocking(claim("b").into()).is_ok());
}

#[test]
fn batches_are_written_as_the_engine_reads_them() {
    use viat_engine::journal::{Batch, Event};
    let events = vec![Event::Succeeded { outputs: serde_json::json!({"b": "\u{0}", "a": 1}) }];
    let batch = Batch { at: 7, events };
    let (encoded, puts) = big::encode(&batch, &mut Kept::default()).expect("encodes");
    assert_eq!((encoded.events, puts.len()), (1, 0));
    assert_eq!(big::decode(&MemoryStore::new(), &encoded).expect("decodes"), batch);
}
