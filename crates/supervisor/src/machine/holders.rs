//! Which processes have the ends of a pipe open.

use std::collections::HashMap;
use std::io;
use std::os::fd::RawFd;

use rustix::fs::{FileType, Mode};
use rustix::process::Pid;
use surmise_linux::proc::{self, Entry, Link, Status, Task};
use surmise_syscalls::Syscall;

use super::channels::Channels;
use super::input::calls::{self, Reach};
use super::kinds::Kinds;
use super::readiness;
use super::seen::Seen;
use super::{Learnt, Machine, task, unless_out_of_reach};
use crate::call::Call;
use crate::objects::input::Place;
use crate::world::{Shut, Shutting, Still};

/// How often the tasks are looked at, until nobody is born or ends meanwhile.
const LOOKS_MAX: usize = 4;

/// A side of a pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Side {
    Reading,
    Writing,
}

/// A side of the pipe with this inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct End {
    pipe: u64,
    side: Side,
}

impl End {
    /// The other side of the same pipe.
    fn opposite(self) -> Self {
        let side = match self.side {
            Side::Reading => Side::Writing,
            Side::Writing => Side::Reading,
        };
        Self { side, ..self }
    }
}

/// What is known of the processes that have ends open.
#[derive(Debug, Default)]
pub(super) struct Holders {
    /// Of processes that hold images: what they have open never changes.
    images: HashMap<Pid, Vec<End>>,
    /// By which descriptor of which process each end was seen to be open last.
    witnesses: HashMap<End, (Pid, RawFd)>,
}

/// Whether an end is open in a process that may execute something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Open {
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
    fn shut_pipes(
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
        let ends = ends_touched(call, touched, kinds)?;
        let kept = match ends.is_empty() {
            true => Vec::new(),
            false => self.kept(still)?,
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
            let Some(place) = place_of(call.thread(), number)? else {
                continue;
            };
            if channels.is_from_outside(place) || !may_touch(call, place)? {
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
                is_end: is_told && open == Open::No && !seen.has_odd_pipes(),
                place,
            });
        }
        Ok(found)
    }

    /// Processes hold images no more, but for these: their numbers may come again.
    fn forget_others(&mut self, still: &[Still]) {
        let is_there = |process: &Pid| still.iter().any(|one| one.process == *process);
        self.images.retain(|process, _| is_there(process));
    }

    /// The ends that processes have open which execute nothing.
    fn kept(&mut self, still: &[Still]) -> io::Result<Vec<(Pid, Vec<End>)>> {
        let mut kept = Vec::new();
        for one in still {
            let ends = match self.images.get(&one.process) {
                Some(ends) => ends.clone(),
                None => {
                    let ends = ends_of(one.process)?.into_iter();
                    let ends: Vec<_> = ends.map(|(_, end)| end).collect();
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
    fn is_open(&mut self, end: End, still: &[Still], seen: &Seen) -> io::Result<Open> {
        let executes = |process| still.iter().all(|one| one.process != process);
        if let Some(&(process, number)) = self.witnesses.get(&end)
            && executes(process)
            && ends_at(process.into(), number)?.contains(&end)
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
                let Some(ends) = unless_out_of_reach(ends_of(other).map(Some), None)? else {
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
fn ends_touched(call: &Call, touched: Reach, kinds: &Kinds) -> io::Result<Vec<(RawFd, End)>> {
    let (thread, id) = (call.thread(), call.notification.id);
    match touched {
        Reach::Nothing => Ok(Vec::new()),
        // The kernel tells the kind of a file sooner than its name. Of a thread that is not its process' first, it tells none so.
        Reach::Descriptor(number) if !may_be_pipe(kinds.ask(thread, id, number)) => Ok(Vec::new()),
        // The kernel looks at the lower half of the register alone.
        Reach::Descriptor(number) => {
            let number = number as RawFd;
            let ends = ends_at(thread.into(), number)?.into_iter();
            Ok(ends.map(|end| (number, end)).collect())
        }
        Reach::Anything => ends_of(thread),
    }
}

/// Whether what was told of a file's kind leaves it open whether that is a pipe.
fn may_be_pipe(told: io::Result<Option<FileType>>) -> bool {
    told.map_or(true, |kind| {
        matches!(kind, Some(FileType::Fifo | FileType::Unknown))
    })
}

/// The ends of pipes that a task has open, with their numbers.
fn ends_of(entry: impl Into<Entry>) -> io::Result<Vec<(RawFd, End)>> {
    let entry = entry.into();
    let mut pipes = Vec::new();
    let listed = proc::each_link(entry.clone(), |number, link| {
        if let Link::Pipe(pipe) = link {
            pipes.push((number, pipe));
        }
    });
    unless_gone(listed)?;
    let mut ends = Vec::new();
    for (number, pipe) in pipes {
        let sides = sides(&entry, number)?;
        ends.extend(sides.map(|side| (number, End { pipe, side })));
    }
    Ok(ends)
}

/// The sides of a pipe that a descriptor of a task leads to, if to one: both where it was opened for both.
fn ends_at(entry: Entry, number: RawFd) -> io::Result<Vec<End>> {
    let link = unless_gone(Link::of(entry.clone(), number).map(Some))?;
    let Some(Link::Pipe(pipe)) = link else {
        return Ok(Vec::new());
    };
    Ok(sides(&entry, number)?
        .map(|side| End { pipe, side })
        .collect())
}

/// What a descriptor of a task is open for; nothing where there is none any more.
fn sides(entry: &Entry, number: RawFd) -> io::Result<impl Iterator<Item = Side> + use<>> {
    let path = entry.path("fd").join(number.to_string());
    // The link's own mode says that (proc_pid_fd(5)).
    let stat = unless_gone(rustix::fs::lstat(path).map(Some).map_err(Into::into))?;
    let mode = stat.map_or(Mode::empty(), |stat| Mode::from_raw_mode(stat.st_mode));
    let sides = [(Mode::RUSR, Side::Reading), (Mode::WUSR, Side::Writing)];
    let sides = sides.into_iter();
    let sides = sides.filter(move |(bit, _)| mode.contains(*bit));
    Ok(sides.map(|(_, side)| side))
}

fn place_of(thread: Pid, number: RawFd) -> io::Result<Option<Place>> {
    let path = Entry::from(thread).path("fd").join(number.to_string());
    let stat = unless_gone(rustix::fs::stat(path).map(Some).map_err(Into::into))?;
    Ok(stat.map(|stat| Place::of(&stat)))
}

/// Whether a call that may touch any of its process' pipes may touch this one. True in doubt.
fn may_touch(call: &Call, place: Place) -> io::Result<bool> {
    let process = task::process_of(call.thread())?;
    let may_touch = |process| {
        let place_of = |_: &_, stat: &_| Ok(Place::of(stat));
        readiness::may_touch(process, call, place, place_of).unwrap_or(true)
    };
    Ok(process.is_some_and(may_touch))
}

fn is_empty(thread: Pid, number: RawFd) -> io::Result<bool> {
    let Some(process) = task::process_of(thread)? else {
        return Ok(false);
    };
    let found = task::file(process, number.cast_unsigned().into())?;
    match found {
        Some((file, _)) => Ok(rustix::io::ioctl_fionread(&file)? == 0),
        None => Ok(false),
    }
}

fn unless_gone<T: Default>(result: io::Result<T>) -> io::Result<T> {
    match result {
        Err(error) if task::is_gone(&error) => Ok(T::default()),
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::{AsRawFd, OwnedFd};
    use std::process::{Child, Command, Stdio};
    use std::time::{Duration, Instant};

    use rustix::pipe::{PipeFlags, pipe_with};
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
            let pipe = rustix::fs::fstat(&reader).expect("stat").st_ino;
            let begun = Instant::now();
            let child = loop {
                assert!(begun.elapsed() < Duration::from_secs(10), "no child");
                let [child] = task::children(own, own).expect("children")[..] else {
                    continue;
                };
                // By then the shell has closed its end, and its child executes the program.
                let ends = ends_of(own).expect("look").into_iter();
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
        let end = ends_at(setting.child.into(), 1).expect("look")[0];
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

    #[test]
    fn an_end_is_one_by_what_it_was_opened_for() {
        let own = rustix::process::getpid();
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC).expect("a pipe");
        let sides = |end: &OwnedFd| {
            let ends = ends_at(own.into(), end.as_raw_fd()).expect("look");
            ends.iter().map(|end| end.side).collect::<Vec<_>>()
        };
        assert_eq!(sides(&reader), [Side::Reading]);
        assert_eq!(sides(&writer), [Side::Writing]);
        let path = format!("/proc/self/fd/{}", reader.as_raw_fd());
        let both = std::fs::File::options().read(true).write(true).open(path);
        let both = both.expect("open both").into();
        assert_eq!(sides(&both), [Side::Reading, Side::Writing]);
        let file = std::fs::File::open("/dev/null").expect("open").into();
        assert_eq!(sides(&file), []);
    }
}
