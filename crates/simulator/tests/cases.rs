//! Runs every case under `cases/`: its trace, then the engine dying after every batch. `VIAT_BLESS=1` rewrites the traces.

use std::fs;
use std::path::{Path, PathBuf};

use viat_simulator::case::Case;
use viat_simulator::crash;
use viat_simulator::sound;
use viat_simulator::trace::trace;

/// How long no engine is up after a crash: not at all, shortly, for long.
const DOWN_MS: [i64; 3] = [0, 150, 100_000];

#[test]
fn every_case_leaves_its_trace() {
    let bless = std::env::var_os("VIAT_BLESS").is_some();
    let mut failures = Vec::new();
    let files = files();
    for file in &files {
        if let Err(problem) = shows(file, bless) {
            failures.push(format!("--- {}\n{problem}", file.display()));
        }
    }
    println!("{} cases", files.len());
    assert!(failures.is_empty(), "{} of {} cases fail\n{}", failures.len(), files.len(), failures.join("\n"));
}

#[test]
fn every_case_survives_a_crash_after_every_batch() {
    let languages = Case::languages();
    let (mut points, mut failures) = (0, Vec::new());
    let files = files();
    for file in &files {
        let Ok(case) = read(file) else { continue };
        for down_ms in DOWN_MS {
            match crash::everywhere(&case, &languages, down_ms) {
                Ok(crashes) => points += crashes,
                Err(problem) => failures.push(format!("--- {}\n{problem}", file.display())),
            }
        }
    }
    println!("{points} crashes in {} cases", files.len());
    assert!(failures.is_empty(), "{} crashes go wrong\n{}", failures.len(), failures.join("\n"));
}

fn shows(file: &Path, bless: bool) -> Result<(), String> {
    let case = read(file)?;
    let languages = Case::languages();
    let mut world = case.world(&languages);
    let played = world.play(&[]);
    let got = trace(&world);
    played.map_err(|problem| format!("{problem}\n{got}"))?;
    sound::check(&world)?;
    if bless {
        let text = fs::read_to_string(file).map_err(|error| error.to_string())?;
        let head = text.split("=== trace\n").next().unwrap_or(&text);
        return fs::write(file, format!("{head}=== trace\n{got}")).map_err(|error| error.to_string());
    }
    if got == case.trace { Ok(()) } else { Err(format!("{}\n{}", case.title, diff(&case.trace, &got))) }
}

fn read(file: &Path) -> Result<Case, String> {
    let text = fs::read_to_string(file).map_err(|error| error.to_string())?;
    Case::parse(&text)
}

/// The lines that differ, `-` expected and `+` found, with what is common before and after left as it is.
fn diff(expected: &str, found: &str) -> String {
    let (left, right): (Vec<&str>, Vec<&str>) = (expected.lines().collect(), found.lines().collect());
    let before = left.iter().zip(&right).take_while(|(left, right)| left == right).count();
    let rest = left.len().min(right.len()) - before;
    let after = left.iter().rev().zip(right.iter().rev()).take(rest).take_while(|(left, right)| left == right).count();
    let mut lines: Vec<String> = left[..before].iter().map(|line| format!("  {line}")).collect();
    lines.extend(left[before..left.len() - after].iter().map(|line| format!("- {line}")));
    lines.extend(right[before..right.len() - after].iter().map(|line| format!("+ {line}")));
    lines.extend(left[left.len() - after..].iter().map(|line| format!("  {line}")));
    lines.join("\n")
}

fn files() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../../cases")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
            let path = entry.expect("a directory entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "case") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}
