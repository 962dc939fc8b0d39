//! A domain's /proc: its own processes, and the machine as it is outside.
//!
//! Every mount of /proc shows the same entries of the machine (`/proc/meminfo`), whatever namespaces it is made in:
//! their modes and owners are one state of the kernel. They are guarded by the number of their owner, the host's
//! root, and by no capability, so a user namespace in which that number means the same guards nothing. Each of them
//! is covered with itself, read-only. What belongs to a process, or to the domain's network, is the domain's own
//! and stays as it is.

use std::ffi::CStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, mount_bind, mount_remount};

use crate::message::Failure;

/// Below the current directory.
const PLACE: &str = "proc";

const NO_PROGRAMS: MountFlags = MountFlags::NOSUID
    .union(MountFlags::NODEV)
    .union(MountFlags::NOEXEC);

/// Parts through which the machine is set. Some ask for no right at all, or for one over the domain's network.
const SETTINGS: [&str; 7] = ["sys", "sysrq-trigger", "irq", "bus", "fs", "acpi", "scsi"];

/// Whose the rights of user 0 inside are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Superuser {
    /// The machine's, who owns what is its.
    OfMachine,
    /// Somebody's who owns nothing outside.
    OfDomain,
}

/// Mounts it on `proc` below the current directory.
pub(crate) fn mount(superuser: Superuser) -> Result<(), Failure> {
    rustix::mount::mount("proc", PLACE, "proc", NO_PROGRAMS, None)
        .map_err(Failure::at("mount /proc"))?;
    let covered = match superuser {
        Superuser::OfMachine => of_machine().map_err(Failure::at("list /proc"))?,
        Superuser::OfDomain => SETTINGS.map(PathBuf::from).to_vec(),
    };
    for name in covered {
        let path = Path::new(PLACE).join(name);
        match mount_bind(&path, &path) {
            // Not every kernel has every part, and one may just have gone.
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => {
                return Err(Failure::at(format!("cover /{}", path.display()))(errno));
            }
        }
    }
    // All of them in one step, and what is uncovered back again.
    surmise_sys::mounts::make_read_only(c"proc").map_err(Failure::at("make /proc read-only"))?;
    mount_remount(PLACE, MountFlags::BIND | NO_PROGRAMS, c"")
        .map_err(Failure::at("make /proc writable"))
}

/// All entries but those of processes. Links lead to those, and their own owners and times are of this mount alone.
fn of_machine() -> Result<Vec<PathBuf>, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = rustix::fs::openat(CWD, PLACE, flags, Mode::empty())?;
    let mut names = Vec::new();
    for entry in Dir::new(directory)? {
        let entry = entry?;
        if is_of_machine(entry.file_name(), entry.file_type()) {
            names.push(PathBuf::from(std::ffi::OsStr::from_bytes(
                entry.file_name().to_bytes(),
            )));
        }
    }
    Ok(names)
}

fn is_of_machine(name: &CStr, kind: FileType) -> bool {
    let name = name.to_bytes();
    let is_process = name.iter().all(u8::is_ascii_digit);
    !is_process && kind != FileType::Symlink && !matches!(name, b"." | b"..")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_and_links_are_not_the_machines() {
        assert!(is_of_machine(c"meminfo", FileType::RegularFile));
        assert!(is_of_machine(c"sys", FileType::Directory));
        for (name, kind) in [
            (c"1", FileType::Directory),
            (c"31337", FileType::Directory),
            (c"self", FileType::Symlink),
            (c".", FileType::Directory),
            (c"..", FileType::Directory),
        ] {
            assert!(!is_of_machine(name, kind), "{name:?}");
        }
    }
}
