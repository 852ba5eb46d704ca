//! Checks of the index of reviews.

use super::{append, commit, create, done};
use crate::{Op, ReviewFilter, ReviewRow, RunId, Store, StoreError, expect_refusal};

fn review(id: &str, run: &str) -> ReviewRow {
    ReviewRow {
        id: id.to_owned(),
        run: RunId::from(run),
        path: "check".to_owned(),
        title: "Check the draft".to_owned(),
        assignees: Vec::new(),
        status: "pending_review".to_owned(),
        created_at: 7,
        due: None,
        decided_at: None,
        by: None,
        comment: None,
    }
}

/// A review comes back as it was put, and as it was put last.
pub fn review_round_trip(store: &dyn Store) {
    let odd = ReviewRow {
        path: "each[3].check".to_owned(),
        title: "'\"\0 日本語".to_owned(),
        assignees: vec!["editors".to_owned(), "o'ne, \"two\"".to_owned(), String::new()],
        due: Some(i64::MAX),
        decided_at: Some(-1),
        by: Some(String::new()),
        comment: Some("🦀\n".to_owned()),
        ..review("a", "r")
    };
    for row in [review("a", "r"), odd, review("a", "r")] {
        done(store, Op::PutReview(row.clone()));
        assert_eq!(store.review("a"), Ok(Some(row)));
    }
    assert_eq!(store.review("b"), Ok(None));
    assert_eq!(store.reviews(&ReviewFilter::default()).expect("readable").len(), 1);
}

/// Reviews are listed newest first, filtered, in pages; a change does not move one.
pub fn review_lists(store: &dyn Store) {
    for number in 0..8 {
        // The ids fall while the reviews get younger: it is creation that counts.
        let mut row = review(&format!("v{}", 7 - number), if number % 2 == 0 { "even" } else { "odd" });
        if number < 3 {
            row.assignees = vec!["ada".to_owned(), format!("n{number}")];
        }
        done(store, Op::PutReview(row));
    }
    done(store, Op::PutReview(ReviewRow { status: "approved".to_owned(), ..review("v7", "even") }));
    let ids = |filter: ReviewFilter| -> String {
        let rows = store.reviews(&filter).expect("readable");
        rows.iter().map(|row| row.id.trim_start_matches('v')).collect()
    };
    let all = ReviewFilter::default;
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(ids(all()), "01234567");
    assert_eq!(ids(ReviewFilter { limit: 2, ..all() }), "01");
    assert_eq!(ids(ReviewFilter { limit: 2, before: text("v1"), ..all() }), "23");
    assert_eq!(ids(ReviewFilter { before: text("unknown"), ..all() }), "");
    assert_eq!(ids(ReviewFilter { status: text("approved"), ..all() }), "7");
    assert_eq!(ids(ReviewFilter { run: Some(RunId::from("odd")), ..all() }), "0246");
    assert_eq!(ids(ReviewFilter { assignee: text("ada"), ..all() }), "56", "v7 was put again, without its assignees");
    assert_eq!(ids(ReviewFilter { assignee: text("n2"), ..all() }), "5");
    assert_eq!(ids(ReviewFilter { assignee: text("ad"), ..all() }), "");
    let both = ReviewFilter { status: text("pending_review"), run: Some(RunId::from("even")), ..all() };
    assert_eq!(ids(both.clone()), "135");
    assert_eq!(ids(ReviewFilter { before: text("v1"), limit: 1, ..both }), "3");
}

/// A review changes with its run's journal or not at all.
pub fn review_in_a_unit(store: &dyn Store) {
    done(store, vec![create("r"), Op::PutReview(review("a", "r"))]);
    let decided = || Op::PutReview(ReviewRow { status: "approved".to_owned(), by: Some("ada".to_owned()), ..review("a", "r") });
    let refused = vec![decided(), Op::PutReview(review("b", "r")), append("r", 9, "x")];
    expect_refusal!(commit(store, refused), StoreError::Conflict { .. });
    assert_eq!(store.review("a"), Ok(Some(review("a", "r"))));
    assert_eq!(store.review("b"), Ok(None));
    done(store, vec![append("r", 1, "x"), decided()]);
    assert_eq!(store.review("a").expect("readable").expect("there").by.as_deref(), Some("ada"));
}
