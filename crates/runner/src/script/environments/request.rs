//! What scripts ask to be installed, and the key under which scripts that ask for the same share it.

use serde::{Deserialize, Serialize};

use crate::script::config::Language;
use crate::script::settings::Metadata;

/// What scripts ask to be installed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// `python` or `javascript`.
    language: String,
    /// What to install, sorted: as PEP 508 says it, or `name@range` for npm.
    dependencies: Vec<String>,
    /// Which Python.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    requires_python: Option<String>,
}

impl Request {
    /// What a script asks for; `None` if it does with what is there.
    pub fn of(language: Language, metadata: &Metadata) -> Option<Request> {
        if metadata.dependencies.is_empty() && metadata.requires_python.is_none() {
            return None;
        }
        let mut dependencies: Vec<String> = metadata.dependencies.iter().map(|each| each.trim().to_owned()).collect();
        dependencies.sort();
        dependencies.dedup();
        Some(Request { language: language.name().to_owned(), dependencies, requires_python: metadata.requires_python.clone() })
    }

    /// A module of npm that viat itself needs, as `name@range`.
    pub fn of_module(module: &str) -> Request {
        Request { language: Language::JavaScript.name().to_owned(), dependencies: vec![module.to_owned()], requires_python: None }
    }

    /// Its name: the same wherever the same is asked for.
    pub fn key(&self) -> String {
        let text = serde_json::json!([self.language, self.dependencies, self.requires_python]).to_string();
        blake3::hash(text.as_bytes()).to_hex()[..16].to_owned()
    }

    /// The language it is for.
    pub fn language(&self) -> Language {
        Language::of(&self.language).unwrap_or(Language::Python)
    }

    /// What to install.
    pub fn dependencies(&self) -> &[String] {
        &self.dependencies
    }

    /// Which Python.
    pub fn requires_python(&self) -> Option<&str> {
        self.requires_python.as_deref()
    }
}
