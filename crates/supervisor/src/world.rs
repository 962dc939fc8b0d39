//! What the supervisor does to calls, processes, files and streams.
//!
//! The [core](crate::core) decides nothing by itself about the kernel: all that it learns and all that it does goes
//! through a [`World`]. One is the machine ([`crate::machine`]); another one is a fake, by which tests run
//! schedules that no kernel would show twice.

mod claims;
mod ends;
mod executing;
mod fifos;
mod lending;
mod piping;
mod positions;
mod reaching;
mod readiness;
mod removing;
mod sending;
mod shutting;
mod signals;
mod sizes;

use std::fmt;
use std::io;
use std::time::Instant;

use rustix::process::Pid;
use surmise_checkpoint::{Change, GiveWay, PendingCall};
use surmise_sys::seccomp::Answer;

use crate::call::Call;
use crate::meeting::{Meeting, Wanted};
use crate::member::Member;
use crate::objects::files::{End, Files};
use crate::objects::input::{Look, Peeked, Place};
use crate::source::Guess;

/// What came of an attempt to take an image of a process.
#[derive(Debug)]
pub(crate) enum Imaged<I> {
    /// There is one. The calls of its threads are made again, but for the caller's if `answered`.
    Taken {
        /// The image.
        image: I,
        /// Whether the caller was given its guess.
        answered: bool,
    },
    /// There is none. Calls that still wait can be answered; the others are made again.
    Failed,
}

/// What came of a call that bears a process.
#[derive(Debug)]
pub(crate) enum Born<P> {
    /// This one. It and its parent go on.
    Child(Pid, P),
    /// None that lives, though the caller has its result: the call has failed, or the child was killed at once.
    Childless,
    /// The call has not happened. Calls that still wait can be answered; the others are made again.
    Unmade,
}

/// What is known of others when a call does something to an object.
#[derive(Debug, Default)]
pub(crate) struct Apart {
    /// Threads whose calls wait for their answers.
    pub(crate) waiting: Vec<Pid>,
    /// Processes that hold images.
    pub(crate) vessels: Vec<Pid>,
    /// Processes that stand still at their exits.
    pub(crate) standing: Vec<Pid>,
    /// Pipes of which the call is told that nobody will write to them any more.
    pub(crate) hung_up: Vec<Place>,
}

impl Apart {
    /// The processes that execute nothing: what they have open says nothing of who will read or write.
    pub(crate) fn still(&self) -> Vec<Pid> {
        [&self.vessels[..], &self.standing].concat()
    }
}

pub(crate) use claims::{Claim, Claims};
pub(crate) use ends::{Ends, Expects, Kin};
pub(crate) use executing::Executes;
pub(crate) use fifos::Fifos;
pub(crate) use lending::Lends;
pub(crate) use piping::{Found, Piping};
pub(crate) use positions::Positions;
pub(crate) use reaching::Reaching;
pub(crate) use readiness::{Asking, Told};
pub(crate) use removing::{Removes, ToTell};
pub(crate) use sending::{Delivered, Receiver, Sender, Sends};
pub(crate) use shutting::{Shut, Shutting, Still};
pub(crate) use signals::Signals;
pub(crate) use sizes::Sizes;

/// What is there when a call of a process is met.
#[derive(Debug)]
pub(crate) struct Around<'a, W: World> {
    /// The process, if it depends on something undecided already.
    pub(crate) member: Option<&'a Member<W>>,
    /// What the paths of the call lead to, if they were looked up.
    pub(crate) ends: &'a [End],
    /// The view's end of the undo log, which can be asked more.
    pub(crate) files: Option<&'a dyn Files>,
}

/// How the threads of a process go on.
pub(crate) use surmise_checkpoint::Traced;

/// The kernel, or a fake of it.
pub(crate) trait World:
    Ends<<Self as World>::Process, <Self as World>::Signal>
    + Executes<<Self as World>::Process, <Self as World>::Signal>
    + Lends<<Self as World>::Process>
    + Removes<<Self as World>::Process>
    + Positions<<Self as World>::Description>
    + Sends<<Self as World>::Process, <Self as World>::Image>
    + Signals<
        <Self as World>::Process,
        <Self as World>::Image,
        <Self as World>::Signal,
        <Self as World>::SignalInfo,
        <Self as World>::Timer,
    > + Piping<<Self as World>::Pipe>
    + Asking
    + Reaching
    + Shutting
    + Sizes
    + Claims
    + Fifos<<Self as World>::Pipe>
    + Sized
{
    /// What it takes to stop a process and to restore it.
    type Process: fmt::Debug;
    /// A restorable image of a process.
    type Image: fmt::Debug;
    /// A thread that has stopped to take a signal.
    type Signal: fmt::Debug;
    /// All that is told of a signal.
    type SignalInfo: fmt::Debug;
    /// How the timer of a process was set at a moment.
    type Timer: fmt::Debug;
    /// A pipe or a stream whose bytes can be looked at.
    type Input: fmt::Debug;
    /// A pipe or a connection inside the domain.
    type Pipe: fmt::Debug;
    /// An open file that several processes may have.
    type Description: fmt::Debug;
    /// Bytes that a task has written to a stream.
    type Output: fmt::Debug;

    /// The time.
    fn now(&self) -> Instant;

    // Calls.

    /// A call is about to happen, or to be guessed: what can be learnt from its arguments is.
    fn heard(&mut self, call: &Call) -> io::Result<()>;

    /// A call happens now: what is learnt best when that is certain is.
    fn happens(&mut self, call: &Call) -> io::Result<()>;

    /// The answer to a call that the domain's boundary refuses.
    fn refuses(&self, call: &Call) -> Option<Answer>;

    /// Answers a call. False if it has gone: its thread was killed, or makes the call again.
    fn answer(&mut self, call: &Call, answer: Answer) -> io::Result<bool>;

    /// Whether a call still waits for its answer.
    fn still_waits(&self, call: &Call) -> io::Result<bool>;

    /// Takes the calls that came while another one was waited for.
    fn take_backlog(&mut self) -> Vec<Call>;

    /// Takes the signals that tracees have stopped to take, and the tracees that have ended, where that was heard while
    /// something else was done.
    fn take_signals(&mut self) -> Vec<(Pid, Self::Signal)>;
    fn take_ended(&mut self) -> Vec<Pid>;

    /// The process that a thread belongs to; `None` once it has ended.
    fn process_of(&self, thread: Pid) -> io::Result<Option<Pid>>;

    /// Whether a process has executed a program since its birth.
    fn has_executed(&self, process: Pid) -> io::Result<bool>;

    /// What it takes to let a call of a process happen.
    fn meet(&mut self, process: Pid, call: &Call, around: Around<'_, Self>) -> io::Result<Meeting>;

    // Processes.

    /// What it takes to restore a process, if a rollback can undo all about it.
    fn admit(&mut self, process: Pid) -> io::Result<Option<Self::Process>>;

    /// Whether one more image of a process would not take too much memory. `images` tells of each process that has
    /// images how many.
    fn has_memory_for(&self, process: Pid, images: &[(Pid, usize)]) -> bool;

    /// Whether a thread is one of the process'.
    fn has(&self, process: &Self::Process, thread: Pid) -> bool;

    /// Whether a thread is known to be one of the process', without a look.
    fn traces(&self, process: &Self::Process, thread: Pid) -> bool;

    /// Whether any thread of a process is traced.
    fn is_traced(&self, process: &Self::Process) -> bool;

    /// A thread was born a tracee, or has ended.
    fn born(&self, process: &mut Self::Process, thread: Pid);
    fn ended(&self, process: &mut Self::Process, thread: Pid);

    /// Takes an image of a process whose thread waits in a call, and gives the caller its guess. With the guess comes what the
    /// call changes that the image has to know of before. `others`: calls of the process' other threads that wait.
    fn take_image(
        &mut self,
        process: &mut Self::Process,
        call: &Call,
        guess: (&Guess, Option<Change>),
        others: &[PendingCall],
    ) -> io::Result<Imaged<Self::Image>>;

    /// Has a process whose thread waits in a call that bears another make that call. `others`: calls of the process'
    /// other threads that wait.
    fn bear(
        &mut self,
        process: &mut Self::Process,
        call: &Call,
        others: &[PendingCall],
    ) -> io::Result<Born<Self::Process>>;

    /// Has another process make the call in which a thread of a process waits: one that shares the process' handlers of signals.
    /// The thread is given the result. False if that was not done. `others`: calls of the process' other threads that wait.
    fn depute(
        &mut self,
        process: &mut Self::Process,
        call: &Call,
        others: &[PendingCall],
    ) -> io::Result<bool>;

    /// Stops all threads of a process, whatever they are doing. `calls` and `signals`: those of its threads that wait in
    /// a call, and that have stopped to take a signal. `give_way` is called when they have been asked to stop. False if it has
    /// ended.
    fn stop(
        &mut self,
        process: &mut Self::Process,
        calls: &[PendingCall],
        signals: Vec<Self::Signal>,
        give_way: GiveWay<'_>,
    ) -> io::Result<bool>;

    /// Makes a process that was stopped what an image holds. Returns how many pages of memory were copied; `None` if
    /// the process was killed meanwhile. `has_undone`: changes of files were taken back that it may have open.
    fn restore(
        &mut self,
        process: &mut Self::Process,
        image: Self::Image,
        has_undone: bool,
    ) -> io::Result<Option<u64>>;

    /// Lets a process go on that was stopped, from what it was restored to, if it was.
    fn resume(&mut self, process: &mut Self::Process, traced: Traced) -> io::Result<()>;

    /// Ends a process that would never have been, and returns when it has ended.
    fn destroy(&mut self, process: &mut Self::Process) -> io::Result<()>;

    /// Lets a thread go on untraced, with the signal that it has stopped for.
    fn deliver(&mut self, signal: Self::Signal) -> io::Result<()>;

    /// Notes in an image what its process is about to change; newer images were told. False if no older image need be told: they were
    /// before, or are of a time before there was what changes.
    fn note(&self, process: &Self::Process, image: &mut Self::Image, change: Change) -> bool;

    /// Whether a process that does not notice the signal which tells of the end of a child might notice it at this image: a
    /// thread blocked it then, or it was taken in another way.
    fn might_notice_ends(&self, image: &Self::Image) -> bool;

    /// The process that holds the memory of an image, which executes nothing.
    fn vessel(&self, image: &Self::Image) -> Option<Pid>;

    /// Frees an image that nobody needs; `process` is the one that it is of, unless that has ended.
    fn discard(
        &mut self,
        image: Self::Image,
        process: Option<&mut Self::Process>,
    ) -> io::Result<()>;

    /// Returns when nothing is open or mapped any more for the sake of images of a process that were discarded.
    fn await_discarded(&self, process: &Self::Process) -> io::Result<()>;

    // Files of the view.

    /// Whether no other task sees what a process changes in the view but by calls that are heard. `vessels`: the processes that hold
    /// images.
    fn is_alone(&mut self, process: Pid, vessels: &[Pid]) -> io::Result<bool>;

    /// Has threads come past the calls in which they may be. False if one does not in time. `waiting`: those whose calls are known to
    /// wait for their answers.
    fn come_past(&mut self, threads: &[Pid], waiting: &[Pid]) -> io::Result<bool>;

    /// Whether a process may share what it has open with others.
    fn has_borne(&self, process: Pid) -> bool;

    /// Whether a call makes its process one that adopts the orphans below it.
    fn adopts(&self, call: &Call) -> bool;

    // Input.

    /// What a read is from, if reads of it can be foreseen.
    fn input(&mut self, process: Pid, wanted: &Wanted) -> io::Result<Option<(Place, Self::Input)>>;

    /// Whether a thread but this one may be taking what is at this place. True in doubt.
    fn may_take(&mut self, place: Place, but: Pid) -> bool;

    /// What a read of at most `length` bytes would be given, had the first `skipped` been taken.
    fn peek(&self, input: &Self::Input, skipped: usize, length: usize) -> io::Result<Peeked>;

    /// Takes so many bytes.
    fn take(&self, input: &Self::Input, length: usize) -> io::Result<()>;

    /// Writes the bytes that a read is given into its process' memory. False if there is no room.
    fn fill(&mut self, process: Pid, wanted: &Wanted, bytes: &[u8]) -> bool;

    /// The call of a thread does not happen, so it takes no input.
    fn takes_nothing(&mut self, thread: Pid);

    /// What of the caller's a call may take input from, or look for input at.
    fn looks_at(&self, process: Option<Pid>, call: &Call) -> Look;

    // Output.

    /// What a task writes by a descriptor, if that is one of the domain's streams and all bytes are there.
    fn output(
        &mut self,
        process: Pid,
        descriptor: u64,
        bytes: (u64, u64),
    ) -> io::Result<Option<Self::Output>>;

    /// Writes what can be written without waiting for a reader. True when all is written, or nobody reads.
    fn put(&mut self, output: &mut Self::Output) -> io::Result<bool>;

    /// Whether a call may write to one of the domain's streams. True in doubt.
    fn may_put(&self, process: Option<Pid>, call: &Call) -> bool;
}
