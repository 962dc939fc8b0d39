//! Control: the caller's own process. Starts the other roles, hears and decides while the command runs,
//! and waits for their end.

mod asker;
mod course;
mod drain;
mod finish;
mod hands;
mod standstill;
mod start;
mod stopped;
mod supervisor;
mod view;
mod visitors;
mod watch;
mod watchers;

use std::io;
use std::path::Path;

use surmise_kept::{Lock, StateError, write_exit};
use surmise_linux::id_map::IdMap;
use surmise_stdio::{KeptDescriptors, Streams};
use surmise_supervisor::{Interests, Reach};
use surmise_sync::Scope;
use surmise_sys::process;
use surmise_sys::seccomp::Telling as Told;

pub(crate) use self::finish::Finished;
use self::finish::{Heard, Parent};
use self::start::Roles;
use self::watch::{End, Watch};
use crate::command::{Execution, Hearing};
use crate::error::LaunchError;
use crate::launch::Launch;
use crate::message::Order;
use crate::native::Trees;
use crate::person::Person;
use crate::refusals::Telling;
use crate::signals::Signals;

/// One command to be run in one domain.
pub(crate) struct Job<'a> {
    pub(crate) name: &'a str,
    /// The state root.
    pub(crate) root: &'a Path,
    /// The domain's own state, locked by the caller.
    pub(crate) state: &'a Path,
    pub(crate) launch: &'a Launch,
    /// Whether the command has the real files, rather than a view.
    pub(crate) has_real_files: bool,
    /// How syncs are put off, if they are.
    pub(crate) synchrony: Option<&'a surmise_sync::Options>,
    /// Directories of the host's that are themselves inside, read-only.
    pub(crate) native: Trees,
    /// Where the program is, if that is known.
    pub(crate) found: Option<&'a Path>,
    pub(crate) kept: &'a KeptDescriptors,
    /// Taken over by the caller, before there was anything to leave behind.
    pub(crate) signals: &'a Signals,
    pub(crate) person: &'a dyn Person,
    pub(crate) lock: &'a Lock,
}

impl Job<'_> {
    /// The directory that is the real one.
    fn through(&self) -> Option<&Path> {
        Some(&self.launch.through.as_ref()?.directory)
    }

    /// Whether no process inside reaches a Unix socket of one outside, or is reached by its own.
    fn sockets_stay_inside(&self) -> bool {
        let is_view = !self.has_real_files && self.through().is_none();
        is_view && self.launch.boundary.sockets.is_empty()
    }

    /// Whether a supervisor answers calls.
    fn changes_calls(&self) -> bool {
        self.interests(&None).change_calls()
    }

    /// For whose sake calls are heard.
    fn interests(&self, telling: &Option<Telling>) -> Interests {
        Interests {
            guesses: !self.launch.guessing.is_empty(),
            durability: self.synchrony.map(|options| match &options.scope {
                Scope::Anything => Reach::Anything,
                Scope::Below(_) | Scope::View => Reach::Ordered,
            }),
            refusals: match telling {
                None => Told::Nothing,
                Some(telling) if telling.has_gate() => Told::Calls,
                Some(_) => Told::CallsAndDatagrams,
            },
        }
    }
}

/// Runs the job to the end of all its processes. `meanwhile` is done while they start.
pub(crate) fn supervise(
    job: &Job<'_>,
    streams: Streams,
    meanwhile: impl FnOnce() -> Result<(), StateError>,
) -> Result<Finished, LaunchError> {
    let id_map = IdMap::of_caller()?;
    let telling = Telling::of(job.launch, job.has_real_files, job.changes_calls())?;
    let interests = job.interests(&telling);
    let hearing = match (interests.change_calls(), interests.hear_anything()) {
        (true, _) => Hearing::Supervisor,
        (false, true) => Hearing::Witness,
        (false, false) => Hearing::Nobody,
    };
    let filter = interests.filter();
    let execution = Execution {
        domain: job.name,
        command: &job.launch.command,
        environment: &job.launch.environment,
        found: job.found,
        directory: &job.launch.directory,
        filter: &filter,
        hearing,
        confined: job.synchrony.and_then(|options| match &options.scope {
            Scope::Below(directory) => Some(directory.as_path()),
            Scope::Anything | Scope::View => None,
        }),
        signals: job.signals,
        kept: job.kept,
    };
    let result = start::start(job, &id_map, (execution, telling), streams)
        .and_then(|roles| run(&roles, job, &id_map, meanwhile));
    result.map_err(|error| error.explained(job.root))
}

fn run(
    roles: &Roles,
    job: &Job<'_>,
    id_map: &IdMap,
    meanwhile: impl FnOnce() -> Result<(), StateError>,
) -> Result<Finished, LaunchError> {
    let mut heard = Heard::default();
    let begun = id_map
        .apply(roles.init.pid())
        .map_err(LaunchError::from)
        .and_then(|()| go(roles))
        .and_then(|()| Ok(meanwhile()?));
    let watched = begun.and_then(|()| watch(roles, job, &mut heard));
    match watched {
        Ok(End::Detached) => Err(LaunchError::Stalled {
            name: job.name.into(),
        }),
        Ok(End::Ended) => roles.finish(job, heard, Ok(()), Parent::Control),
        Err(error) => roles.finish(job, heard, Err(error), Parent::Control),
    }
}

fn go(roles: &Roles) -> Result<(), LaunchError> {
    match roles.to_init.send(&Order::Go) {
        // It has died; how will be seen below.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result.map_err(LaunchError::step("start pid 1")),
    }
}

/// Until pid 1 has ended, or the domain goes on without this process. A domain that nobody could watch is not
/// kept, although its command may have begun: it is one that failed to start.
fn watch(roles: &Roles, job: &Job<'_>, heard: &mut Heard) -> Result<End, LaunchError> {
    let watch = Watch::new(roles, job, heard);
    let mut watch = watch.map_err(|error| error.of_start())?;
    let late = LaunchError::late_step;
    let end = watch.run().map_err(LaunchError::from)?;
    if end == End::Detached {
        // A copy of this process goes on in its place; this one's copies of everything are closed
        // with it, and nobody misses them.
        process::branch(|| u8::from(go_on_alone(watch, job).is_err()))
            .map_err(late("leave the domain"))?;
    }
    Ok(end)
}

/// The rest of control's life, when the caller has gone: nobody hears of it, but the domain's state.
fn go_on_alone(mut watch: Watch<'_>, job: &Job<'_>) -> Result<(), LaunchError> {
    leave().map_err(LaunchError::late_step("leave the caller"))?;
    job.lock.hand_over();
    let watched = watch.run();
    let (roles, heard) = watch.into_heard();
    let watched = watched.map(drop).map_err(LaunchError::from);
    let finished = roles.finish(job, heard, watched, Parent::Gone)?;
    let recorded = write_exit(job.state, finished.ended.exit);
    let synced = std::fs::File::open(job.state).and_then(|state| Ok(rustix::fs::syncfs(state)?));
    synced.map_err(LaunchError::late_step("keep the domain"))?;
    Ok(recorded?)
}

fn leave() -> io::Result<()> {
    rustix::process::setsid()?;
    rustix::process::chdir("/")?;
    surmise_stdio::let_go()
}
