//! Checks of runs: journals, versions, owners, lists.

use super::{append, batch, bodies, commit, create, done, owner, row, summary};
use crate::{EncodedBatch, Op, OpenRuns, Outcome, OwnerId, RunFilter, RunId, RunRow, Store, StoreError, Summary, expect_refusal};

/// A run and its journal come back as they were given.
pub fn run_round_trip(store: &dyn Store) {
    let summary = Summary {
        status: "waiting".to_owned(),
        wake_at: Some(-5),
        error_class: Some("timeout".to_owned()),
        error_code: Some("late".to_owned()),
        ended_at: Some(i64::MAX),
        status_since: Some(-7),
        moved_to: Some(3),
    };
    let row = RunRow { owner: None, summary, ..row("r") };
    let first = EncodedBatch { body: b"{}".to_vec(), events: 7 };
    assert_eq!(done(store, Op::CreateRun { row: row.clone(), first: first.clone() }).outcomes, [Outcome::Appended { batches: 1 }]);
    assert_eq!(store.run(&row.id), Ok(Some(row.clone())));
    assert_eq!(store.journal(&row.id, 0), Ok(vec![first]));
    assert_eq!(store.journal(&row.id, 1), Ok(vec![]));
    assert_eq!(store.run(&RunId::from("other")), Ok(None));
    expect_refusal!(store.journal(&RunId::from("other"), 0), StoreError::Missing { .. });
}

/// An id is taken once.
pub fn run_exists(store: &dyn Store) {
    done(store, create("r"));
    expect_refusal!(commit(store, create("r")), StoreError::Exists { what } if what.contains('r'));
    assert_eq!(bodies(store, "r", 0), [b"first"]);
}

/// Appends are accepted at the version they expect, and at no other.
pub fn append_versions(store: &dyn Store) {
    done(store, create("r"));
    assert_eq!(done(store, append("r", 1, "a")).outcomes, [Outcome::Appended { batches: 2 }]);
    for wrong in [0, 1, 3, u64::MAX] {
        expect_refusal!(commit(store, append("r", wrong, "no")), StoreError::Conflict { expected, actual: 2, .. } if *expected == wrong);
    }
    assert_eq!(done(store, append("r", 2, "b")).outcomes, [Outcome::Appended { batches: 3 }]);
    assert_eq!(bodies(store, "r", 0), [b"first".to_vec(), b"a".to_vec(), b"b".to_vec()]);
    assert_eq!(bodies(store, "r", 2), [b"b"]);
}

/// There is nothing to append to where there is no run.
pub fn append_to_missing_run(store: &dyn Store) {
    expect_refusal!(commit(store, append("r", 0, "a")), StoreError::Missing { .. });
    let claim = Op::ClaimRun { run: RunId::from("r"), from: None, to: owner() };
    expect_refusal!(commit(store, claim), StoreError::Missing { .. });
}

/// Only the owner appends.
pub fn append_is_fenced(store: &dyn Store) {
    done(store, create("r"));
    let other = OwnerId::from("owner-b");
    let foreign = Op::Append { run: RunId::from("r"), expected: 1, batch: batch("x"), summary: None, fence: other.clone() };
    expect_refusal!(commit(store, foreign.clone()), StoreError::Fenced { owner: Some(has), .. } if *has == owner());
    done(store, Op::ClaimRun { run: RunId::from("r"), from: Some(owner()), to: other });
    expect_refusal!(commit(store, append("r", 1, "a")), StoreError::Fenced { .. });
    done(store, foreign);
    assert_eq!(bodies(store, "r", 1), [b"x"]);
}

/// A run changes owner by compare and swap.
pub fn claim_and_release(store: &dyn Store) {
    let (run, a, b) = (RunId::from("r"), owner(), OwnerId::from("owner-b"));
    done(store, create("r"));
    let has = || store.run(&run).expect("readable").expect("there").owner;
    let claim = |from: Option<&OwnerId>, to: &OwnerId| Op::ClaimRun { run: run.clone(), from: from.cloned(), to: to.clone() };
    expect_refusal!(commit(store, claim(None, &b)), StoreError::Fenced { .. });
    expect_refusal!(commit(store, claim(Some(&b), &b)), StoreError::Fenced { .. });
    done(store, claim(Some(&a), &b));
    assert_eq!(has(), Some(b.clone()));
    expect_refusal!(commit(store, claim(Some(&a), &a)), StoreError::Fenced { owner: Some(_), .. });
    expect_refusal!(commit(store, Op::ReleaseRun { run: run.clone(), owner: a.clone() }), StoreError::Fenced { .. });
    done(store, Op::ReleaseRun { run: run.clone(), owner: b });
    assert_eq!(has(), None);
    expect_refusal!(commit(store, append("r", 1, "a")), StoreError::Fenced { owner: None, .. });
    done(store, claim(None, &a));
    done(store, append("r", 1, "a"));
}

/// A summary replaces what the row says; without one, the row stays.
pub fn summaries(store: &dyn Store) {
    done(store, create("r"));
    let shown = || store.run(&RunId::from("r")).expect("readable").expect("there").summary;
    done(store, append("r", 1, "a"));
    assert_eq!(shown(), summary("running"));
    let failed = Summary { error_class: Some("business".to_owned()), ended_at: Some(9), ..summary("failed") };
    let end = Op::Append { run: RunId::from("r"), expected: 2, batch: batch("b"), summary: Some(failed.clone()), fence: owner() };
    done(store, end);
    assert_eq!(shown(), failed);
    // A failed run can be resumed: its journal goes on.
    let again = Op::Append { run: RunId::from("r"), expected: 3, batch: batch("c"), summary: Some(summary("running")), fence: owner() };
    done(store, again);
    assert_eq!(shown(), summary("running"));
}

/// Lists are newest first, filtered, and paged by a cursor.
pub fn lists(store: &dyn Store) {
    for number in 0..10 {
        // Ids against the order of creation: it is creation that counts.
        let mut row = row(&format!("r{}", 9 - number));
        if number % 2 == 0 {
            row.workflow = "even".to_owned();
        }
        if number >= 5 {
            row.summary.status = "failed".to_owned();
            row.summary.error_class = Some(if number < 8 { "user" } else { "timeout" }.to_owned());
        }
        row.created_at = 100 + number;
        done(store, Op::CreateRun { row, first: batch("first") });
    }
    let ids = |filter: RunFilter| -> String {
        let rows = store.list_runs(&filter).expect("readable");
        rows.iter().map(|row| row.id.as_str().trim_start_matches('r')).collect()
    };
    let all = RunFilter::default;
    assert_eq!(ids(all()), "0123456789");
    assert_eq!(ids(RunFilter { error_class: Some("timeout".to_owned()), ..all() }), "01");
    assert_eq!(ids(RunFilter { since: Some(103), until: Some(106), ..all() }), "456");
    assert_eq!(ids(RunFilter { limit: 3, ..all() }), "012");
    assert_eq!(ids(RunFilter { limit: 3, before: Some(RunId::from("r2")), ..all() }), "345");
    assert_eq!(ids(RunFilter { before: Some(RunId::from("unknown")), ..all() }), "");
    assert_eq!(ids(RunFilter { workflow: Some("even".to_owned()), ..all() }), "13579");
    assert_eq!(ids(RunFilter { status: Some("failed".to_owned()), ..all() }), "01234");
    let both = RunFilter { status: Some("failed".to_owned()), workflow: Some("even".to_owned()), ..all() };
    assert_eq!(ids(both.clone()), "13");
    assert_eq!(ids(RunFilter { before: Some(RunId::from("r1")), ..both }), "3");
}

/// Unfinished runs are counted by workflow and status, and by how long they have had it.
pub fn open_runs(store: &dyn Store) {
    let put = |id: &str, workflow: &str, status: &str, status_since, ended_at| {
        let summary = Summary { status_since, ended_at, ..summary(status) };
        done(store, Op::CreateRun { row: RunRow { workflow: workflow.to_owned(), created_at: 40, summary, ..row(id) }, first: batch("first") });
    };
    put("a", "v", "waiting", Some(10), None);
    put("b", "v", "waiting", Some(20), None);
    put("c", "v", "running", Some(30), None);
    put("d", "u", "waiting", None, None);
    put("e", "u", "failed", Some(1), Some(1));
    let line = |workflow: &str, status: &str, count, since: &[u64]| OpenRuns {
        workflow: workflow.to_owned(),
        status: status.to_owned(),
        count,
        since: since.to_vec(),
    };
    let expected = vec![line("u", "waiting", 1, &[0, 1]), line("v", "running", 1, &[0, 1]), line("v", "waiting", 2, &[1, 2])];
    assert_eq!(store.open_runs(&[10, 40]), Ok(expected));
    let moved = Summary { status_since: Some(50), ..summary("waiting") };
    let wait = |id: &str, summary| Op::Append { run: RunId::from(id), expected: 1, batch: batch("x"), summary: Some(summary), fence: owner() };
    done(store, wait("c", moved));
    done(store, wait("a", Summary { ended_at: Some(60), ..summary("succeeded") }));
    assert_eq!(store.open_runs(&[]), Ok(vec![line("u", "waiting", 1, &[]), line("v", "waiting", 2, &[])]));
    assert_eq!(store.open_runs(&[49]).expect("readable")[1].since, [1]);
}

/// A run is found by the beginning of its id.
pub fn prefixes(store: &dyn Store) {
    for id in ["abc", "abd", "b", "ab%", "aé"] {
        done(store, create(id));
    }
    let found = |prefix: &str, limit| -> Vec<String> { store.find_run(prefix, limit).expect("readable").iter().map(ToString::to_string).collect() };
    assert_eq!(found("ab", 9), ["ab%", "abc", "abd"]);
    assert_eq!(found("ab", 2), ["ab%", "abc"]);
    assert_eq!(found("ab%", 9), ["ab%"]);
    assert_eq!(found("abc", 9), ["abc"]);
    assert_eq!(found("aé", 9), ["aé"]);
    assert_eq!(found("abcd", 9), Vec::<String>::new());
    assert_eq!(found("", 9).len(), 5);
}

/// A dead owner's unfinished runs are found; a living one's are not.
pub fn orphans_and_leases(store: &dyn Store) {
    let living = store.lease().expect("a lease");
    let dying = store.lease().expect("a lease");
    assert_ne!(living.owner(), dying.owner());
    let owned = |id: &str, owner: Option<&OwnerId>, ended_at| {
        let summary = Summary { ended_at, ..summary("running") };
        done(store, Op::CreateRun { row: RunRow { owner: owner.cloned(), summary, ..row(id) }, first: batch("first") });
    };
    owned("living", Some(living.owner()), None);
    owned("dying", Some(dying.owner()), None);
    owned("dying-too", Some(dying.owner()), None);
    owned("dying-ended", Some(dying.owner()), Some(1));
    owned("nobody", None, None);
    owned("stranger", Some(&OwnerId::from("../never/leased")), None);
    let orphans = |limit| -> Vec<String> {
        let mut ids: Vec<_> = store.orphans(limit).expect("readable").iter().map(|row| row.id.to_string()).collect();
        ids.sort();
        ids
    };
    assert_eq!(orphans(9), ["nobody", "stranger"]);
    let dead = dying.owner().clone();
    assert_eq!(store.is_alive(&dead), Ok(true));
    drop(dying);
    assert_eq!(store.is_alive(&dead), Ok(false));
    assert_eq!(store.is_alive(living.owner()), Ok(true));
    assert_eq!(orphans(9), ["dying", "dying-too", "nobody", "stranger"]);
    assert_eq!(orphans(2).len(), 2);
    assert_eq!(orphans(0).len(), 0);
    done(store, Op::ClaimRun { run: RunId::from("dying"), from: Some(dead), to: living.owner().clone() });
    assert_eq!(orphans(9), ["dying-too", "nobody", "stranger"]);
    store.sweep_owners().expect("swept");
    assert_eq!(store.is_alive(living.owner()), Ok(true));
}

/// Runs whose time has come are found, by owner, earliest first.
pub fn due_runs(store: &dyn Store) {
    for (id, wake_at, ended_at) in [("late", Some(30), None), ("early", Some(10), None), ("never", None, None), ("ended", Some(5), Some(6))] {
        let summary = Summary { wake_at, ended_at, ..summary("waiting") };
        done(store, Op::CreateRun { row: RunRow { summary, ..row(id) }, first: batch("first") });
    }
    let due = |now, limit| -> Vec<String> {
        let rows = store.runs_due(&owner(), now, limit).expect("readable");
        rows.iter().map(|row| row.id.to_string()).collect()
    };
    assert_eq!(due(9, 9), Vec::<String>::new());
    assert_eq!(due(10, 9), ["early"]);
    assert_eq!(due(30, 9), ["early", "late"]);
    assert_eq!(due(30, 1), ["early"]);
    assert_eq!(store.next_wake(&owner()), Ok(Some(10)));
    assert_eq!(store.next_wake(&OwnerId::from("other")), Ok(None));
    let awake = Op::Append { run: RunId::from("early"), expected: 1, batch: batch("woke"), summary: Some(summary("running")), fence: owner() };
    done(store, awake);
    assert_eq!(due(99, 9), ["late"]);
    assert_eq!(store.next_wake(&owner()), Ok(Some(30)));
}

/// Bodies are bytes: empty, with NULs, not text, large.
pub fn odd_bodies(store: &dyn Store) {
    done(store, create("r"));
    let odd = [Vec::new(), vec![0], b"a\0b".to_vec(), vec![0xff, 0xfe], "日本語 🦀".as_bytes().to_vec(), vec![b'x'; 1 << 20], vec![0; 1 << 20]];
    for (number, body) in odd.iter().enumerate() {
        done(store, append("r", number as u64 + 1, body.clone()));
    }
    assert_eq!(bodies(store, "r", 1), odd);
}

/// Names are any text: empty, with NULs and quotes, in any script; case counts.
pub fn odd_names(store: &dyn Store) {
    let odd = ["", "\0", "a\0b", "a\0c", "a", "A", "é", "e\u{301}", "日本語", "🦀", "'\"`;--", "%_", "\u{10ffff}"];
    for name in odd {
        done(store, vec![create(name), super::claim(name, name), super::put(name, name, name, &[])]);
    }
    for name in odd {
        assert_eq!(store.run(&RunId::from(name)).expect("readable").expect("there").id.as_str(), name);
        assert_eq!(store.key("test", name), Ok(Some(name.as_bytes().to_vec())));
        let asset = store.asset(&crate::AssetName::new(name, name), crate::At::Latest).expect("readable").expect("there");
        assert_eq!((asset.body.as_slice(), asset.info.name.name.as_str()), (name.as_bytes(), name));
    }
}

/// All of a dead owner's runs of one status change hands at once; the others stay.
pub fn claim_runs(store: &dyn Store) {
    let heir = OwnerId::from("heir");
    for (id, status) in [("a", "waiting"), ("b", "running"), ("c", "waiting")] {
        done(store, create(id));
        done(store, Op::Append { run: RunId::from(id), expected: 1, batch: batch("x"), summary: Some(summary(status)), fence: owner() });
    }
    let claim = Op::ClaimRuns { from: owner(), to: heir.clone(), status: "waiting".to_owned() };
    assert_eq!(done(store, claim.clone()).outcomes, [Outcome::Taken { runs: 2 }]);
    assert_eq!(done(store, claim).outcomes, [Outcome::Taken { runs: 0 }]);
    let owners = ["a", "b", "c"].map(|id| store.run(&RunId::from(id)).expect("readable").expect("there").owner);
    assert_eq!(owners, [Some(heir.clone()), Some(owner()), Some(heir.clone())]);
    expect_refusal!(commit(store, append("a", 2, "late")), StoreError::Fenced { .. });
    done(store, Op::Append { run: RunId::from("c"), expected: 2, batch: batch("y"), summary: None, fence: heir });
}
