//! A request template as data: read once when the script is created, filled for each attempt.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::filling::{Filling, Given, Key, Reference, plain};

const KEYS: [&str; 11] = ["method", "url", "query", "headers", "body", "timeout", "expect", "transient_statuses", "value", "redirects", "max_bytes"];
const METHODS: [&str; 7] = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"];
/// How long a request may take that does not say.
const TIMEOUT_MS: u64 = 30_000;
const MAX_TIMEOUT_MS: u64 = 3_600_000;
/// Redirects that are followed.
const REDIRECTS: u64 = 5;
const MAX_REDIRECTS: u64 = 20;

/// Which part of the response is the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ValueOf {
    /// The status, a number.
    Status,
    /// The headers, an object.
    Headers,
    /// The body: its JSON, or its text.
    #[default]
    Body,
}

/// A request with holes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Template {
    method: String,
    url: Filling,
    query: Vec<(String, Filling)>,
    headers: Vec<(String, Filling)>,
    body: Option<Filling>,
    pub(crate) timeout_ms: u64,
    pub(crate) expect: Vec<u16>,
    pub(crate) transient_statuses: Vec<u16>,
    pub(crate) value: ValueOf,
    pub(crate) redirects: u64,
    pub(crate) max_bytes: Option<u64>,
}

/// An argument that a template uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// Whether the request cannot be made without it.
    pub required: bool,
}

/// What is wrong with a template, and under which keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The keys that lead there.
    pub path: Vec<String>,
    /// What is wrong, and what may stand there.
    pub message: String,
}

/// A request, ready to be sent.
#[derive(Debug, PartialEq)]
pub(crate) struct Filled {
    pub(crate) method: String,
    pub(crate) url: String,
    pub(crate) query: Vec<(String, String)>,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Option<Vec<u8>>,
}

fn problem(path: &[&str], message: impl Into<String>) -> Problem {
    Problem { path: path.iter().map(|key| (*key).to_owned()).collect(), message: message.into() }
}

impl Template {
    /// Reads a template; `duration` reads a timeout as the workflow language writes it.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub fn parse(document: &Value, duration: &dyn Fn(&Value) -> Result<Option<u64>, String>) -> Result<Template, Vec<Problem>> {
        let Value::Object(map) = document else {
            return Err(vec![problem(&[], "a request template is a map with `method` and `url`")]);
        };
        let mut problems: Vec<Problem> = map
            .keys()
            .filter(|key| !KEYS.contains(&key.as_str()))
            .map(|key| problem(&[key], format!("a request template has no {key}; there are {}", KEYS.join(", "))))
            .collect();
        let mut note = |found: Result<(), Problem>| problems.extend(found.err());
        let mut template = Template {
            method: "GET".to_owned(),
            url: Filling::Literal(Value::Null),
            query: Vec::new(),
            headers: Vec::new(),
            body: None,
            timeout_ms: TIMEOUT_MS,
            expect: Vec::new(),
            transient_statuses: Vec::new(),
            value: ValueOf::default(),
            redirects: REDIRECTS,
            max_bytes: None,
        };
        note(method(map).map(|method| template.method = method));
        note(url(map).map(|url| template.url = url));
        note(pairs(map, "query").map(|query| template.query = query));
        note(pairs(map, "headers").and_then(check_headers).map(|headers| template.headers = headers));
        note(body(map, &template.method).map(|body| template.body = body));
        note(timeout(map, duration).map(|ms| template.timeout_ms = ms));
        note(statuses(map, "expect").map(|expect| template.expect = expect));
        note(statuses(map, "transient_statuses").map(|transient| template.transient_statuses = transient));
        note(value_of(map).map(|value| template.value = value));
        note(number(map, "redirects", 0, MAX_REDIRECTS).map(|most| template.redirects = most.unwrap_or(REDIRECTS)));
        note(number(map, "max_bytes", 1, 1 << 40).map(|most| template.max_bytes = most));
        if let Some(both) = template.expect.iter().find(|status| template.transient_statuses.contains(status)) {
            problems.push(problem(&["transient_statuses"], format!("{both} is also in `expect`: it can mean only one of them")));
        }
        if problems.is_empty() { Ok(template) } else { Err(problems) }
    }

    fn references(&self) -> Vec<&Reference> {
        let mut references = Vec::new();
        self.url.references(&mut references);
        self.query.iter().chain(&self.headers).for_each(|(_, filling)| filling.references(&mut references));
        if let Some(body) = &self.body {
            body.references(&mut references);
        }
        references
    }

    /// The secrets it uses: it declares them by naming them.
    pub fn secrets(&self) -> Vec<String> {
        self.references().into_iter().filter_map(Reference::secret).map(str::to_owned).collect()
    }

    /// The arguments it uses, and whether it takes others besides.
    pub fn parameters(&self) -> (Vec<Parameter>, bool) {
        let references = self.references().into_iter().filter(|reference| !reference.secret);
        let mut found: Vec<Parameter> = Vec::new();
        let mut whole = false;
        for reference in references {
            match reference.steps.first() {
                Some(step) => {
                    let Key::Name(name) = &step.key else { continue };
                    match found.iter_mut().find(|one| one.name == *name) {
                        Some(known) => known.required |= !step.optional,
                        None => found.push(Parameter { name: name.clone(), required: !step.optional }),
                    }
                }
                None => whole = true,
            }
        }
        (found, whole)
    }

    /// The request for these arguments and secrets; the error is a sentence about them.
    pub(crate) fn fill(&self, args: &Map<String, Value>, secrets: &Map<String, Value>) -> Result<Filled, String> {
        let (known, whole) = self.parameters();
        if let Some(name) = args.keys().find(|name| !whole && !known.iter().any(|one| one.name == **name)) {
            let names: Vec<&str> = known.iter().map(|one| one.name.as_str()).collect();
            return Err(format!(
                "`{name}`: the request template uses no such argument; it uses: {}",
                if names.is_empty() { "none".to_owned() } else { names.join(", ") }
            ));
        }
        let given = Given { args, secrets };
        let url = self.url.fill_as(given, &|text| encode(&text))?;
        let url = url.as_str().ok_or_else(|| format!("url is {url}, not a text"))?.to_owned();
        let mut query = Vec::new();
        for (name, filling) in &self.query {
            match filling.fill(given)? {
                Value::Null => {}
                Value::Array(items) => query.extend(items.iter().map(|item| (name.clone(), plain(item)))),
                value => query.push((name.clone(), plain(&value))),
            }
        }
        let mut headers = Vec::new();
        for (name, filling) in &self.headers {
            match filling.fill(given)? {
                Value::Null => {}
                value => headers.push((name.clone(), plain(&value))),
            }
        }
        let body = self.body.as_ref().map(|body| body.fill(given)).transpose()?;
        let body = body.map(|body| encode_body(&body, &mut headers)).transpose()?;
        Ok(Filled { method: self.method.clone(), url, query, headers, body })
    }
}

/// A text is sent as it is, anything else as JSON, or as a form if the headers say so.
fn encode_body(body: &Value, headers: &mut Vec<(String, String)>) -> Result<Vec<u8>, String> {
    let kind = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-type")).map(|(_, kind)| kind.to_ascii_lowercase());
    if let (Value::Object(map), Some(true)) = (body, kind.as_deref().map(|kind| kind.starts_with("application/x-www-form-urlencoded"))) {
        let pairs: Vec<String> = map.iter().map(|(name, value)| format!("{}={}", encode(name), encode(&plain(value)))).collect();
        return Ok(pairs.join("&").into_bytes());
    }
    let (bytes, default) = match body {
        Value::String(text) => (text.clone().into_bytes(), "text/plain; charset=utf-8"),
        other => (serde_json::to_vec(other).map_err(|error| error.to_string())?, "application/json"),
    };
    if kind.is_none() {
        headers.push(("content-type".to_owned(), default.to_owned()));
    }
    Ok(bytes)
}

/// A value in a URL stays one segment, whatever it holds.
fn encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(char::from(byte)),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    // `.` and `..` would be steps of the path
    if out == "." || out == ".." { out.replace('.', "%2E") } else { out }
}

fn method(map: &Map<String, Value>) -> Result<String, Problem> {
    let Some(given) = map.get("method") else { return Ok("GET".to_owned()) };
    let method = given.as_str().map(str::to_ascii_uppercase).filter(|method| METHODS.contains(&method.as_str()));
    method.ok_or_else(|| problem(&["method"], format!("method is one of {}, not {given}", METHODS.join(", "))))
}

fn url(map: &Map<String, Value>) -> Result<Filling, Problem> {
    let wrong = |message: String| problem(&["url"], message);
    let Some(given) = map.get("url") else { return Err(problem(&[], "url is missing: where the request goes")) };
    let text = given.as_str().ok_or_else(|| wrong(format!("url is a text, not {given}")))?;
    let filling = Filling::text(text).map_err(wrong)?;
    let start = match &filling {
        Filling::Reference(_) => return Ok(filling),
        _ => text,
    };
    let rest = start.strip_prefix("https://").or_else(|| start.strip_prefix("http://"));
    match rest {
        None => Err(wrong(format!("url begins with https:// or http://, or is one reference like $args.url; not {text:?}"))),
        Some(rest) if rest.is_empty() || rest.starts_with('/') => Err(wrong("url names no host".to_owned())),
        Some(rest) if rest.split(['/', '?']).next().is_some_and(|host| host.contains('@')) => {
            Err(wrong("url holds a password: give it as a header, Authorization: Basic …".to_owned()))
        }
        Some(_) => Ok(filling),
    }
}

fn pairs(map: &Map<String, Value>, key: &'static str) -> Result<Vec<(String, Filling)>, Problem> {
    let Some(given) = map.get(key) else { return Ok(Vec::new()) };
    let Value::Object(entries) = given else { return Err(problem(&[key], format!("{key} is a map from names to values, not {given}"))) };
    let read = |(name, value): (&String, &Value)| Ok((name.clone(), Filling::parse(value).map_err(|message| problem(&[key, name], message))?));
    entries.iter().map(read).collect()
}

fn check_headers(headers: Vec<(String, Filling)>) -> Result<Vec<(String, Filling)>, Problem> {
    let token = |name: &str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte));
    for (name, filling) in &headers {
        if !token(name) {
            return Err(problem(&["headers", name], format!("{name:?} cannot name a header")));
        }
        if ["host", "content-length", "transfer-encoding", "connection"].contains(&name.to_ascii_lowercase().as_str()) {
            return Err(problem(&["headers", name], format!("{name} follows from the request itself and cannot be set")));
        }
        if matches!(filling, Filling::List(_) | Filling::Map(_)) {
            return Err(problem(&["headers", name], "a header's value is a text"));
        }
    }
    Ok(headers)
}

fn body(map: &Map<String, Value>, method: &str) -> Result<Option<Filling>, Problem> {
    let Some(given) = map.get("body") else { return Ok(None) };
    if matches!(method, "GET" | "HEAD") {
        return Err(problem(&["body"], format!("a {method} request has no body")));
    }
    Filling::parse(given).map(Some).map_err(|message| problem(&["body"], message))
}

fn timeout(map: &Map<String, Value>, duration: &dyn Fn(&Value) -> Result<Option<u64>, String>) -> Result<u64, Problem> {
    let Some(given) = map.get("timeout") else { return Ok(TIMEOUT_MS) };
    let wrong = |message: String| problem(&["timeout"], message);
    match duration(given).map_err(wrong)? {
        Some(ms) if (1..=MAX_TIMEOUT_MS).contains(&ms) => Ok(ms),
        _ => Err(wrong("timeout: from 1 ms to one hour".to_owned())),
    }
}

fn statuses(map: &Map<String, Value>, key: &'static str) -> Result<Vec<u16>, Problem> {
    let Some(given) = map.get(key) else { return Ok(Vec::new()) };
    let status = |value: &Value| value.as_u64().and_then(|status| u16::try_from(status).ok()).filter(|status| (100..=599).contains(status));
    let read: Option<Vec<u16>> = given.as_array().and_then(|items| items.iter().map(status).collect());
    read.filter(|list| !list.is_empty()).ok_or_else(|| problem(&[key], format!("{key} is a list of statuses like [200, 201], not {given}")))
}

fn value_of(map: &Map<String, Value>) -> Result<ValueOf, Problem> {
    match map.get("value").map(|given| (given, given.as_str())) {
        None | Some((_, Some("body"))) => Ok(ValueOf::Body),
        Some((_, Some("status"))) => Ok(ValueOf::Status),
        Some((_, Some("headers"))) => Ok(ValueOf::Headers),
        Some((given, _)) => Err(problem(&["value"], format!("value is status, headers or body, not {given}"))),
    }
}

fn number(map: &Map<String, Value>, key: &'static str, least: u64, most: u64) -> Result<Option<u64>, Problem> {
    let Some(given) = map.get(key) else { return Ok(None) };
    let number = given.as_u64().filter(|number| (least..=most).contains(number));
    number.map(Some).ok_or_else(|| problem(&[key], format!("{key} is an integer from {least} to {most}, not {given}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn parse(document: Value) -> Result<Template, Vec<Problem>> {
        Template::parse(&document, &|value| Ok(value.as_u64()))
    }

    fn args(value: Value) -> Map<String, Value> {
        value.as_object().cloned().unwrap()
    }

    #[test]
    fn a_request_is_filled() {
        let template = parse(json!({
            "method": "post", "url": "https://x.test/items/${args.id}/y", "query": {"q": "$args.q", "none": "$args.none?", "each": "$args.each"},
            "headers": {"X-A": "v ${args.q}"}, "body": {"whole": "$args.each", "text": "n ${args.id}", "$$": "$$literal"},
        }))
        .unwrap();
        let filled = template.fill(&args(json!({"id": "../a b", "q": 1, "each": [1, "two"]})), &Map::new()).unwrap();
        assert_eq!(filled.url, "https://x.test/items/..%2Fa%20b/y");
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(filled.query, [pair("q", "1"), pair("each", "1"), pair("each", "two")]);
        assert_eq!(filled.headers, [pair("X-A", "v 1"), pair("content-type", "application/json")]);
        assert_eq!(String::from_utf8(filled.body.unwrap()).unwrap(), r#"{"whole":[1,"two"],"text":"n ../a b","$$":"$literal"}"#);
    }

    #[test]
    fn secrets_are_filled_in_and_are_no_arguments() {
        let template = parse(json!({
            "url": "https://x.test/${secrets.path}/${args.id}", "headers": {"Authorization": "Bearer ${secrets.api-token}", "X": "$secrets[\"b.c\"]"},
        }))
        .unwrap();
        assert_eq!(template.secrets(), ["path", "api-token", "b.c"]);
        assert_eq!(template.parameters().0.len(), 1);
        let secrets = args(json!({"path": "a/b", "api-token": "t", "b.c": "u"}));
        let filled = template.fill(&args(json!({"id": 1})), &secrets).unwrap();
        assert_eq!(filled.url, "https://x.test/a%2Fb/1");
        assert_eq!(filled.headers[0].1, "Bearer t");
        assert!(template.fill(&args(json!({"id": 1})), &Map::new()).unwrap_err().contains("was not given"));
        let old: Template = serde_json::from_str(&serde_json::to_string(&template).unwrap()).unwrap();
        assert_eq!(old, template);
        for bad in ["$secrets", "${secrets.a.b}", "${secrets.a?}", "${secrets[0]}", "${secrets}"] {
            let problems = parse(json!({"url": "https://x.test", "headers": {"X": bad}})).unwrap_err();
            assert!(problems[0].message.contains("a secret is"), "{bad}: {problems:?}");
        }
    }

    #[test]
    fn arguments_must_fit() {
        let template = parse(json!({"url": "https://x.test/${args.id}", "query": {"q": "$args.q?"}})).unwrap();
        assert!(template.fill(&args(json!({})), &Map::new()).unwrap_err().contains("`args.id`: no such argument; given: none"));
        assert!(
            template
                .fill(&args(json!({"id": 1, "z": 2})), &Map::new())
                .unwrap_err()
                .contains("`z`: the request template uses no such argument; it uses: id, q")
        );
        assert!(template.fill(&args(json!({"id": 1})), &Map::new()).is_ok());
        let (parameters, whole) = template.parameters();
        assert_eq!(parameters, [Parameter { name: "id".into(), required: true }, Parameter { name: "q".into(), required: false }]);
        assert!(!whole);
    }

    #[test]
    fn all_that_is_wrong_is_said_with_its_place() {
        let problems = parse(json!({
            "methd": "GET", "method": "FETCH", "url": "ftp://x", "headers": {"Host": "x"}, "body": "$inputs.x", "timeout": 0, "expect": [], "value": "text",
        }))
        .unwrap_err();
        let paths: Vec<String> = problems.iter().map(|problem| problem.path.join(".")).collect();
        assert_eq!(paths, ["methd", "method", "url", "headers.Host", "body", "timeout", "expect", "value"]);
        assert!(problems[4].message.contains("GET request has no body"), "{problems:?}");
        let problems = parse(json!({"method": "POST", "url": "https://x/${inputs.x}", "body": {"a": "$inputs.x"}})).unwrap_err();
        assert!(problems.iter().all(|problem| problem.message.contains("only `$args.NAME`")), "{problems:?}");
    }
}
