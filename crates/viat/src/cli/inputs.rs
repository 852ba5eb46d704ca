//! What commands read: files, JSON from an argument, a file or stdin, durations, names.

use std::io::Read;
use std::path::Path;

use serde_json::Value;

use super::error::CliError;

/// The largest input that is read, in bytes.
const MAX_INPUT: u64 = 64 << 20;

/// Reads a file of at most `limit` bytes.
pub fn file(path: &Path, limit: u64) -> Result<Vec<u8>, CliError> {
    let cannot = |error: std::io::Error| CliError::usage(format!("{} cannot be read: {error}", path.display()));
    let opened = std::fs::File::open(path).map_err(cannot)?;
    let mut bytes = Vec::new();
    opened.take(limit + 1).read_to_end(&mut bytes).map_err(cannot)?;
    if bytes.len() as u64 > limit {
        return Err(CliError::usage(format!("{} is larger than {limit} bytes, the most that is taken", path.display())));
    }
    Ok(bytes)
}

/// JSON given as text, as `@FILE`, or as `-` for stdin.
pub fn json(argument: &str, what: &str) -> Result<Value, CliError> {
    let text = if argument == "-" {
        let mut text = Vec::new();
        std::io::stdin().lock().take(MAX_INPUT + 1).read_to_end(&mut text).map_err(|error| CliError::usage(format!("stdin cannot be read: {error}")))?;
        text
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
