//! The tracer: stops all tasks, holds them, and lets them go.
//!
//! A task that is stopped bears no children, and one whose stop was asked for bears at most the one
//! that it is about to bear. So each look at the tree finds fewer tasks that are new, and the freeze
//! is complete when a look finds no others than those that were all stopped before it began. That
//! they have stopped when it ends is not enough: one may have borne a child in between.

use std::collections::HashSet;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal};
use rustix::time::Timespec;
use surmise_sys::ptrace::{self, Stopped};
use surmise_sys::signals::{self, SignalFd};

use super::message::{self, Report};
use super::{FreezeError, system, tracee};
use crate::proc::{Doing, Entry, Status, Task, doing, is_gone, or_gone, tasks};

/// How long the tracer waits before it looks whether a task that does not stop waits in vfork.
const PAUSE: Duration = Duration::from_millis(2);

/// How long a task has to sleep in vfork until it counts as waiting there. While it makes its child it sleeps, too,
/// for moments, and the kernel may tell the same place of both, or none: a task that has just fallen asleep stays
/// in the run queue for a while (delayed dequeue, since Linux 6.12).
const VFORK_MIN: Duration = Duration::from_millis(50);

/// How long a domain may take to end.
const END_MAX: Duration = Duration::from_secs(2);

/// Signals of a terminal or a user to all of control's group are control's to handle; and the tracer
/// takes the news of its tracees from a descriptor.
const BLOCKED: [Signal; 11] = [
    Signal::HUP,
    Signal::INT,
    Signal::QUIT,
    Signal::TERM,
    Signal::PIPE,
    Signal::USR1,
    Signal::USR2,
    Signal::TSTP,
    Signal::TTIN,
    Signal::TTOU,
    Signal::CHILD,
];

/// The tracer's whole life; returns its exit status.
pub(super) fn live(init: Pid, limit: Duration, control: &OwnedFd) -> u8 {
    // Only for whoever lists the processes.
    let _ = rustix::thread::set_name(c"surmise-tracer");
    let watched = signals::block(&BLOCKED)
        .and_then(|_| ptrace::reap_on_signal())
        .and_then(|()| SignalFd::new(&[Signal::CHILD]));
    let news = match watched.map_err(system("watch the tracees")) {
        Ok(news) => news,
        Err(error) => {
            message::send(control, &Report::Failed(error));
            return 1;
        }
    };
    // Now, while the number cannot be another's.
    let domain = rustix::process::pidfd_open(init, PidfdFlags::empty());
    let mut tracees = Tracees::default();
    let frozen = tracees.freeze(init, &news, Instant::now() + limit);
    let held = match frozen {
        Ok(tasks) => {
            message::send(control, &Report::Frozen(tasks));
            hold(&news, control).and_then(|()| match message::is_let_go(control) {
                true => Ok(()),
                false => end(&domain?, &news),
            })
        }
        Err(_) => Ok(()),
    };
    tracees.let_go();
    // Only now: whoever hears of a failure may rely on it that all go on.
    if let Err(error) = frozen {
        message::send(control, &Report::Failed(error));
        return 1;
    }
    u8::from(held.is_err())
}

/// How often a task may get another number just while it is seized.
const TRIES: usize = 5;

/// What came of seizing a task.
enum Seizure {
    Tracee,
    /// It executes nothing any more.
    Zombie,
    /// It has ended, or has executed a program and got the number of its process' first thread, which
    /// may have been passed by as a zombie.
    Vanished,
}

/// The threads that the tracer has seized. Some may have ended since.
#[derive(Default)]
struct Tracees(HashSet<Pid>);

impl Tracees {
    /// Returns how many tasks are stopped.
    fn freeze(
        &mut self,
        init: Pid,
        news: &SignalFd,
        deadline: Instant,
    ) -> Result<usize, FreezeError> {
        // All tasks of the last look, if all of them had stopped before this one.
        let mut stopped = None;
        loop {
            let (found, mut all_rest) = self.seize_all(init)?;
            for &task in &found {
                all_rest &= self.await_rest(task, news, deadline)?;
            }
            let now: HashSet<Task> = found.into_iter().collect();
            if all_rest && stopped.as_ref() == Some(&now) {
                self.drop_strangers(&now);
                return Ok(now.len());
            }
            // They may multiply faster than they are found.
            if Instant::now() >= deadline {
                for &task in &now {
                    if let Some(seen) = tasks::look(task).map_err(waiting)? {
                        return Err(busy(task, &seen));
                    }
                }
            }
            stopped = all_rest.then_some(now);
        }
    }

    /// Makes every task that it finds a tracee that is to stop. Returns those that live, and whether
    /// none can be missing.
    fn seize_all(&mut self, init: Pid) -> Result<(Vec<Task>, bool), FreezeError> {
        let mut found = Vec::new();
        let mut vanished = false;
        let whole = tasks::visit(init, &mut |task| {
            match self.seize(task)? {
                Seizure::Tracee => found.push(task),
                Seizure::Zombie => {}
                Seizure::Vanished => vanished = true,
            }
            Ok(())
        })
        .map_err(|failure: Cut| failure.0)?;
        Ok((found, whole && !vanished))
    }

    /// Makes a task a tracee that is to stop. That it was a tracee before is not enough: an exec by
    /// another thread gives the number to that one.
    fn seize(&mut self, task: Task) -> Result<Seizure, Cut> {
        let mut tries = TRIES;
        loop {
            let Some(seen) = tasks::look(task)? else {
                return Ok(Seizure::Vanished);
            };
            if has_ended(&seen) {
                return Ok(Seizure::Zombie);
            }
            let pid = task.thread.as_raw_nonzero().get();
            let name = seen.name().to_owned();
            match seen.tracer() {
                Some(tracer) if tracer == rustix::process::getpid() => {
                    self.0.insert(task.thread);
                    return Ok(Seizure::Tracee);
                }
                Some(_) => return Err(Cut(FreezeError::Traced { pid, name })),
                None if tries == 0 => return Err(Cut(FreezeError::Denied { pid, name })),
                None => {}
            }
            // When it fails, the task has ended, or had another number when it was seen.
            if tracee::seize(task.thread).is_ok() {
                self.0.insert(task.thread);
                return Ok(Seizure::Tracee);
            }
            tries -= 1;
        }
    }

    /// Waits until a task executes nothing and will execute nothing; false if it has ended instead.
    fn await_rest(
        &self,
        task: Task,
        news: &SignalFd,
        deadline: Instant,
    ) -> Result<bool, FreezeError> {
        let mut in_vfork: Option<((u64, u64), Instant)> = None;
        loop {
            ptrace::reap();
            let seen = tasks::look(task).map_err(waiting)?;
            let Some(seen) = seen.filter(|seen| !has_ended(seen)) else {
                return Ok(false);
            };
            let rests = match seen.state() {
                Some('t') => Stopped::now(task.thread).is_some(),
                Some('D') if may_wait_in_vfork(task, &seen).map_err(waiting)? => {
                    let same = in_vfork.filter(|(switches, _)| *switches == seen.switches());
                    let begun = same.unwrap_or((seen.switches(), Instant::now()));
                    in_vfork = Some(begun);
                    begun.1.elapsed() >= VFORK_MIN
                }
                _ => false,
            };
            if rests {
                return Ok(true);
            }
            if Instant::now() >= deadline {
                return Err(busy(task, &seen));
            }
            // What was asked of another number is not known by this one.
            tracee::interrupt(task.thread);
            wait(news, None, Some(PAUSE)).map_err(waiting)?;
        }
    }

    /// Lets go of what is not in the domain: a number that a process outside got just before it was
    /// seized. From then on a number stays its own.
    fn drop_strangers(&mut self, tasks: &HashSet<Task>) {
        let known: HashSet<Pid> = tasks.iter().map(|task| task.thread).collect();
        for stopped in self
            .0
            .difference(&known)
            .filter_map(|&thread| Stopped::now(thread))
        {
            tracee::let_go(stopped);
        }
        self.0 = known;
    }

    /// Lets all go on that are stopped, with their signals. The others the kernel lets go at the end
    /// of this process, as it forgets that they were to stop.
    fn let_go(self) {
        for stopped in self.0.into_iter().filter_map(Stopped::now) {
            tracee::let_go(stopped);
        }
    }
}

/// Whoever wanted the tasks to stand still has died, and so their domain ends. They must not go on before:
/// they would begin calls that the view cannot answer any more, and hold what its last thread waits for.
fn end(init: &OwnedFd, news: &SignalFd) -> io::Result<()> {
    match rustix::process::pidfd_send_signal(init, Signal::KILL) {
        Ok(()) | Err(Errno::SRCH) => {}
        Err(errno) => return Err(errno.into()),
    }
    let deadline = Instant::now() + END_MAX;
    while !wait(news, Some(init), Some(END_MAX))? && Instant::now() < deadline {
        ptrace::reap();
    }
    Ok(())
}

/// Until control says so or dies. Tracees that are killed meanwhile are reaped at once: a pid 1 that
/// ends waits for it.
fn hold(news: &SignalFd, control: &OwnedFd) -> io::Result<()> {
    while !wait(news, Some(control), None)? {
        ptrace::reap();
    }
    Ok(())
}

/// Why a walk over the tasks was ended.
struct Cut(FreezeError);

impl From<io::Error> for Cut {
    fn from(error: io::Error) -> Self {
        Self(system("find the tasks")(error))
    }
}

fn has_ended(seen: &Status) -> bool {
    matches!(seen.state(), Some('Z' | 'X'))
}

fn busy(task: Task, seen: &Status) -> FreezeError {
    FreezeError::Busy {
        pid: task.thread.as_raw_nonzero().get(),
        name: seen.name().to_owned(),
    }
}

fn waiting(error: io::Error) -> FreezeError {
    system("wait for the tasks")(error)
}

/// Whether a task that was seen to sleep uninterruptibly may be a parent in vfork, which goes on only after its
/// child's exec or end. One that shows nobody what it does (PR_SET_DUMPABLE) is taken to sleep for a moment.
fn may_wait_in_vfork(task: Task, seen: &Status) -> io::Result<bool> {
    let call = match doing(task) {
        Ok(Doing::Calling(call)) => call,
        Ok(_) => return Ok(false),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied || is_gone(&error) => {
            return Ok(false);
        }
        Err(error) => return Err(error),
    };
    let bears = [libc::SYS_vfork, libc::SYS_clone, libc::SYS_clone3];
    if !bears.contains(&call.number.into()) {
        return Ok(false);
    }
    // "0" where the kernel does not tell.
    let place = or_gone(Entry::from(task).text("wchan"))?;
    let has_slept = tasks::look(task)?
        .is_some_and(|now| (now.state(), now.switches()) == (seen.state(), seen.switches()));
    let is_vfork = place == "0" || place.contains("vfork") || place.contains("kernel_clone");
    Ok(has_slept && is_vfork)
}

/// Waits for news of tracees or until `control` is closed, and returns whether that is so.
fn wait(news: &SignalFd, control: Option<&OwnedFd>, limit: Option<Duration>) -> io::Result<bool> {
    let limit = limit.map(|limit| Timespec::try_from(limit).expect("a short wait"));
    let mut polled = vec![PollFd::new(news, PollFlags::IN)];
    polled.extend(control.map(|control| PollFd::from_borrowed_fd(control.as_fd(), PollFlags::IN)));
    match rustix::event::poll(&mut polled, limit.as_ref()) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(errno) => return Err(errno.into()),
    }
    let closed = polled
        .get(1)
        .is_some_and(|control| !control.revents().is_empty());
    // Several ends may be one signal, so the signal only says to look.
    while news.next()?.is_some() {}
    Ok(closed)
}
