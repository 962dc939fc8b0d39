//! Calls that touch nothing of the view, neither when they begin nor while they sleep.

use rustix::fs::FileType;
use rustix::process::Pid;

use crate::task;

/// Whatever their arguments.
const ALWAYS: &[&str] = &[
    "accept",
    "accept4",
    "clock_nanosleep",
    "clone",
    "epoll_create",
    "epoll_create1",
    "epoll_ctl",
    "epoll_pwait",
    "epoll_pwait2",
    "epoll_wait",
    "eventfd",
    "eventfd2",
    "fork",
    "futex",
    "futex_wait",
    "futex_waitv",
    "getpeername",
    "getpgid",
    "getsockname",
    "getsockopt",
    "kill",
    "listen",
    "nanosleep",
    "pause",
    "pipe",
    "pipe2",
    "poll",
    "ppoll",
    "pselect6",
    "recvfrom",
    "recvmmsg",
    "recvmsg",
    "restart_syscall",
    "rt_sigaction",
    "rt_sigpending",
    "rt_sigsuspend",
    "rt_sigtimedwait",
    "select",
    "setpgid",
    "shutdown",
    "socket",
    "socketpair",
    "tgkill",
    "tkill",
    "umask",
    "vfork",
    "wait4",
    "waitid",
];

/// If their descriptor leads to no file that the view serves.
const BY_DESCRIPTOR: &[&str] = &["read", "readv", "write", "writev"];

/// Whether a call, with this first argument, touches nothing of the view. False in doubt.
pub(crate) fn is_apart(process: Pid, name: &str, first: u64) -> bool {
    if BY_DESCRIPTOR.contains(&name) {
        // The data of a FIFO are the kernel's, wherever its name is.
        let found = task::file_type(process, first).unwrap_or(None);
        return matches!(
            found,
            Some(FileType::Fifo | FileType::Socket | FileType::CharacterDevice)
        );
    }
    ALWAYS.contains(&name)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use surmise_syscalls::row_named;

    use super::*;

    #[test]
    fn every_name_is_a_call() {
        for name in ALWAYS.iter().chain(BY_DESCRIPTOR) {
            assert!(row_named(name).is_some(), "{name}");
        }
    }

    #[test]
    fn a_pipe_is_apart_and_a_file_is_not() {
        let own = rustix::process::getpid();
        let (reader, _writer) = rustix::pipe::pipe().expect("a pipe");
        let file = std::fs::File::open("/proc/self/exe").expect("this program");
        assert!(is_apart(own, "read", reader.as_raw_fd() as u64));
        assert!(!is_apart(own, "read", file.as_raw_fd() as u64));
        assert!(!is_apart(own, "read", 1 << 20), "no descriptor");
        assert!(!is_apart(own, "openat", 0) && is_apart(own, "wait4", 0));
    }
}
