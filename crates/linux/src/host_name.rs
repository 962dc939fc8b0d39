//! A host name that is set without a capability.

use std::io;
use std::os::fd::AsFd;

use rustix::pipe::PipeFlags;
use rustix::process::{DumpableBehavior, Signal};
use rustix::thread::{ThreadNameSpaceType, UnshareFlags};
use surmise_sys::process;
use surmise_sys::signals::SignalFd;

/// Puts the calling process into a UTS namespace in which its user sets the host name and the NIS domain name.
///
/// To set them takes `CAP_SYS_ADMIN` in the user namespace that the UTS namespace belongs to. Here that is a child
/// of the caller's, with nobody in it. Its owner, which is the caller's effective user in the caller's
/// user namespace, has every right in it, and needs no capability in the caller's.
///
/// The caller has no other children that may end meanwhile: a pending `SIGCHLD` is taken. And it may be traced
/// meanwhile, by any process that its credentials allow to.
///
/// # Errors
/// As `clone` and `setns`: `EPERM` without `CAP_SYS_ADMIN` in the caller's user namespace, or before that has numbers
/// for its user and group; `ENOSPC` where there may be no more user namespaces.
///
/// # Panics
/// When this process has several threads.
pub fn enter_own() -> io::Result<()> {
    let (stays, leaves) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    // To enter another process' namespaces is to trace it.
    let before = rustix::process::dumpable_behavior()?;
    rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable)?;
    // Namespaces are reached by a process that is in them.
    let namespaces = UnshareFlags::NEWUSER | UnshareFlags::NEWUTS;
    let inhabitant = process::clone(namespaces, &[stays.as_fd()], || {
        // Until the caller closes its end, or dies. This copy's was closed before.
        let _ = rustix::io::read(&stays, &mut [0; 1]);
        0
    })?;
    let host_name = ThreadNameSpaceType::HOST_NAME_AND_NIS_DOMAIN_NAME;
    let entered = rustix::thread::move_into_thread_name_spaces(inhabitant.as_fd(), host_name);
    drop(leaves);
    inhabitant.wait()?;
    rustix::process::set_dumpable_behavior(before)?;
    // Of its end. Where that is blocked it would wait for the program that this process becomes.
    SignalFd::new(&[Signal::CHILD])?.next()?;
    Ok(entered?)
}
