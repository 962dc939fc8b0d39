//! What /proc says of a task that has made a call.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::path::PathBuf;

use rustix::fs::{FileType, OFlags, Stat};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags};
pub(crate) use surmise_linux::proc::is_gone;
use surmise_linux::proc::{self, Entry, Opened, Task};
use surmise_sys::memory;
use surmise_sys::pagemap::PAGE;

/// The process that a thread belongs to; `None` once it has ended.
pub(crate) fn process_of(thread: Pid) -> io::Result<Option<Pid>> {
    // The kernel opens no thread but a process' first, which most callers are: that is the shortest answer.
    match rustix::process::pidfd_open(thread, PidfdFlags::empty()) {
        Ok(_) => return Ok(Some(thread)),
        Err(Errno::SRCH) => return Ok(None),
        Err(_) => {}
    }
    match numbered(thread, "Tgid:") {
        Err(error) if is_gone(&error) => Ok(None),
        process => process,
    }
}

/// The parent of a process.
pub(crate) fn parent_of(process: Pid) -> io::Result<Option<Pid>> {
    numbered(process, "PPid:")
}

/// The process whose number a task's status has in a field (proc_pid_status(5)).
fn numbered(task: Pid, field: &str) -> io::Result<Option<Pid>> {
    let status = Entry::from(task).read("status")?;
    let status = String::from_utf8_lossy(&status);
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    Ok(line.and_then(|digits| Pid::from_raw(digits.trim().parse().ok()?)))
}

/// The threads of a process, rising.
pub(crate) fn threads(process: Pid) -> io::Result<Vec<Pid>> {
    proc::threads(process)
}

/// The children that a thread has borne or inherited.
pub(crate) fn children(process: Pid, thread: Pid) -> io::Result<Vec<Pid>> {
    proc::children(Task { process, thread })
}

/// Whether a thread executes nothing any more.
pub(crate) fn is_zombie(process: Pid, thread: Pid) -> io::Result<bool> {
    Ok(proc::Stat::of(Task { process, thread })?.is_zombie())
}

/// What a descriptor of a process leads to.
pub(crate) struct Reached {
    pub(crate) file: OwnedFd,
    pub(crate) kind: FileType,
    /// Its attributes, if they are for this process to see.
    pub(crate) stat: Option<Stat>,
}

impl Reached {
    pub(crate) fn by(file: OwnedFd) -> Self {
        let stat = rustix::fs::fstat(&file);
        let kind = match &stat {
            Ok(stat) => FileType::from_raw_mode(stat.st_mode),
            // A file of the view, whose attributes are for nobody outside the domain: no socket or device then.
            Err(Errno::ACCESS) => match rustix::pipe::fcntl_getpipe_size(&file) {
                Ok(_) => FileType::Fifo,
                Err(_) => FileType::RegularFile,
            },
            Err(_) => FileType::Unknown,
        };
        let stat = stat.ok();
        Self { file, kind, stat }
    }

    /// The number of the character device that it is, if it is one.
    pub(crate) fn device(&self) -> Option<u64> {
        let is_device = self.kind == FileType::CharacterDevice;
        self.stat.filter(|_| is_device).map(|stat| stat.st_rdev)
    }
}

/// What a descriptor of a process leads to; `None` where there is none, or the process has ended.
pub(crate) fn reached(process: Pid, number: u64) -> io::Result<Option<Reached>> {
    Ok(open_file(process, number)?.map(Reached::by))
}

/// What a descriptor of a process leads to, if its attributes are for this process to see.
pub(crate) fn file(process: Pid, number: u64) -> io::Result<Option<(OwnedFd, Stat)>> {
    let reached = reached(process, number)?;
    Ok(reached.and_then(|Reached { file, stat, .. }| Some((file, stat?))))
}

fn open_file(process: Pid, number: u64) -> io::Result<Option<OwnedFd>> {
    // The kernel looks at the lower half of the register alone.
    let number = number as RawFd;
    if number < 0 {
        return Ok(None);
    }
    let opened = rustix::process::pidfd_open(process, PidfdFlags::empty()).and_then(|pidfd| {
        rustix::process::pidfd_getfd(pidfd.as_fd(), number, PidfdGetfdFlags::empty())
    });
    match opened {
        Ok(file) => Ok(Some(file)),
        Err(Errno::BADF | Errno::SRCH) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// The kind of file that a descriptor leads to; `None` where there is none, or the process has ended.
pub(crate) fn file_type(process: Pid, number: u64) -> io::Result<Option<FileType>> {
    Ok(reached(process, number)?.map(|reached| reached.kind))
}

/// What a descriptor of a process leads to, and its kind.
pub(crate) fn typed_file(process: Pid, number: u64) -> io::Result<Option<(OwnedFd, FileType)>> {
    let reached = reached(process, number)?;
    Ok(reached.map(|reached| (reached.file, reached.kind)))
}

/// Whether a call of mmap(2) with these arguments makes memory that others may have, too.
pub(crate) fn is_shared_map(arguments: &[u64; 6]) -> bool {
    /// MAP_SHARED, also in MAP_SHARED_VALIDATE.
    const SHARED: u64 = 1;
    arguments[3] & SHARED != 0
}

/// Whether such a call of a process makes memory that the process can never store into: a map of a regular file that
/// was opened for reading only. The kernel refuses to make the map writable, now and later (mprotect(2), EACCES).
///
/// False where another thread could put another file in the descriptor's place between this look and the call.
pub(crate) fn maps_for_reading(process: Pid, arguments: &[u64; 6]) -> io::Result<bool> {
    /// PROT_WRITE.
    const WRITE: u64 = 2;
    /// MAP_ANONYMOUS.
    const WITHOUT_FILE: u64 = 0x20;
    let [_, _, protection, flags, descriptor, _] = *arguments;
    if protection & WRITE != 0 || flags & WITHOUT_FILE != 0 || threads(process)?.len() != 1 {
        return Ok(false);
    }
    let Some(Reached { file, kind, .. }) = reached(process, descriptor)? else {
        return Ok(false);
    };
    let mode = rustix::fs::fcntl_getfl(&file)? & OFlags::RWMODE;
    Ok(mode == OFlags::RDONLY && kind == FileType::RegularFile)
}

/// The kernel's number of the mount that a descriptor leads to (proc_pid_fdinfo(5)).
pub(crate) fn mount_of(process: Pid, number: u64) -> io::Result<Option<u64>> {
    Ok(opened(process, number)?.map(|opened| opened.mount))
}

/// The kernel's number of the inode that a descriptor leads to (proc_pid_fdinfo(5), since Linux 5.14).
pub(crate) fn inode_of(process: Pid, number: u64) -> io::Result<Option<u64>> {
    Ok(opened(process, number)?.and_then(|opened| opened.inode))
}

/// What the kernel says of a descriptor (proc_pid_fdinfo(5)); `None` if there is none.
pub(crate) fn opened(process: Pid, number: u64) -> io::Result<Option<Opened>> {
    match Opened::of(process, number as RawFd) {
        // There is no such descriptor.
        Err(error) if is_gone(&error) => Ok(None),
        opened => opened.map(Some),
    }
}

/// Where a process' working directory is, by its name inside.
pub(crate) fn directory(process: Pid) -> io::Result<PathBuf> {
    // Only the link is read: the view is for nobody outside the domain.
    fs::read_link(format!("/proc/{}/cwd", process.as_raw_nonzero()))
}

/// Where a descriptor of a process leads, by its name inside.
pub(crate) fn link(process: Pid, number: u64) -> io::Result<PathBuf> {
    let (process, number) = (process.as_raw_nonzero(), number as RawFd);
    fs::read_link(format!("/proc/{process}/fd/{number}"))
}

/// A path in a process' memory.
pub(crate) fn string(process: Pid, address: u64) -> Option<CString> {
    let mut bytes = Vec::new();
    // No further than to the end of a page: the next may not be there.
    let mut at = address;
    while bytes.len() <= PAGE as usize {
        let mut piece = vec![0; (PAGE - at % PAGE) as usize];
        memory::read(process, at, &mut piece).ok()?;
        if let Some(end) = piece.iter().position(|&byte| byte == 0) {
            bytes.extend(&piece[..end]);
            return CString::new(bytes).ok();
        }
        at += piece.len() as u64;
        bytes.append(&mut piece);
    }
    None
}

/// Of clone(2).
pub(crate) const CLONE_THREAD: u64 = 0x1_0000;

/// AT_FDCWD of openat(2).
pub(crate) const HERE: i32 = -100;

/// A word of a process' memory.
pub(crate) fn word(process: Pid, address: u64) -> io::Result<u64> {
    let mut bytes = [0; 8];
    memory::read(process, address, &mut bytes)?;
    Ok(u64::from_ne_bytes(bytes))
}

/// Writes bytes into a process' memory, where there is room: at each address so many.
pub(crate) fn fill(process: Pid, room: &[(u64, u64)], bytes: &[u8]) -> io::Result<()> {
    let mut rest = bytes;
    for &(address, length) in room {
        let (piece, others) = rest.split_at(rest.len().min(length as usize));
        memory::write(process, address, piece)?;
        rest = others;
    }
    Ok(())
}

/// What a process has in memory, in bytes (proc_pid_statm(5)).
pub(crate) fn resident(process: Pid) -> Option<u64> {
    let sizes = Entry::from(process).read("statm").ok()?;
    let sizes = String::from_utf8_lossy(&sizes);
    let pages: u64 = sizes.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(pages * PAGE)
}

/// What the machine has, in bytes.
pub(crate) fn memory() -> u64 {
    let info = rustix::system::sysinfo();
    info.totalram as u64 * u64::from(info.mem_unit)
}

/// Whether nothing can be learnt of a task: it has ended, or may not be looked into.
pub(crate) fn is_out_of_reach(error: &io::Error) -> bool {
    is_gone(error) || error.kind() == io::ErrorKind::PermissionDenied
}
