//! Sockets. They are made at once, and what has come is read as from a pipe. To a socket that may be connected inside bytes are
//! written as to a pipe. All else waits.

use std::io;

use surmise_syscalls::Syscall;

use super::{Met, data};
use crate::kind::Kind;
use crate::machine::message::{self, DONT_WAIT, Message, PLAIN};
use crate::meeting::{Act, Meeting, Wanted};

/// MSG_CMSG_CLOEXEC of recv(2), which the header would tell of.
const CLOSES: u32 = 0x4000_0000;

pub(super) fn meet(met: &Met<'_>) -> Meeting {
    let [descriptor, address, length, flags, name, _] = met.arguments;
    let is_plain = |flags: u64| flags as u32 & !PLAIN == 0;
    match met.name {
        // Nobody else has it. A rollback closes it.
        Syscall::Socket | Syscall::Socketpair => Meeting::Pass(Kind::Descriptor),
        // Of a stream, nobody is told who has sent it.
        Syscall::Recvfrom if is_plain(flags) && name == 0 => Meeting::Act(Act::Take(Wanted {
            descriptor,
            room: vec![(address, length)],
            header: None,
            waits: flags as u32 & DONT_WAIT == 0,
        })),
        Syscall::Sendto if is_plain(flags) && name == 0 => {
            data::sending(descriptor, vec![(address, length)])
        }
        // What it has besides the header is at these places.
        Syscall::Recvmsg if is_plain(length) => receiving(met).unwrap_or(Meeting::Wait),
        Syscall::Sendmsg if is_plain(length) => match message_of(met) {
            Ok(Some(message)) if !message.has_control => data::sending(descriptor, message.pieces),
            _ => Meeting::Wait,
        },
        _ => Meeting::Wait,
    }
}

fn receiving(met: &Met<'_>) -> io::Result<Meeting> {
    let [descriptor, header, flags, ..] = met.arguments;
    Ok(match message_of(met)? {
        Some(message) if flags as u32 & CLOSES == 0 => Meeting::Act(Act::Take(Wanted {
            descriptor,
            room: message.pieces,
            header: Some(header),
            waits: flags as u32 & DONT_WAIT == 0,
        })),
        _ => Meeting::Wait,
    })
}

/// What a call's message is made of, unless it has an address.
fn message_of(met: &Met<'_>) -> io::Result<Option<Message>> {
    let message = message::read(met.process, met.arguments[1])?;
    Ok(message.filter(|message| !message.has_name))
}
