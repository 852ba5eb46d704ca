//! The description of the API: OpenAPI 3.1, made of the table of routes, and a page to read it; and whether the server is well.

use std::sync::OnceLock;

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::Engine;
use super::page::escaped;
use super::problem::Problem;
use super::route::{Inside, Needs, Route};
use super::{routes, shapes};

const STYLE: &str = "
:root{color-scheme:light dark}
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem}h2{font-size:1.1rem;margin:2rem 0 .5rem}
details{border:1px solid #8886;border-radius:.3rem;margin:.4rem 0;padding:.4rem .8rem}
summary{cursor:pointer;overflow-wrap:anywhere}summary code{font-weight:600}
pre{white-space:pre-wrap;overflow-wrap:anywhere;padding:.6rem;border:1px solid #8884;border-radius:.3rem}
table{border-collapse:collapse;width:100%}td{padding:.2rem .6rem .2rem 0;vertical-align:top}small{opacity:.75}
";

/// The description.
pub async fn openapi() -> Json<&'static Value> {
    Json(document())
}

/// The description, to be read.
pub async fn page() -> Response {
    let nonce = viat_store::fresh_id();
    let policy = format!("default-src 'none'; style-src 'nonce-{nonce}'; frame-ancestors 'none'; base-uri 'none'");
    let html = format!(
        "<!doctype html><html lang=en><head><meta charset=utf-8><meta name=viewport content=\"width=device-width,initial-scale=1\">\
         <title>viat API</title><style nonce=\"{nonce}\">{STYLE}</style></head><body><main>{}</main></body></html>",
        read(document())
    );
    let headers = [(header::CONTENT_TYPE, "text/html; charset=utf-8".to_owned()), (header::CONTENT_SECURITY_POLICY, policy)];
    (headers, html).into_response()
}

/// It lives.
pub async fn alive() -> &'static str {
    "ok\n"
}

/// Its store answers.
pub async fn ready(State(engine): State<Engine>) -> Result<&'static str, Problem> {
    match tokio::task::spawn_blocking(move || engine.store.revision()).await {
        Ok(Ok(_)) => Ok("ready\n"),
        _ => Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "the store does not answer")),
    }
}

fn document() -> &'static Value {
    static DOCUMENT: OnceLock<Value> = OnceLock::new();
    DOCUMENT.get_or_init(|| describe(&routes::all()))
}

fn describe(routes: &[Route]) -> Value {
    let mut generator = SchemaSettings::draft2020_12().with(|settings| settings.definitions_path = "/components/schemas".into()).into_generator();
    let mut paths = Map::new();
    for route in routes {
        let query = route.query.map(|make| make(&mut generator).to_value());
        let body = route.body.map(|(make, required)| (make(&mut generator).to_value(), required));
        let operation = operation(route, query.map(|query| resolved(&query, generator.definitions())), body);
        let path = route.path.replace("{*", "{");
        let item = paths.entry(path).or_insert_with(|| json!({}));
        item[route.method.as_str().to_ascii_lowercase()] = operation;
    }
    let mut schemas = shapes::all();
    schemas.extend(generator.take_definitions(true));
    json!({
        "openapi": "3.1.0",
        "info": {"title": "viat", "version": env!("CARGO_PKG_VERSION"), "description": "A workflow engine that knows what failed, what is done and what happens next."},
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    })
}

/// The schema that a reference leads to.
fn resolved(schema: &Value, definitions: &Map<String, Value>) -> Value {
    let name = schema["$ref"].as_str().and_then(|reference| reference.rsplit('/').next());
    name.and_then(|name| definitions.get(name)).unwrap_or(schema).clone()
}

fn operation(route: &Route, query: Option<Value>, body: Option<(Value, bool)>) -> Value {
    let mut operation = json!({
        "operationId": operation_id(route), "summary": route.summary, "tags": [tag(route.path)], "parameters": parameters(route, query),
        "responses": responses(route),
    });
    if let Some((schema, required)) = body {
        operation["requestBody"] = json!({"required": required, "content": {"application/json": {"schema": schema}}});
    } else if route.path.starts_with("/e/") {
        operation["requestBody"] = json!({"required": false, "content": {"application/json": {"schema": {"type": "object"}}}});
    } else if route.path.starts_with("/links/") && route.method == "POST" {
        operation["requestBody"] = json!({"required": true, "content": {"application/x-www-form-urlencoded": {"schema": {"type": "object"}}}});
    }
    match route.needs {
        Needs::One(scopes) => {
            let names: Vec<&str> = scopes.iter().map(|scope| scope.name()).chain(["admin"]).collect();
            operation["security"] = json!([{"token": []}, {}]);
            operation["description"] = format!("Where tokens are asked for: one with the scope {}.", names.join(" or ")).into();
        }
        Needs::Known => operation["security"] = json!([{"token": []}, {}]),
        Needs::Nothing | Needs::Itself => {}
    }
    operation
}

fn operation_id(route: &Route) -> String {
    let path = route.path.trim_start_matches("/api/v1");
    let words: Vec<String> = path.split('/').filter(|part| !part.is_empty()).map(|part| part.replace(['{', '}', '*', '.'], "")).collect();
    format!("{}_{}", route.method.as_str().to_ascii_lowercase(), words.join("_"))
}

fn tag(path: &str) -> &str {
    path.strip_prefix("/api/v1/").and_then(|rest| rest.split('/').next()).unwrap_or("server")
}

fn parameters(route: &Route, query: Option<Value>) -> Vec<Value> {
    let varies = route.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let in_path =
        varies.map(|name| json!({"name": name.trim_start_matches('*'), "in": "path", "required": true, "schema": {"type": "string", "minLength": 1}}));
    let in_header = route.headers.iter().map(|(name, what)| json!({"name": name, "in": "header", "description": what, "schema": {"type": "string"}}));
    let properties = query.and_then(|query| query["properties"].as_object().cloned()).unwrap_or_default();
    let in_query = properties.into_iter().map(|(name, mut schema)| {
        let description = schema.as_object_mut().and_then(|schema| schema.shift_remove("description"));
        // What is optional is left out: nobody can write null in a query.
        let kind = schema["type"].as_array().and_then(|kinds| kinds.iter().find(|kind| **kind != "null").cloned());
        if let Some(kind) = kind {
            schema["type"] = kind;
        }
        json!({"name": name, "in": "query", "required": false, "description": description, "schema": schema})
    });
    let mut all: Vec<Value> = in_path.chain(in_query).chain(in_header).collect();
    for parameter in &mut all {
        if parameter["description"].is_null()
            && let Some(map) = parameter.as_object_mut()
        {
            map.shift_remove("description");
        }
    }
    all
}

fn responses(route: &Route) -> Value {
    let mut responses = Map::new();
    let reference = |name: &str| json!({"$ref": format!("#/components/schemas/{name}")});
    for (status, inside) in &route.answers {
        let described = match inside {
            Inside::Json(name) => content("application/json", reference(name)),
            Inside::Page(name) => content(
                "application/json",
                json!({
                    "type": "object", "required": ["items", "next_cursor"],
                    "properties": {"items": {"type": "array", "items": reference(name)}, "next_cursor": {"type": ["string", "null"]}},
                }),
            ),
            Inside::Other("") => json!({"description": "Nothing."}),
            Inside::Other("application/json") => content("application/json", json!({})),
            Inside::Other(kind) => content(kind, json!({"type": "string"})),
        };
        responses.insert(status.to_string(), described);
    }
    for status in refusals(route) {
        let kind = if route.path.starts_with("/links/") {
            json!({"text/html": {"schema": {"type": "string"}}, "application/problem+json": {"schema": reference("Problem")}})
        } else {
            json!({"application/problem+json": {"schema": reference("Problem")}})
        };
        let title = StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason()).unwrap_or("Refused");
        responses.insert(status.to_string(), json!({"description": title, "content": kind}));
    }
    if route.path.starts_with("/e/") {
        responses.insert("default".to_owned(), json!({"description": "A refusal is the workflow's own word: its status, code and message.", "content": {"application/json": {"schema": {"type": "object"}}}}));
    }
    Value::Object(responses)
}

fn content(kind: &str, schema: Value) -> Value {
    json!({"description": "Done.", "content": {kind: {"schema": schema}}})
}

/// The refusals of a route: its own, and those of every route like it.
fn refusals(route: &Route) -> Vec<u16> {
    let takes = route.body.is_some() || matches!(route.method.as_str(), "POST" | "PUT");
    let mut all = route.refusals.clone();
    all.extend([400, 403, 408, 413, 429, 500, 503]);
    if !matches!(route.needs, Needs::Nothing) {
        all.push(401);
    }
    if route.path.contains('{') {
        all.extend([404, 422]);
    }
    if route.query.is_some() {
        all.push(422);
    }
    if takes {
        all.extend([415, 422]);
    }
    if route.path.starts_with("/e/") {
        all.extend([409, 504]);
    }
    if route.path.starts_with("/links/") {
        all.extend([409, 410]);
    }
    all.sort_unstable();
    all.dedup();
    all
}

/// The description as a page.
fn read(document: &Value) -> String {
    let mut html = String::from("<h1>viat API</h1><p>The same for programs: <a href=\"/api/openapi.json\">openapi.json</a></p>");
    let mut last = "";
    for (path, item) in document["paths"].as_object().into_iter().flatten() {
        let section = tag(path);
        if section != last {
            html.push_str(&format!("<h2>{}</h2>", escaped(section)));
            last = section;
        }
        for (method, operation) in item.as_object().into_iter().flatten() {
            html.push_str(&one(path, method, operation));
        }
    }
    html.push_str("<h2>shapes</h2>");
    for (name, schema) in document["components"]["schemas"].as_object().into_iter().flatten() {
        html.push_str(&format!("<details id=\"{0}\"><summary><code>{0}</code></summary>{1}</details>", escaped(name), pretty(schema)));
    }
    html
}

fn one(path: &str, method: &str, operation: &Value) -> String {
    let text = |value: &Value| escaped(value.as_str().unwrap_or_default());
    let mut html = format!(
        "<details><summary><code>{} {}</code> {}</summary><p><small>{}</small></p>",
        escaped(&method.to_ascii_uppercase()),
        escaped(path),
        text(&operation["summary"]),
        text(&operation["description"])
    );
    let parameters = operation["parameters"].as_array().map(Vec::as_slice).unwrap_or_default();
    if !parameters.is_empty() {
        let row =
            |one: &Value| format!("<tr><td><code>{}</code></td><td>{}</td><td>{}</td></tr>", text(&one["name"]), text(&one["in"]), text(&one["description"]));
        html.push_str(&format!("<table>{}</table>", parameters.iter().map(row).collect::<String>()));
    }
    let body = &operation["requestBody"]["content"];
    if !body.is_null() {
        html.push_str(&format!("<p>Body</p>{}", pretty(body)));
    }
    let answers = operation["responses"].as_object().into_iter().flatten();
    let row = |(status, answer): (&String, &Value)| {
        let kinds: Vec<&str> = answer["content"].as_object().into_iter().flatten().map(|(kind, _)| kind.as_str()).collect();
        format!("<tr><td>{}</td><td>{}</td><td>{}</td></tr>", escaped(status), text(&answer["description"]), escaped(&kinds.join(", ")))
    };
    html.push_str(&format!("<p>Answers</p><table>{}</table></details>", answers.map(row).collect::<String>()));
    html
}

fn pretty(value: &Value) -> String {
    format!("<pre>{}</pre>", escaped(&serde_json::to_string_pretty(value).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reference_leads_somewhere_and_no_two_operations_have_one_name() {
        let document = describe(&routes::all());
        let text = document.to_string();
        let names = text.split("\"#/components/schemas/").skip(1).filter_map(|rest| rest.split('"').next());
        for name in names {
            assert!(document["components"]["schemas"].get(name).is_some(), "there is no schema {name}");
        }
        let mut ids: Vec<String> = routes::all().iter().map(operation_id).collect();
        ids.sort();
        let count = ids.len();
        ids.dedup();
        assert_eq!(ids.len(), count);
    }

    #[test]
    fn every_route_says_what_it_answers() {
        for route in routes::all() {
            assert!(!route.answers.is_empty() && route.summary.ends_with('.'), "{} {}", route.method, route.path);
        }
    }
}
