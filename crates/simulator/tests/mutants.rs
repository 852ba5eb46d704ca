//! Proves that the stories find bugs: each seeded one must be found. `cargo test -p viat-simulator --features mutants --test mutants`.

use viat_engine::mutants::{Mutant, seed};
use viat_simulator::case::Case;
use viat_simulator::stories::tell;

/// A mutant that survives this many stories is not found.
const STORIES: u64 = 10_000;

#[test]
fn every_seeded_bug_is_found() {
    let languages = Case::languages();
    for mutant in [Mutant::RetryCeiling, Mutant::RecoverFromCancel, Mutant::SubmitOnFailure, Mutant::UndoForwards, Mutant::UndoTwice] {
        seed(Some(mutant));
        let found = (0..STORIES).find_map(|number| tell(number, &languages).err().map(|problem| (number, problem)));
        seed(None);
        let (number, problem) = found.unwrap_or_else(|| panic!("{mutant:?} survived {STORIES} stories"));
        println!("{mutant:?} found by {}", problem.lines().next().unwrap_or("").trim_end());
        assert!(tell(number, &languages).is_ok(), "story {number} fails without the mutant, too");
    }
}
