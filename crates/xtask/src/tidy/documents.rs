//! What the documents keep to: both languages name the same commands, and each folder of cases is described.

use std::collections::BTreeSet;
use std::path::Path;

use crate::shell::Done;

const READMES: [&str; 2] = ["README.md", "README.zh-CN.md"];

pub(super) fn check(root: &Path) -> Done<Vec<String>> {
    let mut problems = Vec::new();
    if let [Ok(english), Ok(chinese)] = READMES.map(|name| std::fs::read_to_string(root.join(name))) {
        problems.extend(differences(&commands(&english), &commands(&chinese)));
    }
    problems.extend(undescribed(root)?);
    Ok(problems)
}

fn differences(english: &BTreeSet<String>, chinese: &BTreeSet<String>) -> Vec<String> {
    let missing = |here: &BTreeSet<String>, there: &BTreeSet<String>, name: &str| -> Vec<String> {
        here.difference(there).map(|command| format!("{name}: lacks `{command}`, which the other language has")).collect()
    };
    let mut problems = missing(english, chinese, READMES[1]);
    problems.extend(missing(chinese, english, READMES[0]));
    problems
}

/// The lines of code blocks that start one of our programs.
fn commands(text: &str) -> BTreeSet<String> {
    let mut inside = false;
    let mut found = BTreeSet::new();
    for line in text.lines().map(str::trim) {
        if line.starts_with("```") {
            inside = !inside;
        } else if inside {
            let line = line.trim_start_matches("$ ");
            // What follows two blanks and a `#` is said in the reader's language.
            let command = line.split(" #").next().unwrap_or_default().trim();
            if ["viat ", "./viat ", "cargo "].iter().any(|program| command.starts_with(program)) {
                found.insert(command.to_owned());
            }
        }
    }
    found
}

/// Folders of cases that neither have a README.md nor stand in the list of ARCHITECTURE.md.
fn undescribed(root: &Path) -> Done<Vec<String>> {
    let cases = root.join("cases");
    if !cases.is_dir() {
        return Ok(Vec::new());
    }
    let map = std::fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap_or_default();
    let mut problems = Vec::new();
    for entry in std::fs::read_dir(&cases)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type()?.is_dir() && !entry.path().join("README.md").is_file() && !is_listed(&map, &name) {
            problems.push(format!("cases/{name}: neither a README.md nor a row `cases/{name}` in ARCHITECTURE.md"));
        }
    }
    problems.sort();
    Ok(problems)
}

/// The whole name in backticks: `if` is part of many words.
fn is_listed(map: &str, name: &str) -> bool {
    map.contains(&format!("`cases/{name}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_languages_name_the_same_commands() {
        let english = commands("```sh\n$ viat doctor # checks\ncargo build\n```\nviat in prose\n");
        assert_eq!(english.len(), 2);
        assert_eq!(differences(&english, &commands("```\nviat doctor\n```\n")), ["README.zh-CN.md: lacks `cargo build`, which the other language has"]);
    }

    #[test]
    fn a_folder_is_listed_by_its_whole_name() {
        assert!(is_listed("| `cases/if` | branches |", "if"));
        assert!(!is_listed("a life, `cases/iffy`", "if"));
    }
}
