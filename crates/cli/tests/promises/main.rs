//! The promises of docs/semantics.md, kept by the built command on real programs.

mod boundary;
mod commit;
mod diff;
mod files;
mod programs;
mod setting;
mod undo;
