//! The user and group numbers of a process (proc_pid_status(5)), as its own user namespace has them
//! (user_namespaces(7)).

use std::io;

use super::{Entry, Status, namespace};

/// Whose numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ids {
    /// Users.
    Users,
    /// Groups.
    Groups,
}

/// The real, effective, saved and file system number of a process' first thread. `None` where its namespace has no number for
/// one of them.
///
/// # Errors
/// As for reading /proc.
pub fn ids(entry: impl Into<Entry>, which: Ids) -> io::Result<Option<[u32; 4]>> {
    let entry = entry.into();
    let (field, map) = match which {
        Ids::Users => ("Uid:", "uid_map"),
        Ids::Groups => ("Gid:", "gid_map"),
    };
    let status = Status::of(entry.clone())?;
    let numbers = status.numbers(field);
    // In the caller's own namespace these are the numbers already. The map there is to the next namespace out.
    let is_own = namespace(entry.clone(), "user")? == namespace(Entry::own(), "user")?;
    let inner: Option<Vec<u32>> = match is_own {
        true => Some(numbers.collect()),
        false => {
            let map = entry.text(map)?;
            numbers.map(|number| inner(&map, number)).collect()
        }
    };
    Ok(inner.and_then(|inner| inner.first_chunk().copied()))
}

/// A number of the caller's namespace in that with this map: lines of the first number there, the first here, and how many.
fn inner(map: &str, outer: u32) -> Option<u32> {
    map.lines().find_map(|line| {
        let mut numbers = line.split_ascii_whitespace().map(str::parse);
        let mut next = || numbers.next()?.ok();
        let (first_there, first_here, count): (u32, u32, u32) = (next()?, next()?, next()?);
        let place = outer
            .checked_sub(first_here)
            .filter(|place| *place < count)?;
        Some(first_there + place)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_numbers_are_told() {
        let users = ids(Entry::own(), Ids::Users).expect("own status");
        let user = rustix::process::getuid().as_raw();
        assert_eq!(users.map(|users| users[0]), Some(user));
        let groups = ids(Entry::own(), Ids::Groups).expect("own status");
        let group = rustix::process::getegid().as_raw();
        assert_eq!(groups.map(|groups| groups[1]), Some(group));
    }

    #[test]
    fn a_number_is_found_in_its_range() {
        let map = "         0       1000          1\n         1     100000      65536\n";
        assert_eq!(inner(map, 1000), Some(0));
        assert_eq!(inner(map, 100_000), Some(1));
        assert_eq!(inner(map, 165_535), Some(65_536));
        for outside in [0, 999, 1001, 165_536] {
            assert_eq!(inner(map, outside), None);
        }
    }
}
