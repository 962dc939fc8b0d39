//! The domain's streams: what a task writes there is held while it depends on something undecided.
//!
//! A reader may be slow. So what leaves is written as far as there is room, and the rest when there is more. Until all
//! of it is written, nothing else is written to a stream, lest it overtake what came before.

use std::collections::VecDeque;
use std::io;

use surmise_engine::{ChannelId, HoldId, TaskId};
use surmise_sys::seccomp::Answer;

use crate::call::Call;
use crate::map::Map;
use crate::member::Member;
use crate::object::Did;
use crate::world::World;

/// What one process writes is one channel of the engine's, by whatever stream: it stays in order. What others write
/// leaves as soon as what *they* depend on is decided.
pub(crate) fn channel(task: TaskId) -> ChannelId {
    ChannelId(task.0)
}

/// What was written, and has not left yet.
#[derive(Debug)]
pub(crate) struct Streams<W: World> {
    held: Map<HoldId, W::Output>,
    /// Released, the oldest first; what is written already is not in it.
    leaving: VecDeque<W::Output>,
    /// How many there have been.
    made: u64,
}

impl<W: World> Default for Streams<W> {
    fn default() -> Self {
        Self {
            held: Map::default(),
            leaving: VecDeque::new(),
            made: 0,
        }
    }
}

impl<W: World> Streams<W> {
    /// Keeps what a task writes, and tells it that it is written. Where a part of the bytes is not there, the task
    /// has to wait: the kernel writes what is before.
    pub(crate) fn put(
        &mut self,
        world: &mut W,
        member: &Member<W>,
        call: &Call,
        (descriptor, bytes): (u64, (u64, u64)),
    ) -> io::Result<Did> {
        let Some(output) = world.output(member.pid(), descriptor, bytes)? else {
            return Ok(Did::Wait);
        };
        let (_, length) = bytes;
        if !world.answer(call, Answer::Value(length.cast_signed()))? {
            // It was killed before it knew of its output.
            return Ok(Did::Gone);
        }
        self.made += 1;
        let hold = HoldId(self.made);
        self.held.insert(hold, output);
        Ok(Did::PutOut(hold))
    }

    /// Lets an output go, behind those that were let go before.
    pub(crate) fn release(&mut self, hold: HoldId) {
        self.leaving.extend(self.held.remove(&hold));
    }

    /// Throws an output away.
    pub(crate) fn discard(&mut self, hold: HoldId) {
        self.held.remove(&hold);
    }

    /// Writes what can be written without waiting. True when nothing is left to write.
    pub(crate) fn flush(&mut self, world: &mut W) -> io::Result<bool> {
        while let Some(output) = self.leaving.front_mut() {
            if !world.put(output)? {
                return Ok(false);
            }
            self.leaving.pop_front();
        }
        Ok(true)
    }

    /// What waits for a reader.
    pub(crate) fn leaving(&self) -> Option<&W::Output> {
        self.leaving.front()
    }
}
