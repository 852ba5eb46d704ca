//! Warnings about entries that nothing ever comes to.

use super::typed::{Entry, Kind};
use crate::diagnostic::Report;

/// Warns about what follows a `return` or a `fail` in the same list; an `if` whose branches all end so is not looked through.
pub fn warn(report: &mut Report<'_>, entries: &[Entry]) {
    for pair in entries.windows(2) {
        let [before, after] = pair else { continue };
        let kind = match before.kind {
            Kind::Return(_) => "return",
            Kind::Fail(_) => "fail",
            _ => continue,
        };
        report
            .warning("unreachable", after.id_span, format!("`{}` is never reached: the `{kind}` before it ends the workflow", after.id))
            .label(before.id_span, format!("the `{kind}`"))
            .help(format!("put the `{kind}` last, or into an `if`"));
    }
    for entry in entries {
        entry.kind.inner().into_iter().for_each(|inner| warn(report, inner));
    }
}
