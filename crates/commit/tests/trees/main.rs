//! Commits of views of real trees.

mod choices;
mod flags;
mod full;
mod harness;
mod histories;
mod kills;
mod large;
mod power;
mod reads;
mod refusals;
mod running;
mod scenarios;
mod undo;
