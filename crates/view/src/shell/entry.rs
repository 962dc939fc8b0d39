//! What is known of a node, as the kernel is told.

use surmise_fuse as fuse;
use surmise_fuse::KnownAttributes;

use super::device;
use crate::types::Timestamp;
use crate::view::Entry;

pub(super) fn entry_of(entry: &Entry) -> fuse::Entry {
    fuse::Entry {
        node: entry.node.0,
        generation: 0,
        attributes: attributes_of(entry),
        entry_lifetime: entry.name_lifetime.duration(),
        attributes_lifetime: entry.attributes_lifetime.duration(),
    }
}

pub(super) fn known(entry: &Entry) -> KnownAttributes {
    KnownAttributes {
        attributes: attributes_of(entry),
        lifetime: entry.attributes_lifetime.duration(),
    }
}

fn attributes_of(entry: &Entry) -> fuse::Attributes {
    let time = |time: Timestamp| fuse::Timestamp {
        seconds: time.seconds,
        nanoseconds: time.nanoseconds,
    };
    let attributes = &entry.attributes;
    fuse::Attributes {
        ino: entry.inode,
        size: attributes.identity.size,
        blocks: attributes.blocks,
        block_size: attributes.block_size,
        links: attributes.links,
        mode: attributes.mode(),
        uid: attributes.uid,
        gid: attributes.gid,
        device: device::encoded(attributes.special),
        accessed: time(attributes.accessed),
        modified: time(attributes.identity.modified),
        changed: time(attributes.identity.changed),
        created: attributes.created.map(time),
    }
}
