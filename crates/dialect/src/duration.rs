//! Durations: a strict ISO 8601 grammar or a count of milliseconds.

use crate::yaml::{Node, Value};

/// A script entry's `timeout` may not be longer than a day.
pub const LONGEST_ENTRY_TIMEOUT_MS: u64 = 86_400_000;
/// What may be written, for messages.
pub const ALLOWED: &str = "write an ISO 8601 duration such as `PT5S`, `PT0.5S`, `PT1H30M`, `P1D`, or a whole number of milliseconds such as `5000`";

/// A duration as it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duration {
    /// Absent, `null` or an empty string: never the same as zero.
    NotGiven,
    /// Milliseconds; zero is an explicit budget of nothing.
    Millis(u64),
}

impl Duration {
    /// The milliseconds, if given.
    pub fn millis(self) -> Option<u64> {
        match self {
            Duration::NotGiven => None,
            Duration::Millis(ms) => Some(ms),
        }
    }
}

/// Why something is no duration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DurationError {
    /// The value as it was written.
    pub value: String,
    /// What is wrong with it.
    pub reason: String,
}

impl std::fmt::Display for DurationError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "`{}` is not a duration: {}", self.value, self.reason)
    }
}

impl std::error::Error for DurationError {}

/// Reads a duration from a text, as a caller's flag gives it.
///
/// # Errors
/// Anything that the grammar does not have.
pub fn parse(text: &str) -> Result<Duration, DurationError> {
    let refuse = |reason: &str| Err(DurationError { value: crate::yaml::shortened(text), reason: reason.to_owned() });
    if text.is_empty() {
        return Ok(Duration::NotGiven);
    }
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().map_or_else(|_| refuse("it is too large"), |ms| Ok(Duration::Millis(ms)));
    }
    let Some(rest) = text.strip_prefix('P') else {
        return refuse(if text.starts_with('-') { "it is negative" } else { "it is neither an ISO 8601 duration nor a count of milliseconds" });
    };
    match iso(rest) {
        Ok(ms) => Ok(Duration::Millis(ms)),
        Err(reason) => refuse(reason),
    }
}

/// Reads a duration from a JSON value, as an API gives it.
///
/// # Errors
/// Anything that the grammar does not have.
pub fn from_json(value: &serde_json::Value) -> Result<Duration, DurationError> {
    let refuse = |reason: &str| Err(DurationError { value: crate::yaml::shortened(&value.to_string()), reason: reason.to_owned() });
    match value {
        serde_json::Value::Null => Ok(Duration::NotGiven),
        serde_json::Value::String(text) => parse(text),
        serde_json::Value::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(ms), _) => Ok(Duration::Millis(ms)),
            (None, Some(_)) => refuse("it is negative"),
            (None, None) => refuse("a count of milliseconds must be a whole number"),
        },
        serde_json::Value::Bool(_) => refuse("it is a boolean"),
        serde_json::Value::Array(_) => refuse("it is a list"),
        serde_json::Value::Object(_) => refuse("it is a map"),
    }
}

/// Reads a duration from a document.
///
/// # Errors
/// Anything that the grammar does not have.
pub fn from_node(node: &Node) -> Result<Duration, DurationError> {
    let refuse = |reason: &str| Err(DurationError { value: node.shown(), reason: reason.to_owned() });
    match &node.value {
        Value::Null => Ok(Duration::NotGiven),
        Value::String(text) => parse(text),
        Value::Int(ms) => u64::try_from(*ms).map_or_else(|_| refuse("it is negative"), |ms| Ok(Duration::Millis(ms))),
        Value::Float(number) if !number.is_finite() => refuse("it is not finite"),
        Value::Float(_) => refuse("a count of milliseconds must be a whole number"),
        Value::Bool(_) => refuse("it is a boolean"),
        Value::List(_) => refuse("it is a list"),
        Value::Map(_) => refuse("it is a map"),
    }
}

/// The unit letters in their order, each with its milliseconds; `T` stands between days and hours.
const DATE: [(u8, u64); 2] = [(b'W', 604_800_000), (b'D', 86_400_000)];
const TIME: [(u8, u64); 3] = [(b'H', 3_600_000), (b'M', 60_000), (b'S', 1_000)];

/// What follows the `P`.
fn iso(text: &str) -> Result<u64, &'static str> {
    let (date, time) = match text.split_once('T') {
        Some((date, time)) => (date, Some(time)),
        None => (text, None),
    };
    if date.is_empty() && time.is_none() {
        return Err("nothing follows the `P`");
    }
    if !date.is_empty() && time == Some("") {
        return Err("nothing follows the `T`");
    }
    if date.contains(['Y', 'M']) {
        return Err("years and months have no fixed length");
    }
    // A decimal fraction is allowed only in the very last component.
    let (days, fraction) = components(date, &DATE)?;
    let time_text = time.unwrap_or("");
    if fraction && !time_text.is_empty() {
        return Err("only the last component may have decimals");
    }
    let (rest, _) = components(time_text, &TIME)?;
    days.checked_add(rest).ok_or("it is too large")
}

/// A run of components in the order of `units`, and whether the last of them has decimals.
fn components(mut text: &str, units: &[(u8, u64)]) -> Result<(u64, bool), &'static str> {
    const UNREADABLE: &str = "it does not follow the grammar `P[nW][nD][T[nH][nM][nS]]`";
    let mut total = 0u64;
    let mut next = 0;
    let mut fraction = false;
    while !text.is_empty() {
        if fraction {
            return Err("only the last component may have decimals");
        }
        let length = text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != ',').ok_or(UNREADABLE)?;
        let unit = text.as_bytes()[length];
        let place = units[next..].iter().position(|(letter, _)| *letter == unit).ok_or(UNREADABLE)? + next;
        let (whole, decimals) = match text[..length].split_once(['.', ',']) {
            Some((whole, decimals)) => (whole, Some(decimals)),
            None => (&text[..length], None),
        };
        let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        if !digits(whole) || !decimals.is_none_or(digits) {
            return Err(UNREADABLE);
        }
        let unit_ms = units[place].1;
        let count: u64 = whole.parse().map_err(|_| "it is too large")?;
        let mut ms = count.checked_mul(unit_ms).ok_or("it is too large")?;
        if let Some(decimals) = decimals {
            fraction = true;
            ms = ms.checked_add(fraction_ms(decimals, unit_ms)).ok_or("it is too large")?;
        }
        total = total.checked_add(ms).ok_or("it is too large")?;
        next = place + 1;
        text = &text[length + 1..];
    }
    Ok((total, fraction))
}

/// A decimal part of a unit in whole milliseconds, cut off, not rounded.
fn fraction_ms(decimals: &str, unit_ms: u64) -> u64 {
    // Digits after the eighteenth are worth less than a millisecond of any unit.
    let kept = &decimals[..decimals.len().min(18)];
    let digits: u128 = kept.parse().unwrap_or(0);
    let scale = 10u128.pow(u32::try_from(kept.len()).unwrap_or(18));
    u64::try_from(digits * u128::from(unit_ms) / scale).unwrap_or(u64::MAX)
}
