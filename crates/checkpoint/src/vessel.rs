//! The stopped copy of a process that holds what the process was.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::io::Errno;
use rustix::process::{Pid, Signal};
use surmise_linux::proc::{Status, is_gone};
use surmise_sys::ptrace::{self, News, Stopped, call};
use surmise_sys::vdso;

use crate::held::{Hand, Held};

/// A process that executes nothing of its own: it holds memory, descriptors, handlers of signals, the
/// working directory and all else that a process has and its threads have not. So what the process closes
/// stays open until the vessel has ended.
#[derive(Debug)]
pub(crate) struct Vessel {
    process: Pid,
    /// Its number as the process sees it, whose child it is.
    inner: u64,
    /// How many the process had made before.
    order: u64,
    /// Once something was asked of it.
    held: Option<Held>,
}

impl Vessel {
    /// Has a thread of the process, all of whose threads are stopped, make a vessel, or a deputy: by these flags of clone(2).
    /// `order` is how many the process has made before.
    pub(crate) fn make(
        flags: u64,
        maker: &mut Hand<'_>,
        children: &mut Children,
        order: u64,
    ) -> io::Result<Self> {
        let inner = maker.call(call::CLONE, [flags, 0, 0, 0, 0, 0])?;
        let process = match children.numbered(maker.held.thread(), inner) {
            Ok(process) => process,
            Err(error) => {
                // Nobody here knows it: let go, it would be a second process that does the same.
                let kill = Signal::KILL.as_raw().cast_unsigned();
                maker.call(call::KILL, [inner, kill.into(), 0, 0, 0, 0])?;
                return Err(error);
            }
        };
        Ok(Self {
            process,
            inner,
            order,
            held: None,
        })
    }

    pub(crate) fn process(&self) -> Pid {
        self.process
    }

    /// How many vessels of its process are older.
    pub(crate) fn order(&self) -> u64 {
        self.order
    }

    /// Its number as its parent sees it.
    pub(crate) fn inner(&self) -> u64 {
        self.inner
    }

    /// Itself, stopped, for calls that tell what it holds.
    pub(crate) fn held(&mut self) -> io::Result<&mut Held> {
        if self.held.is_none() {
            self.held = Some(Held::resting(self.born()?)?);
        }
        Ok(self.held.as_mut().expect("made above"))
    }

    fn born(&self) -> io::Result<Stopped> {
        let born = born(self.process)?;
        born.ok_or_else(|| Errno::SRCH.into())
    }

    /// Whether somebody has killed it. What was read of it before is good if it has not been.
    pub(crate) fn was_killed(&self) -> bool {
        self.born().is_err()
    }

    /// Kills it. Its memory is freed soon, by its own end: that takes long where it is much.
    pub(crate) fn kill(&self) -> io::Result<()> {
        // Fails only when it was killed already.
        let _ = self.born().and_then(|stopped| stopped.end_without_stop());
        match rustix::process::kill_process(self.process, Signal::KILL) {
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Returns when it has ended, once it was killed, and its memory is free. It stays a zombie of the
    /// process whose copy it is, so its number is nobody else's.
    pub(crate) fn await_end(&self) -> io::Result<()> {
        loop {
            match ptrace::wait(self.process) {
                Ok(News::Ended(_)) => return Ok(()),
                Ok(News::Stopped(stopped, _)) => drop(stopped.go_on()),
                // A loop that waits for news of all tracees has heard of its end.
                Err(error) if is_gone(&error) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }
}

/// Waits for the stop before its first instruction, to which a process was born a tracee. A loop that waits for news of
/// all tracees may have heard of that stop already. `None`: it was killed.
pub(crate) fn born(process: Pid) -> io::Result<Option<Stopped>> {
    loop {
        if let Some(stopped) = Stopped::now(process) {
            return Ok(Some(stopped));
        }
        if let Some(News::Ended(_)) = ptrace::poll(process)? {
            return Ok(None);
        }
        std::thread::yield_now();
    }
}

/// Whether a stopped tracee is a vessel, that of a process which was killed while it made it included: it is
/// the only kind of process that was born by the vDSO's instruction and has executed nothing since. It must never
/// be let go, since it would be a second process that does the same.
///
/// # Errors
/// As for ptrace(2): when it has ended.
pub fn is_vessel(stopped: &Stopped) -> io::Result<bool> {
    let registers = stopped.registers()?;
    let is_born = registers.call() == Some(call::CLONE) && registers.result() == 0;
    // Without a vDSO, or memory, nobody makes vessels.
    let is_behind = |instruction| registers.instruction_pointer() == instruction;
    Ok(is_born && vdso::behind_instruction(stopped.thread()).is_ok_and(is_behind))
}

/// Where the kernel lists the children of a thread of a process. It stays open, since a look by the file's
/// name takes several times as long as reading it.
#[derive(Debug, Default)]
pub(crate) struct Children {
    opened: Option<(Pid, File)>,
}

impl Children {
    /// The child of a stopped thread that has this number where the thread sees it. The kernel appends children
    /// to their parent's list, so it is one of the last: orphans are adopted meanwhile.
    fn numbered(&mut self, thread: Pid, inner: u64) -> io::Result<Pid> {
        if self.opened.as_ref().is_none_or(|(of, _)| *of != thread) {
            let number = thread.as_raw_nonzero();
            let path = format!("/proc/{number}/task/{number}/children");
            self.opened = Some((thread, File::open(path)?));
        }
        let (_, file) = self.opened.as_ref().expect("opened above");
        let text = whole(file)?;
        let children = text.split(u8::is_ascii_whitespace).rev();
        let mut children = children
            .filter_map(|number| Pid::from_raw(std::str::from_utf8(number).ok()?.parse().ok()?));
        children
            .find(|&child| is_numbered(child, inner))
            .ok_or_else(|| io::Error::other("the vessel is not among the children of its maker"))
    }
}

/// Whether a process has a number in the innermost pid namespace that it is in.
fn is_numbered(process: Pid, inner: u64) -> bool {
    let number = Status::of(process).ok().and_then(|status| status.inner());
    number.is_some_and(|number| u64::try_from(number.as_raw_pid()) == Ok(inner))
}

/// All that a file of /proc says now.
fn whole(file: &File) -> io::Result<Vec<u8>> {
    let mut text = vec![0; 1024];
    let mut length = 0;
    loop {
        match file.read_at(&mut text[length..], length as u64)? {
            0 => break,
            read => length += read,
        }
        if length == text.len() {
            text.resize(2 * length, 0);
        }
    }
    text.truncate(length);
    Ok(text)
}
