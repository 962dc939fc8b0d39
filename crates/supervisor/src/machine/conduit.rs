//! Pipes, FIFOs and connections inside the domain, as the core sees them.

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{FileType, OFlags};
use rustix::process::Pid;
use surmise_sys::memory;
use surmise_syscalls::Syscall;

use super::connection::Connection;
use super::fifo::{self, Fifo};
use super::input::calls;
use super::pipe::Pipe;
use super::task::Reached;
use super::{Learnt, Machine, pass, plain_place, readiness, task, unless_out_of_reach};
use crate::call::Call;
use crate::objects::input::{Look, Place};
use crate::objects::pipe::{Queue, Taken};
use crate::world::{Found, Piping};

/// A pipe, a FIFO, or a connection of two sockets, with the places of its ends.
#[derive(Debug)]
pub(crate) enum Conduit {
    Pipe(Pipe, Place),
    Fifo(Fifo),
    Connection(Connection, [Place; 2]),
}

impl Conduit {
    fn places(&self) -> Vec<Place> {
        match self {
            Self::Pipe(_, place) => vec![*place],
            Self::Fifo(fifo) => vec![fifo::place(fifo.inode)],
            Self::Connection(_, places) => places.to_vec(),
        }
    }
}

impl Learnt {
    /// The queue of bytes that a descriptor of a process leads to.
    fn queue(
        &mut self,
        process: Pid,
        (descriptor, is_write): (u64, bool),
        still: &[Pid],
    ) -> io::Result<Option<Found<Conduit>>> {
        let Some(reached) = task::reached(process, descriptor)? else {
            return Ok(None);
        };
        if let Some(inode) = fifo::inode(&reached, &self.seen)? {
            // Whatever stands in the way of a look, the call itself will meet it.
            return unless_out_of_reach(self.fifo(inode, &reached, is_write, still), None);
        }
        let Reached { file, stat, .. } = reached;
        let (Some(channels), Some(stat)) = (&self.channels, stat) else {
            return Ok(None);
        };
        let waits = !rustix::fs::fcntl_getfl(&file)?.contains(OFlags::NONBLOCK);
        if FileType::from_raw_mode(stat.st_mode) == FileType::Socket {
            let known = (&self.seen, channels);
            let inside = self.connections.of((file, &stat), known, still);
            // Whatever stands in the way of a look, the call itself will meet it.
            return Ok(inside.unwrap_or(None).map(|inside| Found {
                place: inside.place,
                queue: match is_write {
                    true => inside.reads.opposite(),
                    false => inside.reads,
                },
                pipe: Conduit::Connection(inside.connection, inside.sockets),
                waits,
                may_be_input: true,
            }));
        }
        let place = Place::of(&stat);
        if self.seen.has_odd_pipes() || channels.is_from_outside(place) {
            return Ok(None);
        }
        let pipe = Pipe::of(&file, &stat, is_write)?;
        Ok(pipe.map(|pipe| Found {
            place,
            queue: Queue::First,
            pipe: Conduit::Pipe(pipe, place),
            waits,
            may_be_input: false,
        }))
    }
}

impl Piping<Conduit> for Machine {
    fn pipe(
        &mut self,
        process: Pid,
        descriptor: u64,
        is_write: bool,
        still: &[Pid],
    ) -> io::Result<Option<Found<Conduit>>> {
        match &mut self.learnt {
            Some(learnt) => learnt.queue(process, (descriptor, is_write), still),
            None => Ok(None),
        }
    }

    fn clear(&mut self, pipe: &Conduit, but: Pid, waiting: &[Pid]) -> io::Result<bool> {
        let Some(learnt) = &mut self.learnt else {
            return Ok(false);
        };
        let mut users = learnt.readers.users(&pipe.places(), but);
        // Their calls have not happened, and are attended to anew before they do.
        users.retain(|user| !waiting.contains(&user.thread));
        if users.iter().any(|user| !user.can_pass) {
            return Ok(false);
        }
        let threads: Vec<_> = users.into_iter().map(|user| user.thread).collect();
        pass(&mut self.door, &mut self.passed, &threads, |_| false)
    }

    fn touches_pipe(&self, process: Option<Pid>, call: &Call) -> Look {
        if self.passes_outside(call) {
            return Look::Anywhere { is_read: false };
        }
        let touched = calls::touching(call.name(), call.arguments());
        let place = |reached: &Reached| match &self.learnt {
            Some(learnt) => learnt.place(reached),
            None => plain_place(reached),
        };
        Self::reached(process, call, touched, place)
    }

    fn is_connection(&self, pipe: &Conduit) -> bool {
        matches!(pipe, Conduit::Connection(..))
    }

    fn only_puts(&self, call: &Call) -> bool {
        matches!(call.name(), Syscall::Write | Syscall::Writev)
    }

    fn is_tracked_on_pipe(&self, call: &Call) -> bool {
        let is_moved = matches!(
            call.name(),
            Syscall::Read
                | Syscall::Readv
                | Syscall::Recvfrom
                | Syscall::Recvmsg
                | Syscall::Write
                | Syscall::Writev
                | Syscall::Sendto
                | Syscall::Sendmsg
        );
        is_moved || readiness::asks(call.name())
    }

    fn bytes(&self, process: Pid, (address, length): (u64, u64)) -> Option<Vec<u8>> {
        let mut bytes = vec![0; usize::try_from(length).ok()?];
        memory::read(process, address, &mut bytes).ok()?;
        Some(bytes)
    }

    fn take_out(&mut self, (from, queue): (&Conduit, Queue), length: usize) -> io::Result<Taken> {
        match from {
            Conduit::Pipe(pipe, _) => pipe.take(length),
            Conduit::Fifo(fifo) => fifo.take(length),
            Conduit::Connection(connection, _) => connection.take(queue, length),
        }
    }

    fn await_input(&mut self, (from, queue): (&Conduit, Queue)) -> io::Result<Option<OwnedFd>> {
        match from {
            Conduit::Pipe(pipe, _) => pipe.reader().map(Some),
            Conduit::Fifo(fifo) => fifo.await_input(),
            Conduit::Connection(connection, _) => connection.await_input(queue).map(Some),
        }
    }

    fn put_in(
        &mut self,
        (to, queue): (&Conduit, Queue),
        bytes: &[u8],
        reserved: usize,
    ) -> io::Result<bool> {
        match to {
            Conduit::Pipe(pipe, _) => pipe.put(bytes, reserved),
            Conduit::Fifo(fifo) => fifo.put(bytes, reserved),
            Conduit::Connection(connection, _) => connection.put(queue, bytes, reserved),
        }
    }

    fn put_back(
        &mut self,
        (to, queue): (&Conduit, Queue),
        front: &[u8],
        cut: usize,
    ) -> io::Result<()> {
        match to {
            Conduit::Pipe(pipe, _) => pipe.restore(front, cut),
            Conduit::Fifo(fifo) => fifo.restore(front, cut),
            Conduit::Connection(connection, _) => connection.restore(queue, front, cut),
        }
    }
}
