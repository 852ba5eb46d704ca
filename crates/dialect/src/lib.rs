//! viat-dialect.
