//! The start of a domain: its other processes, and what each is given.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};
use rustix::thread::UnshareFlags;
use surmise_kept::{Boundary, Link, Serving};
use surmise_linux::id_map::IdMap;
use surmise_network::Resolver;
use surmise_stdio::{Inner, Outer, Streams};
use surmise_sync::Epochs;
use surmise_sys::process::{self, Child};

use super::Job;
use super::supervisor::SupervisorRole;
use super::view::ViewRole;
use crate::command::Execution;
use crate::dial;
use crate::error::LaunchError;
use crate::files::{self, UndecidedFiles, UndoLog};
use crate::gate;
use crate::limits;
use crate::refusals::Telling;
use crate::roles::init::{Init, InitGate, Root};
use crate::roles::relay::Relay;
use crate::roles::relay::network::NetworkPlan;

/// What a domain has of its own. A network namespace takes as long to make as all of these; the
/// command's process makes it while pid 1 mounts.
const NAMESPACES: UnshareFlags = UnshareFlags::NEWUSER
    .union(UnshareFlags::NEWNS)
    .union(UnshareFlags::NEWPID)
    .union(UnshareFlags::NEWIPC)
    .union(UnshareFlags::NEWUTS);

/// The other roles, started.
pub(super) struct Roles {
    pub(super) init: Child,
    /// Closed, it tells pid 1 to end.
    pub(super) to_init: Link,
    /// Where the command has not the real files alone.
    pub(super) view: Option<ViewRole>,
    pub(super) relay: Child,
    /// Closed, it tells the relay process to end.
    pub(super) to_relay: Link,
    /// Where calls are answered by somebody.
    pub(super) supervisor: Option<SupervisorRole>,
    /// Whether the domain has a terminal, and if so whether the command may read its keys.
    pub(super) terminal: Option<bool>,
    /// The inodes of the command's standard streams.
    pub(super) streams: BTreeSet<u64>,
}

pub(super) fn start(
    job: &Job<'_>,
    id_map: &IdMap,
    (execution, telling): (Execution<'_>, Option<Telling>),
    streams: Streams,
) -> Result<Roles, LaunchError> {
    let serving =
        Serving::take(job.state).map_err(LaunchError::step("lock the view for its process"))?;
    let (undecided, undo_log) = files(job)?.unzip();
    let fifos = fifos(job, &telling)?;
    let known = (&serving, fifos.as_ref());
    let (view, root) = start_view(job, id_map, known, undo_log)?;
    let (supervisor, init_supervisor) = start_supervisor(job, undecided, &telling)?.unzip();
    let terminal = streams
        .terminal()
        .map_err(LaunchError::step("look at the terminal"))?;
    let (outer, inner) = streams
        .open()
        .map_err(LaunchError::step("make the standard streams"))?;
    let (init_relay, relay_init) = pair()?;
    let (network, gate) = network(&job.launch.boundary)?.unzip();
    let foreground = terminal.as_ref().map(|setup| setup.foreground);
    let engage = foreground == Some(true);
    let epochs = supervisor.as_ref().and_then(|role| role.epochs.clone());
    let shared = (serving, epochs);
    let told = (telling.clone(), fifos);
    let (relay, to_relay) = start_relay(job, shared, told, (outer, engage), relay_init, network)?;
    let outside = pidfds(&view, &relay, &supervisor)?;
    let (to_init, control) = pair()?;
    let inodes = inodes(&inner).map_err(LaunchError::step("look at the standard streams"))?;
    let init = Init {
        control,
        root,
        relay: init_relay,
        supervisor: init_supervisor,
        outside,
        streams: inner,
        terminal,
        // Covered in the domain's own namespace only: the view still sees the state.
        mount_point: job.state,
        id_map,
        gate,
        nameservers: nameservers(&telling),
        sockets: &job.launch.boundary.sockets,
        through: job.through(),
        native: &job.native,
        wait: job.launch.wait,
        job: job.signals.have_terminal(),
        execution,
    };
    let start_init = || process::clone_with(NAMESPACES, init, Init::descriptors, Init::live);
    match limits::with_raised(start_init) {
        Ok(init) => Ok(Roles {
            init,
            to_init,
            view,
            relay,
            to_relay,
            supervisor,
            terminal: foreground,
            streams: inodes,
        }),
        Err(error) => {
            end_started(view, (relay, to_relay), supervisor)?;
            Err(LaunchError::step("make namespaces")(error))
        }
    }
}

/// Of the processes that the domain cannot do without.
fn pidfds(
    view: &Option<ViewRole>,
    relay: &Child,
    supervisor: &Option<SupervisorRole>,
) -> Result<Vec<OwnedFd>, LaunchError> {
    let view = view.iter().map(|role| &role.process);
    let supervisor = supervisor.iter().map(|role| &role.process);
    let all = view.chain([relay]).chain(supervisor);
    all.map(pidfd_of).collect()
}

/// Without a device to come the view ends by itself, and without control the others.
fn end_started(
    view: Option<ViewRole>,
    (relay, to_relay): (Child, Link),
    supervisor: Option<SupervisorRole>,
) -> Result<(), LaunchError> {
    drop(to_relay);
    let view = view.map(|role| role.process);
    let supervisor = supervisor.map(|role| role.process);
    for role in view.into_iter().chain([relay]).chain(supervisor) {
        role.wait().map_err(LaunchError::step("end a process"))?;
    }
    Ok(())
}

/// The ends of the link between the supervisor and the view, where there are guesses.
fn files(job: &Job<'_>) -> Result<Option<(UndecidedFiles, UndoLog)>, LaunchError> {
    let guesses = !job.launch.guessing.is_empty();
    let pair = guesses.then(files::pair);
    pair.transpose()
        .map_err(LaunchError::step("make a socket pair"))
}

/// By what the view tells that names lead to FIFOs outside, where that is told. The real files have the real ones.
fn fifos(job: &Job<'_>, telling: &Option<Telling>) -> Result<Option<OwnedFd>, LaunchError> {
    if telling.is_none() || job.has_real_files {
        return Ok(None);
    }
    let made = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
    made.map(Some).map_err(LaunchError::step("make an event"))
}

/// Those that somebody inside is to answer for.
fn nameservers(telling: &Option<Telling>) -> Vec<SocketAddr> {
    telling.as_ref().map_or_else(Vec::new, Telling::nameservers)
}

/// What the relay process and pid 1 need for a network that has a gate.
fn network(boundary: &Boundary) -> Result<Option<(NetworkPlan, InitGate)>, LaunchError> {
    if !boundary.needs_gate() {
        return Ok(None);
    }
    let resolver =
        Resolver::system().map_err(LaunchError::step("find out how names are resolved"))?;
    let plan = gate::Plan::new(&boundary.net, &resolver)
        .map_err(LaunchError::step("look for TUN devices"))?;
    let (gate, relay) = pair()?;
    let (dialer, switchboard) = dial::pair().map_err(LaunchError::step("make a socket pair"))?;
    let network = NetworkPlan {
        gate,
        dialer,
        policy: boundary.net.clone(),
        publish: boundary.publish.clone(),
        resolver,
    };
    let init = InitGate {
        plan,
        relay,
        switchboard,
    };
    Ok(Some((network, init)))
}

pub(super) fn pair() -> Result<(Link, Link), LaunchError> {
    Link::pair().map_err(LaunchError::step("make a socket pair"))
}

fn inodes(streams: &Inner) -> io::Result<BTreeSet<u64>> {
    let stats = streams.descriptors().into_iter().map(rustix::fs::fstat);
    stats.map(|stat| Ok(stat?.st_ino)).collect()
}

fn pidfd_of(role: &Child) -> Result<OwnedFd, LaunchError> {
    let copy = role.as_fd().try_clone_to_owned();
    copy.map_err(LaunchError::step("watch a process"))
}

/// `init`: from where the relay process gets the domain's terminal.
fn start_relay(
    job: &Job<'_>,
    (serving, epochs): (Serving, Option<Epochs>),
    (telling, fifos): (Option<Telling>, Option<OwnedFd>),
    (outer, engage): (Outer, bool),
    init: Link,
    network: Option<NetworkPlan>,
) -> Result<(Child, Link), LaunchError> {
    let (to_relay, control) = pair()?;
    let relay = Relay {
        control,
        init,
        outer,
        engage,
        serving,
        state: job.state.into(),
        hold_streams: job.launch.boundary.hold_streams,
        hold_terminal: job.launch.boundary.hold_terminal,
        network,
        epochs,
        telling,
        fifos,
    };
    let relay = process::fork_with(relay, Relay::descriptors, Relay::live)
        .map_err(LaunchError::step("start the relay process"))?;
    Ok((relay, to_relay))
}

/// The view, if the command has not the real files, and what pid 1 makes its root of.
fn start_view(
    job: &Job<'_>,
    id_map: &IdMap,
    known: (&Serving, Option<&OwnedFd>),
    undo_log: Option<UndoLog>,
) -> Result<(Option<ViewRole>, Root), LaunchError> {
    if job.has_real_files {
        return Ok((None, Root::Real));
    }
    let (view, device) = ViewRole::start(job, id_map, known, undo_log)?;
    Ok((Some(view), Root::View(device)))
}

/// The supervisor, if it has anything to do but to count refusals, with pid 1's end of its link.
fn start_supervisor(
    job: &Job<'_>,
    files: Option<UndecidedFiles>,
    telling: &Option<Telling>,
) -> Result<Option<(SupervisorRole, Link)>, LaunchError> {
    match job.interests(telling).change_calls() {
        true => SupervisorRole::start(job, files, telling).map(Some),
        false => Ok(None),
    }
}
