//! The execution of a program by a process of which there are images.
//!
//! A rollback has the process execute its former program again, and gives it back what that had set up ([`crate::rollback`]).
//! Here is what has to be known before the process executes another one, since afterwards it is too late: nobody may look into
//! a process that executes what its user may not read, nothing gives a process back rights that it has lost, or takes away those
//! that it has got, and programs of other architectures make calls in another way.

mod program;

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;

use rustix::process::Pid;
use surmise_linux::proc::{Entry, Maps, Stat, Status};
use surmise_sys::memory;

use crate::mappings;

/// READ_IMPLIES_EXEC of personality(2): the kernel takes it away.
const READ_IMPLIES_EXECUTE: u32 = 0x40_0000;

/// Whether on this machine a rollback can undo that a process executes a program.
pub fn can_undo_executions() -> bool {
    // Which label a program gets is up to rules that nobody here knows.
    let are_labelled = fs::read("/proc/self/attr/current").is_ok();
    !are_labelled && memory::are_barriers_told() && is_vdso_movable().unwrap_or(false)
}

/// The kernel may have sealed what it maps by itself (`CONFIG_MSEAL_SYSTEM_MAPPINGS`): then it stays where it is.
fn is_vdso_movable() -> io::Result<bool> {
    let maps = Maps::with_flags(Entry::own())?;
    let mut is_found = false;
    for map in maps.iter() {
        let map = map?;
        let path = map.path.to_string_lossy();
        if mappings::is_moved_by_kernel(&path) {
            is_found = true;
            if map.has_flag("sl") != Some(false) {
                return Ok(false);
            }
        }
    }
    Ok(is_found)
}

/// What a process with one thread would lose for good by executing a program that gives no rights, as the end of a sentence about the
/// process.
///
/// # Errors
/// As for reading /proc.
pub fn lasts_beyond_execution(process: Pid) -> io::Result<Option<&'static str>> {
    let status = Status::of(process)?;
    if !status.is_one_user() || !status.keeps_capabilities() {
        return Ok(Some("would have other rights"));
    }
    if status.has_locked_memory() {
        return Ok(Some("has locked its memory"));
    }
    if status.has_special_memory() {
        return Ok(Some("has a shadow stack or tags addresses"));
    }
    let entry = Entry::from(process);
    // Who is not to be looked into has these files belong to root.
    let owner = fs::metadata(entry.path("stat"))?;
    let own = status.user();
    if own != Some(owner.uid()) {
        return Ok(Some("may not be dumped"));
    }
    if !Stat::of(process)?.tells_by_signal() {
        return Ok(Some("tells its parent of its end by another signal"));
    }
    let told = entry.read("personality")?;
    let personality = std::str::from_utf8(&told).ok();
    let personality = personality.and_then(|told| u32::from_str_radix(told.trim(), 16).ok());
    if personality.is_none_or(|personality| personality & READ_IMPLIES_EXECUTE != 0) {
        return Ok(Some("executes whatever it can read"));
    }
    if !entry.read("timers")?.is_empty() {
        return Ok(Some("has timers"));
    }
    if has_limited_memory(&entry)? {
        return Ok(Some("may have little memory"));
    }
    memory_that_lasts(entry)
}

/// The memory is mapped anew, and more than it was at once: that might be refused.
fn has_limited_memory(entry: &Entry) -> io::Result<bool> {
    let limits = entry.read("limits")?;
    let limits = String::from_utf8_lossy(&limits);
    let is_unlimited = |name| {
        let line = limits.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|line: &str| line.split_ascii_whitespace().next()) == Some("unlimited")
    };
    Ok(!["Max address space", "Max data size"]
        .into_iter()
        .all(is_unlimited))
}

/// As [`lasts_beyond_execution`], of what the process has mapped.
fn memory_that_lasts(entry: Entry) -> io::Result<Option<&'static str>> {
    let maps = Maps::with_flags(entry)?;
    for map in maps.iter() {
        let map = map?;
        let path = map.path.to_string_lossy();
        let has_name = path.starts_with('/')
            && !["/dev/", "/memfd:", "/SYSV"]
                .iter()
                .any(|kind| path.starts_with(kind))
            && !path.ends_with(" (deleted)");
        if map.is_shared && map.has_flag("mw") != Some(false) {
            return Ok(Some("may write to memory that others may read"));
        }
        if map.is_shared && !has_name {
            return Ok(Some("shares memory that has no name"));
        }
        // MADV_WIPEONFORK, MAP_DROPPABLE: what must be in one process alone.
        if ["wf", "dp"]
            .iter()
            .any(|flag| map.has_flag(flag) != Some(false))
        {
            return Ok(Some("has memory that no copy has"));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::process::{Command, Stdio};

    use surmise_testkit::tell;

    use super::*;

    #[test]
    fn only_a_plain_process_loses_nothing() {
        tell(format_args!(
            "executions can be undone: {}",
            can_undo_executions()
        ));
        let timer = "import ctypes,signal\nlibc = ctypes.CDLL(None)\nt = ctypes.c_void_p()\n\
                     assert libc.timer_create(0, None, ctypes.byref(t)) == 0\n";
        let limit =
            "import resource\nresource.setrlimit(resource.RLIMIT_DATA, (1 << 30, 1 << 30))\n";
        let shared = "import mmap\nm = mmap.mmap(-1, 4096)\n";
        let removed = "import mmap,os,tempfile\nf = tempfile.TemporaryFile(buffering=0)\nf.write(b'x')\n\
                       r = os.open('/proc/self/fd/%d' % f.fileno(), os.O_RDONLY)\n\
                       m = mmap.mmap(r, 1, mmap.MAP_SHARED, mmap.PROT_READ)\nf.close()\n";
        let wiped = "import mmap\nm = mmap.mmap(-1, 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)\n\
                     m.madvise(18)\n";
        for (prepare, loses) in [
            ("", None),
            (timer, Some("has timers")),
            (limit, Some("may have little memory")),
            (shared, Some("may write to memory that others may read")),
            (removed, Some("shares memory that has no name")),
            // MADV_WIPEONFORK.
            (wiped, Some("has memory that no copy has")),
        ] {
            let script = format!("{prepare}print(flush=True)\ninput()");
            let mut child = Command::new("python3")
                .args(["-S", "-E", "-c", &script])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .expect("start python3");
            let mut line = [0];
            let output = child.stdout.as_mut().expect("piped");
            output.read_exact(&mut line).expect("it is ready");
            let told = lasts_beyond_execution(Pid::from_child(&child)).expect("look");
            assert_eq!(told, loses);
            drop(child.stdin.take());
            child.wait().expect("wait");
        }
    }
}
