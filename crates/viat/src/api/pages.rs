//! Lists come in pages: `{"items", "next_cursor"}`; the cursor is where the page ended.

use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::problem::Problem;

/// How many items a page has if nobody says, and at most.
pub const PAGE: usize = 100;
const MOST: usize = 1_000;

/// Which page is wanted.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PageQuery {
    /// At most so many items.
    #[schemars(range(min = 1, max = 1000))]
    pub limit: Option<usize>,
    /// Where the last page ended.
    pub cursor: Option<String>,
}

/// How many items a page has.
pub fn size(limit: Option<usize>) -> Result<usize, Problem> {
    match limit.unwrap_or(PAGE) {
        limit @ 1..=MOST => Ok(limit),
        _ => Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, format!("the limit must be 1 to {MOST}"))),
    }
}

/// A page of rows that were asked for with one more than it holds, which tells whether there is another page.
pub fn of(mut rows: Vec<Value>, limit: usize, key: &str) -> Value {
    let more = rows.len() > limit;
    rows.truncate(limit);
    let next = rows.last().filter(|_| more).map(|row| row[key].clone());
    json!({"items": rows, "next_cursor": next})
}

/// A page of all the rows there are, each known by `key`. A cursor that is none of them any more, or never was, is refused.
pub fn cut(all: Value, wanted: &PageQuery, key: &str) -> Result<Value, Problem> {
    let limit = size(wanted.limit)?;
    let Value::Array(mut rows) = all else { return Ok(of(Vec::new(), limit, key)) };
    if let Some(cursor) = &wanted.cursor {
        let place = rows.iter().position(|row| row[key] == **cursor);
        let place =
            place.ok_or_else(|| Problem::new(StatusCode::UNPROCESSABLE_ENTITY, format!("the cursor {cursor:?} leads nowhere: begin anew without one")))?;
        rows.drain(..=place);
    }
    rows.truncate(limit + 1);
    Ok(of(rows, limit, key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_follow_each_other() {
        let all = || json!([{"id": "c"}, {"id": "b"}, {"id": "a"}]);
        let page = |limit, cursor: Option<&str>| cut(all(), &PageQuery { limit, cursor: cursor.map(str::to_owned) }, "id").ok();
        assert_eq!(page(Some(2), None), Some(json!({"items": [{"id": "c"}, {"id": "b"}], "next_cursor": "b"})));
        assert_eq!(page(Some(2), Some("b")), Some(json!({"items": [{"id": "a"}], "next_cursor": null})));
        assert_eq!(page(None, Some("a")), Some(json!({"items": [], "next_cursor": null})));
        assert_eq!(page(Some(3), None).map(|page| page["next_cursor"].clone()), Some(Value::Null));
        assert_eq!((page(Some(0), None), page(Some(1001), None), page(None, Some("x"))), (None, None, None));
    }
}
