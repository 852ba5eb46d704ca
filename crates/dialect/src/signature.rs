//! What a script takes, as far as its text says: the args of entries are held to it when a workflow is created.

use serde::Deserialize;
use serde_json::Value;

/// What a script takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// Its parameters, in order.
    pub parameters: Vec<Parameter>,
    /// Whether it takes arguments that are no parameter of its own.
    pub takes_others: bool,
}

/// One parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// Whether it must be given.
    pub required: bool,
    /// What it takes.
    pub shape: Shape,
    /// Its annotation, as the script has it.
    pub annotation: Option<String>,
}

/// What a value must be, in the words of JSON.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// Anything, or what only running the script could tell.
    Any,
    /// An integer, without a fraction.
    Int,
    /// Any number.
    Float,
    /// A string.
    Str,
    /// A boolean.
    Bool,
    /// Null.
    Null,
    /// A list of such.
    List(Box<Shape>),
    /// A map of such.
    Dict(Box<Shape>),
    /// Any of these.
    OneOf(Vec<Shape>),
    /// One of these values.
    Literal(Vec<Value>),
}

impl Shape {
    /// Whether a value is one.
    pub fn accepts(&self, value: &Value) -> bool {
        match (self, value) {
            (Shape::Any, _) | (Shape::Null, Value::Null) | (Shape::Bool, Value::Bool(_)) | (Shape::Str, Value::String(_)) => true,
            (Shape::Int, Value::Number(number)) => !number.is_f64(),
            (Shape::Float, Value::Number(_)) => true,
            (Shape::List(item), Value::Array(items)) => items.iter().all(|each| item.accepts(each)),
            (Shape::Dict(item), Value::Object(map)) => map.values().all(|each| item.accepts(each)),
            (Shape::OneOf(shapes), value) => shapes.iter().any(|shape| shape.accepts(value)),
            // 1 and 1.0 are different values of a literal
            (Shape::Literal(values), value) => values.contains(value),
            _ => false,
        }
    }

    /// Whether some text is one; which text is not known.
    pub fn accepts_text(&self) -> bool {
        match self {
            Shape::Any | Shape::Str => true,
            Shape::OneOf(shapes) => shapes.iter().any(Shape::accepts_text),
            Shape::Literal(values) => values.iter().any(Value::is_string),
            _ => false,
        }
    }

    /// What items of a list may be; `None` if no list is one.
    pub fn items(&self) -> Option<Shape> {
        self.inside(|shape| if let Shape::List(item) = shape { Some(item) } else { None })
    }

    /// What values of a map may be; `None` if no map is one.
    pub fn values(&self) -> Option<Shape> {
        self.inside(|shape| if let Shape::Dict(item) = shape { Some(item) } else { None })
    }

    fn inside<'s>(&'s self, of: impl Fn(&'s Shape) -> Option<&'s Shape> + Copy) -> Option<Shape> {
        match self {
            Shape::Any => Some(Shape::Any),
            // of several, only what all of them would refuse is wrong: that is seen where the whole value is known
            Shape::OneOf(shapes) => {
                let mut found = shapes.iter().filter_map(|shape| shape.inside(of));
                match (found.next(), found.next()) {
                    (Some(only), None) => Some(only),
                    (Some(_), Some(_)) => Some(Shape::Any),
                    (None, _) => None,
                }
            }
            _ => of(self).cloned(),
        }
    }

    /// In words: `an integer`, `a list of strings`.
    pub fn described(&self) -> String {
        match self {
            Shape::Any => "anything".to_owned(),
            Shape::Int => "an integer".to_owned(),
            Shape::Float => "a number".to_owned(),
            Shape::Str => "a string".to_owned(),
            Shape::Bool => "a boolean".to_owned(),
            Shape::Null => "null".to_owned(),
            Shape::List(item) if **item == Shape::Any => "a list".to_owned(),
            Shape::List(item) => format!("a list, each item {}", item.described()),
            Shape::Dict(item) if **item == Shape::Any => "a map".to_owned(),
            Shape::Dict(item) => format!("a map, each value {}", item.described()),
            Shape::OneOf(shapes) => shapes.iter().map(Shape::described).collect::<Vec<_>>().join(" or "),
            Shape::Literal(values) => {
                let values: Vec<String> = values.iter().map(ToString::to_string).collect();
                if values.len() == 1 { values[0].clone() } else { format!("one of {}", values.join(", ")) }
            }
        }
    }
}
