//! JSON from callers, read without changing a number silently.

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

/// Reads a JSON text; integers outside the signed 64-bit range are refused rather than turned into doubles, and so is an object that
/// has a key twice.
///
/// # Errors
/// A sentence that says what is wrong and where.
pub fn parse(text: &str) -> Result<Value, String> {
    let Unique(value) = serde_json::from_str(text).map_err(|error| format!("not valid JSON: {error}"))?;
    match first_large_integer(text) {
        Some(number) => Err(format!("the integer {number} is outside the signed 64-bit range; write it as a string")),
        None => Ok(value),
    }
}

/// A value in which no object has a key twice.
struct Unique(Value);

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Unique, D::Error> {
        deserializer.deserialize_any(UniqueVisitor).map(Unique)
    }
}

struct UniqueVisitor;

impl<'de> Visitor<'de> for UniqueVisitor {
    type Value = Value;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut found = Vec::new();
        while let Some(Unique(item)) = items.next_element()? {
            found.push(item);
        }
        Ok(Value::Array(found))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut found = serde_json::Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            if found.contains_key(&key) {
                return Err(de::Error::custom(format!("the key {key:?} is there twice")));
            }
            let Unique(value) = entries.next_value()?;
            found.insert(key, value);
        }
        Ok(Value::Object(found))
    }
}

/// The first integer token that does not fit, in a text that is known to be valid JSON.
fn first_large_integer(text: &str) -> Option<&str> {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => at = after_string(bytes, at),
            b'-' | b'0'..=b'9' => {
                let start = at;
                while at < bytes.len() && matches!(bytes[at], b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9') {
                    at += 1;
                }
                let token = &text[start..at];
                if !token.contains(['.', 'e', 'E']) && token.parse::<i64>().is_err() {
                    return Some(token);
                }
            }
            _ => at += 1,
        }
    }
    None
}

fn after_string(bytes: &[u8], quote: usize) -> usize {
    let mut at = quote + 1;
    while at < bytes.len() && bytes[at] != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    at + 1
}

/// The path of the first integer outside the signed 64-bit range, if there is one: `o.items[2]`.
pub fn large_integer(value: &Value) -> Option<String> {
    fn walk(value: &Value, path: &mut String) -> bool {
        let length = path.len();
        match value {
            Value::Number(number) => return number.is_u64() && !number.is_i64(),
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    path.push_str(&format!("[{index}]"));
                    if walk(item, path) {
                        return true;
                    }
                    path.truncate(length);
                }
            }
            Value::Object(map) => {
                for (key, item) in map {
                    path.push_str(&format!(".{key}"));
                    if walk(item, path) {
                        return true;
                    }
                    path.truncate(length);
                }
            }
            _ => {}
        }
        false
    }
    let mut path = String::new();
    walk(value, &mut path).then(|| path.trim_start_matches('.').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_integers_are_refused_and_strings_are_not_numbers() {
        assert!(parse("[9223372036854775808]").unwrap_err().contains("9223372036854775808"));
        assert!(parse("[-9223372036854775808, 1e30, \"99999999999999999999 \\\" 1\"]").is_ok());
        assert!(parse("{").is_err());
    }

    #[test]
    fn a_key_that_is_there_twice_is_refused() {
        assert!(parse("{\"a\": {\"b\": 1, \"b\": 2}}").unwrap_err().contains("the key \"b\" is there twice"));
        let text = "{\"a\":[null,true,-1,1.5,\"x\",{\"a\":1}],\"b\":{}}";
        assert_eq!(parse(text).expect("fine").to_string(), text);
    }

    #[test]
    fn the_path_of_a_large_integer_is_named() {
        assert_eq!(large_integer(&serde_json::json!({"o": [1, u64::MAX]})).unwrap(), "o[1]");
        assert_eq!(large_integer(&serde_json::json!({"o": [1, i64::MIN]})), None);
    }
}
