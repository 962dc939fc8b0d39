//! Which processes have FIFOs of the view open, to borrow their ends, and to know what opening one would tell.

use std::io;
use std::os::fd::{OwnedFd, RawFd};

use rustix::fs::OFlags;
use rustix::process::Pid;
use surmise_syscalls::Syscall;

use super::conduit::Conduit;
use super::family::tells_by_signal;
use super::fifo::{self, Fifo};
use super::holders::{Holders, Open};
use super::open_ends::{End, Pipe, Side, ends_at, ends_of};
use super::seen::Seen;
use super::task::Reached;
use super::{Learnt, Machine, task, unless_out_of_reach};
use crate::call::Call;
use crate::objects::files::Target;
use crate::objects::pipe::Queue;
use crate::world::{Fifos, Found, Still};

/// How often the processes are looked for.
const LOOKS_MAX: usize = 100;

/// An end that was borrowed, and from where.
struct Borrowed {
    file: OwnedFd,
    from: (Pid, RawFd),
    /// Whether that process may execute something.
    executes: bool,
}

impl Fifos<Conduit> for Machine {
    fn may_open_fifo(&self, call: &Call) -> bool {
        let [_, second, third, ..] = *call.arguments();
        let flags = match call.name() {
            Syscall::Open => second,
            Syscall::Openat => third,
            // What it opens, and how, stands in memory.
            Syscall::Creat | Syscall::Openat2 | Syscall::OpenByHandleAt => 0,
            _ => return false,
        };
        let is_place = flags & u64::from(OFlags::PATH.bits()) != 0;
        let learnt = self.learnt.as_ref();
        !is_place && learnt.is_some_and(|learnt| learnt.seen.has_fifos())
    }

    fn kept_fifos(&mut self, still: &[Still]) -> io::Result<Vec<(Pid, Target)>> {
        let Some(Learnt { seen, holders, .. }) = &mut self.learnt else {
            return Ok(Vec::new());
        };
        let found = holders.kept_fifos(still, seen);
        unless_out_of_reach(found, Vec::new())
    }

    fn fifo(&self, pipe: &Conduit) -> Option<Target> {
        match pipe {
            Conduit::Fifo(fifo) => Some(Target::Inode(fifo.inode)),
            Conduit::Pipe(..) | Conduit::Connection(..) => None,
        }
    }
}

impl Holders {
    fn kept_fifos(&mut self, still: &[Still], seen: &Seen) -> io::Result<Vec<(Pid, Target)>> {
        self.forget_others(still);
        let mut known: Vec<(End, Open)> = Vec::new();
        let mut found = Vec::new();
        for (keeper, ends) in self.kept(still, seen)? {
            for end in ends {
                let Pipe::Named(inode) = end.pipe else {
                    continue;
                };
                let open = match known.iter().find(|(one, _)| *one == end) {
                    Some((_, open)) => *open,
                    None => self.is_open(end, still, seen)?,
                };
                known.push((end, open));
                if open != Open::Yes {
                    found.push((keeper, Target::Inode(inode)));
                }
            }
        }
        Ok(found)
    }

    /// Whether a process that executes something has an end of a FIFO open. False in doubt.
    pub(super) fn is_used(&self, end: End, still: &[Pid], seen: &Seen) -> io::Result<bool> {
        let found = self.find(end, still, seen)?;
        Ok(found.is_some_and(|found| found.executes))
    }

    /// An end of a FIFO, from a process that executes something if there is one; else from any other.
    fn find(&self, end: End, still: &[Pid], seen: &Seen) -> io::Result<Option<Borrowed>> {
        let executes =
            |process| !still.contains(&process) && tells_by_signal(process).unwrap_or(false);
        if let Some(&(process, number)) = self.witnesses.get(&end)
            && executes(process)
            && let Some(file) = borrow(end, (process, number), seen)?
        {
            let (from, executes) = ((process, number), true);
            return Ok(Some(Borrowed {
                file,
                from,
                executes,
            }));
        }
        let mut processes: Vec<_> = processes(seen)?
            .into_iter()
            .map(|process| (process, executes(process)))
            .collect();
        processes.sort_by_key(|(_, executes)| !executes);
        for (process, executes) in processes {
            let ends = unless_out_of_reach(ends_of(process, seen), Vec::new())?;
            for (number, _) in ends.into_iter().filter(|(_, one)| *one == end) {
                let from = (process, number);
                if let Some(file) = borrow(end, from, seen)? {
                    return Ok(Some(Borrowed {
                        file,
                        from,
                        executes,
                    }));
                }
            }
        }
        Ok(None)
    }
}

/// An end of a FIFO, if a descriptor of a process leads there.
fn borrow(end: End, (process, number): (Pid, RawFd), seen: &Seen) -> io::Result<Option<OwnedFd>> {
    // To look at the numbers first takes hold of nothing else.
    let ends = unless_out_of_reach(ends_at(process, number, seen), Vec::new())?;
    if !ends.contains(&end) {
        return Ok(None);
    }
    let reached = task::reached(process, number.cast_unsigned().into());
    let Some(reached) = unless_out_of_reach(reached, None)? else {
        return Ok(None);
    };
    let is_there = fifo::inode(&reached, seen)?.map(Pipe::Named) == Some(end.pipe);
    let (reads, writes) = fifo::sides(&reached.file)?;
    let is_for = match end.side {
        Side::Reading => reads,
        Side::Writing => writes,
    };
    Ok((is_there && is_for).then_some(reached.file))
}

/// The domain's processes; none where some have ended during each look.
fn processes(seen: &Seen) -> io::Result<Vec<Pid>> {
    for _ in 0..LOOKS_MAX {
        match seen.bystanders().tasks() {
            Err(error) if task::is_gone(&error) => {}
            tasks => {
                let mut processes: Vec<_> =
                    tasks?.into_iter().map(|(process, _)| process).collect();
                processes.dedup();
                return Ok(processes);
            }
        }
    }
    Ok(Vec::new())
}

impl Learnt {
    /// The queue of bytes of the FIFO of the view that has this inode, to which a descriptor leads.
    pub(super) fn fifo(
        &mut self,
        inode: u64,
        reached: &Reached,
        is_write: bool,
        still: &[Pid],
    ) -> io::Result<Option<Found<Conduit>>> {
        let (reads, writes) = fifo::sides(&reached.file)?;
        if self.seen.has_odd_fifos() || !(if is_write { writes } else { reads }) {
            return Ok(None);
        }
        let waits = !rustix::fs::fcntl_getfl(&reached.file)?.contains(OFlags::NONBLOCK);
        let end = |side| End {
            pipe: Pipe::Named(inode),
            side,
        };
        let mut side = |is_own: bool, side| -> io::Result<(Option<OwnedFd>, bool)> {
            if is_own {
                return Ok((Some(reached.file.try_clone()?), true));
            }
            let Some(found) = self.holders.find(end(side), still, &self.seen)? else {
                return Ok((None, false));
            };
            if found.executes {
                self.holders.witnesses.insert(end(side), found.from);
            }
            Ok((Some(found.file), found.executes))
        };
        let (reader, has_readers) = side(reads, Side::Reading)?;
        let (writer, has_writers) = side(writes, Side::Writing)?;
        Ok(Some(Found {
            place: fifo::place(inode),
            queue: Queue::First,
            pipe: Conduit::Fifo(Fifo {
                inode,
                reader,
                writer,
                has_writers,
                has_readers,
            }),
            waits,
            may_be_input: false,
        }))
    }

    /// Whether a question about a FIFO has no answer of the kernel's, since this program has both sides open, and no process that
    /// executes something has the other one.
    pub(super) fn is_ending_fifo(&self, reached: &Reached, still: &[Pid]) -> io::Result<bool> {
        let Some(inode) = fifo::inode(reached, &self.seen)? else {
            return Ok(false);
        };
        let side = match fifo::sides(&reached.file)? {
            (true, false) => Side::Writing,
            (false, true) => Side::Reading,
            _ => return Ok(false),
        };
        let pipe = Pipe::Named(inode);
        Ok(!self
            .holders
            .is_used(End { pipe, side }, still, &self.seen)?)
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::process::{Child, Command, Stdio};
    use std::time::{Duration, Instant};

    use rustix::fs::{CWD, Mode, mkfifoat, open};
    use surmise_linux::proc::{self, Opened};
    use surmise_sys::seccomp::Notification;
    use surmise_syscalls::row_of;
    use tempfile::TempDir;

    use super::*;
    use crate::machine::channels::Channels;
    use crate::machine::kinds::Kinds;
    use crate::world::Shut;

    /// A FIFO, with a child of a shell that has both sides open. The shell stands for pid 1.
    struct Setting {
        directory: TempDir,
        shell: Child,
        child: Pid,
        inode: u64,
        seen: Seen,
        holders: Holders,
    }

    impl Setting {
        fn new() -> Self {
            let directory = tempfile::tempdir().expect("a directory");
            let path = directory.path().join("fifo");
            mkfifoat(CWD, &path, Mode::RWXU).expect("a FIFO");
            let own = open(&path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).expect("open");
            let script = "exec 3<> fifo; sleep 60 & exec 3>&-; read line; kill $!; wait $!";
            let mut command = Command::new("sh");
            command.args(["-c", script]).current_dir(&directory);
            command.stdin(Stdio::piped()).stderr(Stdio::null());
            let shell = command.spawn().expect("start sh");
            let init = Pid::from_child(&shell);
            let known = Reached::by(own);
            let number = known.file.as_raw_fd();
            let opened = Opened::of(rustix::process::getpid(), number).expect("look");
            let seen = Seen::below_in_view(init, opened.mount);
            let inode = fifo::inode(&known, &seen).expect("look");
            let inode = inode.expect("it is on that mount");
            let begun = Instant::now();
            let child = loop {
                assert!(begun.elapsed() < Duration::from_secs(10), "no child");
                let [child] = task::children(init, init).expect("children")[..] else {
                    continue;
                };
                // By then the shell has closed its ends, and its child executes the program.
                let ends = ends_of(init, &seen).expect("look").into_iter();
                let has_closed = ends
                    .map(|(_, end)| end.pipe)
                    .all(|one| one != Pipe::Named(inode));
                if has_closed && proc::name(child).is_ok_and(|name| name == "sleep") {
                    break child;
                }
            };
            Self {
                directory,
                shell,
                child,
                inode,
                seen,
                holders: Holders::default(),
            }
        }

        fn kept(&mut self, still: &[Pid]) -> Vec<(Pid, Target)> {
            let still: Vec<_> = still
                .iter()
                .map(|&process| Still {
                    process,
                    is_image: false,
                })
                .collect();
            let kept = self.holders.kept_fifos(&still, &self.seen);
            kept.expect("look")
        }

        fn end(&self, side: Side) -> End {
            let pipe = Pipe::Named(self.inode);
            End { pipe, side }
        }
    }

    impl Drop for Setting {
        fn drop(&mut self) {
            drop(self.shell.stdin.take());
            let _ = self.shell.wait();
        }
    }

    #[test]
    fn a_fifo_is_kept_that_no_process_has_open_which_executes_anything() {
        let mut setting = Setting::new();
        let (child, inode) = (setting.child, setting.inode);
        let kept = (child, Target::Inode(inode));
        assert_eq!(setting.kept(&[child]), [kept.clone(), kept]);
        assert_eq!(setting.kept(&[]), []);
        let shell = Pid::from_child(&setting.shell);
        assert_eq!(setting.kept(&[shell]), []);
    }

    #[test]
    fn a_reader_is_told_of_the_end_of_a_fifo_as_of_a_nameless_pipe() {
        let mut setting = Setting::new();
        let path = setting.directory.path().join("fifo");
        let reader = open(&path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).expect("open");
        let file = std::fs::File::open(setting.directory.path()).expect("open");
        let still = [Still {
            process: setting.child,
            is_image: false,
        }];
        let seen = &setting.seen;
        let mut shut = |name, number: RawFd, still: &[Still]| {
            let row = row_of(name);
            let notification = Notification {
                id: 0,
                thread: rustix::process::getpid(),
                number: row.number(),
                arguments: [number as u64, 0, 1, 0, 0, 0],
                instruction_pointer: 0,
            };
            let call = Call { notification, row };
            let known = (&Channels::default(), seen, &Kinds::default());
            let found = setting.holders.shut_pipes(&call, still, known);
            found.expect("look")
        };
        let wanted = |is_end| Shut {
            keepers: vec![setting.child],
            is_end,
            place: fifo::place(setting.inode),
        };
        let number = reader.as_raw_fd();
        assert_eq!(shut(Syscall::Read, number, &still), [wanted(true)]);
        assert_eq!(shut(Syscall::Ioctl, number, &still), [wanted(false)]);
        assert_eq!(shut(Syscall::Read, number, &[]), []);
        assert_eq!(shut(Syscall::Read, file.as_raw_fd(), &still), []);
    }

    #[test]
    fn an_end_is_borrowed_from_who_executes_something_if_anybody_does() {
        let mut setting = Setting::new();
        let child = setting.child;
        for side in [Side::Reading, Side::Writing] {
            let end = setting.end(side);
            let find = |still: &[Pid]| {
                let found = setting.holders.find(end, still, &setting.seen);
                found.expect("look").expect("somebody has it")
            };
            let used = find(&[]);
            assert!(used.executes && used.from == (child, 3));
            assert!(!find(&[child]).executes);
            let (reads, writes) = fifo::sides(&used.file).expect("look");
            assert!(reads && writes);
        }
        // By the descriptor that it was seen at.
        let end = setting.end(Side::Writing);
        setting.holders.witnesses.insert(end, (child, 3));
        let is_used = |still: &[Pid]| setting.holders.is_used(end, still, &setting.seen);
        assert!(is_used(&[]).expect("look") && !is_used(&[child]).expect("look"));
        let other = End {
            pipe: Pipe::Named(setting.inode + 1),
            ..end
        };
        let found = setting.holders.find(other, &[], &setting.seen);
        assert!(found.expect("look").is_none());
    }
}
