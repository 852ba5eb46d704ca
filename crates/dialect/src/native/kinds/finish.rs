//! `fail` and `return`: entries that end the workflow.
//!
//! Without a `code` a refusal is `failed`; without a `message` its message is its code. What `return` gives back is a map,
//! or a reference or an expression that must come to one.

use serde_json::{Map, Value as Json};
use viat_engine::ir::Template;

use super::super::fields::given;
use super::super::reader::Reader;
use super::super::typed::{Fail, Filled, Kind};
use super::text::text;
use crate::yaml::{Entry, Value};

const DEFAULT_STATUS: u16 = 400;
const DEFAULT_CODE: &str = "failed";

/// Reads a `fail` entry.
pub fn fail(reader: &mut Reader<'_, '_>, key: &Entry) -> Kind {
    let node = &key.value;
    match &node.value {
        Value::Null => {}
        Value::Map(fields) => reader.kind_keys(fields, "`fail`", &["status", "code", "message", "extra"]),
        _ => {
            reader
                .report
                .error("wrong-type", node.span, format!("`fail` must be a map, not {}", given(node)))
                .help("write `fail: {status: 422, code: not_allowed, message: \"…\"}`; all of it may be left out");
            return Kind::Broken;
        }
    }
    let status = node.get("status").and_then(|field| reader.integer(&field.value, "`status`", 400, 599));
    let status = status.and_then(|status| u16::try_from(status).ok()).unwrap_or(DEFAULT_STATUS);
    let code = node.get("code").map_or_else(|| Filled::literal(DEFAULT_CODE), |field| text(reader, &field.value, "`code`", true));
    let message = node.get("message").map_or_else(|| code.clone(), |field| text(reader, &field.value, "`message`", false));
    let extra = node.get("extra").filter(|field| field.value.value != Value::Null).map(|field| reader.template(&field.value));
    Kind::Fail(Box::new(Fail { status, code, message, extra }))
}

/// Reads a `return` entry.
pub fn give_back(reader: &mut Reader<'_, '_>, key: &Entry) -> Kind {
    if let Some(around) = reader.side_by_side {
        reader
            .report
            .error("misplaced-return", key.key_span, format!("a `return` cannot stand here: {} may be running other entries, too", around.what))
            .label(around.span, "it stands in this")
            .help("let the entries come to a value and `return` after it");
    }
    let node = &key.value;
    if node.value == Value::Null {
        return Kind::Return(Filled::literal(Map::new()));
    }
    let filled = reader.template(node);
    let good = match &filled.template {
        Template::Reference(_) | Template::Expression(_) | Template::Map(_) | Template::Literal(Json::Object(_)) => true,
        // What was reported already has become null.
        Template::Literal(Json::Null) => reader.report.has_error_in(&node.span),
        Template::Literal(_) | Template::List(_) | Template::Text(_) => false,
    };
    if !good {
        reader
            .report
            .error("wrong-type", node.span, format!("`return` takes a map of outputs, not {}", given(node)))
            .help("name each output: `return: {value: $a.output}`");
    }
    Kind::Return(filled)
}
