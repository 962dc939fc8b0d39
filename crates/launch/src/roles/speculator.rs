//! The speculator's process: hears the tracked calls of all tasks, and is the only one who may trace
//! them while the command runs.
//!
//! It stays outside the domain, as the user that owns the domain's user namespace: so an ordinary user
//! has the right to trace, too.

use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::panic;
use std::sync::Arc;

use surmise_kept::Link;
use surmise_refusals::{Observer, Refusals, Tally};
use surmise_speculation::{Master, Options, Speculator, SpeculatorError, Stats, Wish};
use surmise_sys::seccomp::Listener;

use crate::files::UndecidedFiles;
use crate::message::{Failure, ReceiveListener};
use crate::refusals::{Telling, in_messages, observer};

/// From control to the speculator.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub(crate) enum SpeculatorOrder {
    /// Decide all that is undecided; [`SpeculatorReport::Settled`] answers, with this number.
    Settle(u64),
}

/// From the speculator to control.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub(crate) enum SpeculatorReport {
    /// It could not go on.
    Failed(Failure),
    /// Nothing is undecided, and will not be for a moment.
    Settled(u64),
    /// What it refused so far.
    RefusedInside(Refusals),
    /// What it did; the last that it says.
    Did(Stats),
}

/// What the speculator's process is given. It keeps these links and no other descriptor.
pub(crate) struct SpeculatorProcess {
    /// To control; control's end is closed when control dies, and says no more when the domain has ended.
    pub(crate) control: Link,
    /// From pid 1: the listener.
    pub(crate) init: Link,
    /// To the view.
    pub(crate) files: UndecidedFiles,
    pub(crate) options: Options,
    /// How what is refused is told, if it is.
    pub(crate) telling: Option<Telling>,
}

impl SpeculatorProcess {
    pub(crate) fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let mut all = vec![self.control.as_fd(), self.init.as_fd()];
        all.extend(self.files.descriptors());
        all
    }

    /// The process' whole life; returns its exit status.
    pub(crate) fn live(self) -> u8 {
        let Self {
            control,
            init,
            files,
            options,
            telling,
        } = self;
        let control = Arc::new(control);
        let tally = Tally::default();
        let speculated = detach(&control).and_then(|()| {
            let Some((listened, listener, diagnostics)) = init.receive_listener()? else {
                return Ok(Stats::default());
            };
            let observer = observer(telling.as_ref(), listened, (&tally, diagnostics))?;
            speculate(&control, listener, files, (&options, observer))
        });
        for part in in_messages(tally.refusals()) {
            // If control is dead by now, nobody wants to know.
            let _ = control.send(&SpeculatorReport::RefusedInside(part));
        }
        let report = match speculated {
            Ok(stats) => SpeculatorReport::Did(stats),
            Err(failure) => SpeculatorReport::Failed(failure),
        };
        let failed = matches!(report, SpeculatorReport::Failed(_));
        // If control is dead by now, nobody wants to know.
        u8::from(control.send(&report).is_err() || failed)
    }
}

/// Away from the caller's name, terminal, directory and streams. A panic's message goes to control.
fn detach(control: &Arc<Link>) -> Result<(), Failure> {
    rustix::thread::set_name(c"surmise-spec").map_err(Failure::at("name the speculator"))?;
    // No key on the terminal stops it, or the whole domain would wait.
    rustix::process::setsid().map_err(Failure::at("make a session"))?;
    rustix::process::chdir("/").map_err(Failure::at("leave the directory"))?;
    surmise_stdio::let_go().map_err(Failure::at("let go of the caller's streams"))?;
    let control = Arc::clone(control);
    panic::set_hook(Box::new(move |panic| {
        let failed = Failure::at("speculate")(io::Error::other(panic.to_string()));
        // If control has died, nobody is left to be told.
        let _ = control.send(&SpeculatorReport::Failed(failed));
    }));
    Ok(())
}

fn speculate(
    control: &Link,
    listener: Listener,
    files: UndecidedFiles,
    (options, observer): (&Options, Option<Observer>),
) -> Result<Stats, Failure> {
    let failed = |SpeculatorError { what, source }| Failure::at(what)(source);
    let speculator = Speculator::new(listener, Box::new(files), options, observer);
    let mut speculator = speculator.map_err(failed)?;
    speculator.run(&Control::new(control)).map_err(failed)?;
    Ok(speculator.into_stats())
}

/// Control, as the speculator sees it.
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
            Some(SpeculatorOrder::Settle(number)) => {
                self.question.set(number);
                Ok(Wish::Settle)
            }
            None => Ok(Wish::End),
        }
    }

    fn settled(&self) -> io::Result<()> {
        self.link
            .send(&SpeculatorReport::Settled(self.question.get()))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use surmise_speculation::{Call, Effort};
    use surmise_syscalls::{Row, rows};

    /// With every call there is, and with numbers as long as they get.
    #[test]
    fn the_longest_statistics_are_one_message_and_come_back_the_same() {
        let most = Effort {
            count: u64::MAX,
            time: Duration::new(u64::MAX, 999_999_999),
        };
        let call = Call {
            events: u64::MAX,
            predictions: u64::MAX,
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
        };
        let (one, two) = Link::pair().expect("a pair");
        let report = SpeculatorReport::Did(stats.clone());
        one.send(&report).expect("send");
        let received = two.receive().expect("receive");
        let did = matches!(received, Some(SpeculatorReport::Did(did)) if did == stats);
        assert!(did, "it is another one");
    }
}
