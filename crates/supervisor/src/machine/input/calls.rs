//! Calls by which input is taken, or looked at.

use surmise_syscalls::Syscall;

/// What of the caller's a call may take input from, or look for input at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    Nothing,
    /// What this descriptor leads to.
    Descriptor(u64),
    Anything,
}

/// What a call may take input from, so that it is gone for others.
pub(crate) fn taking(name: Syscall, arguments: &[u64; 6]) -> Reach {
    match name {
        Syscall::Read
        | Syscall::Readv
        | Syscall::Preadv2
        | Syscall::Recvfrom
        | Syscall::Recvmsg
        | Syscall::Recvmmsg
        | Syscall::Splice
        | Syscall::Vmsplice => Reach::Descriptor(arguments[0]),
        Syscall::Sendfile => Reach::Descriptor(arguments[1]),
        // What it is to do stands in memory.
        Syscall::IoSubmit => Reach::Anything,
        _ => Reach::Nothing,
    }
}

/// What a call may tell of, be it only that something is there.
pub(crate) fn looking(name: Syscall, arguments: &[u64; 6]) -> Reach {
    match name {
        // An end of a connection that is shut down, or connected anew, may lose what it has.
        Syscall::Tee
        | Syscall::Ioctl
        | Syscall::Getsockopt
        | Syscall::Shutdown
        | Syscall::Connect => Reach::Descriptor(arguments[0]),
        Syscall::Poll
        | Syscall::Ppoll
        | Syscall::Select
        | Syscall::Pselect6
        | Syscall::EpollWait
        | Syscall::EpollPwait
        | Syscall::EpollPwait2 => Reach::Anything,
        _ => taking(name, arguments),
    }
}

/// What a call may touch if that is a pipe or a socket, be it to write there, or to have it tell more or less.
pub(crate) fn touching(name: Syscall, arguments: &[u64; 6]) -> Reach {
    /// F_SETPIPE_SZ and F_GETPIPE_SZ of fcntl(2). A pipe that a write has no room in is made larger.
    const SIZES: [u32; 2] = [1031, 1032];
    match name {
        Syscall::Fcntl if SIZES.contains(&(arguments[1] as u32)) => Reach::Descriptor(arguments[0]),
        Syscall::Write
        | Syscall::Writev
        | Syscall::Pwritev2
        | Syscall::Sendto
        | Syscall::Sendmsg
        | Syscall::Sendmmsg
        | Syscall::Setsockopt => Reach::Descriptor(arguments[0]),
        // By either of two descriptors.
        Syscall::Splice | Syscall::Tee | Syscall::Sendfile => Reach::Anything,
        _ => looking(name, arguments),
    }
}

/// Whether a call's result may be input that is not yet taken.
pub(crate) fn may_be_given(name: Syscall) -> bool {
    matches!(name, Syscall::Read | Syscall::Readv | Syscall::Recvfrom)
}

#[cfg(test)]
mod tests {
    use surmise_syscalls::{Disposition, Kind, row_of};

    use super::*;

    /// Those that are allowed would take or tell without a word to anybody.
    #[test]
    fn every_call_by_which_input_goes_is_heard_of() {
        let names = [
            Syscall::Read,
            Syscall::Readv,
            Syscall::Preadv2,
            Syscall::Recvfrom,
            Syscall::Recvmsg,
            Syscall::Recvmmsg,
            Syscall::Splice,
            Syscall::Vmsplice,
            Syscall::Sendfile,
            Syscall::IoSubmit,
            Syscall::Tee,
            Syscall::Ioctl,
            Syscall::Getsockopt,
            Syscall::Shutdown,
            Syscall::Connect,
            Syscall::Poll,
            Syscall::Ppoll,
            Syscall::Select,
            Syscall::Pselect6,
            Syscall::EpollWait,
            Syscall::EpollPwait,
            Syscall::EpollPwait2,
        ];
        for name in names {
            let row = row_of(name);
            let arguments = [3, 0x541b, 0, 0, 0, 0];
            assert_ne!(looking(name, &arguments), Reach::Nothing, "{name}");
            assert_ne!(touching(name, &arguments), Reach::Nothing, "{name}");
            let disposition = row.disposition_with(Kind::Prediction, &arguments);
            assert_ne!(disposition, Disposition::Allow, "{name}");
        }
        assert_eq!(looking(Syscall::Write, &[3; 6]), Reach::Nothing);
        let names = [
            Syscall::Write,
            Syscall::Writev,
            Syscall::Pwritev2,
            Syscall::Sendto,
            Syscall::Sendmsg,
            Syscall::Sendmmsg,
            Syscall::Setsockopt,
        ];
        for name in names {
            assert_eq!(touching(name, &[3; 6]), Reach::Descriptor(3), "{name}");
            let disposition = row_of(name).disposition_with(Kind::Prediction, &[3; 6]);
            assert_ne!(disposition, Disposition::Allow, "{name}");
        }
        // F_SETPIPE_SZ, F_GETPIPE_SZ; F_GETFL.
        let sizes = |command| [3, command, 4096, 0, 0, 0];
        for command in [1031, 1032] {
            let arguments = sizes(command);
            assert_eq!(touching(Syscall::Fcntl, &arguments), Reach::Descriptor(3));
            let disposition = row_of(Syscall::Fcntl).disposition_with(Kind::Prediction, &arguments);
            assert_ne!(disposition, Disposition::Allow, "{command}");
        }
        assert_eq!(touching(Syscall::Fcntl, &sizes(3)), Reach::Nothing);
    }
}
