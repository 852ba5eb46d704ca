//! The functions of the expression language.

use regex::{Regex, RegexBuilder};
use serde_json::Value;

use super::budget::Budget;
use super::evaluate::{Val, sort};
use super::operators::{Num, double};
use super::program::Expr;
use crate::suggest;

/// A compiled pattern may take at most this much memory.
const MOST_PATTERN_BYTES: usize = 1 << 20;
/// What compiling a pattern costs that is known only when it runs, in steps.
const COMPILE_STEPS: u64 = 20_000;

/// A function, its target being its first argument.
#[derive(Debug)]
pub enum Function {
    Size,
    Contains,
    StartsWith,
    EndsWith,
    /// The pattern is compiled beforehand if it is a constant.
    Matches(Option<Box<Regex>>),
    LowerAscii,
    UpperAscii,
    Trim,
    Split,
    Join,
    Replace,
    Substring,
    IndexOf,
    String,
    Int,
    Double,
    Bool,
}

/// The names with what they may be called on: a target, nothing, or either; and the number of arguments, the target counted.
const KNOWN: [(&str, Style, usize, usize); 17] = [
    ("size", Style::Either, 1, 1),
    ("contains", Style::Member, 2, 2),
    ("startsWith", Style::Member, 2, 2),
    ("endsWith", Style::Member, 2, 2),
    ("matches", Style::Either, 2, 2),
    ("lowerAscii", Style::Member, 1, 1),
    ("upperAscii", Style::Member, 1, 1),
    ("trim", Style::Member, 1, 1),
    ("split", Style::Member, 2, 2),
    ("join", Style::Member, 1, 2),
    ("replace", Style::Member, 3, 3),
    ("substring", Style::Member, 2, 3),
    ("indexOf", Style::Member, 2, 2),
    ("string", Style::Global, 1, 1),
    ("int", Style::Global, 1, 1),
    ("double", Style::Global, 1, 1),
    ("bool", Style::Global, 1, 1),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    Member,
    Global,
    Either,
}

impl Function {
    /// Looks a function up; a constant pattern is compiled here.
    pub fn find(name: &str, has_target: bool, args: &[Expr]) -> Result<Function, (String, Option<String>)> {
        if matches!(name, "timestamp" | "duration" | "bytes" | "uint" | "type" | "dyn" | "now") {
            return Err((format!("`{name}()` does not exist here: expressions work on JSON values, without types of their own, clocks or bytes"), None));
        }
        let Some((_, style, least, most)) = KNOWN.iter().find(|(known, ..)| *known == name) else {
            let macros = ["all", "exists", "exists_one", "map", "filter", "has"];
            let nearest = suggest::nearest(name, KNOWN.iter().map(|(known, ..)| *known).chain(macros));
            let message =
                if macros.contains(&name) { format!("`{name}` is called with the wrong arguments") } else { format!("there is no function `{name}`") };
            let help = if macros.contains(&name) { Some(usage(name)) } else { nearest.map(|known| format!("did you mean `{known}`?")) };
            return Err((message, help));
        };
        let style_fits = match style {
            Style::Member => has_target,
            Style::Global => !has_target,
            Style::Either => true,
        };
        if !style_fits || args.len() < *least || args.len() > *most {
            return Err((format!("`{name}` is called with the wrong arguments"), Some(usage(name))));
        }
        Ok(match name {
            "size" => Function::Size,
            "contains" => Function::Contains,
            "startsWith" => Function::StartsWith,
            "endsWith" => Function::EndsWith,
            "matches" => Function::Matches(match &args[1] {
                Expr::Literal(Value::String(pattern)) => Some(Box::new(compiled(pattern).map_err(|error| (error, None))?)),
                _ => None,
            }),
            "lowerAscii" => Function::LowerAscii,
            "upperAscii" => Function::UpperAscii,
            "trim" => Function::Trim,
            "split" => Function::Split,
            "join" => Function::Join,
            "replace" => Function::Replace,
            "substring" => Function::Substring,
            "indexOf" => Function::IndexOf,
            "string" => Function::String,
            "int" => Function::Int,
            "double" => Function::Double,
            _ => Function::Bool,
        })
    }

    /// Calls it.
    pub fn call<'a>(&self, args: &[Val<'a>], budget: &mut Budget) -> Result<Val<'a>, String> {
        let text = |at: usize| text(self, args, at);
        if let Some(Value::String(first)) = args.first().map(|value| &**value) {
            // Whatever is done to a string costs in proportion to its length.
            budget.step(first.len() as u64 / 64)?;
        }
        match self {
            Function::Size => size(&args[0]),
            Function::Contains => Ok(Val::own(text(0)?.contains(text(1)?))),
            Function::StartsWith => Ok(Val::own(text(0)?.starts_with(text(1)?))),
            Function::EndsWith => Ok(Val::own(text(0)?.ends_with(text(1)?))),
            Function::Matches(pattern) => matches(pattern.as_deref(), text(0)?, text(1)?, budget),
            Function::LowerAscii => built(text(0)?.len(), budget, || Ok(text(0)?.to_ascii_lowercase())),
            Function::UpperAscii => built(text(0)?.len(), budget, || Ok(text(0)?.to_ascii_uppercase())),
            Function::Trim => built(text(0)?.len(), budget, || Ok(text(0)?.trim().to_owned())),
            Function::Split => split(text(0)?, text(1)?, budget),
            Function::Join => join(&args[0], if args.len() > 1 { text(1)? } else { "" }, budget),
            Function::Replace => replace(text(0)?, text(1)?, text(2)?, budget),
            Function::Substring => substring(text(0)?, args, budget),
            Function::IndexOf => Ok(Val::own(text(0)?.find(text(1)?).map_or(-1, |at| count(&text(0).unwrap_or("")[..at])))),
            Function::String => string(&args[0], budget),
            Function::Int => int(&args[0]),
            Function::Double => to_double(&args[0]),
            Function::Bool => boolean(&args[0]),
        }
    }
}

fn usage(name: &str) -> String {
    let how = match name {
        "size" => "size(value)",
        "contains" => "text.contains(part)",
        "startsWith" => "text.startsWith(part)",
        "endsWith" => "text.endsWith(part)",
        "matches" => "text.matches(\"pattern\")",
        "split" => "text.split(separator)",
        "join" => "list.join(separator)",
        "replace" => "text.replace(old, new)",
        "substring" => "text.substring(start, end)",
        "indexOf" => "text.indexOf(part)",
        "lowerAscii" | "upperAscii" | "trim" => return format!("write text.{name}()"),
        "has" => "has(a.b)",
        "all" | "exists" | "exists_one" | "filter" => return format!("write list.{name}(x, condition)"),
        "map" => "list.map(x, value) or list.map(x, condition, value)",
        _ => return format!("write {name}(value)"),
    };
    format!("write {how}")
}

fn text<'v>(function: &Function, args: &'v [Val<'_>], at: usize) -> Result<&'v str, String> {
    match args.get(at).map(|value| &**value) {
        Some(Value::String(text)) => Ok(text),
        Some(other) => Err(format!("{function:?} needs a string, not {}", sort(other))),
        None => Err(format!("{function:?} lacks an argument")),
    }
}

/// The length of a text in characters.
fn count(text: &str) -> i64 {
    i64::try_from(text.chars().count()).unwrap_or(i64::MAX)
}

fn built(bytes: usize, budget: &mut Budget, make: impl FnOnce() -> Result<String, String>) -> Result<Val<'static>, String> {
    budget.build(32 + bytes)?;
    make().map(Val::own)
}

fn size(value: &Value) -> Result<Val<'static>, String> {
    match value {
        Value::String(text) => Ok(Val::own(count(text))),
        Value::Array(items) => Ok(Val::own(items.len())),
        Value::Object(map) => Ok(Val::own(map.len())),
        other => Err(format!("size needs a string, a list or a map, not {}", sort(other))),
    }
}

fn compiled(pattern: &str) -> Result<Regex, String> {
    RegexBuilder::new(pattern).size_limit(MOST_PATTERN_BYTES).dfa_size_limit(MOST_PATTERN_BYTES).build().map_err(|error| {
        let reason = error.to_string();
        format!("`{}` is not a pattern: {}", crate::yaml::shortened(pattern), reason.lines().last().unwrap_or("").trim())
    })
}

fn matches(known: Option<&Regex>, text: &str, pattern: &str, budget: &mut Budget) -> Result<Val<'static>, String> {
    budget.step(text.len() as u64)?;
    match known {
        Some(regex) => Ok(Val::own(regex.is_match(text))),
        None => {
            budget.step(COMPILE_STEPS + pattern.len() as u64)?;
            Ok(Val::own(compiled(pattern)?.is_match(text)))
        }
    }
}

fn split(text: &str, separator: &str, budget: &mut Budget) -> Result<Val<'static>, String> {
    let parts: Vec<&str> = if separator.is_empty() { text.split("").filter(|part| !part.is_empty()).collect() } else { text.split(separator).collect() };
    budget.step(parts.len() as u64)?;
    budget.build(text.len() + 32 * parts.len())?;
    Ok(Val::own(parts.into_iter().map(Value::from).collect::<Vec<_>>()))
}

fn join(list: &Value, separator: &str, budget: &mut Budget) -> Result<Val<'static>, String> {
    let Value::Array(items) = list else { return Err(format!("join needs a list of strings, not {}", sort(list))) };
    let mut made = String::new();
    for (at, item) in items.iter().enumerate() {
        let Value::String(text) = item else { return Err(format!("join needs a list of strings; element {at} is {}", sort(item))) };
        budget.step(1)?;
        budget.build(text.len() + separator.len())?;
        if at > 0 {
            made.push_str(separator);
        }
        made.push_str(text);
    }
    Ok(Val::own(made))
}

fn replace(text: &str, old: &str, new: &str, budget: &mut Budget) -> Result<Val<'static>, String> {
    let times = text.matches(old).count();
    budget.build(32 + text.len() + times.saturating_mul(new.len()))?;
    Ok(Val::own(text.replace(old, new)))
}

fn substring(text: &str, args: &[Val<'_>], budget: &mut Budget) -> Result<Val<'static>, String> {
    let length = count(text);
    let at = |place: usize| super::operators::index(&args[place]).ok_or_else(|| "substring needs integers".to_owned());
    let start = at(1)?;
    let end = if args.len() > 2 { at(2)? } else { length };
    if start < 0 || end > length || start > end {
        return Err(format!("substring({start}, {end}) is outside a text of {length} characters"));
    }
    budget.build(32 + text.len())?;
    let skip = usize::try_from(start).unwrap_or(0);
    let take = usize::try_from(end - start).unwrap_or(0);
    Ok(Val::own(text.chars().skip(skip).take(take).collect::<String>()))
}

/// A value as text, just as interpolation writes it: strings as they are, other values as compact JSON.
fn string<'a>(value: &Val<'a>, budget: &mut Budget) -> Result<Val<'a>, String> {
    match &**value {
        Value::String(_) => Ok(value.clone()),
        other => {
            budget.copy(other)?;
            Ok(Val::own(other.to_string()))
        }
    }
}

fn int(value: &Value) -> Result<Val<'static>, String> {
    match value {
        Value::Number(number) => match Num::of(number)? {
            Num::Int(value) => Ok(Val::own(value)),
            #[expect(clippy::cast_possible_truncation, reason = "the range is checked; int() cuts the fraction off")]
            Num::Double(value) if value > -9.223_372_036_854_776e18 && value < 9.223_372_036_854_775e18 => Ok(Val::own(value as i64)),
            Num::Double(value) => Err(format!("int({value}) is outside the signed 64-bit range")),
        },
        Value::String(text) => text.parse::<i64>().map(Val::own).map_err(|_| format!("int({:?}) is not an integer", crate::yaml::shortened(text))),
        other => Err(format!("int() cannot convert {}", sort(other))),
    }
}

fn to_double(value: &Value) -> Result<Val<'static>, String> {
    match value {
        Value::Number(number) => double(Num::of(number)?.double()),
        Value::String(text) => match text.parse::<f64>() {
            Ok(value) => double(value),
            Err(_) => Err(format!("double({:?}) is not a number", crate::yaml::shortened(text))),
        },
        other => Err(format!("double() cannot convert {}", sort(other))),
    }
}

fn boolean(value: &Value) -> Result<Val<'static>, String> {
    match value {
        Value::Bool(value) => Ok(Val::own(*value)),
        Value::String(text) if text == "true" => Ok(Val::own(true)),
        Value::String(text) if text == "false" => Ok(Val::own(false)),
        other => Err(format!("bool() cannot convert {}", sort(other))),
    }
}
