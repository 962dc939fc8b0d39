//! What waits to be attended to, and what waits on a barrier.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use rustix::process::Pid;
use surmise_engine::{Node, WaiterId};
use surmise_sys::seccomp::Answer;
use surmise_syscalls::Syscall;

use crate::call::Call;
use crate::kind::Kind;
use crate::source::Offer;

/// Something that waits.
#[derive(Debug)]
pub(crate) enum Item<S> {
    /// A call.
    Call(Asked),
    /// A thread of a process that is about to take a signal.
    Signal { process: Pid, signal: S },
}

impl<S> Item<S> {
    pub(crate) fn call(&self) -> Option<&Call> {
        self.asked().map(|asked| &asked.call)
    }

    fn asked(&self) -> Option<&Asked> {
        match self {
            Self::Call(asked) => Some(asked),
            Self::Signal { .. } => None,
        }
    }

    fn is_signal_of(&self, of: Pid) -> bool {
        matches!(self, Self::Signal { process, .. } if *process == of)
    }

    fn into_signal(self) -> Option<S> {
        match self {
            Self::Call(_) => None,
            Self::Signal { signal, .. } => Some(signal),
        }
    }

    /// What has waited for the truth about its own process gets the truth. Another prediction would have the other
    /// threads of the process wait once more.
    fn having_waited_for(self, node: Option<Node>) -> Self {
        match (self, node) {
            (Self::Call(asked), Some(Node::Task(_))) => Self::Call(Asked {
                offer: None,
                ..asked
            }),
            (item, _) => item,
        }
    }
}

/// A call, and what is known of its answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub(crate) call: Call,
    /// A guess for it.
    pub(crate) offer: Option<Offer>,
    /// What it gets as far as durability goes, for which it has waited. All else may have changed meanwhile.
    pub(crate) ordered: Option<Answer>,
}

/// Something that waits on a barrier, or behind output.
#[derive(Debug)]
struct Parked<S> {
    item: Item<S>,
    /// What the barrier is of, if it is one.
    node: Option<Node>,
    waited: Waited,
    /// If input ends the wait, too.
    sleep: Option<Sleep>,
}

/// A wait for input.
#[derive(Debug)]
struct Sleep {
    process: Pid,
    /// Is readable when there is some.
    input: Option<OwnedFd>,
}

/// What an item waited for, and since when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waited {
    pub(crate) kind: Kind,
    pub(crate) since: Instant,
}

/// A call that waits and that a signal could interrupt.
#[derive(Debug)]
pub(crate) struct Interruptible {
    pub(crate) call: Call,
    /// Whether it would sleep in the kernel, too.
    pub(crate) sleeps: bool,
    /// What it has waited for, if that was not for input.
    pub(crate) waited: Option<Waited>,
}

/// All that was heard and is not yet answered.
#[derive(Debug)]
pub(crate) struct Waits<S> {
    ready: VecDeque<Item<S>>,
    /// What has waited, and is attended to before all that was heard later: else it could be overtaken for ever.
    woken: VecDeque<Item<S>>,
    /// Until the engine wakes the waiter.
    parked: BTreeMap<WaiterId, Parked<S>>,
    /// Until no output is on its way to a reader.
    behind_output: Vec<Parked<S>>,
    /// How many waiters there have been.
    waiters: u64,
}

impl<S> Default for Waits<S> {
    fn default() -> Self {
        Self {
            ready: VecDeque::new(),
            woken: VecDeque::new(),
            parked: BTreeMap::new(),
            behind_output: Vec::new(),
            waiters: 0,
        }
    }
}

impl<S> Waits<S> {
    /// Something is to be attended to, after what came before.
    pub(crate) fn add(&mut self, item: Item<S>) {
        self.ready.push_back(item);
    }

    /// What is to be attended to next.
    pub(crate) fn next(&mut self) -> Option<Item<S>> {
        self.woken.pop_front().or_else(|| self.ready.pop_front())
    }

    /// Has something wait until the engine says that a node depends on nothing undecided. The waiter is the engine's
    /// to wake.
    pub(crate) fn park(&mut self, item: Item<S>, node: Node, waited: Waited) -> WaiterId {
        self.waiters += 1;
        let waiter = WaiterId(self.waiters);
        let parked = Parked {
            item,
            node: Some(node),
            waited,
            sleep: None,
        };
        self.parked.insert(waiter, parked);
        waiter
    }

    /// A wait of a process that is parked ends when there is input, too.
    pub(crate) fn sleep(&mut self, waiter: WaiterId, process: Pid, input: Option<OwnedFd>) {
        if let Some(parked) = self.parked.get_mut(&waiter) {
            parked.sleep = Some(Sleep { process, input });
        }
    }

    /// Whether a thread of a process waits for input.
    pub(crate) fn have_sleeper(&self, of: Pid) -> bool {
        let mut sleeps = self
            .parked
            .values()
            .filter_map(|parked| parked.sleep.as_ref());
        sleeps.any(|sleep| sleep.process == of)
    }

    /// The calls that wait for input.
    pub(crate) fn sleepers(&self) -> impl Iterator<Item = Call> {
        let parked = self.parked.values();
        let sleepers = parked.filter(|parked| parked.sleep.is_some());
        sleepers.filter_map(|parked| parked.item.call().copied())
    }

    /// What is readable when there is input for a wait.
    pub(crate) fn inputs(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let sleeps = self
            .parked
            .values()
            .filter_map(|parked| parked.sleep.as_ref());
        sleeps.filter_map(|sleep| sleep.input.as_ref().map(AsFd::as_fd))
    }

    /// Ends all waits for input, for the engine to forget. What waited has not had its truth.
    pub(crate) fn wake_sleepers(&mut self) -> Vec<WaiterId> {
        if self.parked.values().all(|parked| parked.sleep.is_none()) {
            return Vec::new();
        }
        let all = std::mem::take(&mut self.parked).into_iter();
        let sleepers: BTreeMap<_, _>;
        (sleepers, self.parked) = all.partition(|(_, parked)| parked.sleep.is_some());
        let woken = sleepers.into_iter().map(|(waiter, parked)| {
            self.woken.push_back(parked.item);
            waiter
        });
        woken.collect()
    }

    /// Whether a waiter is still to be woken.
    pub(crate) fn is_parked(&self, waiter: WaiterId) -> bool {
        self.parked.contains_key(&waiter)
    }

    /// The engine has woken a waiter. Returns the call that it waited in, and for what.
    pub(crate) fn wake(&mut self, waiter: WaiterId) -> Option<(Option<Call>, Waited)> {
        let parked = self.parked.remove(&waiter)?;
        Some(self.unpark(parked))
    }

    /// Has something wait until no output is on its way.
    pub(crate) fn park_behind_output(&mut self, item: Item<S>, since: Instant) {
        let (node, kind) = (None, Kind::Stream);
        let waited = Waited { kind, since };
        self.behind_output.push(Parked {
            item,
            node,
            waited,
            sleep: None,
        });
    }

    /// No output is on its way any more.
    pub(crate) fn wake_behind_output(&mut self) -> Vec<(Option<Call>, Waited)> {
        let all = std::mem::take(&mut self.behind_output);
        all.into_iter().map(|parked| self.unpark(parked)).collect()
    }

    /// The calls that a signal could interrupt. One that waits for its promises to be kept has been answered but for that.
    pub(crate) fn interruptible(&self) -> Vec<Interruptible> {
        let all = self.parked.values().chain(&self.behind_output);
        let calls = all.filter_map(|parked| {
            let asked = parked
                .item
                .asked()
                .filter(|asked| asked.ordered.is_none())?;
            let waits_for_input = parked.sleep.is_some();
            let sleeps = match parked.waited.kind {
                Kind::Child => true,
                // An exit waits for output, too.
                Kind::Stream => matches!(asked.call.name(), Syscall::Write | Syscall::Writev),
                _ => waits_for_input,
            };
            Some(Interruptible {
                call: asked.call,
                sleeps,
                waited: (!waits_for_input).then_some(parked.waited),
            })
        });
        calls.collect()
    }

    /// Has calls attended to once more that wait on a barrier. Returns their waiters, for the engine to forget, and for
    /// what they have waited.
    pub(crate) fn recall(
        &mut self,
        is_meant: impl Fn(&Call) -> bool,
    ) -> Vec<(WaiterId, (Option<Call>, Waited))> {
        let meant = self.parked.iter().filter(|(_, parked)| {
            let is_barrier_of_task = matches!(parked.node, Some(Node::Task(_)));
            is_barrier_of_task && parked.item.call().is_some_and(&is_meant)
        });
        let meant: Vec<_> = meant.map(|(waiter, _)| *waiter).collect();
        let recalled = meant.into_iter();
        recalled
            .filter_map(|waiter| Some((waiter, self.wake(waiter)?)))
            .collect()
    }

    fn unpark(&mut self, parked: Parked<S>) -> (Option<Call>, Waited) {
        let Parked {
            item, node, waited, ..
        } = parked;
        let call = item.call().copied();
        self.woken.push_back(item.having_waited_for(node));
        (call, waited)
    }

    fn all(&self) -> impl Iterator<Item = &Item<S>> {
        let parked = self.parked.values().chain(&self.behind_output);
        let attended = self.woken.iter().chain(&self.ready);
        attended.chain(parked.map(|parked| &parked.item))
    }

    /// All calls that wait.
    pub(crate) fn calls(&self) -> impl Iterator<Item = &Call> {
        self.all().filter_map(Item::call)
    }

    /// Whether a call of a thread was heard just now, so that nobody has attended to it yet.
    pub(crate) fn have_just_heard(&self, thread: Pid) -> bool {
        let mut calls = self.ready.iter().filter_map(Item::call);
        calls.any(|call| call.thread() == thread)
    }

    /// The same, with what is known of their answers.
    pub(crate) fn asked(&self) -> impl Iterator<Item = &Asked> {
        self.all().filter_map(Item::asked)
    }

    /// Whether any thread of a process is about to take a signal.
    pub(crate) fn have_signal(&self, of: Pid) -> bool {
        self.all().any(|item| item.is_signal_of(of))
    }

    /// Takes the signals that threads of a process are about to take, and the waiters among them, for the engine to
    /// forget.
    pub(crate) fn take_signals(&mut self, of: Pid) -> (Vec<S>, Vec<WaiterId>) {
        let parked = self.take_parked(|item| item.is_signal_of(of));
        let (waiters, mut taken): (Vec<_>, VecDeque<_>) = parked.into_iter().unzip();
        for queue in [&mut self.woken, &mut self.ready] {
            let (signals, others) = queue.drain(..).partition(|item| item.is_signal_of(of));
            *queue = others;
            taken.extend::<VecDeque<_>>(signals);
        }
        let signals = taken.into_iter().filter_map(Item::into_signal);
        (signals.collect(), waiters)
    }

    fn take_parked(&mut self, is_meant: impl Fn(&Item<S>) -> bool) -> Vec<(WaiterId, Item<S>)> {
        let all = std::mem::take(&mut self.parked).into_iter();
        let meant: BTreeMap<_, _>;
        (meant, self.parked) = all.partition(|(_, parked)| is_meant(&parked.item));
        let meant = meant.into_iter();
        meant
            .map(|(waiter, parked)| (waiter, parked.item))
            .collect()
    }

    /// The nodes of the engine's that something waits for that nothing but a decision can bring.
    pub(crate) fn awaited(&self) -> impl Iterator<Item = Node> {
        let parked = self.parked.values();
        let waiting = parked.filter(|parked| parked.sleep.is_none());
        waiting.filter_map(|parked| parked.node)
    }

    /// Forgets calls that do not wait any more. Returns the waiters among them, for the engine to forget.
    pub(crate) fn forget(&mut self, is_over: impl Fn(&Call) -> bool) -> Vec<WaiterId> {
        let is_over = |item: &Item<S>| item.call().is_some_and(&is_over);
        self.woken.retain(|item| !is_over(item));
        self.ready.retain(|item| !is_over(item));
        self.behind_output.retain(|parked| !is_over(&parked.item));
        let over = self.take_parked(is_over).into_iter();
        over.map(|(waiter, _)| waiter).collect()
    }
}
