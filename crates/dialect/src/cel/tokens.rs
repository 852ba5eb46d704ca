//! The tokens of an expression: where it ends inside a text, whether it is small enough to parse, where a name stands.

use std::ops::Range;

use cel::parser::pratt_parser::{Lexer, Token, TokenKind};

/// CEL's own words, which can be neither ids nor plain keys.
pub const WORDS: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// Whether a name is one of CEL's own words.
pub fn is_word(name: &str) -> bool {
    WORDS.contains(&name)
}

/// Tokens of an expression at most; the parser recurses and builds trees as deep as an expression is long.
const MOST_TOKENS: usize = 2_000;
/// Conditionals of an expression at most: the parser recurses once for each without counting.
const MOST_CONDITIONALS: usize = 64;
/// Bytes of an expression at most.
const MOST_BYTES: usize = 64 << 10;

/// Where an expression ends that begins at the start of `text` and is closed by a `}`: the place of that `}`.
///
/// A `}` inside a string or a map literal does not close it.
///
/// # Errors
/// The place of an unclosed string, or of the end of the text.
pub fn end_of_expression(text: &str) -> Result<usize, Unclosed> {
    let mut lexer = Lexer::new(text);
    let mut depth = 0usize;
    loop {
        let token = lexer.lex();
        match token.kind {
            TokenKind::TokEnd => return Err(Unclosed::Expression),
            TokenKind::TokLeftBrace => depth += 1,
            TokenKind::TokRightBrace if depth == 0 => return Ok(token.start),
            TokenKind::TokRightBrace => depth -= 1,
            TokenKind::TokError if token.end >= text.len() && begins_quoted(&text.as_bytes()[token.start..]) => {
                return Err(Unclosed::String(token.start));
            }
            _ => {}
        }
    }
}

/// Whether a quote opens here. The lexer may stop inside a character, so these are bytes.
fn begins_quoted(bytes: &[u8]) -> bool {
    matches!(bytes.first(), Some(b'"' | b'\'' | b'`' | b'r' | b'R' | b'b' | b'B'))
}

/// What was opened and not closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unclosed {
    /// No `}` follows.
    Expression,
    /// A quote that begins here has no end.
    String(usize),
}

/// All tokens but blanks and comments, if they are legal and not too many.
pub fn tokens(text: &str) -> Result<Vec<Token>, (Range<usize>, String)> {
    if text.len() > MOST_BYTES {
        return Err((0..text.len(), format!("it is longer than {MOST_BYTES} bytes")));
    }
    let mut lexer = Lexer::new(text);
    let mut found = Vec::new();
    let mut conditionals = 0;
    loop {
        let token = lexer.lex();
        match token.kind {
            TokenKind::TokEnd => return Ok(found),
            TokenKind::TokWhitespace | TokenKind::TokComment => continue,
            TokenKind::TokError => {
                let message = lexer.get_error().map_or_else(|| "unreadable".to_owned(), |error| error.message.clone());
                return Err((token.start..token.end, lexical(text, &token, &message)));
            }
            TokenKind::TokUint => {
                return Err((token.start..token.end, format!("`{}` is an unsigned integer; leave the `u` out", &text[token.start..token.end])));
            }
            TokenKind::TokBytes => return Err((token.start..token.end, "byte strings cannot be JSON values".to_owned())),
            TokenKind::TokQuestion => conditionals += 1,
            _ => {}
        }
        found.push(token);
        if found.len() > MOST_TOKENS || conditionals > MOST_CONDITIONALS {
            return Err((token.start..token.end, "the expression is too long; do this in a script".to_owned()));
        }
    }
}

fn lexical(text: &str, token: &Token, message: &str) -> String {
    let character = text.get(token.start..).and_then(|rest| rest.chars().next()).unwrap_or(' ');
    match (message, character) {
        ("unexpected character", '$') => "inside `${ }` names are written without `$`".to_owned(),
        ("unexpected character", c) => format!("the character `{c}` means nothing here"),
        ("unterminated string literal", _) => "this string is not closed".to_owned(),
        (_, '=') => "compare with `==`".to_owned(),
        _ => message.to_owned(),
    }
}

/// Where a name, and as much of the keys after it as can be found, first stands in an expression.
pub fn place(text: &str, root: &str, path: &[String]) -> Range<usize> {
    let Ok(tokens) = tokens(text) else { return 0..text.len() };
    let is = |at: usize, wanted: &str| tokens.get(at).is_some_and(|token| &text[token.start..token.end] == wanted);
    let mut best: Option<(usize, Range<usize>)> = None;
    for (at, token) in tokens.iter().enumerate() {
        let after_dot = at > 0 && tokens[at - 1].kind == TokenKind::TokDot;
        if after_dot || &text[token.start..token.end] != root {
            continue;
        }
        let mut end = at;
        let mut matched = 1;
        for key in path {
            if is(end + 1, ".") && is(end + 2, key) {
                end += 2;
                matched += 1;
            } else {
                break;
            }
        }
        if best.as_ref().is_none_or(|(most, _)| matched > *most) {
            best = Some((matched, token.start..tokens[end].end));
        }
    }
    best.map_or(0..text.len(), |(_, range)| range)
}

/// Where a fixed text first stands in an expression, if it is written as it reads.
pub fn place_of_text(text: &str, fixed: &str) -> Option<Range<usize>> {
    let inside = |token: &Token| {
        let written = text.get(token.start..token.end)?;
        ['"', '\''].into_iter().find_map(|quote| written.strip_prefix(quote)?.strip_suffix(quote))
    };
    let found = tokens(text).ok()?.into_iter().find(|token| inside(token) == Some(fixed))?;
    Some(found.start..found.end)
}
