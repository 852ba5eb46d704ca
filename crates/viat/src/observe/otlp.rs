//! Spans as OTLP's JSON: what a run's facts become on the wire.

use serde_json::{Map, Value, json};
use viat_engine::Run;
use viat_engine::facts::{Attempt, End, Fact, Part};
use viat_engine::journal::Millis;
use viat_engine::key::{self, hex};

/// A span that is to be sent.
#[derive(Clone, Debug)]
pub struct Sent {
    run: String,
    workflow: String,
    version: u64,
    what: What,
}

#[derive(Clone, Debug)]
enum What {
    Attempt(Attempt),
    Part(Part),
}

impl Sent {
    /// The span that a fact is, if it is one.
    pub fn new(run: &Run, fact: &Fact) -> Option<Sent> {
        let what = match fact {
            Fact::AttemptEnded(attempt) => What::Attempt(attempt.clone()),
            Fact::RunEnded(part) => What::Part(part.clone()),
            Fact::AttemptBegan { .. } | Fact::Counted(..) => return None,
        };
        Some(Sent { run: run.created.run.clone(), workflow: run.created.workflow.clone(), version: run.version, what })
    }

    fn span(&self) -> Value {
        let mut attributes = vec![
            attribute("viat.run", self.run.as_str()),
            attribute("viat.workflow", self.workflow.as_str()),
            attribute("viat.workflow.version", self.version),
        ];
        let mut span = match &self.what {
            What::Attempt(attempt) => self.attempt(attempt, &mut attributes),
            What::Part(part) => self.part(part, &mut attributes),
        };
        span.insert("traceId".to_owned(), hex(&key::trace(&self.run)).into());
        span.insert("kind".to_owned(), INTERNAL.into());
        span.insert("attributes".to_owned(), attributes.into());
        Value::Object(span)
    }

    fn attempt(&self, attempt: &Attempt, attributes: &mut Vec<Value>) -> Map<String, Value> {
        attributes.push(attribute("viat.step.path", attempt.path.as_str()));
        attributes.push(attribute("viat.attempt", u64::from(attempt.attempt)));
        let failure = match &attempt.end {
            End::Succeeded => None,
            End::Failed { class, code } => Some((class.name(), code.as_str())),
            End::Cancelled => {
                attributes.push(attribute("viat.cancelled", true));
                None
            }
        };
        if attempt.interrupted {
            attributes.push(attribute("viat.interrupted", true));
        }
        let status = status(failure, attempt.end == End::Succeeded, attributes);
        let id = key::attempt_span(&self.run, &attempt.path, attempt.attempt);
        let parent = Some(key::part_span(&self.run, attempt.part));
        span(&attempt.path.pattern(), id, parent, (attempt.began.unwrap_or(attempt.ended), attempt.ended), status)
    }

    fn part(&self, part: &Part, attributes: &mut Vec<Value>) -> Map<String, Value> {
        attributes.push(attribute("viat.run.status", part.status.name()));
        if part.number > 0 {
            attributes.push(attribute("viat.run.part", u64::from(part.number)));
        }
        let failure = part.error.as_ref().map(|(class, code)| (*class, code.as_str()));
        let status = status(failure, failure.is_none(), attributes);
        let parent = (part.number > 0).then(|| key::part_span(&self.run, 0));
        span(&self.workflow, key::part_span(&self.run, part.number), parent, (part.began, part.ended), status)
    }
}

/// The body of a request with these spans.
pub fn request(resource: &[(String, String)], spans: &[Sent]) -> Vec<u8> {
    let resource: Vec<Value> = resource.iter().map(|(name, value)| attribute(name, value.as_str())).collect();
    let spans: Vec<Value> = spans.iter().map(Sent::span).collect();
    let scope = json!({"name": "viat", "version": env!("CARGO_PKG_VERSION")});
    let body = json!({"resourceSpans": [{"resource": {"attributes": resource}, "scopeSpans": [{"scope": scope, "spans": spans}]}]});
    body.to_string().into_bytes()
}

/// `SPAN_KIND_INTERNAL`.
const INTERNAL: u64 = 1;

fn span(name: &str, id: [u8; 8], parent: Option<[u8; 8]>, (began, ended): (Millis, Millis), status: Value) -> Map<String, Value> {
    let mut span = Map::new();
    span.insert("spanId".to_owned(), hex(&id).into());
    if let Some(parent) = parent {
        span.insert("parentSpanId".to_owned(), hex(&parent).into());
    }
    span.insert("name".to_owned(), name.into());
    span.insert("startTimeUnixNano".to_owned(), nanos(began).into());
    // A clock that was set back does not make a span end before it begins.
    span.insert("endTimeUnixNano".to_owned(), nanos(ended.max(began)).into());
    span.insert("status".to_owned(), status);
    span
}

/// Messages stay where they are: they may say what is nobody else's business.
fn status(failure: Option<(&str, &str)>, well: bool, attributes: &mut Vec<Value>) -> Value {
    match failure {
        Some((class, code)) => {
            attributes.push(attribute("error.type", class));
            attributes.push(attribute("viat.error.code", code));
            json!({"code": 2, "message": format!("{class}: {code}")})
        }
        None if well => json!({"code": 1}),
        None => json!({}),
    }
}

/// OTLP's JSON has 64-bit numbers as text.
fn nanos(at: Millis) -> String {
    i128::from(at.max(0)).saturating_mul(1_000_000).to_string()
}

fn attribute(name: &str, value: impl Into<Value>) -> Value {
    let value = match value.into() {
        Value::Number(number) => json!({"intValue": number.to_string()}),
        Value::Bool(truth) => json!({"boolValue": truth}),
        other => json!({"stringValue": other}),
    };
    json!({"key": name, "value": value})
}

#[cfg(test)]
mod tests {
    use viat_engine::Status;
    use viat_engine::path::Path;
    use viat_engine::policies::class::Class;

    use super::*;

    fn sent(what: What) -> Value {
        Sent { run: "01a22d89-f81a-7624-b9f8-63ca9d84d050".to_owned(), workflow: "w".to_owned(), version: 3, what }.span()
    }

    #[test]
    fn an_attempt_and_its_run_share_a_trace() {
        let end = End::Failed { class: Class::Transport, code: "reset".to_owned() };
        let attempt = Attempt { path: Path::from("each[3].a"), attempt: 2, part: 0, began: Some(5), ended: 7, end, interrupted: false };
        let part = Part { number: 0, began: 1, ended: 9, status: Status::Succeeded, error: None };
        let (attempt, root) = (sent(What::Attempt(attempt)), sent(What::Part(part)));
        assert_eq!((&attempt["traceId"], &root["traceId"]), (&json!("01a22d89f81a7624b9f863ca9d84d050"), &json!("01a22d89f81a7624b9f863ca9d84d050")));
        assert_eq!((&attempt["parentSpanId"], root.get("parentSpanId")), (&root["spanId"], None));
        assert_eq!((&attempt["name"], &root["name"]), (&json!("each[*].a"), &json!("w")));
        assert_eq!((&attempt["startTimeUnixNano"], &attempt["endTimeUnixNano"]), (&json!("5000000"), &json!("7000000")));
        assert_eq!((&attempt["status"], &root["status"]), (&json!({"code": 2, "message": "transport: reset"}), &json!({"code": 1})));
        let attributes = attempt["attributes"].as_array().expect("a list");
        for expected in [
            json!({"key": "viat.step.path", "value": {"stringValue": "each[3].a"}}),
            json!({"key": "viat.attempt", "value": {"intValue": "2"}}),
            json!({"key": "error.type", "value": {"stringValue": "transport"}}),
        ] {
            assert!(attributes.contains(&expected), "{expected} in {attributes:?}");
        }
    }

    #[test]
    fn a_later_part_hangs_under_the_root() {
        let part =
            |number| sent(What::Part(Part { number, began: 9, ended: 1, status: Status::Cancelled, error: Some(("cancelled", "cancelled".to_owned())) }));
        assert_eq!(part(1)["parentSpanId"], part(0)["spanId"]);
        assert_ne!(part(1)["spanId"], part(0)["spanId"]);
        assert_eq!(part(1)["endTimeUnixNano"], "9000000", "a span does not end before it begins");
    }
}
