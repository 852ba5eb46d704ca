//! A web page must not talk to somebody's local server behind their back.

use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode, header};

use super::problem::Problem;
use crate::links::PATH;

/// Refuses requests from another origin and, where nobody needs a token, for another host (DNS rebinding).
pub fn same_origin(request: &Request, local_only: bool) -> Result<(), Problem> {
    let headers = request.headers();
    let host = text(headers, header::HOST.as_str()).unwrap_or_default();
    // A signed link is its own permission, which a page elsewhere does not have: it may come through a proxy with a public name.
    let signed = request.uri().path().starts_with(PATH);
    if local_only && !signed && !is_local(host) {
        return Err(Problem::new(StatusCode::FORBIDDEN, format!("this server answers to localhost only, not to {host:?}")));
    }
    let origin = text(headers, header::ORIGIN.as_str()).map(|origin| origin.trim_start_matches("http://").trim_start_matches("https://"));
    if origin.is_some_and(|origin| origin != host) {
        return Err(Problem::new(StatusCode::FORBIDDEN, "requests from other origins are refused"));
    }
    Ok(())
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

fn is_local(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name == "localhost" || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}
