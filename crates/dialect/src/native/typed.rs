//! A document as it was typed, every part in its place: what the checks work on before anything is lowered.

use serde_json::Value;
use viat_engine::ir::{CompensationMode, InputDeclaration, OnFailure, Template};
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
    pub compensation: CompensationMode,
    pub compensation_timeout: Option<Budget>,
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
    Parallel(Parallel),
    Loop(Box<Loop>),
    Call(Call),
    Wait(Wait),
    Fail(Box<Fail>),
    Return(Filled),
    Review(Box<Review>),
    /// The entries whose effects are undone.
    Compensate(Vec<Target>),
    /// Wrong in itself; what is wrong has been reported.
    Broken,
}

impl Kind {
    /// The lists of entries inside, in the order of the text.
    pub fn inner(&self) -> Vec<&[Entry]> {
        match self {
            Kind::Script(script) => match &script.on_error {
                OnError::Catch(entries) => vec![entries],
                OnError::Fail | OnError::Continue => Vec::new(),
            },
            Kind::If(choice) => std::iter::once(&choice.then).chain(&choice.otherwise).map(Vec::as_slice).collect(),
            Kind::Parallel(parallel) => parallel.branches.iter().map(|branch| branch.steps.as_slice()).collect(),
            Kind::Loop(each) => vec![&each.steps],
            Kind::Set(_) | Kind::Call(_) | Kind::Wait(_) | Kind::Fail(_) | Kind::Return(_) => Vec::new(),
            Kind::Review(_) | Kind::Compensate(_) | Kind::Broken => Vec::new(),
        }
    }
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
    pub idempotency_key: Option<Filled>,
    /// Its args see what the entry's args see.
    pub resolve: Option<Helper>,
    pub compensate: Option<Undo>,
}

/// A script that serves an entry: it finds out about an attempt, or undoes the effect.
#[derive(Debug)]
pub struct Helper {
    pub name: String,
    pub args: Filled,
    pub retry: Option<Retry>,
    pub timeout: Option<Budget>,
    pub idempotent: bool,
}

/// How an effect is undone.
#[derive(Debug)]
pub enum Undo {
    /// Its args see the entry's own output, too.
    Script(Box<Helper>),
    /// Not at all, and why.
    Irreversible(String),
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

/// A `parallel` entry.
#[derive(Debug)]
pub struct Parallel {
    pub branches: Vec<Branch>,
    pub on_failure: OnFailure,
    pub concurrency: Option<usize>,
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
    pub source: Source,
    pub concurrency: usize,
    pub max_iterations: usize,
    pub max_failures: usize,
    pub steps: Vec<Entry>,
}

/// What a loop runs over.
#[derive(Debug)]
pub enum Source {
    /// The list is evaluated before the loop, outside its scope.
    Over { list: Filled, variable: String },
    /// Evaluated before each iteration; it sees `$iteration`, too.
    While(Filled),
}

/// A `workflow` entry.
#[derive(Debug)]
pub struct Call {
    pub name: String,
    pub name_span: Span,
    pub version: Option<u64>,
    pub args: Filled,
}

/// A `wait` entry.
#[derive(Debug)]
pub enum Wait {
    /// The budget is the duration, where it is fixed.
    For(Filled, Option<Budget>),
    Until(Filled),
    Event {
        name: Filled,
        timeout: Option<Budget>,
    },
}

/// A `fail` entry.
#[derive(Debug)]
pub struct Fail {
    pub status: u16,
    pub code: Filled,
    pub message: Filled,
    pub extra: Option<Filled>,
}

/// A `review` entry.
#[derive(Debug)]
pub struct Review {
    pub title: Filled,
    pub show: Option<Filled>,
    pub form: Vec<InputDeclaration>,
    pub assignees: Option<Filled>,
    pub timeout: Option<Budget>,
    /// Shortest first.
    pub remind: Vec<Budget>,
}

/// An id in a `compensate` entry and where it stands.
#[derive(Debug)]
pub struct Target {
    pub id: String,
    pub span: Span,
}

/// A template with the names that it uses.
#[derive(Clone, Debug)]
pub struct Filled {
    pub template: Template,
    pub uses: Vec<Use>,
    pub compared: Vec<Compared>,
}

impl Filled {
    /// A template without holes.
    pub fn literal(value: impl Into<Value>) -> Filled {
        Filled { template: Template::Literal(value.into()), uses: Vec::new(), compared: Vec::new() }
    }
}

/// One use of a name.
#[derive(Clone, Debug)]
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

/// A comparison of a name's value with a fixed text.
#[derive(Clone, Debug)]
pub struct Compared {
    pub root: String,
    /// The keys after it.
    pub path: Vec<String>,
    pub text: String,
    /// Where the text stands.
    pub span: Span,
}
