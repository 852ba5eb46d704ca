//! Where a command's words go: results to stdout, everything else to stderr; colour only where somebody can see it.

use std::io::{IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;

use super::error::CliError;

/// The variable that says what is known of a terminal elsewhere.
pub const TERMINAL: &str = "VIAT_TERMINAL";

/// How to print.
#[derive(Clone, Debug)]
pub struct Output {
    /// Results as JSON.
    pub json: bool,
    /// Whether stderr is a terminal that wants colour.
    pub coloured: bool,
    /// Whether stderr is a terminal at all.
    pub terminal: bool,
    /// Whether stdout is one.
    pub stdout_terminal: bool,
    /// Where results go instead of to stdout; then what is for people is not said.
    kept: Option<Arc<Mutex<Vec<u8>>>>,
}

/// Text without the control characters that could take over a terminal: what scripts say is not to be trusted.
pub fn printable(text: &str) -> String {
    text.chars().map(|each| if each.is_control() && each != '\t' && each != '\n' { '\u{fffd}' } else { each }).collect()
}

impl Output {
    /// As the terminal and `NO_COLOR` ask for.
    pub fn new(json: bool) -> Output {
        // A command that was typed elsewhere has its terminal there.
        if let Ok(elsewhere) = std::env::var(TERMINAL) {
            let has = |name: &str| elsewhere.split(',').any(|each| each == name);
            return Output { json, coloured: has("coloured"), terminal: false, stdout_terminal: has("stdout"), kept: None };
        }
        let terminal = std::io::stderr().is_terminal();
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty()) || std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Output { json, coloured: terminal && !plain, terminal, stdout_terminal: std::io::stdout().is_terminal(), kept: None }
    }

    /// Keeps results as JSON for whoever asked, instead of printing them.
    pub fn keeping() -> Output {
        Output { json: true, coloured: false, terminal: false, stdout_terminal: false, kept: Some(Arc::default()) }
    }

    /// What was kept: the one result, or `null`.
    pub fn kept(&self) -> serde_json::Value {
        let Some(kept) = &self.kept else { return serde_json::Value::Null };
        serde_json::from_slice(&kept.lock().unwrap_or_else(PoisonError::into_inner)).unwrap_or_default()
    }

    /// One line of a result.
    pub fn line(&self, text: &str) -> Result<(), CliError> {
        if let Some(kept) = &self.kept {
            kept.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(text.as_bytes());
            return Ok(());
        }
        let mut stdout = std::io::stdout().lock();
        let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.write_all(b"\n")).and_then(|()| stdout.flush());
        match written {
            // Whoever reads it has enough.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
            Err(error) => Err(CliError::usage(format!("stdout cannot be written to: {error}"))),
            Ok(()) => Ok(()),
        }
    }

    /// A result as one line of compact JSON.
    pub fn value(&self, value: &impl Serialize) -> Result<(), CliError> {
        let text = serde_json::to_string(value).map_err(|error| CliError::usage(format!("the result cannot be printed: {error}")))?;
        self.line(&text)
    }

    /// A line for people, beside the result.
    pub fn note(&self, text: &str) {
        if self.kept.is_some() {
            return;
        }
        // A closed stderr has no reader.
        let _ = writeln!(std::io::stderr().lock(), "{text}");
    }

    /// Text in an ANSI style, where colour is wanted.
    pub fn paint(&self, style: &str, text: &str) -> String {
        if self.coloured { format!("\u{1b}[{style}m{text}\u{1b}[0m") } else { text.to_owned() }
    }

    /// Rows under a heading, in columns; the heading is left out where there are no rows.
    pub fn table(&self, heading: &[&str], rows: &[Vec<String>], empty: &str) -> Result<(), CliError> {
        if rows.is_empty() {
            self.note(empty);
            return Ok(());
        }
        let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).chain([heading[column].chars().count()]).max().unwrap_or(0);
        let widths: Vec<usize> = (0..heading.len()).map(width).collect();
        let draw = |cells: Vec<&str>| {
            let padded: Vec<String> = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
            padded.join("  ").trim_end().to_owned()
        };
        self.line(&draw(heading.to_vec()))?;
        for row in rows {
            self.line(&draw(row.iter().map(String::as_str).collect()))?;
        }
        Ok(())
    }
}
