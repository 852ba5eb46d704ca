//! A parsed expression: names resolved, functions known, literals as JSON.

use serde_json::Value;

use super::function::Function;

/// An expression that can be evaluated.
#[derive(Debug)]
pub struct Program {
    pub(super) root: Expr,
    /// The names from the scope that it uses, each with the keys that follow it as far as they are written out.
    pub names: Vec<NameUse>,
    /// The names from the scope whose values it compares with fixed texts.
    pub compared: Vec<Comparison>,
}

/// `a.output.x == "text"`, `!=`, or one of the texts of `a.output.x in ["text", …]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comparison {
    /// The name and all keys after it.
    pub name: NameUse,
    /// The text.
    pub text: String,
}

/// A use of a name from the scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameUse {
    /// The name.
    pub root: String,
    /// The keys after it that are fixed: `a.output["x"][0].y` gives `output`, `x`.
    pub path: Vec<String>,
}

/// One node of the tree.
#[derive(Debug)]
pub enum Expr {
    /// A constant.
    Literal(Value),
    /// A name from the scope.
    Name(String),
    /// A variable of a comprehension, counted from the outermost.
    Local(usize),
    /// `operand.field`
    Select(Box<Expr>, String),
    /// `has(operand.field)`
    Has(Box<Expr>, String),
    /// `operand[index]`
    Index(Box<Expr>, Box<Expr>),
    /// `[a, b]`
    List(Vec<Expr>),
    /// `{"k": v}`
    Map(Vec<(Expr, Expr)>),
    /// `!a`
    Not(Box<Expr>),
    /// `-a`
    Negate(Box<Expr>),
    /// `a && b`
    And(Box<Expr>, Box<Expr>),
    /// `a || b`
    Or(Box<Expr>, Box<Expr>),
    /// `a ? b : c`
    Conditional(Box<Expr>, Box<Expr>, Box<Expr>),
    /// An arithmetic operator or a comparison.
    Binary(Operator, Box<Expr>, Box<Expr>),
    /// A function, its target being the first argument.
    Call(Function, Vec<Expr>),
    /// `range.map(x, …)` and its like.
    Comprehension(Box<Comprehension>),
}

/// An operator of two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`
    Divide,
    /// `%`
    Remainder,
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterEqual,
    /// `in`
    In,
}

impl Operator {
    /// The operator as it is written.
    pub fn sign(self) -> &'static str {
        match self {
            Operator::Add => "+",
            Operator::Subtract => "-",
            Operator::Multiply => "*",
            Operator::Divide => "/",
            Operator::Remainder => "%",
            Operator::Equal => "==",
            Operator::NotEqual => "!=",
            Operator::Less => "<",
            Operator::LessEqual => "<=",
            Operator::Greater => ">",
            Operator::GreaterEqual => ">=",
            Operator::In => "in",
        }
    }
}

/// A walk over the elements of a list or the keys of a map.
#[derive(Debug)]
pub struct Comprehension {
    /// What becomes of the elements.
    pub kind: Walk,
    /// What is walked over.
    pub range: Expr,
    /// The variable's number.
    pub local: usize,
    /// The condition of `all`, `exists`, `exists_one`, `filter` and of `map` with three arguments.
    pub condition: Option<Expr>,
    /// The result of `map`.
    pub result: Option<Expr>,
}

/// What a comprehension makes of its elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Walk {
    /// Whether the condition holds for every element.
    All,
    /// Whether it holds for any.
    Exists,
    /// Whether it holds for exactly one.
    ExistsOne,
    /// A new list.
    Map,
    /// The elements for which it holds.
    Filter,
}

impl Expr {
    /// The name that a chain of fixed keys begins with, and the keys.
    pub fn fixed_path(&self) -> Option<NameUse> {
        let (operand, key) = match self {
            Expr::Name(name) => return Some(NameUse { root: name.clone(), path: Vec::new() }),
            Expr::Select(operand, field) => (operand, field),
            Expr::Index(operand, index) => match &**index {
                Expr::Literal(Value::String(key)) => (operand, key),
                _ => return None,
            },
            _ => return None,
        };
        let mut found = operand.fixed_path()?;
        found.path.push(key.clone());
        Some(found)
    }

    /// How the author would write a path, for messages.
    pub fn described(&self) -> String {
        match self {
            Expr::Name(name) => name.clone(),
            Expr::Select(operand, field) => format!("{}.{field}", operand.described()),
            Expr::Index(operand, index) => match &**index {
                Expr::Literal(value) => format!("{}[{value}]", operand.described()),
                _ => format!("{}[…]", operand.described()),
            },
            Expr::Local(_) => "the element".to_owned(),
            _ => "the value".to_owned(),
        }
    }
}
