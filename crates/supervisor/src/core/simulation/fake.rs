//! A machine without a kernel: tasks that are small state machines, files, a pipe, a stream and a clock.
//!
//! A task's next call follows from all that it was told so far, so a wrong guess leads it astray as it would a program.
//! All that tasks do is written down, and struck out when a task is restored. What is left in the end has to be what a
//! machine without guesses could have done, in this order.

mod births;
mod cells;
mod deputy;
mod ends;
mod family;
mod flights;
mod happened;
mod images;
mod lending;
mod log;
mod meeting;
mod op;
mod piping;
mod plan;
mod position;
mod programs;
mod removing;
mod sending;
mod sides;
mod signals;
mod sizes;
mod state;
mod task;

use std::io;
use std::rc::Rc;
use std::time::Instant;

use rustix::process::Pid;
use surmise_checkpoint::{Change, GiveWay, PendingCall};
use surmise_sys::seccomp::Answer;

use crate::call::Call;
use crate::meeting::{Meeting, Wanted};
use crate::objects::input::{Look, Peeked, Place};
use crate::objects::pipe::Queue;
use crate::source::Guess;
use crate::world::{Around, Born, Imaged, Traced, World};

pub(super) use cells::{Cells, FILES};
pub(super) use family::{End, Families, HEARD};
pub(super) use happened::Happened;
use images::{Held, Image, image_of, vessel};
pub(super) use lending::memory;
pub(super) use log::{Disk, Log};
pub(super) use op::{FAILED, LENT, Op};
use piping::{Conduit, descriptor_of, queue_at};
pub(super) use plan::{GENERATIONS, Plan, generation};
pub(super) use sides::{BROKEN, END, NO_END, NOTHING, Side, Sides};
pub(super) use signals::{NOBODY, SENT, Sent};
pub(super) use state::{Shared, State, Step, Written, in_queues, pass};

/// By which tasks have the pipe inside.
const INNER: u64 = 5;
/// By which they have the socket of a connection that reads the first queue, and the other one: all tasks have both.
const SOCKETS: [u64; 2] = [6, 7];

/// The machine.
#[derive(Debug)]
pub(super) struct Fake(pub(super) Shared);

impl World for Fake {
    type Process = Pid;
    type Image = Image;
    type Signal = Pid;
    type SignalInfo = Sent;
    /// The number of the timer that is armed.
    type Timer = Option<i64>;
    /// A queue of the connection, or the pipe.
    type Input = Option<Queue>;
    type Pipe = Conduit;
    type Description = Rc<()>;
    type Output = Written;

    fn now(&self) -> Instant {
        self.0.borrow().now
    }

    fn heard(&mut self, _: &Call) -> io::Result<()> {
        Ok(())
    }

    fn happens(&mut self, _: &Call) -> io::Result<()> {
        Ok(())
    }

    fn refuses(&self, _: &Call) -> Option<Answer> {
        None
    }

    fn answer(&mut self, call: &Call, answer: Answer) -> io::Result<bool> {
        Ok(self.0.borrow_mut().answer(call, answer))
    }

    fn still_waits(&self, call: &Call) -> io::Result<bool> {
        let task = &self.0.borrow().tasks[call.thread()];
        Ok(task.waits_in == Some(call.notification.id))
    }

    fn take_backlog(&mut self) -> Vec<Call> {
        Vec::new()
    }

    fn take_signals(&mut self) -> Vec<(Pid, Pid)> {
        let signals = std::mem::take(&mut self.0.borrow_mut().heard_signals);
        signals.into_iter().map(|thread| (thread, thread)).collect()
    }

    fn take_ended(&mut self) -> Vec<Pid> {
        std::mem::take(&mut self.0.borrow_mut().heard_ends)
    }

    fn has_executed(&self, _: Pid) -> io::Result<bool> {
        Ok(true)
    }

    fn process_of(&self, thread: Pid) -> io::Result<Option<Pid>> {
        let task = &self.0.borrow().tasks[thread];
        Ok(task.is_alive.then_some(task.process))
    }

    fn meet(&mut self, _: Pid, call: &Call, around: Around<'_, Self>) -> io::Result<Meeting> {
        Ok(meeting::meet(&self.0.borrow(), call, around))
    }

    fn admit(&mut self, process: Pid) -> io::Result<Option<Pid>> {
        let state = &mut *self.0.borrow_mut();
        let is_admitted = !state.once_in(8) && !state.shares_memory(process);
        Ok(is_admitted.then_some(process))
    }

    fn has_memory_for(&self, _: Pid, _: &[(Pid, usize)]) -> bool {
        true
    }

    fn has(&self, process: &Pid, thread: Pid) -> bool {
        self.0.borrow().threads(*process).contains(&thread)
    }

    fn traces(&self, process: &Pid, thread: Pid) -> bool {
        self.has(process, thread) && self.0.borrow().tasks[thread].traced
    }

    fn is_traced(&self, process: &Pid) -> bool {
        let state = self.0.borrow();
        let mut threads = state.threads(*process).into_iter();
        threads.any(|thread| state.tasks[thread].traced)
    }

    fn born(&self, _: &mut Pid, _: Pid) {}

    fn ended(&self, _: &mut Pid, _: Pid) {}

    fn take_image(
        &mut self,
        process: &mut Pid,
        call: &Call,
        (guess, _): (&Guess, Option<Change>),
        others: &[PendingCall],
    ) -> io::Result<Imaged<Image>> {
        let state = &mut *self.0.borrow_mut();
        let threads = state.threads(*process);
        if threads.is_empty() {
            return Ok(Imaged::Failed);
        }
        let waits_in = state.tasks[call.thread()].waits_in;
        assert_eq!(waits_in, Some(call.notification.id), "it is in no call");
        let pending = |thread| thread == call.thread() || has_call(others, thread);
        assert!(state.can_stop(*process, pending, |_| false));
        if state.fails_to_stop(&threads) {
            return Ok(Imaged::Failed);
        }
        state.interrupt(&threads);
        state.images_made += 1;
        let number = state.images_made;
        let (process, sides) = (*process, state.sides(*process));
        let held = Held {
            process,
            sides,
            knows_execution: false,
            is_lost: false,
        };
        state.images.insert(number, held);
        let told = threads.iter().map(|&thread| {
            let task = state.task(thread);
            task.traced = true;
            if thread != call.thread() {
                task.waits_in = None;
            }
            (thread, task.told.clone())
        });
        let told = told.collect();
        let answered = match guess {
            Guess::Result(result) => state.answer(call, Answer::Value(*result)),
            _ => {
                state.task(call.thread()).waits_in = None;
                false
            }
        };
        let image = Image {
            number,
            told,
            program: state.program(process),
        };
        Ok(Imaged::Taken { image, answered })
    }

    fn depute(
        &mut self,
        process: &mut Pid,
        call: &Call,
        others: &[PendingCall],
    ) -> io::Result<bool> {
        Ok(self.0.borrow_mut().depute(*process, call, others))
    }

    fn bear(
        &mut self,
        process: &mut Pid,
        call: &Call,
        others: &[PendingCall],
    ) -> io::Result<Born<Pid>> {
        let state = &mut *self.0.borrow_mut();
        let (threads, parent) = (state.threads(*process), call.thread());
        if state.tasks[parent].waits_in != Some(call.notification.id) {
            return Ok(Born::Unmade);
        }
        let pending = |thread| thread == parent || has_call(others, thread);
        assert!(state.can_stop(*process, pending, |_| false));
        if state.fails_to_stop(&threads) {
            return Ok(Born::Unmade);
        }
        state.interrupt(&threads);
        let at = state.tasks[parent].told.len();
        assert!(state.answer(call, Answer::Continue), "it waits");
        for thread in threads {
            let task = state.task(thread);
            (task.waits_in, task.traced) = (None, true);
        }
        Ok(state.trace_child(parent, at))
    }

    fn stop(
        &mut self,
        process: &mut Pid,
        calls: &[PendingCall],
        signals: Vec<Pid>,
        give_way: GiveWay<'_>,
    ) -> io::Result<bool> {
        let threads = self.0.borrow().threads(*process);
        // Those that wait for an answer are nowhere else.
        if !threads.iter().all(|&thread| has_call(calls, thread)) {
            give_way()?;
        }
        let state = &mut *self.0.borrow_mut();
        let pending = |thread| has_call(calls, thread);
        if threads.iter().any(|&thread| state.tasks[thread].at_exit) {
            return Ok(true);
        }
        assert!(state.can_stop(*process, pending, |thread| signals.contains(&thread)));
        state.interrupt(&threads);
        for &thread in &threads {
            let task = state.task(thread);
            (task.waits_in, task.at_signal, task.stands) = (None, false, true);
            if let Some(sent) = task.signal.take() {
                state.mail.wait(*process, sent);
            }
        }
        Ok(!threads.is_empty())
    }

    fn restore(&mut self, process: &mut Pid, image: Image, _: bool) -> io::Result<Option<u64>> {
        let state = &mut *self.0.borrow_mut();
        for thread in state.threads(*process) {
            assert!(state.tasks[thread].stands, "it runs");
        }
        let held = state.images.remove(&image.number).expect("it is used up");
        assert!(!held.is_lost, "there was an older one");
        if held.knows_execution {
            state.set_program(*process, image.program);
        }
        state.restore(image.told);
        Ok(Some(1))
    }

    fn resume(&mut self, process: &mut Pid, traced: Traced) -> io::Result<()> {
        let state = &mut *self.0.borrow_mut();
        let own = state.marks.iter().filter(|mark| mark.process == *process);
        let mut own = own.map(|mark| mark.number);
        assert!(
            own.all(|mark| !state.gives_way.contains(&mark)),
            "its calls would all fail"
        );
        for thread in state.threads(*process) {
            let task = state.task(thread);
            assert!(task.stands && !task.at_exit, "it runs");
            (task.stands, task.traced) = (false, traced == Traced::Still);
        }
        Ok(())
    }

    fn destroy(&mut self, process: &mut Pid) -> io::Result<()> {
        self.0.borrow_mut().unbear(*process);
        Ok(())
    }

    fn deliver(&mut self, thread: Pid) -> io::Result<()> {
        let state = &mut *self.0.borrow_mut();
        state.take_signal(thread);
        state.task(thread).traced = false;
        Ok(())
    }

    fn note(&self, _: &Pid, image: &mut Image, change: Change) -> bool {
        change != Change::Program || self.0.borrow_mut().note_execution(image.number)
    }

    fn might_notice_ends(&self, _: &Image) -> bool {
        false
    }

    fn vessel(&self, image: &Image) -> Option<Pid> {
        vessel(image.number)
    }

    fn await_discarded(&self, _: &Pid) -> io::Result<()> {
        Ok(())
    }

    fn discard(&mut self, image: Image, process: Option<&mut Pid>) -> io::Result<()> {
        let state = &mut *self.0.borrow_mut();
        assert!(
            state.images.remove(&image.number).is_some(),
            "it is used up"
        );
        if process.is_none() {
            // It was killed: all that it did since might as well not have been done.
            state.restore(image.told);
        }
        Ok(())
    }

    fn is_alone(&mut self, process: Pid, _: &[Pid]) -> io::Result<bool> {
        Ok(self.is_undisturbed(process))
    }

    fn come_past(&mut self, threads: &[Pid], _: &[Pid]) -> io::Result<bool> {
        self.land_all(threads)
    }

    fn has_borne(&self, _: Pid) -> bool {
        false
    }

    fn adopts(&self, _: &Call) -> bool {
        false
    }

    fn input(&mut self, _: Pid, wanted: &Wanted) -> io::Result<Option<(Place, Option<Queue>)>> {
        let queue = queue_at(wanted.descriptor);
        let is_foreseen = wanted.descriptor != INNER;
        Ok(is_foreseen.then_some((Place(0, 1 + wanted.descriptor), queue)))
    }

    fn may_take(&mut self, _: Place, _: Pid) -> bool {
        false
    }

    fn peek(&self, queue: &Option<Queue>, skipped: usize, length: usize) -> io::Result<Peeked> {
        let state = self.0.borrow();
        let bytes = match queue {
            Some(queue) => &state.line[*queue as usize],
            None => &state.pipe,
        };
        let bytes = bytes.iter().skip(skipped).take(length);
        let bytes: Vec<_> = bytes.copied().collect();
        Ok(match bytes.is_empty() {
            true => Peeked::Unknown,
            false => Peeked::Bytes(bytes),
        })
    }

    fn take(&self, queue: &Option<Queue>, length: usize) -> io::Result<()> {
        let state = &mut *self.0.borrow_mut();
        let bytes = match queue {
            Some(queue) => &mut state.line[*queue as usize],
            None => &mut state.pipe,
        };
        bytes.drain(..length);
        Ok(())
    }

    fn fill(&mut self, _: Pid, wanted: &Wanted, bytes: &[u8]) -> bool {
        let thread = thread_at(wanted.room[0].0);
        self.0.borrow_mut().task(thread).filled = bytes.first().copied();
        true
    }

    fn takes_nothing(&mut self, _: Pid) {}

    fn looks_at(&self, _: Option<Pid>, call: &Call) -> Look {
        match self.0.borrow().op_of(call) {
            Op::Take => Look::At {
                place: Place(0, 1),
                is_read: true,
            },
            Op::Hear(queue) => Look::At {
                place: Place(0, 1 + descriptor_of(queue)),
                is_read: true,
            },
            Op::Poll => Look::Anywhere { is_read: false },
            _ => Look::Nothing,
        }
    }

    fn output(&mut self, _: Pid, _: u64, (address, _): (u64, u64)) -> io::Result<Option<Written>> {
        let (state, thread) = (self.0.borrow(), thread_at(address));
        Ok(match state.tasks[thread].op() {
            Op::Put(byte) => Some(state.written(thread, byte)),
            _ => None,
        })
    }

    fn put(&mut self, output: &mut Written) -> io::Result<bool> {
        let state = &mut *self.0.borrow_mut();
        if state.room == 0 {
            return Ok(false);
        }
        state.room -= 1;
        state.stream.push(*output);
        Ok(true)
    }

    fn may_put(&self, _: Option<Pid>, call: &Call) -> bool {
        matches!(self.0.borrow().op_of(call), Op::Put(_) | Op::Exit(_))
    }
}

/// All memory that a call of a thread names is at this address.
fn address_of(thread: Pid) -> u64 {
    thread.as_raw_nonzero().get().cast_unsigned().into()
}

fn thread_at(address: u64) -> Pid {
    Pid::from_raw(address as i32).expect("a thread's address")
}

fn has_call(calls: &[PendingCall], thread: Pid) -> bool {
    calls.iter().any(|call| call.thread == thread)
}
