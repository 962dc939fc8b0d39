//! The connection: made, used until it breaks, and made again.

use std::io::{self, Read, Write};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use surmise_remote::frame::{Decoder, ToClient};

use crate::shell::Shell;

/// How long it takes to the next attempt, at first and at most.
const RETRY_FIRST: Duration = Duration::from_millis(100);
const RETRY_MAX: Duration = Duration::from_secs(5);

const READ_BYTES: usize = 256 << 10;

/// A command that is connected to the server by its standard input and output, as ssh is.
#[derive(Debug, Clone)]
pub struct Transport {
    /// The program and its arguments.
    pub command: Vec<std::ffi::OsString>,
}

/// Why there was never a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoConnection {
    /// This program could not be started, for this reason.
    NotStarted(String, String),
    /// It ended before the server had welcomed the client.
    Ended(ExitStatus),
}

/// What happens to the connection, for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// There was a connection, and it broke.
    Broken,
    /// There is one again.
    Again,
}

/// Connects, and connects again, until the client has left or the server wants nothing of it.
pub fn keep_connected(shell: &Shell, transport: &Transport, tell: &dyn Fn(Told)) {
    let mut pause = RETRY_FIRST;
    let mut was_up = false;
    while !shell.is_over() {
        let outcome = match transport.start() {
            Ok(running) => use_until_it_breaks(shell, running, &|| {
                if was_up {
                    tell(Told::Again);
                }
            }),
            Err(error) => Err(NoConnection::NotStarted(
                transport.program(),
                error.to_string(),
            )),
        };
        if shell.is_over() {
            return;
        }
        match outcome {
            Ok(()) => {
                was_up = true;
                pause = RETRY_FIRST;
                tell(Told::Broken);
            }
            // The first time somebody waits for it.
            Err(why) if !was_up => return shell.give_up(why),
            Err(_) => {}
        }
        thread::sleep(pause);
        pause = (pause * 2).min(RETRY_MAX);
    }
}

impl Transport {
    fn program(&self) -> String {
        let program = self.command.first();
        program.map_or_else(String::new, |program| {
            program.to_string_lossy().into_owned()
        })
    }

    fn start(&self) -> io::Result<Running> {
        let (program, arguments) = self
            .command
            .split_first()
            .ok_or(io::ErrorKind::InvalidInput)?;
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        if let Some(errors) = child.stderr.take() {
            pass_on(errors);
        }
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (input, output) = pipes.ok_or(io::ErrorKind::BrokenPipe)?;
        Ok(Running {
            child: Arc::new(Mutex::new(child)),
            input,
            output,
        })
    }
}

struct Running {
    child: Arc<Mutex<Child>>,
    input: ChildStdin,
    output: ChildStdout,
}

/// Has standard error carry what the command says on its own. Were that ours, the command would hold it open for as long as
/// the mount lives, and a caller that reads ours to its end would wait.
fn pass_on(mut errors: ChildStderr) {
    let copy = move || io::copy(&mut errors, &mut io::stderr());
    // Without the thread, nobody reads what it says.
    let _ = thread::Builder::new().name("errors".to_owned()).spawn(copy);
}

/// Fails with how the command ended, if the server did not welcome the client.
fn use_until_it_breaks(
    shell: &Shell,
    running: Running,
    begins: &dyn Fn(),
) -> Result<(), NoConnection> {
    let Running {
        child,
        mut input,
        mut output,
    } = running;
    let to_break = Arc::clone(&child);
    let breaker = Box::new(move || {
        let mut child = to_break.lock().unwrap_or_else(PoisonError::into_inner);
        // It may have ended by itself.
        let _ = child.kill();
    });
    let link = shell.connected(breaker);
    let was_welcomed = thread::scope(|scope| {
        scope.spawn(move || {
            while let Some(bytes) = shell.to_send(link) {
                if input.write_all(&bytes).is_err() {
                    break;
                }
            }
            // Its end of input is how the other side learns that nothing follows.
            drop(input);
        });
        let was_welcomed = receive(shell, &mut output, begins);
        shell.cut();
        was_welcomed
    });
    let mut child = child.lock().unwrap_or_else(PoisonError::into_inner);
    if was_welcomed {
        // It may have ended by itself.
        let _ = child.kill();
    }
    let status = child.wait();
    match (was_welcomed, status) {
        (true, _) => Ok(()),
        (false, Ok(status)) => Err(NoConnection::Ended(status)),
        (false, Err(error)) => Err(NoConnection::NotStarted(
            "wait".to_owned(),
            error.to_string(),
        )),
    }
}

/// Gives what comes to the client; whether the server welcomed it.
fn receive(shell: &Shell, output: &mut impl Read, begins: &dyn Fn()) -> bool {
    let mut decoder = Decoder::default();
    let mut buffer = vec![0; READ_BYTES];
    let mut was_welcomed = false;
    loop {
        let length = match output.read(&mut buffer) {
            Ok(0) | Err(_) => return was_welcomed,
            Ok(length) => length,
        };
        decoder.feed(&buffer[..length]);
        let mut messages = Vec::new();
        let broken = loop {
            match decoder.message() {
                Ok(Some(message)) => messages.push(message),
                Ok(None) => break false,
                // Nothing behind it can be understood.
                Err(_) => break true,
            }
        };
        let welcomes = |message: &ToClient| matches!(message, ToClient::Welcome(_));
        if messages.iter().any(welcomes) {
            was_welcomed = true;
            begins();
        }
        shell.received(messages);
        if broken {
            return was_welcomed;
        }
    }
}
