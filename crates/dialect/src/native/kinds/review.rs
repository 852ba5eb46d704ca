//! `review`: a person decides.

use serde_json::Value as Json;
use viat_engine::ir::{InputDeclaration, Template};

use super::super::fields::given;
use super::super::inputs;
use super::super::reader::Reader;
use super::super::typed::{Budget, Filled, Kind, Review};
use super::text::{fixed_timeout, text};
use crate::duration::{self, Duration};
use crate::yaml::{Entry, Node, Value};

const KEYS: [&str; 6] = ["title", "show", "form", "assignees", "timeout", "remind"];
/// At most this many reminders.
const MOST_REMINDERS: usize = 20;

/// Reads a `review` entry.
pub fn read(reader: &mut Reader<'_, '_>, key: &Entry) -> Kind {
    let node = &key.value;
    let Value::Map(fields) = &node.value else {
        reader
            .report
            .error("wrong-type", node.span, format!("`review` must be a map, not {}", given(node)))
            .help("write `review: {title: \"Check the draft\", show: $draft.output, timeout: P2D}`; only `title` is required");
        return Kind::Broken;
    };
    reader.kind_keys(fields, "`review`", &KEYS);
    let title = reader.required(node, "title", "`review`", key.key_span).map(|field| text(reader, &field.value, "`title`", true));
    let show = node.get("show").filter(|field| field.value.value != Value::Null).map(|field| reader.template(&field.value));
    let form: Vec<InputDeclaration> = node.get("form").map(|field| inputs::read(reader, &field.value, inputs::FORM)).unwrap_or_default();
    let assignees = node.get("assignees").filter(|field| field.value.value != Value::Null).map(|field| assignees(reader, &field.value));
    let timeout = node.get("timeout").and_then(|field| fixed_timeout(reader, &field.value, "review"));
    let remind = node.get("remind").map(|field| reminders(reader, &field.value, timeout)).unwrap_or_default();
    let Some(title) = title else { return Kind::Broken };
    Kind::Review(Box::new(Review { title, show, form, assignees, timeout, remind }))
}

/// Who is asked: a list of names, as far as it is known now.
fn assignees(reader: &mut Reader<'_, '_>, node: &Node) -> Filled {
    let filled = reader.template(node);
    match &node.value {
        Value::List(items) => {
            for item in items {
                let good = match &item.value {
                    Value::String(name) => !name.is_empty(),
                    _ => reader.report.has_error_in(&item.span),
                };
                if !good {
                    reader.report.error("wrong-type", item.span, format!("an assignee is a name that is not empty, not {}", given(item)));
                }
            }
        }
        _ => {
            let good = matches!(filled.template, Template::Reference(_) | Template::Expression(_));
            // What was reported already has become null.
            let reported = matches!(filled.template, Template::Literal(Json::Null)) && reader.report.has_error_in(&node.span);
            if !good && !reported {
                let complaint = reader.report.error("wrong-type", node.span, format!("`assignees` must be a list of names, not {}", given(node)));
                if let Value::String(name) = &node.value {
                    complaint.help(format!("write `assignees: [{}]`", crate::yaml::shortened(name)));
                }
            }
        }
    }
    filled
}

/// When the assignees are reminded: durations from the beginning, each before the end.
fn reminders(reader: &mut Reader<'_, '_>, node: &Node, timeout: Option<Budget>) -> Vec<Budget> {
    let items = match &node.value {
        Value::Null => return Vec::new(),
        Value::List(items) => items,
        _ => {
            let complaint = reader.report.error("wrong-type", node.span, format!("`remind` must be a list of durations, not {}", given(node)));
            if duration::from_node(node).is_ok() {
                complaint.help(format!("write `remind: [{}]`", node.shown()));
            }
            return Vec::new();
        }
    };
    if items.len() > MOST_REMINDERS {
        reader.report.error("out-of-range", node.span, format!("a review has at most {MOST_REMINDERS} reminders; these are {}", items.len()));
        return Vec::new();
    }
    let mut found: Vec<Budget> = Vec::new();
    for item in items {
        if let Some(reminder) = reminder(reader, item, timeout, &found) {
            found.push(reminder);
        }
    }
    found.sort_by_key(|reminder| reminder.ms);
    found
}

fn reminder(reader: &mut Reader<'_, '_>, node: &Node, timeout: Option<Budget>, before: &[Budget]) -> Option<Budget> {
    let ms = match duration::from_node(node) {
        Ok(Duration::Millis(ms)) => ms,
        Ok(Duration::NotGiven) => {
            reader.report.error("bad-duration", node.span, "this reminder gives no duration").help(duration::ALLOWED);
            return None;
        }
        Err(error) => {
            reader.report.error("bad-duration", node.span, format!("bad reminder: {error}")).help(duration::ALLOWED);
            return None;
        }
    };
    let shown = node.shown();
    if ms == 0 {
        reader.report.error("bad-duration", node.span, format!("`{shown}` reminds of the review at the moment when it is asked for"));
        return None;
    }
    if let Some(first) = before.iter().find(|reminder| reminder.ms == ms) {
        reader.report.error("bad-duration", node.span, format!("`{shown}` is the same moment as another reminder")).label(first.span, "the other one");
        return None;
    }
    if let Some(end) = timeout.filter(|end| end.ms <= ms) {
        let message = format!("the reminder `{shown}` would come when the review is over: its timeout is {} ms", end.ms);
        reader.report.error("bad-duration", node.span, message).label(end.span, "the timeout");
        return None;
    }
    Some(Budget { ms, span: node.span })
}
