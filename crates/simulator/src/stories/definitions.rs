//! Random valid definitions: what the native dialect could have lowered, all kinds and policies, any nesting.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use viat_engine::ir::{
    Arm, Branch, Call, Choice, Expression, Fail, IR_VERSION, InputDeclaration, Key, Loop, Node, OnFailure, Parallel, Policy, Reference, Region, RegionId,
    Script, Segment, Source, Template, Wait,
};
use viat_engine::policies::recover::{RecoverRule, Recovery};
use viat_engine::policies::retry::{Matcher, RetryRule};
use viat_engine::policies::timeout::{Scope, Timeout};
use viat_engine::{Definition, Op, Program};

use super::dice::Dice;

const DEEPEST: usize = 4;
/// Names of the events that waits wait for and people send.
pub const EVENTS: [&str; 2] = ["paid", "seen"];

/// Where an entry stands, as far as it decides what may stand there.
#[derive(Clone, Copy)]
struct Place {
    depth: usize,
    in_catch: bool,
    /// Whether `return` is allowed.
    may_return: bool,
}

struct Author<'d> {
    dice: &'d mut Dice,
    regions: Vec<Region>,
    next_id: usize,
    callable: Vec<String>,
}

/// A program of random definitions: one that runs, and up to two that it may call.
pub fn program(dice: &mut Dice) -> Program {
    let mut called: BTreeMap<String, Arc<Definition>> = BTreeMap::new();
    let mut next_id = 0;
    for name in ["inner", "outer"] {
        if dice.chance(25) {
            let callable = called.keys().cloned().collect();
            let timeout_ms = if dice.chance(40) { Some(dice.between(0, 800)) } else { None };
            let definition = definition(dice, &mut next_id, callable, timeout_ms);
            called.insert(name.to_owned(), Arc::new(definition));
        }
    }
    let timeout_ms = if dice.chance(30) { Some(dice.between(0, 3_000)) } else { None };
    let main = definition(dice, &mut next_id, called.keys().cloned().collect(), timeout_ms);
    Program { main: Arc::new(main), called }
}

fn definition(dice: &mut Dice, next_id: &mut usize, callable: Vec<String>, timeout_ms: Option<u64>) -> Definition {
    let mut author = Author { dice, regions: Vec::new(), next_id: *next_id, callable };
    let root = author.region(Place { depth: 0, in_catch: false, may_return: true });
    *next_id = author.next_id;
    let regions = author.regions;
    let seen = regions[root].nodes.iter().filter(|node| !matches!(node.op, Op::Parallel(_)));
    let outputs = seen.map(|node| (node.id.clone(), reference(&node.id, &["output"]))).collect();
    let flag = InputDeclaration { name: "flag".to_owned(), schema: json!({ "type": "boolean" }), default: None, required: true };
    Definition {
        ir: IR_VERSION,
        dialect: "native".to_owned(),
        description: None,
        inputs: vec![flag],
        outputs: Template::Map(outputs),
        timeout_ms,
        regions,
        root,
    }
}

/// `$root.a.b`.
fn reference(root: &str, path: &[&str]) -> Template {
    let segments = path.iter().map(|name| Segment { key: Key::Name((*name).to_owned()), optional: false }).collect();
    Template::Reference(Reference { text: format!("${root}.{}", path.join(".")), root: root.to_owned(), path: segments })
}

fn cel(text: String) -> Template {
    Template::Expression(Expression { language: "cel".to_owned(), text })
}

impl Author<'_> {
    fn region(&mut self, place: Place) -> RegionId {
        let most = if place.depth == 0 { 4 } else { 3 };
        let count = self.dice.count(1, most);
        let mut nodes: Vec<Node> = (0..count).map(|_| self.node(place)).collect();
        for (number, node) in nodes.iter_mut().enumerate() {
            node.next = (number + 1 < count).then_some(number + 1);
        }
        self.regions.push(Region { nodes });
        self.regions.len() - 1
    }

    fn node(&mut self, place: Place) -> Node {
        self.next_id += 1;
        let id = format!("e{}", self.next_id);
        let nested = place.depth < DEEPEST;
        let op = match self.dice.between(1, 100) {
            1..=10 => Op::Set(self.value()),
            11..=20 if nested => self.choice(place),
            21..=33 if nested => self.parallel(place),
            34..=47 if nested => self.each(place),
            48..=53 if !self.callable.is_empty() => self.call(),
            54..=60 => Op::Wait(self.wait()),
            61 => self.refusal(),
            62 if place.may_return => Op::Return(Template::Map(vec![("early".to_owned(), Template::Literal(json!(id)))])),
            _ => Op::Script(Script { name: id.clone(), args: Template::Map(vec![("v".to_owned(), self.value())]), idempotent: self.dice.chance(30) }),
        };
        let policy = if matches!(op, Op::Script(_)) { self.policy(place) } else { Policy::default() };
        Node { id, op, next: None, policy }
    }

    /// A value; one in fifty is an expression error.
    fn value(&mut self) -> Template {
        match self.dice.between(1, 50) {
            1 => reference("inputs", &["missing"]),
            2..=20 => reference("inputs", &["flag"]),
            _ => Template::Literal(json!(self.dice.between(0, 9))),
        }
    }

    fn policy(&mut self, place: Place) -> Policy {
        let mut policy = Policy::default();
        if self.dice.chance(50) {
            let initial_ms = self.dice.between(10, 200);
            policy.retry.push(RetryRule {
                matches: Matcher::Retryable,
                times: u32::try_from(self.dice.between(1, 3)).unwrap_or(1),
                initial_ms,
                factor: self.dice.pick(&[1.0, 1.5, 2.0, 10.0]),
                max_ms: initial_ms + self.dice.between(0, 500),
                jitter: self.dice.chance(60),
            });
        }
        match self.dice.between(1, 10) {
            1..=3 => policy.recover.push(RecoverRule { matches: Matcher::Any, then: Recovery::Continue }),
            4..=5 if !place.in_catch && place.depth < DEEPEST => {
                let region = self.region(Place { depth: place.depth + 1, in_catch: true, ..place });
                policy.recover.push(RecoverRule { matches: Matcher::Any, then: Recovery::Catch(region) });
            }
            _ => {}
        }
        if self.dice.chance(25) {
            let ms = if self.dice.chance(10) { 0 } else { self.dice.between(1, 300) };
            policy.timeout = Some(Timeout { ms, scope: Scope::Attempt });
        }
        policy
    }

    fn choice(&mut self, place: Place) -> Op {
        let place = Place { depth: place.depth + 1, ..place };
        let when = match self.dice.between(1, 20) {
            1 => Template::Literal(json!(1)),
            2..=10 => reference("inputs", &["flag"]),
            _ => Template::Literal(json!(self.dice.chance(50))),
        };
        let arms = vec![Arm { when, body: self.region(place) }];
        let otherwise = self.dice.chance(60).then(|| self.region(place));
        Op::Choice(Choice { arms, otherwise })
    }

    fn parallel(&mut self, place: Place) -> Op {
        let place = Place { depth: place.depth + 1, may_return: false, ..place };
        let count = self.dice.count(1, 4);
        let branches = (0..count).map(|number| Branch { name: number.to_string(), body: self.region(place) }).collect();
        let on_failure = self.dice.pick(&[OnFailure::Cancel, OnFailure::Wait]);
        let concurrency = self.dice.chance(40).then(|| self.dice.count(1, 3));
        Op::Parallel(Parallel { branches, on_failure, concurrency })
    }

    fn each(&mut self, place: Place) -> Op {
        let (source, concurrency) = if self.dice.chance(25) {
            (Source::While(cel(format!("iteration.index < {}", self.dice.between(0, 4)))), 1)
        } else {
            let items: Vec<Value> = (0..self.dice.between(0, 6)).map(|item| json!(item)).collect();
            let list = if self.dice.chance(3) { json!("no list") } else { Value::Array(items) };
            (Source::Over { list: Template::Literal(list), name: "item".to_owned() }, self.dice.count(1, 8))
        };
        let may_return = place.may_return && concurrency == 1;
        let body = self.region(Place { depth: place.depth + 1, may_return, ..place });
        let max_iterations = if self.dice.chance(5) { self.dice.count(1, 3) } else { 1_000 };
        let max_failures = if self.dice.chance(50) { 0 } else { self.dice.count(1, 3) };
        Op::Loop(Loop { source, concurrency, max_iterations, max_failures, body })
    }

    fn call(&mut self) -> Op {
        let number = self.dice.count(0, self.callable.len() - 1);
        let args = Template::Map(vec![("flag".to_owned(), Template::Literal(json!(true)))]);
        Op::Call(Call { workflow: self.callable[number].clone(), version: None, args })
    }

    fn wait(&mut self) -> Wait {
        match self.dice.between(1, 10) {
            1..=4 => Wait::For(Template::Literal(json!(self.dice.between(0, 500)))),
            5 => Wait::Until(Template::Literal(json!("1970-01-01T00:00:00.400Z"))),
            _ => {
                let name = Template::Literal(json!(self.dice.pick(&EVENTS)));
                Wait::Event { name, timeout_ms: self.dice.chance(70).then(|| self.dice.between(0, 600)) }
            }
        }
    }

    fn refusal(&mut self) -> Op {
        Op::Fail(Fail { status: 409, code: Template::Literal(json!("no")), message: Template::Literal(json!("the workflow says no")), extra: None })
    }
}
