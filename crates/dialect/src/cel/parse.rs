//! From an expression's text to a program, or to one complaint with its place.

use std::ops::Range;

use cel::parser::PrattParser;

use super::lower::Lowering;
use super::program::Program;
use super::tokens;

/// Nesting of parentheses and brackets at most.
const MOST_NESTED: u16 = 48;

/// Why an expression cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxError {
    /// A sentence that names the expression.
    pub message: String,
    /// The bytes of the expression that it is about.
    pub range: Range<usize>,
    /// What to write instead.
    pub help: Option<String>,
}

/// Parses an expression.
///
/// # Errors
/// The first complaint.
pub fn parse(text: &str) -> Result<Program, SyntaxError> {
    let shown = crate::yaml::shortened(text.trim());
    let refuse =
        |range: Range<usize>, reason: String, help: Option<String>| SyntaxError { message: format!("`{shown}` is not an expression: {reason}"), range, help };
    let found = tokens::tokens(text).map_err(|(range, reason)| refuse(range, reason, None))?;
    if found.is_empty() {
        return Err(SyntaxError {
            message: "the expression is empty".into(),
            range: 0..text.len(),
            help: Some("write an expression between `${` and `}`".into()),
        });
    }
    let nested = "it is nested too deep; do part of it in a `set` entry or in a script";
    // The parser's own bound counts parentheses only; chains of operators make trees as deep as they are long.
    let parser = PrattParser::new().max_recursion_depth(MOST_NESTED).error_recovery_limit(4);
    let tree = parser.parse(text).map_err(|errors| {
        let Some(first) = errors.errors.first() else { return refuse(0..text.len(), "it cannot be read".into(), None) };
        if first.msg.contains("recursion limit") {
            return refuse(0..text.len(), nested.into(), None);
        }
        let range = token_at(text, offset(text, first.pos), &found);
        let (reason, help) = plain_words(&first.msg, text.get(range.clone()).unwrap_or(""), text);
        refuse(range, reason, help)
    })?;
    let mut lowering = Lowering::new(text);
    let root = lowering.expr(&tree, 0).map_err(|problem| SyntaxError { message: problem.message, range: problem.range, help: problem.help })?;
    Ok(Program { root, names: lowering.names, compared: lowering.compared })
}

/// The byte of a 1-based line and column (in bytes).
fn offset(text: &str, pos: (isize, isize)) -> usize {
    let (line, col) = (usize::try_from(pos.0).unwrap_or(1).max(1), usize::try_from(pos.1).unwrap_or(1).max(1));
    let begin: usize = text.split_inclusive('\n').take(line - 1).map(str::len).sum();
    (begin + col - 1).min(text.len())
}

fn token_at(text: &str, at: usize, found: &[cel::parser::pratt_parser::Token]) -> Range<usize> {
    match found.iter().find(|token| token.start <= at && at < token.end) {
        Some(token) => token.start..token.end,
        None => {
            // At the end: point at the last thing that was read, which still waits for something.
            let last = found.last().map_or(0..text.len(), |token| token.start..token.end);
            if at >= last.end { last } else { at..at }
        }
    }
}

/// The parser's message in words that help.
fn plain_words(message: &str, token: &str, text: &str) -> (String, Option<String>) {
    let after = |word: &str| text.contains(&format!(".{word}"));
    if message.contains("<EOF>' expecting expression") {
        return (format!("something must follow `{token}`"), None);
    }
    if token == "=" {
        return ("`=` does not fit here".into(), Some("compare with `==`".into()));
    }
    if message.contains("expecting <EOF>") {
        return (format!("`{token}` does not fit here"), None);
    }
    if message.starts_with("expected identifier after '.'") && super::is_word(token) && after(token) {
        return (format!("`{token}` is a word of the expression language and cannot follow a dot"), Some(format!("write [\"{token}\"] instead of .{token}")));
    }
    if message.contains("unexpected token") || message.contains("reserved") {
        return (format!("`{token}` does not fit here"), None);
    }
    if message.starts_with("unsupported syntax '") && message.contains('?') {
        return ("the optional syntax `?` exists only in references such as `$a.output.note?`".into(), Some("write has(a.b) ? a.b : null".into()));
    }
    (message.trim_start_matches("Syntax error: ").replace('\'', "`").replace("<EOF>", "the end"), None)
}
