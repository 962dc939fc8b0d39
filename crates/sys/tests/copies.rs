//! Copies of a process that has one thread, which a test harness does not leave it: this program
//! runs its tests itself, one after the other.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::Path;
use std::sync::atomic::Ordering::SeqCst;

use rustix::event::{PollFd, PollFlags};
use rustix::fs::{CWD, FileType, Mode, OFlags, mkdir, mknodat, open, rename, symlink, unlink};
use rustix::io::Errno;
use rustix::pipe::PipeFlags;
use rustix::process::{Signal, geteuid, getpid, getppid};
use rustix::thread::UnshareFlags;
use surmise_sys::process::{self, clone, fork};
use surmise_sys::shared::SharedWords;
use surmise_sys::{descriptors, landlock, network, signals};

fn main() {
    let tests: [fn(); 10] = [
        a_copy_exits_with_what_its_closure_returns,
        a_copy_keeps_the_descriptors_it_is_told_to,
        a_panic_ends_only_the_copy,
        copies_share_the_words_that_were_made_before,
        a_branch_goes_on_with_everything_of_its_own_but_the_children,
        a_copy_is_watched_and_signalled,
        a_copy_with_a_pid_namespace_is_its_pid_1,
        blocked_signals_are_read_from_a_descriptor,
        an_ignored_signal_is_given_back,
        changes_are_kept_below_a_directory,
    ];
    for test in tests {
        test();
    }
}

fn a_copy_exits_with_what_its_closure_returns() {
    let parent = getpid();
    let child = fork(&[], || u8::from(getppid() == Some(parent)) + 41).expect("fork");
    assert_eq!(child.wait().expect("wait").exit_status(), Some(42));
}

fn copies_share_the_words_that_were_made_before() {
    let words = SharedWords::new().expect("a page");
    let child = fork(&[], || {
        words.counters[127].store(u64::MAX, SeqCst);
        words.signals[15].store(7, SeqCst);
        0
    });
    child.expect("fork").wait().expect("wait");
    assert_eq!(words.counters[127].load(SeqCst), u64::MAX);
    assert_eq!(words.signals[15].load(SeqCst), 7);
    assert_eq!(words.counters[126].load(SeqCst), 0);
}

fn a_copy_keeps_the_descriptors_it_is_told_to() {
    let (reader, writer) = rustix::pipe::pipe().expect("a pipe");
    let (other, _hold) = rustix::pipe::pipe().expect("a pipe");
    let (closed, kept) = (other.as_raw_fd(), writer.as_fd());
    let child = fork(&[kept], || {
        let is_open = |fd: i32| Path::new(&format!("/proc/self/fd/{fd}")).exists();
        let expected = is_open(0) && is_open(kept.as_raw_fd()) && !is_open(closed);
        u8::from(expected && rustix::io::write(kept, b"x") == Ok(1))
    });
    assert_eq!(
        child.expect("fork").wait().expect("wait").exit_status(),
        Some(1)
    );
    let mut byte = [0];
    rustix::io::read(reader, &mut byte).expect("read");
    assert_eq!(&byte, b"x");
    rustix::io::fcntl_setfd(&other, rustix::io::FdFlags::empty()).expect("clear");
    descriptors::close_on_exec().expect("mark");
    let flags = rustix::io::fcntl_getfd(&other).expect("read");
    assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
}

fn a_branch_goes_on_with_everything_of_its_own_but_the_children() {
    let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).expect("a pipe");
    // As what this program was started with.
    let (old, _hold) = rustix::pipe::pipe().expect("a pipe");
    let inherited = old.as_raw_fd();
    let sibling = fork(&[writer.as_fd()], || {
        let _ = rustix::io::write(&writer, b"x");
        0
    })
    .expect("fork");
    let branch = process::branch(|| {
        let mut byte = [0];
        let read = rustix::io::read(&reader, &mut byte) == Ok(1);
        let ended = sibling.wait_ended().is_ok() && sibling.wait().is_err();
        let closed = !Path::new(&format!("/proc/self/fd/{inherited}")).exists();
        u8::from(read && ended && closed)
    });
    let status = branch.expect("branch").wait().expect("wait");
    assert_eq!(status.exit_status(), Some(1));
    assert_eq!(sibling.wait().expect("wait").exit_status(), Some(0));
}

fn a_panic_ends_only_the_copy() {
    let quiet = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let child = fork(&[], || panic!("in the copy")).expect("fork");
    std::panic::set_hook(quiet);
    assert_eq!(child.wait().expect("wait").exit_status(), Some(101));
}

fn a_copy_is_watched_and_signalled() {
    let (wait, _hold) = rustix::pipe::pipe().expect("a pipe");
    let child = fork(&[wait.as_fd(), _hold.as_fd()], || {
        // Nobody writes: it sleeps until it is killed.
        u8::from(rustix::io::read(&wait, &mut [0]).is_err())
    })
    .expect("fork");
    assert!(!has_ended(child.as_fd()));
    child.signal(Signal::KILL).expect("kill");
    let status = child.wait().expect("wait");
    assert_eq!(status.terminating_signal(), Some(Signal::KILL.as_raw()));
    assert!(has_ended(child.as_fd()));
}

fn has_ended(pidfd: BorrowedFd<'_>) -> bool {
    let mut events = [PollFd::new(&pidfd, PollFlags::IN)];
    rustix::event::poll(&mut events, Some(&rustix::time::Timespec::default())) == Ok(1)
}

fn a_copy_with_a_pid_namespace_is_its_pid_1() {
    let namespaces = UnshareFlags::NEWUSER | UnshareFlags::NEWPID;
    let child = clone(namespaces, &[], || {
        let expected = getpid().is_init() && getppid().is_none() && network::enter_new().is_ok();
        u8::from(expected)
    });
    match child {
        Ok(child) => assert_eq!(child.wait().expect("wait").exit_status(), Some(1)),
        // A machine that forbids user namespaces; a user has no right to others either.
        Err(error) => assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{error}"),
    }
}

fn blocked_signals_are_read_from_a_descriptor() {
    let mask = signals::block(&[Signal::USR1]).expect("block");
    let pending = signals::SignalFd::new(&[Signal::USR1]).expect("a descriptor");
    assert_eq!(pending.next().expect("read"), None);
    rustix::process::kill_process(getpid(), Signal::USR1).expect("signal");
    assert_eq!(pending.next().expect("read"), Some(Signal::USR1));
    assert_eq!(pending.next().expect("read"), None);
    mask.restore().expect("restore");
}

fn an_ignored_signal_is_given_back() {
    assert!(!signals::is_ignored(Signal::USR2).expect("look"));
    let before = signals::ignore(Signal::USR2).expect("ignore");
    assert!(signals::is_ignored(Signal::USR2).expect("look"));
    rustix::process::kill_process(getpid(), Signal::USR2).expect("signal");
    before.restore().expect("restore");
    assert!(!signals::is_ignored(Signal::USR2).expect("look"));
}

fn changes_are_kept_below_a_directory() {
    if !geteuid().is_root() || !landlock::is_supported() {
        return surmise_testkit::skip(
            "to be kept from changes takes root, and Landlock of Linux 6.2",
        );
    }
    let scratch = tempfile::tempdir().expect("a directory");
    let [inside, outside] = ["in", "out"].map(|name| scratch.path().join(name));
    for directory in [&inside, &outside] {
        std::fs::create_dir(directory).expect("a directory");
        std::fs::write(directory.join("file"), "").expect("a file");
        mknodat(CWD, directory.join("fifo"), FileType::Fifo, Mode::RWXU, 0).expect("a FIFO");
    }
    let open = std::fs::File::create(outside.join("open")).expect("a file");
    let child = fork(&[open.as_fd()], || {
        landlock::keep_changes_below(&[&inside]).expect("kept");
        assert_eq!(rustix::io::write(&open, b"x"), Ok(1));
        assert!(std::fs::read(outside.join("file")).is_ok());
        for (number, change) in CHANGES.iter().enumerate() {
            assert_eq!(change(&inside), Ok(()), "{number}");
            assert_eq!(change(&outside), Err(Errno::ACCESS), "{number}");
        }
        0
    });
    let status = child.expect("fork").wait().expect("wait");
    assert_eq!(status.exit_status(), Some(0));
}

/// Each is one way to change something by name in a directory.
const CHANGES: [fn(&Path) -> rustix::io::Result<()>; 8] = [
    |at| open(at.join("file"), OFlags::WRONLY, Mode::empty()).map(drop),
    |at| open(at.join("fifo"), OFlags::RDWR, Mode::empty()).map(drop),
    |at| open(at.join("new"), OFlags::CREATE, Mode::RWXU).map(drop),
    |at| {
        open(
            at.join("file"),
            OFlags::RDONLY | OFlags::TRUNC,
            Mode::empty(),
        )
        .map(drop)
    },
    |at| mkdir(at.join("directory"), Mode::RWXU),
    |at| symlink("x", at.join("link")),
    |at| rename(at.join("file"), at.join("moved")),
    |at| unlink(at.join("fifo")),
];
