//! From what was typed and checked to the engine's definition.

use viat_engine::ir::{Arm, Choice, Definition, IR_VERSION, Node, Op, Policy, Region, RegionId, Script};
use viat_engine::policies::recover::{RecoverRule, Recovery};
use viat_engine::policies::retry::Matcher;
use viat_engine::policies::timeout::{Scope, Timeout};

use super::typed::{self, Document, Entry, Kind, OnError};

/// Lowers a document in which nothing is wrong.
pub fn lower(document: Document) -> Definition {
    let mut regions = Regions(Vec::new());
    let root = regions.add(document.steps);
    Definition {
        ir: IR_VERSION,
        dialect: "native".to_owned(),
        description: document.description,
        inputs: document.inputs,
        outputs: document.outputs.template,
        timeout_ms: document.timeout.map(|budget| budget.ms),
        regions: regions.0,
        root,
    }
}

struct Regions(Vec<Region>);

impl Regions {
    /// A list of entries as a chain of nodes; regions are numbered in the order in which they begin.
    fn add(&mut self, entries: Vec<Entry>) -> RegionId {
        let id = self.0.len();
        self.0.push(Region::default());
        let count = entries.len();
        let mut nodes = Vec::with_capacity(count);
        for (at, entry) in entries.into_iter().enumerate() {
            let next = (at + 1 < count).then_some(at + 1);
            nodes.extend(self.node(entry, next));
        }
        self.0[id].nodes = nodes;
        id
    }

    fn node(&mut self, entry: Entry, next: Option<usize>) -> Option<Node> {
        let (op, policy) = match entry.kind {
            Kind::Script(script) => self.script(*script),
            Kind::If(choice) => {
                let arms = vec![Arm { when: choice.condition.template, body: self.add(choice.then) }];
                let otherwise = choice.otherwise.map(|entries| self.add(entries));
                (Op::Choice(Choice { arms, otherwise }), Policy::default())
            }
            Kind::Set(filled) => (Op::Set(filled.template), Policy::default()),
            // These were reported as not available, so nothing is lowered.
            Kind::Parallel(_) | Kind::Loop(_) | Kind::Leaf(_) | Kind::Broken => return None,
        };
        Some(Node { id: entry.id, op, next, policy })
    }

    fn script(&mut self, script: typed::Script) -> (Op, Policy) {
        let recovery = match script.on_error {
            OnError::Fail => None,
            OnError::Continue => Some(Recovery::Continue),
            OnError::Catch(entries) => Some(Recovery::Catch(self.add(entries))),
        };
        let policy = Policy {
            retry: script.retry.map(|retry| retry.rule).into_iter().collect(),
            recover: recovery.map(|then| RecoverRule { matches: Matcher::Any, then }).into_iter().collect(),
            timeout: script.timeout.map(|budget| Timeout { ms: budget.ms, scope: Scope::Attempt }),
        };
        (Op::Script(Script { name: script.name, args: script.args.template, idempotent: script.idempotent }), policy)
    }
}
