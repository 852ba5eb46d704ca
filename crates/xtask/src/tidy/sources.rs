//! What each source file keeps to by itself.

use super::Source;

/// A file of this length wants to be two.
const ALARM_LINES: usize = 800;
/// decide.rs only sends inputs where they belong.
const DECIDE_LINES: usize = 300;

pub(super) fn check(source: &Source) -> Vec<String> {
    let Source { path, text } = source;
    let mut problems = Vec::new();
    let lines = text.lines().count();
    if !text.starts_with("//! ") {
        problems.push(format!("{path}:1: the file does not open with a `//!` sentence on what it is for"));
    }
    if lines > ALARM_LINES {
        problems.push(format!("{path}: {lines} lines, the alarm is at {ALARM_LINES}"));
    }
    if path == "crates/engine/src/decide.rs" && lines >= DECIDE_LINES {
        problems.push(format!("{path}: {lines} lines; it only routes, in fewer than {DECIDE_LINES}"));
    }
    for (number, line) in text.lines().enumerate() {
        let place = format!("{path}:{}", number + 1);
        if line.contains('\t') {
            problems.push(format!("{place}: a tab"));
        }
        if line.ends_with(' ') {
            problems.push(format!("{place}: spaces at the end"));
        }
        problems.extend(words(path, line).map(|problem| format!("{place}: {problem}")));
    }
    problems
}

fn words(path: &str, line: &str) -> Option<String> {
    let code = line.split("//").next().unwrap_or_default();
    if path.starts_with("crates/runner/src/script/") && code.contains("viat_engine") {
        return Some("runner/script knows nothing of the engine".to_owned());
    }
    let unfinished = ["todo", "dbg", "unimplemented"].map(|word| format!("{word}!("));
    if let Some(word) = unfinished.iter().find(|word| code.contains(word.as_str())) {
        return Some(format!("{word}...) is not for code that is kept"));
    }
    let prints = ["println!(", "print!(", "eprintln!(", "eprint!("].iter().any(|word| code.contains(word));
    let may_print = path.starts_with("crates/viat/src/cli/") || ["crates/xtask/", "/tests/", "/examples/"].iter().any(|part| path.contains(part));
    (prints && !may_print).then(|| "only the command line prints".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(path: &str, text: &str) -> Vec<String> {
        check(&Source { path: path.to_owned(), text: text.to_owned() })
    }

    #[test]
    fn a_file_says_what_it_is_for() {
        assert_eq!(problems("a.rs", "use x;\n").len(), 1);
        assert!(problems("a.rs", "//! Something.\n").is_empty());
    }

    #[test]
    fn scripts_know_nothing_of_the_engine() {
        let text = "//! Something.\nuse viat_engine::Run;\n";
        assert_eq!(problems("crates/runner/src/script/call.rs", text).len(), 1);
        assert!(problems("crates/runner/src/driver/mod.rs", text).is_empty());
    }

    #[test]
    fn prints_and_stray_blanks_are_seen() {
        let text = format!("//! Something.\n{}!(\"x\");\nlet x = 1; \n", "println");
        assert_eq!(problems("crates/engine/src/run.rs", &text).len(), 2);
    }
}
