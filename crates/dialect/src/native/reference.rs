//! The grammar of references: `$a.output.items[0].name`, `$a.output["odd key"]`, `$a.output.note?`.

use viat_engine::ir::{Key, Reference, Segment};

/// Reads a string that is a reference as a whole; anything else is none.
pub fn parse(text: &str) -> Option<Reference> {
    let rest = text.strip_prefix('$')?;
    let (root, mut rest) = name(rest)?;
    let mut path = Vec::new();
    while !rest.is_empty() {
        let (key, after) = segment(rest)?;
        let optional = after.starts_with('?');
        rest = if optional { &after[1..] } else { after };
        path.push(Segment { key, optional });
    }
    Some(Reference { text: text.to_owned(), root: root.to_owned(), path })
}

/// A name at the start of a text, and what follows it.
fn name(text: &str) -> Option<(&str, &str)> {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    let begins = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    begins.then(|| text.split_at(end))
}

fn segment(text: &str) -> Option<(Key, &str)> {
    if let Some(rest) = text.strip_prefix('.') {
        return name(rest).map(|(key, rest)| (Key::Name(key.to_owned()), rest));
    }
    let rest = text.strip_prefix('[')?;
    if rest.starts_with(['"', '\'']) {
        let (key, rest) = quoted(rest)?;
        return Some((Key::Name(key), rest.strip_prefix(']')?));
    }
    let end = rest.find(']')?;
    let digits = rest[..end].strip_prefix('-').unwrap_or(&rest[..end]);
    let all_digits = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let index = if all_digits { rest[..end].parse().ok()? } else { return None };
    Some((Key::Index(index), &rest[end + 1..]))
}

/// A quoted key; `\"` and `\\` stand for the quote and the backslash.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut characters = text.char_indices();
    let (_, quote) = characters.next()?;
    let mut key = String::new();
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => key.push(characters.next().map(|(_, next)| next).filter(|next| matches!(next, '"' | '\'' | '\\'))?),
            end if end == quote => return Some((key, &text[at + 1..])),
            other => key.push(other),
        }
    }
    None
}

/// The keys of a reference up to its first index.
pub fn fixed_path(reference: &Reference) -> Vec<String> {
    let keys = reference.path.iter().map_while(|segment| match &segment.key {
        Key::Name(name) => Some(name.clone()),
        Key::Index(_) => None,
    });
    keys.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_and_what_only_looks_like_one() {
        let reference = parse("$a.output[\"odd key\"].b?[0]?['x\\'y']").unwrap();
        assert_eq!(reference.root, "a");
        let keys: Vec<_> = reference.path.iter().map(|segment| (segment.key.clone(), segment.optional)).collect();
        assert_eq!(keys[1], (Key::Name("odd key".into()), false));
        assert_eq!(keys[2], (Key::Name("b".into()), true));
        assert_eq!(keys[3], (Key::Index(0), true));
        assert_eq!(keys[4], (Key::Name("x'y".into()), false));
        assert_eq!(parse("$_error").unwrap().root, "_error");
        for literal in ["$", "$5.00", "$$a", "$a.output items", "$a.", "$a?", "$a.b[", "$a[\"x]", "$a[x]", "$a.b-c", "x $a", "${a}", "$é", "$a[]", "$a[--1]"] {
            assert_eq!(parse(literal), None, "{literal}");
        }
    }
}
