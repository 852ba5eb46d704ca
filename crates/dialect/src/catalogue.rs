//! What the compiler knows of the other assets: their names, to check what a document names.

use viat_engine::ir::InputDeclaration;

use crate::signature::Signature;

/// The assets that exist where a document is created.
pub trait Catalogue {
    /// The names of all scripts.
    fn script_names(&self) -> Vec<String>;
    /// The names of all workflows.
    fn workflow_names(&self) -> Vec<String>;
    /// What an asset that is neither script nor workflow is, such as `prompt resource`; `None` if there is none of that name.
    fn other_kind(&self, _name: &str) -> Option<String> {
        None
    }
    /// The names of the workflows that a workflow calls, as its version that would be used now does; empty if it is not known.
    fn calls_of(&self, _workflow: &str) -> Vec<String> {
        Vec::new()
    }
    /// The inputs that a workflow declares, in the version that would be used now; `None` if they are not known.
    fn inputs_of(&self, _workflow: &str) -> Option<Vec<InputDeclaration>> {
        None
    }
    /// What a script takes, in its newest version; `None` if only running it could tell.
    fn signature_of(&self, _script: &str) -> Option<Signature> {
        None
    }
}

/// A catalogue that is two lists.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// The names of all scripts.
    pub scripts: Vec<String>,
    /// The names of all workflows.
    pub workflows: Vec<String>,
}

impl Catalogue for Names {
    fn script_names(&self) -> Vec<String> {
        self.scripts.clone()
    }

    fn workflow_names(&self) -> Vec<String> {
        self.workflows.clone()
    }
}
