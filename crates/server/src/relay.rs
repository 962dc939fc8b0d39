//! What ssh starts: the streams of one client, connected to the server of an export, which is started if none runs.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;

use crate::error::ServeError;
use crate::state::State;

/// How long a server may take to begin: it makes what the log of the one before says.
const START_MAX: Duration = Duration::from_secs(300);

/// How often a server is started, where another one has the directory until it ends.
const STARTS_MAX: usize = 3;

const CHUNK: usize = 256 << 10;

const PAUSE: Duration = Duration::from_millis(5);

/// A connection to the server of an export.
#[derive(Debug)]
pub struct Relay {
    stream: UnixStream,
}

impl Relay {
    /// Connects to the server of the directory at `path`. If none runs, `start` is to start one whose standard error is the file
    /// that it is given; it returns a function that tells whether the server has ended.
    ///
    /// # Errors
    /// When there is no server and none can be started.
    pub fn connect<E: FnMut() -> bool>(
        path: &Path,
        mut start: impl FnMut(File) -> io::Result<E>,
    ) -> Result<Self, ServeError> {
        let state = State::open(path)?;
        if let Ok(stream) = state.connect() {
            return Ok(Self { stream });
        }
        let at = |error| ServeError::at(state.path())(error);
        // One starts a server at a time, and the next one finds it. The lock is not on the file that the server gets.
        let gate = state.errors().map_err(at)?;
        let locked =
            rustix::io::retry_on_intr(|| rustix::fs::flock(&gate, FlockOperation::LockExclusive));
        locked.map_err(|errno| at(errno.into()))?;
        if let Ok(stream) = state.connect() {
            return Ok(Self { stream });
        }
        let mut errors = state.errors().map_err(at)?;
        let before = errors.seek(SeekFrom::End(0)).map_err(at)?;
        let deadline = Instant::now() + START_MAX;
        for _ in 0..STARTS_MAX {
            // One that has the lock and no socket may be about to end. Then the new one ends, too.
            let mut others = state.is_served();
            let has_ended = start(errors.try_clone().map_err(at)?).map_err(at)?;
            if let Some(stream) = wait_for(&state, deadline, has_ended, &mut others) {
                return Ok(Self { stream });
            }
            if !others || Instant::now() >= deadline {
                break;
            }
        }
        let mut said = String::new();
        let read = errors
            .seek(SeekFrom::Start(before))
            .and_then(|_| errors.read_to_string(&mut said));
        if read.is_err() {
            said.clear();
        }
        Err(ServeError::Background {
            path: path.to_owned(),
            errors: said.trim().to_owned(),
        })
    }

    /// Copies what comes in to the server, and what the server says out, until either has ended.
    ///
    /// The end of the input is told to the server, whose last words still go out.
    ///
    /// # Errors
    /// When the copying cannot begin.
    pub fn copy(self, input: impl AsFd, output: impl AsFd) -> io::Result<()> {
        let mut input = File::from(input.as_fd().try_clone_to_owned()?);
        let mut output = File::from(output.as_fd().try_clone_to_owned()?);
        let (mut to_server, mut from_server) = (self.stream.try_clone()?, self.stream);
        let (done, ended) = channel();
        let out_done = done.clone();
        thread::Builder::new().name("in".into()).spawn(move || {
            let copied = copy(&mut input, &mut to_server);
            let _ = to_server.shutdown(Shutdown::Write);
            // After a failure nothing is left to wait for.
            if copied.is_err() {
                let _ = done.send(());
            }
        })?;
        thread::Builder::new().name("out".into()).spawn(move || {
            // The other side has gone, or the server; either way it is the end.
            let _ = copy(&mut from_server, &mut output);
            let _ = out_done.send(());
        })?;
        // Both senders may be gone as well.
        let _ = ended.recv();
        Ok(())
    }
}

/// A connection to a server that was started, or to another one that has the lock. `others` becomes true when there was one.
fn wait_for(
    state: &State,
    deadline: Instant,
    mut has_ended: impl FnMut() -> bool,
    others: &mut bool,
) -> Option<UnixStream> {
    while Instant::now() < deadline {
        // Before it is connected to: it may end at once, since another one has been started by hand.
        let has_ended = has_ended();
        let is_served = has_ended && state.is_served();
        *others |= is_served;
        if let Ok(stream) = state.connect() {
            return Some(stream);
        }
        if has_ended && !is_served {
            break;
        }
        thread::sleep(PAUSE);
    }
    None
}

/// Copies until the end. [`io::copy`] would have the kernel do it with splice(2), which holds the lock of the pipe that it
/// writes to while it waits for the next bytes: what it has written before could not be read meanwhile.
fn copy(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    let mut chunk = vec![0; CHUNK];
    loop {
        match from.read(&mut chunk) {
            Ok(0) => return Ok(()),
            Ok(length) => to.write_all(&chunk[..length])?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
