//! `cargo xtask tidy`: the house rules that the compiler does not know. STYLE.md says why they are there.

mod depends;
mod documents;
mod functions;
mod sources;

use std::path::{Path, PathBuf};

use crate::output;
use crate::shell::Done;

/// What tidy found.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// Broken rules, each with its place.
    pub problems: Vec<String>,
    /// The median length of a source file, in lines.
    pub median_lines: usize,
    /// How many source files there are.
    pub files: usize,
}

/// A source file.
struct Source {
    /// Relative to the workspace.
    path: String,
    text: String,
}

/// Checks the workspace; a broken rule is an error.
pub fn run() -> Done {
    let found = check(&crate::root())?;
    for problem in &found.problems {
        output::line(problem);
    }
    output::line(&format!("{} source files, median {} lines (budget 150)", found.files, found.median_lines));
    match found.problems.len() {
        0 => Ok(()),
        count => Err(format!("{count} broken rules; STYLE.md has the reasons").into()),
    }
}

/// Checks the workspace in `root`.
///
/// # Errors
/// A file could not be read.
pub fn check(root: &Path) -> Done<Findings> {
    let mut sources = Vec::new();
    for path in files(root, "rs")? {
        sources.push(Source { text: std::fs::read_to_string(root.join(&path))?, path });
    }
    let exceptions = std::fs::read_to_string(root.join("tidy-exceptions.txt")).unwrap_or_default();
    let mut problems = depends::check(root)?;
    problems.extend(sources.iter().flat_map(sources::check));
    problems.extend(functions::check(&sources, &exceptions));
    problems.extend(documents::check(root)?);
    let mut lengths: Vec<usize> = sources.iter().map(|source| source.text.lines().count()).collect();
    lengths.sort_unstable();
    let median_lines = lengths.get(lengths.len() / 2).copied().unwrap_or_default();
    Ok(Findings { problems, median_lines, files: sources.len() })
}

/// Files with this extension, relative to `root`, sorted; what is built or hidden is left out.
fn files(root: &Path, extension: &str) -> std::io::Result<Vec<String>> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(root.join(&folder))? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = folder.join(&name);
            if entry.file_type()?.is_dir() {
                if !name.starts_with('.') && name != "target" && name != "node_modules" {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|found| found == extension) {
                found.push(path.to_string_lossy().into_owned());
            }
        }
    }
    found.sort();
    Ok(found)
}
