//! What handlers take from a request; what does not fit is a problem document too.

use axum::extract::{FromRequestParts, Path, Query};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use serde::de::DeserializeOwned;
use viat_store::Precondition;

use super::problem::Problem;

/// What varies in the path.
pub struct Place<T>(pub T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Place<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Place<T>, Problem> {
        let taken = Path::<T>::from_request_parts(parts, state).await;
        taken.map(|Path(inner)| Place(inner)).map_err(|error| Problem::new(StatusCode::BAD_REQUEST, format!("the path does not fit: {}", error.body_text())))
    }
}

/// What stands in the query.
pub struct Asked<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Asked<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Asked<T>, Problem> {
        let taken = Query::<T>::from_request_parts(parts, state).await;
        taken.map(|Query(inner)| Asked(inner)).map_err(|error| Problem::new(StatusCode::BAD_REQUEST, format!("the query does not fit: {}", error.body_text())))
    }
}

/// What the caller knows of an asset that is to be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Whatever is there.
    Any,
    /// `If-None-Match: *`: it is not there yet.
    Absent,
    /// `If-Match`: its newest version is this one.
    Version(u64),
}

impl Condition {
    /// What the headers say.
    pub fn of(headers: &HeaderMap) -> Result<Condition, Problem> {
        let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or_default().trim());
        match (text(header::IF_MATCH), text(header::IF_NONE_MATCH)) {
            (None, None) => Ok(Condition::Any),
            (None, Some("*")) => Ok(Condition::Absent),
            (Some(tag), None) => version_of(tag).map(Condition::Version),
            _ => Err(Problem::new(StatusCode::BAD_REQUEST, "only `If-Match: \"VERSION\"` or `If-None-Match: *` is understood")),
        }
    }

    /// The same as the store checks it.
    pub fn precondition(self, name: viat_store::AssetName) -> Option<Precondition> {
        match self {
            Condition::Any => None,
            Condition::Absent => Some(Precondition::AssetAbsent(name)),
            Condition::Version(version) => Some(Precondition::AssetVersion(name, version)),
        }
    }

    /// A refusal for the sake of the condition is a 412.
    pub fn explain(self, problem: Problem) -> Problem {
        if self == Condition::Any || problem.status() != StatusCode::CONFLICT {
            return problem;
        }
        problem.with_status(StatusCode::PRECONDITION_FAILED)
    }
}

fn version_of(tag: &str) -> Result<u64, Problem> {
    let inner = tag.strip_prefix('"').and_then(|tag| tag.strip_suffix('"'));
    let version = inner.and_then(|text| text.parse().ok());
    version.ok_or_else(|| Problem::new(StatusCode::BAD_REQUEST, format!("If-Match {tag} is no version of an asset: send its ETag, as in \"3\"")))
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};

    use super::*;

    #[test]
    fn conditions_are_read_or_refused() {
        let of = |pairs: &[(HeaderName, &'static str)]| {
            let headers: HeaderMap = pairs.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value))).collect();
            Condition::of(&headers).ok()
        };
        assert_eq!(of(&[]), Some(Condition::Any));
        assert_eq!(of(&[(header::IF_MATCH, "\"12\"")]), Some(Condition::Version(12)));
        assert_eq!(of(&[(header::IF_NONE_MATCH, "*")]), Some(Condition::Absent));
        for (name, value) in [(header::IF_MATCH, "12"), (header::IF_MATCH, "*"), (header::IF_MATCH, "W/\"1\""), (header::IF_NONE_MATCH, "\"1\"")] {
            assert_eq!(of(&[(name, value)]), None, "{value}");
        }
        assert_eq!(of(&[(header::IF_MATCH, "\"1\""), (header::IF_NONE_MATCH, "*")]), None);
    }
}
