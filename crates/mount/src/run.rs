//! A mount from its beginning to its end.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use surmise_fuse::{Capabilities, Config, ServeError, Session};
use surmise_remote::frame::{ClientKey, PROTOCOL, Reason};
use surmise_remote::object::ObjectId;
use surmise_sys::signals;

use crate::cache::{self, Cache, Writer};
use crate::connection::{NoConnection, Told, Transport, keep_connected};
use crate::device::{self, MountError, MountOptions};
use crate::ending::{End, Ending, Mounted, Place, STOPS, await_end};
use crate::filesystem::Far;
use crate::kernel::{Forget, forget_all};
use crate::lost::{self, Keeper};
use crate::nodes::Nodes;
use crate::owners::Owners;
use crate::shell::{Shell, Unwelcome};
use crate::status::{self, Telling};
use crate::store::Store;

/// How many bytes of large files are kept on disk for each byte of small ones in memory.
const LARGE_FOR_SMALL: u64 = 16;

/// How many requests of the kernel may wait for the server at once.
const THREADS: usize = 32;

/// A mount that is wanted.
#[derive(Debug)]
pub struct Wanted {
    /// What it shows, for people.
    pub source: String,
    /// How the server is reached.
    pub transport: Transport,
    /// Where it is mounted: an absolute path.
    pub mount_point: PathBuf,
    /// Whose the files of the server's user are here, by user and group; those of the user that mounts, if `None`.
    pub owner: Option<(u32, u32)>,
    /// How it is mounted there.
    pub how: MountOptions,
    /// After how long without a connection calls fail; never, if `None`.
    pub soft: Option<Duration>,
    /// How many bytes of small files are kept in memory.
    pub memory_bytes: u64,
    /// Where large files are kept that were read, while the mount lasts.
    pub temporary: PathBuf,
    /// How many bytes of what was read are kept on disk for the next mount.
    pub cache_bytes: u64,
}

/// Why a mount did not come to be, or how it ended.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// There is no connection.
    #[error("no connection: {0:?}")]
    NoConnection(NoConnection),
    /// The server speaks another version.
    #[error("the server speaks version {0} of the protocol, this program version {PROTOCOL}")]
    Protocol(u32),
    /// The server does not take this client.
    #[error("the server takes no client: {0}")]
    Refused(Reason),
    /// Changes were lost; a line each.
    #[error("changes were lost")]
    Lost(Vec<String>),
    /// The mount could not be made.
    #[error(transparent)]
    Mount(#[from] MountError),
    /// The kernel's side broke.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// The mount could not tell of itself.
    #[error("make a socket in {}: {source}", directory.display())]
    Telling {
        /// Where.
        directory: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Something else.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Mounts, says so by `ready`, serves until the mount has ended, and then waits until all that was changed is in the directory at
/// the server. `tell` is told of the connection.
///
/// # Errors
/// [`RunError`].
pub fn run(
    wanted: Wanted,
    ready: impl FnOnce() -> io::Result<()>,
    tell: impl Fn(Told) + Send + Sync + 'static,
) -> Result<(), RunError> {
    // Every thread is to leave them to one.
    signals::block(&STOPS)?;
    let (forgets, forget) = channel();
    let (shell, keeping) = begin_client(&wanted, forgets)?;
    let tell = Arc::new(tell);
    let connection = begin_connection(&shell, wanted.transport, Arc::clone(&tell))?;
    let (root, user) = shell.welcomed().map_err(RunError::from)?;
    let leaving = Leaving(Arc::clone(&shell));
    let keeper = Keeper::new(lost::directory(), &wanted.source, &wanted.mount_point).into();
    let device = device::mount(&wanted.source, &wanted.mount_point, wanted.how)?;
    let mounted = Mounted(Place::new(wanted.mount_point.clone()));
    let (own, group) = wanted.owner.unwrap_or_else(own_user);
    let owners = Owners::new(user, own, group);
    let losing = begin_keeping(&shell, &keeper, (root, owners.clone()))?;
    let (ends, ended) = channel();
    let ending = Ending {
        shell: Arc::clone(&shell),
        keeper,
        root,
        owners: owners.clone(),
        place: mounted.0.clone(),
        device: Arc::new(device.try_clone()?),
        ends: ends.clone(),
    };
    let (begun, beginning) = channel();
    let far = Arc::new(Far::new(Arc::clone(&shell), root, owners, begun));
    let (told, nodes) = (Arc::clone(&shell), Nodes::new(root));
    begin("forget", move || {
        forget_all(&beginning, &forget, (&told, nodes))
    })?;
    begin_helpers(&far)?;
    let directory = status::directory();
    let by_signals = ending
        .clone()
        .by_signals(move |error| tell(Told::NotKept(error.to_string())))?;
    let telling = Telling::begin(&directory, wanted.source, wanted.mount_point, ending)
        .map_err(|source| RunError::Telling { directory, source })?;
    begin("signals", by_signals)?;
    // The kernel's first request is served when the mount is used; that it is mounted is enough.
    ready()?;
    leaving.stays();
    begin_serving(device, far, ends)?;
    let served = await_end(&ended);
    let _ = mounted.0.has_gone();
    shell.leave();
    shell.end_of_losses();
    // It never fails but by a fault of its own, and then the changes are told as lost all the same.
    let _ = losing.join();
    let lost = shell.status().lost;
    let joined = match shell.is_given_up() {
        // An attempt to connect may take long, and ends with this process.
        true => Ok(()),
        false => connection.join(),
    };
    // The next mount, which may come as soon as the end is told, is to find all of it.
    keeping.end();
    telling.end(lost.clone());
    served?;
    joined.map_err(|_| io::Error::other("the thread of the connection has failed"))?;
    match lost.is_empty() {
        true => Ok(()),
        false => Err(RunError::Lost(lost)),
    }
}

/// Starts the threads that keep the client connected, and tell it the time.
fn begin_connection(
    shell: &Arc<Shell>,
    transport: Transport,
    tell: Arc<impl Fn(Told) + Send + Sync + 'static>,
) -> io::Result<JoinHandle<()>> {
    let (timer, line) = (Arc::clone(shell), Arc::clone(shell));
    begin("time", move || timer.keep_time())?;
    begin("connection", move || {
        keep_connected(&line, &transport, &*tell)
    })
}

/// Starts the threads that serve the kernel's requests.
fn begin_serving(device: OwnedFd, far: Arc<Far>, ends: Sender<End>) -> io::Result<()> {
    let session = Session::new(
        device,
        Config {
            threads: THREADS,
            wanted: Capabilities::SHARED,
            ..Config::default()
        },
    );
    begin("serve", move || {
        let served = session.serve_beside(&*far, &|| File::open("/proc").ok().map(Into::into));
        // The receiver goes when the mount was given up.
        let _ = ends.send(End::Served(served));
    })?;
    Ok(())
}

/// Starts the thread that keeps changes which are lost, until the shell says that no more are.
fn begin_keeping(
    shell: &Arc<Shell>,
    keeper: &Arc<Keeper>,
    (root, owners): (ObjectId, Owners),
) -> io::Result<JoinHandle<()>> {
    let (keep, kept, keeper) = (channel(), Arc::clone(shell), Arc::clone(keeper));
    shell.keep_by(keep.0);
    begin("lost", move || {
        for lost in keep.1 {
            let why = (lost.why, lost.may_be_made);
            let path = keeper.keep(lost.changes, root, &owners, why);
            kept.kept(lost.line, path);
        }
    })
}

/// The client, and what keeps what it reads.
fn begin_client(wanted: &Wanted, forgets: Sender<Forget>) -> io::Result<(Arc<Shell>, Keeping)> {
    let (small_bytes, temporary) = (wanted.memory_bytes, wanted.temporary.clone());
    let large_bytes = small_bytes.saturating_mul(LARGE_FOR_SMALL);
    let store = Store::new(temporary, small_bytes, large_bytes);
    let has_cache = wanted.cache_bytes >= cache::BYTES_MIN;
    let (cache, writer) = has_cache
        .then(|| cache::new(&wanted.source, wanted.cache_bytes, cache::homes()))
        .unzip();
    let stores = (store, cache.clone());
    let shell = Arc::new(Shell::new(new_key()?, stores, forgets, wanted.soft));
    let thread = writer.map(|writer| begin_cache(&shell, writer));
    let thread = thread.transpose()?;
    Ok((shell, Keeping { cache, thread }))
}

/// The cache, and the thread that writes it.
struct Keeping {
    cache: Option<Cache>,
    thread: Option<JoinHandle<()>>,
}

impl Keeping {
    fn end(self) {
        self.cache.iter().for_each(Cache::end);
        // Without the thread nothing more is kept, and nothing else.
        self.thread.map(JoinHandle::join);
    }
}

/// Starts the thread that keeps what is read, and waits until it is known what an earlier mount has kept.
fn begin_cache(shell: &Arc<Shell>, writer: Writer) -> io::Result<JoinHandle<()>> {
    let (tried, trying) = channel();
    let told = Arc::clone(shell);
    let thread = begin("cache", move || {
        let tried = move || drop(tried);
        writer.run(tried, |news| told.cache_has(news));
    })?;
    // Its end says so, too.
    let _ = trying.recv() as Result<(), _>;
    Ok(thread)
}

/// Starts the threads that the file system needs besides those which serve requests.
fn begin_helpers(far: &Arc<Far>) -> io::Result<()> {
    let (locking, asking) = (Arc::clone(far), Arc::clone(far));
    begin("locks", move || locking.answer_locks())?;
    // Walks through directories ask for it first. Without the thread they wait for the answer.
    let _ = begin("space", move || asking.learn_space());
    Ok(())
}

/// Starts a thread of this name.
fn begin<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    thread::Builder::new().name(name.to_owned()).spawn(work)
}

/// Has the client leave if its mount does not come to be: otherwise the server would know one that never comes again.
struct Leaving(Arc<Shell>);

impl Leaving {
    fn stays(self) {
        std::mem::forget(self);
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        if self.0.status().is_connected {
            self.0.leave();
        }
    }
}

impl From<Unwelcome> for RunError {
    fn from(unwelcome: Unwelcome) -> Self {
        match unwelcome {
            Unwelcome::NoConnection(why) => Self::NoConnection(why),
            Unwelcome::Refused(Reason::Protocol(version)) => Self::Protocol(version),
            Unwelcome::Refused(reason) => Self::Refused(reason),
        }
    }
}

/// The user and group of this process.
fn own_user() -> (u32, u32) {
    let (user, group) = (rustix::process::getuid(), rustix::process::getgid());
    (user.as_raw(), group.as_raw())
}

fn new_key() -> io::Result<ClientKey> {
    let mut key = [0; 16];
    let filled = rustix::rand::getrandom(&mut key, rustix::rand::GetRandomFlags::empty())?;
    if filled < key.len() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(ClientKey(key))
}
