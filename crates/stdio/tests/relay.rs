//! Channels run by a process of their own: notices, and a domain that is detached from its caller.
//!
//! The streams of a test harness are not to be let go of. So this program is also the relay: started
//! with `relay` as its first argument, it runs a command behind channels, otherwise the tests.
#![allow(clippy::print_stderr)]

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::time::Timespec;
use surmise_stdio::{Channels, Held, Sink, Streams, block_signals};
use surmise_sync::testing::InMemory;
use surmise_sync::{Epochs, Promise, Trigger};
use surmise_sys::process;
use surmise_testkit::watchdog;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().collect();
    if arguments.get(1).is_some_and(|first| first == "relay") {
        relay(Path::new(&arguments[2]));
        return ExitCode::SUCCESS;
    }
    notes_come_after_output();
    a_detached_domain_goes_on_and_its_caller_is_free();
    what_follows_a_promise_is_seen_with_the_commit();
    what_appears_waits_too();
    after_a_stop_only_notes_are_seen();
    eprintln!("relay: 5 tests passed");
    ExitCode::SUCCESS
}

fn notes_come_after_output() {
    let scratch = tempfile::tempdir().expect("a directory");
    let script = "echo one >&2; touch noted; until [ -e go ]; do sleep 0.01; done; echo two >&2";
    let child = start(scratch.path(), script, false);
    watchdog::until("the command waits", watchdog::LIMIT, || {
        scratch.path().join("noted").exists()
    });
    fs::write(scratch.path().join("note"), "a note\n").expect("write");
    watchdog::until("the note is taken", watchdog::LIMIT, || {
        !scratch.path().join("note").exists()
    });
    fs::write(scratch.path().join("go"), "").expect("write");
    let finished = watchdog::wait(child, "the relay", watchdog::LIMIT);
    assert!(finished.status.success(), "{}", finished.status);
    assert_eq!(
        String::from_utf8_lossy(&finished.stderr),
        "one\na note\ntwo\n"
    );
}

fn a_detached_domain_goes_on_and_its_caller_is_free() {
    let scratch = tempfile::tempdir().expect("a directory");
    let script = "echo one; touch noted; until [ -e go ]; do sleep 0.01; done; echo two; \
                  cat; echo three >&2; touch done";
    let mut child = start(scratch.path(), script, true);
    // Open to the end: the command meets the end of its input all the same.
    let _input = child.stdin.take().expect("a pipe");
    watchdog::until("the command waits", watchdog::LIMIT, || {
        scratch.path().join("noted").exists()
    });
    let mut output = child.stdout.take().expect("a pipe");
    let mut output = watchdog::within(watchdog::LIMIT, move || {
        let mut shown = [0; 4];
        output.read_exact(&mut shown).expect("read");
        assert_eq!(&shown, b"one\n");
        output
    });
    fs::write(scratch.path().join("detach"), "").expect("write");
    // The reader sees the end while the command lives.
    let shown = watchdog::within(watchdog::LIMIT, move || {
        let mut shown = String::new();
        output.read_to_string(&mut shown).expect("read");
        shown
    });
    assert_eq!(shown, "");
    assert!(!scratch.path().join("done").exists(), "it has ended");
    fs::write(scratch.path().join("go"), "").expect("write");
    let finished = watchdog::wait(child, "the relay", watchdog::LIMIT);
    assert!(finished.status.success(), "{}", finished.status);
    let held = |name: &str| fs::read_to_string(scratch.path().join(name)).expect("held");
    assert_eq!(held("Output"), "two\n");
    assert_eq!(held("Error"), "three\n");
}

/// Says something before a promise and something behind it, and waits for the test before it ends.
const PROMISED: &str = "echo before; until [ -e go ]; do sleep 0.01; done; \
                        echo behind; touch said; until [ -e end ]; do sleep 0.01; done";

fn what_follows_a_promise_is_seen_with_the_commit() {
    let scratch = tempfile::tempdir().expect("a directory");
    let directory = scratch.path();
    fs::write(directory.join("promising"), "").expect("write");
    let mut child = start(directory, PROMISED, false);
    let output = child.stdout.take().expect("a pipe");
    assert_eq!(read_up_to(&output, "\n"), "before\n");
    order(directory, "promise");
    say(directory);
    nothing_comes(&output);
    order(directory, "commit");
    assert_eq!(read_up_to(&output, "\n"), "behind\n");
    // And so does the end.
    order(directory, "promise");
    fs::write(directory.join("end"), "").expect("write");
    nothing_comes(&output);
    order(directory, "commit");
    assert_eq!(read_up_to(&output, "\n"), "");
    let finished = watchdog::wait(child, "the relay", watchdog::LIMIT);
    assert!(finished.status.success(), "{}", finished.status);
}

fn what_appears_waits_too() {
    let scratch = tempfile::tempdir().expect("a directory");
    let directory = scratch.path();
    fs::write(directory.join("promising"), "").expect("write");
    let (screen, terminal) = open_terminal();
    let stream = || Stdio::from(terminal.try_clone().expect("a duplicate"));
    let child = Command::new("setsid")
        .args(["--ctty", "--wait"])
        .arg(std::env::current_exe().expect("this program"))
        .arg("relay")
        .arg(directory)
        .arg(PROMISED)
        .current_dir(directory)
        .stdin(stream())
        .stdout(stream())
        .stderr(stream())
        .spawn()
        .expect("start the relay");
    assert_eq!(read_up_to(&screen, "\n"), "before\r\n");
    order(directory, "promise");
    say(directory);
    nothing_comes(&screen);
    order(directory, "commit");
    assert_eq!(read_up_to(&screen, "\n"), "behind\r\n");
    fs::write(directory.join("end"), "").expect("write");
    let finished = watchdog::wait(child, "the relay", watchdog::LIMIT);
    assert!(finished.status.success(), "{}", finished.status);
}

fn after_a_stop_only_notes_are_seen() {
    let scratch = tempfile::tempdir().expect("a directory");
    let directory = scratch.path();
    fs::write(directory.join("promising"), "").expect("write");
    let script = format!("exec >&2; {PROMISED}");
    let mut child = start(directory, &script, false);
    let output = child.stderr.take().expect("a pipe");
    assert_eq!(read_up_to(&output, "\n"), "before\n");
    order(directory, "promise");
    say(directory);
    nothing_comes(&output);
    order(directory, "stop");
    fs::write(directory.join("note"), "a note\n").expect("write");
    assert_eq!(read_up_to(&output, "\n"), "a note\n");
    fs::write(directory.join("end"), "").expect("write");
    assert_eq!(read_up_to(&output, "\n"), "");
    let finished = watchdog::wait(child, "the relay", watchdog::LIMIT);
    assert!(finished.status.success(), "{}", finished.status);
}

/// Has the command put out what is behind the promise.
fn say(directory: &Path) {
    fs::write(directory.join("go"), "").expect("write");
    watchdog::until("the command says it", watchdog::LIMIT, || {
        directory.join("said").exists()
    });
}

/// Has the relay do something to its epochs.
fn order(directory: &Path, order: &str) {
    let order = directory.join(order);
    fs::write(&order, "").expect("write");
    watchdog::until("the order is taken", watchdog::LIMIT, || !order.exists());
}

/// Neither output nor its end comes for a while, though it would.
#[track_caller]
fn nothing_comes(output: impl AsFd) {
    let mut polled = [PollFd::new(&output, PollFlags::IN)];
    let limit = Timespec::try_from(Duration::from_millis(100)).expect("a short wait");
    let ready = rustix::event::poll(&mut polled, Some(&limit)).expect("poll");
    assert_eq!(ready, 0, "{:?}", polled[0]);
}

/// What comes, to the first `end` of a piece, or to the end of all.
fn read_up_to(output: impl AsFd, end: &str) -> String {
    let mut text = String::new();
    while !text.ends_with(end) {
        let mut polled = [PollFd::new(&output, PollFlags::IN)];
        let limit = Timespec::try_from(watchdog::LIMIT).expect("a short wait");
        assert_eq!(rustix::event::poll(&mut polled, Some(&limit)), Ok(1));
        let mut byte = [0];
        if rustix::io::read(&output, &mut byte).expect("read") == 0 {
            break;
        }
        text.push(byte[0].into());
    }
    text
}

/// A new terminal, its outer side first.
fn open_terminal() -> (OwnedFd, OwnedFd) {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let outer = openpt(flags).expect("a terminal");
    grantpt(&outer).expect("grant it");
    unlockpt(&outer).expect("unlock it");
    let inner = ioctl_tiocgptpeer(&outer, flags).expect("its other side");
    (outer, inner)
}

fn start(directory: &Path, script: &str, piped_input: bool) -> std::process::Child {
    let input = match piped_input {
        true => Stdio::piped(),
        false => Stdio::null(),
    };
    Command::new(std::env::current_exe().expect("this program"))
        .arg("relay")
        .arg(directory)
        .arg(script)
        .current_dir(directory)
        .stdin(input)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("start the relay")
}

/// Runs the script behind channels. What is to be done meanwhile is told by files: `note` holds a note,
/// `detach` asks to be detached; with `promising` there are epochs, and `promise`, `commit` and `stop` are
/// for them.
fn relay(directory: &Path) {
    let script = std::env::args_os().nth(3).expect("a script");
    let streams = Streams::of_caller().expect("streams");
    // The command needs no more of a domain's terminal than that it can be written to.
    let has_terminal = streams.terminal().expect("the terminal").is_some();
    let terminal = has_terminal.then(open_terminal);
    let (outer, inner) = streams.open().expect("channels");
    let mut descriptors = inner.descriptors();
    descriptors.extend(terminal.iter().map(|(_, inner)| inner.as_fd()));
    let command = process::fork(&descriptors, || {
        let mut command = Command::new("sh");
        match &terminal {
            Some((_, terminal)) => {
                let stream = || Stdio::from(terminal.try_clone().expect("a duplicate"));
                command.stdin(stream()).stdout(stream()).stderr(stream());
            }
            None => inner.become_streams().expect("streams"),
        }
        let error = command.arg("-c").arg(&script).exec();
        panic!("sh: {error}");
    })
    .expect("fork");
    drop(inner);
    block_signals().expect("block signals");
    let epochs = directory.join("promising").exists();
    let epochs = epochs.then(|| Epochs::new(Promise::Fsync).expect("epochs"));
    let epochs = epochs.as_ref();
    let mut channels = Channels::start(outer, false, epochs, &mut |_| Ok(None)).expect("start");
    if let Some((outer, inner)) = terminal {
        // When the command has closed it, it is closed.
        drop(inner);
        rustix::io::ioctl_fionbio(&outer, true).expect("set");
        channels.attach_terminal(outer);
    }
    let mut finishing = false;
    while !channels.are_ended() {
        while channels.next_event().is_some() {}
        let note = directory.join("note");
        if let Ok(text) = fs::read_to_string(&note)
            && text.ends_with('\n')
        {
            channels.note(text);
            fs::remove_file(note).expect("remove");
        }
        if let Some(epochs) = epochs {
            take(directory, "promise", || epochs.promise());
            take(directory, "commit", || {
                epochs
                    .commit(&InMemory(|| Ok(())), Trigger::Output)
                    .expect("a commit");
            });
            take(directory, "stop", || epochs.stop());
        }
        let detach = directory.join("detach");
        if detach.exists() {
            fs::remove_file(detach).expect("remove");
            channels.detach(&mut |held| Box::new(ToFile::new(directory, held)));
        }
        let mut ended = [PollFd::new(&command, PollFlags::IN)];
        let limit = Timespec::try_from(Duration::from_millis(10)).expect("a short wait");
        if rustix::event::poll(&mut ended, Some(&limit)) == Ok(1) && !finishing {
            finishing = true;
            channels.finish();
        }
    }
    command.wait().expect("reap");
}

/// Carries an order out, if it was given.
fn take(directory: &Path, order: &str, work: impl FnOnce()) {
    let order = directory.join(order);
    if order.exists() {
        work();
        fs::remove_file(order).expect("remove");
    }
}

struct ToFile {
    path: PathBuf,
    file: Option<File>,
    released: Option<Vec<u8>>,
}

impl ToFile {
    fn new(directory: &Path, held: Held) -> Self {
        Self {
            path: directory.join(format!("{held:?}")),
            file: None,
            released: None,
        }
    }
}

impl Sink for ToFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        if self.file.is_none() {
            let file = OpenOptions::new()
                .create(true)
                .append(true)
                .open(&self.path)?;
            self.file = Some(file);
        }
        self.file.as_mut().expect("opened above").write_all(bytes)
    }

    fn release(&mut self) -> io::Result<()> {
        self.released = fs::read(&self.path).ok();
        Ok(())
    }

    fn next(&mut self, piece: &mut Vec<u8>) -> io::Result<bool> {
        *piece = self.released.take().unwrap_or_default();
        Ok(!piece.is_empty())
    }

    fn keep_rest(&mut self, _seen: usize) {}
}
