//! Random valid workflows as documents, all kinds and policies, any nesting; they go through the native dialect.

mod recovery;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use viat_dialect::{Names, Style, compile, render};
use viat_engine::{Definition, Program};

use super::dice::Dice;

const DEEPEST: usize = 4;
/// Names of the events that waits wait for and people send.
pub const EVENTS: [&str; 2] = ["paid", "seen"];

/// The script of entries that have a `resolve`: its attempts may take effect although they fail.
pub const RESOLVABLE: &str = "resolvable";
/// The script that finds out what came of an attempt.
pub const FIND: &str = "find";
/// The script that undoes an effect.
pub const UNDO: &str = "undo";

/// What every workflow of a story is given.
pub fn inputs(flag: bool) -> Map<String, Value> {
    Map::from_iter([("flag".to_owned(), json!(flag)), ("bag".to_owned(), json!({})), ("list".to_owned(), json!([1, 2, 3, 4]))])
}

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
    next_id: usize,
    callable: Vec<String>,
    /// What a `compensate` entry may name here.
    undoable: Vec<String>,
}

/// The documents of a story: the one that runs and up to two that it may call, by name.
pub struct Documents {
    /// What runs.
    pub main: Value,
    /// What it may call; each may call those before it.
    pub called: Vec<(String, Value)>,
    ids: usize,
}

impl Documents {
    /// Random ones.
    pub fn new(dice: &mut Dice) -> Documents {
        let mut documents = Documents { main: Value::Null, called: Vec::new(), ids: 0 };
        for name in ["inner", "outer"] {
            if dice.chance(25) {
                let timeout_ms = if dice.chance(40) { Some(dice.between(0, 800)) } else { None };
                let document = documents.write(dice, timeout_ms);
                documents.called.push((name.to_owned(), document));
            }
        }
        let timeout_ms = if dice.chance(30) { Some(dice.between(0, 3_000)) } else { None };
        documents.main = documents.write(dice, timeout_ms);
        documents
    }

    /// What they compile to.
    ///
    /// # Errors
    /// The dialect's complaint about one of them.
    pub fn program(&self) -> Result<Program, String> {
        let mut called = BTreeMap::new();
        for (name, document) in &self.called {
            called.insert(name.clone(), Arc::new(self.compiled(name, document)?));
        }
        Ok(Program { main: Arc::new(self.compiled("main", &self.main)?), called })
    }

    /// The documents, for whoever looks into a story that failed.
    pub fn shown(&self) -> String {
        let called = self.called.iter().map(|(name, document)| format!("=== workflow {name}\n{document:#}\n"));
        format!("=== workflow\n{:#}\n{}", self.main, called.collect::<String>())
    }

    fn compiled(&self, name: &str, document: &Value) -> Result<Definition, String> {
        let own = (1..=self.ids).map(|id| format!("e{id}"));
        let scripts = own.chain([RESOLVABLE, FIND, UNDO].map(str::to_owned)).collect();
        let workflows = self.called.iter().map(|(name, _)| name.clone()).collect();
        // JSON is YAML.
        let compiled = compile(name, document.to_string().as_bytes(), &Names { scripts, workflows });
        compiled.definition.ok_or_else(|| render(&compiled.diagnostics, &compiled.text, Style::Plain))
    }

    fn write(&mut self, dice: &mut Dice, timeout_ms: Option<u64>) -> Value {
        let callable = self.called.iter().map(|(name, _)| name.clone()).collect();
        let mut author = Author { dice, next_id: self.ids, callable, undoable: Vec::new() };
        let steps = author.entries(Place { depth: 0, in_catch: false, may_return: true });
        self.ids = author.next_id;
        let seen = steps.iter().filter(|entry| entry.get("parallel").is_none()).filter_map(|entry| entry["id"].as_str());
        let outputs: Map<String, Value> = seen.map(|id| (id.to_owned(), json!(format!("${id}.output")))).collect();
        let mut document =
            json!({ "inputs": { "flag": "boolean", "bag": "object", "list": "array" }, "timeout": timeout_ms, "steps": steps, "outputs": outputs });
        if dice.chance(25) {
            document["compensation"] = json!("manual");
        }
        if dice.chance(25) {
            document["compensation_timeout"] = json!(dice.between(1, 1_000));
        }
        document
    }
}

impl Author<'_> {
    fn entries(&mut self, place: Place) -> Vec<Value> {
        let outside = self.undoable.len();
        let entries = self.visible_entries(place);
        self.undoable.truncate(outside);
        entries
    }

    /// What can be undone of them stays visible.
    fn visible_entries(&mut self, place: Place) -> Vec<Value> {
        let most = if place.depth == 0 { 4 } else { 3 };
        let count = self.dice.count(1, most);
        let mut entries = Vec::with_capacity(count);
        for _ in 0..count {
            let entry = self.entry(place);
            self.note_effects(&entry);
            entries.push(entry);
        }
        entries
    }

    fn entry(&mut self, place: Place) -> Value {
        self.next_id += 1;
        let id = format!("e{}", self.next_id);
        let nested = place.depth < DEEPEST;
        let mut entry = match self.dice.between(1, 100) {
            1..=10 => json!({ "set": self.value() }),
            11..=20 if nested => self.choice(place),
            21..=33 if nested => json!({ "parallel": self.parallel(place) }),
            34..=47 if nested => json!({ "loop": self.each(&id, place) }),
            48..=53 if !self.callable.is_empty() => self.call(),
            54..=60 => json!({ "wait": self.wait() }),
            61 => json!({ "fail": { "status": 409, "code": "no", "message": "the workflow says no" } }),
            62 if place.may_return => json!({ "return": { "early": id } }),
            63..=65 => json!({ "review": self.review() }),
            66..=69 if !self.undoable.is_empty() => json!({ "compensate": self.targets() }),
            _ => self.script(&id, place),
        };
        entry["id"] = json!(id);
        entry
    }

    /// A value; one in fifty is an expression error.
    fn value(&mut self) -> Value {
        match self.dice.between(1, 50) {
            1 => json!("$inputs.bag.missing"),
            2..=20 => json!("$inputs.flag"),
            _ => json!(self.dice.between(0, 9)),
        }
    }

    fn script(&mut self, id: &str, place: Place) -> Value {
        let mut entry = json!({ "script": id, "args": { "v": self.value() }, "idempotent": self.dice.chance(30) });
        if self.dice.chance(50) {
            entry["retry"] = self.retry();
        }
        self.effect(id, &mut entry);
        match self.dice.between(1, 10) {
            1..=3 => entry["on_error"] = json!("continue"),
            4..=5 if !place.in_catch && place.depth < DEEPEST => {
                let entries = self.entries(Place { depth: place.depth + 1, in_catch: true, ..place });
                entry["on_error"] = json!({ "catch": entries });
            }
            _ => {}
        }
        if self.dice.chance(25) {
            entry["timeout"] = json!(if self.dice.chance(10) { 0 } else { self.dice.between(1, 300) });
        }
        entry
    }

    fn choice(&mut self, place: Place) -> Value {
        let place = Place { depth: place.depth + 1, ..place };
        let condition = match self.dice.between(1, 20) {
            1 => json!("$inputs.bag"),
            2..=10 => json!("$inputs.flag"),
            _ => json!(self.dice.chance(50)),
        };
        let mut entry = json!({ "if": condition, "then": self.entries(place) });
        if self.dice.chance(60) {
            entry["else"] = json!(self.entries(place));
        }
        entry
    }

    fn parallel(&mut self, place: Place) -> Value {
        let place = Place { depth: place.depth + 1, may_return: false, ..place };
        let count = self.dice.count(1, 4);
        let (outside, mut inside) = (self.undoable.len(), Vec::new());
        let mut branches = Map::new();
        for number in 0..count {
            branches.insert(format!("b{number}"), json!(self.visible_entries(place)));
            inside.extend(self.undoable.drain(outside..));
        }
        self.undoable.extend(inside);
        let mut parallel = json!({ "branches": branches, "on_failure": self.dice.pick(&["cancel", "wait"]) });
        if self.dice.chance(40) {
            parallel["concurrency"] = json!(self.dice.between(1, 3));
        }
        parallel
    }

    fn each(&mut self, id: &str, place: Place) -> Value {
        if self.dice.chance(1) {
            // Pure entries beyond the bound of one decision.
            self.next_id += 1;
            let (times, inner) = (self.dice.between(300, 700), format!("e{}", self.next_id));
            return json!({ "while": format!("${{ iteration.index < {times} }}"), "steps": [{ "id": inner, "set": "$iteration.index" }] });
        }
        let mut concurrency = 1;
        let mut each = if self.dice.chance(25) {
            json!({ "while": format!("${{ iteration.index < {} }}", self.dice.between(0, 4)) })
        } else {
            concurrency = self.dice.between(1, 8);
            let items: Vec<u64> = (0..self.dice.between(0, 6)).collect();
            let over = match self.dice.between(1, 40) {
                1 => json!("$inputs.bag"),
                2..=4 => json!("$inputs.list"),
                _ => json!(items),
            };
            json!({ "over": over, "as": format!("item_{id}"), "concurrency": concurrency })
        };
        if each["over"].as_array().is_none() && self.dice.chance(30) {
            each["max_iterations"] = json!(self.dice.between(1, 3));
        }
        if self.dice.chance(50) {
            each["max_failures"] = json!(self.dice.between(1, 3));
        }
        let may_return = place.may_return && concurrency == 1;
        each["steps"] = json!(self.entries(Place { depth: place.depth + 1, may_return, ..place }));
        each
    }

    fn call(&mut self) -> Value {
        let number = self.dice.count(0, self.callable.len() - 1);
        json!({ "workflow": self.callable[number], "args": inputs(true) })
    }

    fn wait(&mut self) -> Value {
        match self.dice.between(1, 10) {
            1..=4 => json!({ "for": self.dice.between(0, 500) }),
            5 => json!({ "until": "1970-01-01T00:00:00.400Z" }),
            _ if self.dice.chance(70) => json!({ "event": self.dice.pick(&EVENTS), "timeout": self.dice.between(0, 600) }),
            _ => json!({ "event": self.dice.pick(&EVENTS) }),
        }
    }
}
