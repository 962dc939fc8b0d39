//! What a process, and what it starts, may change by name: Landlock (landlock(7)).

use std::io;
use std::path::Path;

use landlock::{
    ABI, AccessFs, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr,
};
use surmise_syscalls::{ByName, Row};

/// The first version that knows of truncation: Linux 6.2.
const VERSION: ABI = ABI::V3;

/// Whether a call may do nothing but what the rules allow. Others change files that are open, which were
/// opened by one of these, or owners, modes, times and attributes, of which Landlock has no rules.
pub(crate) fn governs(row: &Row) -> bool {
    match row.changes_by_name() {
        Some(ByName::Opens | ByName::Contents | ByName::Entries) => true,
        None => false,
    }
}

/// Whether this kernel has all that [`keep_changes_below`] needs.
pub fn is_supported() -> bool {
    rules().and_then(Ruleset::create).is_ok()
}

/// From now on the calling thread and what it starts open nothing for writing, and make, remove and rename
/// nothing, but below these directories: `EACCES`. What is open stays open.
///
/// # Errors
/// `EPERM` without `CAP_SYS_ADMIN` in the caller's user namespace; `ENOSYS` where [`is_supported`] says no;
/// as `open` of a directory.
pub fn keep_changes_below(directories: &[&Path]) -> io::Result<()> {
    let mut created = rules().and_then(Ruleset::create).map_err(error)?;
    for directory in directories {
        let opened = PathFd::new(directory).map_err(error)?;
        let rule = PathBeneath::new(opened, AccessFs::from_write(VERSION));
        created = created.add_rule(rule).map_err(error)?;
    }
    // Set-uid programs are to work as before.
    let restricted = created.no_new_privs(false).restrict_self();
    restricted.map(|_| ()).map_err(error)
}

fn rules() -> Result<Ruleset, landlock::RulesetError> {
    Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_write(VERSION))
}

/// The system's error below the library's, which has one wherever a call has failed.
fn error(error: impl std::error::Error + 'static) -> io::Error {
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(&error);
    while let Some(error) = source {
        if let Some(system) = error.downcast_ref::<io::Error>()
            && let Some(errno) = system.raw_os_error()
        {
            return io::Error::from_raw_os_error(errno);
        }
        source = error.source();
    }
    io::Error::from_raw_os_error(libc::ENOSYS)
}
