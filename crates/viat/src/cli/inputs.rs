//! What commands read: files, JSON from an argument, a file or stdin, durations, names.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;

use serde_json::Value;

use super::error::CliError;
use super::given;
use crate::api::Kind;

/// The largest input that is read, in bytes.
const MAX_INPUT: u64 = 64 << 20;

/// Reads a file of at most `limit` bytes.
pub fn file(path: &Path, limit: u64) -> Result<Vec<u8>, CliError> {
    let cannot = |error: &dyn std::fmt::Display| CliError::usage(format!("{} cannot be read: {error}", path.display()));
    let here = || {
        let mut bytes = Vec::new();
        std::fs::File::open(path)?.take(limit + 1).read_to_end(&mut bytes).map(|_| bytes)
    };
    let bytes = match given::read(Kind::File, path, limit) {
        Some(given) => given.map_err(|error| if error.is_usage() { cannot(&error.message()) } else { error })?,
        None => here().map_err(|error| cannot(&error))?,
    };
    if bytes.len() as u64 > limit {
        return Err(CliError::usage(format!("{} is larger than {limit} bytes, the most that is taken", path.display())));
    }
    Ok(bytes)
}

/// The names in a folder; `None` if it is not there.
pub fn folder(path: &Path) -> Result<Option<BTreeSet<String>>, CliError> {
    let cannot = |error: &dyn std::fmt::Display| CliError::usage(format!("{} cannot be read: {error}", path.display()));
    if let Some(given) = given::folder(path) {
        return given.map_err(|error| if error.is_usage() { cannot(&error.message()) } else { error });
    }
    if !path.exists() {
        return Ok(None);
    }
    let entries = std::fs::read_dir(path).map_err(|error| cannot(&error))?;
    let names = entries.map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned()));
    names.collect::<std::io::Result<_>>().map(Some).map_err(|error| cannot(&error))
}

fn stdin() -> Result<Vec<u8>, CliError> {
    if let Some(given) = given::read(Kind::Stdin, Path::new(""), MAX_INPUT) {
        return given;
    }
    let mut text = Vec::new();
    let read = std::io::stdin().lock().take(MAX_INPUT + 1).read_to_end(&mut text);
    read.map(|_| text).map_err(|error| CliError::usage(format!("stdin cannot be read: {error}")))
}

/// JSON given as text, as `@FILE`, or as `-` for stdin.
pub fn json(argument: &str, what: &str) -> Result<Value, CliError> {
    let text = if argument == "-" {
        stdin()?
    } else if let Some(path) = argument.strip_prefix('@') {
        file(Path::new(path), MAX_INPUT)?
    } else {
        argument.as_bytes().to_vec()
    };
    if text.len() as u64 > MAX_INPUT {
        return Err(CliError::usage(format!("{what} is larger than {MAX_INPUT} bytes")));
    }
    let text = String::from_utf8(text).map_err(|_| CliError::usage(format!("{what} is not UTF-8 text")))?;
    // The dialect's reader refuses integers that would silently lose digits.
    viat_dialect::json::parse(&text)
        .map_err(|error| CliError::usage(format!("{what} is not JSON: {error}")).help("give JSON, @FILE, or - to read it from stdin"))
}

/// Checks an asset's name.
pub fn name(kind: &str, name: &str) -> Result<(), CliError> {
    let mut characters = name.chars();
    let first = characters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_');
    let rest = characters.all(|each| each.is_ascii_alphanumeric() || matches!(each, '_' | '.' | '-'));
    if first && rest && name.len() <= 128 {
        return Ok(());
    }
    let rule = "a letter or _ first, then letters, digits, _ . -, at most 128 in all";
    Err(CliError::usage(format!("{name:?} cannot name a {kind}: {rule}")))
}

/// A duration as the language writes it; `None` if none was given.
pub fn duration(text: Option<&str>, flag: &str) -> Result<Option<u64>, CliError> {
    let Some(text) = text else { return Ok(None) };
    let parsed = viat_dialect::duration::parse(text).map_err(|error| CliError::usage(format!("{flag}: {error}")).help(viat_dialect::duration::ALLOWED))?;
    Ok(parsed.millis())
}

/// Now, in milliseconds since 1970.
pub fn now() -> i64 {
    viat_runner::clock::wall_now()
}
