//! Arithmetic, comparison, equality and membership over JSON values.

use std::cmp::Ordering;

use serde_json::{Number, Value};

use super::budget::Budget;
use super::evaluate::{Val, mismatch, sort};
use super::program::Operator;

/// A number as CEL has it.
#[derive(Clone, Copy, Debug)]
pub enum Num {
    /// A signed 64-bit integer.
    Int(i64),
    /// An IEEE double.
    Double(f64),
}

impl Num {
    /// The number of a JSON number.
    pub fn of(number: &Number) -> Result<Num, String> {
        match (number.as_i64(), number.as_f64()) {
            (Some(value), _) => Ok(Num::Int(value)),
            (None, Some(value)) if number.is_f64() => Ok(Num::Double(value)),
            _ => Err(format!("the integer {number} is outside the signed 64-bit range")),
        }
    }

    /// The number as a double; a large integer loses its last digits.
    #[expect(clippy::cast_precision_loss, reason = "promotion to double is what mixed arithmetic means")]
    pub fn double(self) -> f64 {
        match self {
            Num::Int(value) => value as f64,
            Num::Double(value) => value,
        }
    }
}

/// A double as a value; there is no JSON for what is not finite.
pub fn double(value: f64) -> Result<Val<'static>, String> {
    Number::from_f64(value).map(Val::own).ok_or_else(|| "the result is not a finite number".to_owned())
}

/// An index of a list: an integer, or a double without a fraction.
pub fn index(value: &Value) -> Option<i64> {
    match value.as_number().map(Num::of)?.ok()? {
        Num::Int(at) => Some(at),
        #[expect(clippy::cast_possible_truncation, reason = "checked to be a small whole number")]
        Num::Double(at) => (at.fract() == 0.0 && at.abs() < 1e15).then_some(at as i64),
    }
}

/// `-a`
pub fn negate(value: &Value) -> Result<Val<'static>, String> {
    match value {
        Value::Number(number) => match Num::of(number)? {
            Num::Int(value) => value.checked_neg().map(Val::own).ok_or_else(|| "integer overflow in `-`".to_owned()),
            Num::Double(value) => double(-value),
        },
        other => Err(format!("`-` needs a number, not {}", sort(other))),
    }
}

/// Any operator of two operands but `&&` and `||`.
pub fn binary<'a>(operator: Operator, left: Val<'a>, right: Val<'a>, budget: &mut Budget) -> Result<Val<'a>, String> {
    match operator {
        Operator::Equal => equal(&left, &right, budget).map(Val::own),
        Operator::NotEqual => equal(&left, &right, budget).map(|same| Val::own(!same)),
        Operator::Less | Operator::LessEqual | Operator::Greater | Operator::GreaterEqual => {
            let order = compare(&left, &right, budget)?.ok_or_else(|| mismatch(operator, &left, &right))?;
            Ok(Val::own(match operator {
                Operator::Less => order.is_lt(),
                Operator::LessEqual => order.is_le(),
                Operator::Greater => order.is_gt(),
                _ => order.is_ge(),
            }))
        }
        Operator::In => member(&left, &right, budget).map(Val::own),
        Operator::Add => add(left, right, budget),
        Operator::Subtract | Operator::Multiply | Operator::Divide | Operator::Remainder => match (&*left, &*right) {
            (Value::Number(a), Value::Number(b)) => arithmetic(operator, Num::of(a)?, Num::of(b)?),
            _ => Err(mismatch(operator, &left, &right)),
        },
    }
}

fn add<'a>(left: Val<'a>, right: Val<'a>, budget: &mut Budget) -> Result<Val<'a>, String> {
    match (&*left, &*right) {
        (Value::Number(a), Value::Number(b)) => arithmetic(Operator::Add, Num::of(a)?, Num::of(b)?),
        (Value::String(a), Value::String(b)) => {
            budget.build(32 + a.len() + b.len())?;
            Ok(Val::own([a.as_str(), b.as_str()].concat()))
        }
        (Value::Array(_), Value::Array(b)) => {
            budget.copy(&right)?;
            budget.copy(&left)?;
            let b = b.clone();
            let Value::Array(mut items) = left.into_value() else { return Err("a list is missing".to_owned()) };
            items.extend(b);
            Ok(Val::own(items))
        }
        (Value::String(_), other) | (other, Value::String(_)) if !other.is_string() => {
            Err(format!("{}; write string(…) around what is not a string", mismatch(Operator::Add, &left, &right)))
        }
        _ => Err(mismatch(Operator::Add, &left, &right)),
    }
}

fn arithmetic(operator: Operator, left: Num, right: Num) -> Result<Val<'static>, String> {
    if let (Num::Int(a), Num::Int(b)) = (left, right) {
        if b == 0 && matches!(operator, Operator::Divide | Operator::Remainder) {
            return Err("division by zero".to_owned());
        }
        let result = match operator {
            Operator::Add => a.checked_add(b),
            Operator::Subtract => a.checked_sub(b),
            Operator::Multiply => a.checked_mul(b),
            Operator::Divide => a.checked_div(b),
            _ => a.checked_rem(b),
        };
        return result.map(Val::own).ok_or_else(|| format!("integer overflow in `{}`", operator.sign()));
    }
    let (a, b) = (left.double(), right.double());
    match operator {
        Operator::Add => double(a + b),
        Operator::Subtract => double(a - b),
        Operator::Multiply => double(a * b),
        Operator::Divide if b == 0.0 => Err("division by zero".to_owned()),
        Operator::Divide => double(a / b),
        _ => Err("`%` needs integers".to_owned()),
    }
}

/// Deep equality; an integer equals the double of the same value, and the order of keys does not matter.
pub fn equal(left: &Value, right: &Value, budget: &mut Budget) -> Result<bool, String> {
    budget.step(1)?;
    match (left, right) {
        (Value::Number(a), Value::Number(b)) => Ok(match (Num::of(a)?, Num::of(b)?) {
            (Num::Int(a), Num::Int(b)) => a == b,
            (a, b) => a.double() == b.double(),
        }),
        (Value::String(a), Value::String(b)) => {
            budget.step(a.len().min(b.len()) as u64 / 64)?;
            Ok(a == b)
        }
        (Value::Array(a), Value::Array(b)) => {
            if a.len() != b.len() {
                return Ok(false);
            }
            for (a, b) in a.iter().zip(b) {
                if !equal(a, b, budget)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (Value::Object(a), Value::Object(b)) => {
            if a.len() != b.len() {
                return Ok(false);
            }
            for (key, a) in a {
                match b.get(key) {
                    Some(b) if equal(a, b, budget)? => {}
                    _ => return Ok(false),
                }
            }
            Ok(true)
        }
        (a, b) => Ok(a == b),
    }
}

/// The order of two numbers, strings or booleans; `None` if they have none.
fn compare(left: &Value, right: &Value, budget: &mut Budget) -> Result<Option<Ordering>, String> {
    match (left, right) {
        (Value::Number(a), Value::Number(b)) => Ok(match (Num::of(a)?, Num::of(b)?) {
            (Num::Int(a), Num::Int(b)) => Some(a.cmp(&b)),
            (a, b) => a.double().partial_cmp(&b.double()),
        }),
        (Value::String(a), Value::String(b)) => {
            budget.step(a.len().min(b.len()) as u64 / 64)?;
            Ok(Some(a.cmp(b)))
        }
        (Value::Bool(a), Value::Bool(b)) => Ok(Some(a.cmp(b))),
        _ => Ok(None),
    }
}

fn member(item: &Value, container: &Value, budget: &mut Budget) -> Result<bool, String> {
    match (item, container) {
        (item, Value::Array(items)) => {
            for one in items {
                if equal(item, one, budget)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        (Value::String(key), Value::Object(map)) => Ok(map.contains_key(key)),
        (_, Value::Object(_)) => Ok(false),
        (Value::String(_), Value::String(_)) => Err("`in` looks into lists and maps; for strings write text.contains(part)".to_owned()),
        (_, other) => Err(format!("`in` needs a list or a map on its right, not {}", sort(other))),
    }
}
