//! The last steps of the process that becomes the command.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::DumpableBehavior;
use surmise_kept::Link;
use surmise_linux::limits;
use surmise_stdio::{Inner, KeptDescriptors};
use surmise_sys::landlock;
use surmise_sys::seccomp::{self, Privilege, Program};
use surmise_sys::signals::SavedMask;

use crate::capabilities;
use crate::launch::Launch;
use crate::message::{Failure, Listening, Order};
use crate::nested;
use crate::signals::Signals;

/// What becomes the command, and how.
pub(crate) struct Execution<'a> {
    /// The domain's name, for the command to know.
    pub(crate) domain: &'a str,
    pub(crate) command: &'a [OsString],
    /// As in [`Launch::environment`].
    pub(crate) environment: &'a [(OsString, Option<OsString>)],
    /// Where the program was found before the start, if it was.
    pub(crate) found: Option<&'a Path>,
    pub(crate) directory: &'a Path,
    /// Compiled before the first fork.
    pub(crate) filter: &'a Program,
    /// Whom the filter tells of calls.
    pub(crate) hearing: Hearing,
    /// The only directory below which anything may be changed by name, besides what is the domain's own.
    pub(crate) confined: Option<&'a Path>,
    /// What control took over, and the command gets as it was.
    pub(crate) signals: &'a Signals,
    /// What the command gets of its caller's descriptors, besides its streams.
    pub(crate) kept: &'a KeptDescriptors,
}

/// Who hears the command's calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hearing {
    Nobody,
    /// The relay process, which changes no answer.
    Witness,
    /// A process that does.
    Supervisor,
}

impl Execution<'_> {
    /// Becomes the command. Returns only if that fails.
    ///
    /// `mask`: what pid 1 blocked for itself. `streams`: what becomes its standard streams. `init`: to pid
    /// 1, which takes the listener.
    pub(crate) fn replace_process(
        &self,
        mask: &SavedMask,
        streams: &Inner,
        init: &Link,
    ) -> Failure {
        match self.prepare(mask, streams, init) {
            Ok(()) => Failure::Command {
                errno: self.execute().raw_os_error().unwrap_or_default(),
            },
            Err(failure) => failure,
        }
    }

    fn prepare(&self, mask: &SavedMask, streams: &Inner, init: &Link) -> Result<(), Failure> {
        mask.restore()
            .and_then(|()| self.signals.give_back())
            .map_err(Failure::at("give the command its signals"))?;
        rustix::process::chdir(self.directory).map_err(|errno| Failure::Directory {
            errno: errno.raw_os_error(),
        })?;
        streams
            .become_streams()
            .map_err(Failure::at("open the standard streams"))?;
        surmise_sys::descriptors::close_on_exec()
            .map_err(Failure::at("close what was inherited"))?;
        self.kept
            .pass_on()
            .map_err(Failure::at("pass on what is kept open"))?;
        // Both while this process still has the right to: otherwise set-uid programs would do nothing.
        self.confine_changes()
            .map_err(Failure::at("keep everything elsewhere as it is"))?;
        self.filter_calls(init)
            .map_err(Failure::at("install the system-call filter"))?;
        capabilities::confine().map_err(Failure::at("drop capabilities"))?;
        // Last: what is open here may be more than that.
        limits::give_back_descriptors()
            .map_err(Failure::at("give the command its limit of open files"))
    }

    fn confine_changes(&self) -> io::Result<()> {
        let own = ["/dev", "/proc"].map(Path::new);
        match self.confined {
            Some(directory) => landlock::keep_changes_below(&[directory, own[0], own[1]]),
            None => Ok(()),
        }
    }

    fn filter_calls(&self, init: &Link) -> io::Result<()> {
        if self.hearing == Hearing::Nobody {
            return seccomp::install(self.filter, Privilege::Keep);
        }
        // To take a descriptor of this process is to trace it. For the moment until its exec it is the
        // domain's only process besides pid 1, so nobody else can.
        rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable)?;
        // This process has one thread, so the next descriptor is the listener.
        let next = rustix::io::fcntl_dupfd_cloexec(init, 0)?;
        let descriptor = next.as_raw_fd();
        drop(next);
        init.send(&Listening { descriptor })?;
        let listener = match self.hearing {
            Hearing::Witness => seccomp::install_with_witness(self.filter, Privilege::Keep)?,
            _ => seccomp::install_with_listener(self.filter, Privilege::Keep)?,
        };
        assert_eq!(listener, descriptor, "pid 1 looks elsewhere");
        // Until pid 1 has it: an exec closes this one.
        match init.receive()? {
            Some(Order::Go) => Ok(()),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    fn execute(&self) -> io::Error {
        let (program, arguments) = self.command.split_first().expect("checked by the launch");
        let become_program = |path: &OsStr| {
            let mut command = Command::new(path);
            command.arg0(program).args(arguments);
            for (name, value) in self.environment {
                match value {
                    Some(value) => command.env(name, value),
                    None => command.env_remove(name),
                };
            }
            command.env(nested::VARIABLE, self.domain).exec()
        };
        if let Some(found) = self.found {
            // Should it be gone by now, the search below tells.
            become_program(found.as_os_str());
        }
        let error = become_program(program);
        // A search meets directories that this user may not look into. For the C library that
        // makes a program that is nowhere one that may not be run; for a shell it does not.
        if error.kind() == io::ErrorKind::PermissionDenied
            && !exists(program, search_path(self.environment))
        {
            return io::Error::from_raw_os_error(rustix::io::Errno::NOENT.raw_os_error());
        }
        error
    }
}

/// Where the search for a launch's program ends, for a domain without changes, which sees the same files as its
/// caller. Inside, every name that the search tries in vain is a message to the view.
///
/// `None` where that can't be said for sure: then the search is made inside.
pub(crate) fn find(launch: &Launch) -> Option<PathBuf> {
    let program = launch.command.first()?;
    if program.as_bytes().contains(&b'/') {
        return None;
    }
    let search = search_path(&launch.environment)?;
    for directory in env::split_paths(&search) {
        let is_the_domains_own = ["/dev", "/proc", "/sys"]
            .iter()
            .any(|own| directory.starts_with(own));
        if !directory.is_absolute() || is_the_domains_own {
            return None;
        }
        let path = directory.join(program);
        let runs = rustix::fs::access(&path, rustix::fs::Access::EXEC_OK).is_ok();
        if runs && path.is_file() {
            return Some(path);
        }
    }
    None
}

/// Where the command looks for programs.
fn search_path(environment: &[(OsString, Option<OsString>)]) -> Option<OsString> {
    let mut changes = environment.iter().rev();
    match changes.find(|(name, _)| name == "PATH") {
        Some((_, value)) => value.clone(),
        None => env::var_os("PATH"),
    }
}

/// Whether the search for `program` along `search` finds anything.
fn exists(program: &OsStr, search: Option<OsString>) -> bool {
    if program.as_bytes().contains(&b'/') {
        return true;
    }
    let search = search.unwrap_or_default();
    env::split_paths(&search).any(|directory| directory.join(program).exists())
}
