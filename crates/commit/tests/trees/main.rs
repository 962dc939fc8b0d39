//! Commits and patches of views of real trees.

mod harness;
mod histories;
mod large;
mod patches;
mod refusals;
mod running;
mod scenarios;
