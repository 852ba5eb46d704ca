//! From the parser's tree to ours: macros recognised, functions looked up, free names collected.

use std::ops::Range;

use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr as Tree, IdedExpr, LiteralValue, operators};
use serde_json::Value;

use super::function::Function;
use super::program::{Comparison, Comprehension, Expr, NameUse, Operator, Walk};
use super::tokens;

/// Depth of the tree at most; a chain of operators is as deep as it is long.
const MOST_DEPTH: usize = 200;

/// What cannot be lowered.
pub struct Problem {
    pub message: String,
    pub range: Range<usize>,
    pub help: Option<String>,
}

/// The state of lowering one expression.
pub struct Lowering<'a> {
    text: &'a str,
    /// The variables of the comprehensions around, outermost first.
    locals: Vec<String>,
    pub names: Vec<NameUse>,
    pub compared: Vec<Comparison>,
}

impl<'a> Lowering<'a> {
    /// Nothing seen yet.
    pub fn new(text: &'a str) -> Lowering<'a> {
        Lowering { text, locals: Vec::new(), names: Vec::new(), compared: Vec::new() }
    }

    fn refuse<T>(&self, name: &str, message: String, help: Option<String>) -> Result<T, Problem> {
        let range = if name.is_empty() { 0..self.text.len() } else { tokens::place(self.text, name, &[]) };
        Err(Problem { message, range, help })
    }

    /// Lowers one node.
    pub fn expr(&mut self, node: &IdedExpr, depth: usize) -> Result<Expr, Problem> {
        if depth > MOST_DEPTH {
            return self.refuse("", format!("the expression is nested more than {MOST_DEPTH} deep; do part of it in a `set` entry or in a script"), None);
        }
        let below = depth + 1;
        match &node.expr {
            Tree::Literal(literal) => self.literal(literal),
            Tree::Ident(name) => Ok(self.name(name, Vec::new())),
            Tree::Select(select) if select.test => {
                let collected = self.collect(&select.operand, vec![select.field.clone()]);
                Ok(Expr::Has(Box::new(self.chain(&select.operand, collected, below)?), select.field.clone()))
            }
            Tree::Select(_) => self.path(node, below),
            Tree::Call(call) => self.call(node, call, below),
            Tree::List(list) => Ok(Expr::List(list.elements.iter().map(|one| self.expr(one, below)).collect::<Result<_, _>>()?)),
            Tree::Map(map) => {
                let mut entries = Vec::new();
                for entry in &map.entries {
                    if let EntryExpr::MapEntry(entry) = &entry.expr {
                        entries.push((self.expr(&entry.key, below)?, self.expr(&entry.value, below)?));
                    }
                }
                Ok(Expr::Map(entries))
            }
            Tree::Comprehension(walk) => self.comprehension(walk, below),
            Tree::Struct(made) => self.refuse(
                &made.type_name,
                format!("`{} {{…}}` makes a value of a type, and there are only JSON values here", made.type_name),
                Some("write a map: {\"key\": value}".into()),
            ),
            Tree::Unspecified => self.refuse("", "the expression cannot be read".into(), None),
        }
    }

    fn literal(&self, literal: &LiteralValue) -> Result<Expr, Problem> {
        Ok(Expr::Literal(match literal {
            LiteralValue::Boolean(value) => Value::Bool(*value.inner()),
            LiteralValue::Int(value) => Value::from(*value.inner()),
            LiteralValue::Double(value) => match serde_json::Number::from_f64(*value.inner()) {
                Some(number) => Value::Number(number),
                None => return self.refuse("", "a number in the expression is too large".into(), None),
            },
            LiteralValue::String(value) => Value::from(value.inner()),
            LiteralValue::Null => Value::Null,
            LiteralValue::Bytes(_) | LiteralValue::UInt(_) => return self.refuse("", "there are no byte strings and no unsigned integers here".into(), None),
        }))
    }

    fn name(&mut self, name: &str, path: Vec<String>) -> Expr {
        if let Some(at) = self.locals.iter().rposition(|local| local == name) {
            return Expr::Local(at);
        }
        let found = NameUse { root: name.to_owned(), path };
        if !self.names.contains(&found) {
            self.names.push(found);
        }
        Expr::Name(name.to_owned())
    }

    /// A chain of `.field` and `["field"]`.
    fn path(&mut self, node: &IdedExpr, depth: usize) -> Result<Expr, Problem> {
        let collected = self.collect(node, Vec::new());
        self.chain(node, collected, depth)
    }

    /// Collects the name that begins a chain, with its keys; `keys` are those after the chain, innermost last. Whether there is a name.
    fn collect(&mut self, node: &IdedExpr, mut keys: Vec<String>) -> bool {
        let mut at = node;
        loop {
            match &at.expr {
                Tree::Select(select) if !select.test => {
                    keys.push(select.field.clone());
                    at = &select.operand;
                }
                Tree::Call(call) if call.func_name == operators::INDEX && call.args.len() == 2 => {
                    match &call.args[1].expr {
                        Tree::Literal(LiteralValue::String(key)) => keys.push(key.inner().to_owned()),
                        // Only the keys before the first index that is not a fixed key are known to be a path.
                        _ => keys.clear(),
                    }
                    at = &call.args[0];
                }
                Tree::Ident(name) => {
                    keys.reverse();
                    self.name(name, keys);
                    return true;
                }
                _ => return false,
            }
        }
    }

    /// The chain itself; if its name is known to be collected, it must not be collected again without its keys.
    fn chain(&mut self, node: &IdedExpr, collected: bool, depth: usize) -> Result<Expr, Problem> {
        if depth > MOST_DEPTH {
            return self.expr(node, depth);
        }
        match &node.expr {
            Tree::Select(select) if !select.test => Ok(Expr::Select(Box::new(self.chain(&select.operand, collected, depth + 1)?), select.field.clone())),
            Tree::Call(call) if call.func_name == operators::INDEX && call.args.len() == 2 => {
                let operand = self.chain(&call.args[0], collected, depth + 1)?;
                Ok(Expr::Index(Box::new(operand), Box::new(self.expr(&call.args[1], depth + 1)?)))
            }
            Tree::Ident(name) if collected => Ok(match self.locals.iter().rposition(|local| local == name) {
                Some(at) => Expr::Local(at),
                None => Expr::Name(name.clone()),
            }),
            _ => self.expr(node, depth),
        }
    }

    fn call(&mut self, node: &IdedExpr, call: &CallExpr, depth: usize) -> Result<Expr, Problem> {
        let operator = match (call.func_name.as_str(), call.args.len(), &call.target) {
            (operators::INDEX, 2, None) => return self.path(node, depth),
            (operators::LOGICAL_NOT, 1, None) => return Ok(Expr::Not(Box::new(self.expr(&call.args[0], depth)?))),
            (operators::NEGATE, 1, None) => return Ok(Expr::Negate(Box::new(self.expr(&call.args[0], depth)?))),
            (operators::LOGICAL_AND, 2, None) => return Ok(Expr::And(Box::new(self.expr(&call.args[0], depth)?), Box::new(self.expr(&call.args[1], depth)?))),
            (operators::LOGICAL_OR, 2, None) => return Ok(Expr::Or(Box::new(self.expr(&call.args[0], depth)?), Box::new(self.expr(&call.args[1], depth)?))),
            (operators::CONDITIONAL, 3, None) => {
                let [condition, yes, no] = [0, 1, 2].map(|at| self.expr(&call.args[at], depth));
                return Ok(Expr::Conditional(Box::new(condition?), Box::new(yes?), Box::new(no?)));
            }
            (sign, 2, None) => binary(sign),
            _ => None,
        };
        if let Some(operator) = operator {
            let (left, right) = (self.expr(&call.args[0], depth)?, self.expr(&call.args[1], depth)?);
            self.compare(operator, &left, &right);
            return Ok(Expr::Binary(operator, Box::new(left), Box::new(right)));
        }
        let mut args = Vec::new();
        for arg in call.target.iter().map(|target| &**target).chain(&call.args) {
            args.push(self.expr(arg, depth)?);
        }
        match Function::find(&call.func_name, call.target.is_some(), &args) {
            Ok(function) => Ok(Expr::Call(function, args)),
            Err((message, help)) => self.refuse(&call.func_name, message, help),
        }
    }

    /// Notes a comparison of a name's value with fixed texts.
    fn compare(&mut self, operator: Operator, left: &Expr, right: &Expr) {
        let sides: [(&Expr, &[Expr]); 2] = match (operator, right) {
            (Operator::Equal | Operator::NotEqual, _) => [(left, std::slice::from_ref(right)), (right, std::slice::from_ref(left))],
            (Operator::In, Expr::List(items)) => [(left, items), (right, &[])],
            _ => return,
        };
        for (value, texts) in sides {
            for text in texts {
                if let (Some(name), Expr::Literal(Value::String(text))) = (value.fixed_path(), text) {
                    self.compared.push(Comparison { name, text: text.clone() });
                }
            }
        }
    }

    fn comprehension(&mut self, walk: &ComprehensionExpr, depth: usize) -> Result<Expr, Problem> {
        let range = self.expr(&walk.iter_range, depth)?;
        let Some((kind, condition, result)) = recognised(walk) else {
            return self.refuse("", "this kind of comprehension is not known here".into(), None);
        };
        let local = self.locals.len();
        self.locals.push(walk.iter_var.clone());
        let condition = condition.map(|node| self.expr(node, depth)).transpose();
        let result = result.map(|node| self.expr(node, depth)).transpose();
        self.locals.pop();
        Ok(Expr::Comprehension(Box::new(Comprehension { kind, range, local, condition: condition?, result: result? })))
    }
}

fn binary(sign: &str) -> Option<Operator> {
    Some(match sign {
        operators::ADD => Operator::Add,
        operators::SUBSTRACT => Operator::Subtract,
        operators::MULTIPLY => Operator::Multiply,
        operators::DIVIDE => Operator::Divide,
        operators::MODULO => Operator::Remainder,
        operators::EQUALS => Operator::Equal,
        operators::NOT_EQUALS => Operator::NotEqual,
        operators::LESS => Operator::Less,
        operators::LESS_EQUALS => Operator::LessEqual,
        operators::GREATER => Operator::Greater,
        operators::GREATER_EQUALS => Operator::GreaterEqual,
        operators::IN => Operator::In,
        _ => return None,
    })
}

/// Which macro a comprehension was expanded from, with its condition and its result.
///
/// The parser expands macros into folds with an accumulator; taken literally they would copy the list for every element.
fn recognised(walk: &ComprehensionExpr) -> Option<(Walk, Option<&IdedExpr>, Option<&IdedExpr>)> {
    let Tree::Call(step) = &walk.loop_step.expr else { return None };
    match (step.func_name.as_str(), step.args.as_slice(), &walk.accu_init.expr) {
        (operators::LOGICAL_AND, [_, condition], _) => Some((Walk::All, Some(condition), None)),
        (operators::LOGICAL_OR, [_, condition], _) => Some((Walk::Exists, Some(condition), None)),
        (operators::CONDITIONAL, [condition, _, _], Tree::Literal(_)) => Some((Walk::ExistsOne, Some(condition), None)),
        (operators::ADD, [_, added], Tree::List(_)) => Some((Walk::Map, None, Some(only_element(added)?))),
        (operators::CONDITIONAL, [condition, add, _], Tree::List(_)) => {
            let Tree::Call(add) = &add.expr else { return None };
            let added = only_element(add.args.get(1)?)?;
            // `filter(x, p)` adds the variable itself, and so does `map(x, p, x)`, which means the same.
            match &added.expr {
                Tree::Ident(name) if *name == walk.iter_var => Some((Walk::Filter, Some(condition), None)),
                _ => Some((Walk::Map, Some(condition), Some(added))),
            }
        }
        _ => None,
    }
}

fn only_element(list: &IdedExpr) -> Option<&IdedExpr> {
    match &list.expr {
        Tree::List(list) => list.elements.first(),
        _ => None,
    }
}
