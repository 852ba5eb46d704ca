//! Checks of big values: outside of the journal, once, with their batch or not at all.

use std::sync::Arc;

use serde_json::{Value, json};
use viat_engine::journal::{Batch, Event};

use super::{commit, create, done, owner};
use crate::big::{self, BIG, Kept};
use crate::{EncodedBatch, Hash, Op, RunId, Store, StoreError, Unit, expect_refusal};

fn batch(values: impl IntoIterator<Item = Value>) -> Batch {
    let completed = |output| Event::Completed { path: "a".into(), output };
    Batch { at: 7, events: values.into_iter().map(completed).collect() }
}

fn text(letter: char, bytes: usize) -> Value {
    Value::from(letter.to_string().repeat(bytes))
}

/// The unit that appends `batch`, and what it appends.
fn append(expected: u64, batch: &Batch, kept: &mut Kept) -> (Unit, EncodedBatch) {
    let (encoded, mut ops) = big::encode(batch, kept).expect("encodes");
    ops.push(Op::Append { run: RunId::from("r"), expected, batch: encoded.clone(), summary: None, fence: owner() });
    (ops.into(), encoded)
}

fn puts(unit: &Unit) -> Vec<(Hash, usize)> {
    let put = |op: &Op| if let Op::PutBlob { hash, bytes } = op { Some((*hash, bytes.len())) } else { None };
    unit.ops.iter().filter_map(put).collect()
}

/// What goes in comes out, wherever the limit lies in it, and the journal stays small.
pub fn big_values(store: &dyn Store) {
    done(store, create("r"));
    let list = |count: usize| Value::from(vec![12_345_678; count]);
    let values = [
        text('a', BIG - 2),
        text('b', BIG - 1),
        text('"', BIG),
        text('\u{1}', 20_000),
        list(BIG),
        json!({"list": list(BIG), "text": text('c', 2 * BIG), "small": [1, -2.5, null, true, "x"]}),
        json!([text('d', 60_000), text('e', 60_000)]),
        json!({"$viat:blob": text('f', BIG)}),
        json!([{"$viat:blob": "not ours"}, {"$$viat:blob": {"$viat:blob": [text('g', BIG)]}}, {"$viat:blob": 1, "b": 2}, {"$": 1}, {}, []]),
    ];
    let mut kept = Kept::default();
    let one_by_one_and_together = values.iter().map(std::slice::from_ref).chain([&values[..]]);
    for (expected, value) in (1..).zip(one_by_one_and_together) {
        let batch = batch(value.iter().cloned());
        let (unit, encoded) = append(expected, &batch, &mut kept);
        done(store, unit);
        assert!(encoded.body.len() < 2 * BIG, "{} bytes are left", encoded.body.len());
        let journal = store.journal(&RunId::from("r"), expected).expect("readable");
        assert_eq!(journal, [encoded]);
        assert_eq!(big::decode(store, &journal[0]), Ok(batch));
    }
}

/// A value has one blob, however often and inside whatever it comes; what the store has is not put again.
pub fn big_values_are_kept_once(store: &dyn Store) {
    done(store, create("r"));
    let value = text('x', 100_000);
    let mut kept = Kept::default();
    let (first, encoded) = append(1, &batch([value.clone(), json!({"arg": value.clone(), "n": 1}), value.clone()]), &mut kept);
    let hash = Hash::of(value.to_string().as_bytes());
    assert_eq!(puts(&first), [(hash, 100_002)]);
    assert_eq!(kept.bytes(), 100_002 + encoded.body.len() as u64);
    done(store, first);
    let (second, _) = append(2, &batch([json!([value.clone()])]), &mut kept);
    assert_eq!(puts(&second), []);
    done(store, second);
    // Another engine puts it again, and it is there already.
    let (third, _) = append(3, &batch([value]), &mut Kept::default());
    assert_eq!(puts(&third).len(), 1);
    done(store, third);
    let mut counted = Kept::default();
    let journal = store.journal(&RunId::from("r"), 1).expect("readable");
    journal[..2].iter().for_each(|batch| counted.note(batch).expect("readable"));
    assert_eq!(counted, kept);
}

/// A refused append leaves no big value behind.
pub fn big_values_come_with_their_batch(store: &dyn Store) {
    done(store, create("r"));
    let value = text('x', 100_000);
    let (unit, _) = append(2, &batch([value.clone()]), &mut Kept::default());
    expect_refusal!(commit(store, unit), StoreError::Conflict { .. });
    assert_eq!(store.blob(&Hash::of(value.to_string().as_bytes())), Ok(None));
}

/// A big value that is missing or damaged is an error that names it, never a null.
pub fn big_values_that_are_gone(store: &dyn Store) {
    let (encoded, puts) = big::encode(&batch([text('x', 100_000)]), &mut Kept::default()).expect("encodes");
    let [Op::PutBlob { hash, .. }] = puts.as_slice() else { panic!("one blob: {puts:?}") };
    let missing = big::decode(store, &encoded).expect_err("missing").to_string();
    assert!(missing.contains(&hash.to_string()) && missing.contains("missing"), "{missing}");
    done(store, Op::PutBlob { hash: *hash, bytes: Arc::from(&b"null"[..]) });
    let damaged = big::decode(store, &encoded).expect_err("damaged").to_string();
    assert!(damaged.contains(&hash.to_string()) && damaged.contains("damaged"), "{damaged}");
}
