//! What holds of every journal, however often the engine died: rules that are read off it without the engine's help.

mod done;
mod interrupted;
mod projections;

use std::sync::Arc;

use viat_engine::Program;
use viat_engine::ir::Node;
use viat_engine::journal::Event;
use viat_engine::path::Path;

use crate::world::World;

/// Checks everything.
///
/// # Errors
/// What does not hold.
pub fn check(world: &World<'_>) -> Result<(), String> {
    done::check(&world.journal)?;
    interrupted::check(&world.journal, &mut Versions::of(world))?;
    let loaded = world.loaded()?;
    if loaded != world.run {
        return Err("the run that the journal tells of is not the run in memory".to_owned());
    }
    projections::check(world)
}

/// What the run executes at a point of its journal: another version once it was migrated.
pub struct Versions {
    now: Arc<Program>,
    next: Option<Arc<Program>>,
}

impl Versions {
    /// At the beginning.
    pub fn of(world: &World<'_>) -> Versions {
        let (now, next) = world.versions();
        Versions { now, next }
    }

    /// Goes on past an event.
    pub fn pass(&mut self, event: &Event) {
        if let (Event::Migrated { .. }, Some(next)) = (event, &self.next) {
            self.now = Arc::clone(next);
        }
    }

    /// The entry that a path belongs to.
    ///
    /// # Errors
    /// There is none.
    pub fn node(&self, path: &Path) -> Result<&Node, String> {
        node(&self.now, path.entry().last()).ok_or_else(|| format!("{path} is no entry"))
    }
}

/// The entry of this id; ids are unique within a document, and cases use no id twice.
pub fn node<'a>(program: &'a Program, id: &str) -> Option<&'a Node> {
    let definitions = std::iter::once(&program.main).chain(program.called.values());
    definitions.flat_map(|definition| &definition.regions).flat_map(|region| &region.nodes).find(|node| node.id == id)
}

/// Whether a path lies inside the entry at `outer`.
pub fn is_inside(path: &str, outer: &str) -> bool {
    path.strip_prefix(outer).is_some_and(|rest| outer.is_empty() || rest.starts_with(['.', '[']))
}
