//! Making real what a domain did, and taking back a commit that was cut short. ([`Domain::abort`] is beside
//! [`Domain`].)

use std::io;
use std::ops::ControlFlow;

use surmise_changes::Changes;
use surmise_commit::{
    Activity, CommitError, OnProgress, Progress, Report, Request, Resumed, Terms,
};
use surmise_network::Resolver;
use surmise_outbox::{Cause, Delivered, Delivery, HeldChannel, HeldState, Target};

use crate::committed::{After, Committed};
use crate::domain::{Domain, Reached};
use crate::doorway::{Done, ReadChanged, Wish};
use crate::error::DecideError;
use crate::lock::Lock;
use crate::outbox::Holdings;
use crate::seal::Depth;
use crate::visit;

/// Takes held output that belongs on a terminal or a standard stream.
pub type OnOutput<'a> = dyn FnMut(&Target, &[u8]) -> io::Result<()> + 'a;

impl Domain {
    /// Makes everything that it did real, or finishes what a commit cut short has begun. A domain that
    /// runs goes on under a new consent; one that has ended is no more.
    ///
    /// `on_output` gets held output that was meant for the command's own terminal and streams; that of
    /// a running domain goes to where its command writes.
    ///
    /// # Errors
    /// When the domain is in use or the commit fails; the domain is kept then.
    pub fn commit(
        self,
        on_progress: &mut OnProgress<'_>,
        on_output: &mut OnOutput<'_>,
    ) -> Result<Committed, DecideError> {
        self.commit_on(Terms::default(), on_progress, on_output)
    }

    /// Takes back a commit that was cut short: the real tree and the domain are as before it, save for
    /// change times.
    ///
    /// # Errors
    /// When the domain runs, or is in use; when no commit was cut short, or when it is too late; when
    /// somebody changed outside what the commit had changed. Nothing has been done then, and
    /// [`Self::commit`] finishes the commit. After any other failure the next undo goes on.
    pub fn undo_commit(&self, on_progress: &mut OnProgress<'_>) -> Result<(), DecideError> {
        // Whose tasks stand still for a commit has control, and that holds the lock.
        let _lock = self.lock()?;
        // It goes by the journal and what that kept, which have sums of their own; the rest may be damaged.
        match surmise_commit::undo(self.directory(), on_progress) {
            // Files are compared with the objects that were written into them. An undo may do without some, but
            // nobody is told to have changed what a damaged one does not have.
            Err(error @ CommitError::Changed(_)) => {
                self.check_seal(Depth::Data)?;
                Err(error.into())
            }
            undone => undone.map_err(|error| self.told(error)),
        }
    }

    /// As [`Self::commit`], on somebody's terms. Conflicts can be settled only in a domain that has ended.
    ///
    /// # Errors
    /// As [`Self::commit`]; also when an earlier commit is to be finished first, which had its own terms.
    pub fn commit_on(
        self,
        terms: Terms<'_>,
        on_progress: &mut OnProgress<'_>,
        on_output: &mut OnOutput<'_>,
    ) -> Result<Committed, DecideError> {
        let is_strict = terms.is_strict;
        let reached = match terms.choices {
            [] => self.reach(Wish::Commit { is_strict }, &mut |domain| {
                waits_for(domain, on_progress)
            })?,
            _ => Reached::Ended(self.lock()?),
        };
        let lock = match reached {
            Reached::Ended(lock) => {
                if is_strict || !terms.choices.is_empty() {
                    self.check_nothing_to_finish()?;
                }
                lock
            }
            Reached::Running(link) => match visit::commit(&self, &link, on_progress) {
                // It ended before it heard, or meanwhile: what is left is committed below.
                Err(DecideError::Ended { .. }) => {
                    self.lock_when_ended(&mut |domain| waits_for(domain, on_progress))?
                }
                done => {
                    return Ok(Committed {
                        done: done?,
                        domain: After::RunsOn,
                    });
                }
            },
        };
        self.commit_ended(&lock, terms, on_progress, on_output)
    }

    /// # Errors
    /// When an earlier commit is past its first visible change.
    fn check_nothing_to_finish(&self) -> Result<(), DecideError> {
        // Should it fail, what is asked next tells.
        let _ = self.undo_staging();
        let pending = surmise_commit::pending(self.directory()).map_err(CommitError::from)?;
        match pending {
            Some(_) => Err(CommitError::UnderWay.into()),
            None => Ok(()),
        }
    }

    fn commit_ended(
        &self,
        _lock: &Lock,
        terms: Terms<'_>,
        on_progress: &mut OnProgress<'_>,
        on_output: &mut OnOutput<'_>,
    ) -> Result<Committed, DecideError> {
        // Before anything is applied: what cannot be sent afterwards, for one. Nobody else changes anything
        // from here on.
        self.check_seal(Depth::Data)?;
        let holdings = self.read_holdings()?;
        let resumed = surmise_commit::resume(self.directory(), on_progress);
        let (mut report, changes, delivery) = match resumed.map_err(|error| self.told(error))? {
            Resumed::Finished(report) => (report, 0, self.delivery(&holdings)?),
            Resumed::Nothing | Resumed::Undone => {
                self.commit_anew(&holdings, terms, on_progress)?
            }
        };
        let delivered = delivery.map(|delivery| delivery.deliver(on_output));
        let delivered = delivered.unwrap_or_default();
        let unsent = self.read_holdings()?.unsent;
        if !unsent.is_empty() {
            self.keep_unsent();
            return Ok(Committed {
                done: Done {
                    unsent: unsent
                        .iter()
                        .map(|channel| why_unsent(channel, &delivered))
                        .collect(),
                    ..done(changes, &report, delivered)
                },
                domain: After::Unsent,
            });
        }
        self.root().remove(self.name())?;
        // Directories that the domain removed and that held its state until now.
        if let Ok(left) = surmise_commit::finish_kept(&report.kept) {
            report.kept = left;
        }
        Ok(Committed {
            done: done(changes, &report, delivered),
            domain: After::Gone,
        })
    }

    fn commit_anew(
        &self,
        holdings: &Holdings,
        terms: Terms<'_>,
        on_progress: &mut OnProgress<'_>,
    ) -> Result<(Report, usize, Option<Delivery>), DecideError> {
        let map = self.read_map()?;
        let root = self.root();
        let request = Request {
            name: self.name(),
            directory: self.directory(),
            map: &map,
            root: "/".as_ref(),
            keep: Some(root.path()),
        };
        if !holdings.pending.is_empty() {
            // Nobody outside shall see a connection for a commit that a conflict ends.
            surmise_commit::check_on(&request, terms).map_err(|error| self.told(error))?;
        }
        let delivery = self.delivery(holdings)?;
        let report = surmise_commit::commit_on(&request, terms, on_progress);
        let report = report.map_err(|error| self.told(error))?;
        Ok((report, Changes::of(&map).len(), delivery))
    }

    /// Everybody whom held output is for is connected, and has got nothing yet.
    fn delivery(&self, holdings: &Holdings) -> Result<Option<Delivery>, DecideError> {
        if holdings.is_empty() {
            return Ok(None);
        }
        let mut resolve = |name: &str| Resolver::system()?.lookup(name);
        Ok(Some(Delivery::prepare(self.directory(), &mut resolve)?))
    }

    /// Whether all of its changes are real, and only the domain itself is left.
    pub(crate) fn is_committed(&self) -> bool {
        let pending = surmise_commit::pending(self.directory());
        pending.is_ok_and(|phase| phase == Some(surmise_commit::Phase::Done))
    }

    /// Takes back a commit that was cut short, of a domain of which other parts may be damaged.
    pub(crate) fn undo_commit_quietly(&self) -> Result<(), CommitError> {
        surmise_commit::undo(self.directory(), &mut |_| ControlFlow::Continue(()))
    }

    /// Takes back a commit that was cut short before its first visible change, or while it was taken back.
    /// Should it fail, the journal stays, and a commit tells why.
    pub(crate) fn undo_staging(&self) -> Result<(), CommitError> {
        use surmise_commit::Phase;

        match surmise_commit::pending(self.directory())? {
            Some(Phase::Staging | Phase::Undoing) => {
                let mut on_progress = |_| ControlFlow::Continue(());
                surmise_commit::resume(self.directory(), &mut on_progress).map(drop)
            }
            _ => Ok(()),
        }
    }
}

/// Whether a commit still waits for the end of a domain: in vain, if that is stopped, and not if nobody wants to.
fn waits_for(domain: &Domain, on_progress: &mut OnProgress<'_>) -> bool {
    let nothing_yet = Progress {
        activity: Activity::Stage,
        done: 0,
        total: 0,
    };
    visit::stopped(domain).is_none() && on_progress(nothing_yet).is_continue()
}

fn done(changes: usize, report: &Report, delivered: Delivered) -> Done {
    let left = report.left.iter();
    let unsent = delivered.failed.into_iter();
    Done {
        changes,
        left: left
            .map(|left| format!("{}: {}", left.path.display(), left.reason))
            .collect(),
        read_changed: ReadChanged::of(&report.read_changed),
        sent: delivered
            .sent
            .into_iter()
            // The caller of the commit has seen the others.
            .filter(|(target, _)| matches!(target, Target::Tcp(..) | Target::Udp(..)))
            .map(|(target, bytes)| (target.to_string(), bytes))
            .collect(),
        unsent: unsent
            .map(|failure| {
                let why = failure.source.to_string();
                (failure.target.to_string(), failure.sent, why)
            })
            .collect(),
        is_sending: false,
    }
}

/// Where an output was to go that was not sent as a whole, by this commit or an earlier one; how much of it has
/// left, and why not the rest.
fn why_unsent(channel: &HeldChannel, delivered: &Delivered) -> (String, u64, String) {
    let mut failed = delivered.failed.iter();
    let failure = failed.find(|failure| failure.hold == channel.id);
    let why = match (failure, channel.state) {
        (Some(failure), _) => failure.source.to_string(),
        (None, HeldState::Failed { errno }) => io::Error::from_raw_os_error(errno).to_string(),
        (None, _) => Cause::Interrupted.to_string(),
    };
    (channel.target.to_string(), channel.sent, why)
}
