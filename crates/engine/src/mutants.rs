//! Seeded bugs that prove the simulator finds bugs. They exist only with the feature `mutants`, which nothing but the
//! simulator's own feature of that name turns on; without it [`on`] is the constant `false`.

/// A bug that can be seeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// One try more than the retry policy allows.
    RetryCeiling,
    /// `catch` and `continue` see a run that is being cancelled.
    RecoverFromCancel,
    /// Deferred tasks are submitted although the run failed.
    SubmitOnFailure,
    /// What took effect first is undone first.
    UndoForwards,
    /// What is undone is not known to be, and undone again.
    UndoTwice,
}

#[cfg(feature = "mutants")]
thread_local! {
    static SEEDED: std::cell::Cell<Option<Mutant>> = const { std::cell::Cell::new(None) };
}

/// Seeds a bug in this thread, or takes it out again.
#[cfg(feature = "mutants")]
pub fn seed(mutant: Option<Mutant>) {
    SEEDED.set(mutant);
}

/// Whether this bug is seeded.
#[cfg(feature = "mutants")]
pub(crate) fn on(mutant: Mutant) -> bool {
    SEEDED.get() == Some(mutant)
}

/// Whether this bug is seeded: never, in a normal build.
#[cfg(not(feature = "mutants"))]
pub(crate) const fn on(_: Mutant) -> bool {
    false
}
