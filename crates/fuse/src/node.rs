//! Who asks, and what a name leads to.

use std::time::Duration;

use bitflags::bitflags;

use crate::{Attributes, abi::output, attributes::seconds_and_nanoseconds};

/// The node of the mounted root (`FUSE_ROOT_ID`).
pub const ROOT: u64 = 1;

/// The process behind a request. Pages written back and forgotten nodes have none: all zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// Its file-system user id, in the user namespace that mounted; `u32::MAX` if not mapped there.
    pub uid: u32,
    /// Its file-system group id, likewise.
    pub gid: u32,
    /// Its thread id in the pid namespace that opened the device; 0 if it is not in there.
    pub pid: u32,
}

/// A name's node, with how long the kernel may rely on both without asking again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What later requests call the object; never 0.
    pub node: u64,
    /// Tells apart the objects that one node number has stood for.
    pub generation: u64,
    /// The object's attributes.
    pub attributes: Attributes,
    /// How long the name leads to this node; [`Duration::MAX`] is for ever.
    pub entry_lifetime: Duration,
    /// How long the attributes hold; [`Duration::MAX`] is for ever.
    pub attributes_lifetime: Duration,
}

impl Entry {
    pub(crate) fn to_wire(self) -> output::EntryOut {
        let (entry_valid, entry_valid_nsec) = seconds_and_nanoseconds(self.entry_lifetime);
        let (attr_valid, attr_valid_nsec) = seconds_and_nanoseconds(self.attributes_lifetime);
        output::EntryOut {
            nodeid: self.node,
            generation: self.generation,
            entry_valid,
            attr_valid,
            entry_valid_nsec,
            attr_valid_nsec,
            attr: self.attributes.to_wire(),
        }
    }
}

/// What a lookup found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// The object; one more reference to its node.
    Found(Entry),
    /// Nothing, and the kernel may remember that. `Err(ENOENT)` says it for once only.
    Absent {
        /// How long there will be nothing; [`Duration::MAX`] is for ever.
        lifetime: Duration,
    },
}

impl Lookup {
    pub(crate) fn to_wire(self) -> output::EntryOut {
        match self {
            Self::Found(entry) => entry.to_wire(),
            // Node 0 is the protocol's cacheable "no such file".
            Self::Absent { lifetime } => {
                let (entry_valid, entry_valid_nsec) = seconds_and_nanoseconds(lifetime);
                output::EntryOut {
                    entry_valid,
                    entry_valid_nsec,
                    ..Default::default()
                }
            }
        }
    }
}

bitflags! {
    /// The flags of renameat2(2).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct RenameFlags: u32 {
        /// Fail with `EEXIST` rather than replace.
        const NOREPLACE = 1 << 0;
        /// Both names must exist and swap.
        const EXCHANGE = 1 << 1;
        /// Leave a whiteout at the old name.
        const WHITEOUT = 1 << 2;
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use zerocopy::IntoBytes;

    use super::*;

    pub(crate) fn entry(node: u64) -> Entry {
        Entry {
            node,
            generation: 3,
            attributes: Attributes {
                ino: 42,
                ..Attributes::default()
            },
            entry_lifetime: Duration::MAX,
            attributes_lifetime: Duration::from_millis(1500),
        }
    }

    #[test]
    fn a_found_entry_carries_both_lifetimes() {
        let wire = Lookup::Found(entry(7)).to_wire();
        let mut expected = Vec::new();
        for word in [7u64, 3, u64::from(u32::MAX), 1] {
            expected.extend(word.to_ne_bytes());
        }
        for half in [0u32, 500_000_000] {
            expected.extend(half.to_ne_bytes());
        }
        expected.extend(42u64.to_ne_bytes());
        assert_eq!(wire.as_bytes()[..48], expected);
    }

    #[test]
    fn an_absent_name_is_node_zero_with_a_lifetime() {
        let wire = Lookup::Absent {
            lifetime: Duration::from_secs(2),
        }
        .to_wire();
        assert_eq!((wire.nodeid, wire.entry_valid, wire.attr_valid), (0, 2, 0));
    }
}
