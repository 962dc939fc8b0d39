//! Pipes and streams that tasks read from, and the calls by which they do.

pub(super) mod calls;
pub(super) mod readers;
pub(super) mod source;
