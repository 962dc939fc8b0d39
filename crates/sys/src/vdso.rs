//! The instruction by which a stopped thread is made to call the kernel.
//!
//! It is one of the vDSO's: that is in every process, no program unmaps it, and it stays when everything
//! else of the process is replaced.

use std::io;

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
    let maps = std::fs::read(format!("/proc/{}/maps", process.as_raw_nonzero()))?;
    let maps = String::from_utf8_lossy(&maps);
    let line = maps.lines().find(|line| line.ends_with("[vdso]"));
    let range = line.and_then(|line| line.split(' ').next()?.split_once('-'));
    let address = |digits| u64::from_str_radix(digits, 16).ok();
    let range = range.and_then(|(start, end)| Some((address(start)?, address(end)?)));
    let (start, end) = range.ok_or_else(|| io::Error::other("the process has no vDSO"))?;
    let mut code = vec![0; (end - start) as usize];
    memory::read(process, start, &mut code)?;
    let place = code.windows(CALL.len()).position(|bytes| bytes == CALL);
    let place = place.ok_or_else(|| io::Error::other("the vDSO makes no call"))?;
    Ok(start + place as u64)
}
