//! The definition of a workflow as the engine understands it: the one meaning that every dialect lowers to.
//!
//! Regions are small graphs (nodes with `next`); a block language's sequence is a chain. They lie in one flat table
//! ([`Definition::regions`]), so a running frame names its region by number and a stored definition needs no pointers.
//! Expressions are data: a language tag and their text.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::policies::recover::RecoverRule;
use crate::policies::retry::RetryRule;
use crate::policies::timeout::Timeout;

/// The newest format of [`Definition`]; stored with each one, so that an old run keeps the meaning it started with.
pub const IR_VERSION: u32 = 1;

/// A region's place in [`Definition::regions`].
pub type RegionId = usize;

/// A workflow version, checked and lowered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Definition {
    /// The format's version, [`IR_VERSION`] when it was lowered.
    pub ir: u32,
    /// The dialect it was written in: `native`, `plaita`, `cloudflow`, `asl`.
    pub dialect: String,
    /// What the author says it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Declared inputs, in the author's order.
    #[serde(default)]
    pub inputs: Vec<InputDeclaration>,
    /// The run's output, evaluated once every entry of the root region completed.
    pub outputs: Template,
    /// Wall-clock budget of a run in milliseconds; zero is a budget, `None` is none given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Whether a run that ends badly undoes its effects by itself.
    #[serde(default, skip_serializing_if = "CompensationMode::is_auto")]
    pub compensation: CompensationMode,
    /// The budget of that undoing in milliseconds; `None`: [`crate::policies::compensate::DEFAULT_BUDGET_MS`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compensation_timeout_ms: Option<u64>,
    /// All regions; [`Definition::root`] is where a run starts.
    pub regions: Vec<Region>,
    /// The root region.
    pub root: RegionId,
}

/// Who starts the compensation of a run that ended badly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CompensationMode {
    /// The run itself, as its last act.
    #[default]
    Auto,
    /// A person.
    Manual,
}

impl CompensationMode {
    fn is_auto(&self) -> bool {
        *self == CompensationMode::Auto
    }
}

/// One declared input, or one field of a review's form.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InputDeclaration {
    /// Its name, as in `$inputs.NAME`.
    pub name: String,
    /// Its JSON Schema.
    pub schema: Value,
    /// Used when a caller gives none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    /// Whether a caller must give it; an input that need not be given and has no default is `null`.
    pub required: bool,
}

/// A chain or graph of nodes. Node 0 is the entry; an empty region's value is `null`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Region {
    /// The nodes, in the author's order.
    pub nodes: Vec<Node>,
}

/// One entry of a workflow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// Unique within the document.
    pub id: String,
    /// What it does.
    pub op: Op,
    /// The node that follows in the same region; `None` ends the region with this node's value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<usize>,
    /// Retry, recovery and timeout. The engine allows them on any node; the native language only on a script.
    #[serde(default, skip_serializing_if = "Policy::is_default")]
    pub policy: Policy,
}

/// What may happen to a failure of a node, and how long it may take.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Policy {
    /// The first rule that matches a failure decides whether it is tried again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub retry: Vec<RetryRule>,
    /// The first rule that matches a final failure decides what follows; none: the failure goes outwards.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recover: Vec<RecoverRule>,
    /// The node's own budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Timeout>,
    /// How to find out whether an attempt of unknown outcome took effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolve: Option<Box<Resolve>>,
    /// How to undo the effect once it is complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compensate: Option<Box<Compensate>>,
}

/// A script that finds out whether an attempt of unknown outcome took effect.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Resolve {
    /// The script asset's name.
    pub script: String,
    /// Evaluated when the outcome becomes unknown; they see what the entry's arguments see.
    pub args: Template,
    /// Of its own attempts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub retry: Vec<RetryRule>,
    /// Of each of its attempts, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

/// How to undo an effect.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Compensate {
    /// By a script.
    Script {
        /// The script asset's name.
        script: String,
        /// Evaluated when the effect is complete; they see its output, too.
        args: Template,
        /// Of its own attempts.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        retry: Vec<RetryRule>,
        /// Of each of its attempts, in milliseconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        timeout_ms: Option<u64>,
        /// The author's leave to run it again after an attempt whose outcome is unknown because the engine died.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        idempotent: bool,
    },
    /// Not at all, and why.
    Irreversible(String),
}

impl Policy {
    /// Whether nothing is configured.
    pub fn is_default(&self) -> bool {
        *self == Policy::default()
    }
}

/// What a node does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Op {
    /// Runs a script outside the engine.
    Script(Script),
    /// Takes the first arm whose condition is true.
    Choice(Choice),
    /// Evaluates a template.
    Set(Template),
    /// Runs regions side by side.
    Parallel(Parallel),
    /// Runs a region again and again.
    Loop(Loop),
    /// Runs another workflow inside this run.
    Call(Call),
    /// Waits for time or for an event.
    Wait(Wait),
    /// Fails the run, as a refusal of the workflow's own.
    Fail(Fail),
    /// Ends the workflow successfully with this output map.
    Return(Template),
    /// Asks a person.
    Review(Box<Review>),
    /// Undoes the effects of these entries now, newest first; ids of entries that stand before it, or around it.
    Compensate(Vec<String>),
}

/// A `review` entry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Review {
    /// Must evaluate to a non-empty string.
    pub title: Template,
    /// What the person is shown; any value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub show: Option<Template>,
    /// The fields of the decision's `data`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub form: Vec<InputDeclaration>,
    /// Must evaluate to a list of strings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assignees: Option<Template>,
    /// In milliseconds; once it has passed the decision is `expired`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Milliseconds after which the assignees are reminded, ascending.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remind_ms: Vec<u64>,
}

/// A `parallel` entry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Parallel {
    /// In the author's order; never empty.
    pub branches: Vec<Branch>,
    /// What a failed branch means for the others.
    pub on_failure: OnFailure,
    /// How many branches run at once; `None`: all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<usize>,
}

/// One branch of a `parallel`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Branch {
    /// Its name; `0`, `1`, … where the author gave none.
    pub name: String,
    /// What runs.
    pub body: RegionId,
}

/// What a failed branch means for the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// They are cancelled.
    Cancel,
    /// They finish.
    Wait,
}

/// A `loop` entry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Loop {
    /// What it runs over.
    pub source: Source,
    /// How many iterations run at once; 1 with `while`.
    pub concurrency: usize,
    /// More iterations than this are an `orchestration` failure.
    pub max_iterations: usize,
    /// How many iterations may fail.
    pub max_failures: usize,
    /// What runs.
    pub body: RegionId,
}

/// What a loop runs over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The items of a list, each bound to a name.
    Over {
        /// Must evaluate to a list.
        list: Template,
        /// The loop variable.
        name: String,
    },
    /// As long as a condition is true; it is evaluated before each iteration.
    While(Template),
}

/// A `workflow` entry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// The workflow's name.
    pub workflow: String,
    /// The version asked for; `None`: the one that the run pins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// Its inputs.
    pub args: Template,
}

impl Call {
    /// Under which name a run keeps the definition that this call runs.
    pub fn key(&self) -> String {
        self.version.map_or_else(|| self.workflow.clone(), |version| format!("{}@{version}", self.workflow))
    }
}

/// A `wait` entry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wait {
    /// For a time: a duration as the dialect writes it.
    For(Template),
    /// Until a time: an RFC 3339 string.
    Until(Template),
    /// For an event of this name, for at most a time.
    Event {
        /// The event's name: must evaluate to a non-empty string.
        name: Template,
        /// In milliseconds; `null` is the value once it has passed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        timeout_ms: Option<u64>,
    },
}

/// A `fail` entry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fail {
    /// HTTP status, 400 to 599.
    pub status: u16,
    /// Must evaluate to a non-empty string.
    pub code: Template,
    /// Must evaluate to a string.
    pub message: Template,
    /// Any value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra: Option<Template>,
}

/// A script entry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Script {
    /// The script asset's name; its version is pinned by the run.
    pub name: String,
    /// Evaluated once, before the first attempt.
    pub args: Template,
    /// The author's leave to run it again after an attempt whose outcome is unknown because the engine died.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub idempotent: bool,
    /// Evaluated with the arguments; `None`: derived from the run and the entry's path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<Template>,
}

/// An `if` entry, or a dialect's choice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Choice {
    /// Tried in order.
    pub arms: Vec<Arm>,
    /// Taken when no arm's condition is true; without it the value is `null`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub otherwise: Option<RegionId>,
}

/// One arm of a choice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Arm {
    /// Must evaluate to a boolean; there is no truthiness.
    pub when: Template,
    /// What runs if it is true.
    pub body: RegionId,
}

/// A value with holes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Template {
    /// The value itself.
    Literal(Value),
    /// `$a.output.items[0]`: the value found there, its type kept.
    Reference(Reference),
    /// The expression's value, its type kept.
    Expression(Expression),
    /// `text ${ expression } text`: strings as they are, other values as compact JSON.
    Text(Vec<Part>),
    /// A list with holes somewhere in it.
    List(Vec<Template>),
    /// A map with holes somewhere in it, in the author's order.
    Map(Vec<(String, Template)>),
}

/// A piece of an interpolated string.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Literal text.
    Text(String),
    /// Replaced by its value.
    Expression(Expression),
}

/// An expression of one of the registered languages.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Expression {
    /// The language's tag: `cel`.
    pub language: String,
    /// Its source text.
    pub text: String,
}

/// A path into the values in scope.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reference {
    /// As the author wrote it, for messages.
    pub text: String,
    /// The name it begins with: an entry's id, `inputs`, `run`, `iteration`, `_error` or a loop variable.
    pub root: String,
    /// What is selected, outermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub path: Vec<Segment>,
}

/// One selection of a reference.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Segment {
    /// What is selected.
    pub key: Key,
    /// `?`: a missing key, or a `null` or missing parent, gives `null` instead of an error.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
}

/// A key of an object or an index of a list (negative indices are out of range).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Key {
    /// `.name` or `["odd key"]`.
    Name(String),
    /// `[0]`.
    Index(i64),
}
