//! Request templates, the text of `http` scripts: what may stand in one, and what it becomes with arguments.

mod filling;
mod hosts;
mod template;

pub use hosts::{Denied, Hosts};
pub use template::{Parameter, Problem, Template, ValueOf};

pub(crate) use hosts::parts;
pub(crate) use template::Filled;
