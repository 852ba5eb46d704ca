//! Takes big values out of a batch's text, without building a second tree of what may be 64 MiB.

use super::{BIG, MARK, is_marked};
use crate::Hash;

/// Levels that are a batch's own: the batch, its list of events, each event.
const STRUCTURE: usize = 3;

/// The batch with references in the place of big values. `store` is given each of these, inner ones first.
///
/// `text` is what serde_json wrote: valid, and without blanks.
pub(super) fn take_out(text: &[u8], store: &mut dyn FnMut(&[u8]) -> Hash) -> Vec<u8> {
    let mut scan = Scan { text, at: 0, out: Vec::new(), store };
    scan.value(0);
    scan.out
}

struct Scan<'a> {
    text: &'a [u8],
    at: usize,
    out: Vec<u8>,
    store: &'a mut dyn FnMut(&[u8]) -> Hash,
}

impl Scan<'_> {
    fn value(&mut self, level: usize) {
        let start = self.out.len();
        match self.next() {
            Some(b'{') => self.members(level),
            Some(b'[') => self.items(level),
            Some(b'"') => return self.string(level),
            _ => self.copy(|byte| matches!(byte, b',' | b']' | b'}')),
        }
        if level >= STRUCTURE && self.out.len() - start > BIG {
            let hash = (self.store)(&self.out[start..]);
            self.out.truncate(start);
            self.refer(hash);
        }
    }

    fn members(&mut self, level: usize) {
        let start = self.out.len();
        self.step();
        let mut count = 0;
        let mut marked = false;
        while let Some(byte) = self.next() {
            if byte == b'}' {
                break;
            }
            if byte == b',' {
                self.step();
            }
            let key = self.end_of_string();
            marked = is_marked(self.text.get(self.at + 1..key.saturating_sub(1)).unwrap_or_default());
            self.copy_to(key);
            self.step();
            self.value(level + 1);
            count += 1;
        }
        self.step();
        if marked && count == 1 {
            // After `{"`.
            self.out.insert(start + 2, b'$');
        }
    }

    fn items(&mut self, level: usize) {
        self.step();
        while let Some(byte) = self.next() {
            match byte {
                b']' => break,
                b',' => self.step(),
                _ => self.value(level + 1),
            }
        }
        self.step();
    }

    /// A long string is stored from where it is, and copied nowhere else.
    fn string(&mut self, level: usize) {
        let end = self.end_of_string();
        if level >= STRUCTURE && end - self.at > BIG {
            let hash = (self.store)(&self.text[self.at..end]);
            self.at = end;
            return self.refer(hash);
        }
        self.copy_to(end);
    }

    fn refer(&mut self, hash: Hash) {
        self.out.extend_from_slice(format!(r#"{{"{MARK}":"{hash}"}}"#).as_bytes());
    }

    fn next(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    /// Where the string that begins here ends, after its closing quote.
    fn end_of_string(&self) -> usize {
        let mut at = self.at + 1;
        while let Some(byte) = self.text.get(at) {
            match byte {
                b'"' => return at + 1,
                b'\\' => at += 2,
                _ => at += 1,
            }
        }
        self.text.len()
    }

    /// Copies one byte.
    fn step(&mut self) {
        self.copy_to(self.at + 1);
    }

    fn copy(&mut self, ends: impl Fn(u8) -> bool) {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let length = rest.iter().position(|byte| ends(*byte)).unwrap_or(rest.len());
        // Never zero bytes, so that every round makes headway.
        self.copy_to(self.at + length.max(1));
    }

    fn copy_to(&mut self, end: usize) {
        let end = end.min(self.text.len());
        self.out.extend_from_slice(self.text.get(self.at..end).unwrap_or_default());
        self.at = end;
    }
}
