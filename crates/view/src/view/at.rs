//! What is at a place in the view, for those that the kernel does not look for.

use std::ffi::OsString;
use std::io;
use std::path::{Component, Path};

use rustix::io::Errno;

use super::View;
use crate::types::{FileKind, NodeId};

/// What is at a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum At {
    /// No name.
    Nothing,
    /// A directory.
    Directory,
    /// A regular file.
    File,
    /// A symbolic link, and where it leads.
    Link(OsString),
    /// A FIFO, a socket or a device node.
    Other,
}

impl View {
    /// What is at an absolute path. No link is followed, be it on the way or at the end.
    ///
    /// # Errors
    /// What reading the lower side failed with.
    pub fn at(&self, place: &Path) -> io::Result<At> {
        let mut held = Vec::new();
        let found = self.walk(place, &mut held);
        for node in held {
            self.forget(node, 1);
        }
        match found {
            Err(error) if is_nothing(&error) => Ok(At::Nothing),
            found => found,
        }
    }

    /// `held`: what was looked up, and stays as long as nobody forgets it.
    fn walk(&self, place: &Path, held: &mut Vec<NodeId>) -> io::Result<At> {
        let mut at = (NodeId::ROOT, FileKind::Directory);
        for part in place.components() {
            let Component::Normal(name) = part else {
                continue;
            };
            if at.1 != FileKind::Directory {
                return Ok(At::Nothing);
            }
            let Ok(entry) = self.lookup(at.0, name)? else {
                return Ok(At::Nothing);
            };
            held.push(entry.node);
            at = (entry.node, entry.attributes.identity.kind);
        }
        Ok(match at.1 {
            FileKind::Directory => At::Directory,
            FileKind::Regular => At::File,
            FileKind::Symlink => At::Link(self.read_link(at.0)?),
            _ => At::Other,
        })
    }
}

fn is_nothing(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(errno, Some(Errno::NOENT | Errno::NOTDIR))
}
