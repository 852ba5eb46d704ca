//! Values that several kinds take: templates that must come to a string, and timeouts that are fixed.

use serde_json::Value as Json;
use viat_engine::ir::Template;

use super::super::fields::given;
use super::super::reader::Reader;
use super::super::typed::{Budget, Filled};
use crate::duration;
use crate::yaml::{Node, Value};

/// A template that must come to a string.
pub fn text(reader: &mut Reader<'_, '_>, node: &Node, what: &str, required: bool) -> Filled {
    let filled = reader.template(node);
    let good = match &filled.template {
        Template::Reference(_) | Template::Expression(_) | Template::Text(_) => true,
        Template::Literal(Json::String(text)) => !(required && text.trim().is_empty()),
        // What was reported already has become null.
        Template::Literal(Json::Null) => reader.report.has_error_in(&node.span),
        Template::Literal(_) | Template::List(_) | Template::Map(_) => false,
    };
    if !good {
        let wanted = if required { "a string that is not empty" } else { "a string" };
        let complaint = reader.report.error("wrong-type", node.span, format!("{what} must be {wanted}, not {}", given(node)));
        if matches!(node.value, Value::Int(_) | Value::Float(_) | Value::Bool(_)) {
            complaint.help(format!("quote it: \"{}\"", node.shown()));
        }
    }
    filled
}

/// Whether a template's value is known only when it is reached.
pub fn is_open(filled: &Filled) -> bool {
    matches!(filled.template, Template::Reference(_) | Template::Expression(_) | Template::Text(_))
}

/// A timeout that is known now; `kind` is what it is of.
pub fn fixed_timeout(reader: &mut Reader<'_, '_>, node: &Node, kind: &str) -> Option<Budget> {
    if matches!(&node.value, Value::String(text) if text.contains('$')) {
        let message = format!("the `timeout` of a {kind} is fixed: it cannot be `{}`", node.shown());
        reader.report.error("bad-duration", node.span, message).help(duration::ALLOWED);
        return None;
    }
    reader.timeout(node, None)
}
