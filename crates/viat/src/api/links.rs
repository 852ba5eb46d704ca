//! `/links/review/TOKEN`: a person with a signed link decides a review in a browser. Looking never decides.

use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use serde_json::{Map, Value, json};
use viat_engine::record::{ReviewRecord, rfc3339};
use viat_runner::clock::wall_now;
use viat_runner::driver::PENDING_REVIEW;
use viat_store::{Op, StoreError, Unit};

use super::Engine;
use super::page::{self, Filled, as_text, field_name, kind, notice, question};
use crate::ask::{self, Decision, DecisionBody};
use crate::audit::{Actor, Change, Via};
use crate::cli::error::CliError;
use crate::links::{BadToken, Grant, Key, USED_LINKS};

/// Shows what is asked.
pub async fn show(State(engine): State<Engine>, Path(token): Path<String>) -> Response {
    answered(move || {
        let (grant, review) = match open(&engine, &token)? {
            Ok(open) => open,
            Err(page) => return Ok(page),
        };
        Ok(question(StatusCode::OK, &review, &grant, &Vec::new(), None))
    })
    .await
}

/// Takes the decision.
pub async fn decide(State(engine): State<Engine>, Path(token): Path<String>, headers: HeaderMap, body: Bytes) -> Response {
    let sent = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if !sent.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/x-www-form-urlencoded")) {
        return notice(StatusCode::UNSUPPORTED_MEDIA_TYPE, "This is not the page's form", "Open the link in a browser and use the buttons.");
    }
    let filled = parse(&body);
    answered(move || {
        let (grant, review) = match open(&engine, &token)? {
            Ok(open) => open,
            Err(page) => return Ok(page),
        };
        match read(&grant, &review, &filled) {
            Err(problem) => Ok(question(StatusCode::UNPROCESSABLE_ENTITY, &review, &grant, &filled, Some(&problem))),
            Ok(body) => take(&engine, &grant, &review, &filled, body),
        }
    })
    .await
}

/// Work that waits for the store and the driver, on a thread of its own.
async fn answered(work: impl FnOnce() -> Result<Response, CliError> + Send + 'static) -> Response {
    match tokio::task::spawn_blocking(work).await {
        Ok(Ok(page)) => page,
        // What is wrong with the server is not the visitor's to know.
        Ok(Err(_)) | Err(_) => notice(StatusCode::SERVICE_UNAVAILABLE, "Not now", "The server cannot do this at the moment. Try again in a while."),
    }
}

/// What the link permits and what is asked, or the page that says why it is worth nothing any more.
fn open(engine: &Engine, token: &str) -> Result<Result<(Grant, ReviewRecord), Response>, CliError> {
    let key = Key::of(&engine.home).map_err(|error| CliError::failed(error.to_string()))?;
    let grant = match key.check(token, wall_now()) {
        Ok(grant) => grant,
        Err(BadToken::Forged) => {
            return Ok(Err(notice(StatusCode::FORBIDDEN, "This link is not valid", "It may have been cut short on its way. Ask for a new one.")));
        }
        Err(BadToken::Expired(at)) => {
            let text = format!("It could be used until {}. Ask for a new one, if the question is still open.", rfc3339(at));
            return Ok(Err(notice(StatusCode::GONE, "This link has expired", &text)));
        }
    };
    if let Some(used) = engine.store.key(USED_LINKS, &grant.id).map_err(CliError::store)? {
        let text = String::from_utf8_lossy(&used).into_owned();
        return Ok(Err(notice(StatusCode::GONE, "This link has been used", &text)));
    }
    let Some(row) = engine.store.review(&grant.review).map_err(CliError::store)? else {
        return Ok(Err(notice(StatusCode::NOT_FOUND, "This question is not there any more", "What asked it has been deleted.")));
    };
    if row.status != PENDING_REVIEW {
        return Ok(Err(over(&ask::how_it_ended(&row))));
    }
    let review = ask::asked(engine.store.as_ref(), &row)?;
    Ok(Ok((grant, review)))
}

fn over(how: &str) -> Response {
    notice(StatusCode::CONFLICT, "This question is settled already", &format!("{how}."))
}

/// Uses the link up, then decides; a decision that is not taken gives the link back.
fn take(engine: &Engine, grant: &Grant, review: &ReviewRecord, filled: &Filled, body: DecisionBody) -> Result<Response, CliError> {
    let words = format!("Decided with it at {}: {} by {}.", rfc3339(wall_now()), body.decision.verdict().name(), body.by);
    let claim = Op::ClaimKey { space: USED_LINKS.to_owned(), key: grant.id.clone(), value: words.into_bytes() };
    match engine.store.commit_blocking(Unit::from(claim)) {
        Ok(_) => {}
        Err(StoreError::KeyTaken { value, .. }) => {
            return Ok(notice(StatusCode::GONE, "This link has been used", &String::from_utf8_lossy(&value)));
        }
        Err(error) => return Err(CliError::store(error)),
    }
    let (decision, by) = (body.decision, body.by.clone());
    let change = Change { by: Some(by.clone()), reason: body.comment.clone(), ..Change::of("review.decide", grant.review.as_str()) };
    let actor = Actor { name: by.clone(), via: Via::Link, token: None };
    let error = match ask::decide(engine.store.as_ref(), &engine.driver, &grant.review, body) {
        Ok(_) => {
            change.detail(decision.verdict().name()).note(engine.store.as_ref(), &actor)?;
            let text = format!("{}: {}, by {by}. You can close this page.", review.title, decision.verdict().name());
            return Ok(notice(StatusCode::OK, "Your decision is recorded", &text));
        }
        Err(error) => error,
    };
    let free = Op::DropKey { space: USED_LINKS.to_owned(), key: grant.id.clone() };
    engine.store.commit_blocking(Unit::from(free)).map_err(CliError::store)?;
    match error.code() {
        2 => Ok(question(StatusCode::UNPROCESSABLE_ENTITY, review, grant, filled, Some(error.message()))),
        3 => Ok(over(error.message())),
        _ => Err(error),
    }
}

/// The decision that the form says, within what the link permits.
fn read(grant: &Grant, review: &ReviewRecord, filled: &Filled) -> Result<DecisionBody, String> {
    let text = |name: &str| filled.iter().find(|(key, _)| key == name).map(|(_, value)| value.trim()).filter(|value| !value.is_empty());
    let wanted = text("decision").ok_or("Choose a decision.")?;
    let decision = Decision::ALL.into_iter().find(|each| each.verdict().name() == wanted).ok_or("There is no such decision.")?;
    if grant.decision.is_some_and(|only| only != decision) {
        return Err("This link is for another decision.".to_owned());
    }
    let by = match &grant.by {
        Some(by) => by.clone(),
        None => text("by").ok_or("Say who you are.")?.to_owned(),
    };
    let mut data = Map::new();
    for field in &review.form {
        let name = field_name(field);
        let Some(typed) = text(&name) else { continue };
        data.insert(field.name.clone(), value_of(field, typed)?);
    }
    let data = if data.is_empty() { Value::Null } else { json!(data) };
    Ok(DecisionBody { decision, by, comment: text("comment").map(str::to_owned), data })
}

/// What somebody typed, as the value that they mean.
fn value_of(field: &viat_engine::ir::InputDeclaration, typed: &str) -> Result<Value, String> {
    if let Some(chosen) = field.schema.get("enum").and_then(Value::as_array).and_then(|values| values.iter().find(|value| as_text(value) == typed)) {
        return Ok(chosen.clone());
    }
    if kind(field) == Some("string") {
        return Ok(typed.into());
    }
    match viat_dialect::json::parse(typed) {
        Ok(value) => Ok(value),
        // Without a type a text is as good as anything.
        Err(_) if kind(field).is_none() => Ok(typed.into()),
        Err(error) => Err(format!("{}: {error}", field.name)),
    }
}

/// The pairs of a form.
fn parse(body: &[u8]) -> page::Filled {
    body.split(|byte| *byte == b'&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let at = pair.iter().position(|byte| *byte == b'=').unwrap_or(pair.len());
            (decoded(&pair[..at]), decoded(pair.get(at + 1..).unwrap_or_default()))
        })
        .collect()
}

fn decoded(text: &[u8]) -> String {
    let digit = |at: usize| text.get(at).and_then(|byte| char::from(*byte).to_digit(16)).and_then(|digit| u8::try_from(digit).ok());
    let mut bytes = Vec::with_capacity(text.len());
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        let escape = digit(at + 1).zip(digit(at + 2)).filter(|_| *byte == b'%');
        match (byte, escape) {
            (_, Some((high, low))) => {
                bytes.push(high << 4 | low);
                at += 2;
            }
            (b'+', None) => bytes.push(b' '),
            (other, None) => bytes.push(*other),
        }
        at += 1;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_read_as_browsers_send_them() {
        let pairs = parse(b"by=J%C3%BCrgen+O%27Neil&comment=a%2Bb%3D1%26&empty=&flag&bad=%zz%4");
        let expected = [("by", "Jürgen O'Neil"), ("comment", "a+b=1&"), ("empty", ""), ("flag", ""), ("bad", "%zz%4")];
        assert_eq!(pairs, expected.map(|(key, value)| (key.to_owned(), value.to_owned())));
        assert!(parse(b"").is_empty() && parse(b"&&").is_empty());
    }

    #[test]
    fn what_is_typed_becomes_what_is_meant() {
        let field = |schema: Value| viat_engine::ir::InputDeclaration { name: "n".to_owned(), schema, default: None, required: true };
        let value = |schema: Value, typed: &str| value_of(&field(schema), typed).ok();
        assert_eq!(value(json!({"type": "integer"}), "4"), Some(json!(4)));
        assert_eq!(value(json!({"type": "string"}), "4"), Some(json!("4")));
        assert_eq!(value(json!({"type": "boolean"}), "true"), Some(json!(true)));
        assert_eq!(value(json!({"enum": [1, "x"]}), "1"), Some(json!(1)));
        assert_eq!(value(json!({"type": "integer"}), "four"), None);
        assert_eq!(value(json!({}), "four"), Some(json!("four")));
    }
}
