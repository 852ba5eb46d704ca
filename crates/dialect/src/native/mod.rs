//! The native workflow language: what was typed, what it means, what runs.
//!
//! `read` and `kinds` turn the YAML tree into what was typed, `scope` checks every name, `lower` makes the engine's definition.

mod arguments;
mod budget;
mod calls;
mod depth;
mod document;
mod entry;
mod fields;
mod inputs;
mod kinds;
mod lower;
mod names;
mod on_error;
mod reach;
mod reader;
mod reference;
mod retry;
mod scope;
mod template;
mod typed;

use viat_engine::ir::Definition;

use crate::catalogue::Catalogue;
use crate::diagnostic::{Diagnostic, Report, Source};
use crate::render::{Style, render};
use crate::yaml;

/// What became of a document.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// The definition, if nothing is an error.
    pub definition: Option<Definition>,
    /// Errors and warnings in the order of the text.
    pub diagnostics: Vec<Diagnostic>,
    /// The text that the diagnostics speak of.
    pub text: String,
}

impl Compiled {
    /// The diagnostics, drawn.
    pub fn rendered(&self, style: Style) -> String {
        render(&self.diagnostics, &self.text, style)
    }
}

/// Compiles a document that has no name yet; all its errors are reported at once.
pub fn compile(file: &str, bytes: &[u8], catalogue: &dyn Catalogue) -> Compiled {
    compile_named(file, bytes, None, catalogue)
}

/// Compiles a document that is to become the workflow `name`: then it is also refused if it would call itself.
pub fn compile_named(file: &str, bytes: &[u8], name: Option<&str>, catalogue: &dyn Catalogue) -> Compiled {
    let (text, bad_byte) = match std::str::from_utf8(bytes) {
        Ok(text) => (text, None),
        Err(error) => (std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or(""), Some(error.valid_up_to())),
    };
    let source = Source::new(file, text);
    let mut report = Report::new(&source);
    let definition = match bad_byte {
        Some(at) => {
            let here = source.span(at..at);
            report.error("not-text", here, format!("the file is not UTF-8: byte {} is not part of a character", at + 1)).help("save the file as UTF-8");
            None
        }
        None => definition(&mut report, name, catalogue),
    };
    Compiled { definition, diagnostics: report.finish(), text: text.to_owned() }
}

fn definition(report: &mut Report<'_>, name: Option<&str>, catalogue: &dyn Catalogue) -> Option<Definition> {
    let tree = yaml::load(report)?;
    let mut reader = reader::Reader::new(report, catalogue, name);
    let document = document::read(&mut reader, &tree)?;
    scope::check(report, &document);
    calls::check(report, name, catalogue, &document);
    budget::warn(report, &document);
    reach::warn(report, &document.steps);
    if report.has_errors() {
        return None;
    }
    match lower::lower(document) {
        Ok(definition) => Some(definition),
        Err(unlowered) => {
            report.error("internal", unlowered.span, format!("the entry `{}` could not be translated: this is a defect of the compiler", unlowered.id));
            None
        }
    }
}
