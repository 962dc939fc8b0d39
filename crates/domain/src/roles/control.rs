//! Control: the caller's own process. Starts the other roles and waits for their end.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::process::{Signal, WaitIdStatus};
use rustix::thread::UnshareFlags;
use rustix::time::Timespec;
use surmise_sys::id_map::IdMap;
use surmise_sys::process::{self, Child};
use surmise_sys::seccomp::Program;

use crate::command::Execution;
use crate::error::LaunchError;
use crate::launch::NetPolicy;
use crate::lock::Serving;
use crate::message::{Channel, Ended, Failure, Order, Report};
use crate::roles::init::Init;
use crate::roles::view::ViewProcess;
use crate::signals::Signals;
use crate::state::StateError;
use crate::terminal::Foreground;

/// What a domain has of its own. A network namespace takes as long to make as all of these; the
/// command's process makes it while pid 1 mounts.
const NAMESPACES: UnshareFlags = UnshareFlags::NEWUSER
    .union(UnshareFlags::NEWNS)
    .union(UnshareFlags::NEWPID)
    .union(UnshareFlags::NEWIPC)
    .union(UnshareFlags::NEWUTS);

/// How long pid 1 may take to notice that the view has died.
const NOTICE: Duration = Duration::from_secs(1);

/// One command to be run in one domain.
pub(crate) struct Job<'a> {
    pub(crate) name: &'a str,
    /// The state root.
    pub(crate) root: &'a Path,
    /// The domain's own state, locked by the caller.
    pub(crate) state: &'a Path,
    pub(crate) command: &'a [OsString],
    /// Where the program is, if that is known.
    pub(crate) found: Option<&'a Path>,
    pub(crate) directory: &'a Path,
    pub(crate) net: NetPolicy,
    pub(crate) wait: bool,
    /// Taken over by the caller, before there was anything to leave behind.
    pub(crate) signals: &'a Signals,
}

/// Runs the job to the end of all its processes. `meanwhile` is done while they start.
pub(crate) fn supervise(
    job: &Job<'_>,
    meanwhile: impl FnOnce() -> Result<(), StateError>,
) -> Result<Ended, LaunchError> {
    let id_map = IdMap::of_caller()?;
    let filter = Program::consent();
    let _foreground = Foreground::of_caller();
    let execution = Execution {
        domain: job.name,
        command: job.command,
        found: job.found,
        directory: job.directory,
        filter: &filter,
        signals: job.signals,
    };
    let result = start(job, &id_map, execution)
        .and_then(|roles| roles.run(job, &id_map, job.signals, meanwhile));
    result.map_err(|error| error.explained(job.root))
}

/// The other roles, started.
struct Roles {
    init: Child,
    /// Closed, it tells pid 1 to end.
    to_init: Channel,
    view: Child,
    /// Closed, it tells the view to end.
    to_view: Channel,
}

fn start(job: &Job<'_>, id_map: &IdMap, execution: Execution<'_>) -> Result<Roles, LaunchError> {
    let pair = || Channel::pair().map_err(LaunchError::step("make a socket pair"));
    let (to_view, view_control) = pair()?;
    let (to_init, init_control) = pair()?;
    let (device_sender, device_receiver) = pair()?;
    let view = ViewProcess {
        root: job.root,
        state: job.state,
        id_map,
        device: &device_receiver,
        control: &view_control,
    };
    let serving =
        Serving::take(job.state).map_err(LaunchError::step("lock the view for its process"))?;
    let keep = [
        device_receiver.as_fd(),
        view_control.as_fd(),
        serving.as_fd(),
    ];
    let view = process::fork(&keep, || view.live())
        .map_err(LaunchError::step("start the view process"))?;
    drop(serving);
    let init = Init {
        control: &init_control,
        device: &device_sender,
        view: view.as_fd(),
        // Covered in the domain's own namespace only: the view still sees the state.
        mount_point: job.state,
        id_map,
        net: job.net,
        wait: job.wait,
        own_group: !job.signals.are_from_terminal(),
        execution,
    };
    let keep = [init_control.as_fd(), device_sender.as_fd(), view.as_fd()];
    let init = process::clone(NAMESPACES, &keep, || init.live());
    match init {
        Ok(init) => Ok(Roles {
            init,
            to_init,
            view,
            to_view,
        }),
        Err(error) => {
            // Without a device to come the view ends by itself.
            drop((device_sender, to_view));
            view.wait()
                .map_err(LaunchError::step("end the view process"))?;
            Err(LaunchError::step("make namespaces")(error))
        }
    }
}

/// What was heard from the other roles so far.
#[derive(Default)]
struct Heard {
    started: bool,
    ended: Option<Ended>,
    failure: Option<Failure>,
    view_died: bool,
    /// Nobody is left to say anything.
    silent: bool,
}

impl Roles {
    fn run(
        self,
        job: &Job<'_>,
        id_map: &IdMap,
        signals: &Signals,
        meanwhile: impl FnOnce() -> Result<(), StateError>,
    ) -> Result<Ended, LaunchError> {
        let mut heard = Heard::default();
        let begun = id_map
            .apply(self.init.pid())
            .map_err(LaunchError::from)
            .and_then(|()| self.go())
            .and_then(|()| Ok(meanwhile()?));
        let watched = begun.and_then(|()| {
            self.watch(signals, &mut heard)
                .map_err(LaunchError::late_step("watch the domain"))
        });
        if watched.is_err() {
            // Fails only if it has ended.
            let _ = self.init.signal(Signal::KILL);
        }
        let Self {
            init,
            to_init,
            view,
            to_view,
        } = self;
        drop(to_init);
        init.wait()
            .map_err(LaunchError::late_step("wait for pid 1"))?;
        // The view's report comes before its end, and its end only after this channel's, if the
        // mount is held from outside.
        let _ = rustix::net::shutdown(&to_view, rustix::net::Shutdown::Write);
        let view_status = view
            .wait()
            .map_err(LaunchError::late_step("wait for the view"))?;
        let from_view = to_view
            .receive()
            .map_err(LaunchError::late_step("hear from the view"))?;
        watched?;
        heard.verdict(job, from_view, &view_status)
    }

    fn go(&self) -> Result<(), LaunchError> {
        match self.to_init.send(&Order::Go) {
            // It has died; how will be seen below.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            result => result.map_err(LaunchError::step("start pid 1")),
        }
    }

    /// Until pid 1 has ended and all that it said is heard.
    fn watch(&self, signals: &Signals, heard: &mut Heard) -> io::Result<()> {
        let mut kill_at: Option<Instant> = None;
        loop {
            let rest = kill_at.map(|at| at.saturating_duration_since(Instant::now()));
            if rest.is_some_and(|rest| rest.is_zero()) {
                // Fails only if it has ended.
                let _ = self.init.signal(Signal::KILL);
            }
            let mut sources = vec![
                (Event::Ended, self.init.as_fd()),
                (Event::Signal, signals.as_fd()),
            ];
            // What has been heard to its end would be ready for ever.
            if !heard.silent {
                sources.push((Event::Said, self.to_init.as_fd()));
            }
            if !heard.view_died {
                sources.push((Event::ViewDied, self.view.as_fd()));
            }
            let ready = wait(&sources, rest.filter(|rest| !rest.is_zero()))?;
            if ready.contains(&Event::Signal)
                && let Some(signal) = signals.next()?
            {
                // If it has died, its end is the next event.
                let _ = self.to_init.send(&Order::Signal(signal.as_raw()));
            }
            if ready.contains(&Event::ViewDied) {
                heard.view_died = true;
                kill_at = Some(Instant::now() + NOTICE);
            }
            if ready.contains(&Event::Ended) {
                while !heard.silent {
                    heard.take(self.to_init.receive()?);
                }
                return Ok(());
            }
            if ready.contains(&Event::Said) {
                heard.take(self.to_init.receive()?);
            }
        }
    }
}

/// What control waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Event {
    /// pid 1 has ended, and all of its domain.
    Ended,
    /// There is a signal to forward.
    Signal,
    /// pid 1 or the command's process has said something.
    Said,
    /// The view process has ended first.
    ViewDied,
}

fn wait(sources: &[(Event, BorrowedFd<'_>)], limit: Option<Duration>) -> io::Result<Vec<Event>> {
    let limit = limit.map(|limit| Timespec::try_from(limit).expect("a short wait"));
    let mut polled: Vec<_> = sources
        .iter()
        .map(|(_, source)| PollFd::new(source, PollFlags::IN))
        .collect();
    match rustix::event::poll(&mut polled, limit.as_ref()) {
        Ok(_) => {}
        Err(Errno::INTR) => return Ok(Vec::new()),
        Err(errno) => return Err(errno.into()),
    }
    let ready = sources
        .iter()
        .zip(&polled)
        .filter(|(_, poll)| !poll.revents().is_empty());
    Ok(ready.map(|((event, _), _)| *event).collect())
}

impl Heard {
    fn take(&mut self, report: Option<Report>) {
        match report {
            None => self.silent = true,
            Some(Report::Started) => self.started = true,
            Some(Report::Ended(ended)) => self.ended = Some(ended),
            // The first one is the cause of the others.
            Some(Report::Failed(failure)) => {
                self.failure.get_or_insert(failure);
            }
        }
    }

    /// The view's own report comes first: without a view, nothing else works.
    fn verdict(
        self,
        job: &Job<'_>,
        from_view: Option<Report>,
        view_status: &WaitIdStatus,
    ) -> Result<Ended, LaunchError> {
        let reported =
            |failure| LaunchError::reported(failure, &job.command[0], job.directory, self.started);
        if let Some(Report::Failed(failure)) = from_view {
            return Err(reported(failure));
        }
        if view_status.exit_status() != Some(0) {
            return Err(LaunchError::Killed {
                role: "the view process",
            });
        }
        if let Some(failure) = self.failure {
            return Err(reported(failure));
        }
        self.ended.ok_or(LaunchError::Killed { role: "pid 1" })
    }
}
