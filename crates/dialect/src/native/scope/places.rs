//! Where every entry of a document stands, to say why a name is not visible.

use std::collections::BTreeMap;

use super::super::typed::{Entry, Kind, OnError, Source};
use crate::diagnostic::Span;

/// A list of entries inside another entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Container<'d> {
    /// The entry that it belongs to.
    pub owner: &'d str,
    /// The key that it stands under.
    pub branch: &'static str,
    /// A parallel branch's name.
    pub name: &'d str,
}

impl Container<'_> {
    /// What it is, for messages.
    pub fn shown(&self) -> String {
        match self.branch {
            "branches" => format!("the branch `{}` of `{}`", self.name, self.owner),
            "steps" => format!("the loop `{}`", self.owner),
            "catch" => format!("the `catch` branch of `{}`", self.owner),
            branch => format!("the `{branch}` branch of `{}`", self.owner),
        }
    }
}

/// Where an entry stands.
#[derive(Clone, Debug)]
pub struct Place<'d> {
    pub span: Span,
    /// What stands there.
    pub kind: &'d Kind,
    /// The lists around it, outermost first.
    pub containers: Vec<Container<'d>>,
}

/// Finds every entry and every loop variable with its loop.
pub fn collect<'d>(
    entries: &'d [Entry],
    around: &mut Vec<Container<'d>>,
    places: &mut BTreeMap<&'d str, Place<'d>>,
    variables: &mut BTreeMap<&'d str, &'d str>,
) {
    for entry in entries {
        let owner = entry.id.as_str();
        places.entry(owner).or_insert_with(|| Place { span: entry.id_span, kind: &entry.kind, containers: around.clone() });
        let mut inside = |branch: &'static str, name: &'d str, entries: &'d [Entry], variables: &mut BTreeMap<&'d str, &'d str>| {
            around.push(Container { owner, branch, name });
            collect(entries, around, places, variables);
            around.pop();
        };
        match &entry.kind {
            Kind::If(choice) => {
                inside("then", "", &choice.then, variables);
                inside("else", "", choice.otherwise.as_deref().unwrap_or(&[]), variables);
            }
            Kind::Parallel(parallel) => parallel.branches.iter().for_each(|branch| inside("branches", &branch.name, &branch.steps, variables)),
            Kind::Loop(each) => {
                if let Source::Over { variable, .. } = &each.source {
                    variables.entry(variable).or_insert(owner);
                }
                inside("steps", "", &each.steps, variables);
            }
            Kind::Script(script) => {
                if let OnError::Catch(entries) = &script.on_error {
                    inside("catch", "", entries, variables);
                }
            }
            Kind::Set(_) | Kind::Call(_) | Kind::Wait(_) | Kind::Fail(_) | Kind::Return(_) => {}
            Kind::Review(_) | Kind::Compensate(_) | Kind::Broken => {}
        }
    }
}
