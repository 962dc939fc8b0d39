//! What a mount tells of itself, over a socket in a directory that all mounts of a user share.
//!
//! An asker writes one line: `status`, `end` to hear of the end of the mount, or `give up` to have it end without the server.
//! The answer is one line of JSON.

use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use surmise_wire::Transferred;

/// Where the sockets of root's mounts are.
const ROOTS: &str = "/run/surmise/mounts";

/// What the names of sockets end with.
const SOCKET: &str = "sock";

/// The question that ends a mount.
const GIVE_UP: &str = "give up";

/// How long an answer may take, and a question.
const PATIENCE: Duration = Duration::from_secs(5);

/// A mount.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Described {
    /// What is mounted, as it was asked for.
    pub source: String,
    /// Where.
    pub mount_point: PathBuf,
    /// The process that serves it.
    pub process: u32,
    /// How it is.
    pub status: Status,
}

/// How a mount is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// Whether there is a connection.
    pub is_connected: bool,
    /// For how long that has been so, in seconds.
    pub for_seconds: u64,
    /// Groups of changes that are not known to be durable at the server.
    pub undecided_groups: usize,
    /// The bytes in them.
    pub undecided_bytes: usize,
    /// Calls of programs that wait for the server.
    pub waiting_calls: usize,
    /// Whether it is unmounted everywhere, and the server is told the rest.
    pub is_ending: bool,
    /// What was lost, a line each.
    pub lost: Vec<String>,
    /// What was sent to the server, over all connections.
    #[serde(default)]
    pub sent: Transferred,
    /// What came from there.
    #[serde(default)]
    pub received: Transferred,
    /// How many bytes of files the server has sent.
    pub fetched_bytes: u64,
    /// How many bytes of files were in the cache, and the server has said that the files have them still.
    pub reused_bytes: u64,
    /// How many bytes the cache takes on disk; `None` if the mount keeps none.
    pub cache_bytes: Option<u64>,
}

/// The end of a mount: all that was not lost is in the directory at the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// What was lost, a line each.
    pub lost: Vec<String>,
}

/// What became of a mount that was to end without the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum GivenUp {
    /// It ends. What the server had not decided is in a file, if there was anything.
    Ends(Option<Kept>),
    /// It goes on, since the changes could not be kept, for this reason.
    GoesOn(String),
}

/// Changes that are kept in a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// How many.
    pub changes: usize,
    /// Where.
    pub file: PathBuf,
    /// What tells of them among [`Status::lost`].
    pub line: String,
}

/// The directory of this user's sockets. No other user could have made it.
pub fn directory() -> PathBuf {
    if rustix::process::geteuid().is_root() {
        return ROOTS.into();
    }
    let absolute = |variable| {
        let path = std::env::var_os(variable).map(PathBuf::from);
        path.filter(|path| path.is_absolute())
    };
    let state = || {
        let home = absolute("HOME").map(|home| home.join(".local/state"));
        absolute("XDG_STATE_HOME").or(home)
    };
    match absolute("XDG_RUNTIME_DIR") {
        Some(runtime) => runtime.join("surmise/mounts"),
        None => state().unwrap_or_default().join("surmise-mounts"),
    }
}

/// Where a mount of this process writes what it says in the background.
pub fn log_path(directory: &Path) -> PathBuf {
    directory.join(format!("{}.log", std::process::id()))
}

/// A mount that answers questions.
pub trait Answering: Send + 'static {
    /// How it is.
    fn status(&self) -> Status;
    /// Ends it without the server.
    fn give_up(&self) -> GivenUp;
}

/// A socket that tells of a mount; its end removes it.
#[derive(Debug)]
pub struct Telling {
    path: PathBuf,
    log: PathBuf,
    /// Those who wait for the end.
    waiting: Arc<Mutex<Vec<UnixStream>>>,
    /// Held while a question is answered, which may be what ends the mount.
    answering: Arc<Mutex<()>>,
}

impl Telling {
    /// Begins to tell of a mount.
    ///
    /// # Errors
    /// When the socket cannot be made.
    pub fn begin(
        directory: &Path,
        source: String,
        mount_point: PathBuf,
        mount: impl Answering,
    ) -> io::Result<Self> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(0o700).create(directory)?;
        let process = std::process::id();
        let path = directory.join(format!("{process}.{SOCKET}"));
        // Under another name until it answers: one that does not is taken for that of a process which was killed.
        let unfinished = directory.join(format!("{process}.new"));
        let _ = fs::remove_file(&unfinished);
        let listener = UnixListener::bind(&unfinished)?;
        fs::rename(&unfinished, &path)?;
        let waiting = Arc::new(Mutex::new(Vec::new()));
        let answering = Arc::new(Mutex::new(()));
        let (waiters, answers) = (Arc::clone(&waiting), Arc::clone(&answering));
        thread::Builder::new()
            .name("tell".to_owned())
            .spawn(move || {
                for asker in listener.incoming().flatten() {
                    let told = || Described {
                        source: source.clone(),
                        mount_point: mount_point.clone(),
                        process,
                        status: mount.status(),
                    };
                    let _answering = answers.lock().unwrap_or_else(PoisonError::into_inner);
                    // An asker that has gone needs no answer.
                    let _ = answer(asker, (&mount, told), &waiters);
                }
            })?;
        Ok(Self {
            path,
            log: log_path(directory),
            waiting,
            answering,
        })
    }

    /// Tells those who wait that all is over.
    pub fn end(self, lost: Vec<String>) {
        // From here on an asker finds no mount.
        let _ = fs::remove_file(&self.path);
        let answering = self.answering.lock();
        drop(answering.unwrap_or_else(PoisonError::into_inner));
        let ended = Ended { lost };
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        for waiter in waiting.drain(..) {
            let _ = say(&waiter, &ended);
        }
    }
}

impl Drop for Telling {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
        let _ = fs::remove_file(&self.log);
    }
}

fn answer(
    asker: UnixStream,
    (mount, told): (&impl Answering, impl FnOnce() -> Described),
    waiting: &Mutex<Vec<UnixStream>>,
) -> io::Result<()> {
    asker.set_read_timeout(Some(PATIENCE))?;
    asker.set_write_timeout(Some(PATIENCE))?;
    let mut question = String::new();
    BufReader::new(&asker).read_line(&mut question)?;
    match question.trim_end() {
        "end" => {
            let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
            waiting.push(asker);
            Ok(())
        }
        GIVE_UP => say(&asker, &mount.give_up()),
        _ => say(&asker, &told()),
    }
}

fn say(mut asker: &UnixStream, told: &impl Serialize) -> io::Result<()> {
    let mut bytes = serde_json::to_vec(told)?;
    bytes.push(b'\n');
    asker.write_all(&bytes)
}

/// All mounts of this user, by where they are.
///
/// # Errors
/// When the directory cannot be read.
pub fn all(directory: &Path) -> io::Result<Vec<Described>> {
    let listed = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        listed => listed?,
    };
    let mut all = Vec::new();
    for entry in listed {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != SOCKET) {
            continue;
        }
        match ask(&path) {
            Ok(told) => all.push(told),
            // The process was killed.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                let _ = fs::remove_file(path.with_extension("log"));
                let _ = fs::remove_file(&path);
            }
            Err(_) => {}
        }
    }
    all.sort_by(|one, other| one.mount_point.cmp(&other.mount_point));
    Ok(all)
}

fn ask(path: &Path) -> io::Result<Described> {
    let mut stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"status\n")?;
    Ok(serde_json::from_reader(stream)?)
}

/// Has a mount end without the server, and waits until its changes are in a file.
///
/// # Errors
/// When the process cannot be asked, or has ended before it could answer.
pub fn give_up(directory: &Path, process: u32) -> io::Result<GivenUp> {
    let mut stream = UnixStream::connect(directory.join(format!("{process}.{SOCKET}")))?;
    stream.write_all(format!("{GIVE_UP}\n").as_bytes())?;
    Ok(serde_json::from_reader(stream)?)
}

/// Waits for the end of a mount.
#[derive(Debug)]
pub struct Waiting(UnixStream);

impl Waiting {
    /// For the mount that this process serves.
    ///
    /// # Errors
    /// When the process cannot be asked.
    pub fn begin(directory: &Path, process: u32) -> io::Result<Self> {
        let mut stream = UnixStream::connect(directory.join(format!("{process}.{SOCKET}")))?;
        stream.write_all(b"end\n")?;
        Ok(Self(stream))
    }

    /// Waits for so long; `None` if the mount has not ended by then.
    ///
    /// # Errors
    /// `UnexpectedEof` when the process has ended before it could say what became of the changes.
    pub fn wait(&mut self, patience: Duration) -> io::Result<Option<Ended>> {
        self.0.set_read_timeout(Some(patience))?;
        let mut line = String::new();
        match BufReader::new(&self.0).read_line(&mut line) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => Ok(Some(serde_json::from_str(&line)?)),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
                ) =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}
