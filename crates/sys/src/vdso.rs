//! The instruction by which a stopped thread is made to call the kernel.
//!
//! It is one of the vDSO's: that is in every process, no program unmaps it, and it stays when everything
//! else of the process is replaced.

use std::fs::File;
use std::io::{self, Read};
use std::sync::OnceLock;

use rustix::process::Pid;

use crate::memory;

/// The bytes of `syscall`.
pub(crate) const CALL: [u8; 2] = [0x0f, 0x05];

/// Where a process comes back to from a call by that instruction.
///
/// # Errors
/// As [`instruction`].
pub fn behind_instruction(process: Pid) -> io::Result<u64> {
    Ok(instruction(process)? + CALL.len() as u64)
}

/// Its address in a process.
///
/// # Errors
/// As for reading /proc and the process' memory; for a process that is ending and has no memory any more.
pub fn instruction(process: Pid) -> io::Result<u64> {
    match told_at(process)? {
        Some(place) => Ok(place),
        None => Image::of(process)?.instruction(),
    }
}

/// The vDSO of a process.
struct Image {
    start: u64,
    code: Vec<u8>,
}

impl Image {
    /// As the list of what the process has mapped tells it. The kernel needs long to tell all of that.
    fn of(process: Pid) -> io::Result<Self> {
        let maps = std::fs::read(format!("/proc/{}/maps", process.as_raw_nonzero()))?;
        let maps = String::from_utf8_lossy(&maps);
        let line = maps.lines().find(|line| line.ends_with("[vdso]"));
        let range = line.and_then(|line| line.split(' ').next()?.split_once('-'));
        let address = |digits| u64::from_str_radix(digits, 16).ok();
        let range = range.and_then(|(start, end)| Some((address(start)?, address(end)?)));
        let (start, end) = range.ok_or_else(|| io::Error::other("the process has no vDSO"))?;
        let mut code = vec![0; (end - start) as usize];
        memory::read(process, start, &mut code)?;
        Ok(Self { start, code })
    }

    fn instruction(&self) -> io::Result<u64> {
        let mut all = self.code.windows(CALL.len());
        let place = all.position(|bytes| bytes == CALL);
        let place = place.ok_or_else(|| io::Error::other("the vDSO makes no call"))?;
        Ok(self.start + place as u64)
    }
}

/// The instruction's address where the kernel has told the process' program that the vDSO is (getauxval(3), `AT_SYSINFO_EHDR`).
/// `None` if there is none.
///
/// A process may move its vDSO, and have the kernel remember something else. So what is at that address must be what the calling
/// process has: the kernel maps the same bytes into all processes that make calls in the same way.
fn told_at(process: Pid) -> io::Result<Option<u64>> {
    /// AT_SYSINFO_EHDR.
    const VDSO: u64 = 33;
    static OWN: OnceLock<Option<Image>> = OnceLock::new();
    let own = OWN.get_or_init(|| Image::of(rustix::process::getpid()).ok());
    let Some(own) = own else {
        return Ok(None);
    };
    // The kernel tells no more than some 50 words.
    let mut told = [0; 1024];
    let path = format!("/proc/{}/auxv", process.as_raw_nonzero());
    let length = File::open(path)?.read(&mut told)?;
    let words = told[..length].chunks_exact(size_of::<u64>());
    let words: Vec<_> = words
        .map(|word| u64::from_ne_bytes(word.try_into().expect("so many bytes")))
        .collect();
    let mut pairs = words.chunks_exact(2);
    let Some(start) = pairs.find_map(|pair| (pair[0] == VDSO).then_some(pair[1])) else {
        return Ok(None);
    };
    let mut code = vec![0; own.code.len()];
    match memory::read(process, start, &mut code) {
        Ok(()) if code == own.code => Ok(Some(own.instruction()? - own.start + start)),
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn the_instruction_is_found_where_the_process_was_told_and_where_it_is_mapped() {
        let own = rustix::process::getpid();
        let mut child = Command::new("cat")
            .stdin(Stdio::piped())
            .spawn()
            .expect("cat");
        let pid = Pid::from_child(&child);
        for process in [own, pid] {
            let found = instruction(process).expect("look");
            let mut bytes = [0; CALL.len()];
            memory::read(process, found, &mut bytes).expect("read");
            assert_eq!(bytes, CALL);
        }
        let mapped = || Image::of(pid).and_then(|image| image.instruction());
        assert_eq!(told_at(pid).expect("look"), Some(mapped().expect("look")));
        drop(child.stdin.take());
        child.wait().expect("wait");
        // What has ended has no memory, and is nowhere.
        assert!(instruction(pid).is_err());
    }
}
