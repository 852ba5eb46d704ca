//! `all`, `exists`, `exists_one`, `map` and `filter` over the elements of a list or the keys of a map, in their order.

use serde_json::Value;

use super::evaluate::{Machine, Val, sort};
use super::program::{Comprehension, Expr, Walk};

/// Evaluates a comprehension.
pub fn walk<'a>(machine: &mut Machine<'a>, walk: &'a Comprehension) -> Result<Val<'a>, String> {
    let range = machine.eval(&walk.range)?;
    let elements = elements(machine, range, &walk.range)?;
    machine.locals.truncate(walk.local);
    let result = match walk.kind {
        Walk::All => quantified(machine, walk, elements, false),
        Walk::Exists => quantified(machine, walk, elements, true),
        Walk::ExistsOne => exactly_one(machine, walk, elements),
        Walk::Map | Walk::Filter => collected(machine, walk, elements),
    };
    machine.locals.truncate(walk.local);
    result
}

fn elements<'a>(machine: &mut Machine<'a>, range: Val<'a>, expr: &Expr) -> Result<Vec<Val<'a>>, String> {
    let length = match &*range {
        Value::Array(items) => items.len(),
        Value::Object(map) => map.len(),
        other => return Err(format!("{} is {}, only lists and maps have elements to walk over", expr.described(), sort(other))),
    };
    // The vector of references is work, too.
    machine.budget.step(length as u64)?;
    match range {
        Val::Ref(Value::Array(items)) => Ok(items.iter().map(Val::Ref).collect()),
        Val::Ref(Value::Object(map)) => {
            let mut keys = Vec::with_capacity(length);
            for key in map.keys() {
                machine.budget.build(32 + key.len())?;
                keys.push(Val::own(key.as_str()));
            }
            Ok(keys)
        }
        made => match made.into_value() {
            Value::Array(items) => Ok(items.into_iter().map(Val::own).collect()),
            Value::Object(map) => Ok(map.into_iter().map(|(key, _)| Val::own(key)).collect()),
            _ => Ok(Vec::new()),
        },
    }
}

fn with<'a>(machine: &mut Machine<'a>, walk: &Comprehension, element: Val<'a>, expr: &'a Expr) -> Result<Val<'a>, String> {
    machine.locals.truncate(walk.local);
    machine.locals.push(element);
    machine.eval(expr)
}

fn condition<'a>(machine: &mut Machine<'a>, walk: &'a Comprehension, element: Val<'a>) -> Result<bool, String> {
    let Some(condition) = &walk.condition else { return Ok(true) };
    let value = with(machine, walk, element, condition)?;
    value.as_bool().ok_or_else(|| format!("the condition for each element must be a boolean, not {}", sort(&value)))
}

/// `all` and `exists`: a deciding element wins over errors of others, as `&&` and `||` do.
fn quantified<'a>(machine: &mut Machine<'a>, walk: &'a Comprehension, elements: Vec<Val<'a>>, decisive: bool) -> Result<Val<'a>, String> {
    let mut first_error = None;
    for element in elements {
        match condition(machine, walk, element) {
            Ok(value) if value == decisive => return Ok(Val::own(decisive)),
            Ok(_) => {}
            Err(error) if machine.budget.is_spent() => return Err(error),
            Err(error) => first_error = first_error.or(Some(error)),
        }
    }
    first_error.map_or(Ok(Val::own(!decisive)), Err)
}

fn exactly_one<'a>(machine: &mut Machine<'a>, walk: &'a Comprehension, elements: Vec<Val<'a>>) -> Result<Val<'a>, String> {
    let mut found = 0usize;
    for element in elements {
        found += usize::from(condition(machine, walk, element)?);
    }
    Ok(Val::own(found == 1))
}

fn collected<'a>(machine: &mut Machine<'a>, walk: &'a Comprehension, elements: Vec<Val<'a>>) -> Result<Val<'a>, String> {
    let mut made = Vec::new();
    for element in elements {
        if !condition(machine, walk, element.clone())? {
            continue;
        }
        let value = match &walk.result {
            Some(result) => with(machine, walk, element, result)?,
            None => {
                machine.locals.truncate(walk.local);
                element
            }
        };
        made.push(machine.take(value)?);
    }
    Ok(Val::own(made))
}
