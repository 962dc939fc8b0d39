//! Which other program executes a program: what the kernel reads at a program's beginning (execve(2), elf(5)).

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// How much the kernel reads.
const HEAD: usize = 256;
/// Program headers of one ELF file that are looked at, and their size.
const HEADERS_MAX: u16 = 128;
const HEADER: usize = 56;
/// The longest path of an interpreter.
const PATH_MAX: u64 = 4096;

/// What executes a program.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Interpreter {
    /// Nothing else.
    None,
    /// The program at this path.
    At(PathBuf),
    /// Something that is configured outside, or nothing.
    Unknown,
}

/// The interpreter of a program, whose bytes `read` tells from an offset on.
pub(super) fn interpreter(
    read: impl Fn(u64, &mut [u8]) -> io::Result<usize>,
) -> io::Result<Interpreter> {
    let mut head = [0; HEAD];
    let length = read(0, &mut head)?;
    match &head[..length] {
        [] => Ok(Interpreter::None),
        [b'#', b'!', line @ ..] => Ok(of_script(line)),
        // 64 bits, least significant byte first.
        [0x7f, b'E', b'L', b'F', 2, 1, ..] if length >= 64 => of_elf(&head, read),
        _ => Ok(Interpreter::Unknown),
    }
}

fn of_script(line: &[u8]) -> Interpreter {
    let end = line.iter().position(|byte| *byte == b'\n');
    let mut words = line[..end.unwrap_or(line.len())]
        .split(|byte| matches!(byte, b' ' | b'\t'))
        .filter(|word| !word.is_empty());
    match words.next() {
        // The kernel refuses a line whose first word it has not read to the end.
        Some(word) if end.is_some() || words.next().is_some() => Interpreter::At(path(word)),
        _ => Interpreter::Unknown,
    }
}

fn of_elf(
    head: &[u8; HEAD],
    read: impl Fn(u64, &mut [u8]) -> io::Result<usize>,
) -> io::Result<Interpreter> {
    /// PT_INTERP.
    const INTERPRETER: u32 = 3;
    let begin = word(head, 32);
    let size = u16::from_le_bytes([head[54], head[55]]);
    let count = u16::from_le_bytes([head[56], head[57]]);
    if usize::from(size) != HEADER || count > HEADERS_MAX {
        return Ok(Interpreter::Unknown);
    }
    let mut headers = vec![0; HEADER * usize::from(count)];
    let length = read(begin, &mut headers)?;
    for header in headers[..length].chunks_exact(HEADER) {
        let kind = u32::from_le_bytes([header[0], header[1], header[2], header[3]]);
        if kind != INTERPRETER {
            continue;
        }
        let (offset, length) = (word(header, 8), word(header, 32));
        if length > PATH_MAX {
            return Ok(Interpreter::Unknown);
        }
        let mut name = vec![0; length as usize];
        let length = read(offset, &mut name)?;
        let end = name[..length].iter().position(|byte| *byte == 0);
        return Ok(end.map_or(Interpreter::Unknown, |end| {
            Interpreter::At(path(&name[..end]))
        }));
    }
    Ok(Interpreter::None)
}

fn path(bytes: &[u8]) -> PathBuf {
    OsString::from_vec(bytes.to_vec()).into()
}

fn word(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    fn of(bytes: &[u8]) -> Interpreter {
        let read = |offset: u64, buffer: &mut [u8]| {
            let rest = bytes.get(offset as usize..).unwrap_or_default();
            let length = rest.len().min(buffer.len());
            buffer[..length].copy_from_slice(&rest[..length]);
            Ok(length)
        };
        interpreter(read).expect("read")
    }

    #[test]
    fn a_script_names_its_interpreter() {
        let at = |path: &str| Interpreter::At(path.into());
        assert_eq!(of(b"#!/bin/sh\nexit"), at("/bin/sh"));
        assert_eq!(of(b"#! \t/usr/bin/env -S python3\n"), at("/usr/bin/env"));
        for unknown in [
            &b"#!"[..],
            b"#!\n",
            b"#!/bin/sh",
            b"exit 0\n",
            b"\x7fELF\x01",
        ] {
            assert_eq!(of(unknown), Interpreter::Unknown);
        }
        assert_eq!(of(b""), Interpreter::None, "it fails");
    }

    #[test]
    fn a_program_names_the_loader_of_its_libraries() {
        let file = std::fs::File::open("/proc/self/exe").expect("this program");
        let found = interpreter(|offset, buffer| file.read_at(buffer, offset)).expect("read");
        let Interpreter::At(path) = found else {
            panic!("{found:?}");
        };
        assert!(path.is_absolute() && path.exists(), "{path:?}");
        let file = std::fs::File::open(&path).expect("the loader");
        let found = interpreter(|offset, buffer| file.read_at(buffer, offset)).expect("read");
        assert_eq!(found, Interpreter::None);
    }
}
