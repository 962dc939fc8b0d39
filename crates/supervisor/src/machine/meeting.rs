//! What it takes to let a call happen of a task that depends on something undecided: one module for each handler of the
//! table.
//!
//! Each module sees the call, and what it leads to, and says what it takes to let it happen. Whatever no module knows waits,
//! which is always correct.

mod apart;
mod data;
mod descriptors;
mod durability;
mod events;
mod execution;
mod memory;
mod network;
mod process;
mod signals;
mod view;

use std::io;

use rustix::fs::FileType;
use rustix::process::Pid;
use surmise_syscalls::{Disposition, Handler, Kind as Column, Syscall};

use super::channels::Channels;
use super::kinds::Kinds;
use super::seen::Seen;
use super::{Machine, task};
use crate::call::Call;
use crate::kind::Kind;
use crate::meeting::Meeting;
use crate::member::Member;
use crate::objects::files::{End, Files};

pub(super) use apart::{is_apart, touches_nothing};
pub(super) use process::may_reap_children;
pub(super) use view::removes_directory;

/// A call with all that a module may ask.
pub(crate) struct Met<'a> {
    /// The number of the call.
    call: u64,
    pub(crate) process: Pid,
    /// The thread of the process that calls.
    pub(crate) thread: Pid,
    pub(crate) name: Syscall,
    pub(crate) arguments: [u64; 6],
    pub(crate) known: Known<'a>,
}

impl Met<'_> {
    /// The kind of file that a descriptor leads to; `None` where there is none.
    fn kind(&self, number: u64) -> io::Result<Option<FileType>> {
        let told = self.known.kinds.told(self.call, number);
        // While its only thread waits in the call, nobody puts another file there.
        match told.filter(|_| !self.known.seen.may_share_descriptors(self.process)) {
            Some(kind) => Ok(kind),
            None => task::file_type(self.process, number),
        }
    }

    /// Whether the process depends on something undecided and has no image: it was born so.
    fn has_no_image(&self) -> bool {
        let member = self.known.member;
        member.is_some_and(|member| member.images().len() == 0)
    }

    /// Whether the process has images, and none has the caller: a rollback ends that thread.
    fn is_in_no_image(&self) -> bool {
        self.known.member.is_some_and(|member| {
            let mut images = member.images();
            images.len() > 0 && !images.any(|image| image.has_thread(self.thread))
        })
    }
}

/// What is known of a process that calls, and of its domain.
#[derive(Clone, Copy)]
pub(crate) struct Known<'a> {
    pub(crate) channels: &'a Channels,
    pub(crate) seen: &'a Seen,
    pub(crate) kinds: &'a Kinds,
    /// The process, if it depends on something undecided already.
    pub(crate) member: Option<&'a Member<Machine>>,
    /// What the paths of the call lead to, if they were looked up.
    pub(crate) ends: &'a [End],
    /// Whom to ask what the view knows.
    pub(crate) files: Option<&'a dyn Files>,
    /// Whether a program that a tracee executes gets the rights that it would get untraced.
    pub(crate) keeps_rights: bool,
    /// Whether on this machine a rollback can undo that a process executes a program.
    pub(crate) can_undo_executions: bool,
}

/// What it takes to let a call of a process happen.
pub(super) fn meet(process: Pid, call: &Call, known: Known<'_>) -> io::Result<Meeting> {
    let met = Met {
        call: call.notification.id,
        process,
        thread: call.thread(),
        name: call.name(),
        arguments: *call.arguments(),
        known,
    };
    match call
        .row
        .disposition_with(Column::Prediction, call.arguments())
    {
        Disposition::Allow => return Ok(Meeting::Pass(Kind::None)),
        // A rollback could not restore that; it destroys such a process, and ends such a thread.
        Disposition::Wait | Disposition::Track
            if met.has_no_image() && is_its_own(&met)
                || met.is_in_no_image() && is_its_threads(&met) =>
        {
            return Ok(Meeting::Pass(Kind::Process));
        }
        // Threads that the images have are still there, and so is the process.
        Disposition::Hold if met.is_in_no_image() && met.name == Syscall::Exit => {
            return Ok(Meeting::Pass(Kind::Thread));
        }
        Disposition::Refuse(_) | Disposition::Wait => return Ok(Meeting::Wait),
        Disposition::Track | Disposition::Hold => {}
    }
    match call.row.handler() {
        Handler::Data => data::meet(&met),
        Handler::Descriptors => descriptors::meet(&met),
        Handler::Durability => durability::meet(&met),
        Handler::Events => Ok(events::meet(&met)),
        Handler::Exec => execution::meet(&met),
        Handler::Memory => memory::meet(&met),
        Handler::Network => Ok(network::meet(&met)),
        Handler::Process => process::meet(&met),
        Handler::Signals => signals::meet(&met),
        Handler::View => view::meet(&met),
        _ => Ok(Meeting::Wait),
    }
}

/// Whether a call changes something of its thread or process alone. A process without an image is destroyed with that.
fn is_its_own(met: &Met<'_>) -> bool {
    match met.name {
        Syscall::Setrlimit | Syscall::Alarm | Syscall::Setitimer => true,
        // Zero is the caller.
        Syscall::Prlimit64 => met.arguments[0] as u32 == 0,
        _ => is_its_threads(met),
    }
}

/// Whether a call changes something of its thread alone.
fn is_its_threads(met: &Met<'_>) -> bool {
    match met.name {
        Syscall::SetTidAddress | Syscall::Sigaltstack => true,
        Syscall::Prctl => met.arguments[0] as u32 == process::SET_NAME,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::os::fd::AsRawFd;
    use std::process::{Command, Stdio};

    use rustix::io::{FdFlags, fcntl_setfd};
    use surmise_checkpoint::Change;
    use surmise_sys::seccomp::Notification;
    use surmise_syscalls::{Row, row_of, rows};

    use super::*;
    use crate::meeting::{Act, Wanted};

    /// By kind of object: calls that a rollback undoes, or that have nothing to undo.
    const PASSING: [(&str, &str); 10] = [
        ("borne", "fork vfork"),
        (
            "descriptor",
            "epoll_create epoll_create1 eventfd eventfd2 inotify_init inotify_init1 lseek memfd_create \
             pidfd_open pipe pipe2 pread64 preadv preadv2 read readv socket socketpair timerfd_create",
        ),
        ("events", "poll ppoll pselect6 select"),
        (
            "file",
            "access faccessat faccessat2 fgetxattr flistxattr fstat fstatfs getcwd getxattr lgetxattr \
             listxattr llistxattr lstat newfstatat readlink readlinkat stat statfs statx",
        ),
        ("input", "recvfrom"),
        ("memory", "mmap"),
        ("noted", "chdir fchdir umask"),
        ("process", "getpgid"),
        ("sent", "sendto"),
        ("timer", "alarm"),
    ];

    fn met(row: &'static Row, arguments: [u64; 6]) -> Meeting {
        met_of(rustix::process::getpid(), row, arguments)
    }

    fn met_of(process: Pid, row: &'static Row, arguments: [u64; 6]) -> Meeting {
        let (channels, seen) = (Channels::default(), Seen::in_view());
        let known = Known {
            channels: &channels,
            seen: &seen,
            kinds: &Kinds::default(),
            member: None,
            ends: &[],
            files: None,
            keeps_rights: true,
            can_undo_executions: true,
        };
        let notification = Notification {
            id: 0,
            thread: process,
            number: row.number(),
            arguments,
            instruction_pointer: 0,
        };
        meet(process, &Call { notification, row }, known).unwrap_or(Meeting::Wait)
    }

    /// Without a file and without memory, whatever a module does not know waits.
    #[test]
    fn only_these_calls_pass_that_the_table_has_somebody_look_at() {
        const NO_FILE: u64 = 1 << 20;
        let mut passing = BTreeMap::<_, Vec<_>>::new();
        for row in rows() {
            let arguments = [NO_FILE, 0, 0, 0, 0, 0];
            let disposition = row.disposition_with(Column::Prediction, &arguments);
            match (disposition, met(row, arguments)) {
                (Disposition::Allow, met) => assert_eq!(met, Meeting::Pass(Kind::None)),
                (Disposition::Track | Disposition::Hold, Meeting::Wait) => {}
                // What else this process' relatives do decides about it, and they are other tests'.
                (_, Meeting::Note(Change::Position(_)) | Meeting::Move(_)) => {}
                (Disposition::Track | Disposition::Hold, met) => {
                    let kind = match met {
                        Meeting::Pass(kind) => kind.name(),
                        Meeting::Note(_) | Meeting::NoteInNew(_) | Meeting::Depute(_) => "noted",
                        Meeting::Act(Act::Take(_)) => "input",
                        Meeting::Act(Act::Send { .. }) => "sent",
                        Meeting::Act(Act::Ask) => "events",
                        Meeting::Bear | Meeting::Lend { .. } => "borne",
                        Meeting::SetTimer => "timer",
                        Meeting::Act(_)
                        | Meeting::Move(_)
                        | Meeting::Signal(_)
                        | Meeting::Execute
                        | Meeting::Wait => "changed",
                    };
                    passing.entry(kind).or_default().push(row.name().as_str());
                }
                (_, met) => assert_eq!(met, Meeting::Wait, "{}", row.name()),
            }
        }
        let passing: Vec<_> = passing
            .into_iter()
            .map(|(kind, mut names)| {
                names.sort_unstable();
                (kind, names.join(" "))
            })
            .collect();
        let wanted = PASSING.map(|(kind, names)| (kind, names.to_owned()));
        assert_eq!(passing, wanted);
    }

    #[test]
    fn a_shared_map_passes_by_which_nobody_can_store() {
        const WRITABLE: u64 = 3;
        const SHARED: u64 = 1;
        const ANONYMOUS: u64 = 0x21;
        let path = std::env::temp_dir().join(format!("map{}", std::process::id()));
        std::fs::write(&path, "some").expect("a file");
        let open = |write| std::fs::File::options().read(true).write(write).open(&path);
        let (read_only, writable) = (open(false).expect("open"), open(true).expect("open"));
        let device = std::fs::File::open("/dev/zero").expect("a device");
        std::fs::remove_file(&path).expect("remove");
        for file in [&read_only, &writable, &device] {
            fcntl_setfd(file, FdFlags::empty()).expect("kept");
        }
        // A process of one thread, which has what this one has open.
        let mut other = Command::new("sh");
        let other = other.args(["-c", "read line"]).stdin(Stdio::piped());
        let mut other = other.spawn().expect("start sh");
        let process = Pid::from_child(&other);
        let maps = |file: &std::fs::File, protection, flags| {
            let arguments = [0, 4096, protection, flags, file.as_raw_fd() as u64, 0];
            met_of(process, row_of(Syscall::Mmap), arguments)
        };
        let passes = Meeting::Pass(Kind::Memory);
        assert_eq!(maps(&read_only, 1, SHARED), passes);
        assert_eq!(maps(&read_only, WRITABLE, SHARED), Meeting::Wait);
        assert_eq!(maps(&read_only, 1, ANONYMOUS), Meeting::Wait);
        assert_eq!(maps(&writable, 1, SHARED), Meeting::Wait);
        assert_eq!(maps(&device, 1, SHARED), Meeting::Wait);
        drop(other.stdin.take());
        other.wait().expect("wait");
    }

    #[test]
    fn a_device_that_keeps_nothing_is_read_and_written() {
        let open = |path: &str| {
            let file = std::fs::File::options().read(true).write(true).open(path);
            file.expect("a device")
        };
        let passes = Meeting::Pass(Kind::Descriptor);
        for (path, is_sink) in [
            ("/dev/null", true),
            ("/dev/zero", true),
            ("/dev/full", true),
            ("/dev/urandom", false),
        ] {
            let file = open(path);
            let arguments = [file.as_raw_fd() as u64, 64, 10, 0, 0, 0];
            for name in [Syscall::Read, Syscall::Readv, Syscall::Lseek] {
                assert_eq!(met(row_of(name), arguments), passes, "{name} {path}");
            }
            for name in [Syscall::Write, Syscall::Writev, Syscall::Pwrite64] {
                let passed = met(row_of(name), arguments) == passes;
                assert_eq!(passed, is_sink, "{name} {path}");
            }
        }
    }

    #[test]
    fn a_pipe_has_no_position() {
        let (reader, writer) = rustix::pipe::pipe().expect("a pipe");
        for end in [&reader, &writer] {
            let arguments = [end.as_raw_fd() as u64, 0, 1, 0, 0, 0];
            let met = met(row_of(Syscall::Lseek), arguments);
            assert_eq!(met, Meeting::Pass(Kind::Descriptor));
        }
    }

    #[test]
    fn what_is_read_once_is_looked_at_and_what_is_written_once_may_be_sent() {
        let (reader, writer) = rustix::pipe::pipe().expect("a pipe");
        let [from, to] = [&reader, &writer].map(|end| end.as_raw_fd() as u64);
        let row = row_of;
        let wanted = Wanted {
            descriptor: from,
            room: vec![(64, 10)],
            header: None,
            waits: true,
        };
        assert_eq!(
            met(row(Syscall::Read), [from, 64, 10, 0, 0, 0]),
            Meeting::Act(Act::Take(wanted))
        );
        for name in [Syscall::Preadv, Syscall::Readv, Syscall::Preadv2] {
            // The buffers are nowhere.
            let arguments = [from, 64, 2, 0, 0, 0];
            assert_eq!(met(row(name), arguments), Meeting::Wait, "{name}");
        }
        let send = Act::Send {
            descriptor: to,
            bytes: vec![(64, 10)],
        };
        let arguments = [to, 64, 10, 0, 0, 0];
        assert_eq!(met(row(Syscall::Write), arguments), Meeting::Act(send));
        for name in [Syscall::Writev, Syscall::Pwrite64] {
            let arguments = [to, 64, 10, 0, 0, 0];
            assert_eq!(met(row(name), arguments), Meeting::Wait, "{name}");
        }
    }
}
