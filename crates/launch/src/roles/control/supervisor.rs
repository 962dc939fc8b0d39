//! The supervisor, as control has to do with it. Whether it answers may depend on others, a reader of output
//! for one: so nothing here waits for it without end.

use std::cell::{Cell, RefCell};
use std::io;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::process::Signal;
use rustix::time::Timespec;
use surmise_kept::Link;
use surmise_sync::Epochs;
use surmise_sys::process::{self, Child};

use super::Job;
use super::start::pair;
use crate::error::LaunchError;
use crate::files::UndecidedFiles;
use crate::refusals::Telling;
use crate::roles::supervisor::{SupervisorOrder, SupervisorProcess, SupervisorReport};

/// Its process, and what it said.
pub(super) struct SupervisorRole {
    pub(super) process: Child,
    /// Whether it may trace tasks, which end only when it lets go of them.
    pub(super) may_trace: bool,
    /// What the domain's output waits for, under external synchrony.
    pub(super) epochs: Option<Epochs>,
    dialogue: Dialogue,
}

/// What was asked and said.
struct Dialogue {
    /// Closed, it tells the supervisor to end.
    link: Link,
    /// What it said while it was asked for something else.
    said: RefCell<Vec<SupervisorReport>>,
    /// The number of the last question.
    asked: Cell<u64>,
}

/// How long the supervisor may take to decide what is undecided.
const SETTLING_MAX: Duration = Duration::from_secs(2);
/// How long the supervisor may take to say what it did, and to end.
const REPORTING_MAX: Duration = Duration::from_secs(1);
/// How long pid 1 may take to end when it was killed. It waits for tasks that the supervisor traces, whose end
/// is for their tracer to hear of first.
pub(super) const FREEING_MAX: Duration = Duration::from_secs(1);

impl SupervisorRole {
    /// With pid 1's end of the link by which the supervisor gets the listener.
    pub(super) fn start(
        job: &Job<'_>,
        files: Option<UndecidedFiles>,
        telling: &Option<Telling>,
    ) -> Result<(Self, Link), LaunchError> {
        let epochs = job.synchrony.map(|options| {
            let epochs = Epochs::shared(options.driver.device(), options.promise);
            epochs.map_err(LaunchError::step("count promises with other domains"))
        });
        let epochs = epochs.transpose()?;
        let (link, control) = pair()?;
        let (init_listener, init) = pair()?;
        let guessing = job.launch.guessing.clone();
        let may_trace = !guessing.is_empty();
        let owned = SupervisorProcess {
            control,
            init,
            guessing,
            files,
            synchrony: job.synchrony.cloned().zip(epochs.clone()),
            telling: telling.clone(),
            sockets_stay_inside: job.sockets_stay_inside(),
        };
        let descriptors = SupervisorProcess::descriptors;
        let process = process::fork_with(owned, descriptors, SupervisorProcess::live)
            .map_err(LaunchError::step("start the supervisor"))?;
        let role = Self {
            process,
            may_trace,
            epochs,
            dialogue: Dialogue::new(link),
        };
        Ok((role, init_listener))
    }

    /// It has gone: what waits for a commit waits for none, and the domain is to end.
    pub(super) fn gone(&self) {
        if let Some(epochs) = &self.epochs {
            epochs.stop();
        }
    }

    /// Has everything decided that tasks depend on, so that no task is traced for a moment. If that takes too
    /// long, the freezer finds some tasks traced.
    pub(super) fn settle(&self) -> io::Result<()> {
        self.dialogue.settle().map(drop)
    }

    /// Tasks go on that nobody was to trace.
    pub(super) fn go_on(&self) {
        // If it has died, that is an event to come; otherwise it goes on by itself after a while.
        let _ = self.dialogue.link.try_send(&SupervisorOrder::GoOn);
    }

    /// Its tracees lose their tracer, and end if they were killed.
    pub(super) fn kill(&self) {
        // Fails only if it has ended.
        let _ = self.process.signal(Signal::KILL);
    }

    /// Has it end, and returns all that it said. One that does not end is stopped, or stuck; but a last commit takes as
    /// long as the disk does.
    pub(super) fn see_off(&self) -> io::Result<Vec<SupervisorReport>> {
        match self.epochs {
            Some(_) => self.dialogue.end_when_it_likes(),
            None => self.dialogue.end(|| self.kill()),
        }
    }
}

impl Dialogue {
    fn new(link: Link) -> Self {
        Self {
            link,
            said: RefCell::default(),
            asked: Cell::default(),
        }
    }

    fn settle(&self) -> io::Result<Hearing> {
        let question = self.asked.get() + 1;
        self.asked.set(question);
        // If it has died, that is an event to come; where there is no room, it has heard nothing for long.
        let _ = self.link.try_send(&SupervisorOrder::Settle(question));
        let deadline = Instant::now() + SETTLING_MAX;
        let mut said = self.said.borrow_mut();
        hear(&self.link, deadline, |report| match report {
            SupervisorReport::Settled(answered) => answered == question,
            other => {
                said.push(other);
                false
            }
        })
    }

    /// Returns all that was said, when it has ended.
    fn end_when_it_likes(&self) -> io::Result<Vec<SupervisorReport>> {
        let _ = rustix::net::shutdown(&self.link, rustix::net::Shutdown::Write);
        let mut said = self.said.take();
        while let Some(report) = self.link.receive()? {
            said.push(report);
        }
        Ok(said)
    }

    /// Returns all that was said; `kill` is called if the supervisor does not end.
    fn end(&self, kill: impl FnOnce()) -> io::Result<Vec<SupervisorReport>> {
        let _ = rustix::net::shutdown(&self.link, rustix::net::Shutdown::Write);
        let mut said = self.said.take();
        let deadline = Instant::now() + REPORTING_MAX;
        let mut keep = |report| {
            said.push(report);
            false
        };
        if hear(&self.link, deadline, &mut keep)? == Hearing::Late {
            kill();
        }
        while let Some(report) = self.link.receive()? {
            keep(report);
        }
        Ok(said)
    }
}

/// Why nothing more is heard for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hearing {
    Answered,
    /// It says nothing more.
    Over,
    Late,
}

/// Hears reports until one is the answer.
fn hear(
    link: &Link,
    deadline: Instant,
    mut is_answer: impl FnMut(SupervisorReport) -> bool,
) -> io::Result<Hearing> {
    loop {
        let rest = deadline.saturating_duration_since(Instant::now());
        let rest = Timespec::try_from(rest).expect("a short wait");
        let mut events = [PollFd::new(link, PollFlags::IN)];
        if rustix::io::retry_on_intr(|| rustix::event::poll(&mut events, Some(&rest)))? == 0 {
            return Ok(Hearing::Late);
        }
        match link.receive()? {
            None => return Ok(Hearing::Over),
            Some(report) => {
                if is_answer(report) {
                    return Ok(Hearing::Answered);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::message::Failure;

    fn question(link: &Link) -> u64 {
        let order = link.receive().expect("receive");
        let Some(SupervisorOrder::Settle(number)) = order else {
            panic!("no question");
        };
        number
    }

    #[test]
    fn a_late_answer_is_not_the_next_questions() {
        const WHILE: Duration = Duration::from_millis(300);
        let (link, other) = Link::pair().expect("a pair");
        let dialogue = Dialogue::new(link);
        assert_eq!(dialogue.settle().expect("ask"), Hearing::Late);
        let late = SupervisorReport::Settled(question(&other));
        let answering = thread::spawn(move || {
            let number = question(&other);
            let failure = Failure::at("try")(io::Error::other("no"));
            for report in [late, SupervisorReport::Failed(failure)] {
                other.send(&report).expect("send");
            }
            thread::sleep(WHILE);
            let answer = SupervisorReport::Settled(number);
            other.send(&answer).expect("send");
        });
        let begun = Instant::now();
        assert_eq!(dialogue.settle().expect("ask"), Hearing::Answered);
        assert!(begun.elapsed() >= WHILE, "the late answer was taken");
        answering.join().expect("answered");
        let said = dialogue.end(|| panic!("it has ended")).expect("the end");
        assert!(matches!(said[..], [SupervisorReport::Failed(_)]));
    }

    #[test]
    fn nobody_is_asked_who_is_no_more() {
        let (link, other) = Link::pair().expect("a pair");
        drop(other);
        let dialogue = Dialogue::new(link);
        assert_eq!(dialogue.settle().expect("ask"), Hearing::Over);
    }

    /// What it says to others' questions is no sign that it ends.
    #[test]
    fn who_says_something_and_does_not_end_is_killed() {
        let (link, other) = Link::pair().expect("a pair");
        other.send(&SupervisorReport::Settled(1)).expect("send");
        let begun = Instant::now();
        // Its end of the link is closed with it.
        let said = Dialogue::new(link).end(|| drop(other)).expect("the end");
        assert!(begun.elapsed() >= REPORTING_MAX);
        assert!(matches!(said[..], [SupervisorReport::Settled(1)]));
    }
}
