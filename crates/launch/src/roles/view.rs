//! The view process: serves the domain's file system on the device that pid 1 opens.
//!
//! It stays outside the domain's namespaces and holds nothing on the domain's mount: a process
//! that waits for itself cannot even be killed.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use rustix::fs::{CWD, Mode, OFlags};
use rustix::process::{Resource, Rlimit, Signal};
use surmise_kept::Link;
use surmise_linux::id_map::IdMap;
use surmise_linux::limits;
use surmise_sys::signals;
use surmise_view::{InodeKey, Notifier, Server, View, ViewConfig};

use crate::files::UndoLog;
use crate::message::{Failure, Messages, Report, ViewOrder};

/// How long the mount may outlive control, or the domain's last process. The kernel ends it at
/// once, unless a process outside the domain still holds a part of it.
const MOUNT_OUTLIVES_MAX: Duration = Duration::from_secs(1);

/// Threads that serve: enough that slow reads do not stop quick answers, few enough to switch
/// little.
const THREADS: std::ops::RangeInclusive<usize> = 2..=8;

/// Descriptors that the view may hold open, of each of its two kinds.
const DESCRIPTORS_MAX: u64 = 16 << 10;

/// What the view process is given. It keeps these links and the lock that tells of its life, and no
/// other descriptor.
pub(crate) struct ViewProcess<'a> {
    /// The state root, which does not exist inside.
    pub(crate) root: &'a Path,
    /// The domain's own state.
    pub(crate) state: &'a Path,
    pub(crate) id_map: &'a IdMap,
    /// From pid 1: the device, and then the domain's /proc.
    pub(crate) device: &'a Link,
    /// To control; control's end is closed when the domain has ended, or control.
    pub(crate) control: &'a Link,
    /// From the supervisor, where tasks speculate.
    pub(crate) undo_log: Option<&'a UndoLog>,
    /// To the witness: names lead to FIFOs outside.
    pub(crate) fifos: Option<&'a OwnedFd>,
}

impl ViewProcess<'_> {
    /// The process' whole life; returns its exit status.
    pub(crate) fn live(&self) -> u8 {
        let (report, status) = match self.serve() {
            Ok(messages) => (Report::Served(messages), 0),
            Err(failure) => (Report::Failed(failure), 1),
        };
        // Control may be dead; then nobody is left to be told.
        let _ = self.control.send(&report);
        status
    }

    /// What was served.
    fn serve(&self) -> Result<Messages, Failure> {
        detach().map_err(Failure::at("start the view process"))?;
        let config = self.config().map_err(Failure::at("open the view"))?;
        let view = View::open(config).map_err(Failure::told("open the view"))?;
        let device = self.device.receive_descriptor();
        let Some(device) = device.map_err(Failure::at("receive the FUSE device"))? else {
            // pid 1 died before; its own report tells why.
            return Ok(Messages::default());
        };
        let processors = rustix::thread::sched_getaffinity(None).map_or(0, |set| set.count());
        let threads = (processors as usize).clamp(*THREADS.start(), *THREADS.end());
        let server = Server::new(device, threads);
        let notifier = server.notifier();
        let result = thread::scope(|scope| {
            let (served, watch) = mpsc::channel::<()>();
            let control = self.control;
            let view = &view;
            if let Some(undo_log) = self.undo_log {
                let notifier = notifier.clone();
                undo_log.announce(view);
                scope.spawn(move || undo_log.obey(view, &notifier));
            }
            scope.spawn(move || {
                obey(control, view, &notifier);
                drop(notifier);
                end_unless(&watch, view);
            });
            // It comes when pid 1 has mounted /proc. An error is as good as none: workers serve by themselves.
            let callers = || self.device.try_receive_descriptor().ok().flatten();
            let result = server.serve_beside(view, &callers);
            // From here on the watcher has nothing to cut short.
            let _ = rustix::net::shutdown(control, rustix::net::Shutdown::Read);
            self.undo_log.inspect(|undo_log| undo_log.close());
            drop(served);
            result
        });
        view.end_reads();
        result.map_err(Failure::at("serve the view"))?;
        let requests = server.requests().into_iter();
        Ok(Messages {
            by_kind: requests.map(|(name, count)| (name.into(), count)).collect(),
            beside: server.served_beside(),
        })
    }

    fn config(&self) -> io::Result<ViewConfig> {
        let root = rustix::fs::stat(self.root)?;
        let limit = limits::raise_descriptors();
        let mut foreign_groups: Vec<u32> = rustix::process::getgroups()?
            .iter()
            .map(|group| group.as_raw())
            .collect();
        foreign_groups.retain(|&group| !self.id_map.keeps_group(group));
        Ok(ViewConfig {
            hidden: vec![InodeKey {
                device: root.st_dev,
                inode: root.st_ino,
            }],
            foreign_groups,
            own_group: rustix::process::getegid().as_raw(),
            // Two kinds, and as much again for everything else.
            descriptors: usize::try_from((limit / 4).min(DESCRIPTORS_MAX)).unwrap_or(usize::MAX),
            speculates: self.undo_log.is_some(),
            fifos: self
                .fifos
                .map(OwnedFd::try_clone)
                .transpose()?
                .map(Arc::new),
            ..ViewConfig::new(self.state, "/")
        })
    }
}

/// Away from the caller's name, terminal, directory, streams and mode mask.
fn detach() -> io::Result<()> {
    rustix::thread::set_name(c"surmise-view")?;
    rustix::process::setsid()?;
    rustix::process::chdir("/")?;
    // What a file shows as its mode is the view's business; its data is the user's alone.
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
    // Standard error stays, for a panic's message.
    let null = rustix::fs::openat(
        CWD,
        "/dev/null",
        OFlags::RDWR | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    // The limit on a file's size is the command's, whose writes the kernel checks against it; here it
    // would be met by the log, and end the view by a signal. A hard limit holds here too: then calls
    // inside fail with EFBIG.
    raise_file_size_limit();
    signals::ignore(Signal::XFSZ)?;
    // Memory that the kernel frees by writing to our files must not wait for us. Not every user
    // may ask for that.
    let _ = rustix::process::configure_io_flusher_behavior(true);
    Ok(())
}

/// Raises the soft limit on a file's size to the hard one.
fn raise_file_size_limit() {
    let limit = rustix::process::getrlimit(Resource::Fsize);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    // Where that fails, it stays.
    let _ = rustix::process::setrlimit(Resource::Fsize, raised);
}

/// Carries out what control orders, until its end is closed: when the domain has ended, or control.
fn obey(control: &Link, view: &View, notifier: &Notifier) {
    // An error counts as an end, too: to look no further would be to hang.
    while let Ok(Some(order)) = control.receive::<ViewOrder>() {
        let done = match order {
            ViewOrder::Prepare => notifier.prepare_commit(view),
            ViewOrder::Rebase => view.rebase(),
            ViewOrder::GoOn => notifier.go_on(view),
            ViewOrder::LetGo => surmise_stdio::let_go(),
            ViewOrder::End => process::exit(0),
        };
        let report = match done {
            Ok(()) => Report::Done,
            Err(error) => Report::NotDone(format!("{}: {error}", order.name())),
        };
        // If control has died, its closed end is the next event.
        let _ = control.send(&report);
        if order == ViewOrder::GoOn {
            // Nobody waits for this. What it leaves behind, the next opening of the view removes.
            let _ = view.sweep();
        }
    }
}

/// Ends the process when the domain has ended but its mount has not. Returns when `served` closes.
fn end_unless(served: &mpsc::Receiver<()>, view: &View) {
    if let Err(RecvTimeoutError::Timeout) = served.recv_timeout(MOUNT_OUTLIVES_MAX) {
        view.end_reads();
        process::exit(0);
    }
}
