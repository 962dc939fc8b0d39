//! The supervisor's process: hears the calls of all tasks that matter, and answers them. It alone may trace tasks while
//! the command runs, and it makes durable what it has promised.
//!
//! It stays outside the domain, as the user that owns the domain's user namespace: so an ordinary user
//! has the right to trace, and to look at tasks, too.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::panic;
use std::sync::Arc;

use surmise_kept::Link;
use surmise_refusals::{Refusals, Tally};
use surmise_supervisor::{
    Call, Durability, Files, Guessing, Master, Parts, Stats, Supervisor, SupervisorError, Wish,
};
use surmise_sync::{Counted, Epochs, Reasons, Syncer};
use surmise_sys::seccomp::Listener;

use crate::files::UndecidedFiles;
use crate::inside::Insider;
use crate::message::{Failure, receive_listener};
use crate::refusals::{Telling, in_messages, observer};

/// How many calls one message tells of: as long as their numbers get, they fit.
const CALLS_MAX: usize = 128;

/// From control to the supervisor.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub(crate) enum SupervisorOrder {
    /// Decide all that is undecided; [`SupervisorReport::Settled`] answers, with this number.
    Settle(u64),
    /// Guess again as before: all tasks go on.
    GoOn,
}

/// From the supervisor to control.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub(crate) enum SupervisorReport {
    /// It could not go on.
    Failed(Failure),
    /// Nothing is undecided, and will not be for a moment.
    Settled(u64),
    /// What it refused so far.
    RefusedInside(Refusals),
    /// Why syncs were made at once.
    MadeAtOnce(Vec<Counted>),
    /// What became of some calls, by name.
    Called(BTreeMap<String, Call>),
    /// What else it did; the last that it says.
    Did(Stats),
}

/// What was said of what was done.
#[derive(Default)]
pub(crate) struct Did {
    calls: BTreeMap<String, Call>,
    stats: Option<Stats>,
}

impl Did {
    pub(crate) fn called(&mut self, calls: BTreeMap<String, Call>) {
        self.calls.extend(calls);
    }

    pub(crate) fn did(&mut self, stats: Stats) {
        self.stats = Some(stats);
    }

    /// All of it, if it was said to the end.
    pub(crate) fn whole(self) -> Option<Stats> {
        let calls = self.calls;
        self.stats.map(|stats| Stats { calls, ..stats })
    }
}

/// What the supervisor's process is given. It keeps these descriptors and no other.
pub(crate) struct SupervisorProcess {
    /// To control; control's end is closed when control dies, and says no more when the domain has ended.
    pub(crate) control: Link,
    /// From pid 1: the listener. To there: files to look at.
    pub(crate) init: Link,
    /// Where guesses come from.
    pub(crate) guessing: Vec<Guessing>,
    /// To the view, where there are guesses.
    pub(crate) files: Option<UndecidedFiles>,
    /// Under external synchrony. The epochs are shared with the relay process and with control.
    pub(crate) synchrony: Option<(surmise_sync::Options, Epochs)>,
    /// How what is refused is told, if it is.
    pub(crate) telling: Option<Telling>,
    /// Whether the domain reaches no Unix socket of a process outside.
    pub(crate) sockets_stay_inside: bool,
}

impl SupervisorProcess {
    pub(crate) fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let mut all = vec![self.control.as_fd(), self.init.as_fd()];
        all.extend(self.files.iter().flat_map(UndecidedFiles::descriptors));
        if let Some((options, epochs)) = &self.synchrony {
            all.extend([epochs.as_fd(), options.driver.descriptor()]);
        }
        all
    }

    /// The process' whole life; returns its exit status.
    pub(crate) fn live(self) -> u8 {
        let control = Arc::new(self.control);
        let tally = Tally::default();
        let epochs = self.synchrony.as_ref().map(|(_, epochs)| epochs.clone());
        let ordered = self.synchrony;
        let (guessing, files) = (self.guessing, self.files);
        let sockets_stay_inside = self.sockets_stay_inside;
        let supervised = detach(&control).and_then(|()| {
            let Some((listened, listener, diagnostics)) = receive_listener(&self.init)? else {
                return Ok(Outcome::default());
            };
            // One thread asks, and takes the answer before it asks again.
            let copy = diagnostics.try_clone();
            let copy = copy.map_err(Failure::at("look at sockets"))?;
            let observer = observer(self.telling.as_ref(), listened, (&tally, diagnostics))?;
            let (durability, reasons) = order(ordered)?;
            let files = files.map(|files| Box::new(files) as Box<dyn Files>);
            let parts = Parts {
                guessing,
                files,
                inside: Some(Box::new(Insider(self.init))),
                durability,
                observer,
                diagnostics: Some(copy),
                sockets_stay_inside,
            };
            let stats = supervise(&control, listener, parts)?;
            Ok(Outcome { stats, reasons })
        });
        if let Some(epochs) = &epochs {
            // The last commit was made, or has failed. A committer that control has left behind may wait for another
            // domain's promise, which nobody here will keep.
            epochs.stop();
        }
        for part in in_messages(tally.refusals()) {
            // If control is dead by now, nobody wants to know.
            let _ = control.send(&SupervisorReport::RefusedInside(part));
        }
        let report = match supervised {
            Ok(outcome) => {
                if let Some(reasons) = outcome.reasons {
                    let _ = control.send(&SupervisorReport::MadeAtOnce(reasons.counted()));
                }
                let mut stats = outcome.stats;
                for calls in stats.take_calls(CALLS_MAX) {
                    let _ = control.send(&SupervisorReport::Called(calls));
                }
                SupervisorReport::Did(stats)
            }
            Err(failure) => SupervisorReport::Failed(failure),
        };
        let failed = matches!(report, SupervisorReport::Failed(_));
        // If control is dead by now, nobody wants to know.
        u8::from(control.send(&report).is_err() || failed)
    }
}

/// What came of a domain's supervision.
#[derive(Default)]
struct Outcome {
    stats: Stats,
    reasons: Option<Reasons>,
}

/// Away from the caller's name, terminal, directory and streams. A panic's message goes to control.
fn detach(control: &Arc<Link>) -> Result<(), Failure> {
    rustix::thread::set_name(c"surmise-super").map_err(Failure::at("name the supervisor"))?;
    // No key on the terminal stops it, or the whole domain would wait.
    rustix::process::setsid().map_err(Failure::at("make a session"))?;
    rustix::process::chdir("/").map_err(Failure::at("leave the directory"))?;
    surmise_stdio::let_go().map_err(Failure::at("let go of the caller's streams"))?;
    let control = Arc::clone(control);
    panic::set_hook(Box::new(move |panic| {
        let failed = Failure::at("supervise")(io::Error::other(panic.to_string()));
        // If control has died, nobody is left to be told.
        let _ = control.send(&SupervisorReport::Failed(failed));
    }));
    Ok(())
}

type Ordered = (Option<Box<dyn Durability>>, Option<Reasons>);

/// What orders durability, if anything does.
fn order(synchrony: Option<(surmise_sync::Options, Epochs)>) -> Result<Ordered, Failure> {
    let Some((options, epochs)) = synchrony else {
        return Ok((None, None));
    };
    let syncer = Syncer::new(options, epochs).map_err(Failure::at("make commits"))?;
    let reasons = syncer.reasons();
    Ok((Some(Box::new(syncer)), Some(reasons)))
}

fn supervise(control: &Link, listener: Listener, parts: Parts) -> Result<Stats, Failure> {
    let failed = |SupervisorError { what, source }| Failure::at(what)(source);
    let mut supervisor = Supervisor::new(listener, parts).map_err(failed)?;
    supervisor.run(&Control::new(control)).map_err(failed)?;
    Ok(supervisor.into_stats())
}

/// Control, as the supervisor sees it.
struct Control<'a> {
    link: &'a Link,
    /// The number of its last question.
    question: Cell<u64>,
}

impl<'a> Control<'a> {
    fn new(link: &'a Link) -> Self {
        Self {
            link,
            question: Cell::default(),
        }
    }
}

impl AsFd for Control<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.link.as_fd()
    }
}

impl Master for Control<'_> {
    fn wish(&self) -> io::Result<Wish> {
        match self.link.receive()? {
            Some(SupervisorOrder::Settle(number)) => {
                self.question.set(number);
                Ok(Wish::Settle)
            }
            Some(SupervisorOrder::GoOn) => Ok(Wish::GoOn),
            None => Ok(Wish::End),
        }
    }

    fn settled(&self) -> io::Result<()> {
        self.link
            .send(&SupervisorReport::Settled(self.question.get()))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use surmise_supervisor::Effort;
    use surmise_syscalls::{Row, rows};

    /// With every call there is, and with numbers as long as they get.
    #[test]
    fn the_longest_statistics_fit_into_messages_and_come_back_the_same() {
        let most = Effort {
            count: u64::MAX,
            time: Duration::new(u64::MAX, 999_999_999),
        };
        let call = Call {
            events: u64::MAX,
            predictions: u64::MAX,
            waits: most,
        };
        let stats = Stats {
            predictions: u64::MAX,
            checkpoints: most,
            rollbacks: most,
            cascades: u64::MAX,
            pages_copied: u64::MAX,
            calls: rows()
                .map(Row::name)
                .map(|name| (name.to_string(), call))
                .collect(),
            objects: [("input".into(), u64::MAX)].into(),
            undone: [("input".into(), u64::MAX)].into(),
            cascades_through: [("input".into(), u64::MAX)].into(),
            waits: [("changed file".into(), most)].into(),
        };
        let (one, two) = Link::pair().expect("a pair");
        let mut rest = stats.clone();
        for calls in rest.take_calls(CALLS_MAX) {
            one.send(&SupervisorReport::Called(calls)).expect("send");
        }
        one.send(&SupervisorReport::Did(rest)).expect("send");
        drop(one);
        let mut did = Did::default();
        while let Some(report) = two.receive().expect("receive") {
            match report {
                SupervisorReport::Called(calls) => did.called(calls),
                SupervisorReport::Did(stats) => did.did(stats),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(did.whole(), Some(stats));
    }
}
