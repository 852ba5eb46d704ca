//! A definition with every kind and policy in it, and an evaluator that knows no language.

#![allow(dead_code, reason = "each test file takes what it needs")]

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use viat_engine::expression::{Evaluate, Scope};
use viat_engine::ir::{
    Arm, Branch, Call, Choice, CompensationMode, Expression, IR_VERSION, InputDeclaration, Loop, Node, OnFailure, Parallel, Policy, Region, Script, Source,
    Template, Wait,
};
use viat_engine::journal::Created;
use viat_engine::policies::recover::{RecoverRule, Recovery};
use viat_engine::policies::retry::{Matcher, RetryRule};
use viat_engine::policies::timeout::{self, Timeout};
use viat_engine::{Definition, Op, Program};

/// Every expression is true.
pub struct Evaluator;

impl Evaluate for Evaluator {
    fn evaluate(&self, _: &Expression, _: &dyn Scope) -> Result<Value, String> {
        Ok(Value::Bool(true))
    }

    fn check_inputs(&self, _: &Definition, given: Value) -> Result<Map<String, Value>, String> {
        given.as_object().cloned().ok_or_else(|| "inputs are a map".to_owned())
    }

    fn check_form(&self, _: &[InputDeclaration], given: Value) -> Result<Map<String, Value>, String> {
        given.as_object().cloned().ok_or_else(|| "data is a map".to_owned())
    }

    fn duration_ms(&self, value: &Value) -> Result<u64, String> {
        value.as_u64().ok_or_else(|| "not a duration".to_owned())
    }
}

/// The first fact of a run of [`program`].
pub fn created(deadline: Option<i64>) -> Created {
    Created {
        run: "run".to_owned(),
        workflow: "sample".to_owned(),
        version: 1,
        revision: 1,
        inputs: Map::new(),
        deadline,
        active_budget_ms: deadline.is_none().then_some(20_000),
        owner: "engine".to_owned(),
        draft: false,
    }
}

/// A script entry of this policy; `c` is idempotent.
pub fn script(id: &str, policy: Policy) -> Node {
    let op = Op::Script(Script { name: id.to_owned(), args: Template::Literal(json!({})), idempotent: id == "c", idempotency_key: None });
    Node { id: id.to_owned(), op, next: None, policy }
}

/// An entry without policies.
pub fn node(id: &str, op: Op) -> Node {
    Node { id: id.to_owned(), op, next: None, policy: Policy::default() }
}

fn retried() -> Policy {
    let rule = RetryRule { matches: Matcher::Retryable, times: 2, initial_ms: 100, factor: 2.0, max_ms: 300, jitter: true };
    Policy { retry: vec![rule], ..Policy::default() }
}

fn recovered(then: Recovery) -> Policy {
    Policy { recover: vec![RecoverRule { matches: Matcher::Any, then }], ..retried() }
}

/// A sequence.
pub fn region(mut nodes: Vec<Node>) -> Region {
    let count = nodes.len();
    for (number, node) in nodes.iter_mut().enumerate() {
        node.next = (number + 1 < count).then_some(number + 1);
    }
    Region { nodes }
}

/// A definition whose first region is the root.
pub fn definition(regions: Vec<Region>, timeout_ms: Option<u64>) -> Definition {
    let outputs = Template::Map(Vec::new());
    Definition {
        ir: IR_VERSION,
        dialect: "native".to_owned(),
        description: None,
        inputs: Vec::new(),
        outputs,
        timeout_ms,
        compensation: CompensationMode::Auto,
        compensation_timeout_ms: None,
        regions,
        root: 0,
    }
}

/// A program with every kind but `fail` and `return`, which end everything.
pub fn program() -> Program {
    let branch = |name: &str, body| Branch { name: name.to_owned(), body };
    let fan = Op::Parallel(Parallel { branches: vec![branch("left", 1), branch("right", 2)], on_failure: OnFailure::Cancel, concurrency: None });
    let items = Template::Literal(json!([1, 2, 3, 4]));
    let source = Source::Over { list: items, name: "item".to_owned() };
    let each = Op::Loop(Loop { source, concurrency: 3, max_iterations: 10, max_failures: 1, body: 3 });
    let condition = Template::Expression(Expression { language: "any".to_owned(), text: "true".to_owned() });
    let choice = Op::Choice(Choice { arms: vec![Arm { when: condition, body: 4 }], otherwise: None });
    let call = Op::Call(Call { workflow: "sub".to_owned(), version: None, args: Template::Literal(json!({})) });
    let event = Op::Wait(Wait::Event { name: Template::Literal(json!("paid")), timeout_ms: Some(900) });
    let pause = Op::Wait(Wait::For(Template::Literal(json!(700))));
    let timed = Policy { timeout: Some(Timeout { ms: 0, scope: timeout::Scope::Attempt }), ..recovered(Recovery::Continue) };
    let regions = vec![
        region(vec![script("a", recovered(Recovery::Catch(5))), node("fan", fan), node("each", each), node("if", choice), node("call", call)]),
        region(vec![script("b", retried()), node("paid", event)]),
        region(vec![node("pause", pause), script("zero", timed)]),
        region(vec![script("c", retried())]),
        region(vec![node("set", Op::Set(Template::Literal(json!(1)))), script("e", recovered(Recovery::Continue))]),
        region(vec![script("rescue", retried())]),
    ];
    let called = definition(vec![region(vec![script("d", retried())])], Some(1_500));
    Program { main: Arc::new(definition(regions, None)), called: BTreeMap::from([("sub".to_owned(), Arc::new(called))]) }
}
