//! The pages that a link leads to: plain HTML that needs nothing else, in which everything from outside is escaped.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use viat_engine::ir::InputDeclaration;
use viat_engine::record::{ReviewRecord, rfc3339};

use crate::ask::Decision;
use crate::links::Grant;

/// The most characters of one value that are shown.
const MAX_SHOWN: usize = 100_000;

const STYLE: &str = "
:root{color-scheme:light dark}
body{font:16px/1.5 system-ui,sans-serif;max-width:44rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.4rem}h2{font-size:1rem;margin:1.2rem 0 .2rem}
pre{white-space:pre-wrap;overflow-wrap:anywhere;padding:.6rem;border:1px solid #8886;border-radius:.3rem;margin:0}
label{display:block;margin:.8rem 0 .2rem}
input,select,textarea{font:inherit;width:100%;box-sizing:border-box;padding:.4rem}
button{font:inherit;padding:.5rem 1rem;margin:1.2rem .5rem 0 0;cursor:pointer}
.problem{border-left:.3rem solid #c33;padding-left:.7rem}small{opacity:.75}
";

/// What the form was filled with, to be shown again.
pub type Filled = Vec<(String, String)>;

/// A page that says something.
pub fn notice(status: StatusCode, title: &str, text: &str) -> Response {
    page(status, title, &format!("<h1>{}</h1><p>{}</p>", escaped(title), escaped(text)))
}

/// The page on which a review is decided.
pub fn question(status: StatusCode, review: &ReviewRecord, grant: &Grant, filled: &Filled, problem: Option<&str>) -> Response {
    let mut body = format!("<h1>{}</h1>", escaped(&review.title));
    if let Some(problem) = problem {
        body.push_str(&format!("<p class=problem role=alert>{}</p>", escaped(problem)));
    }
    body.push_str(&shown(&review.show));
    body.push_str("<form method=post autocomplete=off>");
    match &grant.by {
        Some(by) => body.push_str(&format!("<p>You decide as <strong>{}</strong>.</p>", escaped(by))),
        None => body.push_str(&format!("<label for=by>Your name</label><input id=by name=by required maxlength=200 value=\"{}\">", given(filled, "by"))),
    }
    for field in &review.form {
        body.push_str(&form_field(field, filled));
    }
    body.push_str(&format!("<label for=comment>Comment</label><textarea id=comment name=comment rows=3>{}</textarea>", given(filled, "comment")));
    for decision in Decision::ALL.into_iter().filter(|each| grant.decision.is_none_or(|only| only == *each)) {
        body.push_str(&format!("<button name=decision value={}>{}</button>", decision.verdict().name(), label(decision)));
    }
    body.push_str("</form>");
    let until = rfc3339(review.due.map_or(grant.expires, |due| due.min(grant.expires)));
    body.push_str(&format!("<p><small>This link can be used once, until {}.</small></p>", escaped(&until)));
    page(status, &review.title, &body)
}

/// A decision in words.
pub fn label(decision: Decision) -> &'static str {
    match decision {
        Decision::Approved => "Approve",
        Decision::Rejected => "Reject",
        Decision::ChangesRequested => "Request changes",
    }
}

fn shown(show: &Value) -> String {
    let part = |heading: Option<&str>, value: &Value| {
        let text = match value {
            Value::String(text) => text.clone(),
            other => serde_json::to_string_pretty(other).unwrap_or_default(),
        };
        let cut = if text.chars().count() > MAX_SHOWN { format!("{}…", text.chars().take(MAX_SHOWN).collect::<String>()) } else { text };
        let heading = heading.map(|heading| format!("<h2>{}</h2>", escaped(heading))).unwrap_or_default();
        format!("{heading}<pre>{}</pre>", escaped(&cut))
    };
    match show {
        Value::Null => String::new(),
        Value::Object(map) => map.iter().map(|(key, value)| part(Some(key), value)).collect(),
        other => part(None, other),
    }
}

/// The name under which a field is sent.
pub fn field_name(field: &InputDeclaration) -> String {
    format!("data.{}", field.name)
}

fn form_field(field: &InputDeclaration, filled: &Filled) -> String {
    let name = field_name(field);
    let (id, word) = (escaped(&name), escaped(&field.name));
    let title = field.schema.get("title").or_else(|| field.schema.get("description")).and_then(Value::as_str).map(escaped).unwrap_or(word);
    let now = filled.iter().find(|(key, _)| *key == name).map(|(_, value)| value.clone());
    let now = now.or_else(|| field.default.as_ref().map(as_text)).unwrap_or_default();
    let required = if field.required { " required" } else { "" };
    let options: Option<Vec<String>> = match (field.schema.get("enum").and_then(Value::as_array), kind(field)) {
        (Some(values), _) => Some(values.iter().map(as_text).collect()),
        (None, Some("boolean")) => Some(vec!["true".to_owned(), "false".to_owned()]),
        _ => None,
    };
    let control = match (options, kind(field)) {
        (Some(options), _) => {
            let options: String = std::iter::once(String::new())
                .chain(options)
                .map(|option| format!("<option{}>{}</option>", if option == now { " selected" } else { "" }, escaped(&option)))
                .collect();
            format!("<select id=\"{id}\" name=\"{id}\"{required}>{options}</select>")
        }
        (None, Some("integer")) => format!("<input type=number step=1 id=\"{id}\" name=\"{id}\"{required} value=\"{}\">", escaped(&now)),
        (None, Some("number")) => format!("<input type=number step=any id=\"{id}\" name=\"{id}\"{required} value=\"{}\">", escaped(&now)),
        (None, Some("string")) => format!("<input id=\"{id}\" name=\"{id}\"{required} value=\"{}\">", escaped(&now)),
        _ => format!("<textarea id=\"{id}\" name=\"{id}\" rows=3{required} placeholder=JSON>{}</textarea>", escaped(&now)),
    };
    format!("<label for=\"{id}\">{title}</label>{control}")
}

/// The JSON type that a field's schema names.
pub fn kind(field: &InputDeclaration) -> Option<&str> {
    field.schema.get("type").and_then(Value::as_str)
}

/// A value as one types it into a field.
pub fn as_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn given(filled: &Filled, name: &str) -> String {
    filled.iter().find(|(key, _)| key == name).map(|(_, value)| escaped(value)).unwrap_or_default()
}

/// Text without markup.
pub fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for each in text.chars() {
        match each {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            _ => safe.push(each),
        }
    }
    safe
}

fn page(status: StatusCode, title: &str, body: &str) -> Response {
    let nonce = viat_store::fresh_id();
    let policy = format!("default-src 'none'; style-src 'nonce-{nonce}'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'");
    let html = format!(
        "<!doctype html><html lang=en><head><meta charset=utf-8><meta name=viewport content=\"width=device-width,initial-scale=1\">\
         <meta name=robots content=noindex><title>{}</title><style nonce=\"{nonce}\">{STYLE}</style></head><body><main>{body}</main></body></html>",
        escaped(title)
    );
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8".to_owned()),
        (header::CONTENT_SECURITY_POLICY, policy),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
        // The address is the secret. It stays on this server, where the form's own request must still name its origin.
        (header::REFERRER_POLICY, "same-origin".to_owned()),
        (header::CACHE_CONTROL, "no-store".to_owned()),
    ];
    (status, headers, html).into_response()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nothing_from_outside_is_markup() {
        let evil = "<script>alert(1)</script>\"'&";
        let show = shown(&json!({evil: evil, "list": [evil]}));
        assert!(!show.contains("<script") && !show.contains("\"'"));
        let field = InputDeclaration { name: evil.to_owned(), schema: json!({"type": "string", "title": evil}), default: Some(evil.into()), required: true };
        let html = form_field(&field, &Vec::new());
        assert!(!html.contains("<script") && !html.contains("\"'&"), "{html}");
        let field = InputDeclaration { schema: json!({"enum": [evil]}), ..field };
        assert!(!form_field(&field, &Vec::new()).contains("<script"));
    }

    #[test]
    fn fields_are_what_their_schema_says() {
        let field = |schema: Value| form_field(&InputDeclaration { name: "n".to_owned(), schema, default: None, required: false }, &Vec::new());
        assert!(field(json!({"type": "integer"})).contains("type=number step=1"));
        assert!(field(json!({"type": "boolean"})).contains("<option>true</option><option>false</option>"));
        assert!(field(json!({"enum": ["a", 1]})).contains("<option>a</option><option>1</option>"));
        assert!(field(json!({"type": "object"})).contains("<textarea"));
    }
}
