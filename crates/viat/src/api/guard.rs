//! A web page must not talk to somebody's local server behind their back.

use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::problem::Problem;
use crate::links::PATH;

/// Refuses requests for another host (DNS rebinding) and from another origin.
pub async fn same_origin(request: Request, next: Next) -> Response {
    let headers = request.headers();
    let host = text(headers, header::HOST.as_str()).unwrap_or_default();
    // A signed link is its own permission, which a page elsewhere does not have: it may come through a proxy with a public name.
    let signed = request.uri().path().starts_with(PATH);
    if !signed && !is_local(host) {
        return Problem::new(StatusCode::FORBIDDEN, format!("this server answers to localhost only, not to {host:?}")).into_response();
    }
    let origin = text(headers, header::ORIGIN.as_str()).map(|origin| origin.trim_start_matches("http://").trim_start_matches("https://"));
    if origin.is_some_and(|origin| origin != host) {
        return Problem::new(StatusCode::FORBIDDEN, "requests from other origins are refused").into_response();
    }
    next.run(request).await
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
