//! Listening to a real process. It is a copy of this one, which therefore has one thread: this program
//! runs its tests itself, and a second time as an ordinary user.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::pipe::PipeFlags;
use rustix::process::{Pid, Signal};
use rustix::time::Timespec;
use surmise_sys::process::{self, Child};
use surmise_sys::seccomp::{
    Answer, Listener, Listening, Notification, Privilege, Program, install_with_listener,
};
use surmise_syscalls::{Syscall, row_of};
use surmise_testkit::watchdog::{self, LIMIT};
use surmise_testkit::{become_ordinary_user, is_root, skip};

/// Calls of the test of lost answers.
const CALLS: i32 = 2_000;

fn main() {
    run_all();
    if !is_root() {
        return skip("listening as another user takes root");
    }
    let child = process::fork(&[], || {
        become_ordinary_user();
        run_all();
        0
    });
    let status = child.expect("fork").wait().expect("wait");
    assert_eq!(status.exit_status(), Some(0), "as an ordinary user");
}

fn run_all() {
    let tests: [fn(); 6] = [
        a_call_gets_the_answer_that_was_given,
        what_a_checkpoint_holds_is_no_event,
        a_call_of_a_killed_thread_has_gone,
        a_descriptor_appears_in_the_callers_table,
        a_signal_waits_for_the_answer_of_a_received_call,
        no_answer_is_lost_among_signals,
    ];
    for test in tests {
        test();
    }
}

fn a_call_gets_the_answer_that_was_given() {
    let task = Task::start(|| {
        let emulated = group() == Ok(4242);
        let failed = rustix::fs::stat("/").err() == Some(Errno::DQUOT);
        let ran = group().is_ok_and(|group| group != 4242);
        u8::from(emulated && failed && ran) + 40
    });
    let call = task.next();
    assert_eq!(
        (call.number, call.thread),
        (row_of(Syscall::Getpgid).number(), task.child.pid())
    );
    assert_eq!(call.arguments[0], 0);
    assert_ne!(call.instruction_pointer, 0);
    let valid = |id| task.listener.is_valid(id).expect("ask");
    assert!(valid(call.id));
    task.answer(call, Answer::Value(4242));
    assert!(!valid(call.id));
    task.answer(task.next(), Answer::Error(Errno::DQUOT));
    let again = task.listener.answer(call.id, Answer::Continue);
    assert!(!again.expect("answer"), "answered twice");
    task.answer(task.next(), Answer::Continue);
    let end = task.next();
    assert_eq!(end.number, row_of(Syscall::ExitGroup).number());
    assert_eq!(end.arguments[0], 41);
    task.answer(end, Answer::Continue);
    assert_eq!(task.child.wait().expect("wait").exit_status(), Some(41));
    let mut events = [PollFd::new(&task.listener, PollFlags::IN)];
    rustix::event::poll(&mut events, None).expect("poll");
    assert_eq!(events[0].revents(), PollFlags::HUP);
}

fn what_a_checkpoint_holds_is_no_event() {
    let task = Task::start(|| {
        let memory = vec![1_u8; 1 << 20];
        let copy = rustix::io::dup(io::stdin());
        let _ = rustix::process::getpid();
        drop(copy);
        u8::from(memory.iter().all(|&byte| byte == 1)) + 6
    });
    let end = task.next();
    assert_eq!(end.number, row_of(Syscall::ExitGroup).number());
    task.answer(end, Answer::Continue);
    task.finish(7);
}

fn a_call_of_a_killed_thread_has_gone() {
    let forever = || loop {
        let _ = group();
    };
    let task = Task::start(forever);
    let call = task.next();
    task.kill();
    let listener = &task.listener;
    assert!(!listener.is_valid(call.id).expect("ask"));
    assert!(!listener.answer(call.id, Answer::Value(1)).expect("answer"));
    let added = listener.add_descriptor(call.id, io::stdin().as_fd(), None, true);
    assert_eq!(added.expect("add"), None);

    let task = Task::start(forever);
    task.await_event();
    task.kill();
    // It was there, so this does not wait.
    assert_eq!(task.listener.receive().expect("receive"), None);
}

fn a_descriptor_appears_in_the_callers_table() {
    const PLACE: RawFd = 50;
    let task = Task::start(|| {
        let _ = group();
        let place = format!("/proc/self/fd/{PLACE}");
        let flags = fs::read_to_string(format!("/proc/self/fdinfo/{PLACE}")).expect("open");
        // O_CLOEXEC and O_WRONLY.
        assert!(flags.contains("flags:\t02000001"), "{flags}");
        fs::write(place, "given").expect("write");
        0
    });
    let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).expect("a pipe");
    let call = task.next();
    let listener = &task.listener;
    let placed = listener.add_descriptor(call.id, writer.as_fd(), Some(PLACE), true);
    assert_eq!(placed.expect("add"), Some(PLACE));
    let lowest = listener.add_descriptor(call.id, writer.as_fd(), None, false);
    let lowest = lowest.expect("add").expect("the call waits");
    assert!((3..PLACE).contains(&lowest), "{lowest}");
    task.answer(call, Answer::Continue);
    task.finish(0);
    let mut buffer = [0; 16];
    let length = rustix::io::read(&reader, &mut buffer).expect("read");
    assert_eq!(&buffer[..length], b"given");
}

/// Kernel behaviour 2: an answer that was accepted takes effect, whatever else comes.
fn a_signal_waits_for_the_answer_of_a_received_call() {
    let task = Task::start(|| {
        count_signals();
        let value = group();
        let signals = SIGNALS.load(Ordering::SeqCst);
        u8::from(value == Ok(77) && signals == 1)
    });
    task.let_handler_be_set();
    let call = task.next();
    task.child.signal(Signal::USR1).expect("signal");
    let status = format!("/proc/{}/status", task.child.pid().as_raw_nonzero());
    watchdog::until("the signal waits", LIMIT, || {
        let status = fs::read_to_string(&status).expect("the task's status");
        let pending = status.lines().find(|line| line.starts_with("ShdPnd:"));
        pending.is_some_and(|line| line.ends_with("0200"))
    });
    task.answer(call, Answer::Value(77));
    task.finish(1);
}

/// The answers are numbered: a call that was made again after its answer would get one too high.
fn no_answer_is_lost_among_signals() {
    let task = Task::start(|| {
        count_signals();
        let in_order = (1..=CALLS).all(|wanted| group() == Ok(wanted));
        u8::from(in_order && SIGNALS.load(Ordering::SeqCst) > 0)
    });
    task.let_handler_be_set();
    let victim = task.child.pid();
    let storm = process::fork(&[], || {
        end_with_parent();
        loop {
            if rustix::process::kill_process(victim, Signal::USR1).is_err() {
                return 0;
            }
        }
    })
    .expect("fork");
    let mut given = 0;
    loop {
        let Some(call) = task.try_next() else {
            continue;
        };
        if call.number != row_of(Syscall::Getpgid).number() {
            storm.signal(Signal::KILL).expect("end the storm");
            storm.wait().expect("wait");
            task.answer(call, Answer::Continue);
            break;
        }
        let taken = task.listener.answer(call.id, Answer::Value(given + 1));
        given += i64::from(taken.expect("answer"));
    }
    task.finish(1);
    assert_eq!(given, i64::from(CALLS));
}

static SIGNALS: AtomicU32 = AtomicU32::new(0);

extern "C" fn count(_: libc::c_int) {
    SIGNALS.fetch_add(1, Ordering::SeqCst);
}

/// Handles USR1, in this process.
fn count_signals() {
    // SAFETY: the handler does nothing but add to an atomic number.
    let before = unsafe { libc::signal(libc::SIGUSR1, count as *const () as libc::sighandler_t) };
    assert_ne!(before, libc::SIG_ERR);
}

/// A tracked call without an effect: the caller's process group.
fn group() -> Result<i32, Errno> {
    rustix::process::getpgid(None).map(Pid::as_raw_pid)
}

/// A process whose calls are listened to.
struct Task {
    child: Child,
    listener: Listener,
}

impl Task {
    fn start(body: impl FnOnce() -> u8) -> Self {
        let program = Program::new(Listening::PREDICTIONS);
        let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).expect("a pipe");
        let child = process::fork(&[writer.as_fd()], || {
            end_with_parent();
            let next = rustix::io::dup(&writer).expect("duplicate").as_raw_fd();
            rustix::io::write(&writer, &next.to_ne_bytes()).expect("tell");
            let installed = install_with_listener(&program, Privilege::NoNewPrivileges);
            assert_eq!(installed.expect("install"), next);
            body()
        })
        .expect("fork");
        let mut next = [0; size_of::<RawFd>()];
        rustix::io::read(&reader, &mut next).expect("hear");
        let mut listener = None;
        watchdog::until("the task has a listener", LIMIT, || {
            let found = Listener::of(child.as_fd(), RawFd::from_ne_bytes(next));
            listener = found.expect("take the listener");
            listener.is_some()
        });
        let listener = listener.expect("found above");
        Self { child, listener }
    }

    #[track_caller]
    fn await_event(&self) {
        let mut events = [PollFd::new(&self.listener, PollFlags::IN)];
        while rustix::event::poll(&mut events, Some(&limit())) == Err(Errno::INTR) {}
        assert_eq!(events[0].revents(), PollFlags::IN, "no call came");
    }

    #[track_caller]
    fn try_next(&self) -> Option<Notification> {
        self.await_event();
        self.listener.receive().expect("receive")
    }

    /// The first thing that a task which counts signals does.
    #[track_caller]
    fn let_handler_be_set(&self) {
        let call = self.next();
        assert_eq!(call.number, row_of(Syscall::RtSigaction).number());
        self.answer(call, Answer::Continue);
        // It is set once the next call comes; a signal before that would end the task.
        self.await_event();
    }

    #[track_caller]
    fn next(&self) -> Notification {
        self.try_next().expect("nobody interrupts it")
    }

    #[track_caller]
    fn answer(&self, call: Notification, answer: Answer) {
        let answered = self.listener.answer(call.id, answer).expect("answer");
        assert!(answered, "{call:?} has gone");
    }

    /// Lets it go on to its end.
    #[track_caller]
    fn finish(&self, status: i32) {
        loop {
            let mut events = [
                PollFd::new(&self.listener, PollFlags::IN),
                PollFd::new(&self.child, PollFlags::IN),
            ];
            let polled = rustix::event::poll(&mut events, Some(&limit()));
            assert_ne!(polled, Ok(0), "it does nothing");
            if events[0].revents().contains(PollFlags::IN) {
                let call = self.listener.receive().expect("receive");
                if let Some(call) = call {
                    self.answer(call, Answer::Continue);
                }
            } else if !events[1].revents().is_empty() {
                break;
            }
        }
        let end = self.child.wait().expect("wait");
        assert_eq!(end.exit_status(), Some(status));
    }

    fn kill(&self) {
        self.child.signal(Signal::KILL).expect("kill");
        self.child.wait().expect("wait");
    }
}

/// A test that fails must not leave a process that waits for an answer for ever.
fn end_with_parent() {
    let end = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    end.expect("end with the test");
}

fn limit() -> Timespec {
    Timespec::try_from(LIMIT).expect("seconds")
}
