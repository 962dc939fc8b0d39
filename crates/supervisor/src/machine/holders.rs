//! Which processes have the ends of a pipe open.

use std::collections::HashMap;
use std::io;
use std::os::fd::RawFd;

use rustix::fs::FileType;
use rustix::process::Pid;
use surmise_linux::proc::{Entry, Status, Task};
use surmise_syscalls::Syscall;

use super::channels::Channels;
use super::input::calls::{self, Reach};
use super::kinds::Kinds;
use super::open_ends::{End, Pipe, Side, ends_at, ends_of, is_pipe, unless_gone};
use super::seen::Seen;
use super::task::Reached;
use super::{Learnt, Machine, fifo, readiness, task, unless_out_of_reach};
use crate::call::Call;
use crate::objects::input::Place;
use crate::world::{Shut, Shutting, Still};

/// How often the tasks are looked at, until nobody is born or ends meanwhile.
const LOOKS_MAX: usize = 4;

/// What is known of the processes that have ends open.
#[derive(Debug, Default)]
pub(super) struct Holders {
    /// Of processes that hold images: what they have open never changes.
    images: HashMap<Pid, Vec<End>>,
    /// Whether that is so of FIFOs, too.
    knows_fifos: bool,
    /// By which descriptor of which process each end was seen to be open last.
    pub(super) witnesses: HashMap<End, (Pid, RawFd)>,
}

/// Whether an end is open in a process that may execute something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Open {
    Yes,
    No,
    Unknown,
}

impl Shutting for Machine {
    fn shut_pipes(&mut self, call: &Call, still: &[Still]) -> io::Result<Vec<Shut>> {
        let Some(Learnt {
            channels: Some(channels),
            seen,
            holders,
            kinds,
            ..
        }) = &mut self.learnt
        else {
            return Ok(Vec::new());
        };
        let found = holders.shut_pipes(call, still, (channels, seen, kinds));
        unless_out_of_reach(found, Vec::new())
    }
}

impl Holders {
    pub(super) fn shut_pipes(
        &mut self,
        call: &Call,
        still: &[Still],
        (channels, seen, kinds): (&Channels, &Seen, &Kinds),
    ) -> io::Result<Vec<Shut>> {
        let touched = calls::touching(call.name(), call.arguments());
        if touched == Reach::Nothing {
            return Ok(Vec::new());
        }
        self.forget_others(still);
        if still.is_empty() {
            return Ok(Vec::new());
        }
        // Most calls touch none, which is known sooner than what all those have open.
        let ends = ends_touched(call, touched, (kinds, seen))?;
        let kept = match ends.is_empty() {
            true => Vec::new(),
            false => self.kept(still, seen)?,
        };
        let mut found = Vec::new();
        for (number, end) in ends {
            let opposite = end.opposite();
            let keepers = kept.iter().filter(|(_, ends)| ends.contains(&opposite));
            let keepers: Vec<_> = keepers.map(|(keeper, _)| *keeper).collect();
            if keepers.is_empty() {
                continue;
            }
            // One that was closed meanwhile is none.
            let Some(place) = place_of(call.thread(), (number, end))? else {
                continue;
            };
            if channels.is_from_outside(place) || !may_touch(call, place, seen)? {
                continue;
            }
            let is_read = matches!(call.name(), Syscall::Read | Syscall::Readv);
            if is_read && end.side == Side::Writing {
                // The call fails.
                continue;
            }
            let open = self.is_open(opposite, still, seen)?;
            // What is in a pipe is read before its end.
            if open == Open::Yes || is_read && !is_empty(call.thread(), number)? {
                continue;
            }
            let is_told = is_read || readiness::asks(call.name()) && end.side == Side::Reading;
            found.push(Shut {
                keepers,
                is_end: is_told && open == Open::No && !opposite.is_odd(seen),
                place,
            });
        }
        Ok(found)
    }

    /// Processes hold images no more, but for these: their numbers may come again.
    pub(super) fn forget_others(&mut self, still: &[Still]) {
        let is_there = |process: &Pid| still.iter().any(|one| one.process == *process);
        self.images.retain(|process, _| is_there(process));
    }

    /// The ends that processes have open which execute nothing.
    pub(super) fn kept(
        &mut self,
        still: &[Still],
        seen: &Seen,
    ) -> io::Result<Vec<(Pid, Vec<End>)>> {
        if !self.knows_fifos && seen.has_fifos() {
            self.images.clear();
            self.knows_fifos = true;
        }
        let mut kept = Vec::new();
        for one in still {
            let ends = match self.images.get(&one.process) {
                Some(ends) => ends.clone(),
                None => {
                    let ends = pipes_of(one.process, seen)?;
                    if one.is_image {
                        self.images.insert(one.process, ends.clone());
                    }
                    ends
                }
            };
            if !ends.is_empty() {
                kept.push((one.process, ends));
            }
        }
        Ok(kept)
    }

    /// Whether an end is open in another process than those that execute nothing.
    ///
    /// A process has an end from its birth, or opens one itself. So a process that closes its end after it has borne another is
    /// missed only if the other one is not in the list, or is in the next one alone. A thread that runs during the look may move
    /// an end from a number that was not looked at yet to one that was. So an end is open nowhere only if each thread has slept
    /// through the look. A descriptor that was sent may be in no process at all.
    pub(super) fn is_open(&mut self, end: End, still: &[Still], seen: &Seen) -> io::Result<Open> {
        let executes = |process| still.iter().all(|one| one.process != process);
        if let Some(&(process, number)) = self.witnesses.get(&end)
            && executes(process)
            && ends_at(process, number, seen)?.contains(&end)
        {
            return Ok(Open::Yes);
        }
        self.witnesses.remove(&end);
        let mut before = unless_gone(seen.bystanders().tasks())?;
        for _ in 0..LOOKS_MAX {
            let others = before.iter().filter(|(process, _)| executes(*process));
            let others: Vec<_> = others
                .map(|&(process, thread)| Task { process, thread })
                .collect();
            let asleep = asleep(&others)?;
            for &other in &others {
                let Some(ends) = unless_out_of_reach(ends_of(other, seen).map(Some), None)? else {
                    return Ok(Open::Unknown);
                };
                if let Some((number, _)) = ends.into_iter().find(|(_, found)| *found == end) {
                    if other.process == other.thread {
                        self.witnesses.insert(end, (other.process, number));
                    }
                    return Ok(Open::Yes);
                }
            }
            let after = unless_gone(seen.bystanders().tasks())?;
            if after == before && !after.is_empty() {
                let have_slept = asleep.is_some() && asleep == self::asleep(&others)?;
                return Ok(match have_slept && !seen.passes_descriptors() {
                    true => Open::No,
                    false => Open::Unknown,
                });
            }
            before = after;
        }
        Ok(Open::Unknown)
    }
}

/// How often threads have given up a processor, if all of them sleep: as long as that stays so, none executes anything.
fn asleep(tasks: &[Task]) -> io::Result<Option<Vec<(u64, u64)>>> {
    let mut switches = Vec::with_capacity(tasks.len());
    for &task in tasks {
        match unless_gone(Status::of(task).map(Some))? {
            Some(status) if status.state() != Some('R') => switches.push(status.switches()),
            _ => return Ok(None),
        }
    }
    Ok(Some(switches))
}

/// The ends of pipes that a call may touch, with their numbers.
fn ends_touched(
    call: &Call,
    touched: Reach,
    (kinds, seen): (&Kinds, &Seen),
) -> io::Result<Vec<(RawFd, End)>> {
    let (thread, id) = (call.thread(), call.notification.id);
    let mut ends = match touched {
        Reach::Nothing => return Ok(Vec::new()),
        // The kernel looks at the lower half of the register alone.
        Reach::Descriptor(number) => {
            // The kernel tells the kind of a file sooner than its name. Of a thread that is not its process' first, it tells none so.
            if !may_be_pipe(kinds.ask(thread, id, number)) {
                return Ok(Vec::new());
            }
            let descriptor = number as RawFd;
            let mut ends = ends_at(thread, descriptor, seen)?;
            if ends.is_empty() && meets_fifo(thread, number, seen)? {
                ends = ends_at(thread, descriptor, seen)?;
            }
            let ends = ends.into_iter();
            ends.map(|end| (descriptor, end)).collect()
        }
        Reach::Anything => ends_of(thread, seen)?,
    };
    let is_named = |(_, end): &(RawFd, End)| matches!(end.pipe, Pipe::Named(_));
    if ends.iter().any(is_named) {
        ends = match task::process_of(thread)? {
            Some(process) => pipes_among(ends, process, seen)?,
            None => Vec::new(),
        };
    }
    Ok(ends)
}

/// Whether a descriptor leads to a FIFO.
fn meets_fifo(thread: Pid, number: u64, seen: &Seen) -> io::Result<bool> {
    let Some(process) = task::process_of(thread)? else {
        return Ok(false);
    };
    let reached = unless_out_of_reach(task::reached(process, number), None)?;
    let inode = reached.map(|reached| fifo::inode(&reached, seen));
    Ok(inode.transpose()?.flatten().is_some())
}

/// Of files that a process has open, those that are pipes.
fn pipes_among(
    ends: Vec<(RawFd, End)>,
    process: Pid,
    seen: &Seen,
) -> io::Result<Vec<(RawFd, End)>> {
    let mut pipes = Vec::new();
    for end in ends {
        if is_pipe(process, end, seen)? {
            pipes.push(end);
        }
    }
    Ok(pipes)
}

/// The ends of pipes that a process has open, FIFOs of the view among them.
fn pipes_of(process: Pid, seen: &Seen) -> io::Result<Vec<End>> {
    let ends = pipes_among(ends_of(process, seen)?, process, seen)?;
    Ok(ends.into_iter().map(|(_, end)| end).collect())
}

/// Whether what was told of a file's kind leaves it open whether that is a pipe.
fn may_be_pipe(told: io::Result<Option<FileType>>) -> bool {
    told.map_or(true, |kind| {
        matches!(kind, Some(FileType::Fifo | FileType::Unknown))
    })
}

fn place_of(thread: Pid, (number, end): (RawFd, End)) -> io::Result<Option<Place>> {
    if let Pipe::Named(inode) = end.pipe {
        return Ok(Some(fifo::place(inode)));
    }
    let path = Entry::from(thread).path("fd").join(number.to_string());
    let stat = unless_gone(rustix::fs::stat(path).map(Some).map_err(Into::into))?;
    Ok(stat.map(|stat| Place::of(&stat)))
}

/// Whether a call that may touch any of its process' pipes may touch this one. True in doubt.
fn may_touch(call: &Call, place: Place, seen: &Seen) -> io::Result<bool> {
    let process = task::process_of(call.thread())?;
    let may_touch = |process| {
        let place_of = |reached: &Reached| {
            Ok(match fifo::inode(reached, seen)? {
                Some(inode) => Some(fifo::place(inode)),
                None => reached.stat.as_ref().map(Place::of),
            })
        };
        readiness::may_touch(process, call, place, place_of).unwrap_or(true)
    };
    Ok(process.is_some_and(may_touch))
}

fn is_empty(thread: Pid, number: RawFd) -> io::Result<bool> {
    let Some(process) = task::process_of(thread)? else {
        return Ok(false);
    };
    let found = task::reached(process, number.cast_unsigned().into())?;
    match found {
        Some(reached) => Ok(rustix::io::ioctl_fionread(&reached.file)? == 0),
        None => Ok(false),
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::{AsRawFd, OwnedFd};
    use std::process::{Child, Command, Stdio};
    use std::time::{Duration, Instant};

    use rustix::pipe::{PipeFlags, pipe_with};
    use surmise_linux::proc;
    use surmise_sys::seccomp::Notification;
    use surmise_syscalls::row_of;

    use super::*;

    /// A pipe, with a child of a shell that has it open for writing, which the shell has not. The shell stands for pid 1.
    struct Setting {
        reader: OwnedFd,
        writer: OwnedFd,
        shell: Child,
        child: Pid,
        seen: Seen,
        holders: Holders,
    }

    impl Setting {
        fn new() -> Self {
            let (reader, writer) = pipe_with(PipeFlags::CLOEXEC).expect("a pipe");
            let mut command = Command::new("sh");
            command.args(["-c", "sleep 60 & exec >&-; read line; kill $!; wait $!"]);
            command.stdin(Stdio::piped()).stderr(Stdio::null());
            command.stdout(writer.try_clone().expect("duplicate"));
            let shell = command.spawn().expect("start sh");
            drop(command);
            let own = Pid::from_child(&shell);
            let pipe = Pipe::Nameless(rustix::fs::fstat(&reader).expect("stat").st_ino);
            let begun = Instant::now();
            let child = loop {
                assert!(begun.elapsed() < Duration::from_secs(10), "no child");
                let [child] = task::children(own, own).expect("children")[..] else {
                    continue;
                };
                // By then the shell has closed its end, and its child executes the program.
                let ends = ends_of(own, &Seen::default()).expect("look").into_iter();
                let has_closed = ends.map(|(_, end)| end.pipe).all(|one| one != pipe);
                if has_closed && proc::name(child).expect("a name") == "sleep" {
                    break child;
                }
            };
            let seen = Seen::below(own);
            Self {
                reader,
                writer,
                shell,
                child,
                seen,
                holders: Holders::default(),
            }
        }

        /// What stands in the way of a call of this process on its end for reading, while the child executes nothing.
        fn shut(&mut self, name: Syscall) -> Vec<Shut> {
            let still = Still {
                process: self.child,
                is_image: false,
            };
            self.shut_by(name, &[still])
        }

        fn shut_by(&mut self, name: Syscall, still: &[Still]) -> Vec<Shut> {
            let own = rustix::process::getpid();
            let row = row_of(name);
            let notification = Notification {
                id: 0,
                thread: own,
                number: row.number(),
                arguments: [self.reader.as_raw_fd() as u64, 0, 1, 0, 0, 0],
                instruction_pointer: 0,
            };
            let call = Call { notification, row };
            let channels = Channels::default();
            let known = (&channels, &self.seen, &Kinds::default());
            let found = self.holders.shut_pipes(&call, still, known);
            found.expect("look")
        }
    }

    impl Drop for Setting {
        fn drop(&mut self) {
            drop(self.shell.stdin.take());
            let _ = self.shell.wait();
        }
    }

    #[test]
    fn a_pipe_is_shut_that_no_process_has_open_which_executes_anything() {
        let mut setting = Setting::new();
        let wanted = |setting: &Setting, is_end| Shut {
            keepers: vec![setting.child],
            is_end,
            place: Place::of(&rustix::fs::fstat(&setting.reader).expect("stat")),
        };
        let told = [wanted(&setting, true)];
        assert_eq!(setting.shut(Syscall::Read), told);
        assert_eq!(setting.shut(Syscall::Poll), told);
        assert_eq!(setting.shut_by(Syscall::Read, &[]), []);
        assert_eq!(setting.shut(Syscall::Getpgid), []);
        let refused = wanted(&setting, false);
        assert_eq!(setting.shut(Syscall::Ioctl), [refused]);
        // What is there is read first.
        rustix::io::write(&setting.writer, b"x").expect("write");
        assert_eq!(setting.shut(Syscall::Read), []);
        assert_eq!(setting.shut(Syscall::Poll).len(), 1);
    }

    #[test]
    fn a_pipe_is_open_as_long_as_anybody_has_it_who_executes_something() {
        let mut setting = Setting::new();
        let shell = Still {
            process: Pid::from_child(&setting.shell),
            is_image: true,
        };
        // It has another pipe open, which this process has not for reading.
        assert_eq!(setting.shut_by(Syscall::Read, &[shell]), []);
        let end = ends_at(setting.child, 1, &setting.seen).expect("look")[0];
        assert_eq!(end.side, Side::Writing);
        let mut open = |still: &[Still]| setting.holders.is_open(end, still, &setting.seen);
        assert_eq!(open(&[]).expect("look"), Open::Yes);
        // The second time by the descriptor that it was seen at.
        assert_eq!(open(&[shell]).expect("look"), Open::Yes);
        let child = Still {
            process: setting.child,
            is_image: true,
        };
        assert_eq!(open(&[child]).expect("look"), Open::No);
    }

    #[test]
    fn nobody_knows_who_has_a_descriptor_once_any_was_sent() {
        let mut setting = Setting::new();
        setting.seen.look_at(Syscall::Sendmsg, &[0; 6]);
        for name in [Syscall::Read, Syscall::Poll] {
            let found = setting.shut(name);
            assert!(found.len() == 1 && !found[0].is_end, "{found:?}");
        }
    }
}
