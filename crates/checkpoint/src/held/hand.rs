//! Calls that a stopped thread makes for the supervisor.

use std::io;

use surmise_sys::memory;
use surmise_sys::ptrace::{self, Stopped, Usage};

use super::Held;
use crate::gate::{Gate, PendingCall};

/// A stopped thread, with what it takes to have it make calls for the supervisor.
pub(crate) struct Hand<'a> {
    pub(crate) held: &'a mut Held,
    /// Where there is a `syscall` instruction.
    pub(crate) instruction: u64,
    pub(crate) gate: &'a mut dyn Gate,
}

impl Hand<'_> {
    /// Has it make a call. Returns the result, an error number where that is negative.
    pub(crate) fn call_raw(&mut self, number: i64, arguments: [u64; 6]) -> io::Result<i64> {
        if self.gate.notifies(number, &arguments) {
            return self.call_notifying(number, arguments, |gate, call| gate.let_pass(call));
        }
        self.held.begin(self.instruction, number, arguments)?;
        self.held.finish()
    }

    /// Has it, its process' only thread, make a call that must succeed and that never notifies. Also what the process has used by
    /// then, and the children that it has reaped.
    pub(crate) fn call_and_account(&mut self, number: i64) -> io::Result<(u64, Usage)> {
        let mut used = Usage::default();
        self.held.begin(self.instruction, number, [0; 6])?;
        let result = self.held.finish_by(|thread| {
            let (news, usage) = ptrace::wait_for_usage(thread)?;
            used = usage;
            Ok(news)
        })?;
        Ok((succeeded(result)?, used))
    }

    /// Has it make a call that must succeed.
    pub(crate) fn call(&mut self, number: i64, arguments: [u64; 6]) -> io::Result<u64> {
        self.call_raw(number, arguments).and_then(succeeded)
    }

    /// As [`Self::call`], as if the thread had no stack. While a thread is on its signal stack, the kernel lets it have no other.
    pub(crate) fn call_without_stack(
        &mut self,
        number: i64,
        arguments: [u64; 6],
    ) -> io::Result<u64> {
        let own = self.held.registers;
        self.held.registers = own.without_stack();
        let called = self.call(number, arguments);
        self.held.registers = own;
        called
    }

    /// What the kernel tells the thread by a call that is given a place in memory for the answer. What is there is put back.
    /// `None` if there is no memory at that place, or the kernel does not tell.
    pub(crate) fn ask<const LENGTH: usize>(
        &mut self,
        asking: impl FnOnce(u64) -> (i64, [u64; 6]),
    ) -> io::Result<Option<[u8; LENGTH]>> {
        let (thread, place) = (self.held.thread(), self.held.free_stack());
        let mut before = [0; LENGTH];
        if memory::read(thread, place, &mut before).is_err() {
            return Ok(None);
        }
        let (number, arguments) = asking(place);
        if self.call_raw(number, arguments)? < 0 {
            return Ok(None);
        }
        let mut answer = [0; LENGTH];
        memory::read(thread, place, &mut answer)?;
        memory::write(thread, place, &before)?;
        Ok(Some(answer))
    }

    /// Tells the kernel something by a call that is given a place in memory where these bytes are, at most 128, and that must succeed.
    /// What is there is put back. False if there is no memory at that place: then the call was not made.
    pub(crate) fn tell<const LENGTH: usize>(
        &mut self,
        bytes: &[u8; LENGTH],
        telling: impl FnOnce(u64) -> (i64, [u64; 6]),
    ) -> io::Result<bool> {
        let (thread, place) = (self.held.thread(), self.held.free_stack());
        let mut before = [0; LENGTH];
        let has_room = memory::read(thread, place, &mut before)
            .and_then(|()| memory::write(thread, place, bytes));
        if has_room.is_err() {
            return Ok(false);
        }
        let (number, arguments) = telling(place);
        let called = self.call(number, arguments);
        memory::write(thread, place, &before)?;
        called.map(|_| true)
    }

    /// Has it and another thread, which has a `syscall` instruction at that address, make the same call,
    /// at the same time. It must succeed.
    pub(crate) fn call_both(
        &mut self,
        (other, instruction): (&mut Held, u64),
        number: i64,
        arguments: [u64; 6],
    ) -> io::Result<(u64, u64)> {
        if self.gate.notifies(number, &arguments) {
            let own = self.call(number, arguments)?;
            let gate = &mut *self.gate;
            let mut other = Hand {
                held: other,
                instruction,
                gate,
            };
            return Ok((own, other.call(number, arguments)?));
        }
        other.begin(instruction, number, arguments)?;
        let own = self.call(number, arguments);
        let other = other.finish().and_then(succeeded);
        Ok((own?, other?))
    }

    /// Does something while the thread waits in a call that notifies, and does not happen.
    pub(crate) fn meanwhile(
        &mut self,
        act: impl FnOnce(&mut dyn Gate, PendingCall) -> io::Result<()>,
    ) -> io::Result<()> {
        let number = self.gate.notifying_call();
        let done = self.call_notifying(number, [0; 6], |gate, call| {
            act(gate, call)?;
            gate.answer(call, 0)
        });
        done.map(drop)
    }

    /// `act` answers the call.
    fn call_notifying(
        &mut self,
        number: i64,
        arguments: [u64; 6],
        act: impl FnOnce(&mut dyn Gate, PendingCall) -> io::Result<bool>,
    ) -> io::Result<i64> {
        self.held.begin(self.instruction, number, arguments)?;
        let call = self.held.await_call(self.gate, Stopped::step)?;
        let done = act(self.gate, call);
        if done.is_err() {
            self.gate.answer(call, 0)?;
        }
        let result = self.held.finish()?;
        done.map(|_| result)
    }
}

/// The result of a call that must succeed.
fn succeeded(result: i64) -> io::Result<u64> {
    u64::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result as i32))
}
