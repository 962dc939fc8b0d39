//! A command on a terminal of its own, and a dialogue with it.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::fs::OFlags;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::watchdog::{self, Finished};

/// What a test does at a terminal.
pub enum Act<'a> {
    /// Types this.
    Type(&'a str),
    /// Makes the window as large, in rows and columns.
    Resize(u16, u16),
    /// Anything else.
    Do(&'a dyn Fn()),
}

/// Runs `command` on a new terminal, does the second part of each pair of `dialogue` when the first
/// has appeared, and returns all that appeared as standard output, with line ends as in files.
pub(crate) fn converse(
    command: Command,
    what: &str,
    dialogue: &[(&str, Act<'_>)],
    limit: Duration,
) -> Finished {
    let (master, terminal) = open();
    let duplicate = || Stdio::from(terminal.try_clone().expect("duplicate the terminal"));
    let child = with_terminal(&command)
        .stdin(duplicate())
        .stdout(duplicate())
        .stderr(duplicate())
        .spawn()
        .unwrap_or_else(|error| panic!("start {what}: {error}"));
    drop(terminal);
    let mut keyboard = File::from(master);
    let screen = Screen::watch(keyboard.try_clone().expect("duplicate the terminal"));
    let mut seen = 0;
    for (wanted, act) in dialogue {
        let mut found = None;
        let started = std::time::Instant::now();
        while found.is_none() && started.elapsed() < limit {
            found = screen.find(wanted, seen);
            thread::sleep(Duration::from_millis(5));
        }
        let Some(end) = found else {
            watchdog::discard(child);
            panic!(
                "{what}: {wanted:?} did not appear within {limit:?} on the terminal:\n{}",
                screen.text()
            );
        };
        seen = end;
        match act {
            Act::Type(answer) => keyboard
                .write_all(answer.as_bytes())
                .expect("type an answer"),
            Act::Resize(rows, columns) => resize(&keyboard, *rows, *columns),
            Act::Do(act) => act(),
        }
    }
    let mut finished = watchdog::wait(child, what, limit);
    // The reader ends when the last process lets go of the terminal.
    watchdog::until(&format!("{what} lets go of its terminal"), limit, || {
        screen.is_closed()
    });
    finished.stdout = screen.text().into_bytes();
    finished
}

fn open() -> (OwnedFd, OwnedFd) {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = openpt(flags).expect("open a terminal");
    grantpt(&master).expect("grant the terminal");
    unlockpt(&master).expect("unlock the terminal");
    let name = ptsname(&master, Vec::new()).expect("the terminal's name");
    let terminal = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(OFlags::NOCTTY.bits().cast_signed())
        .open(name.to_str().expect("a name in ASCII"))
        .expect("open the terminal's other end");
    resize(&master, 24, 80);
    (master, terminal.into())
}

fn resize(terminal: impl AsFd, rows: u16, columns: u16) {
    let size = Winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(terminal, size).expect("set the terminal's size");
}

/// `command` in a session of its own that its standard input is the terminal of, and with no signal
/// ignored, as a login has it: whoever runs the tests in the background may have INT ignored. `setsid`
/// and `env` execute the command in their own place, so the process id is the command's.
fn with_terminal(command: &Command) -> Command {
    let mut wrapped = Command::new("setsid");
    wrapped
        .args(["--ctty", "env", "--default-signal"])
        .arg(command.get_program())
        .args(command.get_args())
        .env_clear();
    wrapped.envs(
        command
            .get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    if let Some(directory) = command.get_current_dir() {
        wrapped.current_dir(directory);
    }
    wrapped
}

/// What has appeared on a terminal so far.
struct Screen {
    text: Arc<Mutex<String>>,
    reader: thread::JoinHandle<()>,
}

impl Screen {
    fn watch(mut terminal: File) -> Self {
        let text = Arc::new(Mutex::new(String::new()));
        let shared = Arc::clone(&text);
        let reader = thread::spawn(move || {
            let mut buffer = [0; 4096];
            // The read fails with EIO when nobody holds the other end any longer.
            while let Ok(length @ 1..) = terminal.read(&mut buffer) {
                let piece = String::from_utf8_lossy(&buffer[..length]).replace('\r', "");
                shared
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push_str(&piece);
            }
        });
        Self { text, reader }
    }

    fn text(&self) -> String {
        self.text
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Where the first occurrence of `wanted` from `start` on ends.
    fn find(&self, wanted: &str, start: usize) -> Option<usize> {
        let at = self.text()[start..].find(wanted)?;
        Some(start + at + wanted.len())
    }

    fn is_closed(&self) -> bool {
        self.reader.is_finished()
    }
}
