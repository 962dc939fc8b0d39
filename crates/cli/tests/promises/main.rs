//! The promises of docs/semantics.md, kept by the built command on real programs.

mod boundary;
mod boundary_table;
mod coherence;
mod commit;
mod corners;
mod damage;
mod diff;
mod differences;
mod files;
mod json;
mod large;
mod native;
mod network;
mod output;
mod posix;
mod power;
mod programs;
mod reads;
mod refused;
mod setting;
mod speculation;
mod synchrony;
mod torture;
mod trouble;
mod undo;
mod volume;
