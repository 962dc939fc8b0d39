//! The processes of a domain that are Surmise's own. Each is one file; none does another's work.

pub(crate) mod committer;
pub(crate) mod control;
pub(crate) mod init;
pub(crate) mod relay;
pub(crate) mod supervisor;
pub(crate) mod view;
