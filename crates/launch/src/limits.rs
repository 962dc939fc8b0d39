//! What the caller's capabilities let it do and limits can, too.
//!
//! The kernel asks for `CAP_SYS_NICE` and `CAP_IPC_LOCK` over the machine, which nobody in a user namespace has. But
//! it asks only where a limit does not allow it. So where the caller has the capability, the domain has the limit.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::CapabilitySet;

/// Each with the value that allows everything, as getrlimit(2) counts: 20 - nice, and the real-time priority.
const GRANTED: [(CapabilitySet, Resource, Option<u64>); 3] = [
    (CapabilitySet::SYS_NICE, Resource::Nice, Some(40)),
    (CapabilitySet::SYS_NICE, Resource::Rtprio, Some(99)),
    (CapabilitySet::IPC_LOCK, Resource::Memlock, None),
];

/// Does `start` with the limits that a domain gets, which what it starts inherits. Afterwards the caller's are as before.
///
/// What the kernel does not let the caller raise stays, and is refused inside.
pub(crate) fn with_raised<T>(start: impl FnOnce() -> T) -> T {
    let held = rustix::thread::capabilities(None).map(|sets| sets.effective);
    let held = held.unwrap_or(CapabilitySet::empty());
    let mut before: Vec<(Resource, Rlimit)> = Vec::new();
    for (capability, resource, value) in GRANTED {
        let all = Rlimit {
            current: value,
            maximum: value,
        };
        let old = getrlimit(resource);
        if held.contains(capability) && setrlimit(resource, all).is_ok() {
            before.push((resource, old));
        }
    }
    let started = start();
    for (resource, limits) in before {
        // To lower a limit takes no right.
        let _ = setrlimit(resource, limits);
    }
    started
}
