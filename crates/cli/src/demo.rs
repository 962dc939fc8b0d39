//! What the demonstration needs: a C project to build, and trees to compare.

mod project;
mod tree;

pub use project::PROJECT;
pub use tree::Tree;
