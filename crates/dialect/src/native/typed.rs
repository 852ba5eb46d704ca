//! A document as it was typed, every part in its place: what the checks work on before anything is lowered.

use serde_json::Value;
use viat_engine::ir::{InputDeclaration, Template};
use viat_engine::policies::retry::RetryRule;

use crate::diagnostic::Span;

/// A whole document.
#[derive(Debug)]
pub struct Document {
    pub description: Option<String>,
    pub inputs: Vec<InputDeclaration>,
    pub steps: Vec<Entry>,
    pub outputs: Filled,
    pub timeout: Option<Budget>,
}

/// A time budget and where it stands.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    pub ms: u64,
    pub span: Span,
}

/// One entry of a list.
#[derive(Debug)]
pub struct Entry {
    pub id: String,
    pub id_span: Span,
    pub kind: Kind,
}

/// What an entry is.
#[derive(Debug)]
pub enum Kind {
    Script(Box<Script>),
    If(If),
    Set(Filled),
    Parallel(Vec<Branch>),
    Loop(Loop),
    /// A kind without entries inside: the templates that it holds.
    Leaf(Vec<Filled>),
    /// Wrong in itself; what is wrong has been reported.
    Broken,
}

/// A script entry.
#[derive(Debug)]
pub struct Script {
    pub name: String,
    pub args: Filled,
    pub retry: Option<Retry>,
    pub on_error: OnError,
    pub timeout: Option<Budget>,
    pub idempotent: bool,
    /// Templates that see what the entry's args see: of `resolve` and `idempotency_key`.
    pub before: Vec<Filled>,
    /// Templates that see the entry's own output, too: of `compensate`.
    pub after: Vec<Filled>,
}

/// A retry policy and where it stands.
#[derive(Debug)]
pub struct Retry {
    pub rule: RetryRule,
    pub span: Span,
}

/// What follows a final failure.
#[derive(Debug)]
pub enum OnError {
    Fail,
    Continue,
    Catch(Vec<Entry>),
}

/// An `if` entry.
#[derive(Debug)]
pub struct If {
    pub condition: Filled,
    pub then: Vec<Entry>,
    pub otherwise: Option<Vec<Entry>>,
}

/// One branch of a `parallel` entry.
#[derive(Debug)]
pub struct Branch {
    pub name: String,
    pub steps: Vec<Entry>,
}

/// A `loop` entry.
#[derive(Debug)]
pub struct Loop {
    /// Evaluated before the loop, outside its scope.
    pub over: Option<Filled>,
    /// Evaluated before each iteration, inside its scope.
    pub condition: Option<Filled>,
    pub variable: Option<String>,
    pub steps: Vec<Entry>,
}

/// A template with the names that it uses.
#[derive(Debug)]
pub struct Filled {
    pub template: Template,
    pub uses: Vec<Use>,
}

impl Filled {
    /// A template without holes.
    pub fn literal(value: impl Into<Value>) -> Filled {
        Filled { template: Template::Literal(value.into()), uses: Vec::new() }
    }
}

/// One use of a name.
#[derive(Debug)]
pub struct Use {
    /// The name itself.
    pub root: String,
    /// The keys after it, as far as they are fixed.
    pub path: Vec<String>,
    /// Where it stands.
    pub span: Span,
    /// Whether it was written with a `$`.
    pub reference: bool,
}

impl Use {
    /// The name as it was typed.
    pub fn shown(&self) -> String {
        self.with(&self.root)
    }

    /// Another name in the same spelling.
    pub fn with(&self, name: &str) -> String {
        if self.reference { format!("${name}") } else { name.to_owned() }
    }
}
