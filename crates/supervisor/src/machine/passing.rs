//! Calls that may hand what is open here to a process outside the domain, or take what is open there: messages of Unix sockets
//! may hold descriptors (SCM_RIGHTS of unix(7)).
//!
//! What a process outside has open, too, it reads and writes unheard, and nothing rolls it back. So when such a call is first heard,
//! before anybody attends to it, this is noted for good. From then on no act is done to a pipe, a FIFO or a connection before all
//! that its task depends on is decided, and nobody is given a copy of input. What was done before is decided before such a call
//! happens. A task that depends on something undecided itself makes none: its messages with descriptors wait.
//!
//! An open file may come to a process outside by several steps, or be in a message on its way to a socket that is sent itself. But
//! the first step out of the domain is such a call.

use std::io;

use rustix::fs::FileType;
use rustix::net::{AddressFamily, sockopt};
use rustix::process::Pid;
use surmise_syscalls::Syscall;

use super::task::Reached;
use super::{Learnt, Machine, message, task};
use crate::call::Call;

/// How many messages one call has at most (UIO_MAXIOV), and how far apart their headers are (`struct mmsghdr`).
const MESSAGES_MAX: u64 = 1024;
const HEADER_SIZE: u64 = 64;

/// Whether descriptors may go or come by a call.
fn passes(name: Syscall) -> bool {
    matches!(
        name,
        Syscall::Sendmsg | Syscall::Sendmmsg | Syscall::Recvmsg | Syscall::Recvmmsg
    )
}

impl Learnt {
    /// Looks at a call that is about to be attended to.
    pub(super) fn look_at_passing(
        &mut self,
        thread: Pid,
        name: Syscall,
        arguments: &[u64; 6],
    ) -> io::Result<()> {
        if !passes(name) || self.seen.shares_outside() || !self.may_meet_outside() {
            return Ok(());
        }
        if let Some(process) = task::process_of(thread)?
            && self.may_pass_outside(process, name, arguments)
        {
            self.seen.note_sharing_outside();
        }
        Ok(())
    }

    /// Whether there may be sockets of processes outside at all.
    fn may_meet_outside(&self) -> bool {
        let channels = self.channels.as_ref();
        !self.sockets_stay_inside || channels.is_none_or(|channels| channels.has_sockets())
    }

    /// Whether descriptors may go out of the domain by a call, or come from there. True in doubt.
    fn may_pass_outside(&self, process: Pid, name: Syscall, arguments: &[u64; 6]) -> bool {
        // Somebody else could put another socket in its place before the kernel looks.
        if self.seen.may_share_descriptors(process) {
            return true;
        }
        let stays_inside = |reached| self.stays_inside(&reached);
        let has_room = self.seen.may_share_memory(process)
            || has_room(process, name, arguments).unwrap_or(true);
        // Where there is nothing the call fails by itself.
        let reached = task::reached(process, arguments[0]);
        has_room && !reached.is_ok_and(|reached| reached.is_none_or(stays_inside))
    }

    /// Whether what is sent by a file is known to come to processes inside alone, and what comes by it to be theirs.
    fn stays_inside(&self, reached: &Reached) -> bool {
        let Reached { file, kind, stat } = reached;
        if *kind != FileType::Socket {
            return true;
        }
        // Sockets of other families pass no descriptors.
        if sockopt::socket_domain(file).is_ok_and(|family| family != AddressFamily::UNIX) {
            return true;
        }
        let (Some(stat), Some(channels)) = (stat, &self.channels) else {
            return false;
        };
        let inside = self
            .connections
            .stays_inside((file, stat), (&self.seen, channels));
        inside.unwrap_or(false)
    }
}

impl Machine {
    /// Whether descriptors may go out of the domain by a call, or come from there, which was noted when it was heard.
    pub(super) fn passes_outside(&self, call: &Call) -> bool {
        let learnt = self.learnt.as_ref();
        passes(call.name()) && learnt.is_some_and(|learnt| learnt.seen.shares_outside())
    }
}

/// Whether a call's messages have room for descriptors. Nobody else changes their headers meanwhile.
fn has_room(process: Pid, name: Syscall, arguments: &[u64; 6]) -> io::Result<bool> {
    let [_, first, number, ..] = *arguments;
    let number = match name {
        Syscall::Sendmmsg | Syscall::Recvmmsg => u64::from(number as u32).min(MESSAGES_MAX),
        _ => 1,
    };
    for index in 0..number {
        if message::has_control(process, first.wrapping_add(index * HEADER_SIZE))? {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::os::unix::net::{UnixDatagram, UnixStream};
    use std::ptr::from_ref;

    use surmise_linux::network::diagnostics;

    use super::*;
    use crate::machine::channels::Channels;
    use crate::machine::connections::Connections;
    use crate::machine::seen::Seen;

    /// A domain that is this process and its children, with a command that was given nothing.
    fn domain() -> Learnt {
        Learnt {
            channels: Some(Channels::default()),
            seen: Seen::below(rustix::process::getpid()),
            connections: Connections::new(Some(diagnostics().expect("a socket"))),
            ..Learnt::default()
        }
    }

    /// Whether a call of this process is noted as one that may pass descriptors outside.
    fn is_noted(mut learnt: Learnt, name: Syscall, arguments: [u64; 6]) -> bool {
        let own = rustix::process::getpid();
        let looked = learnt.look_at_passing(own, name, &arguments);
        looked.expect("look");
        let seen = &learnt.seen;
        let noted = seen.shares_outside();
        let is_odd = [seen.has_odd_pipes(), seen.has_odd_fifos()];
        assert_eq!(is_odd, [noted; 2]);
        assert_eq!(seen.has_odd_connections(), noted);
        assert_eq!(seen.passes_descriptors(), noted);
        noted
    }

    #[test]
    fn a_message_with_room_for_descriptors_by_a_socket_that_leads_out_is_noted() {
        let (socket, other) = UnixDatagram::pair().expect("a pair");
        let control = [0_u8; 64];
        let with = [0_u64, 0, 0, 0, from_ref(&control) as u64, 64, 0, 0];
        let without = [0_u64; 8];
        let number = socket.as_raw_fd() as u64;
        let noted = |name, header: &[u64], count| {
            let arguments = [number, header.as_ptr() as u64, count, 0, 0, 0];
            is_noted(domain(), name, arguments)
        };
        for name in [Syscall::Sendmsg, Syscall::Recvmsg] {
            assert!(noted(name, &with, 0) && !noted(name, &without, 0), "{name}");
        }
        let several = [without, with].concat();
        for name in [Syscall::Sendmmsg, Syscall::Recvmmsg] {
            assert!(noted(name, &several, 2), "{name}");
            assert!(!noted(name, &several, 1), "{name}: the first has none");
        }
        assert!(!noted(Syscall::Sendto, &with, 0), "it has no header");
        let nowhere = [number, 8, 0, 0, 0, 0];
        assert!(is_noted(domain(), Syscall::Sendmsg, nowhere), "in doubt");
        drop(other);
    }

    #[test]
    fn where_another_task_may_interfere_a_message_counts_as_one_with_descriptors() {
        let (socket, _other) = UnixDatagram::pair().expect("a pair");
        let (connected, _peer) = UnixStream::pair().expect("a pair");
        let header = [0_u64; 8];
        let message = |number: i32| [number as u64, header.as_ptr() as u64, 0, 0, 0, 0];
        let own = rustix::process::getpid();
        let flags = |flags| [flags, 0, 0, 0, 0, 0];
        let call = Syscall::Sendmsg;
        // CLONE_THREAD: the descriptor may lead elsewhere by then.
        let mut threaded = domain();
        let noted = threaded.seen.note(own, Syscall::Clone, &flags(0x1_0000));
        noted.expect("look");
        assert!(is_noted(threaded, call, message(connected.as_raw_fd())));
        // Memory in common: the header may be another by then.
        let sharing = || {
            let mut learnt = domain();
            learnt.seen.look_at(Syscall::Vfork, &[0; 6]);
            learnt
        };
        assert!(is_noted(sharing(), call, message(socket.as_raw_fd())));
        let (reader, _writer) = io::pipe().expect("a pipe");
        let tcp = std::net::TcpListener::bind("127.0.0.1:0").expect("listen");
        for number in [reader.as_raw_fd(), tcp.as_raw_fd(), 1 << 20] {
            assert!(!is_noted(sharing(), call, message(number)), "{number}");
        }
    }

    #[test]
    fn nothing_is_noted_where_no_socket_leads_out() {
        let (socket, _other) = UnixDatagram::pair().expect("a pair");
        let control = [0_u8; 64];
        let header = [0_u64, 0, 0, 0, from_ref(&control) as u64, 64, 0, 0];
        let number = socket.as_raw_fd() as u64;
        let arguments = [number, header.as_ptr() as u64, 0, 0, 0, 0];
        let mut learnt = domain();
        learnt.sockets_stay_inside = true;
        assert!(!is_noted(learnt, Syscall::Sendmsg, arguments));
        // This process has a socket, as a command may have one of its caller's.
        let mut learnt = domain();
        learnt.sockets_stay_inside = true;
        let channels = Channels::of(rustix::process::getpid());
        learnt.channels = Some(channels.expect("look"));
        assert!(is_noted(learnt, Syscall::Sendmsg, arguments));
    }
}
