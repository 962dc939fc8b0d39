//! What `limits` says (proc_pid_limits(5)).

use std::io;

use super::Entry;

/// Where a line has the hard limit: behind a name of 25 bytes and a soft limit of 20, each with a blank after it.
const HARD: usize = 26 + 21;

/// What getrlimit(2) tells for no limit.
const UNLIMITED: u64 = u64::MAX;

/// The hard limit of a process for a resource, by the number that setrlimit(2) has for it. `None` where there is no such
/// resource.
///
/// # Errors
/// As for reading /proc.
pub fn hard_limit(entry: impl Into<Entry>, resource: u32) -> io::Result<Option<u64>> {
    let text = entry.into().text("limits")?;
    Ok(hard(&text, resource))
}

fn hard(text: &str, resource: u32) -> Option<u64> {
    // The kernel tells them in the order of their numbers, below a headline.
    let line = text.lines().nth(1 + resource as usize)?;
    match line.get(HARD..)?.split_ascii_whitespace().next()? {
        "unlimited" => Some(UNLIMITED),
        number => number.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use rustix::process::{Resource, getrlimit};

    use super::*;

    #[test]
    fn a_limit_is_told_as_the_kernel_tells_it() {
        for (number, resource) in [
            (0, Resource::Cpu),
            (3, Resource::Stack),
            (4, Resource::Core),
            (7, Resource::Nofile),
            (15, Resource::Rttime),
        ] {
            let hard = hard_limit(Entry::own(), number).expect("own limits");
            let wanted = getrlimit(resource).maximum.unwrap_or(UNLIMITED);
            assert_eq!(hard, Some(wanted), "{number}");
        }
        assert_eq!(hard_limit(Entry::own(), 16).expect("own limits"), None);
    }
}
