//! A commit of a domain that runs: its tasks stand still, all that they did becomes real, and they go
//! on under a new consent.
//!
//! One step at a time, each done by another process, so that control waits for none of them:
//!
//! | step | who | why |
//! |---|---|---|
//! | freeze | control | nothing changes from here on |
//! | quiet | relay | what the tasks have sent is in the outbox |
//! | flush | pid 1 | pages written through shared mappings reach the view |
//! | prepare | view | calls stop; what the commit takes away outside, and a task still holds, is kept |
//! | apply | committer | check, stage, apply; on failure nothing has changed |
//! | rebase | view | what was committed is the domain's no more |
//! | forget | committer | the commit's journal goes |
//! | choose | relay | what is held by now is to go out, and nothing that is sent later |
//! | go on | view | calls go on; from here on a task would, if who holds it were killed |
//! | thaw | control | the tasks go on |
//! | release | relay | held output goes out meanwhile |
//!
//! A kill anywhere ends the domain, tasks included, while its tasks still stand still: so nothing was
//! done between the state that was committed and the end, and `surmise commit` finishes by the journal
//! what apply had begun.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::process::Pid;
use rustix::time::Timespec;
use surmise_kept::doorway::{Done, Refusal, Reply};
use surmise_kept::{Link, is_stopped};
use surmise_sys::process::{self, Child};
use surmise_sys::tracing::Frozen;

use crate::message::{Delivery, Order, RelayOrder, ViewOrder};
use crate::roles::committer::{Committer, Outcome};

/// How long tasks may take to come to a call boundary: one may wait for a disk.
const FREEZE_MAX: Duration = Duration::from_secs(5);

/// How long the domain may take to come to rest after that: to keep what is sent, and to write back what
/// is mapped.
const REST_MAX: Duration = Duration::from_secs(60);

/// The processes that take part.
#[derive(Clone, Copy)]
pub(crate) struct Others<'a> {
    pub(crate) init: &'a Link,
    pub(crate) view: Option<&'a Link>,
    pub(crate) relay: &'a Link,
}

/// Which domain.
#[derive(Clone, Copy)]
pub(crate) struct Subject<'a> {
    /// Kept by the committer as long as it works: nobody else shall finish its commit meanwhile.
    pub(crate) lock: BorrowedFd<'a>,
    pub(crate) name: &'a str,
    pub(crate) root: &'a Path,
    pub(crate) state: &'a Path,
}

/// A role that somebody has stopped: it hears nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoppedRole {
    pub(crate) name: &'static str,
    pub(crate) pid: Pid,
}

impl StoppedRole {
    /// `what`: how things stand.
    pub(crate) fn refusal(self, what: &str) -> Refusal {
        let (name, pid) = (self.name, self.pid.as_raw_pid());
        let error = format!("{name} of the domain is stopped");
        Refusal::new(error, format!("{what}; `kill -CONT {pid}` lets it go on"))
    }
}

/// A commit under way.
pub(crate) struct RunningCommit {
    /// Who asked.
    client: Link,
    /// Until the tasks go on.
    frozen: Option<Frozen>,
    /// When the domain must have come to rest.
    rests_by: Instant,
    committer: Option<(Child, Link)>,
    is_strict: bool,
    /// Why nothing was committed, if so.
    refused: Option<Refusal>,
    /// Why nothing is to be committed, as soon as the domain is at rest. Before that, an answer that comes
    /// late would be taken for one to the next commit.
    unwanted: Option<Refusal>,
    /// Whether the client has had its last word.
    is_told: bool,
    /// What went out, where that was faster than the view.
    released: Option<Delivery>,
    step: Step,
    done: Done,
}

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Quiet,
    Flush,
    Prepare,
    Apply,
    Rebase,
    Forget,
    Choose,
    GoOn,
    Release,
}

/// What one of the others says.
#[derive(Debug)]
pub(crate) enum Heard {
    /// The relay: all that was sent is in the outbox. pid 1: all that was written is the view's. The
    /// view: it is prepared, or rebased.
    Finished,
    /// It could not be done.
    Failed(String),
    /// The committer.
    Committer(Option<Outcome>),
    /// The relay: what goes out is chosen.
    Releasing,
    /// The relay: what went out, and what did not.
    Released(Delivery),
}

/// How it goes on.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Somebody has yet to answer.
    Wait,
    /// Everything so far is real, and the tasks go on.
    Affirmed {
        /// How many changes.
        changes: usize,
        /// Whether all held output has gone out as well.
        is_over: bool,
    },
    /// It is over.
    Over,
    /// The domain must end: the real tree and the view are at odds, and only the journal knows how.
    End,
}

impl RunningCommit {
    /// Stops the tasks below `init` and begins. If that fails, the client has been told and the tasks
    /// go on.
    pub(crate) fn begin(
        client: Link,
        is_strict: bool,
        init: Pid,
        others: Others<'_>,
    ) -> Option<Self> {
        if client.is_over() {
            // It asked while this process was stopped, and did not wait.
            return None;
        }
        let frozen = match Frozen::freeze(init, FREEZE_MAX) {
            Ok(frozen) => frozen,
            Err(error) => {
                let hint = "nothing has changed; try again, or wait until the command has ended";
                refuse(&client, Refusal::new(error.to_string(), hint));
                return None;
            }
        };
        // Whether the relay lives is another event's business.
        let _ = others.relay.send(&RelayOrder::Quiesce);
        Some(Self {
            client,
            frozen: Some(frozen),
            rests_by: Instant::now() + REST_MAX,
            committer: None,
            is_strict,
            refused: None,
            unwanted: None,
            is_told: false,
            released: None,
            step: Step::Quiet,
            done: Done::default(),
        })
    }

    /// The committer's link, while there is one.
    pub(crate) fn committer(&self) -> Option<&Link> {
        self.committer.as_ref().map(|(_, link)| link)
    }

    /// When it is given up, unless something is heard before.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        (self.step <= Step::Prepare && self.refused.is_none()).then_some(self.rests_by)
    }

    /// Sees whether anybody who is to answer can. `stopped`: the first role that can't.
    pub(crate) fn look(&mut self, stopped: Option<StoppedRole>) {
        let stopped = match (self.step, &self.committer) {
            (Step::Apply | Step::Forget, Some((committer, _))) => {
                is_stopped(committer.pid()).then(|| StoppedRole {
                    name: "the committer",
                    pid: committer.pid(),
                })
            }
            // Who works is the committer alone.
            (Step::Apply, _) => None,
            _ => stopped,
        };
        if let Some(stopped) = stopped
            && !self.is_told
        {
            self.tell_stopped(stopped);
        }
    }

    /// Takes in what was heard. What is sent to a role that has died is lost, and its end, another
    /// event, ends the domain.
    pub(crate) fn hear(&mut self, heard: Heard, subject: Subject<'_>, others: Others<'_>) -> Next {
        match (self.step, heard) {
            (Step::Quiet | Step::Flush | Step::Prepare, Heard::Finished)
                if self.unwanted.is_some() =>
            {
                let unwanted = self.unwanted.take().expect("just looked");
                self.give_up(unwanted, others)
            }
            (Step::Quiet, Heard::Finished) => {
                let _ = others.init.send(&Order::Flush);
                self.wait_for(Step::Flush)
            }
            (Step::Flush, Heard::Finished) => {
                self.order_view(Step::Prepare, ViewOrder::Prepare, others)
            }
            (Step::Prepare, Heard::Finished) if !self.stands_still() => {
                let hint = "nothing has changed; try again";
                self.give_up(Refusal::new("the tasks went on too early", hint), others)
            }
            (Step::Prepare, Heard::Finished) => match self.start_committer(subject) {
                Ok(()) => self.wait_for(Step::Apply),
                Err(error) => {
                    let hint = "nothing has changed; try again";
                    let refusal = Refusal::new(format!("start the commit: {error}"), hint);
                    self.give_up(refusal, others)
                }
            },
            (Step::Quiet | Step::Flush | Step::Prepare, Heard::Failed(error)) => {
                let hint = "nothing has changed; the command goes on";
                self.give_up(Refusal::new(error, hint), others)
            }
            (_, Heard::Committer(outcome)) => self.hear_committer(outcome, others),
            (Step::Rebase, Heard::Finished) => {
                if let Some((_, committer)) = &self.committer {
                    let _ = committer.send(&Order::Go);
                }
                self.wait_for(Step::Forget)
            }
            (Step::Choose, Heard::Releasing) => {
                self.order_view(Step::GoOn, ViewOrder::GoOn, others)
            }
            (Step::GoOn, Heard::Finished) => self.thaw(),
            (Step::Rebase | Step::GoOn, Heard::Failed(error)) => self.end(Refusal::new(
                format!("the domain cannot go on: {error}"),
                "`surmise list` shows what has become of it",
            )),
            (Step::GoOn, Heard::Released(released)) => {
                self.released = Some(released);
                Next::Wait
            }
            (Step::Release, Heard::Released(released)) => {
                self.tell_done(released);
                Next::Over
            }
            // Somebody else's answer.
            _ => Next::Wait,
        }
    }

    fn wait_for(&mut self, step: Step) -> Next {
        self.step = step;
        Next::Wait
    }

    fn order_view(&mut self, step: Step, order: ViewOrder, others: Others<'_>) -> Next {
        // If it has died, that is an event to come.
        let _ = others.view.map(|view| view.send(&order));
        self.wait_for(step)
    }

    /// Whether the tasks have stood still until now. From here on the view does, whatever becomes of
    /// the one that holds them: no call of a task gets through before it is told to go on.
    fn stands_still(&self) -> bool {
        let Some(frozen) = &self.frozen else {
            return false;
        };
        let tracer = frozen.as_fd();
        let mut events = [PollFd::new(&tracer, PollFlags::IN)];
        rustix::event::poll(&mut events, Some(&Timespec::default())) == Ok(0)
    }

    fn start_committer(&mut self, subject: Subject<'_>) -> std::io::Result<()> {
        let (ours, theirs) = Link::pair()?;
        let committer = Committer {
            name: subject.name,
            root: subject.root,
            state: subject.state,
            control: &theirs,
            client: &self.client,
            is_strict: self.is_strict,
        };
        let keep = [theirs.as_fd(), self.client.as_fd(), subject.lock];
        let child = process::fork(&keep, || committer.live())?;
        self.committer = Some((child, ours));
        Ok(())
    }

    fn hear_committer(&mut self, outcome: Option<Outcome>, others: Others<'_>) -> Next {
        match (self.step, outcome) {
            (
                Step::Apply,
                Some(Outcome::Applied {
                    changes,
                    left,
                    read_changed,
                }),
            ) => {
                self.done.changes = changes;
                self.done.left = left;
                self.done.read_changed = read_changed;
                self.order_view(Step::Rebase, ViewOrder::Rebase, others)
            }
            (Step::Apply, Some(Outcome::Refused(refusal))) => {
                self.reap();
                self.give_up(refusal, others)
            }
            (_, Some(Outcome::Broken(refusal))) => self.end(refusal),
            (Step::Forget, Some(Outcome::Forgotten)) => {
                self.reap();
                // The tasks and the view still stand still: what would be sent next is not consented to.
                let _ = others.relay.send(&RelayOrder::Release);
                self.wait_for(Step::Choose)
            }
            // It was killed, or could not remove the journal. How far it came, the journal knows.
            _ => self.end(Refusal::new(
                "the commit was cut short",
                "`surmise list` shows what has become of the domain",
            )),
        }
    }

    /// The committer has said its last word, so this waits for no disk.
    fn reap(&mut self) {
        if let Some((child, link)) = self.committer.take() {
            drop(link);
            let _ = child.wait();
        }
    }

    /// Nothing has changed outside.
    fn give_up(&mut self, refusal: Refusal, others: Others<'_>) -> Next {
        self.refused = Some(refusal);
        if self.step < Step::Prepare {
            return self.thaw();
        }
        self.order_view(Step::GoOn, ViewOrder::GoOn, others)
    }

    /// Lets the tasks go on.
    fn thaw(&mut self) -> Next {
        if let Some(frozen) = self.frozen.take() {
            // Whether they went on too early makes no difference any more: the view stood still.
            let _ = frozen.thaw();
        }
        if let Some(refusal) = self.refused.take() {
            self.tell(&Reply::Failed(refusal));
            return Next::Over;
        }
        self.tell(&Reply::Applied(self.done.clone()));
        self.step = Step::Release;
        let released = self.released.take();
        let is_over = released.is_some();
        if let Some(released) = released {
            self.tell_done(released);
        }
        Next::Affirmed {
            changes: self.done.changes,
            is_over,
        }
    }

    fn tell_done(&mut self, released: Delivery) {
        self.done.sent = released.sent;
        self.done.unsent = released.unsent;
        self.tell(&Reply::Done(self.done.clone()));
    }

    fn end(&mut self, refusal: Refusal) -> Next {
        self.tell(&Reply::Failed(refusal));
        Next::End
    }

    fn tell(&self, reply: &Reply) {
        if self.is_told {
            return;
        }
        // A client that has gone needs no answer; one that does not read gets none.
        let _ = self.client.try_send(reply);
    }

    /// A role is stopped, so nobody knows when this goes on: the client need not wait for that.
    fn tell_stopped(&mut self, stopped: StoppedRole) {
        match self.step {
            _ if self.refused.is_some() => {
                let refused = self.refused.clone().expect("just looked");
                self.tell(&Reply::Failed(refused));
            }
            Step::Quiet | Step::Flush | Step::Prepare => {
                let refusal = stopped.refusal("nothing has changed");
                self.tell(&Reply::Failed(refusal.clone()));
                self.unwanted = Some(refusal);
            }
            Step::Apply => self.tell(&Reply::Failed(
                stopped.refusal("the commit has begun, and waits"),
            )),
            Step::Release => {
                self.done.is_sending = true;
                self.tell(&Reply::Done(self.done.clone()));
            }
            Step::Rebase | Step::Forget | Step::Choose | Step::GoOn => {
                let what = "all changes are real, and the domain stands still";
                self.tell(&Reply::Failed(stopped.refusal(what)));
            }
        }
        self.is_told = true;
    }
}

/// Tells a client that its request is not granted.
pub(crate) fn refuse(client: &Link, refusal: Refusal) {
    let _ = client.try_send(&Reply::Failed(refusal));
}
