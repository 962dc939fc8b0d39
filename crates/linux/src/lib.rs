//! What Linux tells, and what it does, where no unsafe code is needed: on rustix, and on the wrappers of
//! `surmise-sys`.
//!
//! As `surmise-sys`, this crate knows mechanisms and no policy: which namespaces a domain gets and what an ability
//! is needed for is decided by its callers.
#![forbid(unsafe_code)]

pub mod abilities;
pub mod clock;
pub mod freeze;
pub mod host_name;
pub mod id_map;
pub mod limits;
pub mod mailbox;
pub mod network;
pub mod proc;
pub mod service;
pub mod users;
pub mod waiting;
