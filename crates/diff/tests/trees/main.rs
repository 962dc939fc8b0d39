//! What is shown of the changes of real trees.

mod notes;
mod patches;
