//! From what was typed and checked to the engine's definition.

use viat_engine::ir::{
    Arm, Branch, Call, Choice, Compensate, Definition, Fail, IR_VERSION, Loop, Node, Op, Parallel, Policy, Region, RegionId, Resolve, Review, Script, Source,
    Wait,
};
use viat_engine::policies::recover::{RecoverRule, Recovery};
use viat_engine::policies::retry::Matcher;
use viat_engine::policies::timeout::{Scope, Timeout};

use super::typed::{self, Document, Entry, Kind, OnError, Undo};
use crate::diagnostic::Span;

/// An entry that has no meaning although nothing was reported: a defect of the compiler, never dropped silently.
#[derive(Debug)]
pub struct Unlowered {
    pub id: String,
    pub span: Span,
}

/// Lowers a document in which nothing is wrong.
///
/// # Errors
/// An entry that cannot be lowered.
pub fn lower(document: Document) -> Result<Definition, Unlowered> {
    let mut regions = Regions(Vec::new());
    let root = regions.add(document.steps)?;
    Ok(Definition {
        ir: IR_VERSION,
        dialect: "native".to_owned(),
        description: document.description,
        inputs: document.inputs,
        outputs: document.outputs.template,
        timeout_ms: document.timeout.map(|budget| budget.ms),
        compensation: document.compensation,
        compensation_timeout_ms: document.compensation_timeout.map(|budget| budget.ms),
        regions: regions.0,
        root,
    })
}

struct Regions(Vec<Region>);

impl Regions {
    /// A list of entries as a chain of nodes; regions are numbered in the order in which they begin.
    fn add(&mut self, entries: Vec<Entry>) -> Result<RegionId, Unlowered> {
        let id = self.0.len();
        self.0.push(Region::default());
        let count = entries.len();
        let mut nodes = Vec::with_capacity(count);
        for (at, entry) in entries.into_iter().enumerate() {
            let next = (at + 1 < count).then_some(at + 1);
            nodes.push(self.node(entry, next)?);
        }
        self.0[id].nodes = nodes;
        Ok(id)
    }

    fn node(&mut self, entry: Entry, next: Option<usize>) -> Result<Node, Unlowered> {
        let mut policy = Policy::default();
        let op = match entry.kind {
            Kind::Script(script) => {
                let (op, own) = self.script(*script)?;
                policy = own;
                op
            }
            Kind::If(choice) => {
                let arms = vec![Arm { when: choice.condition.template, body: self.add(choice.then)? }];
                let otherwise = choice.otherwise.map(|entries| self.add(entries)).transpose()?;
                Op::Choice(Choice { arms, otherwise })
            }
            Kind::Set(filled) => Op::Set(filled.template),
            Kind::Parallel(parallel) => self.parallel(parallel)?,
            Kind::Loop(each) => self.each(*each)?,
            Kind::Call(call) => Op::Call(Call { workflow: call.name, version: call.version, args: call.args.template }),
            Kind::Wait(wait) => Op::Wait(match wait {
                typed::Wait::For(duration, _) => Wait::For(duration.template),
                typed::Wait::Until(time) => Wait::Until(time.template),
                typed::Wait::Event { name, timeout } => Wait::Event { name: name.template, timeout_ms: timeout.map(|budget| budget.ms) },
            }),
            Kind::Fail(fail) => Op::Fail(Fail {
                status: fail.status,
                code: fail.code.template,
                message: fail.message.template,
                extra: fail.extra.map(|filled| filled.template),
            }),
            Kind::Return(filled) => Op::Return(filled.template),
            Kind::Review(asked) => Op::Review(Box::new(review(*asked))),
            Kind::Compensate(targets) => Op::Compensate(targets.into_iter().map(|target| target.id).collect()),
            // It was reported, so nothing should have been lowered.
            Kind::Broken => return Err(Unlowered { id: entry.id, span: entry.id_span }),
        };
        Ok(Node { id: entry.id, op, next, policy })
    }

    fn parallel(&mut self, parallel: typed::Parallel) -> Result<Op, Unlowered> {
        let branches = parallel.branches.into_iter().map(|branch| Ok(Branch { name: branch.name, body: self.add(branch.steps)? })).collect::<Result<_, _>>()?;
        Ok(Op::Parallel(Parallel { branches, on_failure: parallel.on_failure, concurrency: parallel.concurrency }))
    }

    fn each(&mut self, each: typed::Loop) -> Result<Op, Unlowered> {
        let source = match each.source {
            typed::Source::Over { list, variable } => Source::Over { list: list.template, name: variable },
            typed::Source::While(condition) => Source::While(condition.template),
        };
        let body = self.add(each.steps)?;
        Ok(Op::Loop(Loop { source, concurrency: each.concurrency, max_iterations: each.max_iterations, max_failures: each.max_failures, body }))
    }

    fn script(&mut self, script: typed::Script) -> Result<(Op, Policy), Unlowered> {
        let recovery = match script.on_error {
            OnError::Fail => None,
            OnError::Continue => Some(Recovery::Continue),
            OnError::Catch(entries) => Some(Recovery::Catch(self.add(entries)?)),
        };
        let policy = Policy {
            resolve: script.resolve.map(|helper| Box::new(resolve(helper))),
            compensate: script.compensate.map(|undo| Box::new(compensate(undo))),
            retry: script.retry.map(|retry| retry.rule).into_iter().collect(),
            recover: recovery.map(|then| RecoverRule { matches: Matcher::Any, then }).into_iter().collect(),
            timeout: script.timeout.map(|budget| Timeout { ms: budget.ms, scope: Scope::Attempt }),
        };
        let lowered = Script {
            name: script.name,
            args: script.args.template,
            idempotent: script.idempotent,
            idempotency_key: script.idempotency_key.map(|key| key.template),
        };
        Ok((Op::Script(lowered), policy))
    }
}

fn review(asked: typed::Review) -> Review {
    Review {
        title: asked.title.template,
        show: asked.show.map(|filled| filled.template),
        form: asked.form,
        assignees: asked.assignees.map(|filled| filled.template),
        timeout_ms: asked.timeout.map(|budget| budget.ms),
        remind_ms: asked.remind.into_iter().map(|reminder| reminder.ms).collect(),
    }
}

fn resolve(helper: typed::Helper) -> Resolve {
    let retry = helper.retry.map(|retry| retry.rule).into_iter().collect();
    Resolve { script: helper.name, args: helper.args.template, retry, timeout_ms: helper.timeout.map(|budget| budget.ms) }
}

fn compensate(undo: Undo) -> Compensate {
    match undo {
        Undo::Irreversible(reason) => Compensate::Irreversible(reason),
        Undo::Script(helper) => Compensate::Script {
            script: helper.name,
            args: helper.args.template,
            retry: helper.retry.map(|retry| retry.rule).into_iter().collect(),
            timeout_ms: helper.timeout.map(|budget| budget.ms),
            idempotent: helper.idempotent,
        },
    }
}
