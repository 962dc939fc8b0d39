//! The connection: made, used until it breaks, and made again.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use surmise_remote::frame::ToClient;
use surmise_tls::{ConnectError, Target};
use surmise_wire::{Reader, Writer};

use crate::shell::Shell;

/// How long it takes to the next attempt, at first and at most.
const RETRY_FIRST: Duration = Duration::from_millis(100);
const RETRY_MAX: Duration = Duration::from_secs(5);

/// How long what a command said last may take to come.
const LAST_WORDS_MAX: Duration = Duration::from_secs(1);

const READ_BYTES: usize = 256 << 10;

/// How many messages the client is told of at once, and about how many bytes of files these bring.
const MESSAGES_MAX: usize = 256;
const DATA_MAX: usize = 1 << 20;

/// How the server is reached.
#[derive(Debug, Clone)]
pub enum Transport {
    /// By a command that is connected to the server by its standard input and output, as ssh is: the program and its arguments.
    Command(Vec<OsString>),
    /// By TLS.
    Tls(Target),
}

/// Why there was never a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoConnection {
    /// This program could not be started, for this reason.
    NotStarted(String, String),
    /// It ended before the server had welcomed the client.
    Ended(ExitStatus),
    /// There is none by TLS.
    Tls(ConnectError),
    /// One by TLS ended before the server had welcomed the client.
    Closed,
}

/// What happens to the connection, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    /// There was a connection, and it broke.
    Broken,
    /// No other one comes to be, for this reason; it is told again when it changes.
    Apart(NoConnection),
    /// There is one again.
    Again,
    /// The mount was told to end, and waits for the server, since its changes cannot be kept for this reason.
    NotKept(String),
}

/// Connects, and connects again, until the client has left or the server wants nothing of it.
pub fn keep_connected(shell: &Shell, transport: &Transport, tell: &dyn Fn(Told)) {
    let mut pause = RETRY_FIRST;
    let mut was_up = false;
    let mut apart = None;
    while !shell.is_over() {
        let outcome = transport.start().and_then(|running| {
            use_until_it_breaks(shell, running, &|| {
                if was_up {
                    tell(Told::Again);
                }
            })
        });
        if shell.is_over() {
            return;
        }
        match outcome {
            Ok(()) => {
                was_up = true;
                apart = None;
                pause = RETRY_FIRST;
                tell(Told::Broken);
            }
            // The first time somebody waits for it.
            Err(why) if !was_up => return shell.give_up(why),
            Err(why) if apart.as_ref() == Some(&why) => {}
            Err(why) => {
                apart = Some(why.clone());
                tell(Told::Apart(why));
            }
        }
        thread::sleep(pause);
        pause = (pause * 2).min(RETRY_MAX);
    }
}

impl Transport {
    fn start(&self) -> Result<Running, NoConnection> {
        match self {
            Self::Command(command) => start_command(command).map_err(|error| {
                let program = command.first().map(|program| program.to_string_lossy());
                let program = program.unwrap_or_default().into_owned();
                NoConnection::NotStarted(program, error.to_string())
            }),
            Self::Tls(target) => start_tls(target).map_err(NoConnection::Tls),
        }
    }
}

fn start_command(command: &[OsString]) -> io::Result<Running> {
    let (program, arguments) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let errors = child.stderr.take().map(pass_on);
    let pipes = child.stdin.take().zip(child.stdout.take());
    let (input, output) = pipes.ok_or(io::ErrorKind::BrokenPipe)?;
    Ok(Running {
        line: Line::Command(Arc::new(Mutex::new(child)), errors),
        input: Box::new(input),
        output: Box::new(output),
    })
}

fn start_tls(target: &Target) -> Result<Running, ConnectError> {
    let (plain, copying) = target.connect()?;
    let failed = |error: io::Error| ConnectError::Unreachable {
        host: target.host.clone(),
        why: error.to_string(),
    };
    let ends = || Ok((plain.try_clone()?, plain.try_clone()?));
    let (input, output) = ends().map_err(failed)?;
    // The thread ends when the socket is shut down. How the connection broke is seen by the end alone, as with a command.
    thread::Builder::new()
        .name("tls".to_owned())
        .spawn(move || copying.run(Duration::ZERO))
        .map_err(failed)?;
    Ok(Running {
        line: Line::Tls(plain),
        input: Box::new(input),
        output: Box::new(output),
    })
}

struct Running {
    line: Line,
    input: Box<dyn Write + Send>,
    output: Box<dyn Read>,
}

/// What makes a connection, and can end it.
enum Line {
    /// The command, and what tells when all that it said is on standard error.
    Command(Arc<Mutex<Child>>, Option<Receiver<()>>),
    Tls(UnixStream),
}

impl Line {
    /// Ends the connection at any time.
    fn breaker(&self) -> io::Result<Box<dyn FnMut() + Send>> {
        Ok(match self {
            Self::Command(child, _) => {
                let child = Arc::clone(child);
                Box::new(move || {
                    let mut child = child.lock().unwrap_or_else(PoisonError::into_inner);
                    // It may have ended by itself.
                    let _ = child.kill();
                })
            }
            Self::Tls(plain) => {
                let plain = plain.try_clone()?;
                Box::new(move || {
                    let _ = plain.shutdown(Shutdown::Both);
                })
            }
        })
    }

    /// Fails with how the connection ended, if the server did not welcome the client.
    fn end(self, was_welcomed: bool) -> Result<(), NoConnection> {
        let (child, errors) = match self {
            Self::Command(child, errors) => (child, errors),
            Self::Tls(plain) => {
                let _ = plain.shutdown(Shutdown::Both);
                return match was_welcomed {
                    true => Ok(()),
                    false => Err(NoConnection::Closed),
                };
            }
        };
        let mut child = child.lock().unwrap_or_else(PoisonError::into_inner);
        if was_welcomed {
            // It may have ended by itself.
            let _ = child.kill();
        }
        let ended = child.wait();
        if let (false, Some(errors)) = (was_welcomed, errors) {
            // The reason comes before what is made of it. Another process may hold the command's standard error open for long.
            let _ = errors.recv_timeout(LAST_WORDS_MAX);
        }
        match (was_welcomed, ended) {
            (true, _) => Ok(()),
            (false, Ok(status)) => Err(NoConnection::Ended(status)),
            (false, Err(error)) => Err(NoConnection::NotStarted(
                "wait".to_owned(),
                error.to_string(),
            )),
        }
    }
}

/// Has standard error carry what the command says on its own. Were that ours, the command would hold it open for as long as
/// the mount lives, and a caller that reads ours to its end would wait.
fn pass_on(mut errors: ChildStderr) -> Receiver<()> {
    let (done, ended) = channel();
    let copy = move || {
        // Standard error may be gone; then nobody reads it.
        let _ = io::copy(&mut errors, &mut io::stderr());
        let _ = done.send(());
    };
    // Without the thread, nobody reads what it says.
    let _ = thread::Builder::new().name("errors".to_owned()).spawn(copy);
    ended
}

/// Fails with how the connection ended, if the server did not welcome the client.
fn use_until_it_breaks(
    shell: &Shell,
    running: Running,
    begins: &dyn Fn(),
) -> Result<(), NoConnection> {
    let Running {
        line,
        mut input,
        mut output,
    } = running;
    let Ok(breaker) = line.breaker() else {
        return line.end(false);
    };
    let (link, wire) = shell.connected(breaker);
    let (mut reader, mut writer) = (Reader::new(Arc::clone(&wire)), Writer::new(wire));
    let was_welcomed = thread::scope(|scope| {
        scope.spawn(move || {
            while let Some(bytes) = shell.to_send(link) {
                if writer.write(&bytes, &mut input, |_| {}).is_err() {
                    break;
                }
            }
            // Its end of input is how the other side learns that nothing follows.
            drop(input);
        });
        let was_welcomed = receive(shell, (&mut output, &mut reader), begins);
        shell.cut();
        was_welcomed
    });
    line.end(was_welcomed)
}

/// Gives what comes to the client; whether the server welcomed it.
fn receive(
    shell: &Shell,
    (output, reader): (&mut impl Read, &mut Reader),
    begins: &dyn Fn(),
) -> bool {
    let mut buffer = vec![0; READ_BYTES];
    let mut was_welcomed = false;
    loop {
        let length = match output.read(&mut buffer) {
            Ok(0) | Err(_) => return was_welcomed,
            Ok(length) => length,
        };
        let mut came = &buffer[..length];
        let mut goes_on = true;
        while goes_on {
            let mut messages = Vec::new();
            let mut data_bytes = 0;
            let has_more = loop {
                match reader.message(&mut came) {
                    Ok(Some(message)) => {
                        if let ToClient::Data { data, .. } = &message {
                            data_bytes += data.len();
                        }
                        messages.push(message);
                    }
                    Ok(None) => break Some(false),
                    // Nothing behind it can be understood.
                    Err(_) => break None,
                }
                if messages.len() == MESSAGES_MAX || data_bytes >= DATA_MAX {
                    break Some(true);
                }
            };
            let welcomes = |message: &ToClient| matches!(message, ToClient::Welcome(_));
            if messages.iter().any(welcomes) {
                was_welcomed = true;
                begins();
            }
            shell.received(messages);
            match has_more {
                Some(has_more) => goes_on = has_more,
                None => return was_welcomed,
            }
        }
    }
}
