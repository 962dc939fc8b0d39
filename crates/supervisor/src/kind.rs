//! The kinds of object that a task can meet.

use std::fmt;

/// What kind of object a call is about, or what stands in a call's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    /// Nothing that a rollback has to undo.
    None,
    /// A file of the view that is looked at, or the position of an open file that no other process has.
    File,
    /// A file of the view that is changed.
    ChangedFile,
    /// The position of an open file that several processes have.
    Position,
    /// The table of descriptors.
    Descriptor,
    /// Readiness of other objects.
    Events,
    /// A pipe or a stream that bytes are read from.
    Input,
    /// A pipe inside the domain.
    Pipe,
    /// A pipe inside the domain whose other side is open in processes alone that execute nothing.
    ShutPipe,
    /// A stream of the domain that bytes are written to.
    Stream,
    /// Maps of memory.
    Memory,
    /// Attributes of a process that its image has.
    Process,
    /// The birth of a thread.
    Thread,
    /// The end of a process, of which its parent is told.
    Exit,
    /// A child that a process sleeps for, or whose end it was told of before the child has ended.
    Child,
    /// A child that has ended, whose parent was told of that and has not reaped it yet.
    Zombie,
    /// The birth of a process.
    Birth,
    /// Memory that a process has lent to its child.
    Loan,
    /// The program that a process executes.
    Program,
    /// A signal that a task is about to take.
    Signal,
    /// A signal that a process has taken though that may be undone.
    TakenSignal,
    /// A signal that a speculating process sends.
    SentSignal,
    /// The timer of a process, which sends it a signal.
    Timer,
    /// What was promised to be durable.
    Epoch,
}

impl Kind {
    /// The name that statistics have for it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::File => "file",
            Self::ChangedFile => "changed file",
            Self::Position => "position",
            Self::Descriptor => "descriptor",
            Self::Events => "events",
            Self::Input => "input",
            Self::Pipe => "pipe",
            Self::ShutPipe => "shut pipe",
            Self::Stream => "stream",
            Self::Memory => "memory",
            Self::Process => "process",
            Self::Thread => "thread",
            Self::Exit => "exit",
            Self::Child => "child",
            Self::Zombie => "zombie",
            Self::Birth => "birth",
            Self::Loan => "loan",
            Self::Program => "program",
            Self::Signal => "signal",
            Self::TakenSignal => "taken signal",
            Self::SentSignal => "sent signal",
            Self::Timer => "timer",
            Self::Epoch => "epoch",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}
