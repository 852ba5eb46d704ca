//! The acting half of viat: what the engine decides is carried out here.

pub mod assets;
pub mod clock;
pub mod driver;
pub mod logs;
pub mod resources;
pub mod script;
