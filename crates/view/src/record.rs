//! What one frame of the view's log says.
//!
//! # Format, tag `VIEW`, version 2
//!
//! A payload is the time of the operation (`i64` seconds, `u32` nanoseconds) and its records, which
//! take effect together or not at all. Integers are little-endian; `bytes` is a `u32` length and
//! that many bytes; `optional` is a byte 0, or a byte 1 and the value; `time` is as above;
//! `identity` is device `u64`, inode `u64`, kind `u8`, size `u64`, modified `time`, changed `time`.
//!
//! | tag | record | fields |
//! |---|---|---|
//! | 1 | [`Record::Adopt`] | node u64, parent u64, name bytes, identity, links u32, permissions u16, uid u32, gid u32, special u64 |
//! | 2 | [`Record::Create`] | node u64, device u64, kind u8, permissions u16, uid u32, gid u32, special u64, object optional u64, target bytes |
//! | 3 | [`Record::Bind`] | directory u64, name bytes, node u64, lower optional identity |
//! | 4 | [`Record::Unbind`] | directory u64, name bytes, lower optional identity |
//! | 5 | [`Record::Content`] | node u64, object u64 |
//! | 6 | [`Record::Permissions`] | node u64, permissions u16 |
//! | 7 | [`Record::Owner`] | node u64, uid u32, gid u32 |
//! | 8 | [`Record::Times`] | node u64, accessed optional time, modified optional time |
//! | 9 | [`Record::Xattr`] | node u64, name bytes, value optional bytes |
//! | 13 | [`Record::By`] | mark u64 |
//! | 15 | [`Record::Settle`] | number of marks u32, marks u64 |
//! | 16 | [`Record::Rebase`] | none |
//! | 17 | [`Record::Borrow`] | node u64, object u64, from identity, allocated u64, limit u64 |
//! | 18 | [`Record::Own`] | node u64, first u64, end u64 |
//! | 19 | [`Record::Cut`] | node u64, limit u64 |
//! | 20 | [`Record::TakeBack`] | number of marks u32, marks u64 |
//!
//! The reader takes back what marks have changed that are neither settled nor taken back at the end of the log. Tags
//! 10 to 12 were for marks of the whole view, and tag 14 is free. A program that does not know a tag refuses the log.

mod fields;

use std::ffi::OsString;

use crate::codec::{Malformed, Reader, Writer};
use crate::types::{FileKind, Identity, MarkId, NodeId, ObjectId, Timestamp};

/// One operation on the view: records that take effect together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// When it happened.
    pub time: Timestamp,
    /// What changed, in order.
    pub records: Vec<Record>,
}

/// One fact of the name map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// A real inode takes part in what follows, under this node id.
    Adopt {
        /// Its id from now on.
        node: NodeId,
        /// The adopted directory in which it was found; the root is its own parent.
        parent: NodeId,
        /// Its real name there; empty for the root.
        name: OsString,
        /// Which inode, and in which state when the domain first used it.
        identity: Identity,
        /// `st_nlink` then.
        links: u32,
        /// Permission bits then.
        permissions: u16,
        /// Owner then.
        uid: u32,
        /// Group then.
        gid: u32,
        /// Device number, for device nodes.
        special: u64,
    },
    /// A new inode, without a name as yet.
    Create {
        /// Its id.
        node: NodeId,
        /// `st_dev` of the file system on which a commit will put it.
        device: u64,
        /// Its kind.
        kind: FileKind,
        /// Permission bits.
        permissions: u16,
        /// Owner.
        uid: u32,
        /// Group.
        gid: u32,
        /// Device number, for device nodes.
        special: u64,
        /// Its data, for regular files.
        object: Option<ObjectId>,
        /// Where it leads, for symbolic links.
        target: OsString,
    },
    /// A name leads to a node, whatever it led to before.
    Bind {
        /// The directory.
        directory: NodeId,
        /// The name in it.
        name: OsString,
        /// The node.
        node: NodeId,
        /// What the real directory holds under this name.
        lower: Option<Identity>,
    },
    /// A name leads nowhere.
    Unbind {
        /// The directory.
        directory: NodeId,
        /// The name in it.
        name: OsString,
        /// What the real directory holds under this name.
        lower: Option<Identity>,
    },
    /// A regular file's data is this object from now on.
    Content {
        /// The file.
        node: NodeId,
        /// Its data.
        object: ObjectId,
    },
    /// A regular file's data is this object from now on, but for what the object borrows: all bytes
    /// before `limit`, as the real file has them.
    Borrow {
        /// The file.
        node: NodeId,
        /// Its data.
        object: ObjectId,
        /// The state of the real file.
        from: Identity,
        /// `st_blocks` of the real file.
        allocated: u64,
        /// Where the object's own bytes begin.
        limit: u64,
    },
    /// These blocks of 64 KiB are in the object, complete, and no longer borrowed.
    Own {
        /// The file.
        node: NodeId,
        /// The first block.
        first: u64,
        /// The first block behind them.
        end: u64,
    },
    /// Nothing at or behind `limit` is borrowed any more.
    Cut {
        /// The file.
        node: NodeId,
        /// In bytes.
        limit: u64,
    },
    /// chmod(2).
    Permissions {
        /// The inode.
        node: NodeId,
        /// All of `07777`.
        permissions: u16,
    },
    /// chown(2).
    Owner {
        /// The inode.
        node: NodeId,
        /// Owner.
        uid: u32,
        /// Group.
        gid: u32,
    },
    /// utimensat(2); `None` leaves a time alone.
    Times {
        /// The inode.
        node: NodeId,
        /// Last access.
        accessed: Option<Timestamp>,
        /// Last modification.
        modified: Option<Timestamp>,
    },
    /// setxattr(2), or removexattr(2) where the value is `None`.
    Xattr {
        /// The inode.
        node: NodeId,
        /// The attribute's full name.
        name: OsString,
        /// Its value.
        value: Option<Vec<u8>>,
    },
    /// What follows in the same operation is this mark's, and may be taken back, but for what adopts inodes. An operation
    /// without this record is nobody's.
    By(MarkId),
    /// What these marks have changed stays.
    Settle(Vec<MarkId>),
    /// What these marks have changed is as it was before.
    TakeBack(Vec<MarkId>),
    /// Everything so far was committed: the real tree is what the view shows, and the map begins
    /// anew. The `Create` records that follow in the same operation bring back what has no name and
    /// a process still holds.
    Rebase,
}

impl Operation {
    /// The payload of the frame that holds this operation.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.time(self.time);
        for record in &self.records {
            record.encode(&mut writer);
        }
        writer.bytes
    }

    /// The operation in a frame's payload.
    ///
    /// # Errors
    /// [`Malformed`] when the payload is no operation of this version.
    pub fn decode(payload: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(payload);
        let time = reader.time()?;
        let mut records = Vec::new();
        while !reader.is_empty() {
            records.push(Record::decode(&mut reader)?);
        }
        Ok(Self { time, records })
    }
}

impl Record {
    /// The inode that it changes first of all; `None` for one that changes none.
    pub(crate) fn node(&self) -> Option<NodeId> {
        match self {
            Self::Adopt { node, .. }
            | Self::Create { node, .. }
            | Self::Content { node, .. }
            | Self::Borrow { node, .. }
            | Self::Own { node, .. }
            | Self::Cut { node, .. }
            | Self::Permissions { node, .. }
            | Self::Owner { node, .. }
            | Self::Times { node, .. }
            | Self::Xattr { node, .. } => Some(*node),
            Self::Bind { directory, .. } | Self::Unbind { directory, .. } => Some(*directory),
            Self::By(_) | Self::Settle(_) | Self::TakeBack(_) | Self::Rebase => None,
        }
    }

    fn encode(&self, writer: &mut Writer) {
        match self {
            Self::Adopt {
                node,
                parent,
                name,
                identity,
                links,
                permissions,
                uid,
                gid,
                special,
            } => {
                writer.u8(1).u64(node.0).u64(parent.0).name(name);
                writer.identity(identity).u32(*links).u16(*permissions);
                writer.u32(*uid).u32(*gid).u64(*special);
            }
            Self::Create {
                node,
                device,
                kind,
                permissions,
                uid,
                gid,
                special,
                object,
                target,
            } => {
                writer.u8(2).u64(node.0).u64(*device).u8(*kind as u8);
                writer.u16(*permissions).u32(*uid).u32(*gid).u64(*special);
                writer.optional(object.as_ref(), |writer, object| {
                    writer.u64(object.0);
                });
                writer.name(target);
            }
            Self::Bind {
                directory,
                name,
                node,
                lower,
            } => {
                writer.u8(3).u64(directory.0).name(name).u64(node.0);
                writer.lower(lower.as_ref());
            }
            Self::Unbind {
                directory,
                name,
                lower,
            } => {
                writer.u8(4).u64(directory.0).name(name);
                writer.lower(lower.as_ref());
            }
            _ => self.encode_change(writer),
        }
    }

    fn encode_change(&self, writer: &mut Writer) {
        match self {
            Self::Content { node, object } => {
                writer.u8(5).u64(node.0).u64(object.0);
            }
            Self::Borrow {
                node,
                object,
                from,
                allocated,
                limit,
            } => {
                writer.u8(17).u64(node.0).u64(object.0);
                writer.identity(from).u64(*allocated).u64(*limit);
            }
            Self::Own { node, first, end } => {
                writer.u8(18).u64(node.0).u64(*first).u64(*end);
            }
            Self::Cut { node, limit } => {
                writer.u8(19).u64(node.0).u64(*limit);
            }
            Self::Permissions { node, permissions } => {
                writer.u8(6).u64(node.0).u16(*permissions);
            }
            Self::Owner { node, uid, gid } => {
                writer.u8(7).u64(node.0).u32(*uid).u32(*gid);
            }
            Self::Times {
                node,
                accessed,
                modified,
            } => {
                writer.u8(8).u64(node.0);
                for time in [accessed, modified] {
                    writer.optional(time.as_ref(), |writer, time| {
                        writer.time(*time);
                    });
                }
            }
            Self::Xattr { node, name, value } => {
                writer.u8(9).u64(node.0).name(name);
                writer.optional(value.as_ref(), |writer, value| {
                    writer.run(value);
                });
            }
            Self::By(mark) => {
                writer.u8(13).u64(mark.0);
            }
            Self::Settle(marks) => {
                writer.u8(15).marks(marks);
            }
            Self::TakeBack(marks) => {
                writer.u8(20).marks(marks);
            }
            Self::Rebase => {
                writer.u8(16);
            }
            Self::Adopt { .. } | Self::Create { .. } | Self::Bind { .. } | Self::Unbind { .. } => {
                unreachable!("encoded by the caller")
            }
        }
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(match reader.u8()? {
            1 => Self::Adopt {
                node: NodeId(reader.u64()?),
                parent: NodeId(reader.u64()?),
                name: reader.name()?,
                identity: reader.identity()?,
                links: reader.u32()?,
                permissions: reader.u16()?,
                uid: reader.u32()?,
                gid: reader.u32()?,
                special: reader.u64()?,
            },
            2 => Self::Create {
                node: NodeId(reader.u64()?),
                device: reader.u64()?,
                kind: reader.kind()?,
                permissions: reader.u16()?,
                uid: reader.u32()?,
                gid: reader.u32()?,
                special: reader.u64()?,
                object: reader.optional(|reader| reader.u64().map(ObjectId))?,
                target: reader.name()?,
            },
            3 => Self::Bind {
                directory: NodeId(reader.u64()?),
                name: reader.name()?,
                node: NodeId(reader.u64()?),
                lower: reader.optional(Reader::identity)?,
            },
            4 => Self::Unbind {
                directory: NodeId(reader.u64()?),
                name: reader.name()?,
                lower: reader.optional(Reader::identity)?,
            },
            tag => Self::decode_change(tag, reader)?,
        })
    }

    fn decode_change(tag: u8, reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(match tag {
            5 => Self::Content {
                node: NodeId(reader.u64()?),
                object: ObjectId(reader.u64()?),
            },
            6 => Self::Permissions {
                node: NodeId(reader.u64()?),
                permissions: reader.u16()?,
            },
            7 => Self::Owner {
                node: NodeId(reader.u64()?),
                uid: reader.u32()?,
                gid: reader.u32()?,
            },
            8 => Self::Times {
                node: NodeId(reader.u64()?),
                accessed: reader.optional(Reader::time)?,
                modified: reader.optional(Reader::time)?,
            },
            9 => Self::Xattr {
                node: NodeId(reader.u64()?),
                name: reader.name()?,
                value: reader.optional(Reader::run)?,
            },
            13 => Self::By(MarkId(reader.u64()?)),
            15 => Self::Settle(reader.marks()?),
            16 => Self::Rebase,
            17 => Self::Borrow {
                node: NodeId(reader.u64()?),
                object: ObjectId(reader.u64()?),
                from: reader.identity()?,
                allocated: reader.u64()?,
                limit: reader.u64()?,
            },
            18 => Self::Own {
                node: NodeId(reader.u64()?),
                first: reader.u64()?,
                end: reader.u64()?,
            },
            19 => Self::Cut {
                node: NodeId(reader.u64()?),
                limit: reader.u64()?,
            },
            20 => Self::TakeBack(reader.marks()?),
            _ => return Err(Malformed),
        })
    }
}
