//! A process that has executed another program since executes its former one again, by the file that its vessel executes.
//!
//! So the kernel itself makes the process one that executes this file, with the rights, the name in /proc and the
//! protection that go with that, and takes away all that another program has set up of its memory. The process comes to a stop before
//! it executes an instruction. What is then in its memory is nobody's: all of it is given back as of any process, and
//! no page of it is the vessel's. Here it is told what cannot be seen in its memory: where the vDSO is, and where the program was
//! given what.

use std::io;

use rustix::process::Pid;
use surmise_linux::proc::{Entry, Layout, layout};
use surmise_sys::ptrace::call;
use surmise_sys::vdso;

use crate::checkpoint::Checkpoint;
use crate::gate::Gate;
use crate::halted::Halted;
use crate::held::Hand;
use crate::mappings::{self, Mapping};
use crate::scratch::Scratch;

/// Where in the scratch page the arguments of the program are.
const ARGUMENTS: usize = 64;
/// Where in it the auxiliary vector is, behind a `struct prctl_mm_map` (prctl(2), PR_SET_MM_MAP).
const AUXILIARY: usize = 104;
/// Commands of membarrier(2) by which a process registers: MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, …_PRIVATE_EXPEDITED,
/// …_PRIVATE_EXPEDITED_SYNC_CORE, …_PRIVATE_EXPEDITED_RSEQ.
const REGISTRATIONS: [u64; 4] = [1 << 2, 1 << 4, 1 << 6, 1 << 8];

impl Halted<'_> {
    /// Has the process, which has one thread, execute the vessel's program, and be told of its memory what the vessel was.
    pub(super) fn execute_again(
        &mut self,
        checkpoint: &mut Checkpoint,
        scratch: &mut Scratch,
        gate: &mut dyn Gate,
    ) -> io::Result<()> {
        let pid = self.process.pid;
        let mut hand = self.hand(gate);
        execute(&mut hand, checkpoint.vessel.inner(), scratch)?;
        hand.instruction = vdso::instruction(pid)?;
        move_kernels(&mut hand, pid, checkpoint.vessel.process())?;
        if hand.instruction != checkpoint.instruction {
            return Err(io::Error::other("the vDSO is not where it was"));
        }
        tell_layout(&mut hand, checkpoint, scratch)?;
        register_barriers(&mut hand, checkpoint)?;
        if let [image] = &checkpoint.threads[..] {
            hand.held.has_memory_of(image.registers);
        }
        self.instruction = checkpoint.instruction;
        self.process.executes_again(checkpoint.instruction);
        Ok(())
    }
}

/// `vessel`: its number as the process sees it.
fn execute(hand: &mut Hand<'_>, vessel: u64, scratch: &mut Scratch) -> io::Result<()> {
    // A link that the kernel follows by itself, whatever the file's name is by now.
    let mut bytes = format!("/proc/{vessel}/exe\0").into_bytes();
    bytes.resize(ARGUMENTS, 0);
    let path = Scratch::RANGE.start;
    // One argument, and no environment. Both are replaced with the rest of the memory.
    for word in [path, 0] {
        bytes.extend(word.to_ne_bytes());
    }
    let path = scratch.write(hand, &bytes)?;
    hand.call(call::EXECVE, [path, path + ARGUMENTS as u64, 0, 0, 0, 0])?;
    // It went with the memory.
    *scratch = Scratch::default();
    Ok(())
}

/// Moves what the kernel maps by itself to where the vessel has it. The instruction by which the process makes calls goes along.
fn move_kernels(hand: &mut Hand<'_>, pid: Pid, vessel: Pid) -> io::Result<()> {
    let (present, wanted) = (mappings::of(pid)?, mappings::of(vessel)?);
    let is_moved = |mapping: &&Mapping| mapping.is_moved_by_kernel();
    let own: Vec<_> = present.iter().filter(is_moved).collect();
    let place = |of: &Mapping| {
        let mut found = wanted.iter().filter(is_moved);
        let found = found.find(|one| one.path == of.path && one.length() == of.length());
        found.map(|found| found.range.start)
    };
    if own.iter().all(|one| place(one) == Some(one.range.start)) {
        return Ok(());
    }
    // By way of a place where neither has anything: one of them may be to go where another still is.
    let size = own.iter().map(|one| one.length()).sum();
    let mut way = mappings::gap(&[&present, &wanted], Scratch::RANGE.end, size)
        .ok_or_else(|| io::Error::other("there is no room for the vDSO"))?;
    let mut moves = Vec::new();
    for one in own {
        let place = place(one).ok_or_else(|| io::Error::other("the vDSO is not as it was"))?;
        remap(hand, one, (one.range.start, way))?;
        moves.push((one, way, place));
        way += one.length();
    }
    for (one, way, place) in moves {
        remap(hand, one, (way, place))?;
    }
    Ok(())
}

/// Moves a mapping in place of whatever is there.
fn remap(hand: &mut Hand<'_>, one: &Mapping, (from, to): (u64, u64)) -> io::Result<()> {
    let length = one.length();
    hand.call(
        call::MREMAP,
        [from, length, length, call::MOVE_IN_PLACE, to, 0],
    )?;
    let place = hand.instruction.wrapping_sub(from);
    if place < length {
        hand.instruction = to + place;
    }
    Ok(())
}

/// Has the kernel remember what it does of the vessel's memory: what it tells of arguments, environment and program, and where
/// the break is.
fn tell_layout(
    hand: &mut Hand<'_>,
    checkpoint: &mut Checkpoint,
    scratch: &mut Scratch,
) -> io::Result<()> {
    let vessel = checkpoint.vessel.process();
    let told = layout(vessel)?;
    let auxiliary = Entry::from(vessel).read("auxv")?;
    let instruction = checkpoint.instruction;
    let mut asked = Hand {
        held: checkpoint.vessel.held()?,
        instruction,
        gate: &mut *hand.gate,
    };
    let present_break = asked.call(call::BRK, [0; 6])?;
    let bytes = memory_map(&told, present_break, &auxiliary);
    let place = scratch.write(hand, &bytes)?;
    let arguments = [
        call::SET_MEMORY,
        call::SET_MEMORY_MAP,
        place,
        AUXILIARY as u64,
        0,
        0,
    ];
    hand.call(call::PRCTL, arguments)?;
    Ok(())
}

/// A `struct prctl_mm_map` that stands at the beginning of the scratch page, and an auxiliary vector behind it.
fn memory_map(told: &Layout, present_break: u64, auxiliary: &[u8]) -> Vec<u8> {
    /// That the file which is executed stays as it is.
    const SAME_FILE: u32 = u32::MAX;
    let words = [
        told.code[0],
        told.code[1],
        told.data[0],
        told.data[1],
        told.start_break,
        present_break,
        told.start_stack,
        told.arguments[0],
        told.arguments[1],
        told.environment[0],
        told.environment[1],
        Scratch::RANGE.start + AUXILIARY as u64,
    ];
    let mut bytes: Vec<u8> = words.into_iter().flat_map(u64::to_ne_bytes).collect();
    bytes.extend((auxiliary.len() as u32).to_ne_bytes());
    bytes.extend(SAME_FILE.to_ne_bytes());
    bytes.extend(auxiliary);
    bytes
}

/// Registers the process for the memory barriers that the vessel is registered for: the kernel refuses others.
fn register_barriers(hand: &mut Hand<'_>, checkpoint: &mut Checkpoint) -> io::Result<()> {
    let instruction = checkpoint.instruction;
    let mut asked = Hand {
        held: checkpoint.vessel.held()?,
        instruction,
        gate: &mut *hand.gate,
    };
    let registered = asked.call(call::MEMBARRIER, [call::GET_REGISTRATIONS, 0, 0, 0, 0, 0])?;
    for command in REGISTRATIONS {
        if registered & command != 0 {
            hand.call(call::MEMBARRIER, [command, 0, 0, 0, 0, 0])?;
        }
    }
    Ok(())
}
