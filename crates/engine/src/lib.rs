//! viat-engine.
