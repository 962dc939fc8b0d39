//! Helpers for tests: scratch trees, snapshots of trees, the built command.
#![forbid(unsafe_code)]
