//! A look at the program that a process is about to execute, by the process itself: it alone finds the file as the kernel will,
//! with its own directory, its own rights and its own view.

use std::io;

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::Pid;
use surmise_sys::memory;
use surmise_sys::ptrace::call;

use crate::gate::Gate;
use crate::halted::Halted;
use crate::held::Hand;
use crate::scratch::Scratch;

/// How much of a file the kernel looks at (`BINPRM_BUF_SIZE`), and how many interpreters of interpreters it takes.
const HEADER: usize = 256;
const INTERPRETERS_MAX: usize = 5;

/// R_OK and X_OK of access(2).
const READ_AND_EXECUTE: u64 = 4 | 1;

/// Of `struct stat` on x86-64: its length, and where the mode is.
const STAT: usize = 144;
const STAT_MODE: usize = 24;

/// Where in the scratch page answers are; paths are before that.
const ANSWER: u64 = 3072;
const EXTENDED: &[u8] = b"security.capability\0";

/// What the kernel says of a path that it can find no file by: so it says when it is to execute that.
const MISSING: [Errno; 6] = [
    Errno::NOENT,
    Errno::NOTDIR,
    Errno::ACCESS,
    Errno::LOOP,
    Errno::NAMETOOLONG,
    Errno::FAULT,
];

/// What was found out about a path.
enum Found {
    /// The kernel does not execute it.
    Nothing,
    /// It may be anything.
    Unknown,
    /// A program of this machine's own, which gives no rights.
    Plain,
    /// The program that it names is executed.
    Script(Vec<u8>),
}

/// Where the path of a program is in the memory of a process, and from which directory it leads.
type Path = (u64, u64);

impl Halted<'_> {
    /// Whether a rollback can undo that the process, which has one thread, executes the program of a path in its memory; also if
    /// there is none. So that the process can execute its present one again, that has to be there by the name that /proc gives.
    ///
    /// # Errors
    /// As ptrace.
    pub fn can_come_back_from(
        &mut self,
        (directory, path): (Option<u64>, u64),
        gate: &mut dyn Gate,
    ) -> io::Result<bool> {
        let pid = self.process.pid;
        let mut scratch = Scratch::default();
        let mut hand = self.hand(gate);
        let from = directory.unwrap_or(call::HERE);
        let looked = look(&mut hand, pid, (from, path), &mut scratch);
        scratch.unmap(&mut hand)?;
        looked
    }
}

fn look(hand: &mut Hand<'_>, pid: Pid, path: Path, scratch: &mut Scratch) -> io::Result<bool> {
    if !stays_as_it_is(hand, scratch)? {
        return Ok(false);
    }
    let mut path = path;
    for _ in 0..=INTERPRETERS_MAX {
        match find(hand, pid, path, scratch)? {
            Found::Nothing | Found::Plain => return Ok(true),
            Found::Unknown => return Ok(false),
            Found::Script(mut interpreter) => {
                interpreter.push(0);
                path = (call::HERE, scratch.write(hand, &interpreter)?);
            }
        }
    }
    Ok(false)
}

/// Whether the process has no rules of its own for its rights, and can execute its present program again.
fn stays_as_it_is(hand: &mut Hand<'_>, scratch: &mut Scratch) -> io::Result<bool> {
    let rules = hand.call_raw(call::PRCTL, [call::GET_SECURE_BITS, 0, 0, 0, 0, 0])?;
    let own = scratch.write(hand, b"/proc/self/exe\0")?;
    let may_execute = hand.call_raw(
        call::FACCESSAT,
        [call::HERE, own, READ_AND_EXECUTE, 0, 0, 0],
    )?;
    Ok(rules == 0 && may_execute == 0)
}

fn find(
    hand: &mut Hand<'_>,
    pid: Pid,
    (from, path): Path,
    scratch: &mut Scratch,
) -> io::Result<Found> {
    // What is no file may do something when it is opened.
    let place = Scratch::RANGE.start + ANSWER;
    let told = hand.call_raw(call::NEWFSTATAT, [from, path, place, 0, 0, 0])?;
    if told < 0 {
        let is_missing = MISSING
            .iter()
            .any(|errno| told == -i64::from(errno.raw_os_error()));
        return Ok(match is_missing {
            true => Found::Nothing,
            false => Found::Unknown,
        });
    }
    if !is_plain_file(pid, place)? {
        return Ok(Found::Unknown);
    }
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let arguments = [from, path, flags.bits().into(), 0, 0, 0];
    let Ok(file) = u64::try_from(hand.call_raw(call::OPENAT, arguments)?) else {
        return Ok(Found::Unknown);
    };
    let found = find_opened(hand, (pid, place), file, scratch);
    hand.call(call::CLOSE, [file, 0, 0, 0, 0, 0])?;
    found
}

fn find_opened(
    hand: &mut Hand<'_>,
    (pid, place): (Pid, u64),
    file: u64,
    scratch: &mut Scratch,
) -> io::Result<Found> {
    /// ENODATA; EOPNOTSUPP.
    const NO_RIGHTS: [Errno; 2] = [Errno::NODATA, Errno::OPNOTSUPP];
    let header = hand.call_raw(call::PREAD64, [file, place, HEADER as u64, 0, 0, 0])?;
    let mut bytes = [0; HEADER];
    memory::read(pid, place, &mut bytes)?;
    // The path, which was there, is not needed any more.
    let name = scratch.write(hand, EXTENDED)?;
    let rights = hand.call_raw(call::FGETXATTR, [file, name, 0, 0, 0, 0])?;
    let gives_none = NO_RIGHTS
        .iter()
        .any(|errno| rights == -i64::from(errno.raw_os_error()));
    let length = usize::try_from(header).unwrap_or(0);
    Ok(match gives_none {
        true => read(&bytes[..length.min(HEADER)]),
        false => Found::Unknown,
    })
}

/// Whether what `struct stat` tells of is a file that changes nobody's user or group.
fn is_plain_file(pid: Pid, place: u64) -> io::Result<bool> {
    let mut stat = [0; STAT];
    memory::read(pid, place, &mut stat)?;
    let mode = stat[STAT_MODE..].first_chunk().copied();
    let mode = u32::from_ne_bytes(mode.expect("within the structure"));
    let changes = Mode::SUID | Mode::SGID;
    Ok(FileType::from_raw_mode(mode) == FileType::RegularFile
        && !Mode::from_raw_mode(mode).intersects(changes))
}

/// What the beginning of a file says (elf(5), execve(2)).
fn read(header: &[u8]) -> Found {
    /// A file for a machine of 64 bits whose lowest byte comes first.
    const FORMAT: &[u8] = b"\x7fELF\x02\x01";
    const MACHINE: usize = 18;
    const X86_64: [u8; 2] = 62_u16.to_le_bytes();
    if let Some(line) = header.strip_prefix(b"#!") {
        return interpreter(line).map_or(Found::Unknown, |name| Found::Script(name.to_vec()));
    }
    let is_own = header.starts_with(FORMAT) && header.get(MACHINE..MACHINE + 2) == Some(&X86_64);
    match is_own {
        true => Found::Plain,
        false => Found::Unknown,
    }
}

/// The name in the first line of a script. `None` where it may go on behind what the kernel looks at.
fn interpreter(line: &[u8]) -> Option<&[u8]> {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t');
    let start = line.iter().position(|byte| !is_space(byte))?;
    let line = &line[start..];
    let end = line
        .iter()
        .position(|byte| is_space(byte) || matches!(byte, b'\n' | 0))?;
    (end > 0).then(|| &line[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_an_interpreter_is_read() {
        let name = |line: &'static str| interpreter(line.as_bytes());
        assert_eq!(name("/bin/sh\n"), Some(&b"/bin/sh"[..]));
        assert_eq!(name(" \t/usr/bin/env -S a b\n"), Some(&b"/usr/bin/env"[..]));
        for unknown in ["", "  ", "\n", "/bin/sh"] {
            assert_eq!(name(unknown), None, "{unknown:?}");
        }
    }

    #[test]
    fn only_this_machines_programs_are_plain() {
        let elf = |class: u8, machine: u8| {
            let mut header = vec![0; 64];
            header[..6].copy_from_slice(&[0x7f, b'E', b'L', b'F', class, 1]);
            header[18] = machine;
            header
        };
        assert!(matches!(read(&elf(2, 62)), Found::Plain));
        // Of 32 bits, of x32, and of ARM.
        for (class, machine) in [(1, 3), (1, 62), (2, 183)] {
            assert!(matches!(read(&elf(class, machine)), Found::Unknown));
        }
        assert!(matches!(read(b"echo yes\n"), Found::Unknown));
        assert!(matches!(read(&elf(2, 62)[..10]), Found::Unknown));
        assert!(matches!(read(b"#!/bin/sh\n"), Found::Script(name) if name == b"/bin/sh"));
    }
}
