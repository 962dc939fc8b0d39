//! The start of a domain: its other processes, and what each is given.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};
use rustix::thread::UnshareFlags;
use surmise_kept::{Boundary, Link, Serving};
use surmise_network::Resolver;
use surmise_stdio::{Inner, Outer, Streams};
use surmise_sync::Epochs;
use surmise_sys::id_map::IdMap;
use surmise_sys::process::{self, Child};

use super::Job;
use super::files::FilesRole;
use super::speculator::SpeculatorRole;
use crate::command::Execution;
use crate::dial;
use crate::error::LaunchError;
use crate::files::{self, UndecidedFiles, UndoLog};
use crate::gate;
use crate::limits;
use crate::refusals::Telling;
use crate::roles::init::{Init, InitGate};
use crate::roles::relay::Relay;
use crate::roles::relay::network::NetworkPlan;
use crate::roles::speculator::SpeculatorProcess;

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
    /// The view, or the syncer.
    pub(super) files: FilesRole,
    pub(super) relay: Child,
    /// Closed, it tells the relay process to end.
    pub(super) to_relay: Link,
    /// Where tasks speculate.
    pub(super) speculator: Option<SpeculatorRole>,
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
    let known = (&serving, &telling, fifos.as_ref());
    let (files, root, init_syncer) = FilesRole::start(job, id_map, known, undo_log)?;
    let terminal = streams
        .terminal()
        .map_err(LaunchError::step("look at the terminal"))?;
    let (outer, inner) = streams
        .open()
        .map_err(LaunchError::step("make the standard streams"))?;
    let (init_relay, relay_init) = pair()?;
    let (network, gate) = network(&job.launch.boundary)?.unzip();
    let engage = terminal.as_ref().is_some_and(|setup| setup.foreground);
    let shared = (serving, files.epochs.clone());
    let told = (telling.clone(), fifos);
    let (relay, to_relay) = start_relay(job, shared, told, (outer, engage), relay_init, network)?;
    let (speculator, init_speculator) = start_speculator(job, undecided, &telling)?.unzip();
    let outside = pidfds(&files, &relay, &speculator)?;
    let (to_init, control) = pair()?;
    let foreground = terminal.as_ref().map(|setup| setup.foreground);
    let inodes = inodes(&inner).map_err(LaunchError::step("look at the standard streams"))?;
    let init = Init {
        control,
        root,
        relay: init_relay,
        listener: init_speculator.or(init_syncer),
        outside,
        streams: inner,
        terminal,
        // Covered in the domain's own namespace only: the view still sees the state.
        mount_point: job.state,
        id_map,
        gate,
        nameservers: nameservers(&telling),
        sockets: &job.launch.boundary.sockets,
        wait: job.launch.wait,
        job: job.signals.have_terminal(),
        execution,
    };
    let start_init = || process::clone_with(NAMESPACES, init, Init::descriptors, Init::live);
    match limits::with_raised(start_init) {
        Ok(init) => Ok(Roles {
            init,
            to_init,
            files,
            relay,
            to_relay,
            speculator,
            terminal: foreground,
            streams: inodes,
        }),
        Err(error) => {
            end_started(files, (relay, to_relay), speculator)?;
            Err(LaunchError::step("make namespaces")(error))
        }
    }
}

/// Of the processes that the domain cannot do without.
fn pidfds(
    files: &FilesRole,
    relay: &Child,
    speculator: &Option<SpeculatorRole>,
) -> Result<Vec<OwnedFd>, LaunchError> {
    let speculator = speculator.iter().map(|speculator| &speculator.process);
    let all = [&files.process, relay].into_iter().chain(speculator);
    all.map(pidfd_of).collect()
}

/// Without a device to come the view ends by itself, and without control the others.
fn end_started(
    files: FilesRole,
    (relay, to_relay): (Child, Link),
    speculator: Option<SpeculatorRole>,
) -> Result<(), LaunchError> {
    drop((files.link, to_relay));
    let speculator = speculator.map(|role| role.process);
    for role in [files.process, relay].into_iter().chain(speculator) {
        role.wait().map_err(LaunchError::step("end a process"))?;
    }
    Ok(())
}

/// The ends of the link between the speculator and the view, where tasks speculate.
fn files(job: &Job<'_>) -> Result<Option<(UndecidedFiles, UndoLog)>, LaunchError> {
    let pair = job.launch.speculation.as_ref().map(|_| files::pair());
    pair.transpose()
        .map_err(LaunchError::step("make a socket pair"))
}

/// By what the view tells that names lead to FIFOs outside, where that is told. The real files have the real ones.
fn fifos(job: &Job<'_>, telling: &Option<Telling>) -> Result<Option<OwnedFd>, LaunchError> {
    if telling.is_none() || job.synchrony.is_some() {
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

/// With pid 1's end of the link by which it gets the listener.
fn start_speculator(
    job: &Job<'_>,
    files: Option<UndecidedFiles>,
    telling: &Option<Telling>,
) -> Result<Option<(SpeculatorRole, Link)>, LaunchError> {
    let (Some(options), Some(files)) = (job.launch.speculation.clone(), files) else {
        return Ok(None);
    };
    let (link, control) = pair()?;
    let (init_speculator, init) = pair()?;
    let owned = SpeculatorProcess {
        control,
        init,
        files,
        options,
        telling: telling.clone(),
    };
    let descriptors = SpeculatorProcess::descriptors;
    let process = process::fork_with(owned, descriptors, SpeculatorProcess::live)
        .map_err(LaunchError::step("start the speculator"))?;
    Ok(Some((SpeculatorRole::new(process, link), init_speculator)))
}
