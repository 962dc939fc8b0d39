//! What control does.

use std::collections::BTreeSet;

use rustix::process::Signal;
use surmise_kept::Notice;
use surmise_kept::doorway::{Refusal, Reply};

use crate::message::{Order, RelayOrder, ViewOrder};
use crate::person::Question;

/// Whom a commit waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Suspects {
    Committer,
    Roles,
}

/// What control does. `V`: another command of the user, which has come by the doorway. What is sent to a role that has
/// died is lost: the role's end is another event.
#[derive(Debug, PartialEq, Eq)]
pub(in super::super) enum Effect<V> {
    /// An order for pid 1.
    Init(Order),
    /// An order for the view. Where there is none, it is done.
    View(ViewOrder),
    /// An order for the relay process.
    Relay(RelayOrder),
    /// End pid 1, and the domain with it.
    KillInit,
    /// Let roles go on that are stopped.
    Wake,
    /// Kill the supervisor, which does not let go of tasks that are to end.
    Free,
    /// What waits for the supervisor waits in vain.
    SupervisorGone,
    /// Stop this process, as the command was; [`TerminalEvent::WentOn`](super::TerminalEvent::WentOn) follows.
    Stop(Signal),
    /// Tell all watchers.
    TellWatchers(Notice),
    /// Tell the person.
    Note(Notice),
    /// Ask the person, whose the terminal is; [`Event::Answered`](super::Event::Answered) follows.
    Ask(Question),
    /// Look what the tasks wait for. The output of these sockets is held.
    /// [`BoundaryEvent::Tasks`](super::BoundaryEvent::Tasks) follows, if the tasks can be looked at.
    Sample(BTreeSet<u64>),
    /// What was seen of the tasks so far counts no more.
    ForgetSample,
    /// This one waits until the domain has ended.
    AwaitEnd(V),
    /// This one watches from now on.
    Watch(V),
    /// This one has got what it wants.
    Grant(V),
    /// This one does not get what it wants.
    Refuse(V, Refusal),
    /// Have all guesses decided.
    SettleGuesses,
    /// Have the tasks stand still for this one's commit; [`CommitEvent::Frozen`](super::CommitEvent::Frozen) follows.
    Freeze(V),
    /// For the commit whose tasks stand still.
    Commit(CommitEffect),
}

/// What is done for a commit, from the moment that tasks stand still.
#[derive(Debug, PartialEq, Eq)]
pub(in super::super) enum CommitEffect {
    /// Start the committer; [`CommitEvent::Started`](super::CommitEvent::Started) follows, and later what it says.
    StartCommitter { is_strict: bool },
    /// Have the committer forget the commit's journal.
    ForgetJournal,
    /// The committer has said its last word: wait for its end.
    Reap,
    /// Let the tasks go on.
    Thaw,
    /// Tell the one whose commit it is.
    Tell(Reply),
    /// The commit is over. Tasks that still stand still go on.
    Over,
    /// Look whether one of these is stopped; [`CommitEvent::RoleStopped`](super::CommitEvent::RoleStopped) follows for one.
    FindStopped(Suspects),
}
