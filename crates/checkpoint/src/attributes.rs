//! Attributes of a process that it seldom changes. The supervisor notes which of them the process changes,
//! and a rollback asks the vessel for these alone.

use std::io;
use std::os::fd::RawFd;

use rustix::process::Pid;
use surmise_sys::memory;
use surmise_sys::ptrace::call;

use crate::gate::Gate;
use crate::halted::Halted;
use crate::held::Hand;
use crate::scratch::Scratch;
use crate::vessel::Vessel;

/// What a process may have changed since a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// How it takes this signal (sigaction(2)).
    Handler(u32),
    /// umask(2).
    Umask,
    /// Its working directory (chdir(2), fchdir(2)).
    Directory,
    /// The soft limit of this resource (setrlimit(2)), below 16. A hard limit that the process has lowered cannot be given back.
    Limit(u32),
    /// Where the file of this descriptor stands.
    Position(RawFd),
    /// The status flags of the file of this descriptor (F_SETFL of fcntl(2)).
    Flags(RawFd),
    /// Where the kernel writes when the thread ends (set_tid_address(2)), if [`Checkpoint::knows_tid_address`].
    ///
    /// [`Checkpoint::knows_tid_address`]: crate::Checkpoint::knows_tid_address
    TidAddress,
    /// The signal stack of any of its threads (sigaltstack(2)), if [`Checkpoint::knows_signal_stacks`].
    ///
    /// [`Checkpoint::knows_signal_stacks`]: crate::Checkpoint::knows_signal_stacks
    SignalStack,
    /// The name of this thread (PR_SET_NAME of prctl(2)).
    Name(Pid),
    /// The program that it executes (execve(2)), if [`Checkpoint::can_undo_execution`].
    ///
    /// [`Checkpoint::can_undo_execution`]: crate::Checkpoint::can_undo_execution
    Program,
}

/// All that it may have changed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Changed {
    /// A bit for each signal, signal 1 lowest.
    handlers: u64,
    /// A bit for each limit.
    limits: u16,
    umask: bool,
    directory: bool,
    pub(crate) tid_address: bool,
    pub(crate) signal_stacks: bool,
    pub(crate) program: bool,
}

/// All signals but SIGKILL and SIGSTOP, signal 1 lowest.
const ALL_HANDLED: u64 = !(1 << 8 | 1 << 18);

const SIGKILL: u32 = 9;
const SIGSTOP: u32 = 19;
/// `struct sigaction` of the kernel, in bytes: handler, flags, restorer, mask.
const ACTION: usize = 32;
/// `struct rlimit64` of the kernel, in bytes: soft limit, hard limit.
const LIMITS: usize = 16;
/// The size of a mask of signals, in bytes.
const MASK: u64 = 8;

impl Changed {
    pub(crate) fn add(&mut self, change: Change) {
        match change {
            // The kernel will refuse the call.
            Change::Handler(SIGKILL | SIGSTOP) => {}
            Change::Handler(signal @ 1..=64) => self.handlers |= 1 << (signal - 1),
            Change::Handler(_) => {}
            Change::Limit(resource @ 0..16) => self.limits |= 1 << resource,
            // The kernel will refuse the call.
            Change::Limit(_) => {}
            Change::Umask => self.umask = true,
            Change::Directory => self.directory = true,
            Change::TidAddress => self.tid_address = true,
            Change::SignalStack => self.signal_stacks = true,
            // The kernel takes these away: of a signal without a handler its flags, too, such as SA_NOCLDWAIT.
            Change::Program => {
                (self.program, self.tid_address, self.signal_stacks) = (true, true, true);
                self.handlers = ALL_HANDLED;
            }
            // Kept apart.
            Change::Position(_) | Change::Flags(_) | Change::Name(_) => {}
        }
    }

    /// The signals that the process may take in another way since.
    pub(crate) fn handled(self) -> impl Iterator<Item = u32> {
        (1..=64).filter(move |signal| self.has_handler(*signal))
    }

    pub(crate) fn has_handler(self, signal: u32) -> bool {
        self.handlers & (1 << (signal - 1)) != 0
    }

    /// Gives the process the vessel's limits.
    pub(crate) fn restore_limits(
        self,
        hand: &mut Hand<'_>,
        scratch: &mut Scratch,
        (vessel, instruction): (&mut Vessel, u64),
    ) -> io::Result<()> {
        for resource in (0..16).filter(|resource| self.limits & (1 << resource) != 0) {
            let limits = limits(vessel, instruction, resource, hand.gate)?;
            let place = scratch.write(hand, &limits)?;
            hand.call(call::PRLIMIT64, [0, resource, place, 0, 0, 0])?;
        }
        Ok(())
    }

    /// Gives back all but how the process takes signals.
    pub(crate) fn restore(
        self,
        hand: &mut Hand<'_>,
        scratch: &mut Scratch,
        (vessel, instruction): (&mut Vessel, u64),
    ) -> io::Result<()> {
        self.restore_limits(hand, scratch, (&mut *vessel, instruction))?;
        if self.umask {
            let mask = umask(vessel, instruction, hand.gate)?;
            hand.call(call::UMASK, [mask, 0, 0, 0, 0, 0])?;
        }
        if self.directory {
            // A link that the kernel follows by itself, whatever the directory's name is by now.
            let place = format!("/proc/{}/cwd\0", vessel.inner());
            let place = scratch.write(hand, place.as_bytes())?;
            hand.call(call::CHDIR, [place, 0, 0, 0, 0, 0])?;
        }
        Ok(())
    }
}

impl Halted<'_> {
    /// Has the process take a signal as the vessel would. The kernel takes away what waits of a signal from the process that comes
    /// to ignore the signal. So where one waits, a deputy makes the call.
    pub(crate) fn restore_handler(
        &mut self,
        signal: u32,
        scratch: &mut Scratch,
        (vessel, instruction): (&mut Vessel, u64),
        gate: &mut dyn Gate,
    ) -> io::Result<()> {
        let number = u64::from(signal);
        let action: [u8; ACTION] = told(vessel, instruction, gate, |place| {
            (call::RT_SIGACTION, [number, 0, place, MASK, 0, 0])
        })?;
        let place = scratch.write(&mut self.hand(gate), &action)?;
        let arguments = [number, place, 0, MASK, 0, 0];
        if !self.is_waiting(signal)? {
            let restored = self.hand(gate).call(call::RT_SIGACTION, arguments);
            return restored.map(drop);
        }
        let result = self.depute((call::RT_SIGACTION, arguments), gate)?;
        match i32::try_from(-result) {
            Ok(errno @ 1..) => Err(io::Error::from_raw_os_error(errno)),
            _ => Ok(()),
        }
    }
}

/// The vessel's soft and hard limit of a resource, as the kernel tells them.
fn limits(
    vessel: &mut Vessel,
    instruction: u64,
    resource: u64,
    gate: &mut dyn Gate,
) -> io::Result<[u8; LIMITS]> {
    told(vessel, instruction, gate, |place| {
        (call::PRLIMIT64, [0, resource, 0, place, 0, 0])
    })
}

/// What the kernel tells the vessel by a call, which is given the place for the answer.
pub(crate) fn told<const LENGTH: usize>(
    vessel: &mut Vessel,
    instruction: u64,
    gate: &mut dyn Gate,
    asking: impl FnOnce(u64) -> (i64, [u64; 6]),
) -> io::Result<[u8; LENGTH]> {
    let process = vessel.process();
    let held = vessel.held()?;
    // The vessel never executes anything of its own.
    let place = held.free_stack();
    let mut asked = Hand {
        held,
        instruction,
        gate,
    };
    let (number, arguments) = asking(place);
    asked.call(number, arguments)?;
    let mut answer = [0; LENGTH];
    memory::read(process, place, &mut answer)?;
    Ok(answer)
}

/// It can only be told by changing it.
fn umask(vessel: &mut Vessel, instruction: u64, gate: &mut dyn Gate) -> io::Result<u64> {
    let mut asked = Hand {
        held: vessel.held()?,
        instruction,
        gate,
    };
    let mask = asked.call(call::UMASK, [0; 6])?;
    asked.call(call::UMASK, [mask, 0, 0, 0, 0, 0])?;
    Ok(mask)
}
