//! `fail`: a refusal that the workflow itself raises.

use serde_json::Value;

use crate::failure::{Failure, RunError};
use crate::ir::Fail;
use crate::path::Path;
use crate::policies::class::Class;
use crate::template::described;
use crate::turn::Turn;

pub(crate) fn enter(turn: &mut Turn<'_>, frame: &Path, path: &Path, refusal: &Fail) -> Result<(), String> {
    let code = match turn.fill(&refusal.code, frame)? {
        Value::String(code) if !code.is_empty() => code,
        other => return Err(format!("code must be a non-empty string, it is {}", described(&other))),
    };
    let message = match turn.fill(&refusal.message, frame)? {
        Value::String(message) => message,
        other => return Err(format!("message must be a string, it is {}", described(&other))),
    };
    let extra = refusal.extra.as_ref().map(|extra| turn.fill(extra, frame)).transpose()?;
    let failure = Failure { class: Class::User, code, message, status: Some(refusal.status), extra, retry_after_ms: None };
    super::fail(turn, frame, RunError::of_entry(path, path.last(), None, &failure));
    Ok(())
}
