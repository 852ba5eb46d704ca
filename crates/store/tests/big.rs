//! Any batch comes out as it went in: with values around the limit, and users' maps that look like references.

use proptest::prelude::*;
use serde_json::{Map, Value};
use viat_engine::journal::{Batch, Event};
use viat_store::big::{BIG, Kept, decode, encode};
use viat_store::{MemoryStore, Op, Store};

fn key() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "\\${0,3}viat:blob",
        1 => Just("$viat:".to_owned()),
        2 => "[a-c\"\\\\$é\u{0}]{0,3}",
    ]
}

fn text() -> impl Strategy<Value = String> {
    // `"` and control characters take more bytes as JSON than in memory.
    let long =
        (prop::sample::select(vec!['x', '"', '\\', '\u{1}', 'é']), prop::sample::select(vec![BIG / 6, BIG / 2, BIG - 3, BIG - 2, BIG - 1, BIG, 2 * BIG]));
    prop_oneof![4 => key(), 1 => long.prop_map(|(letter, count)| letter.to_string().repeat(count))]
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((key(), inner.clone()), 0..3).prop_map(|members| Value::Object(Map::from_iter(members))),
            (key(), inner).prop_map(|member| Value::Object(Map::from_iter([member]))),
        ]
    })
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        value().prop_map(|output| Event::Completed { path: "a".into(), output }),
        prop::collection::vec(value(), 0..3).prop_map(|items| Event::LoopEntered { path: "a".into(), items: Some(items) }),
        prop::collection::vec((key(), value()), 0..3).prop_map(|inputs| Event::CallEntered {
            path: "a".into(),
            inputs: Map::from_iter(inputs),
            deadline: None
        }),
        text().prop_map(|message| Event::DeadlineExceeded { message }),
    ]
}

/// Whether a reference stands where a value over the limit was, everywhere.
fn all_small(value: &Value) -> bool {
    let inner = match value {
        Value::Array(items) => items.iter().all(all_small),
        Value::Object(map) => map.values().all(all_small),
        _ => true,
    };
    inner && value.to_string().len() <= BIG
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn any_batch_survives(events in prop::collection::vec(event(), 1..4)) {
        let store = MemoryStore::new();
        let batch = Batch { at: 1, events };
        let mut kept = Kept::default();
        let (encoded, puts) = encode(&batch, &mut kept).expect("encodes");
        let mut blobs = 0;
        for put in &puts {
            if let Op::PutBlob { bytes, .. } = put {
                blobs += bytes.len() as u64;
                prop_assert!(bytes.len() > BIG);
            }
        }
        store.commit_blocking(puts.into()).expect("stored");
        prop_assert_eq!(decode(&store, &encoded).expect("decodes"), batch);
        // What is kept of a run can be counted from its journal, and nothing big stays in it.
        let mut counted = Kept::default();
        counted.note(&encoded).expect("readable");
        prop_assert_eq!(&counted, &kept);
        prop_assert_eq!(kept.bytes(), blobs + encoded.body.len() as u64);
        let body: Value = serde_json::from_slice(&encoded.body).expect("JSON");
        for field in body["events"].as_array().expect("events").iter().flat_map(|event| event.as_object().expect("a map").values()) {
            prop_assert!(all_small(field));
        }
    }
}

#[test]
fn old_and_small_batches_are_read_as_they_are() {
    let store = MemoryStore::new();
    let output = serde_json::json!({"$viat:blob": "mine"});
    let batch = Batch { at: 1, events: vec![Event::Completed { path: "a".into(), output }] };
    let (encoded, puts) = encode(&batch, &mut Kept::default()).expect("encodes");
    assert!(puts.is_empty());
    assert_eq!(encoded.body, serde_json::to_vec(&batch).expect("JSON"));
    assert_eq!(decode(&store, &encoded), Ok(batch));
}
