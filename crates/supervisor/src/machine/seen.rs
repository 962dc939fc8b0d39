//! What tasks have done that a rollback could not cope with: looked for where somebody has done it at all.

mod bystanders;
pub(super) mod devices;
pub(super) mod names;
mod reapers;

use std::cell::Cell;
use std::collections::HashSet;
use std::io;

use rustix::fs::FileType;
use rustix::process::Pid;
use surmise_checkpoint::{Suspicions, obstacle};

use surmise_syscalls::Syscall;

use super::task;
use bystanders::Bystanders;
pub(super) use bystanders::is_past;
use names::Names;
use reapers::Reapers;

/// Whether a call makes its process one that adopts the orphans below it.
pub(super) fn makes_reaper(name: Syscall, arguments: &[u64; 6]) -> bool {
    Reapers::are_made_by(name, arguments)
}

/// Whether a process may store into the memory that a call of mmap(2) makes. True in doubt.
fn may_store(thread: Pid, arguments: &[u64; 6]) -> io::Result<bool> {
    let Some(process) = task::process_of(thread)? else {
        return Ok(true);
    };
    match task::maps_for_reading(process, arguments) {
        Err(error) if task::is_out_of_reach(&error) => Ok(true),
        for_reading => for_reading.map(|for_reading| !for_reading),
    }
}

/// What has been seen in the domain so far.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    suspicions: Suspicions,
    /// How many filters a process has from the start.
    filters: Option<u32>,
    has_jails: bool,
    passes_descriptors: bool,
    /// Whether a process outside may have been handed what processes here have open, or have handed them something.
    shares_outside: bool,
    has_odd_sockets: bool,
    has_odd_connections: bool,
    has_watches: bool,
    has_packets: bool,
    has_signals: bool,
    /// Whether somebody may have a FIFO of the view open: one was made, or met at a descriptor.
    has_fifos: Cell<bool>,
    may_notice_ends: bool,
    reaps_by_itself: bool,
    names: Names,
    bystanders: Bystanders,
    reapers: Reapers,
    /// The processes that have borne others.
    parents: HashSet<Pid>,
    /// Those that have had several threads.
    threaded: HashSet<Pid>,
    /// Whether processes may have a table of descriptors in common.
    shares_tables: bool,
    /// Whether a process may have something that it loses by executing a program, and that the kernel does not tell of.
    has_odd_tasks: bool,
}

/// Whether a call with this first argument sets what an execution of a program takes away, and what the kernel tells nobody of.
fn is_lost_by_execution(name: Syscall, first: u64) -> bool {
    match name {
        Syscall::Mlockall | Syscall::ModifyLdt | Syscall::Mbind => true,
        // ARCH_SET_CPUID, ARCH_REQ_XCOMP_PERM of arch_prctl(2).
        Syscall::ArchPrctl => matches!(first, 0x1012 | 0x1023),
        // PR_SET_DUMPABLE, PR_SET_SPECULATION_CTRL, PR_SET_SYSCALL_USER_DISPATCH of prctl(2).
        Syscall::Prctl => matches!(first, 4 | 53 | 59),
        _ => false,
    }
}

/// Whether a call of mknod(2) makes a FIFO.
fn makes_fifo(name: Syscall, arguments: &[u64; 6]) -> bool {
    let mode = match name {
        Syscall::Mknod => arguments[1],
        _ => arguments[2],
    };
    FileType::from_raw_mode(mode as u32) == FileType::Fifo
}

impl Seen {
    /// What has been seen of a domain with one mount, the view.
    #[cfg(test)]
    pub(crate) fn in_view() -> Self {
        Self {
            names: Names::of_view(),
            ..Self::default()
        }
    }

    /// What has been seen of a domain with this pid 1, whose view has this mount.
    #[cfg(test)]
    pub(crate) fn below_in_view(init: Pid, mount: u64) -> Self {
        Self {
            names: Names::of_view_at(mount),
            ..Self::below(init)
        }
    }

    /// What has been seen of a domain with this pid 1.
    #[cfg(test)]
    pub(crate) fn below(init: Pid) -> Self {
        Self {
            bystanders: Bystanders::below(init),
            ..Self::default()
        }
    }

    /// Looks at the command's process, before it has executed anything.
    pub(crate) fn begin(&mut self, process: Pid) -> io::Result<()> {
        self.filters = Some(surmise_checkpoint::filters(process)?);
        self.suspicions.pid_namespaces = Some(surmise_checkpoint::pid_namespaces(process)?);
        self.bystanders = Bystanders::of(process)?;
        self.names.begin(process)
    }

    /// Looks at a call that happens now, for what is learnt best when it is certain.
    pub(crate) fn note(
        &mut self,
        thread: Pid,
        name: Syscall,
        arguments: &[u64; 6],
    ) -> io::Result<()> {
        let bears = match name {
            Syscall::Fork | Syscall::Vfork => true,
            Syscall::Clone => arguments[0] & task::CLONE_THREAD == 0,
            _ => false,
        };
        if Reapers::are_made_by(name, arguments)
            && let Some(process) = task::process_of(thread)?
        {
            self.reapers.add(process);
        }
        if bears {
            self.parents.extend(task::process_of(thread)?);
        }
        if name == Syscall::Clone && arguments[0] & task::CLONE_THREAD != 0 {
            self.threaded.extend(task::process_of(thread)?);
        }
        Ok(())
    }

    /// Looks at a call of a thread that is about to happen.
    pub(crate) fn look(
        &mut self,
        thread: Pid,
        name: Syscall,
        arguments: &[u64; 6],
    ) -> io::Result<()> {
        if name == Syscall::Mmap && task::is_shared_map(arguments) && !self.has_shared_memory() {
            self.suspicions.shared_memory = may_store(thread, arguments)?;
        }
        self.look_at(name, arguments);
        Ok(())
    }

    /// As [`Self::look`], at what its arguments alone tell.
    pub(crate) fn look_at(&mut self, name: Syscall, arguments: &[u64; 6]) {
        /// PR_SET_SECCOMP of prctl(2).
        const SET_SECCOMP: u64 = 22;
        /// SOL_SOCKET, SO_RCVLOWAT and SO_PEEK_OFF of setsockopt(2).
        const SOCKET: u32 = 1;
        const ODD: [u32; 2] = [18, 42];
        /// SO_PASSCRED, SO_RCVTIMEO, SO_SNDTIMEO, SO_PASSSEC, both timeouts of 64 bits, SO_PASSPIDFD and SO_PASSRIGHTS: with these
        /// a socket tells of senders, or a call that was interrupted is not made again.
        const TELLING: [u32; 8] = [16, 20, 21, 34, 66, 67, 76, 83];
        /// MSG_OOB of send(2): it comes before what was sent earlier.
        const OUT_OF_BAND: u64 = 1;
        /// O_DIRECT of pipe2(2).
        const PACKETS: u64 = 0o40_000;
        /// O_ASYNC of fcntl(2), and FIOASYNC of ioctl(2).
        const ASYNC: u64 = 0o20_000;
        const SET_ASYNC: u32 = 0x5452;
        let [_, command, option, ..] = *arguments;
        self.has_odd_tasks |= is_lost_by_execution(name, arguments[0]);
        match name {
            Syscall::Shmat | Syscall::IoSetup => self.suspicions.shared_memory = true,
            Syscall::Clone => self.look_at_birth(arguments[0]),
            Syscall::Vfork => self.suspicions.sharing_children = true,
            Syscall::InotifyAddWatch => self.has_watches = true,
            // F_SETLEASE, F_NOTIFY of fcntl(2).
            Syscall::Fcntl if matches!(command as u32, 1024 | 1026) => self.has_watches = true,
            // O_DIRECT, of which only the writing end tells; F_SETFL.
            Syscall::Pipe2 if command & PACKETS != 0 => self.has_packets = true,
            Syscall::Fcntl if command as u32 == 4 => {
                self.has_packets |= option & PACKETS != 0;
                self.has_signals |= option & ASYNC != 0;
            }
            // A signal tells of what comes, whatever is denied later. What the latter sets stands in memory.
            Syscall::Ioctl if command as u32 == SET_ASYNC => self.has_signals = true,
            // A message may hold descriptors.
            Syscall::Sendmsg | Syscall::Sendmmsg | Syscall::PidfdGetfd => {
                self.passes_descriptors = true;
                let flags = match name {
                    Syscall::Sendmsg => option,
                    Syscall::Sendmmsg => arguments[3],
                    _ => 0,
                };
                self.has_odd_connections |= flags & OUT_OF_BAND != 0;
            }
            Syscall::Mknod | Syscall::Mknodat if makes_fifo(name, arguments) => self.note_fifo(),
            Syscall::Chroot => self.has_jails = true,
            Syscall::Setsockopt if command as u32 == SOCKET && ODD.contains(&(option as u32)) => {
                self.has_odd_sockets = true;
            }
            Syscall::Setsockopt
                if command as u32 == SOCKET && TELLING.contains(&(option as u32)) =>
            {
                self.has_odd_connections = true;
            }
            Syscall::Sendto if arguments[3] & OUT_OF_BAND != 0 => self.has_odd_connections = true,
            // By a pidfd; by what is undone or let go at the end of a process.
            Syscall::PidfdOpen | Syscall::Flock | Syscall::MqNotify => self.may_notice_ends = true,
            Syscall::Semop | Syscall::Semtimedop => self.may_notice_ends = true,
            Syscall::Unshare | Syscall::Setns => self.suspicions.namespaces = true,
            Syscall::Seccomp => self.suspicions.filters = self.filters,
            Syscall::Prctl if arguments[0] == SET_SECCOMP => self.suspicions.filters = self.filters,
            // The only advice that is an event.
            Syscall::Madvise => self.suspicions.hidden_memory = true,
            // F_SETLK, F_SETLKW of fcntl(2).
            Syscall::Fcntl if matches!(command as u32, 6 | 7) => self.suspicions.locks = true,
            // F_OFD_SETLK, F_OFD_SETLKW.
            Syscall::Fcntl if matches!(command as u32, 37 | 38) => self.may_notice_ends = true,
            _ => {}
        }
    }

    /// A call of clone(2) with these flags.
    fn look_at_birth(&mut self, flags: u64) {
        /// CLONE_VM, CLONE_FILES, CLONE_PIDFD and CLONE_NEWNS.
        const MEMORY: u64 = 0x100;
        const FILES: u64 = 0x400;
        const PIDFD: u64 = 0x1000;
        const MOUNTS: u64 = 0x2_0000;
        let is_process = flags & task::CLONE_THREAD == 0;
        self.suspicions.sharing_children |= is_process && flags & MEMORY != 0;
        self.shares_tables |= is_process && flags & FILES != 0;
        self.may_notice_ends |= flags & PIDFD != 0;
        self.suspicions.namespaces |= flags & MOUNTS != 0;
    }

    /// Whether a process may have another root than its domain: then it has no /proc, by which its directory
    /// could be given back.
    pub(crate) fn has_jails(&self) -> bool {
        self.has_jails
    }

    /// Whether a thread may have another directory or other mounts than its process and its domain.
    pub(crate) fn has_namespaces(&self) -> bool {
        self.suspicions.namespaces
    }

    /// Whether what is in a pipe may be more than a row of bytes, or a signal tells of it, or a process outside may have it open.
    pub(crate) fn has_odd_pipes(&self) -> bool {
        self.has_packets || self.has_signals || self.shares_outside
    }

    /// Likewise in a FIFO. One that was opened in a copy of the domain's mounts is not known as one of the view.
    pub(crate) fn has_odd_fifos(&self) -> bool {
        self.has_odd_pipes() || self.has_namespaces()
    }

    /// Whether somebody may have a FIFO of the view open. One that was there before the domain counts once a task has done something
    /// with it.
    pub(crate) fn has_fifos(&self) -> bool {
        self.has_fifos.get()
    }

    /// There is a FIFO in the view.
    pub(crate) fn note_fifo(&self) {
        self.has_fifos.set(true);
    }

    /// Whether a socket may tell less, or other things, than what has come.
    pub(crate) fn has_odd_sockets(&self) -> bool {
        self.has_odd_sockets
    }

    /// Whether what is on its way between two sockets may be more than a row of bytes, or who reads it may have no patience or
    /// be told by a signal, or be a process outside.
    pub(crate) fn has_odd_connections(&self) -> bool {
        self.has_odd_connections || self.has_signals || self.shares_outside
    }

    /// Whether any process may have memory that others have, too.
    pub(crate) fn has_shared_memory(&self) -> bool {
        self.suspicions.shared_memory
    }

    /// Whether somebody may be told at once what is changed.
    pub(crate) fn has_watches(&self) -> bool {
        self.has_watches
    }

    /// Whether somebody else than the parent of a process may notice its end: by what it is told of that, or by what the
    /// process has then let go.
    pub(crate) fn may_notice_ends(&self) -> bool {
        self.may_notice_ends
    }

    /// Whether the kernel may reap children by itself (SA_NOCLDWAIT of sigaction(2)).
    pub(crate) fn reaps_by_itself(&self) -> bool {
        self.reaps_by_itself
    }

    /// A process has asked for that.
    pub(crate) fn note_reaping(&mut self) {
        self.reaps_by_itself = true;
    }

    /// Whether a process is known to have children.
    pub(crate) fn is_parent(&self, process: Pid) -> bool {
        self.parents.contains(&process)
    }

    /// Whether a descriptor may have been sent to another process, and be in none meanwhile.
    pub(crate) fn passes_descriptors(&self) -> bool {
        self.passes_descriptors
    }

    /// Whether a process outside may have open what processes here have, by a descriptor that was sent.
    pub(crate) fn shares_outside(&self) -> bool {
        self.shares_outside
    }

    /// A process is about to send a descriptor to one outside, or to receive one from there.
    pub(crate) fn note_sharing_outside(&mut self) {
        self.shares_outside = true;
        self.passes_descriptors = true;
    }

    /// Whether a process may have several threads.
    pub(crate) fn has_threads(&self, process: Pid) -> bool {
        self.threaded.contains(&process)
    }

    /// Whether a process may have something that it loses by executing a program, and that the kernel does not tell of.
    pub(crate) fn has_odd_tasks(&self) -> bool {
        self.has_odd_tasks
    }

    /// Whether somebody else may close a descriptor of a process, or open another file by it.
    pub(crate) fn may_share_descriptors(&self, process: Pid) -> bool {
        self.shares_tables || self.has_threads(process)
    }

    /// Whether somebody else may store into the memory of a process.
    pub(crate) fn may_share_memory(&self, process: Pid) -> bool {
        self.has_shared_memory() || self.suspicions.sharing_children || self.has_threads(process)
    }

    /// Whether a process may share what it has open with others: its children, or a process that was sent it.
    pub(crate) fn has_borne(&self, process: Pid) -> bool {
        self.passes_descriptors || self.parents.contains(&process)
    }

    /// Whether the orphans of a process would be adopted by another than the domain's pid 1.
    pub(crate) fn has_reaper_above(&self, process: Pid) -> io::Result<bool> {
        self.reapers.are_above(process)
    }

    /// What of the file system is the view.
    pub(crate) fn names(&self) -> &Names {
        &self.names
    }

    /// The tasks of the domain.
    pub(crate) fn bystanders(&self) -> &Bystanders {
        &self.bystanders
    }

    /// Whether something about a process cannot be undone.
    pub(crate) fn obstructs(&self, process: Pid) -> io::Result<bool> {
        Ok(obstacle(process, self.suspicions)?.is_some() || self.has_reaper_above(process)?)
    }
}
