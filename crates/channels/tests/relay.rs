//! Channels run by a process of their own: notices, and a domain that is detached from its caller.
//!
//! The streams of a test harness are not to be let go of. So this program is also the relay: started
//! with `relay` as its first argument, it runs a command behind channels, otherwise the tests.
#![allow(clippy::print_stderr)]

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::time::Timespec;
use surmise_channels::{Channels, Held, Sink, Streams, block_signals};
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
    eprintln!("relay: 2 tests passed");
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
/// `detach` asks to be detached.
fn relay(directory: &Path) {
    let script = std::env::args_os().nth(3).expect("a script");
    let (outer, inner) = Streams::of_caller()
        .expect("streams")
        .open()
        .expect("channels");
    let command = process::fork(&inner.descriptors(), || {
        inner.become_streams().expect("streams");
        let error = Command::new("sh").arg("-c").arg(&script).exec();
        panic!("sh: {error}");
    })
    .expect("fork");
    drop(inner);
    block_signals().expect("block signals");
    let mut channels = Channels::start(outer, false, &mut |_| Ok(None)).expect("start");
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
