//! Control: the caller's own process. Starts the other roles and waits for their end.

mod drain;
mod watch;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::process::{Signal, WaitIdStatus};
use rustix::thread::UnshareFlags;
use surmise_channels::{KeptDescriptors, Outer, Streams};
use surmise_sys::id_map::IdMap;
use surmise_sys::process::{self, Child};
use surmise_sys::seccomp::Program;

use crate::command::Execution;
use crate::error::LaunchError;
use crate::launch::{Launch, LostStream};
use crate::lock::Serving;
use crate::message::{Ended, Failure, Link, Order, RelayReport, Report};
use crate::roles::control::watch::Watch;
use crate::roles::init::Init;
use crate::roles::relay::Relay;
use crate::roles::view::ViewProcess;
use crate::signals::Signals;
use crate::state::StateError;

/// What a domain has of its own. A network namespace takes as long to make as all of these; the
/// command's process makes it while pid 1 mounts.
const NAMESPACES: UnshareFlags = UnshareFlags::NEWUSER
    .union(UnshareFlags::NEWNS)
    .union(UnshareFlags::NEWPID)
    .union(UnshareFlags::NEWIPC)
    .union(UnshareFlags::NEWUTS);

/// One command to be run in one domain.
pub(crate) struct Job<'a> {
    pub(crate) name: &'a str,
    /// The state root.
    pub(crate) root: &'a Path,
    /// The domain's own state, locked by the caller.
    pub(crate) state: &'a Path,
    pub(crate) launch: &'a Launch,
    /// Where the program is, if that is known.
    pub(crate) found: Option<&'a Path>,
    pub(crate) kept: &'a KeptDescriptors,
    /// Taken over by the caller, before there was anything to leave behind.
    pub(crate) signals: &'a Signals,
}

/// Runs the job to the end of all its processes. `meanwhile` is done while they start.
pub(crate) fn supervise(
    job: &Job<'_>,
    streams: Streams,
    meanwhile: impl FnOnce() -> Result<(), StateError>,
) -> Result<(Ended, Vec<LostStream>), LaunchError> {
    let id_map = IdMap::of_caller()?;
    let filter = Program::consent();
    let execution = Execution {
        domain: job.name,
        command: &job.launch.command,
        found: job.found,
        directory: &job.launch.directory,
        filter: &filter,
        signals: job.signals,
        kept: job.kept,
    };
    let result = start(job, &id_map, execution, streams)
        .and_then(|roles| roles.run(job, &id_map, job.signals, meanwhile));
    result.map_err(|error| error.explained(job.root))
}

/// The other roles, started.
struct Roles {
    init: Child,
    /// Closed, it tells pid 1 to end.
    to_init: Link,
    view: Child,
    /// Closed, it tells the view to end.
    to_view: Link,
    relay: Child,
    /// Closed, it tells the relay process to end.
    to_relay: Link,
    /// Whether the domain has a terminal, and if so whether the command may read its keys.
    terminal: Option<bool>,
}

fn start(
    job: &Job<'_>,
    id_map: &IdMap,
    execution: Execution<'_>,
    streams: Streams,
) -> Result<Roles, LaunchError> {
    let (device, device_receiver) = pair()?;
    let serving =
        Serving::take(job.state).map_err(LaunchError::step("lock the view for its process"))?;
    let (view, to_view) = start_view(job, id_map, &serving, &device_receiver)?;
    drop(device_receiver);
    let terminal = streams
        .terminal()
        .map_err(LaunchError::step("look at the terminal"))?;
    let (outer, inner) = streams
        .open()
        .map_err(LaunchError::step("make the standard streams"))?;
    let (init_relay, relay_init) = pair()?;
    let engage = terminal.as_ref().is_some_and(|setup| setup.foreground);
    let (relay, to_relay) = start_relay(job, serving, outer, relay_init, engage)?;
    let (to_init, control) = pair()?;
    let foreground = terminal.as_ref().map(|setup| setup.foreground);
    let init = Init {
        control,
        device,
        relay: init_relay,
        outside: [pidfd_of(&view)?, pidfd_of(&relay)?],
        streams: inner,
        terminal,
        // Covered in the domain's own namespace only: the view still sees the state.
        mount_point: job.state,
        id_map,
        net: job.launch.net,
        wait: job.launch.wait,
        job: job.signals.have_terminal(),
        execution,
    };
    match process::clone_with(NAMESPACES, init, Init::descriptors, Init::live) {
        Ok(init) => Ok(Roles {
            init,
            to_init,
            view,
            to_view,
            relay,
            to_relay,
            terminal: foreground,
        }),
        Err(error) => {
            // Without a device to come the view ends by itself, and without control the relay.
            drop((to_view, to_relay));
            for role in [view, relay] {
                role.wait().map_err(LaunchError::step("end a process"))?;
            }
            Err(LaunchError::step("make namespaces")(error))
        }
    }
}

fn pair() -> Result<(Link, Link), LaunchError> {
    Link::pair().map_err(LaunchError::step("make a socket pair"))
}

fn pidfd_of(role: &Child) -> Result<OwnedFd, LaunchError> {
    let copy = role.as_fd().try_clone_to_owned();
    copy.map_err(LaunchError::step("watch a process"))
}

/// `init`: from where the relay process gets the domain's terminal.
fn start_relay(
    job: &Job<'_>,
    serving: Serving,
    outer: Outer,
    init: Link,
    engage: bool,
) -> Result<(Child, Link), LaunchError> {
    let (to_relay, control) = pair()?;
    let relay = Relay {
        control,
        init,
        outer,
        engage,
        serving,
        state: job.state.into(),
        hold_streams: job.launch.hold_streams,
        hold_terminal: job.launch.hold_terminal,
    };
    let relay = process::fork_with(relay, Relay::descriptors, Relay::live)
        .map_err(LaunchError::step("start the relay process"))?;
    Ok((relay, to_relay))
}

/// `device`: from where the view gets its device.
fn start_view(
    job: &Job<'_>,
    id_map: &IdMap,
    serving: &Serving,
    device: &Link,
) -> Result<(Child, Link), LaunchError> {
    let (to_view, control) = pair()?;
    let view = ViewProcess {
        root: job.root,
        state: job.state,
        id_map,
        device,
        control: &control,
    };
    let keep = [device.as_fd(), control.as_fd(), serving.as_fd()];
    let view = process::fork(&keep, || view.live())
        .map_err(LaunchError::step("start the view process"))?;
    Ok((view, to_view))
}

impl Roles {
    fn run(
        self,
        job: &Job<'_>,
        id_map: &IdMap,
        signals: &Signals,
        meanwhile: impl FnOnce() -> Result<(), StateError>,
    ) -> Result<(Ended, Vec<LostStream>), LaunchError> {
        let mut heard = Heard::default();
        let begun = id_map
            .apply(self.init.pid())
            .map_err(LaunchError::from)
            .and_then(|()| self.go())
            .and_then(|()| Ok(meanwhile()?));
        let watched = begun.and_then(|()| {
            Watch::new(&self, signals, &mut heard)
                .run()
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
            relay,
            to_relay,
            ..
        } = self;
        drop(to_init);
        init.wait()
            .map_err(LaunchError::late_step("wait for pid 1"))?;
        // The view's report comes before its end, and its end only after this link's, if the
        // mount is held from outside.
        let _ = rustix::net::shutdown(&to_view, rustix::net::Shutdown::Write);
        drain::finish(&relay, &to_relay, signals, heard.asked_to_end)
            .map_err(LaunchError::late_step("pass on what is left"))?;
        let relay_status = relay
            .wait()
            .map_err(LaunchError::late_step("wait for the relay process"))?;
        heard
            .hear_relay_out(&to_relay)
            .map_err(LaunchError::late_step("hear from the relay process"))?;
        let view_status = view
            .wait()
            .map_err(LaunchError::late_step("wait for the view"))?;
        let from_view = to_view
            .receive()
            .map_err(LaunchError::late_step("hear from the view"))?;
        watched?;
        heard.verdict(job, from_view, &view_status, &relay_status)
    }

    fn go(&self) -> Result<(), LaunchError> {
        match self.to_init.send(&Order::Go) {
            // It has died; how will be seen below.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            result => result.map_err(LaunchError::step("start pid 1")),
        }
    }
}

/// What was heard from the other roles so far.
#[derive(Default)]
struct Heard {
    started: bool,
    ended: Option<Ended>,
    failure: Option<Failure>,
    from_relay: Option<Failure>,
    lost: Vec<LostStream>,
    view_died: bool,
    relay_died: bool,
    /// Nobody is left to say anything, of pid 1 and the command's process.
    silent: bool,
    /// A signal asked for the end.
    asked_to_end: bool,
}

impl Heard {
    /// Keeps what is of interest in the end; a signal that has stopped the command is of interest now.
    fn take(&mut self, report: Option<Report>) -> Option<Signal> {
        match report {
            None => self.silent = true,
            Some(Report::Started) => self.started = true,
            Some(Report::Stopped(signal)) => return Signal::from_named_raw(signal),
            Some(Report::Ended(ended)) => self.ended = Some(ended),
            // The first one is the cause of the others.
            Some(Report::Failed(failure)) => {
                self.failure.get_or_insert(failure);
            }
        }
        None
    }

    /// All that the relay process said, which has ended.
    fn hear_relay_out(&mut self, relay: &Link) -> io::Result<()> {
        while let Some(report) = relay.receive()? {
            self.keep(report);
        }
        Ok(())
    }

    /// Keeps what is of interest in the end.
    fn keep(&mut self, report: RelayReport) {
        match report {
            RelayReport::Failed(failure) => {
                self.from_relay.get_or_insert(failure);
            }
            RelayReport::Lost(lost) => self.lost.push(lost),
            _ => {}
        }
    }

    /// The view's own report comes first: without a view, nothing else works.
    fn verdict(
        self,
        job: &Job<'_>,
        from_view: Option<Report>,
        view_status: &WaitIdStatus,
        relay_status: &WaitIdStatus,
    ) -> Result<(Ended, Vec<LostStream>), LaunchError> {
        let launch = job.launch;
        let reported = |failure| {
            LaunchError::reported(failure, &launch.command[0], &launch.directory, self.started)
        };
        if let Some(Report::Failed(failure)) = from_view {
            return Err(reported(failure));
        }
        if view_status.exit_status() != Some(0) {
            return Err(LaunchError::Killed {
                role: "the view process",
            });
        }
        if let Some(failure) = self.from_relay {
            return Err(reported(failure));
        }
        if relay_status.exit_status() != Some(0) && !self.asked_to_end {
            return Err(LaunchError::Killed {
                role: "the relay process",
            });
        }
        if let Some(failure) = self.failure {
            return Err(reported(failure));
        }
        let ended = self.ended.ok_or(LaunchError::Killed { role: "pid 1" })?;
        Ok((ended, self.lost))
    }
}
