//! Keeps a result in docs/benchmarks.md, between two marks.

use super::report::Report;
use crate::output;
use crate::shell::Done;

const BEGIN: &str = "<!-- result: written by cargo xtask bench --record -->";
const END: &str = "<!-- end of result -->";

/// Puts the result in the place of the one before.
pub fn write(report: &Report) -> Done {
    let path = crate::root().join("docs/benchmarks.md");
    let text = std::fs::read_to_string(&path)?;
    let (before, rest) = text.split_once(BEGIN).ok_or("docs/benchmarks.md has no mark where the result begins")?;
    let (_, after) = rest.split_once(END).ok_or("docs/benchmarks.md has no mark where the result ends")?;
    std::fs::write(&path, format!("{before}{BEGIN}\n\n{}\n{END}{after}", section(report)))?;
    output::note("written to docs/benchmarks.md");
    Ok(())
}

fn section(report: &Report) -> String {
    let mut lines = vec![report.machine_line(), String::new()];
    lines.extend(report.caution().map(|caution| format!("**Caution:** {caution}.\n")));
    lines.extend(["| measured | |".to_owned(), "|---|---|".to_owned()]);
    lines.extend(report.figures().iter().map(|(name, value)| format!("| {name} | {value} |")));
    lines.extend([String::new(), "| target | found | |".to_owned(), "|---|---|---|".to_owned()]);
    lines.extend(report.verdicts().iter().map(|verdict| {
        let word = if verdict.met { "met" } else { "missed" };
        format!("| {} | {} | {word} |", verdict.target, verdict.found)
    }));
    lines.push(String::new());
    lines.join("\n")
}
