//! Who may depend on whom, that each dependency says what it is for, and that each crate has the lints on.

use std::path::Path;

use toml::Table;

use crate::shell::Done;

/// What each crate may use of ours; a crate that is not listed here has not been thought about.
const ALLOWED: &[(&str, &[&str])] = &[
    ("engine", &[]),
    ("dialect", &["engine"]),
    ("store", &["engine"]),
    ("runner", &["engine", "store"]),
    ("viat", &["engine", "dialect", "store", "runner"]),
    ("simulator", &["engine", "dialect", "store", "runner"]),
    ("xtask", &["engine", "dialect", "store", "runner", "simulator"]),
];

/// Names that say nothing of what is inside.
const EMPTY_NAMES: [&str; 4] = ["common", "utils", "types", "core"];

/// Crates in which no clock, file, thread or unordered map may be named: clippy knows from a file of theirs.
const PURE: [&str; 2] = ["engine", "dialect"];

pub(super) fn check(root: &Path) -> Done<Vec<String>> {
    let mut problems = uncommented(&std::fs::read_to_string(root.join("Cargo.toml"))?, "Cargo.toml", true);
    for entry in std::fs::read_dir(root.join("crates"))? {
        let folder = entry?.path();
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let place = format!("crates/{name}/Cargo.toml");
        let text = std::fs::read_to_string(folder.join("Cargo.toml")).map_err(|error| format!("{place}: {error}"))?;
        problems.extend(manifest(&name, &place, &text)?);
        if PURE.contains(&name.as_str()) && !folder.join("clippy.toml").is_file() {
            problems.push(format!("crates/{name}: no clippy.toml that bans clocks, files and threads"));
        }
    }
    problems.sort();
    Ok(problems)
}

fn manifest(name: &str, place: &str, text: &str) -> Done<Vec<String>> {
    let mut problems = uncommented(text, place, false);
    let manifest: Table = text.parse().map_err(|error| format!("{place}: {error}"))?;
    if EMPTY_NAMES.contains(&name) {
        problems.push(format!("{place}: {name} says nothing of what is inside"));
    }
    let on = manifest.get("lints").and_then(|lints| lints.get("workspace")).and_then(toml::Value::as_bool);
    if on != Some(true) {
        problems.push(format!("{place}: the workspace's lints are not on (`[lints] workspace = true`)"));
    }
    let Some((_, allowed)) = ALLOWED.iter().find(|(known, _)| *known == name) else {
        problems.push(format!("{place}: crates/xtask/src/tidy/depends.rs does not say what {name} may depend on"));
        return Ok(problems);
    };
    // What tests use is not held against a crate.
    for section in ["dependencies", "build-dependencies"] {
        let used = manifest.get(section).and_then(toml::Value::as_table).into_iter().flat_map(|table| table.keys());
        for ours in used.filter_map(|key| key.strip_prefix("viat-")).filter(|ours| !allowed.contains(ours)) {
            problems.push(format!("{place}: {name} may not depend on {ours}"));
        }
    }
    Ok(problems)
}

/// Dependencies that neither their line nor the one above says the use of. Ours and those of the workspace need none.
fn uncommented(text: &str, place: &str, is_root: bool) -> Vec<String> {
    let mut problems = Vec::new();
    let (mut inside, mut above) = (false, false);
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.starts_with('[') {
            inside = line.contains("dependencies");
        } else if inside && line.contains(" = ") && !line.starts_with('#') {
            let known = line.starts_with("viat-") || (!is_root && line.contains("workspace = true"));
            if !known && !line.contains(" # ") && !above {
                problems.push(format!("{place}:{}: say what {} is for", number + 1, line.split(' ').next().unwrap_or_default()));
            }
        }
        above = line.starts_with('#');
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_engine_may_not_use_the_store() {
        let text = "[dependencies]\nviat-store = { workspace = true }\n\n[lints]\nworkspace = true\n";
        assert_eq!(manifest("engine", "x", text).unwrap(), ["x: engine may not depend on store"]);
        assert!(manifest("runner", "x", text).unwrap().is_empty());
    }

    #[test]
    fn a_dependency_says_what_it_is_for() {
        let text = "[dependencies]\nnew = \"1\"\nold = \"1\" # dates\nserde = { workspace = true }\n";
        assert_eq!(uncommented(text, "x", false), ["x:2: say what new is for"]);
    }
}
