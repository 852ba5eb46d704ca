//! Static scope: every name that a template uses is checked when the workflow is created.

mod decision;
mod explain;
mod places;
mod undo;

use std::collections::BTreeMap;

use places::{Container, Place};

use super::typed::{Document, Entry, Filled, Kind, Loop, OnError, Parallel, Script, Source, Undo, Wait};
use crate::diagnostic::{Report, Span};

/// What a visible name is.
#[derive(Clone, Copy, Debug)]
pub enum Visible {
    /// An entry that has run for certain.
    Entry { span: Span, has: Has },
    /// The entry whose recovery branch this is: it has an error and no output.
    Failed { span: Span },
    /// A loop's variable.
    Variable,
}

/// Which keys an entry has after it ran.
#[derive(Clone, Copy, Debug, Default)]
pub struct Has {
    /// `output`; a `parallel` has none.
    pub output: bool,
    /// `_error`, of a script with `on_error: continue`.
    pub error: bool,
    /// `_errors`, of a loop.
    pub errors: bool,
    /// Whether it is a script at all, for the help.
    pub script: bool,
    /// Whether it has a recovery branch, for the help.
    pub caught: bool,
    /// Whether nothing is known because the entry itself is wrong.
    pub anything: bool,
}

/// The state of the walk.
pub struct Checker<'r, 's, 'd> {
    report: &'r mut Report<'s>,
    inputs: Vec<&'d str>,
    places: BTreeMap<&'d str, Place<'d>>,
    variables: BTreeMap<&'d str, &'d str>,
    visible: BTreeMap<&'d str, Visible>,
    /// The entries that are under way, outermost first; the last one's own templates are being checked.
    running: Vec<&'d str>,
    /// The lists of entries around, outermost first.
    containers: Vec<Container<'d>>,
    catches: usize,
    loops: usize,
}

/// Checks every name of a document.
pub fn check(report: &mut Report<'_>, document: &Document) {
    let mut checker = Checker {
        report,
        inputs: document.inputs.iter().map(|input| input.name.as_str()).collect(),
        places: BTreeMap::new(),
        variables: BTreeMap::new(),
        visible: BTreeMap::new(),
        running: Vec::new(),
        containers: Vec::new(),
        catches: 0,
        loops: 0,
    };
    places::collect(&document.steps, &mut Vec::new(), &mut checker.places, &mut checker.variables);
    checker.entries(&document.steps);
    checker.filled(&document.outputs);
}

impl<'d> Checker<'_, '_, 'd> {
    /// Checks a list in its order; the names that it made visible are given back.
    fn entries(&mut self, entries: &'d [Entry]) -> Vec<&'d str> {
        let mut made = Vec::new();
        for entry in entries {
            self.running.push(&entry.id);
            let inner = self.entry(entry);
            self.running.pop();
            made.extend(inner);
            self.visible.insert(&entry.id, Visible::Entry { span: entry.id_span, has: has(&entry.kind) });
            made.push(&entry.id);
        }
        made
    }

    /// Checks a list whose names are local to it.
    fn local(&mut self, container: Container<'d>, entries: &'d [Entry]) -> Vec<&'d str> {
        self.containers.push(container);
        let made = self.entries(entries);
        self.containers.pop();
        for name in &made {
            self.visible.remove(name);
        }
        made
    }

    /// Checks an entry; the names inside it that stay visible after it are given back.
    fn entry(&mut self, entry: &'d Entry) -> Vec<&'d str> {
        let owner = entry.id.as_str();
        match &entry.kind {
            Kind::Script(script) => self.script(entry, script),
            Kind::Set(filled) | Kind::Return(filled) => self.filled(filled),
            Kind::Call(call) => self.filled(&call.args),
            Kind::Wait(Wait::For(filled, _) | Wait::Until(filled) | Wait::Event { name: filled, .. }) => self.filled(filled),
            Kind::Fail(fail) => [&fail.code, &fail.message].into_iter().chain(&fail.extra).for_each(|filled| self.filled(filled)),
            Kind::Review(asked) => std::iter::once(&asked.title).chain(&asked.show).chain(&asked.assignees).for_each(|filled| self.filled(filled)),
            Kind::Compensate(targets) => targets.iter().for_each(|target| self.target(target)),
            Kind::If(choice) => {
                self.filled(&choice.condition);
                self.local(Container { owner, branch: "then", name: "" }, &choice.then);
                if let Some(entries) = &choice.otherwise {
                    self.local(Container { owner, branch: "else", name: "" }, entries);
                }
            }
            Kind::Loop(each) => self.each(owner, each),
            Kind::Parallel(parallel) => return self.parallel(owner, parallel),
            Kind::Broken => {}
        }
        Vec::new()
    }

    fn each(&mut self, owner: &'d str, each: &'d Loop) {
        if let Source::Over { list, .. } = &each.source {
            self.filled(list);
        }
        self.loops += 1;
        match &each.source {
            Source::Over { variable, .. } => {
                let shadowed = self.visible.insert(variable, Visible::Variable);
                self.local(Container { owner, branch: "steps", name: "" }, &each.steps);
                match shadowed {
                    Some(before) => self.visible.insert(variable, before),
                    None => self.visible.remove(variable.as_str()),
                };
            }
            Source::While(condition) => {
                self.filled(condition);
                self.local(Container { owner, branch: "steps", name: "" }, &each.steps);
            }
        }
        self.loops -= 1;
    }

    /// Siblings do not see each other; after the parallel all of their entries are visible: they are given back.
    fn parallel(&mut self, owner: &'d str, parallel: &'d Parallel) -> Vec<&'d str> {
        let mut made = Vec::new();
        for branch in &parallel.branches {
            self.containers.push(Container { owner, branch: "branches", name: &branch.name });
            let names = self.entries(&branch.steps);
            self.containers.pop();
            made.extend(names.into_iter().filter_map(|name| self.visible.remove(name).map(|visible| (name, visible))));
        }
        self.visible.extend(made.iter().copied());
        made.into_iter().map(|(name, _)| name).collect()
    }

    fn script(&mut self, entry: &'d Entry, script: &'d Script) {
        self.filled(&script.args);
        let resolve = script.resolve.as_ref().map(|helper| &helper.args);
        script.idempotency_key.iter().chain(resolve).for_each(|filled| self.filled(filled));
        let owner = entry.id.as_str();
        if let OnError::Catch(entries) = &script.on_error {
            self.catches += 1;
            self.visible.insert(owner, Visible::Failed { span: entry.id_span });
            self.local(Container { owner, branch: "catch", name: "" }, entries);
            self.visible.remove(owner);
            self.catches -= 1;
        }
        if let Some(Undo::Script(helper)) = &script.compensate {
            self.visible.insert(owner, Visible::Entry { span: entry.id_span, has: has(&entry.kind) });
            self.filled(&helper.args);
            self.visible.remove(owner);
        }
    }

    fn filled(&mut self, filled: &Filled) {
        for found in &filled.uses {
            self.found(found);
        }
        for compared in &filled.compared {
            self.decision(compared);
        }
    }
}

fn has(kind: &Kind) -> Has {
    let value = Has { output: true, ..Has::default() };
    match kind {
        Kind::Script(script) => {
            Has { error: matches!(script.on_error, OnError::Continue), caught: matches!(script.on_error, OnError::Catch(_)), script: true, ..value }
        }
        Kind::Parallel(_) => Has::default(),
        Kind::Loop(_) => Has { errors: true, ..value },
        Kind::Broken => Has { anything: true, ..value },
        Kind::If(_) | Kind::Set(_) | Kind::Call(_) | Kind::Wait(_) | Kind::Fail(_) | Kind::Return(_) | Kind::Review(_) | Kind::Compensate(_) => value,
    }
}
