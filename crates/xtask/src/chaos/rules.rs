//! What the authors of the workflows allowed: read from the workflows, so that no list here has to be kept in step with them.

use std::collections::BTreeMap;
use std::path::Path;

use viat_dialect::{Names, Style, compile};
use viat_engine::ir::{Compensate, Node, Op};

use super::Cannot;
use crate::shell::Done;

/// Of one script entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Nothing allows a second effect under one key: no `retry` and no `idempotent`, or a `resolve` that looks first.
    pub once: bool,
    /// Whether it has a `resolve`.
    pub resolves: bool,
    /// How its effect is undone.
    pub undo: Undo,
}

/// How an effect is undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undo {
    /// Nobody said.
    Nothing,
    /// By a script, which may be repeated after a crash, or not.
    Script {
        /// It has `retry` or `idempotent`.
        repeats: bool,
    },
    /// Not at all.
    Irreversible,
}

/// The rules of all script entries, by id.
#[derive(Clone, Debug, Default)]
pub struct Rules(BTreeMap<String, Rule>);

impl Rules {
    /// Reads all workflows in a folder.
    ///
    /// # Errors
    /// One does not compile.
    pub fn read(project: &Path) -> Done<Rules> {
        let mut rules = Rules::default();
        let stems = |folder: &str| -> Done<Vec<String>> {
            let names = std::fs::read_dir(project.join(folder))?.flatten().map(|entry| entry.path());
            Ok(names.filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned())).collect())
        };
        let names = Names { scripts: stems("scripts")?, workflows: stems("workflows")? };
        for name in &names.workflows {
            let file = format!("{name}.yaml");
            let compiled = compile(&file, &std::fs::read(project.join("workflows").join(&file))?, &names);
            let drawn = compiled.rendered(Style::Plain);
            let definition = compiled.definition.ok_or(drawn)?;
            for node in definition.regions.iter().flat_map(|region| &region.nodes) {
                rules.note(node)?;
            }
        }
        Ok(rules)
    }

    fn note(&mut self, node: &Node) -> Done {
        let Op::Script(script) = &node.op else { return Ok(()) };
        let policy = &node.policy;
        let undo = match policy.compensate.as_deref() {
            None => Undo::Nothing,
            Some(Compensate::Irreversible(_)) => Undo::Irreversible,
            Some(Compensate::Script { retry, idempotent, .. }) => Undo::Script { repeats: *idempotent || !retry.is_empty() },
        };
        let resolves = policy.resolve.is_some();
        let once = resolves || (policy.retry.is_empty() && !script.idempotent);
        match self.0.insert(node.id.clone(), Rule { once, resolves, undo }) {
            None => Ok(()),
            Some(_) => Err(Cannot(format!("two workflows have an entry {}", node.id)).into()),
        }
    }

    /// Of the entry at a path.
    pub fn of(&self, path: &str) -> Option<&Rule> {
        self.0.get(path.rsplit('.').next()?)
    }
}
