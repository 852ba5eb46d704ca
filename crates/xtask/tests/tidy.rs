//! The house rules hold: run with the other tests, so that nobody has to remember to ask.

#[test]
fn the_workspace_is_tidy() {
    let found = xtask::tidy::check(&xtask::root()).unwrap();
    assert!(found.problems.is_empty(), "{}", found.problems.join("\n"));
}
