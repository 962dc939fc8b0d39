//! Which user and group numbers a domain's user namespace has, and what they are outside.
//!
//! Numbers mean the same inside and outside wherever that is possible, so that owners display
//! right and the host's refusals stay. A process that may map anything maps everything to
//! itself. An ordinary user may map only itself and its subordinate ids (`/etc/subuid`,
//! `/etc/subgid`): it keeps its own number, and the other numbers, from 0 up, stand for
//! subordinate ids, which own nothing outside.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::Pid;
use rustix::thread::CapabilitySet;

use crate::users;

/// The mappings for one new user namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdMap {
    users: Vec<Extent>,
    groups: Vec<Extent>,
    writer: Writer,
}

/// `count` numbers from `inside` in the namespace stand for those from `outside`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// First number in the new namespace.
    pub inside: u32,
    /// First number in the namespace of the caller.
    pub outside: u32,
    /// How many; never 0.
    pub count: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writer {
    /// The caller itself, by `CAP_SETUID` and `CAP_SETGID`.
    Caller,
    /// The set-uid programs newuidmap and newgidmap.
    Helpers,
}

/// Why there is no map, or why it was not accepted.
#[derive(Debug, thiserror::Error)]
pub enum IdMapError {
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// A line about this user does not read `user:first:count`.
    #[error("{file}:{line}: `{text}` is not `user:first:count`")]
    Malformed {
        /// `/etc/subuid` or `/etc/subgid`.
        file: &'static str,
        /// Line number, from 1.
        line: usize,
        /// The line.
        text: String,
    },
    /// No line of the file is about this user.
    #[error("{file} gives user {user} no subordinate ids")]
    NoRange {
        /// `/etc/subuid` or `/etc/subgid`.
        file: &'static str,
        /// Login name, or number where it has none.
        user: String,
    },
    /// newuidmap or newgidmap could not be started.
    #[error("{program}: {source}")]
    Helper {
        /// Which of the two.
        program: &'static str,
        /// Why not.
        source: io::Error,
    },
    /// newuidmap or newgidmap refused the map.
    #[error("{program} {arguments}: {message}")]
    Refused {
        /// Which of the two.
        program: &'static str,
        /// The map that it was given.
        arguments: String,
        /// What it wrote to standard error.
        message: String,
    },
}

impl IdMapError {
    /// What a person can do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::File { .. } => "`surmise doctor` shows what this machine allows",
            Self::Malformed { .. } => "correct the line, as root; see subuid(5)",
            Self::NoRange { .. } => {
                "as root: usermod --add-subuids 100000-165535 --add-subgids 100000-165535 USER, \
                 with a range that no other line has"
            }
            Self::Helper { .. } => {
                "as root: apt-get install uidmap (or your system's shadow-utils)"
            }
            Self::Refused { .. } => {
                "newuidmap and newgidmap must be set-uid root (as root: apt-get install --reinstall \
                 uidmap) and the ranges in /etc/subuid and /etc/subgid must be this user's"
            }
        }
    }
}

const SUBUID: &str = "/etc/subuid";
const SUBGID: &str = "/etc/subgid";
const NEWUIDMAP: &str = "newuidmap";
const NEWGIDMAP: &str = "newgidmap";

impl IdMap {
    /// The map for namespaces that the calling process makes.
    ///
    /// # Errors
    /// When an ordinary user has no subordinate ids.
    pub fn of_caller() -> Result<Self, IdMapError> {
        let may_map = CapabilitySet::SETUID | CapabilitySet::SETGID;
        let capabilities =
            rustix::thread::capabilities(None).map_err(|errno| IdMapError::File {
                path: "/proc/self/status".into(),
                source: errno.into(),
            })?;
        if capabilities.effective.contains(may_map) {
            return Ok(Self {
                users: identity(&read(Path::new("/proc/self/uid_map"))?),
                groups: identity(&read(Path::new("/proc/self/gid_map"))?),
                writer: Writer::Caller,
            });
        }
        let (uid, gid) = (
            rustix::process::geteuid().as_raw(),
            rustix::process::getegid().as_raw(),
        );
        let name = users::name_in(&read(Path::new("/etc/passwd"))?, uid);
        let subordinate = |file: &'static str, id| {
            let ranges = ranges(file, &read(Path::new(file))?, name.as_deref(), uid)?;
            Ok::<_, IdMapError>(preserving(id, &ranges))
        };
        Ok(Self {
            users: subordinate(SUBUID, uid)?,
            groups: subordinate(SUBGID, gid)?,
            writer: Writer::Helpers,
        })
    }

    /// The user numbers.
    pub fn users(&self) -> &[Extent] {
        &self.users
    }

    /// The group numbers.
    pub fn groups(&self) -> &[Extent] {
        &self.groups
    }

    /// Whether user `id` is the same user inside and outside.
    pub fn keeps_user(&self, id: u32) -> bool {
        keeps(&self.users, id)
    }

    /// Whether group `id` is the same group inside and outside.
    pub fn keeps_group(&self, id: u32) -> bool {
        keeps(&self.groups, id)
    }

    /// Which program the map needs that is not in `PATH`, if one is missing.
    pub fn missing_helper(&self) -> Option<&'static str> {
        let search = std::env::var_os("PATH").unwrap_or_default();
        let exists = |program: &str| {
            std::env::split_paths(&search).any(|directory| directory.join(program).is_file())
        };
        match self.writer {
            Writer::Caller => None,
            Writer::Helpers => [NEWUIDMAP, NEWGIDMAP]
                .into_iter()
                .find(|program| !exists(program)),
        }
    }

    /// Gives the map to the user namespace of `child`, which has none yet.
    ///
    /// # Errors
    /// When the kernel or a helper program refuses it.
    pub fn apply(&self, child: Pid) -> Result<(), IdMapError> {
        let pid = child.as_raw_nonzero();
        match self.writer {
            Writer::Caller => {
                write(format!("/proc/{pid}/uid_map").into(), &self.users)?;
                write(format!("/proc/{pid}/gid_map").into(), &self.groups)
            }
            Writer::Helpers => {
                // Started together: each takes milliseconds, and a person waits.
                let users = Helper::start(NEWUIDMAP, child, &self.users)?;
                let groups = Helper::start(NEWGIDMAP, child, &self.groups);
                users.finish()?;
                groups?.finish()
            }
        }
    }
}

struct Helper {
    program: &'static str,
    arguments: Vec<String>,
    process: std::process::Child,
}

impl Helper {
    fn start(program: &'static str, child: Pid, map: &[Extent]) -> Result<Self, IdMapError> {
        let mut arguments = vec![child.as_raw_nonzero().to_string()];
        for extent in map {
            let numbers = [extent.inside, extent.outside, extent.count];
            arguments.extend(numbers.map(|number| number.to_string()));
        }
        let process = Command::new(program)
            .args(&arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|source| IdMapError::Helper { program, source })?;
        Ok(Self {
            program,
            arguments,
            process,
        })
    }

    fn finish(self) -> Result<(), IdMapError> {
        let program = self.program;
        let output = self
            .process
            .wait_with_output()
            .map_err(|source| IdMapError::Helper { program, source })?;
        if output.status.success() {
            return Ok(());
        }
        Err(IdMapError::Refused {
            program,
            arguments: self.arguments.join(" "),
            message: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        })
    }
}

fn read(path: &Path) -> Result<String, IdMapError> {
    match fs::read(path) {
        // Other users' lines may hold anything.
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        // A file that does not exist gives nobody anything.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(source) => Err(IdMapError::File {
            path: path.into(),
            source,
        }),
    }
}

fn write(path: PathBuf, map: &[Extent]) -> Result<(), IdMapError> {
    let lines: String = map
        .iter()
        .map(|extent| format!("{} {} {}\n", extent.inside, extent.outside, extent.count))
        .collect();
    // The kernel takes a map in one write only.
    fs::OpenOptions::new()
        .write(true)
        .open(&path)
        .and_then(|mut file| file.write_all(lines.as_bytes()))
        .map_err(|source| IdMapError::File { path, source })
}

/// All numbers of the namespace whose `/proc/self/uid_map` is given, mapped to themselves.
fn identity(own: &str) -> Vec<Extent> {
    own.lines()
        .filter_map(|line| {
            let mut numbers = line.split_whitespace().map(str::parse);
            let inside = numbers.next()?.ok()?;
            let count = numbers.nth(1)?.ok()?;
            Some(Extent {
                inside,
                outside: inside,
                count,
            })
        })
        .collect()
}

fn keeps(map: &[Extent], id: u32) -> bool {
    map.iter().any(|extent| {
        let distance = id.checked_sub(extent.inside);
        extent.inside == extent.outside && distance.is_some_and(|distance| distance < extent.count)
    })
}

/// First subordinate id and how many, in the order of the file.
fn ranges(
    file: &'static str,
    text: &str,
    name: Option<&str>,
    uid: u32,
) -> Result<Vec<(u32, u32)>, IdMapError> {
    let number = uid.to_string();
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let mut fields = line.trim().split(':');
        let owner = fields.next();
        if owner != name && owner != Some(&number) {
            continue;
        }
        let range = (|| {
            let first: u32 = fields.next()?.parse().ok()?;
            let count: u32 = fields.next()?.parse().ok()?;
            (fields.next().is_none() && first.checked_add(count).is_some())
                .then_some((first, count))
        })();
        let malformed = || IdMapError::Malformed {
            file,
            line: index + 1,
            text: line.to_owned(),
        };
        found.push(range.ok_or_else(malformed)?);
    }
    found.retain(|&(_, count)| count > 0);
    if found.is_empty() {
        let user = name.map_or(number, str::to_owned);
        return Err(IdMapError::NoRange { file, user });
    }
    Ok(found)
}

/// `own` keeps its number; all others from 0 up get the subordinate ids, as far as they reach.
fn preserving(own: u32, ranges: &[(u32, u32)]) -> Vec<Extent> {
    let mut map = Vec::new();
    let mut inside = 0_u32;
    for (first, count) in ranges.iter().flat_map(|&range| without(own, range)) {
        let (mut outside, mut rest) = (first, count);
        while rest > 0 {
            if inside == own {
                inside += 1;
            }
            let room = if inside < own {
                own - inside
            } else {
                u32::MAX - inside
            };
            let count = rest.min(room);
            if count == 0 {
                break;
            }
            map.push(Extent {
                inside,
                outside,
                count,
            });
            inside += count;
            outside += count;
            rest -= count;
        }
    }
    map.push(Extent {
        inside: own,
        outside: own,
        count: 1,
    });
    map.sort_by_key(|extent| extent.inside);
    map
}

/// The range in at most two parts that leave `id` out: the kernel takes no number twice.
fn without(id: u32, (first, count): (u32, u32)) -> [(u32, u32); 2] {
    match id.checked_sub(first) {
        Some(before) if before < count => [(first, before), (id + 1, count - before - 1)],
        _ => [(first, count), (0, 0)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn triples(map: &[Extent]) -> Vec<(u32, u32, u32)> {
        map.iter()
            .map(|extent| (extent.inside, extent.outside, extent.count))
            .collect()
    }

    #[test]
    fn who_may_map_anything_maps_all_that_it_sees_to_itself() {
        let initial = "         0          0 4294967295\n";
        assert_eq!(triples(&identity(initial)), [(0, 0, 4_294_967_295)]);
        let nested = "0 1000 1\n1 100000 65535\n";
        assert_eq!(triples(&identity(nested)), [(0, 0, 1), (1, 1, 65535)]);
    }

    #[test]
    fn a_user_keeps_its_number_between_subordinate_ids() {
        assert_eq!(
            triples(&preserving(1001, &[(100_000, 65_536)])),
            [(0, 100_000, 1001), (1001, 1001, 1), (1002, 101_001, 64_535)]
        );
    }

    #[test]
    fn a_number_beyond_the_range_stands_alone() {
        assert_eq!(
            triples(&preserving(1_000_000, &[(100_000, 65_536)])),
            [(0, 100_000, 65_536), (1_000_000, 1_000_000, 1)]
        );
        assert_eq!(
            triples(&preserving(65_536, &[(100_000, 65_536)])),
            [(0, 100_000, 65_536), (65_536, 65_536, 1)]
        );
    }

    #[test]
    fn a_short_range_serves_the_lowest_numbers() {
        assert_eq!(
            triples(&preserving(1000, &[(5000, 10)])),
            [(0, 5000, 10), (1000, 1000, 1)]
        );
    }

    #[test]
    fn several_ranges_follow_each_other() {
        assert_eq!(
            triples(&preserving(3, &[(100, 2), (200, 4)])),
            [(0, 100, 2), (2, 200, 1), (3, 3, 1), (4, 201, 3)]
        );
    }

    #[test]
    fn the_users_own_number_in_its_range_is_mapped_once() {
        assert_eq!(
            triples(&preserving(1, &[(0, 4)])),
            [(0, 0, 1), (1, 1, 1), (2, 2, 2)]
        );
    }

    #[test]
    fn ranges_are_found_by_name_and_by_number() {
        let text = "ann:100000:65536\nbob:165536:65536\n1000:300000:5\n";
        let found = ranges(SUBUID, text, Some("ann"), 1000).expect("two ranges");
        assert_eq!(found, [(100_000, 65_536), (300_000, 5)]);
    }

    #[test]
    fn only_a_users_own_lines_must_be_well_formed() {
        let text = "bob:x\nann:1:2:3\n";
        let error = ranges(SUBUID, text, Some("ann"), 1000).expect_err("a bad line");
        assert_eq!(
            error.to_string(),
            "/etc/subuid:2: `ann:1:2:3` is not `user:first:count`"
        );
        let error = ranges(SUBGID, text, Some("eve"), 1002).expect_err("no line");
        assert_eq!(
            error.to_string(),
            "/etc/subgid gives user eve no subordinate ids"
        );
        assert!(ranges(SUBUID, "ann:4294967295:2\n", Some("ann"), 1).is_err());
    }
}
