//! Devices that keep nothing: what one task does to them no other can see, so a rollback has nothing to undo.
//!
//! A byte of `/dev/urandom` is told once and to one reader. A reader that is rolled back reads other bytes, which are as
//! good: nobody can have relied on the bytes of before but what depended on them.

use std::ffi::{CStr, CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

use rustix::fs::{FileType, makedev};
use rustix::process::Pid;
use surmise_linux::proc::Status;

use super::names::Names;
use crate::machine::task;

/// The kernel's number of memory devices (`Documentation/admin-guide/devices.txt`).
const MEMORY: u32 = 1;
const NULL: u32 = 3;
const ZERO: u32 = 5;
const FULL: u32 = 7;
const RANDOM: u32 = 8;
const URANDOM: u32 = 9;

/// Where such devices are. Nobody in a domain can replace one that is a mount of its own: the kernel removes and renames
/// no mount point, and the table refuses mounting.
const PLACES: [(&str, u32); 5] = [
    ("/dev/null", NULL),
    ("/dev/zero", ZERO),
    ("/dev/full", FULL),
    ("/dev/random", RANDOM),
    ("/dev/urandom", URANDOM),
];

/// Whether a character device of this number is read from without a trace.
pub(crate) fn is_source(device: u64) -> bool {
    [NULL, ZERO, FULL, RANDOM, URANDOM]
        .iter()
        .any(|&minor| device == makedev(MEMORY, minor))
}

/// Whether a character device of this number is written to without a trace. What is written to a source of random
/// numbers stirs them.
pub(crate) fn is_sink(device: u64) -> bool {
    [NULL, ZERO, FULL]
        .iter()
        .any(|&minor| device == makedev(MEMORY, minor))
}

/// The terminal of the caller's session, and its number in two parts. To open it changes nothing; what is done to it then does.
const TERMINAL: &str = "/dev/tty";
const TERMINAL_NUMBER: (u32, u32) = (5, 0);

/// Whether a path is the name of a device that is opened without a trace, in a domain with these names. Only the whole path
/// from the root is: it leads there whatever names the domain has changed.
pub(crate) fn is_named(names: &Names, text: &CStr) -> bool {
    let place = Path::new(OsStr::from_bytes(text.to_bytes()));
    // Paths compare by their parts, so `/dev/null/`, which fails, would be the same.
    let is_whole = !text.to_bytes().ends_with(b"/");
    is_whole && names.has_mount_at(place) && (is_at(place) || is_terminal(place))
}

/// Files in which the kernel tells of the machine and of itself, and of no task.
const FACTS: [&str; 11] = [
    "/proc/cpuinfo",
    "/proc/filesystems",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/sys/kernel/cap_last_cap",
    "/proc/sys/kernel/ngroups_max",
    "/proc/sys/kernel/osrelease",
    "/proc/sys/vm/max_map_count",
    "/proc/sys/vm/overcommit_memory",
    "/proc/version",
];

/// Directories in which it tells of processors and memory.
const MACHINE: [&str; 3] = [
    "/sys/devices/system/cpu",
    "/sys/devices/system/node",
    "/sys/kernel/mm",
];

/// Where it tells of groups of tasks, and how a file begins there by which a program learns its share of the processors.
const GROUPS: &str = "/sys/fs/cgroup";
const SHARES: &[u8] = b"cpu.";

/// Where the kernel tells a process of that process.
const OWN: &str = "/proc/self/";

/// What it tells there that a rollback gives back, or that never changes, and that others do not change.
const OWN_FACTS: [&str; 11] = [
    "auxv",
    "cgroup",
    "cmdline",
    "environ",
    "fd",
    "limits",
    "maps",
    "mountinfo",
    "mounts",
    "smaps",
    "statm",
];

/// A path in a process' memory, by the name that every process has for itself where it has the process' number in that place.
pub(crate) fn path_of(process: Pid, address: u64) -> Option<CString> {
    let text = task::string(process, address)?;
    Some(by_self(&text, || own_number(process)).unwrap_or(text))
}

fn by_self(text: &CStr, own: impl FnOnce() -> Option<Pid>) -> Option<CString> {
    let bytes = text.to_bytes().strip_prefix(b"/proc/")?;
    let end = bytes.iter().position(|&byte| byte == b'/')?;
    let (number, rest) = bytes.split_at(end);
    // A number that the kernel knows begins with no other digit.
    let is_number = number.iter().all(u8::is_ascii_digit) && !number.starts_with(b"0");
    let number = std::str::from_utf8(number).ok().filter(|_| is_number)?;
    let number = number.parse().ok().and_then(Pid::from_raw)?;
    let is_own = own() == Some(number);
    let by_self = [b"/proc/self", rest].concat();
    CString::new(by_self).ok().filter(|_| is_own)
}

/// The number of a process in its domain. A process in a pid namespace that was made inside has another number there than in `/proc`.
fn own_number(process: Pid) -> Option<Pid> {
    /// The supervisor's own, and the domain's.
    const DEPTH: usize = 2;
    let status = Status::of(process).ok()?;
    status.inner().filter(|_| status.pid_namespaces() == DEPTH)
}

/// Whether a path is the name of a file of the kernel's that can be read without a trace, and that tells nothing of
/// what tasks do to each other. As for devices, the whole path has to be.
pub(crate) fn is_fact(names: &Names, text: &CStr) -> bool {
    let bytes = text.to_bytes();
    let is_known = match bytes.strip_prefix(OWN.as_bytes()) {
        Some(own) => OWN_FACTS.iter().any(|fact| fact.as_bytes() == own),
        None => FACTS.iter().any(|fact| fact.as_bytes() == bytes),
    };
    is_known && names.has_mount_at(Path::new("/proc"))
        || is_of_machine(text) && names.has_mount_at(Path::new("/sys"))
}

/// The number of the caller's descriptor that a path names, by which the kernel follows it to what is open there. So the C library
/// changes the mode of what is no symbolic link.
pub(crate) fn named_descriptor(names: &Names, text: &CStr) -> Option<u64> {
    let number = text.to_bytes().strip_prefix(b"/proc/self/fd/")?;
    let are_digits = number.iter().all(u8::is_ascii_digit);
    let number = std::str::from_utf8(number).ok()?.parse().ok()?;
    (are_digits && names.has_mount_at(Path::new("/proc"))).then_some(number)
}

fn is_of_machine(text: &CStr) -> bool {
    let place = Path::new(OsStr::from_bytes(text.to_bytes()));
    let name = place.file_name().unwrap_or_default();
    let is_there = MACHINE.iter().any(|directory| place.starts_with(directory))
        || place.starts_with(GROUPS) && name.as_bytes().starts_with(SHARES);
    is_there && !place.components().any(|part| part == Component::ParentDir)
}

/// Whether such a device has this name.
pub(crate) fn is_place(place: &Path) -> bool {
    PLACES.iter().any(|(name, _)| Path::new(name) == place)
}

/// Whether such a device is at a place outside, which a domain has a mount of.
fn is_at(place: &Path) -> bool {
    let known = PLACES.iter().find(|(name, _)| Path::new(name) == place);
    known.is_some_and(|&(_, minor)| is_device(place, makedev(MEMORY, minor)))
}

fn is_terminal(place: &Path) -> bool {
    let (major, minor) = TERMINAL_NUMBER;
    place == Path::new(TERMINAL) && is_device(place, makedev(major, minor))
}

fn is_device(place: &Path, number: u64) -> bool {
    rustix::fs::lstat(place).is_ok_and(|stat| {
        FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice && stat.st_rdev == number
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tells_of_the_machine_is_known_by_its_place() {
        for path in [
            c"/sys/devices/system/cpu/online",
            c"/sys/fs/cgroup/cpu.max",
            c"/sys/fs/cgroup/cpu/cpu.cfs_quota_us",
        ] {
            assert!(is_of_machine(path), "{path:?}");
        }
        for path in [
            c"/sys/fs/cgroup/cgroup.procs",
            c"/sys/fs/cgroup/cpu/tasks",
            c"/sys/devices/system/cpu/../../../fs/cgroup/cgroup.procs",
            c"/sys/devices/system/cpux",
            c"sys/kernel/mm/hugepages",
        ] {
            assert!(!is_of_machine(path), "{path:?}");
        }
    }

    #[test]
    fn a_process_is_itself_by_its_number_too() {
        let own = || Pid::from_raw(41);
        let by_self = |text| by_self(text, own);
        assert_eq!(by_self(c"/proc/41/fd"), Some(c"/proc/self/fd".to_owned()));
        assert_eq!(by_self(c"/proc/41/"), Some(c"/proc/self/".to_owned()));
        for path in [
            c"/proc/self/fd",
            c"/proc/42/fd",
            c"/proc/041/fd",
            c"/proc/+41/fd",
            c"/proc/41",
            c"/proc//41/fd",
            c"proc/41/fd",
        ] {
            assert_eq!(by_self(path), None, "{path:?}");
        }
    }

    #[test]
    fn a_device_is_known_by_its_number_and_its_place() {
        let number = |path: &str| rustix::fs::stat(path).expect("a device").st_rdev;
        for path in ["/dev/null", "/dev/zero", "/dev/full"] {
            let device = number(path);
            assert!(is_source(device) && is_sink(device) && is_at(Path::new(path)));
        }
        for path in ["/dev/random", "/dev/urandom"] {
            let device = number(path);
            assert!(is_source(device) && !is_sink(device) && is_at(Path::new(path)));
        }
        let terminal = number("/dev/tty");
        assert!(!is_source(terminal) && !is_sink(terminal));
        for path in ["/dev/tty", "/dev/fd", "/dev/nothing", "/etc/passwd", "null"] {
            assert!(!is_at(Path::new(path)), "{path}");
        }
    }
}
