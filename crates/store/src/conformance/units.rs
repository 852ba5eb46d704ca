//! Checks of units: atomicity, order, guards, keys, blobs.

use std::sync::{Arc, mpsc};

use super::{append, bodies, claim, commit, create, delete, done, put};
use crate::{AssetName, At, Hash, KeyFilter, Op, Outcome, Precondition, RunId, Store, StoreError, Unit, expect_refusal};

/// One bad operation, wherever it stands, and nothing of the unit is there.
pub fn unit_is_atomic(store: &dyn Store) {
    done(store, vec![create("r"), claim("taken", "by r"), put("script", "s", "1", &[])]);
    let good = || {
        vec![
            append("r", 1, "a"),
            create("new"),
            claim("free", "x"),
            Op::DropKey { space: "test".to_owned(), key: "taken".to_owned() },
            put("script", "s", "2", &[("script", "t")]),
            Op::PutBlob { hash: Hash::of(b"blob"), bytes: Arc::from(&b"blob"[..]) },
            Op::ReleaseRun { run: RunId::from("r"), owner: super::owner() },
        ]
    };
    let bad = [append("nowhere", 1, "x"), create("r"), delete("script", "unknown")];
    for bad in bad {
        for position in 0..=good().len() {
            let mut ops = good();
            ops.insert(position, bad.clone());
            assert!(commit(store, ops).is_err());
            assert_eq!(bodies(store, "r", 0), [b"first"]);
            assert_eq!(store.run(&RunId::from("r")).expect("readable").expect("there").owner, Some(super::owner()));
            assert_eq!(store.run(&RunId::from("new")), Ok(None));
            assert_eq!(store.key("test", "free"), Ok(None));
            assert_eq!(store.key("test", "taken"), Ok(Some(b"by r".to_vec())));
            assert_eq!(store.blob(&Hash::of(b"blob")), Ok(None));
            assert_eq!(store.revision(), Ok(1));
            assert_eq!(store.referrers(&AssetName::new("script", "t")), Ok(vec![]));
        }
    }
    done(store, good());
    assert_eq!(bodies(store, "r", 1), [b"a"]);
    assert_eq!(store.revision(), Ok(2));
}

/// Later operations of a unit see what earlier ones did.
pub fn unit_sees_itself(store: &dyn Store) {
    let receipt = done(store, vec![create("r"), append("r", 1, "a"), append("r", 2, "b"), put("k", "n", "1", &[]), put("k", "n", "2", &[])]);
    assert_eq!(
        receipt.outcomes,
        [
            Outcome::Appended { batches: 1 },
            Outcome::Appended { batches: 2 },
            Outcome::Appended { batches: 3 },
            Outcome::AssetPut { version: 1, revision: 1 },
            Outcome::AssetPut { version: 2, revision: 2 },
        ]
    );
    expect_refusal!(commit(store, vec![claim("k", "1"), claim("k", "2")]), StoreError::KeyTaken { value, .. } if value == b"1");
    assert_eq!(store.key("test", "k"), Ok(None));
}

/// Units that share a transaction do not share a fate.
pub fn refused_unit_spoils_no_other(store: &dyn Store) {
    done(store, create("r"));
    let (sender, receiver) = mpsc::channel();
    let mut expected = Vec::new();
    for number in 1..=50 {
        let units: [(Unit, bool); 3] = [
            (append("r", number, number.to_string()).into(), true),
            (vec![append("r", number + 1, "lost"), create("r")].into(), false),
            (append("r", number, "late").into(), false),
        ];
        for (unit, accepted) in units {
            expected.push(accepted);
            let sender = sender.clone();
            store.commit(unit, Box::new(move |answer| _ = sender.send(answer.is_ok())));
        }
    }
    drop(sender);
    assert_eq!(receiver.iter().collect::<Vec<_>>(), expected);
    assert_eq!(bodies(store, "r", 1), (1..=50).map(|number| number.to_string().into_bytes()).collect::<Vec<_>>());
}

/// Nothing to do is done, and its guards are checked.
pub fn empty_unit(store: &dyn Store) {
    assert_eq!(done(store, Unit::default()).outcomes, []);
    let guarded = Unit::default().guarded(Precondition::AssetLive(AssetName::new("script", "s")));
    expect_refusal!(commit(store, guarded), StoreError::Missing { .. });
}

/// A unit is applied only if its preconditions hold.
pub fn guards(store: &dyn Store) {
    let name = AssetName::new("script", "s");
    let guarded = |precondition: &Precondition| commit(store, Unit::from(claim("k", "v")).guarded(precondition.clone()));
    let absent = Precondition::AssetAbsent(name.clone());
    let first = Unit::from(put("script", "s", "1", &[])).guarded(absent.clone());
    done(store, first.clone());
    expect_refusal!(commit(store, first), StoreError::Exists { .. });
    expect_refusal!(guarded(&absent), StoreError::Exists { .. });
    expect_refusal!(guarded(&Precondition::AssetVersion(name.clone(), 2)), StoreError::Conflict { expected: 2, actual: 1, .. });
    let unknown = AssetName::new("script", "unknown");
    expect_refusal!(guarded(&Precondition::AssetVersion(unknown.clone(), 1)), StoreError::Missing { .. });
    expect_refusal!(guarded(&Precondition::AssetLive(unknown)), StoreError::Missing { .. });
    let key = |key: &str, value: &str| Precondition::KeyIs { space: "test".to_owned(), key: key.to_owned(), value: value.as_bytes().to_vec() };
    expect_refusal!(guarded(&key("k", "v")), StoreError::Missing { .. });
    assert_eq!(store.key("test", "k"), Ok(None));
    assert!(guarded(&Precondition::AssetVersion(name.clone(), 1)).is_ok());
    let other = Unit::from(claim("k2", "v")).guarded(key("k", "v")).guarded(Precondition::AssetLive(name));
    assert!(commit(store, other).is_ok());
    let wrong = Unit::from(claim("k3", "v")).guarded(key("k", "w"));
    expect_refusal!(commit(store, wrong), StoreError::KeyTaken { value, .. } if value == b"v");
}

/// A key is claimed once per space; the loser is told what the winner left.
pub fn keys(store: &dyn Store) {
    done(store, claim("k", "first\0\u{e9}"));
    expect_refusal!(commit(store, claim("k", "second")), StoreError::KeyTaken { space, key, value }
        if space == "test" && key == "k" && value == "first\0\u{e9}".as_bytes());
    let elsewhere = Op::ClaimKey { space: "other".to_owned(), key: "k".to_owned(), value: Vec::new() };
    done(store, elsewhere);
    assert_eq!(store.key("other", "k"), Ok(Some(Vec::new())));
    let drop = || Op::DropKey { space: "test".to_owned(), key: "k".to_owned() };
    done(store, drop());
    done(store, drop());
    assert_eq!(store.key("test", "k"), Ok(None));
    done(store, claim("k", "third"));
    assert_eq!(store.key("test", "k"), Ok(Some(b"third".to_vec())));
}

/// A key can be given another value; the keys of a space are listed in order, in pages.
pub fn keys_are_set_and_listed(store: &dyn Store) {
    let set = |key: &str, value: &str| Op::SetKey { space: "test".to_owned(), key: key.to_owned(), value: value.as_bytes().to_vec() };
    done(store, set("a", "1"));
    done(store, set("a", "2"));
    done(store, Op::ClaimKey { space: "tess".to_owned(), key: "z".to_owned(), value: Vec::new() });
    expect_refusal!(commit(store, claim("a", "3")), StoreError::KeyTaken { value, .. } if value == b"2");
    let refused = vec![set("a", "4"), set("new", "5"), claim("a", "6")];
    expect_refusal!(store.commit_blocking(Unit::from(refused)), StoreError::KeyTaken { .. });
    assert_eq!((store.key("test", "a"), store.key("test", "new")), (Ok(Some(b"2".to_vec())), Ok(None)));
    done(store, set("b\0\u{e9}", ""));
    done(store, set("c", "3"));
    let list = |before: Option<&str>, limit| {
        let found = store.keys(&KeyFilter { space: "test".to_owned(), before: before.map(str::to_owned), limit });
        found.expect("readable").into_iter().map(|(key, value)| (key, String::from_utf8(value).expect("text"))).collect::<Vec<_>>()
    };
    let (a, b, c) = (("a".to_owned(), "2".to_owned()), ("b\0\u{e9}".to_owned(), String::new()), ("c".to_owned(), "3".to_owned()));
    assert_eq!(list(None, 9), [c.clone(), b.clone(), a.clone()]);
    assert_eq!(list(None, 2), [c, b]);
    assert_eq!(list(Some("b\0\u{e9}"), 2), [a]);
    assert_eq!(list(Some("a"), 2), []);
}

/// A blob is there under its hash, however often it is put.
pub fn blobs(store: &dyn Store) {
    for bytes in [Vec::new(), vec![0; 3], vec![7; 1 << 20]] {
        let hash = Hash::of(&bytes);
        assert_eq!(store.blob(&hash), Ok(None));
        for _ in 0..2 {
            done(store, Op::PutBlob { hash, bytes: Arc::from(bytes.as_slice()) });
            assert_eq!(store.blob(&hash), Ok(Some(bytes.clone())));
        }
        assert_eq!(hash.to_string().parse::<Hash>().ok(), Some(hash));
    }
}

/// A blob whose bytes are not what its hash says is an error, and never a value. The first put of a hash is the one that counts.
pub fn damaged_blobs(store: &dyn Store) {
    let hash = Hash::of(b"what was meant");
    done(store, Op::PutBlob { hash, bytes: Arc::from(&b"what is there"[..]) });
    expect_refusal!(store.blob(&hash), StoreError::Corrupt { detail, .. } if detail.contains(&hash.to_string()));
    done(store, Op::PutBlob { hash, bytes: Arc::from(&b"what was meant"[..]) });
    expect_refusal!(store.blob(&hash), StoreError::Corrupt { .. });
}

/// A unit beyond the limit is refused before it is queued.
pub fn too_big(store: &dyn Store) {
    let bytes: Arc<[u8]> = Arc::from(vec![0; 1 << 20]);
    let put = Op::PutBlob { hash: Hash::of(&bytes), bytes };
    expect_refusal!(commit(store, vec![put; crate::unit::MAX_UNIT_BYTES >> 20]), StoreError::TooBig { .. });
}

/// One thread's units are applied, and answered, in the order in which it committed them.
pub fn order_of_one_thread(store: &dyn Store) {
    let (sender, receiver) = mpsc::channel();
    for number in 0..300u64 {
        let op = if number == 0 { create("r") } else { append("r", number, number.to_string()) };
        let sender = sender.clone();
        let done = Box::new(move |answer: Result<_, _>| _ = sender.send((number, answer.is_ok())));
        // Whoever writes it: what was committed before comes before.
        if number % 3 == 0 { store.commit_here(op.into(), done) } else { store.commit(op.into(), done) }
    }
    drop(sender);
    assert_eq!(receiver.iter().collect::<Vec<_>>(), (0..300).map(|number| (number, true)).collect::<Vec<_>>());
    assert_eq!(bodies(store, "r", 0).len(), 300);
    assert_eq!(store.asset(&AssetName::new("k", "n"), At::Latest), Ok(None));
}
