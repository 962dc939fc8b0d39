//! How the supervisor has the view keep an undo log, and the view has it decide everything.

mod touching;

use std::cell::RefCell;
use std::collections::HashSet;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;

use rustix::event::{EventfdFlags, eventfd};
use rustix::process::Pid;
use serde::{Deserialize, Serialize};
use surmise_kept::Link;
use surmise_supervisor::{Effort, Files, Look, Touches};
use surmise_view::{MarkId, Notifier, View};

/// From the supervisor to the view; [`FilesReport`] answers each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum FilesOrder {
    /// Make a mark.
    Mark { process: i32, has_borne: bool },
    /// What a process with a mark writes to a file that others have open waits.
    CheckWrites { process: i32 },
    /// Tell whether a process may have a file mapped.
    MayBeMapped { inode: u64, since: Option<u64> },
    /// What these marks have changed stays.
    Settle(Vec<u64>),
    /// Calls that wait on behalf of these marks fail.
    GiveUp(Vec<u64>),
    /// Until this is ordered with `false`, calls that wait on behalf of these marks fail, and are made again.
    GiveWay(Vec<u64>, bool),
    /// Undo what these marks have changed, newest first.
    Undo(Vec<u64>),
    /// Remove the next directory that this thread removes without the kernel's knowing.
    Conceal { thread: i32 },
    /// Tell whether one was removed so. It is over.
    Concealed,
    /// Tell what a call would touch, that finds something else at these places; without any, at those that were told last.
    Touch(Vec<Look>, Option<Vec<PathBuf>>),
}

/// From the view to the supervisor.
#[derive(Debug, Serialize, Deserialize)]
enum FilesReport {
    /// An order was carried out; a new mark, or nothing.
    Done(u64),
    /// Whether that is so.
    Is(bool),
    /// What a call would touch.
    Touches(Touches),
    /// Something is decided; how many requests have waited so far, and how long altogether.
    Decided(Effort),
    /// It could not be.
    Failed { errno: Option<i32>, text: String },
}

/// The supervisor's end.
#[derive(Debug)]
pub(crate) struct UndecidedFiles {
    link: Link,
    asked: OwnedFd,
    /// Where calls find something else than the view, as the view was told last.
    elsewhere: RefCell<Arc<HashSet<PathBuf>>>,
}

/// The view's end.
#[derive(Debug)]
pub(crate) struct UndoLog {
    link: Link,
    asked: Arc<OwnedFd>,
}

pub(crate) fn pair() -> io::Result<(UndecidedFiles, UndoLog)> {
    let (link, other) = Link::pair()?;
    // Apart from the answers: it comes at any time, and twice is as good as once.
    let asked = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
    let asking = Arc::new(asked.try_clone()?);
    let files = UndecidedFiles {
        link,
        asked,
        elsewhere: RefCell::default(),
    };
    let log = UndoLog {
        link: other,
        asked: asking,
    };
    Ok((files, log))
}

impl UndecidedFiles {
    pub(crate) fn descriptors(&self) -> [BorrowedFd<'_>; 2] {
        [self.link.as_fd(), self.asked.as_fd()]
    }

    fn order(&self, order: FilesOrder) -> io::Result<u64> {
        match self.report(&order)? {
            FilesReport::Done(mark) => Ok(mark),
            _ => Err(unexpected()),
        }
    }

    fn ask(&self, order: &FilesOrder) -> io::Result<bool> {
        match self.report(order)? {
            FilesReport::Is(is) => Ok(is),
            _ => Err(unexpected()),
        }
    }

    fn decide(&self, order: &FilesOrder) -> io::Result<Effort> {
        match self.report(order)? {
            FilesReport::Decided(waited) => Ok(waited),
            _ => Err(unexpected()),
        }
    }

    fn report(&self, order: &FilesOrder) -> io::Result<FilesReport> {
        self.link.send(order)?;
        match self.link.receive()? {
            Some(FilesReport::Failed {
                errno: Some(errno), ..
            }) => Err(io::Error::from_raw_os_error(errno)),
            Some(FilesReport::Failed { text, .. }) => Err(io::Error::other(text)),
            Some(report) => Ok(report),
            None => Err(io::Error::other("the view has ended")),
        }
    }
}

fn unexpected() -> io::Error {
    io::Error::other("the view has answered another order")
}

/// Readable when a call waits in the view.
impl AsFd for UndecidedFiles {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.asked.as_fd()
    }
}

impl Files for UndecidedFiles {
    fn mark(&self, process: Pid, has_borne: bool) -> io::Result<u64> {
        let process = process.as_raw_nonzero().get();
        self.order(FilesOrder::Mark { process, has_borne })
    }

    fn check_writes(&self, process: Pid) -> io::Result<()> {
        let process = process.as_raw_nonzero().get();
        self.order(FilesOrder::CheckWrites { process }).map(drop)
    }

    fn may_be_mapped(&self, inode: u64, since: Option<u64>) -> io::Result<bool> {
        self.ask(&FilesOrder::MayBeMapped { inode, since })
    }

    fn settle(&self, marks: &[u64]) -> io::Result<Effort> {
        self.decide(&FilesOrder::Settle(marks.to_vec()))
    }

    fn give_up(&self, marks: &[u64]) -> io::Result<()> {
        self.order(FilesOrder::GiveUp(marks.to_vec())).map(drop)
    }

    fn give_way(&self, marks: &[u64], stops: bool) -> io::Result<()> {
        let order = FilesOrder::GiveWay(marks.to_vec(), stops);
        self.order(order).map(drop)
    }

    fn undo(&self, marks: &[u64]) -> io::Result<Effort> {
        self.decide(&FilesOrder::Undo(marks.to_vec()))
    }

    fn conceal(&self, thread: Pid) -> io::Result<bool> {
        let thread = thread.as_raw_nonzero().get();
        self.ask(&FilesOrder::Conceal { thread })
    }

    fn concealed(&self) -> io::Result<bool> {
        self.ask(&FilesOrder::Concealed)
    }

    fn touches(&self, looks: &[Look], elsewhere: &Arc<HashSet<PathBuf>>) -> io::Result<Touches> {
        let is_told = Arc::ptr_eq(&self.elsewhere.borrow(), elsewhere);
        let places = (!is_told).then(|| elsewhere.iter().cloned().collect());
        match self.report(&FilesOrder::Touch(looks.to_vec(), places))? {
            FilesReport::Touches(touches) => {
                self.elsewhere.replace(Arc::clone(elsewhere));
                Ok(touches)
            }
            _ => Err(unexpected()),
        }
    }

    fn asked(&self) -> io::Result<()> {
        match rustix::io::read(&self.asked, &mut [0; 8]) {
            // Whoever heard of it before has read it.
            Ok(_) | Err(rustix::io::Errno::AGAIN) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }
}

impl UndoLog {
    pub(crate) fn descriptors(&self) -> [BorrowedFd<'_>; 2] {
        [self.link.as_fd(), self.asked.as_fd()]
    }

    /// Has the view tell the supervisor of calls that wait for a decision.
    pub(crate) fn announce(&self, view: &View) {
        let asked = Arc::clone(&self.asked);
        view.ask_for_decision_by(move || {
            // Fails only when it was told more often than anybody can count.
            let _ = rustix::io::write(&*asked, &1_u64.to_ne_bytes());
        });
    }

    /// Carries out what the supervisor orders, until its end is closed or [`Self::close`]. An order changes
    /// nothing about what the view does for others.
    pub(crate) fn obey(&self, view: &View, notifier: &Notifier) {
        let mut elsewhere = HashSet::new();
        // An error counts as an end: then the supervisor is lost, and with it the domain.
        while let Ok(Some(order)) = self.link.receive() {
            let done = |result: io::Result<()>| result.map(|()| FilesReport::Done(0));
            let decided = |result: io::Result<()>| {
                result.map(|()| {
                    let (count, time) = notifier.waited();
                    FilesReport::Decided(Effort { count, time })
                })
            };
            let done = match order {
                FilesOrder::Mark { process, has_borne } => {
                    let mark = notifier.mark(view, process.cast_unsigned(), has_borne);
                    mark.map(FilesReport::Done)
                }
                FilesOrder::Conceal { thread } => {
                    let conceals = notifier.conceal(view, thread.cast_unsigned());
                    Ok(FilesReport::Is(conceals))
                }
                FilesOrder::Concealed => notifier.concealed(view).map(FilesReport::Is),
                FilesOrder::Touch(looks, places) => {
                    if let Some(places) = places {
                        elsewhere = places.into_iter().collect();
                    }
                    let looks: Vec<_> = looks.into_iter().map(touching::to_view).collect();
                    let found = view.touches(&looks, &elsewhere);
                    found.map(|found| FilesReport::Touches(touching::from_view(found)))
                }
                FilesOrder::CheckWrites { process } => {
                    notifier.check_writes(view, process.cast_unsigned());
                    done(Ok(()))
                }
                FilesOrder::MayBeMapped { inode, since } => {
                    let since = since.map(MarkId);
                    Ok(FilesReport::Is(view.may_be_mapped(inode, since)))
                }
                FilesOrder::Settle(marks) => decided(notifier.settle(view, &marks)),
                FilesOrder::GiveUp(marks) => done(notifier.give_up(view, &marks)),
                FilesOrder::GiveWay(marks, stops) => done(notifier.give_way(view, &marks, stops)),
                FilesOrder::Undo(marks) => decided(notifier.undo(view, &marks)),
            };
            let report = match done {
                Ok(report) => report,
                Err(error) => FilesReport::Failed {
                    errno: error.raw_os_error(),
                    text: error.to_string(),
                },
            };
            // If the supervisor has died, its closed end is the next event.
            let _ = self.link.send(&report);
        }
        // A thread that waits in the view is deaf to every signal, so its process could not be ended. Fails only when the
        // device is gone, and nobody waits there.
        let _ = notifier.abandon(view);
    }

    /// Ends [`Self::obey`].
    pub(crate) fn close(&self) {
        // Fails only for one that is closed.
        let _ = rustix::net::shutdown(&self.link, rustix::net::Shutdown::Read);
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::thread;

    use rustix::event::{PollFd, PollFlags};
    use rustix::time::Timespec;
    use surmise_supervisor::{Manner, Target};

    use super::*;

    fn is_readable(files: &UndecidedFiles) -> bool {
        let mut events = [PollFd::new(files, PollFlags::IN)];
        rustix::event::poll(&mut events, Some(&Timespec::default())).expect("poll") > 0
    }

    #[test]
    fn orders_are_answered_and_errors_keep_their_numbers() {
        let (files, log) = pair().expect("a pair");
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut marks = 0;
                while let Ok(Some(order)) = log.link.receive::<FilesOrder>() {
                    let report = match order {
                        FilesOrder::Mark { process: 7, .. } => {
                            marks += 1;
                            FilesReport::Done(marks)
                        }
                        FilesOrder::Undo(_) => FilesReport::Failed {
                            errno: Some(28),
                            text: "full".into(),
                        },
                        _ => FilesReport::Failed {
                            errno: None,
                            text: format!("{order:?}"),
                        },
                    };
                    log.link.send(&report).expect("send");
                }
            });
            let process = Pid::from_raw(7).expect("a number");
            assert_eq!(files.mark(process, true).expect("a mark"), 1);
            assert_eq!(files.mark(process, false).expect("a mark"), 2);
            assert_eq!(files.undo(&[2]).expect_err("full").raw_os_error(), Some(28));
            let error = files.settle(&[3]).expect_err("an error");
            assert_eq!(error.to_string(), "Settle([3])");
            log.close();
        });
        drop(log);
        assert!(files.give_up(&[2]).is_err(), "nobody answers");
    }

    #[test]
    fn a_path_need_not_be_text() {
        let (files, log) = pair().expect("a pair");
        for bytes in [&b"/caf\xc3\xa9"[..], b"/caf\xe9", b""] {
            let path = PathBuf::from(OsStr::from_bytes(bytes));
            let target = Target::Path {
                base: path.clone(),
                path,
                follows: true,
            };
            let manner = Manner::Passes;
            let order = FilesOrder::Touch(vec![Look { target, manner }], None);
            files.link.send(&order).expect("send");
            assert_eq!(log.link.receive().expect("receive"), Some(order));
        }
    }

    #[test]
    fn a_call_that_waits_is_told_once() {
        let (files, log) = pair().expect("a pair");
        assert!(!is_readable(&files));
        for _ in 0..3 {
            rustix::io::write(&*log.asked, &1_u64.to_ne_bytes()).expect("write");
        }
        assert!(is_readable(&files));
        files.asked().expect("read");
        assert!(!is_readable(&files));
        files.asked().expect("nothing to read is no error");
    }
}
