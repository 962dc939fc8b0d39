//! How many descriptors this process may have open.
//!
//! The soft limit guards programs that use select(2), which none of Surmise's does. So Surmise raises its
//! own to the hard limit, and gives a command the one that its caller has.

use std::io;
use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit};

/// What this process was started with, once it has raised it.
static OF_CALLER: OnceLock<Rlimit> = OnceLock::new();

/// Raises this process' soft limit to its hard one, and returns it. Where that fails, it stays.
pub fn raise_descriptors() -> u64 {
    let before = *OF_CALLER.get_or_init(|| rustix::process::getrlimit(Resource::Nofile));
    let raised = Rlimit {
        current: before.maximum,
        maximum: before.maximum,
    };
    let reached = match rustix::process::setrlimit(Resource::Nofile, raised) {
        Ok(()) => before.maximum,
        Err(_) => before.current,
    };
    reached.unwrap_or(u64::MAX)
}

/// Gives this process, a copy of one that has raised its limit, what that one was started with.
///
/// # Errors
/// As `setrlimit`.
pub fn give_back_descriptors() -> io::Result<()> {
    match OF_CALLER.get() {
        Some(before) => Ok(rustix::process::setrlimit(Resource::Nofile, *before)?),
        None => Ok(()),
    }
}
