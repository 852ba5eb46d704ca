//! Complaints about a document, as data: what is wrong, where, and what to write instead.

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// At most this many diagnostics of one file are reported; the rest is counted.
pub const MOST_DIAGNOSTICS: usize = 50;

/// Whether a definition can be used in spite of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// The document is refused.
    Error,
    /// The document is accepted, but part of it cannot do what it says.
    Warning,
}

/// A place in a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Span {
    /// First byte.
    pub start: usize,
    /// The byte after the last one.
    pub end: usize,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub col: usize,
}

impl Span {
    /// Whether the other place lies within this one.
    pub fn contains(&self, other: &Span) -> bool {
        self.start <= other.start && other.end <= self.end
    }

    /// The place from the start of this one to the end of the other.
    pub fn to(self, end: Span) -> Span {
        Span { end: end.end.max(self.end), ..self }
    }
}

/// A second place that explains the first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Label {
    /// Where.
    pub span: Span,
    /// What is there.
    pub message: String,
}

/// One complaint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnostic {
    /// Error or warning.
    pub severity: Severity,
    /// A short, stable word for tools and for the documentation's pages.
    pub code: String,
    /// What is wrong.
    pub message: String,
    /// The file, as the caller named it.
    pub file: String,
    /// Where.
    pub span: Span,
    /// What to say under the place itself; empty if the message says it all.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// Other places that explain it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<Label>,
    /// What to write instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
}

impl Diagnostic {
    /// Says what to write instead.
    pub fn help(&mut self, help: impl Into<String>) -> &mut Diagnostic {
        self.help = Some(help.into());
        self
    }

    /// Says something right under the place.
    pub fn note(&mut self, note: impl Into<String>) -> &mut Diagnostic {
        self.note = note.into();
        self
    }

    /// Points at another place that explains this one.
    pub fn label(&mut self, span: Span, message: impl Into<String>) -> &mut Diagnostic {
        self.labels.push(Label { span, message: message.into() });
        self
    }
}

/// A file's text with its lines found.
#[derive(Debug)]
pub struct Source<'a> {
    /// The file, as the caller named it.
    pub file: &'a str,
    /// Its text.
    pub text: &'a str,
    /// Where each line begins.
    lines: Vec<usize>,
    /// How many characters lie before every [`STRIDE`]th byte: a file may be one long line, and columns are asked for often.
    characters: Vec<usize>,
}

const STRIDE: usize = 256;

impl<'a> Source<'a> {
    /// Finds the lines of a text.
    pub fn new(file: &'a str, text: &'a str) -> Source<'a> {
        let lines = std::iter::once(0).chain(text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1)).collect();
        let mut before = 0;
        let count = |chunk: &[u8]| {
            let here = before;
            before += begun(chunk);
            here
        };
        let characters = text.as_bytes().chunks(STRIDE).map(count).collect();
        Source { file, text, lines, characters }
    }

    /// How many characters lie before a character boundary.
    fn characters_before(&self, at: usize) -> usize {
        let chunk = (at / STRIDE).min(self.characters.len().saturating_sub(1));
        self.characters.get(chunk).copied().unwrap_or(0) + begun(&self.text.as_bytes()[chunk * STRIDE..at])
    }

    /// The place of a range of bytes; a range beyond the text is clipped.
    pub fn span(&self, range: Range<usize>) -> Span {
        let start = floor_boundary(self.text, range.start);
        let end = floor_boundary(self.text, range.end).max(start);
        let line = self.lines.partition_point(|begin| *begin <= start).max(1);
        let begin = self.lines.get(line - 1).copied().unwrap_or(0);
        let col = self.characters_before(start) - self.characters_before(begin) + 1;
        Span { start, end, line, col }
    }
}

/// How many characters begin in these bytes.
fn begun(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte & 0xc0 != 0x80).count()
}

/// The nearest character boundary at or before a byte.
fn floor_boundary(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// Collects the complaints about one file.
#[derive(Debug)]
pub struct Report<'a> {
    /// The file.
    pub source: &'a Source<'a>,
    diagnostics: Vec<Diagnostic>,
    /// How many of them are errors; warnings are counted apart, so that many of them do not hide an error.
    errors: usize,
    /// Complaints beyond [`MOST_KEPT`]: the newest one, so that details can be chained, and how many there were.
    beyond: Option<Diagnostic>,
    dropped: usize,
}

/// So many errors and so many warnings are kept: a hostile document must not make the report itself large.
const MOST_KEPT: usize = 1_000;

impl<'a> Report<'a> {
    /// Nothing to complain about so far.
    pub fn new(source: &'a Source<'a>) -> Report<'a> {
        Report { source, diagnostics: Vec::new(), errors: 0, beyond: None, dropped: 0 }
    }

    /// Adds an error; details can be chained.
    pub fn error(&mut self, code: &str, span: Span, message: impl Into<String>) -> &mut Diagnostic {
        self.add(Severity::Error, code, span, message.into())
    }

    /// Adds a warning; details can be chained.
    pub fn warning(&mut self, code: &str, span: Span, message: impl Into<String>) -> &mut Diagnostic {
        self.add(Severity::Warning, code, span, message.into())
    }

    fn add(&mut self, severity: Severity, code: &str, span: Span, message: String) -> &mut Diagnostic {
        let file = self.source.file.to_owned();
        let one = Diagnostic { severity, code: code.to_owned(), message, file, span, note: String::new(), labels: Vec::new(), help: None };
        let kept = if severity == Severity::Error { self.errors } else { self.diagnostics.len() - self.errors };
        if kept >= MOST_KEPT {
            self.dropped += 1;
            return self.beyond.insert(one);
        }
        self.errors += usize::from(severity == Severity::Error);
        self.diagnostics.push(one);
        let last = self.diagnostics.len() - 1;
        &mut self.diagnostics[last]
    }

    /// Whether anything within a place is an error.
    pub fn has_error_in(&self, span: &Span) -> bool {
        self.diagnostics.iter().any(|one| one.severity == Severity::Error && span.contains(&one.span))
    }

    /// Whether anything is an error.
    pub fn has_errors(&self) -> bool {
        self.errors > 0
    }

    /// Whether further errors are only counted, so that working out what to say of them is in vain.
    pub fn is_full(&self) -> bool {
        self.errors >= MOST_KEPT
    }

    /// Everything, in the order of the text, each thing once, bounded.
    pub fn finish(self) -> Vec<Diagnostic> {
        let dropped = self.dropped;
        let mut all = self.diagnostics;
        all.sort_by(|a, b| (a.span, a.severity, &a.code, &a.message).cmp(&(b.span, b.severity, &b.code, &b.message)));
        all.dedup_by(|b, a| a.span == b.span && a.code == b.code && a.message == b.message);
        if all.len() > MOST_DIAGNOSTICS {
            // Errors must not be cut off by warnings before them.
            all.sort_by_key(|one| one.severity);
            let more = all.len() - MOST_DIAGNOSTICS + dropped;
            all.truncate(MOST_DIAGNOSTICS);
            all.sort_by_key(|one| one.span);
            if let Some(last) = all.last().cloned() {
                let message = format!("and {more} more");
                all.push(Diagnostic { code: "too-many".into(), message, note: String::new(), labels: Vec::new(), help: None, ..last });
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_not_lost_behind_many_warnings() {
        let source = Source::new("w.yaml", "");
        let mut report = Report::new(&source);
        for n in 0..3 * MOST_KEPT {
            report.warning("w", Span::default(), n.to_string());
        }
        report.error("e", Span::default(), "the error").help("is kept");
        assert!(report.has_errors());
        let all = report.finish();
        assert_eq!(all.len(), MOST_DIAGNOSTICS + 1);
        assert!(all.iter().any(|one| one.code == "e" && one.help.is_some()));
    }

    #[test]
    fn places_count_lines_and_characters() {
        let text = format!("é\n{}x\n", "世".repeat(1000));
        let source = Source::new("w.yaml", &text);
        let at = text.find('x').unwrap();
        assert_eq!(source.span(at..at + 1), Span { start: at, end: at + 1, line: 2, col: 1001 });
        assert_eq!(source.span(1..2), Span { start: 0, end: 2, line: 1, col: 1 });
        let end = source.span(usize::MAX..usize::MAX);
        assert_eq!((end.start, end.line, end.col), (text.len(), 3, 1));
        assert_eq!(Source::new("w.yaml", "").span(5..9), Span { start: 0, end: 0, line: 1, col: 1 });
    }
}
