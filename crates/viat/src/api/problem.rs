//! Errors as RFC 9457 problem documents.

use axum::Json;
use axum::http::{Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use viat_store::RunId;

use crate::cli::error::CliError;

/// A request that could not be done, and why.
pub struct Problem {
    status: StatusCode,
    detail: String,
    help: Option<String>,
    run: Option<String>,
    diagnostics: Option<Value>,
}

impl Problem {
    /// A problem with this status.
    pub fn new(status: StatusCode, detail: impl Into<String>) -> Problem {
        Problem { status, detail: detail.into(), help: None, run: None, diagnostics: None }
    }

    /// The same, about this run.
    #[must_use]
    pub fn about(mut self, run: &RunId) -> Problem {
        self.run = Some(run.to_string());
        self
    }

    /// The same, with another status.
    #[must_use]
    pub fn with_status(self, status: StatusCode) -> Problem {
        Problem { status, ..self }
    }

    /// The same, with what to do instead.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Problem {
        self.help = Some(help.into());
        self
    }

    /// Its status.
    pub fn status(&self) -> StatusCode {
        self.status
    }
}

impl From<CliError> for Problem {
    fn from(error: CliError) -> Problem {
        let status = match error.code() {
            2 => StatusCode::UNPROCESSABLE_ENTITY,
            3 if error.is_missing() => StatusCode::NOT_FOUND,
            3 => StatusCode::CONFLICT,
            _ => StatusCode::SERVICE_UNAVAILABLE,
        };
        Problem { status, detail: error.message().to_owned(), help: error.help_text().map(str::to_owned), run: None, diagnostics: error.data().cloned() }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let title = self.status.canonical_reason().unwrap_or("problem");
        let mut body = json!({"type": "about:blank", "title": title, "status": self.status.as_u16(), "detail": self.detail, "help": self.help});
        if let Some(map) = body.as_object_mut() {
            map.extend(self.run.map(|run| ("run".to_owned(), run.into())));
            map.extend(self.diagnostics.map(|found| ("diagnostics".to_owned(), found)));
        }
        (self.status, [(header::CONTENT_TYPE, "application/problem+json")], Json(body)).into_response()
    }
}

/// Nothing is served there.
pub async fn no_such_path(uri: Uri) -> Problem {
    Problem::new(StatusCode::NOT_FOUND, format!("there is nothing at {}", uri.path()))
}

/// Something is served there, but not for this method.
pub async fn no_such_method(method: Method, uri: Uri) -> Problem {
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, format!("{} does not answer to {method}", uri.path()))
}
