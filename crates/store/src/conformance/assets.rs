//! Checks of the catalogue: versions, revisions, tombstones, references.

use super::{claim, commit, delete, done, put};
use crate::{AssetName, At, Hash, Op, Outcome, Precondition, Store, StoreError, Unit, expect_refusal};

fn body(store: &dyn Store, kind: &str, name: &str, at: At) -> Option<String> {
    let asset = store.asset(&AssetName::new(kind, name), at).expect("readable")?;
    Some(String::from_utf8(asset.body).expect("text"))
}

fn names(store: &dyn Store, kind: Option<&str>, revision: Option<u64>) -> Vec<String> {
    store.assets(kind, revision).expect("readable").iter().map(|info| format!("{}@{}", info.name.name, info.version)).collect()
}

/// Versions count per name, revisions across the catalogue; the same content is a new version too.
pub fn asset_versions_and_revisions(store: &dyn Store) {
    assert_eq!(store.revision(), Ok(0));
    let puts = [("script", "a", 1, 1), ("script", "b", 1, 2), ("script", "a", 2, 3), ("workflow", "a", 1, 4), ("script", "a", 3, 5)];
    for (kind, name, version, revision) in puts {
        assert_eq!(done(store, put(kind, name, "same", &[])).outcomes, [Outcome::AssetPut { version, revision }]);
        assert_eq!(store.revision(), Ok(revision));
    }
    let versions = store.asset_versions(&AssetName::new("script", "a")).expect("readable");
    assert_eq!(versions.iter().map(|info| (info.version, info.revision)).collect::<Vec<_>>(), [(1, 1), (2, 3), (3, 5)]);
    let last = versions.last().expect("three");
    assert_eq!((last.hash, last.size, last.at), (Hash::of(b"same"), 4, 5));
    // A refused put uses no number up.
    assert!(commit(store, vec![put("script", "a", "x", &[]), delete("script", "unknown")]).is_err());
    assert_eq!(done(store, put("script", "a", "x", &[])).outcomes, [Outcome::AssetPut { version: 4, revision: 6 }]);
}

/// A revision pins every asset as it was.
pub fn asset_pins(store: &dyn Store) {
    for text in ["1", "2", "3"] {
        done(store, vec![put("script", "a", text, &[]), put("script", "b", text, &[])]);
    }
    assert_eq!(body(store, "script", "a", At::Latest).as_deref(), Some("3"));
    assert_eq!(body(store, "script", "b", At::Version(2)).as_deref(), Some("2"));
    assert_eq!(body(store, "script", "b", At::Version(4)), None);
    assert_eq!(body(store, "script", "b", At::Version(0)), None);
    let pinned: Vec<_> = (0..8).map(|revision| body(store, "script", "b", At::Revision(revision)).unwrap_or_default()).collect();
    assert_eq!(pinned, ["", "", "1", "1", "2", "2", "3", "3"]);
    assert_eq!(body(store, "script", "a", At::Revision(u64::MAX)).as_deref(), Some("3"));
    assert_eq!(body(store, "workflow", "a", At::Latest), None);
}

/// Lists are what lived at a revision, sorted.
pub fn asset_lists(store: &dyn Store) {
    done(store, vec![put("script", "b", "1", &[]), put("script", "a", "1", &[]), put("workflow", "w", "1", &[])]);
    done(store, put("script", "b", "2", &[]));
    done(store, delete("script", "a"));
    assert_eq!(names(store, None, None), ["b@2", "w@1"]);
    assert_eq!(names(store, Some("script"), None), ["b@2"]);
    assert_eq!(names(store, Some("script"), Some(4)), ["a@1", "b@2"]);
    assert_eq!(names(store, None, Some(3)), ["a@1", "b@1", "w@1"]);
    assert_eq!(names(store, None, Some(0)), Vec::<String>::new());
    assert_eq!(names(store, Some("resource"), None), Vec::<String>::new());
}

/// A deleted asset is gone from now on and still there before; its name goes on where its versions ended.
pub fn tombstones(store: &dyn Store) {
    expect_refusal!(commit(store, delete("script", "a")), StoreError::Missing { .. });
    done(store, put("script", "a", "1", &[]));
    assert_eq!(done(store, delete("script", "a")).outcomes, [Outcome::AssetDeleted { revision: 2 }]);
    expect_refusal!(commit(store, delete("script", "a")), StoreError::Missing { .. });
    assert_eq!(body(store, "script", "a", At::Latest), None);
    assert_eq!(body(store, "script", "a", At::Revision(2)), None);
    assert_eq!(body(store, "script", "a", At::Revision(1)).as_deref(), Some("1"));
    assert_eq!(body(store, "script", "a", At::Version(1)).as_deref(), Some("1"));
    let live = Unit::from(claim("k", "v")).guarded(Precondition::AssetLive(AssetName::new("script", "a")));
    expect_refusal!(commit(store, live), StoreError::Missing { .. });
    let again = Unit::from(put("script", "a", "2", &[])).guarded(Precondition::AssetAbsent(AssetName::new("script", "a")));
    assert_eq!(done(store, again).outcomes, [Outcome::AssetPut { version: 2, revision: 3 }]);
    assert_eq!(body(store, "script", "a", At::Revision(2)), None);
    assert_eq!(store.asset_versions(&AssetName::new("script", "a")).expect("readable").len(), 2);
}

/// What a live asset refers to cannot be deleted, and the refusal says what holds it.
pub fn references(store: &dyn Store) {
    let script = AssetName::new("script", "s");
    done(store, put("script", "s", "1", &[]));
    done(store, put("workflow", "w1", "1", &[("script", "s"), ("script", "s"), ("script", "t")]));
    done(store, put("workflow", "w2", "1", &[("script", "s")]));
    let holders = vec![AssetName::new("workflow", "w1"), AssetName::new("workflow", "w2")];
    assert_eq!(store.referrers(&script), Ok(holders.clone()));
    expect_refusal!(commit(store, delete("script", "s")), StoreError::Referenced { by, .. } if *by == holders);
    done(store, delete("workflow", "w1"));
    expect_refusal!(commit(store, delete("script", "s")), StoreError::Referenced { by, .. } if *by == holders[1..]);
    done(store, delete("workflow", "w2"));
    assert_eq!(store.referrers(&script), Ok(vec![]));
    done(store, delete("script", "s"));
    // An asset does not hold itself.
    done(store, put("workflow", "loop", "1", &[("workflow", "loop")]));
    done(store, delete("workflow", "loop"));
}

/// Every version of a live asset holds what it refers to, until it is said to be out of use.
pub fn references_of_old_versions(store: &dyn Store) {
    done(store, put("script", "s", "1", &[]));
    done(store, put("workflow", "w", "1", &[("script", "s")]));
    done(store, put("workflow", "w", "2", &[]));
    expect_refusal!(commit(store, delete("script", "s")), StoreError::Referenced { .. });
    let free = |version| Op::SetRefs { from: AssetName::new("workflow", "w"), version, to: vec![] };
    expect_refusal!(commit(store, free(3)), StoreError::Missing { .. });
    expect_refusal!(commit(store, free(0)), StoreError::Missing { .. });
    done(store, vec![free(1), delete("script", "s")]);
    let hold = Op::SetRefs { from: AssetName::new("workflow", "w"), version: 2, to: vec![AssetName::new("script", "t")] };
    done(store, hold);
    assert_eq!(store.referrers(&AssetName::new("script", "t")), Ok(vec![AssetName::new("workflow", "w")]));
}

/// In one unit the holder and the held can go together, in this order only.
pub fn deletion_in_one_unit(store: &dyn Store) {
    done(store, vec![put("script", "s", "1", &[]), put("workflow", "w", "1", &[("script", "s")])]);
    expect_refusal!(commit(store, vec![delete("script", "s"), delete("workflow", "w")]), StoreError::Referenced { .. });
    assert_eq!(store.referrers(&AssetName::new("script", "s")), Ok(vec![AssetName::new("workflow", "w")]));
    done(store, vec![delete("workflow", "w"), delete("script", "s")]);
    assert_eq!(names(store, None, None), Vec::<String>::new());
}

/// A unit can insist that the catalogue has not moved.
pub fn catalogue_guard(store: &dyn Store) {
    done(store, put("script", "s", "1", &[]));
    let at_one = || Unit::from(put("script", "s", "2", &[])).guarded(Precondition::Revision(1));
    done(store, at_one());
    expect_refusal!(commit(store, at_one()), StoreError::Conflict { expected: 1, actual: 2, .. });
}

/// What is erased is gone at every revision, for a deleted asset too; what is kept, and what others have, is as it was.
pub fn erasure(store: &dyn Store) {
    let erase = |name: &str, below| Op::EraseAsset { name: AssetName::new("resource", name), below };
    expect_refusal!(commit(store, erase("s", 9)), StoreError::Missing { .. });
    for text in ["1", "2", "3"] {
        done(store, vec![put("resource", "s", text, &[]), put("resource", "t", text, &[])]);
    }
    done(store, erase("s", 3));
    let read = |name: &str, version| body(store, "resource", name, At::Version(version)).expect("there");
    assert_eq!([1, 2, 3].map(|version| read("s", version)), ["", "", "3"]);
    assert_eq!([1, 2, 3].map(|version| read("t", version)), ["1", "2", "3"]);
    assert_eq!(body(store, "resource", "s", At::Revision(3)).as_deref(), Some(""));
    let versions = store.asset_versions(&AssetName::new("resource", "s")).expect("readable");
    assert_eq!(versions.iter().map(|info| (info.version, info.size)).collect::<Vec<_>>(), [(1, 0), (2, 0), (3, 1)]);
    assert_eq!(versions[0].hash, Hash::of(b"1"));
    // A unit that is refused erases nothing.
    expect_refusal!(commit(store, vec![erase("s", 9), delete("resource", "unknown")]), StoreError::Missing { .. });
    assert_eq!(read("s", 3), "3");
    done(store, vec![delete("resource", "s"), erase("s", u64::MAX)]);
    assert_eq!(read("s", 3), "");
    assert_eq!(done(store, put("resource", "s", "4", &[])).outcomes, [Outcome::AssetPut { version: 4, revision: 8 }]);
    assert_eq!(read("s", 4), "4");
}
