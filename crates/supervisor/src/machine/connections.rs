//! Which connections are inside: both sockets of each are in processes of the domain.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd, RawFd};

use rustix::fs::{FileType, Stat};
use rustix::net::{AddressFamily, SocketType, sockopt};
use rustix::process::Pid;
use surmise_linux::network::peer;
use surmise_linux::proc::{self, Link};

use super::channels::Channels;
use super::connection::Connection;
use super::family::tells_by_signal;
use super::seen::Seen;
use super::task;
use crate::objects::input::Place;
use crate::objects::pipe::Queue;

/// How connections are looked for.
#[derive(Debug, Default)]
pub(super) struct Connections {
    /// Of the domain's network namespace.
    diagnostics: Option<OwnedFd>,
    /// By which descriptor of which process each socket was seen to be open last.
    witnesses: RefCell<HashMap<u64, (Pid, RawFd)>>,
}

/// A connection inside the domain, with one of its sockets.
#[derive(Debug)]
pub(super) struct Inside {
    pub(super) place: Place,
    /// What the socket reads.
    pub(super) reads: Queue,
    pub(super) connection: Connection,
    /// The places of both sockets.
    pub(super) sockets: [Place; 2],
}

impl Connections {
    pub(super) fn new(diagnostics: Option<OwnedFd>) -> Self {
        Self {
            diagnostics,
            witnesses: RefCell::default(),
        }
    }

    /// Where something is. Both sockets of a connection are at one place.
    pub(super) fn place(&self, file: &OwnedFd, stat: &Stat) -> io::Result<Place> {
        let own = Place::of(stat);
        if !is_stream(file, stat)? {
            return Ok(own);
        }
        Ok(match self.peer(own.1)? {
            Some(peer) => Place(own.0, own.1.min(peer)),
            None => own,
        })
    }

    /// The inode of the socket that the one with this inode is connected to.
    fn peer(&self, inode: u64) -> io::Result<Option<u64>> {
        match &self.diagnostics {
            Some(diagnostics) => peer(diagnostics.as_fd(), inode),
            None => Ok(None),
        }
    }

    /// The connection that a socket is of, if both sockets are inside, another process than `still` has the other one, and nothing
    /// but bytes can come by either. The processes `still` execute nothing: they hold images, or stand still at their exits.
    pub(super) fn of(
        &self,
        (file, stat): (OwnedFd, &Stat),
        (seen, channels): (&Seen, &Channels),
        still: &[Pid],
    ) -> io::Result<Option<Inside>> {
        if seen.has_odd_sockets() || seen.has_odd_connections() {
            return Ok(None);
        }
        let Some(sockets) = self.both((&file, stat), channels)? else {
            return Ok(None);
        };
        let [own, Place(_, peer)] = sockets;
        let Some(other) = self.find(sockets[1], seen, still)? else {
            return Ok(None);
        };
        // Nobody of the domain need have asked for that: a socket may have come from outside.
        if sockopt::socket_passcred(&file)? || sockopt::socket_passcred(&other)? {
            return Ok(None);
        }
        let (reads, both) = match own.1 < peer {
            true => (Queue::First, [file, other]),
            false => (Queue::Second, [other, file]),
        };
        Ok(Some(Inside {
            place: Place(own.0, own.1.min(peer)),
            reads,
            connection: Connection::new(both),
            sockets,
        }))
    }

    /// Both sockets of a connection, the one that is asked for first, if neither was the caller's.
    fn both(
        &self,
        (file, stat): (&OwnedFd, &Stat),
        channels: &Channels,
    ) -> io::Result<Option<[Place; 2]>> {
        if !is_stream(file, stat)? {
            return Ok(None);
        }
        let own = Place::of(stat);
        let Some(peer) = self.peer(own.1)? else {
            return Ok(None);
        };
        let sockets = [own, Place(own.0, peer)];
        // From one that is in another namespace the connection would seem to be elsewhere.
        let is_seen_from_both = self.peer(peer)? == Some(own.1);
        let is_from_outside = sockets.iter().any(|one| channels.is_from_outside(*one));
        Ok((is_seen_from_both && !is_from_outside).then_some(sockets))
    }

    /// Whether all that is sent by a socket is known to come to processes inside, and all that comes by it to be from there.
    ///
    /// One that nobody has accepted yet is in no process. A process outside has the other socket of a connection inside, too, only if
    /// it was sent that: then it is too late to ask.
    pub(super) fn stays_inside(
        &self,
        (file, stat): (&OwnedFd, &Stat),
        (seen, channels): (&Seen, &Channels),
    ) -> io::Result<bool> {
        match self.both((file, stat), channels)? {
            Some([_, other]) => Ok(self.find(other, seen, &[])?.is_some()),
            None => Ok(false),
        }
    }

    /// Whether the other socket of a connection is only open in processes that execute nothing. Its end is not told yet.
    pub(super) fn is_ending(
        &self,
        (file, stat): (&OwnedFd, &Stat),
        seen: &Seen,
        still: &[Pid],
    ) -> io::Result<bool> {
        if still.is_empty() || !is_stream(file, stat)? {
            return Ok(false);
        }
        let own = Place::of(stat);
        let Some(peer) = self.peer(own.1)? else {
            return Ok(false);
        };
        let mut is_kept = false;
        for &process in still {
            let listed = proc::each_link(process, |_, link| {
                is_kept |= link == Link::Socket(peer);
            });
            match listed {
                Err(error) if !task::is_out_of_reach(&error) => return Err(error),
                _ => {}
            }
        }
        Ok(is_kept && self.find(Place(own.0, peer), seen, still)?.is_none())
    }

    /// A socket, from a process that has it open and may execute something.
    fn find(&self, socket: Place, seen: &Seen, still: &[Pid]) -> io::Result<Option<OwnedFd>> {
        let mut witnesses = self.witnesses.borrow_mut();
        if let Some(&(process, number)) = witnesses.get(&socket.1)
            && !still.contains(&process)
            && let Some(file) = open_at(socket, process, number)?
        {
            return Ok(Some(file));
        }
        witnesses.remove(&socket.1);
        let mut processes = seen.bystanders().tasks()?;
        processes.dedup_by_key(|(process, _)| *process);
        // A vessel that was discarded may not have ended yet.
        processes.retain(|&(process, _)| {
            !still.contains(&process) && tells_by_signal(process).unwrap_or(false)
        });
        for (process, _) in processes {
            let mut found = None;
            let listed = proc::each_link(process, |number, link| {
                if link == Link::Socket(socket.1) {
                    found = Some(number);
                }
            });
            match listed {
                Err(error) if !task::is_out_of_reach(&error) => return Err(error),
                _ => {}
            }
            if let Some(number) = found
                && let Some(file) = open_at(socket, process, number)?
            {
                witnesses.insert(socket.1, (process, number));
                return Ok(Some(file));
            }
        }
        Ok(None)
    }
}

/// A socket, if it is what a descriptor of a process leads to.
fn open_at(socket: Place, process: Pid, number: RawFd) -> io::Result<Option<OwnedFd>> {
    // To look at the link first takes hold of nothing else.
    let is_there = Link::of(process, number).is_ok_and(|link| link == Link::Socket(socket.1));
    if !is_there {
        return Ok(None);
    }
    let found = match task::file(process, number.unsigned_abs().into()) {
        Err(error) if task::is_out_of_reach(&error) => None,
        found => found?,
    };
    let found = found.filter(|(_, stat)| Place::of(stat) == socket);
    Ok(found.map(|(file, _)| file))
}

/// Whether a file is a Unix socket of a stream.
fn is_stream(file: &OwnedFd, stat: &Stat) -> io::Result<bool> {
    Ok(FileType::from_raw_mode(stat.st_mode) == FileType::Socket
        && sockopt::socket_domain(file)? == AddressFamily::UNIX
        && sockopt::socket_type(file)? == SocketType::STREAM)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::process::{Child, Command, Stdio};
    use std::time::{Duration, Instant};

    use rustix::process::{Signal, kill_process};
    use surmise_linux::network::diagnostics;
    use surmise_syscalls::Syscall;

    use super::*;

    /// A shell that stands for pid 1. Its child has this open.
    fn shell_with(socket: UnixStream) -> Child {
        let mut command = Command::new("sh");
        command.args(["-c", "exec 3<&0; sleep 60 & wait"]);
        let command = command.stdin(Stdio::from(OwnedFd::from(socket)));
        command.spawn().expect("start sh")
    }

    fn child_of(shell: &Child) -> Pid {
        let shell = Pid::from_child(shell);
        let begun = Instant::now();
        loop {
            assert!(begun.elapsed() < Duration::from_secs(10), "no child");
            let children = task::children(shell, shell).expect("children");
            if let [child] = children[..]
                && proc::name(child).is_ok_and(|name| name == "sleep")
            {
                return child;
            }
        }
    }

    #[test]
    fn a_connection_is_inside_while_a_process_has_the_other_socket() {
        let (one, other) = UnixStream::pair().expect("a pair");
        let inode = |socket: &UnixStream| rustix::fs::fstat(socket).expect("stat").st_ino;
        let inodes = [inode(&one), inode(&other)];
        let mut shell = shell_with(other);
        let child = child_of(&shell);
        let connections = Connections::new(Some(diagnostics().expect("a socket")));
        let channels = Channels::default();
        let mut seen = Seen::below(Pid::from_child(&shell));
        let stat = rustix::fs::fstat(&one).expect("stat");
        let file = || OwnedFd::from(one.try_clone().expect("duplicate"));
        let of = |seen: &Seen, still: &[Pid]| {
            let found = connections.of((file(), &stat), (seen, &channels), still);
            found.expect("look")
        };
        let place = Place(stat.st_dev, inodes[0].min(inodes[1]));
        // The second time by the descriptor that it was seen at.
        for _ in 0..2 {
            let found = of(&seen, &[]).expect("it is inside");
            let is_first = inodes[0] < inodes[1];
            assert_eq!(found.place, place);
            assert_eq!(found.reads == Queue::First, is_first);
            assert_eq!(found.sockets.map(|place| place.1), inodes);
        }
        let stays_inside = |seen: &Seen| {
            let asked = connections.stays_inside((&file(), &stat), (seen, &channels));
            asked.expect("look")
        };
        assert!(stays_inside(&seen));
        assert_eq!(connections.place(&file(), &stat).expect("look"), place);
        assert!(of(&seen, &[child]).is_none(), "it executes nothing");
        assert!(of(&Seen::below(child), &[]).is_none(), "it is not inside");
        assert!(!stays_inside(&Seen::below(child)));
        let is_ending = |still: &[Pid]| {
            let asked = connections.is_ending((&file(), &stat), &seen, still);
            asked.expect("look")
        };
        assert!(is_ending(&[child]) && !is_ending(&[]));
        let own = rustix::process::getpid();
        assert!(!is_ending(&[own]), "another one has it");
        sockopt::set_socket_passcred(&one, true).expect("set");
        assert!(of(&seen, &[]).is_none(), "it tells of senders");
        sockopt::set_socket_passcred(&one, false).expect("set");
        assert!(of(&seen, &[]).is_some());
        // F_SETFL with O_ASYNC; FIOASYNC.
        for (name, arguments) in [
            (Syscall::Fcntl, [3, 4, 0o20_000, 0, 0, 0]),
            (Syscall::Ioctl, [3, 0x5452, 1, 0, 0, 0]),
        ] {
            let mut seen = Seen::below(Pid::from_child(&shell));
            seen.look_at(name, &arguments);
            assert!(of(&seen, &[]).is_none(), "a signal tells of bytes");
            assert!(seen.has_odd_pipes());
        }
        // SOL_SOCKET and SO_PASSCRED.
        seen.look_at(Syscall::Setsockopt, &[3, 1, 16, 0, 0, 0]);
        assert!(of(&seen, &[]).is_none(), "who sends may be told");
        kill_process(child, Signal::KILL).expect("kill");
        shell.wait().expect("wait");
        let seen = Seen::default();
        assert!(of(&seen, &[]).is_none(), "nobody has it");
        assert_eq!(
            connections.place(&file(), &stat).expect("look"),
            Place::of(&stat)
        );
    }

    #[test]
    fn other_files_and_sockets_are_no_connections() {
        let connections = Connections::new(Some(diagnostics().expect("a socket")));
        let (datagrams, _other) = std::os::unix::net::UnixDatagram::pair().expect("a pair");
        let (reader, _writer) = rustix::pipe::pipe().expect("a pipe");
        for file in [OwnedFd::from(datagrams), reader] {
            let stat = rustix::fs::fstat(&file).expect("stat");
            let place = connections.place(&file, &stat).expect("look");
            assert_eq!(place, Place::of(&stat));
            let known = (&Seen::default(), &Channels::default());
            let stays_inside = connections.stays_inside((&file, &stat), known);
            assert!(!stays_inside.expect("look"));
            let found = connections.of((file, &stat), known, &[]);
            assert!(found.expect("look").is_none());
        }
    }
}
