//! Workflows that call workflows: no one may come to call itself, and the calls may not go too deep.
//!
//! Workflows are told apart by name, whatever `version` a call asks for.

use std::collections::BTreeMap;

use super::typed::{Call, Document, Entry, Kind};
use crate::catalogue::Catalogue;
use crate::diagnostic::Report;

/// A run is at most this many workflows deep, the one that was started included: what the engine stops at.
pub const MOST_DEEP: usize = 16;
/// What a document without a name is called in a chain.
const UNNAMED: &str = "this document";

/// Refuses calls that would never end or go too deep.
pub fn check(report: &mut Report<'_>, name: Option<&str>, catalogue: &dyn Catalogue, document: &Document) {
    let mut calls = Vec::new();
    collect(&document.steps, &mut calls);
    let mut search = Search { own: name, catalogue, known: BTreeMap::new(), stack: vec![name.unwrap_or(UNNAMED).to_owned()] };
    let mut answers: BTreeMap<&str, Option<Trouble>> = BTreeMap::new();
    for call in calls {
        let trouble = answers.entry(&call.name).or_insert_with(|| search.visit(&call.name).err());
        match trouble {
            Some(Trouble::Endless(chain)) => {
                let whose = if chain.first().map(String::as_str) == name { "this workflow would call itself" } else { "this call would never end" };
                report
                    .error("endless-call", call.name_span, format!("{whose}: {}", chain.join(" → ")))
                    .help("no workflow may call itself, directly or through others");
            }
            Some(Trouble::Deep(chain)) => {
                report
                    .error(
                        "too-deep",
                        call.name_span,
                        format!("workflows may call each other at most {MOST_DEEP} deep, and this is deeper: {}", chain.join(" → ")),
                    )
                    .help("call some of them from here, one after the other");
            }
            None => {}
        }
    }
}

fn collect<'d>(entries: &'d [Entry], calls: &mut Vec<&'d Call>) {
    for entry in entries {
        if let Kind::Call(call) = &entry.kind {
            calls.push(call);
        }
        entry.kind.inner().into_iter().for_each(|inner| collect(inner, calls));
    }
}

#[derive(Clone)]
enum Trouble {
    /// From a workflow back to itself.
    Endless(Vec<String>),
    /// From the document to the first workflow that is too deep.
    Deep(Vec<String>),
}

/// A walk through the calls, depth first; nothing is looked at twice, nothing below the allowed depth.
struct Search<'c> {
    own: Option<&'c str>,
    catalogue: &'c dyn Catalogue,
    /// The longest chain that begins at a workflow.
    known: BTreeMap<String, Vec<String>>,
    /// From the document to the workflow that is looked at.
    stack: Vec<String>,
}

impl Search<'_> {
    fn visit(&mut self, workflow: &str) -> Result<Vec<String>, Trouble> {
        // A document without a name stands for no workflow, so none can come back to it.
        let from = usize::from(self.own.is_none());
        if let Some(at) = self.stack.iter().skip(from).position(|name| name == workflow) {
            return Err(Trouble::Endless(self.stack[at + from..].iter().cloned().chain([workflow.to_owned()]).collect()));
        }
        if let Some(chain) = self.known.get(workflow) {
            return match self.stack.len() + chain.len() > MOST_DEEP {
                true => Err(Trouble::Deep(self.stack.iter().chain(chain).cloned().collect())),
                false => Ok(chain.clone()),
            };
        }
        if self.stack.len() >= MOST_DEEP {
            return Err(Trouble::Deep(self.stack.iter().cloned().chain([workflow.to_owned()]).collect()));
        }
        self.stack.push(workflow.to_owned());
        let below = self.below(workflow);
        self.stack.pop();
        let chain: Vec<String> = std::iter::once(workflow.to_owned()).chain(below?).collect();
        self.known.insert(workflow.to_owned(), chain.clone());
        Ok(chain)
    }

    /// The longest chain of those that a workflow calls.
    fn below(&mut self, workflow: &str) -> Result<Vec<String>, Trouble> {
        let mut longest = Vec::new();
        for called in self.catalogue.calls_of(workflow) {
            let chain = self.visit(&called)?;
            if chain.len() > longest.len() {
                longest = chain;
            }
        }
        Ok(longest)
    }
}
