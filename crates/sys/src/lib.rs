//! The only unsafe code: what Surmise asks of Linux that no safe library offers.
//!
//! This crate knows mechanisms and no policy: which namespaces a domain gets and which signals
//! it forwards is decided by its callers. What takes no unsafe code is in `surmise-linux`. Whatever rustix
//! offers safely is called directly by whoever needs it.
#![deny(unsafe_op_in_unsafe_fn)]

pub mod behaviours;
pub mod descriptors;
pub mod extended;
pub mod fanotify;
pub mod fuse_device;
pub mod landlock;
pub mod memory;
pub mod mounts;
pub mod network;
pub mod pagemap;
pub mod passthrough;
pub mod process;
pub mod ptrace;
pub mod scheduling;
pub mod seccomp;
pub mod shared;
pub mod signals;
pub mod sockets;
pub mod vdso;
