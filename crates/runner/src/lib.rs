//! The acting half of viat: what the engine decides is carried out here.

pub mod script;
