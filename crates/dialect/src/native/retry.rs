//! `retry`: each field within its range, each problem at its own value.

use viat_engine::policies::retry::{Matcher, RetryRule};

use super::fields::given;
use super::reader::Reader;
use super::typed::Retry;
use crate::yaml::{Entry, Node, Value};

const KEYS: [&str; 5] = ["times", "initial_ms", "factor", "max_ms", "jitter"];
const EXAMPLE: &str = "for example `retry: {times: 3, initial_ms: 100, factor: 2.0, max_ms: 5000}`";

/// Reads the policy of a script entry; `None` if any of it is wrong.
pub fn read(reader: &mut Reader<'_, '_>, field: &Entry) -> Option<Retry> {
    let node = &field.value;
    let Value::Map(entries) = &node.value else {
        reader.report.error("wrong-type", node.span, format!("`retry` must be a map, not {}", given(node))).help(EXAMPLE);
        return None;
    };
    reader.known_keys(entries, "`retry`", &KEYS);
    let missing: Vec<&str> = KEYS[..4].iter().copied().filter(|key| node.get(key).is_none()).collect();
    if !missing.is_empty() {
        let names = crate::suggest::listed(missing.iter().copied(), 4);
        reader.report.error("missing-key", field.key_span, format!("`retry` needs {names}")).help(EXAMPLE);
    }
    let times = node.get("times").and_then(|entry| reader.integer(&entry.value, "`retry.times`", 1, 10));
    let initial_ms = node.get("initial_ms").and_then(|entry| reader.integer(&entry.value, "`retry.initial_ms`", 10, 60_000));
    let factor = node.get("factor").and_then(|entry| factor(reader, &entry.value));
    let max_ms = node.get("max_ms").and_then(|entry| max_ms(reader, node, &entry.value, initial_ms));
    let jitter = match node.get("jitter") {
        Some(entry) => reader.boolean(&entry.value, "`retry.jitter`")?,
        None => true,
    };
    let rule = RetryRule {
        matches: Matcher::Retryable,
        times: u32::try_from(times?).ok()?,
        initial_ms: u64::try_from(initial_ms?).ok()?,
        factor: factor?,
        max_ms: u64::try_from(max_ms?).ok()?,
        jitter,
    };
    Some(Retry { rule, span: field.key_span })
}

fn factor(reader: &mut Reader<'_, '_>, node: &Node) -> Option<f64> {
    #[expect(clippy::cast_precision_loss, reason = "only small integers are in range")]
    let number = match &node.value {
        Value::Int(value) => Some(*value as f64),
        Value::Float(value) => Some(*value),
        _ => None,
    };
    match number {
        Some(value) if (1.0..=10.0).contains(&value) => Some(value),
        Some(_) => {
            reader.report.error("out-of-range", node.span, format!("`retry.factor` must be a finite number from 1.0 to 10.0, not {}", node.shown()));
            None
        }
        None => {
            reader.report.error("wrong-type", node.span, format!("`retry.factor` must be a finite number from 1.0 to 10.0, not {}", given(node)));
            None
        }
    }
}

fn max_ms(reader: &mut Reader<'_, '_>, retry: &Node, node: &Node, initial_ms: Option<i64>) -> Option<i64> {
    let value = reader.integer(node, "`retry.max_ms`", 10, 60_000)?;
    match initial_ms {
        Some(initial_ms) if value < initial_ms => {
            let complaint =
                reader.report.error("out-of-range", node.span, format!("`retry.max_ms` must be at least `initial_ms`, and {value} is less than {initial_ms}"));
            if let Some(entry) = retry.get("initial_ms") {
                complaint.label(entry.value.span, "the first wait");
            }
            None
        }
        _ => Some(value),
    }
}
