//! Sockets. They are made at once, and what has come is read as from a pipe; all else waits.

use surmise_syscalls::Syscall;

use super::Met;
use crate::kind::Kind;
use crate::meeting::{Act, Meeting, Wanted};

/// MSG_DONTWAIT, MSG_NOSIGNAL, MSG_CMSG_CLOEXEC of recv(2): what there is, they give as without.
const PLAIN: u32 = 0x40 | 0x4000 | 0x4000_0000;

pub(super) fn meet(met: &Met<'_>) -> Meeting {
    let [descriptor, address, length, flags, sender, _] = met.arguments;
    match met.name {
        // Nobody else has it. A rollback closes it.
        Syscall::Socket | Syscall::Socketpair => Meeting::Pass(Kind::Descriptor),
        // Of a stream, nobody is told who has sent it.
        Syscall::Recvfrom if flags as u32 & !PLAIN == 0 && sender == 0 => {
            Meeting::Act(Act::Take(Wanted {
                descriptor,
                room: vec![(address, length)],
            }))
        }
        _ => Meeting::Wait,
    }
}
