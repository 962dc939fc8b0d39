//! Large files, of whose data an object holds only what the domain changed.

mod kills;
mod model;
mod outside;
mod running;
mod world;
