//! viat-store.
