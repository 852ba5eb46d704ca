//! `wait`: for a time, until a time, or for an event.
//!
//! A fixed `for` may be as long as the grammar has words for. A fixed `until` is an RFC 3339 timestamp with its offset.

use jiff::Timestamp;
use serde_json::Value as Json;
use viat_engine::ir::Template;

use super::super::fields::given;
use super::super::reader::Reader;
use super::super::typed::{Budget, Filled, Kind, Wait};
use super::text::{fixed_timeout, is_open};
use crate::duration::{self, Duration};
use crate::yaml::{Entry, Node, Value};

const WAYS: [&str; 3] = ["for", "until", "event"];

/// Reads a `wait` entry.
pub fn read(reader: &mut Reader<'_, '_>, key: &Entry) -> Kind {
    let Value::Map(fields) = &key.value.value else {
        reader
            .report
            .error("wrong-type", key.value.span, format!("`wait` must be a map, not {}", given(&key.value)))
            .help("write `wait: {for: PT5S}`, `wait: {until: \"2026-01-31T08:00:00Z\"}` or `wait: {event: paid}`");
        return Kind::Broken;
    };
    reader.kind_keys(fields, "`wait`", &["for", "until", "event", "timeout"]);
    let timeout = key.value.get("timeout").and_then(|field| timeout(reader, key, field));
    let ways: Vec<&Entry> = fields.iter().filter(|field| WAYS.contains(&field.key.as_str())).collect();
    let [way] = ways.as_slice() else {
        let message = "`wait` takes exactly one of `for`, `until` and `event`";
        match ways.as_slice() {
            [first, second, ..] => reader.report.error("two-kinds", second.key_span, message).label(first.key_span, "the first one"),
            _ => reader.report.error("missing-key", key.key_span, message),
        };
        return Kind::Broken;
    };
    match way.key.as_str() {
        "for" => {
            let (filled, budget) = length(reader, &way.value);
            Kind::Wait(Wait::For(filled, budget))
        }
        "until" => Kind::Wait(Wait::Until(moment(reader, &way.value))),
        _ => Kind::Wait(Wait::Event { name: event(reader, &way.value), timeout }),
    }
}

fn timeout(reader: &mut Reader<'_, '_>, key: &Entry, field: &Entry) -> Option<Budget> {
    if key.value.get("event").is_none() {
        reader.report.error("unknown-key", field.key_span, "`timeout` goes with `event`").help("a wait `for` a time or `until` a time ends by itself");
        return None;
    }
    fixed_timeout(reader, &field.value, "wait")
}

/// A duration: checked now if it is fixed, else when the entry is reached.
fn length(reader: &mut Reader<'_, '_>, node: &Node) -> (Filled, Option<Budget>) {
    let filled = if matches!(node.value, Value::String(_)) { reader.template(node) } else { Filled::literal(Json::Null) };
    if is_open(&filled) || (matches!(node.value, Value::String(_)) && reader.report.has_error_in(&node.span)) {
        return (filled, None);
    }
    match duration::from_node(node) {
        Ok(Duration::Millis(ms)) => {
            let given = node.to_json().unwrap_or(Json::Null);
            (Filled::literal(given), Some(Budget { ms, span: node.span }))
        }
        Ok(Duration::NotGiven) => {
            reader.report.error("bad-duration", node.span, "`for` gives no duration").help(duration::ALLOWED);
            (filled, None)
        }
        Err(error) => {
            reader.report.error("bad-duration", node.span, format!("bad wait: {error}")).help(duration::ALLOWED);
            (filled, None)
        }
    }
}

fn moment(reader: &mut Reader<'_, '_>, node: &Node) -> Filled {
    let filled = reader.template(node);
    let good = match &filled.template {
        Template::Literal(Json::String(text)) => is_timestamp(text),
        // What was reported already has become null.
        Template::Literal(Json::Null) => reader.report.has_error_in(&node.span),
        _ => is_open(&filled),
    };
    if !good {
        reader
            .report
            .error("bad-time", node.span, format!("`until` must be an RFC 3339 timestamp, not {}", given(node)))
            .help("write a date, a time and an offset, as in \"2026-01-31T08:00:00Z\" or \"2026-01-31T09:00:00+01:00\"");
    }
    filled
}

/// RFC 3339's `date-time`, the letters in upper case: stricter than the parser, which also takes other ISO 8601 forms.
fn is_timestamp(text: &str) -> bool {
    const DATE_TIME: &[u8] = b"dddd-dd-ddTdd:dd:dd";
    let bytes = text.as_bytes();
    let fits = |given: &[u8], shape: &[u8]| {
        given.len() == shape.len() && given.iter().zip(shape).all(|(byte, wanted)| if *wanted == b'd' { byte.is_ascii_digit() } else { byte == wanted })
    };
    let Some((head, rest)) = bytes.split_at_checked(DATE_TIME.len()) else { return false };
    let offset = match rest.strip_prefix(b".") {
        Some(fraction) => {
            let digits = fraction.iter().take_while(|byte| byte.is_ascii_digit()).count();
            if digits == 0 {
                return false;
            }
            &fraction[digits..]
        }
        None => rest,
    };
    let zoned = offset == b"Z" || fits(offset, b"+dd:dd") || fits(offset, b"-dd:dd");
    fits(head, DATE_TIME) && zoned && text.parse::<Timestamp>().is_ok()
}

fn event(reader: &mut Reader<'_, '_>, node: &Node) -> Filled {
    let filled = reader.template(node);
    let good = match &filled.template {
        Template::Literal(Json::String(name)) => !name.is_empty(),
        Template::Literal(Json::Null) => reader.report.has_error_in(&node.span),
        _ => is_open(&filled),
    };
    if !good {
        reader.report.error("wrong-type", node.span, format!("`event` must be the name of an event, not {}", given(node)));
    }
    filled
}
