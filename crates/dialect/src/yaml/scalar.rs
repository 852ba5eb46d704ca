//! The core schema of YAML 1.2: which value a plain scalar is.

use super::Value;

/// The value of a plain scalar, or what is wrong with it.
pub fn plain(text: &str) -> Result<Value, String> {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Ok(Value::Null),
        "true" | "True" | "TRUE" => return Ok(Value::Bool(true)),
        "false" | "False" | "FALSE" => return Ok(Value::Bool(false)),
        ".nan" | ".NaN" | ".NAN" => return Ok(Value::Float(f64::NAN)),
        _ => {}
    }
    if let Some(value) = integer(text) {
        return value;
    }
    if let Some(value) = float(text) {
        return Ok(Value::Float(value));
    }
    Ok(Value::String(text.to_owned()))
}

fn integer(text: &str) -> Option<Result<Value, String>> {
    let too_large = || format!("the integer {} is outside the signed 64-bit range", super::shortened(text));
    let parsed = if let Some(digits) = text.strip_prefix("0o") {
        (!digits.is_empty() && digits.bytes().all(|byte| (b'0'..=b'7').contains(&byte))).then(|| i64::from_str_radix(digits, 8))?
    } else if let Some(digits) = text.strip_prefix("0x") {
        (!digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit())).then(|| i64::from_str_radix(digits, 16))?
    } else {
        let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
        (!digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse::<i64>())?
    };
    Some(parsed.map(Value::Int).map_err(|_| too_large()))
}

fn float(text: &str) -> Option<f64> {
    let (negative, unsigned) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let sign = if negative { -1.0 } else { 1.0 };
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") {
        return Some(sign * f64::INFINITY);
    }
    // [0-9]+ ( \. [0-9]* )? | \. [0-9]+, then ( [eE] [-+]? [0-9]+ )?
    let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
        Some(at) => (&unsigned[..at], Some(&unsigned[at + 1..])),
        None => (unsigned, None),
    };
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let (whole, decimals) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let exponent_is_good = exponent.is_none_or(|text| {
        let text = text.strip_prefix(['+', '-']).unwrap_or(text);
        !text.is_empty() && digits(text)
    });
    if !digits(whole) || !digits(decimals) || (whole.is_empty() && decimals.is_empty()) || !exponent_is_good {
        return None;
    }
    unsigned.parse::<f64>().ok().map(|value| sign * value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_core_schema_and_not_yaml_1_1() {
        for text in ["y", "yes", "on", "no", "0b1", "1_000", "12:30", "0x", "1e", ".", "-", "+", "e3", "1.2.3", "0o8", "infinity", "nan", "<<"] {
            assert_eq!(plain(text).unwrap(), Value::String(text.into()));
        }
        assert_eq!(plain("0o17").unwrap(), Value::Int(15));
        assert_eq!(plain("0x1f").unwrap(), Value::Int(31));
        assert_eq!(plain("-12").unwrap(), Value::Int(-12));
        assert_eq!(plain("1e3").unwrap(), Value::Float(1000.0));
        assert_eq!(plain("1.").unwrap(), Value::Float(1.0));
        assert_eq!(plain("-.5").unwrap(), Value::Float(-0.5));
        assert_eq!(plain("-.inf").unwrap(), Value::Float(f64::NEG_INFINITY));
        assert_eq!(plain("1.5e400").unwrap(), Value::Float(f64::INFINITY));
        assert!(plain("9223372036854775808").is_err());
        assert_eq!(plain("-9223372036854775808").unwrap(), Value::Int(i64::MIN));
    }
}
