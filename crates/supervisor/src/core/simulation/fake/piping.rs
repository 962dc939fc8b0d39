//! What a fake machine does about its pipe and its connection inside.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;

use rustix::process::Pid;

use super::op::Op;
use super::sides::Side;
use super::state::State;
use super::{Fake, INNER, SOCKETS, thread_at};
use crate::call::Call;
use crate::objects::input::{Look, Place};
use crate::objects::pipe::{Queue, Taken};
use crate::world::{Found, Piping};

/// How many bytes have room in the pipe, and how many of a queue of the connection can be moved back.
const ROOM: usize = 4;

/// What has queues of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::core::simulation) enum Conduit {
    Pipe,
    Connection,
}

/// The socket that reads a queue.
pub(super) fn descriptor_of(queue: Queue) -> u64 {
    SOCKETS[queue as usize]
}

/// The queue that a socket reads.
pub(super) fn queue_at(descriptor: u64) -> Option<Queue> {
    let queues = [Queue::First, Queue::Second].into_iter();
    queues
        .zip(SOCKETS)
        .find_map(|(queue, socket)| (socket == descriptor).then_some(queue))
}

impl State {
    fn bytes_of(&mut self, conduit: Conduit, queue: Queue) -> &mut VecDeque<u8> {
        match conduit {
            Conduit::Pipe => &mut self.inner,
            Conduit::Connection => &mut self.line[queue as usize],
        }
    }
}

impl Piping<Conduit> for Fake {
    fn pipe(
        &mut self,
        _: Pid,
        descriptor: u64,
        is_write: bool,
        _: &[Pid],
    ) -> io::Result<Option<Found<Conduit>>> {
        let rng = &mut self.0.borrow_mut().rng;
        let waits = rng.bool();
        let socket = queue_at(descriptor);
        let found = match socket {
            Some(reads) => Found {
                place: Place(0, SOCKETS[0]),
                queue: if is_write { reads.opposite() } else { reads },
                pipe: Conduit::Connection,
                waits,
                may_be_input: true,
            },
            None => Found {
                place: Place(0, INNER),
                queue: Queue::First,
                pipe: Conduit::Pipe,
                waits,
                may_be_input: false,
            },
        };
        let is_found = match socket {
            // Nobody may have the other one for a moment.
            Some(_) => rng.u8(..8) != 0,
            None => descriptor == INNER,
        };
        Ok(is_found.then_some(found))
    }

    fn clear(&mut self, _: &Conduit, _: Pid, _: &[Pid]) -> io::Result<bool> {
        // All that fakes do to pipes is over at once.
        Ok(self.0.borrow_mut().rng.u8(..8) != 0)
    }

    fn touches_pipe(&self, _: Option<Pid>, call: &Call) -> Look {
        let is_read = false;
        let state = self.0.borrow();
        let sides = state.sides(state.tasks[call.thread()].process);
        let place = match state.op_of(call) {
            Op::Send(_) if !sides.writing => return Look::Nothing,
            Op::Receive | Op::Ask if !sides.reading => return Look::Nothing,
            Op::Send(_) | Op::Receive | Op::Ask => Place(0, INNER),
            Op::Say(..) | Op::Hear(_) => Place(0, SOCKETS[0]),
            Op::Poll => return Look::Anywhere { is_read },
            _ => return Look::Nothing,
        };
        Look::At { place, is_read }
    }

    fn is_connection(&self, pipe: &Conduit) -> bool {
        *pipe == Conduit::Connection
    }

    fn only_puts(&self, call: &Call) -> bool {
        matches!(self.0.borrow().op_of(call), Op::Send(_))
    }

    fn is_tracked_on_pipe(&self, call: &Call) -> bool {
        matches!(
            self.0.borrow().op_of(call),
            Op::Send(_) | Op::Receive | Op::Ask | Op::Say(..) | Op::Hear(_)
        )
    }

    fn bytes(&self, _: Pid, (address, _): (u64, u64)) -> Option<Vec<u8>> {
        match self.0.borrow().tasks[thread_at(address)].op() {
            Op::Send(byte) | Op::Say(_, byte) => Some(vec![byte]),
            _ => None,
        }
    }

    fn take_out(&mut self, (&from, queue): (&Conduit, Queue), length: usize) -> io::Result<Taken> {
        let state = &mut *self.0.borrow_mut();
        let bytes = state.bytes_of(from, queue);
        if from == Conduit::Connection && bytes.len() > ROOM {
            return Ok(Taken::Unmovable);
        }
        let bytes: Vec<_> = bytes.drain(..length.min(bytes.len())).collect();
        let may_come = from == Conduit::Connection || state.is_open(Side::Writing);
        Ok(match bytes.is_empty() {
            true if may_come => Taken::Nothing,
            true => Taken::End,
            false => Taken::Bytes(bytes),
        })
    }

    fn await_input(&mut self, _: (&Conduit, Queue)) -> io::Result<Option<OwnedFd>> {
        Ok(None)
    }

    fn put_in(
        &mut self,
        (&to, queue): (&Conduit, Queue),
        bytes: &[u8],
        reserved: usize,
    ) -> io::Result<bool> {
        let state = &mut *self.0.borrow_mut();
        let has_readers = to == Conduit::Connection || state.is_open(Side::Reading);
        let queue = state.bytes_of(to, queue);
        let has_room = has_readers && queue.len() + reserved < ROOM;
        if has_room {
            queue.extend(bytes);
        }
        Ok(has_room)
    }

    fn put_back(
        &mut self,
        (&to, queue): (&Conduit, Queue),
        front: &[u8],
        cut: usize,
    ) -> io::Result<()> {
        let state = &mut *self.0.borrow_mut();
        state.happened.moves_back += u64::from(to == Conduit::Connection);
        let queue = state.bytes_of(to, queue);
        queue.truncate(queue.len() - cut);
        for &byte in front.iter().rev() {
            queue.push_front(byte);
        }
        // Acts are undone one by one, so it holds what it held before the act.
        assert!(to == Conduit::Pipe || queue.len() <= ROOM, "it has no room");
        Ok(())
    }
}
