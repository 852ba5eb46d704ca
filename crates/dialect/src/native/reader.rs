//! What is carried along while a document is read: the report, the names that exist, the ids seen so far.

use std::collections::BTreeMap;

use crate::catalogue::Catalogue;
use crate::diagnostic::{Report, Span};

/// A document may have at most this many entries.
pub const MOST_ENTRIES: usize = 1_000;
/// Lists of entries may be nested at most this deep.
pub const MOST_NESTED: usize = 32;

/// The state of reading one document.
pub struct Reader<'r, 's> {
    pub report: &'r mut Report<'s>,
    pub catalogue: &'r dyn Catalogue,
    pub scripts: Vec<String>,
    pub workflows: Vec<String>,
    /// Every id with its place.
    pub ids: BTreeMap<String, Span>,
    /// How many entries were read.
    pub entries: usize,
    /// How many lists of entries are open.
    pub nested: usize,
    /// The `catch` key of the recovery branch that is being read.
    pub catch: Option<Span>,
    /// What makes the entries that are being read run side by side with others, if anything does.
    pub side_by_side: Option<SideBySide>,
    /// The name under which the document is being created.
    pub own: Option<&'r str>,
    /// The variables of the loops that are being read, outermost first.
    pub variables: Vec<String>,
    /// Every loop variable with its place, to keep ids apart from them.
    pub all_variables: BTreeMap<String, Span>,
}

/// A `parallel`, or a loop with `concurrency`.
#[derive(Clone, Copy, Debug)]
pub struct SideBySide {
    pub what: &'static str,
    pub span: Span,
}

impl<'r, 's> Reader<'r, 's> {
    /// Nothing read yet.
    pub fn new(report: &'r mut Report<'s>, catalogue: &'r dyn Catalogue, own: Option<&'r str>) -> Reader<'r, 's> {
        Reader {
            report,
            scripts: catalogue.script_names(),
            workflows: catalogue.workflow_names(),
            catalogue,
            ids: BTreeMap::new(),
            entries: 0,
            nested: 0,
            catch: None,
            side_by_side: None,
            own,
            variables: Vec::new(),
            all_variables: BTreeMap::new(),
        }
    }
}
