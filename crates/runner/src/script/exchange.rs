//! The frames of an attempt and what they say.

use serde::Deserialize;
use serde_json::Value;

use super::call::{Answer, Call, Notice, Outcome};
use super::config::Language;
use super::ends::{Frame, frame};

/// `viat.progress`.
#[derive(Deserialize)]
pub(crate) struct Progress {
    pub(crate) fraction: Option<f64>,
    pub(crate) note: Option<String>,
}

#[derive(Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
enum Question {
    Defer { workflow: String, args: Value },
    Resource { name: String, kind: Option<String> },
}

/// What the script asks, with where the answer goes.
pub(crate) fn read_question(frame: &Frame, ack: Answer) -> Result<Notice, serde_json::Error> {
    Ok(match serde_json::from_slice(frame.body())? {
        Question::Defer { workflow, args } => Notice::Defer { workflow, args, ack },
        Question::Resource { name, kind } => Notice::Resource { name, kind, ack },
    })
}

/// What the attempt's last frame says.
pub(crate) fn read_result(frame: &Frame) -> Result<Outcome, serde_json::Error> {
    match frame.kind() {
        b'r' => serde_json::from_slice(frame.body()).map(Outcome::Returned),
        _ => serde_json::from_slice(frame.body()).map(Outcome::Failed),
    }
}

/// The frame that starts the attempt; the args are text already and are copied as they are. Secrets go with it where the
/// language has no way to ask for them.
pub(crate) fn call_frame(call: &Call, language: Language) -> Result<Vec<u8>, serde_json::Error> {
    let secrets = match call.secrets.as_ref().filter(|_| language.is_native()) {
        Some(secrets) => format!(r#","secrets":{}"#, serde_json::to_string(secrets.values())?),
        None => String::new(),
    };
    let id = serde_json::to_string(&call.attempt_id)?;
    let context = serde_json::to_string(&call.context)?;
    let parts = [r#"{"id":"#, &id, r#","context":"#, &context, r#","args":"#, &call.args, &secrets, "}"];
    Ok(frame(b'c', &parts.map(str::as_bytes)))
}

/// A result that is too late to count, as a line for the log.
pub(crate) fn describe_late(outcome: &Outcome) -> String {
    let text = match outcome {
        Outcome::Returned(value) => format!("returned after its end: {value}"),
        Outcome::Failed(fault) => format!("failed after its end: {}: {}", fault.code, fault.message),
        Outcome::Stopped => String::new(),
    };
    let end = text.char_indices().nth(1000).map_or(text.len(), |(at, _)| at);
    text[..end].to_string()
}
