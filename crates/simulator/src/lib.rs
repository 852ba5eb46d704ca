//! viat-simulator.
