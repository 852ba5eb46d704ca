//! Takes secrets out of what an attempt writes, returns and says.
//!
//! A secret is looked for as it is, and as it may have been written down on the way: inside JSON, inside a URL, as base64 at
//! any offset; of a secret of several lines also each line. Everything that is found becomes `***`, overlaps as one.

mod forms;

use std::ops::Range;
use std::sync::Arc;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use serde_json::{Map, Value};

use super::call::{Notice, Outcome};
use super::fault::Fault;

/// What stands in a secret's place.
pub const MARK: &str = "***";
/// What the workers put behind a text that they cut: `… (12 characters more)`, or `...` behind a value that is shown in a message.
const CUTS: [&str; 2] = ["… (", "..."];
/// The most cuts of a text that are looked at: a message has one or two.
const MOST_CUTS: usize = 64;
/// At a cut, so much of a secret's beginning counts as the secret.
const LEAST_AT_CUT: usize = 4;

/// Finds secrets in bytes, texts and values.
pub struct Mask {
    automaton: AhoCorasick,
    patterns: Vec<Vec<u8>>,
    longest: usize,
}

impl Mask {
    /// A mask for these values; `None` if there is nothing to look for.
    pub fn of<'a>(values: impl IntoIterator<Item = &'a str>) -> Option<Mask> {
        let mut patterns: Vec<Vec<u8>> = values.into_iter().flat_map(forms::of).collect();
        patterns.sort();
        patterns.dedup();
        let longest = patterns.iter().map(Vec::len).max()?;
        // a dense automaton of long patterns would take hundreds of megabytes
        let mut builder = AhoCorasick::builder();
        builder.match_kind(MatchKind::Standard).kind(Some(AhoCorasickKind::ContiguousNFA));
        // it fails for more patterns or states than a 32-bit number counts, far more than secrets may have
        let automaton = builder.build(&patterns).ok()?;
        Some(Mask { automaton, patterns, longest })
    }

    /// Where secrets are, in order, overlapping and touching ones as one.
    fn spans(&self, bytes: &[u8]) -> Vec<Range<usize>> {
        let mut spans: Vec<Range<usize>> = Vec::new();
        for found in self.automaton.find_overlapping_iter(bytes) {
            let (mut start, end) = (found.start(), found.end());
            // matches come in the order of their ends: one may swallow several before it
            while spans.last().is_some_and(|last| last.end >= start) {
                start = spans.pop().map_or(start, |last| last.start.min(start));
            }
            spans.push(start..end);
        }
        spans
    }

    fn replaced(&self, text: &str) -> Option<String> {
        let spans = self.spans(text.as_bytes());
        let mut masked = (!spans.is_empty()).then(|| {
            let (mut masked, mut from) = (String::with_capacity(text.len()), 0);
            for span in spans {
                masked.push_str(text.get(from..span.start).unwrap_or_default());
                masked.push_str(MARK);
                from = span.end;
            }
            masked.push_str(text.get(from..).unwrap_or_default());
            masked
        });
        if let Some(uncut) = self.without_beginnings(masked.as_deref().unwrap_or(text)) {
            masked = Some(uncut);
        }
        masked
    }

    /// The text without what its cuts have left of secrets; `None` if they have left nothing.
    fn without_beginnings(&self, text: &str) -> Option<String> {
        let mut cuts: Vec<usize> = CUTS.iter().flat_map(|cut| text.match_indices(cut).map(|(at, _)| at).take(MOST_CUTS)).collect();
        cuts.sort_unstable();
        let (mut kept, mut from) = (String::new(), 0);
        for at in cuts {
            if let Some(start) = self.beginning_at_the_end(&text[from.min(at)..at]).map(|start| from.min(at) + start) {
                kept.push_str(&text[from..start]);
                kept.push_str(MARK);
                from = at;
            }
        }
        (from > 0).then(|| kept + &text[from..])
    }

    /// Where a secret begins that the end of the text cuts off.
    fn beginning_at_the_end(&self, text: &str) -> Option<usize> {
        let least = text.len().saturating_sub(self.longest);
        let starts = (least..text.len().saturating_sub(LEAST_AT_CUT - 1)).filter(|at| text.is_char_boundary(*at));
        starts.into_iter().find(|at| self.patterns.iter().any(|pattern| pattern.starts_with(&text.as_bytes()[*at..])))
    }

    /// Masks a text in place.
    pub fn text(&self, text: &mut String) {
        if let Some(masked) = self.replaced(text) {
            *text = masked;
        }
    }

    /// Masks the texts of a value in place, names of fields included; a number that is a secret becomes a text.
    pub fn value(&self, value: &mut Value) {
        match value {
            Value::String(text) => self.text(text),
            Value::Number(number) => {
                if let Some(masked) = self.replaced(&number.to_string()) {
                    *value = Value::String(masked);
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.value(item)),
            Value::Object(map) => self.object(map),
            Value::Null | Value::Bool(_) => {}
        }
    }

    fn object(&self, map: &mut Map<String, Value>) {
        map.values_mut().for_each(|item| self.value(item));
        if !map.keys().any(|key| self.replaced(key).is_some()) {
            return;
        }
        for (mut key, item) in std::mem::take(map) {
            self.text(&mut key);
            // two names that have become one are told apart
            let mut free = key.clone();
            let mut number = 2;
            while map.contains_key(&free) {
                free = format!("{key} ({number})");
                number += 1;
            }
            map.insert(free, item);
        }
    }

    fn fault(&self, fault: &mut Fault) {
        self.text(&mut fault.code);
        self.text(&mut fault.message);
        if let Some(extra) = &mut fault.extra {
            self.value(extra);
        }
    }

    /// Masks how an attempt ended.
    pub fn outcome(&self, outcome: &mut Outcome) {
        match outcome {
            Outcome::Returned(value) => self.value(value),
            Outcome::Failed(fault) => self.fault(fault),
            Outcome::Stopped => {}
        }
    }

    /// Masks what a script says while it runs.
    pub fn notice(&self, notice: &mut Notice) {
        match notice {
            Notice::Defer { workflow, args, .. } => {
                self.text(workflow);
                self.value(args);
            }
            Notice::Progress { note: Some(note), .. } => self.text(note),
            Notice::Progress { note: None, .. } | Notice::Resource { .. } => {}
        }
    }
}

/// How many patterns there are is all that may be shown.
impl std::fmt::Debug for Mask {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Mask").field("patterns", &self.patterns.len()).finish_non_exhaustive()
    }
}

/// Masks a stream of bytes, however it is cut into pieces.
#[derive(Debug)]
pub(crate) struct Stream {
    mask: Arc<Mask>,
    /// What has come and is not handed on yet.
    held: Vec<u8>,
    /// So many of the held bytes belong to a secret whose mark is handed on already.
    covered: usize,
    /// Whether a mark was handed on last: what touches it is part of it.
    after_mark: bool,
}

impl Stream {
    pub(crate) fn new(mask: Arc<Mask>) -> Stream {
        Stream { mask, held: Vec::new(), covered: 0, after_mark: false }
    }

    pub(crate) fn push(&mut self, bytes: &[u8], hand_on: &mut impl FnMut(&[u8])) {
        self.held.extend_from_slice(bytes);
        // a secret may begin in the last bytes; looked at only when there is twice as much, a byte is looked at twice at most
        let open = self.mask.longest - 1;
        if self.held.len() > 2 * open {
            self.settle(self.held.len() - open, hand_on);
        }
    }

    pub(crate) fn finish(&mut self, hand_on: &mut impl FnMut(&[u8])) {
        self.settle(self.held.len(), hand_on);
    }

    /// Hands the first `until` bytes on: what secrets begin there is known.
    fn settle(&mut self, until: usize, hand_on: &mut impl FnMut(&[u8])) {
        let mut at = self.covered;
        for span in self.mask.spans(&self.held) {
            if span.start >= until {
                break;
            }
            if span.end <= at {
                continue;
            }
            if span.start > at {
                hand_on(&self.held[at..span.start]);
                self.after_mark = false;
            }
            if !self.after_mark {
                hand_on(MARK.as_bytes());
                self.after_mark = true;
            }
            at = span.end;
        }
        if at < until {
            hand_on(&self.held[at..until]);
            at = until;
            self.after_mark = false;
        }
        self.held.drain(..until);
        self.covered = at - until;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn mask(values: &[&str]) -> Mask {
        Mask::of(values.iter().copied()).unwrap()
    }

    fn masked(values: &[&str], text: &str) -> String {
        let mut text = text.to_owned();
        mask(values).text(&mut text);
        text
    }

    #[test]
    fn a_secret_is_found_however_it_is_written() {
        let secret = "p\"w/ö d+hunter2";
        let forms = [secret.to_owned(), json!({"a": secret}).to_string(), "p%22w%2F%C3%B6%20d%2Bhunter2".to_owned(), "p\\\"w/\\u00f6 d+hunter2".to_owned()];
        for form in forms {
            let found = masked(&[secret], &format!("before {form} after"));
            assert!(found.contains(MARK) && !found.contains("hunter2") && found.starts_with("before ") && found.ends_with(" after"), "{found}");
        }
        assert_eq!(masked(&["abcdef", "defghi"], "abcdefghi abcdefdefghi x"), "*** *** x");
        assert_eq!(masked(&["abcdef"], "nothing of the sort: abcde f"), "nothing of the sort: abcde f");
    }

    #[test]
    fn base64_is_found_at_every_offset() {
        let secret = "correct horse?>";
        for before in ["", "u", "us", "user:"] {
            for (alphabet, text) in [
                ("standard", forms::base64(format!("{before}{secret}!").as_bytes(), false)),
                ("url", forms::base64(format!("{before}{secret}!").as_bytes(), true)),
            ] {
                let found = masked(&[secret], &text);
                assert!(found.contains(MARK) && found.len() <= MARK.len() + before.len() * 4 / 3 + 8, "{alphabet} {before}: {text} {found}");
            }
        }
    }

    #[test]
    fn lines_of_a_secret_are_secrets() {
        let key = "-----BEGIN KEY-----\nAAAABBBBCCCC\nDDDDEEEE\nx\n-----END KEY-----";
        let shown = masked(&[key], "line 2: AAAABBBBCCCC\r\nline 3: DDDDEEEE, x is no secret");
        assert_eq!(shown, "line 2: ***\r\nline 3: ***, x is no secret");
    }

    #[test]
    fn values_are_masked_whole() {
        let mut value = json!({"a": ["x 12345678 y", 12345678, 1234567], "12345678": 1, "b 12345678": {"c": null}, "***": true, "d": 123456789.5});
        mask(&["12345678"]).value(&mut value);
        assert_eq!(value, json!({"a": ["x *** y", "***", 1234567], "***": 1, "b ***": {"c": null}, "*** (2)": true, "d": "***9.5"}));
    }

    #[test]
    fn what_a_cut_leaves_of_a_secret_is_masked() {
        assert_eq!(masked(&["abcdefgh"], "xy abcde… (3 characters more)"), "xy ***… (3 characters more)");
        assert_eq!(masked(&["abcdefgh"], "xy abcdefgh abc… (9 characters more)"), "xy *** abc… (9 characters more)");
        assert_eq!(masked(&["abcdefgh"], "no cut: abcde"), "no cut: abcde");
        let cut_in_a_message = "bytes is not a JSON value: b'abcdefg...; of it $.a: abcd... (the second)";
        assert_eq!(masked(&["abcdefgh"], cut_in_a_message), "bytes is not a JSON value: b'***...; of it $.a: ***... (the second)");
        assert_eq!(masked(&["abcdefgh"], "abc... abc… (x"), "abc... abc… (x", "so little is no secret");
    }

    #[test]
    fn a_stream_is_masked_however_it_is_cut() {
        let text = b"start abcdefabcdef mid abcdefgh-defghijkl abcde end abcdefghijkl".repeat(7);
        let mask = Arc::new(mask(&["abcdef", "efghijkl"]));
        let whole = {
            let mut text = String::from_utf8(text.clone()).unwrap();
            mask.text(&mut text);
            text
        };
        assert!(whole.starts_with("start *** mid ***gh-d*** abcde end ***start"), "{whole}");
        for size in (1..40).chain([text.len()]) {
            let (mut stream, mut out) = (Stream::new(Arc::clone(&mask)), Vec::new());
            for piece in text.chunks(size) {
                stream.push(piece, &mut |bytes| out.extend_from_slice(bytes));
            }
            stream.finish(&mut |bytes| out.extend_from_slice(bytes));
            assert_eq!(String::from_utf8(out).unwrap(), whole, "pieces of {size}");
        }
    }
}
