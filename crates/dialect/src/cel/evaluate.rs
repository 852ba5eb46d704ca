//! Walks a program over the values in scope, without copying what it only looks at.

use std::rc::Rc;

use serde_json::{Map, Value};
use viat_engine::expression::Scope;

use super::budget::Budget;
use super::program::{Expr, Operator, Program};
use super::{comprehension, operators};
use crate::suggest;

/// A value that was found, or one that was made.
#[derive(Clone, Debug)]
pub enum Val<'a> {
    /// It lives in the scope or in the program.
    Ref(&'a Value),
    /// It was built by this evaluation.
    Own(Rc<Value>),
}

impl Val<'_> {
    /// A value that was just built.
    pub fn own(value: impl Into<Value>) -> Val<'static> {
        Val::Own(Rc::new(value.into()))
    }

    /// The value itself, copied only if it is shared.
    pub fn into_value(self) -> Value {
        match self {
            Val::Ref(value) => value.clone(),
            Val::Own(value) => Rc::try_unwrap(value).unwrap_or_else(|shared| (*shared).clone()),
        }
    }
}

impl std::ops::Deref for Val<'_> {
    type Target = Value;

    fn deref(&self) -> &Value {
        match self {
            Val::Ref(value) => value,
            Val::Own(value) => value,
        }
    }
}

/// One evaluation under way.
pub struct Machine<'a> {
    scope: &'a dyn Scope,
    /// The variables of the comprehensions around, outermost first.
    pub locals: Vec<Val<'a>>,
    /// What may still be spent.
    pub budget: Budget,
}

impl Program {
    /// The expression's value in a scope.
    ///
    /// # Errors
    /// A sentence for the author.
    pub fn evaluate(&self, scope: &dyn Scope) -> Result<Value, String> {
        let mut machine = Machine { scope, locals: Vec::new(), budget: Budget::new() };
        machine.eval(&self.root).map(Val::into_value)
    }
}

impl<'a> Machine<'a> {
    /// The value of a node.
    pub fn eval(&mut self, expr: &'a Expr) -> Result<Val<'a>, String> {
        self.budget.step(1)?;
        match expr {
            Expr::Literal(value) => Ok(Val::Ref(value)),
            Expr::Name(name) => self.scope.get(name).map(Val::Ref).ok_or_else(|| format!("nothing of the name `{name}` is in scope")),
            Expr::Local(at) => self.locals.get(*at).cloned().ok_or_else(|| "a variable is missing".to_owned()),
            Expr::Select(operand, field) => {
                let base = self.eval(operand)?;
                self.child(base, field, operand)
            }
            Expr::Has(operand, field) => match &*self.eval(operand)? {
                Value::Object(map) => Ok(Val::own(map.contains_key(field))),
                Value::Null => Ok(Val::own(false)),
                other => Err(format!("{} is {}, it has no keys", operand.described(), sort(other))),
            },
            Expr::Index(operand, index) => {
                let base = self.eval(operand)?;
                let index = self.eval(index)?;
                self.element(base, &index, operand)
            }
            Expr::List(items) => self.list(items),
            Expr::Map(entries) => self.map(entries),
            Expr::Not(operand) => match &*self.eval(operand)? {
                Value::Bool(value) => Ok(Val::own(!value)),
                other => Err(format!("`!` needs a boolean, not {}", sort(other))),
            },
            Expr::Negate(operand) => operators::negate(&*self.eval(operand)?),
            Expr::And(left, right) => self.logical(left, right, false),
            Expr::Or(left, right) => self.logical(left, right, true),
            Expr::Conditional(condition, yes, no) => match &*self.eval(condition)? {
                Value::Bool(true) => self.eval(yes),
                Value::Bool(false) => self.eval(no),
                other => Err(format!("the condition before `?` must be a boolean, not {}", sort(other))),
            },
            Expr::Binary(operator, left, right) => {
                let (left, right) = (self.eval(left)?, self.eval(right)?);
                operators::binary(*operator, left, right, &mut self.budget)
            }
            Expr::Call(function, args) => {
                let args = args.iter().map(|arg| self.eval(arg)).collect::<Result<Vec<_>, _>>()?;
                function.call(&args, &mut self.budget)
            }
            Expr::Comprehension(walk) => comprehension::walk(self, walk),
        }
    }

    /// `&&` and `||`: the deciding value wins over an error on the other side, whichever side that is.
    fn logical(&mut self, left: &'a Expr, right: &'a Expr, decisive: bool) -> Result<Val<'a>, String> {
        let sign = if decisive { "||" } else { "&&" };
        let left = self.eval(left).and_then(|value| boolean(&value, sign));
        if left == Ok(decisive) {
            return Ok(Val::own(decisive));
        }
        if left.is_err() && self.budget.is_spent() {
            return left.map(Val::own);
        }
        match (left, self.eval(right).and_then(|value| boolean(&value, sign))) {
            (_, Ok(value)) if value == decisive => Ok(Val::own(decisive)),
            (Err(error), _) | (Ok(_), Err(error)) => Err(error),
            (Ok(_), Ok(value)) => Ok(Val::own(value)),
        }
    }

    fn list(&mut self, items: &'a [Expr]) -> Result<Val<'a>, String> {
        let mut made = Vec::with_capacity(items.len());
        for item in items {
            let value = self.eval(item)?;
            made.push(self.take(value)?);
        }
        Ok(Val::own(made))
    }

    fn map(&mut self, entries: &'a [(Expr, Expr)]) -> Result<Val<'a>, String> {
        let mut made = Map::new();
        for (key, value) in entries {
            let Value::String(name) = &*self.eval(key)? else { return Err("the keys of a map must be strings".to_owned()) };
            let value = self.eval(value)?;
            self.budget.build(48 + name.len())?;
            let value = self.take(value)?;
            if made.insert(name.clone(), value).is_some() {
                return Err(format!("the map has the key {name:?} twice"));
            }
        }
        Ok(Val::own(made))
    }

    /// A value of one's own, its copy paid for.
    pub fn take(&mut self, value: Val<'a>) -> Result<Value, String> {
        match value {
            Val::Ref(found) => self.budget.copy(found)?,
            Val::Own(ref made) if Rc::strong_count(made) > 1 => self.budget.copy(made)?,
            Val::Own(_) => self.budget.build(32)?,
        }
        Ok(value.into_value())
    }

    /// A part of a value: found in what is found, copied out of what was made.
    pub fn part(&mut self, base: &Val<'a>, pick: impl for<'v> Fn(&'v Value) -> Option<&'v Value>) -> Result<Option<Val<'a>>, String> {
        match base {
            Val::Ref(value) => Ok(pick(value).map(Val::Ref)),
            Val::Own(value) => match pick(value) {
                None => Ok(None),
                Some(part) => {
                    self.budget.copy(part)?;
                    Ok(Some(Val::Own(Rc::new(part.clone()))))
                }
            },
        }
    }

    fn child(&mut self, base: Val<'a>, field: &str, operand: &Expr) -> Result<Val<'a>, String> {
        match self.part(&base, |value| value.as_object().and_then(|map| map.get(field)))? {
            Some(part) => Ok(part),
            None => Err(missing_key(&base, field, &operand.described())),
        }
    }

    fn element(&mut self, base: Val<'a>, index: &Value, operand: &Expr) -> Result<Val<'a>, String> {
        match (&*base, index) {
            (Value::Object(_), Value::String(key)) => self.child(base, key, operand),
            (Value::Array(items), Value::Number(_)) => {
                let length = items.len();
                let at = operators::index(index).ok_or_else(|| format!("{index} is not an index of a list"))?;
                let found = usize::try_from(at).ok().map(|at| self.part(&base, |value| value.get(at))).transpose()?.flatten();
                found.ok_or_else(|| format!("{} has {length} elements, there is no index {at}", operand.described()))
            }
            (Value::Object(_), other) => Err(format!("{} is a map, its keys are strings; the key given is {}", operand.described(), sort(other))),
            (Value::Array(_), other) => Err(format!("{} is a list, its index must be an integer, not {}", operand.described(), sort(other))),
            (other, _) => Err(format!("{} is {}, it has no elements", operand.described(), sort(other))),
        }
    }
}

fn boolean(value: &Value, sign: &str) -> Result<bool, String> {
    value.as_bool().ok_or_else(|| format!("`{sign}` needs booleans, not {}", sort(value)))
}

/// `no key "missing" in inputs.o; it has: present`
pub fn missing_key(base: &Value, key: &str, path: &str) -> String {
    const SHOWN: usize = 10;
    match base {
        Value::Object(map) if map.is_empty() => format!("no key {key:?} in {path}; it is empty"),
        Value::Object(map) => {
            let keys: Vec<&str> = map.keys().map(String::as_str).take(SHOWN).collect();
            let more = map.len().checked_sub(SHOWN + 1).map_or(String::new(), |more| format!(" and {} more", more + 1));
            let nearest = suggest::nearest(key, map.keys().map(String::as_str)).map_or(String::new(), |name| format!("; did you mean {name:?}?"));
            format!("no key {key:?} in {path}; it has: {}{more}{nearest}", keys.join(", "))
        }
        other => format!("no key {key:?} in {path}: it is {}", sort(other)),
    }
}

/// What sort of value it is, with its article.
pub fn sort(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(number) if number.is_f64() => "a double",
        Value::Number(_) => "an integer",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "a map",
    }
}

/// The complaint about operands that do not go together.
pub fn mismatch(operator: Operator, left: &Value, right: &Value) -> String {
    format!("`{}` cannot be applied to {} and {}", operator.sign(), sort(left), sort(right))
}
