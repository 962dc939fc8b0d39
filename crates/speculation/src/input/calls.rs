//! Calls by which input is taken, or looked at.

/// What of the caller's a call may take input from, or look for input at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    Nothing,
    /// What this descriptor leads to.
    Descriptor(u64),
    Anything,
}

/// What a call may take input from, so that it is gone for others.
pub(super) fn taking(name: &str, arguments: &[u64; 6]) -> Reach {
    match name {
        "read" | "readv" | "preadv2" | "recvfrom" | "recvmsg" | "recvmmsg" | "splice"
        | "vmsplice" => Reach::Descriptor(arguments[0]),
        "sendfile" => Reach::Descriptor(arguments[1]),
        // What it is to do stands in memory.
        "io_submit" => Reach::Anything,
        _ => Reach::Nothing,
    }
}

/// What a call may tell of, be it only that something is there.
pub(super) fn looking(name: &str, arguments: &[u64; 6]) -> Reach {
    match name {
        // An end of a connection that is shut down, or connected anew, may lose what it has.
        "tee" | "ioctl" | "getsockopt" | "shutdown" | "connect" => Reach::Descriptor(arguments[0]),
        "poll" | "ppoll" | "select" | "pselect6" | "epoll_wait" | "epoll_pwait"
        | "epoll_pwait2" => Reach::Anything,
        _ => taking(name, arguments),
    }
}

/// Whether a call's result may be input that is not yet taken.
pub(super) fn may_be_given(name: &str) -> bool {
    matches!(name, "read" | "readv" | "recvfrom")
}

#[cfg(test)]
mod tests {
    use surmise_syscalls::{Disposition, Kind, row_named};

    use super::*;

    /// Those that are allowed would take or tell without a word to anybody.
    #[test]
    fn every_call_by_which_input_goes_is_heard_of() {
        let names = [
            "read",
            "readv",
            "preadv2",
            "recvfrom",
            "recvmsg",
            "recvmmsg",
            "splice",
            "vmsplice",
            "sendfile",
            "io_submit",
            "tee",
            "ioctl",
            "getsockopt",
            "shutdown",
            "connect",
            "poll",
            "ppoll",
            "select",
            "pselect6",
            "epoll_wait",
            "epoll_pwait",
            "epoll_pwait2",
        ];
        for name in names {
            let row = row_named(name).unwrap_or_else(|| panic!("no row named {name}"));
            let arguments = [3, 0x541b, 0, 0, 0, 0];
            assert_ne!(looking(name, &arguments), Reach::Nothing, "{name}");
            let disposition = row.disposition_with(Kind::Prediction, &arguments);
            assert_ne!(disposition, Disposition::Allow, "{name}");
        }
        assert_eq!(looking("write", &[3; 6]), Reach::Nothing);
    }
}
