//! Calls that touch nothing of the view, neither when they begin nor while they sleep.

use rustix::fs::FileType;
use rustix::process::Pid;

use surmise_syscalls::Syscall;

use crate::machine::task;

/// Whatever their arguments.
const ALWAYS: &[Syscall] = &[
    Syscall::Accept,
    Syscall::Accept4,
    Syscall::ClockNanosleep,
    Syscall::Clone,
    Syscall::EpollCreate,
    Syscall::EpollCreate1,
    Syscall::EpollCtl,
    Syscall::EpollPwait,
    Syscall::EpollPwait2,
    Syscall::EpollWait,
    Syscall::Eventfd,
    Syscall::Eventfd2,
    Syscall::Fork,
    Syscall::Futex,
    Syscall::FutexWait,
    Syscall::FutexWaitv,
    Syscall::Getpeername,
    Syscall::Getpgid,
    Syscall::Getsockname,
    Syscall::Getsockopt,
    Syscall::Kill,
    Syscall::Listen,
    Syscall::Nanosleep,
    Syscall::Pause,
    Syscall::Pipe,
    Syscall::Pipe2,
    Syscall::Poll,
    Syscall::Ppoll,
    Syscall::Pselect6,
    Syscall::Recvfrom,
    Syscall::Recvmmsg,
    Syscall::Recvmsg,
    Syscall::RestartSyscall,
    Syscall::RtSigaction,
    Syscall::RtSigpending,
    Syscall::RtSigsuspend,
    Syscall::RtSigtimedwait,
    Syscall::Select,
    Syscall::Setpgid,
    Syscall::Shutdown,
    Syscall::Socket,
    Syscall::Socketpair,
    Syscall::Tgkill,
    Syscall::Tkill,
    Syscall::Umask,
    Syscall::Vfork,
    Syscall::Wait4,
    Syscall::Waitid,
];

/// If their descriptor leads to no file that the view serves.
const BY_DESCRIPTOR: &[Syscall] = &[
    Syscall::Read,
    Syscall::Readv,
    Syscall::Write,
    Syscall::Writev,
];

/// Those of which nobody asks whether they are over.
const AT_ONCE: &[Syscall] = &[
    Syscall::Alarm,
    Syscall::ArchPrctl,
    Syscall::Capset,
    Syscall::Exit,
    Syscall::ExitGroup,
    Syscall::Fcntl,
    Syscall::Flock,
    Syscall::Getcwd,
    Syscall::InotifyInit,
    Syscall::InotifyInit1,
    Syscall::MemfdCreate,
    Syscall::Mprotect,
    Syscall::PidfdOpen,
    Syscall::PidfdSendSignal,
    Syscall::Prctl,
    Syscall::Prlimit64,
    Syscall::RtSigqueueinfo,
    Syscall::RtTgsigqueueinfo,
    Syscall::SchedSetaffinity,
    Syscall::SchedSetparam,
    Syscall::SchedSetscheduler,
    Syscall::SetTidAddress,
    Syscall::Setgid,
    Syscall::Setgroups,
    Syscall::Setitimer,
    Syscall::Setpriority,
    Syscall::Setregid,
    Syscall::Setresgid,
    Syscall::Setresuid,
    Syscall::Setreuid,
    Syscall::Setrlimit,
    Syscall::Setsid,
    Syscall::Setuid,
    Syscall::Sigaltstack,
    Syscall::Signalfd,
    Syscall::Signalfd4,
    Syscall::TimerCreate,
    Syscall::TimerDelete,
    Syscall::TimerSettime,
    Syscall::TimerfdCreate,
    Syscall::TimerfdSettime,
];

/// Whether a call touches nothing of the view, whatever its arguments. The name of the working directory counts as nothing: no
/// undecided change moves a directory, or removes one in which a process works.
pub(crate) fn touches_nothing(name: Syscall) -> bool {
    ALWAYS.contains(&name) || AT_ONCE.contains(&name)
}

/// Whether a call, with this first argument, touches nothing of the view. False in doubt.
pub(crate) fn is_apart(process: Pid, name: Syscall, first: u64) -> bool {
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

    use super::*;

    #[test]
    fn a_pipe_is_apart_and_a_file_is_not() {
        let own = rustix::process::getpid();
        let (reader, _writer) = rustix::pipe::pipe().expect("a pipe");
        let file = std::fs::File::open("/proc/self/exe").expect("this program");
        assert!(is_apart(own, Syscall::Read, reader.as_raw_fd() as u64));
        assert!(!is_apart(own, Syscall::Read, file.as_raw_fd() as u64));
        assert!(!is_apart(own, Syscall::Read, 1 << 20), "no descriptor");
        assert!(!is_apart(own, Syscall::Openat, 0) && is_apart(own, Syscall::Wait4, 0));
    }
}
