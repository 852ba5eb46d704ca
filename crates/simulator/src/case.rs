//! The case file: a title and sections, each opened by a line `=== NAME`.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use viat_dialect::{Languages, Names, Style, check_inputs, compile, render};
use viat_engine::expression::Evaluate;
use viat_engine::{Definition, Program, Wanted};

use crate::setup::{Scripts, Setup};
use crate::story::{Outcome, Story};
use crate::world::World;

/// One behaviour: a workflow (and those it calls), a story and the trace it must leave.
pub struct Case {
    /// The first line: what the case shows.
    pub title: String,
    /// What runs.
    pub program: Arc<Program>,
    /// What it can be migrated to.
    pub next: Option<Arc<Program>>,
    /// What the run is given.
    pub inputs: serde_json::Map<String, Value>,
    /// What the world does.
    pub story: Story,
    /// What must come of it.
    pub trace: String,
}

/// The sections of a case file, in order: name and text.
pub fn sections(text: &str) -> (String, Vec<(String, String)>) {
    let mut title = String::new();
    let mut sections: Vec<(String, String)> = Vec::new();
    for line in text.lines() {
        match (line.strip_prefix("=== "), sections.last_mut()) {
            (Some(name), _) => sections.push((name.trim().to_owned(), String::new())),
            (None, Some((_, body))) => {
                body.push_str(line);
                body.push('\n');
            }
            (None, None) => title.push_str(line.trim()),
        }
    }
    (title, sections)
}

impl Case {
    /// Reads a case.
    ///
    /// # Errors
    /// What is wrong with the file, for whoever wrote it.
    pub fn parse(text: &str) -> Result<Case, String> {
        let (title, sections) = sections(text);
        if title.is_empty() {
            return Err("the first line must say what the case shows".to_owned());
        }
        let names: Vec<String> = sections.iter().filter_map(|(name, _)| name.strip_prefix("workflow ").map(str::to_owned)).collect();
        let mut main = None;
        let mut next = None;
        let mut called = BTreeMap::new();
        let mut story = String::new();
        let mut trace = None;
        for (name, body) in &sections {
            match name.split_once(' ').unwrap_or((name, "")) {
                ("workflow", "") => main = Some(lower("workflow.yaml", body, &names)?),
                ("workflow", other) => {
                    called.insert(other.to_owned(), Arc::new(lower(other, body, &names)?));
                }
                ("version", "2") => next = Some(lower("version-2.yaml", body, &names)?),
                ("story", "") => story.clone_from(body),
                ("trace", "") => trace = Some(body.clone()),
                _ => return Err(format!("there is no section {name:?}; there are workflow, workflow NAME, version 2, story and trace")),
            }
        }
        let main: Definition = main.ok_or("the section `workflow` is missing")?;
        let story = Story::parse(&story)?;
        let inputs = check_inputs(&main, &story.inputs).map_err(|problems| format!("inputs: {problems:?}"))?;
        let next = next.map(|main| Arc::new(Program { main: Arc::new(main), called: called.clone() }));
        let program = Arc::new(Program { main: Arc::new(main), called });
        Ok(Case { title, program, next, inputs, story, trace: trace.ok_or("the section `trace` is missing")? })
    }

    /// The case's world, before anything happens in it.
    pub fn world<'a>(&'a self, evaluator: &'a dyn Evaluate) -> World<'a> {
        World::new(Setup {
            program: Arc::clone(&self.program),
            next: self.next.clone(),
            inputs: self.inputs.clone(),
            timeout_ms: self.story.timeout_ms,
            active_budget_ms: self.story.active_budget_ms,
            shows_keys: self.story.shows_keys,
            deeds: self.story.deeds.clone(),
            scripts: &self.story,
            evaluator,
        })
    }

    /// The evaluator of every case.
    pub fn languages() -> Languages {
        Languages::default()
    }
}

impl Scripts for Story {
    fn outcome(&self, wanted: &Wanted) -> Result<Outcome, String> {
        Story::outcome(self, &wanted.script, wanted.attempt).cloned()
    }
}

fn lower(file: &str, text: &str, workflows: &[String]) -> Result<Definition, String> {
    let names = Names { scripts: named_scripts(text), workflows: workflows.to_vec() };
    let compiled = compile(file, text.as_bytes(), &names);
    compiled.definition.ok_or_else(|| render(&compiled.diagnostics, &compiled.text, Style::Plain))
}

/// Every script that a text names exists: the story says what each does.
fn named_scripts(text: &str) -> Vec<String> {
    let after = text.split("script:").skip(1);
    after.map(|rest| rest.trim_start().chars().take_while(|each| each.is_alphanumeric() || *each == '_').collect()).collect()
}
