//! Which undecided changes a call would meet: the marks that have a layer in a cell that the call sees or builds on.
//!
//! A call meets a name where the name is on its way, be it that an undecided change has made the name, or has removed it. Of
//! an inode it meets all layers if it looks at attributes or data, or changes them. If it only passes a directory, or gives a
//! name there, it meets the layers that are alone: the others commute with what it does.
//!
//! The cells themselves are told, too, by numbers that stay the same while the view runs. So the caller of this module can tell
//! which calls, of those under way, touch the same.
//!
//! The supervisor has the public types here, too, with the same meanings (`surmise_supervisor::Look` and those beside it). Neither
//! crate knows the other: `launch` maps one to the other.

use std::collections::{BTreeSet, HashSet};
use std::ffi::OsStr;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Component, Path, PathBuf};

use rustix::io::Errno;

use super::View;
use super::core::Core;
use super::programs::{Interpreter, interpreter};
use crate::map::Layers;
use crate::types::{FileKind, MarkId, NodeId};

/// As many links as the kernel follows (path_resolution(7)).
const LINKS_MAX: usize = 40;
/// As many interpreters of interpreters as the kernel tries, and one more.
const INTERPRETERS_MAX: usize = 6;

/// One thing that a call touches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Look {
    /// What it is.
    pub target: Target,
    /// What the call does there.
    pub manner: Manner,
}

/// What a call touches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// What a path leads to.
    Path {
        /// Where a relative path begins: an absolute path without links.
        base: PathBuf,
        /// The path.
        path: PathBuf,
        /// Whether a link at its end is followed.
        follows: bool,
    },
    /// An inode, by the number that it shows.
    Inode(u64),
}

/// How a call touches something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// It sees what changes in an order: data, rights, that it is there.
    Passes,
    /// It sees all attributes.
    Looks,
    /// It gives or takes a name of the inode, elsewhere.
    Links,
    /// It opens a file, and sees no attributes of it yet.
    Opens {
        /// Whether it makes the file where there is none.
        creates: bool,
        /// Whether it changes the file.
        changes: bool,
    },
    /// It sees all names in a directory.
    Lists,
    /// It changes attributes or data.
    Changes,
    /// It gives, takes away or replaces the name at the end of the path.
    Binds,
    /// It executes a program, with its interpreters.
    Executes,
}

/// What a call does to one cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// It sees what does not commute.
    Passes,
    /// It changes what commutes.
    Commutes,
    /// It sees all.
    Looks,
    /// It changes what does not commute.
    Changes,
}

/// What calls touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Touches {
    /// The marks that they meet.
    pub marks: BTreeSet<MarkId>,
    /// The cells, each by a number.
    pub cells: Vec<(u64, Share)>,
    /// Whether they may touch more than that.
    pub in_doubt: bool,
    /// What each look leads to, in the order of the looks.
    pub ends: Vec<End>,
}

/// What a path leads to. A link at its end that is not followed is what it leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Nobody knows, or it is no path.
    Unknown,
    /// No name; or the kernel goes no further.
    Nothing,
    /// A directory.
    Directory,
    /// A regular file.
    File,
    /// A symbolic link.
    Link,
    /// A FIFO, a socket or a device node.
    Other,
}

impl View {
    /// What a call touches. `elsewhere`: places that the caller of the call finds something else mounted at.
    ///
    /// # Errors
    /// What reading the lower side failed with.
    pub fn touches(&self, looks: &[Look], elsewhere: &HashSet<PathBuf>) -> io::Result<Touches> {
        let mut walk = Walk {
            view: self,
            elsewhere,
            held: Vec::new(),
            touched: Touches::default(),
        };
        let mut done = Ok(());
        for look in looks {
            let end = done.and_then(|()| walk.look(look, 0));
            done = end.map(|end| walk.touched.ends.push(end));
        }
        let Walk { held, touched, .. } = walk;
        for node in held {
            self.forget(node, 1);
        }
        done.map(|()| touched)
    }
}

struct Walk<'a> {
    view: &'a View,
    elsewhere: &'a HashSet<PathBuf>,
    /// What was looked up, and stays as long as nobody forgets it.
    held: Vec<NodeId>,
    touched: Touches,
}

/// Where a path leads.
enum Lead {
    /// There, and that place without links.
    To(At, PathBuf),
    Nowhere,
    /// Out of the view.
    Elsewhere,
}

/// A node on the way.
#[derive(Clone, Copy)]
struct At {
    node: NodeId,
    kind: FileKind,
    number: u64,
}

impl Walk<'_> {
    fn look(&mut self, look: &Look, depth: usize) -> io::Result<End> {
        let (base, path, follows) = match &look.target {
            Target::Path {
                base,
                path,
                follows,
            } => (base, path, *follows),
            Target::Inode(number) => {
                self.inode(*number, look.manner);
                return Ok(End::Unknown);
            }
        };
        match self.follow((base, path), follows, look.manner)? {
            Lead::Elsewhere => {
                self.touched.in_doubt = true;
                Ok(End::Unknown)
            }
            Lead::Nowhere => Ok(End::Nothing),
            Lead::To(at, place) => {
                self.end((at, &place), look.manner, depth)?;
                Ok(at.kind.into())
            }
        }
    }

    fn follow(
        &mut self,
        (base, path): (&Path, &Path),
        follows: bool,
        manner: Manner,
    ) -> io::Result<Lead> {
        let root = self.view.attributes(NodeId::ROOT)?;
        let root = At {
            node: NodeId::ROOT,
            kind: FileKind::Directory,
            number: root.inode,
        };
        let (mut way, mut place) = (vec![root], PathBuf::from("/"));
        let mut links = 0;
        let mut rest = base.join(path);
        'link: loop {
            let whole = std::mem::take(&mut rest);
            let mut parts = whole.components();
            while let Some(part) = parts.next() {
                let name = match part {
                    Component::RootDir => {
                        way.truncate(1);
                        place = PathBuf::from("/");
                        continue;
                    }
                    Component::ParentDir => {
                        // Who may not search the directory may not leave it this way.
                        let left = way[way.len() - 1];
                        if left.kind != FileKind::Directory {
                            return Ok(Lead::Nowhere);
                        }
                        self.node(left, Share::Passes);
                        way.truncate((way.len() - 1).max(1));
                        place.pop();
                        continue;
                    }
                    Component::CurDir | Component::Prefix(_) => continue,
                    Component::Normal(name) => name,
                };
                let is_last = parts.as_path().as_os_str().is_empty();
                let parent = way[way.len() - 1];
                place.push(name);
                if self.elsewhere.contains(&place) {
                    return Ok(Lead::Elsewhere);
                }
                let manner = is_last.then_some(manner);
                let Some(found) = self.name(parent, name, manner)? else {
                    return Ok(Lead::Nowhere);
                };
                if found.kind == FileKind::Symlink && (!is_last || follows) {
                    self.node(found, Share::Passes);
                    links += 1;
                    if links > LINKS_MAX {
                        return Ok(Lead::Nowhere);
                    }
                    let target = self
                        .view
                        .decide(|core, facts| core.target(facts, found.node))?;
                    place.pop();
                    rest = Path::new(&target).join(parts.as_path());
                    continue 'link;
                }
                way.push(found);
            }
            return Ok(Lead::To(way[way.len() - 1], place));
        }
    }

    /// A name in a directory, and what it leads to. `manner`: of the last name of a path.
    fn name(&mut self, parent: At, name: &OsStr, manner: Option<Manner>) -> io::Result<Option<At>> {
        if parent.kind != FileKind::Directory {
            return Ok(None);
        }
        let found = match self.view.lookup(parent.node, name) {
            Err(error) if is_nothing(&error) => None,
            found => found?.ok(),
        };
        let binds = match manner {
            Some(Manner::Binds) => true,
            Some(Manner::Opens { creates, .. }) => creates && found.is_none(),
            _ => false,
        };
        let (share, above) = match binds {
            true => (Share::Changes, Share::Commutes),
            false => (Share::Looks, Share::Passes),
        };
        self.node(parent, above);
        self.touched.cells.push((cell(parent.number, name), share));
        let core = self.view.locked();
        core.map
            .marks_of_name(parent.node, name, &mut self.touched.marks);
        drop(core);
        Ok(found.map(|entry| {
            self.held.push(entry.node);
            At {
                node: entry.node,
                kind: entry.attributes.identity.kind,
                number: entry.inode,
            }
        }))
    }

    /// What a call does to what its path leads to.
    fn end(&mut self, (at, place): (At, &Path), manner: Manner, depth: usize) -> io::Result<()> {
        let is_directory = at.kind == FileKind::Directory;
        match manner {
            Manner::Passes => self.node(at, Share::Passes),
            Manner::Opens { changes, .. } if is_directory || !changes => {
                self.node(at, Share::Passes);
            }
            Manner::Looks => self.node(at, Share::Looks),
            Manner::Links => self.node(at, Share::Commutes),
            Manner::Changes | Manner::Opens { .. } => self.node(at, Share::Changes),
            // Whether it may go depends on whether it is empty. Each mark that has changed a name in it has a layer of the
            // directory, too.
            Manner::Binds if is_directory => self.node(at, Share::Changes),
            Manner::Binds => self.node(at, Share::Commutes),
            Manner::Lists => self.node(at, Share::Looks),
            Manner::Executes => {
                self.node(at, Share::Looks);
                return self.execute(at, place, depth);
            }
        }
        Ok(())
    }

    /// A program has interpreters, which are executed, too.
    fn execute(&mut self, at: At, place: &Path, depth: usize) -> io::Result<()> {
        if at.kind != FileKind::Regular {
            return Ok(());
        }
        let read = |offset, buffer: &mut [u8]| self.view.read(at.node, offset, buffer);
        match interpreter(read) {
            Ok(Interpreter::None) => Ok(()),
            // A relative name begins where the caller works, which is not known here.
            Ok(Interpreter::At(path)) if path.is_absolute() && depth < INTERPRETERS_MAX => {
                let look = Look {
                    target: Target::Path {
                        base: place.to_owned(),
                        path,
                        follows: true,
                    },
                    manner: Manner::Executes,
                };
                self.look(&look, depth + 1).map(drop)
            }
            Ok(Interpreter::At(_) | Interpreter::Unknown) | Err(_) => {
                self.touched.in_doubt = true;
                Ok(())
            }
        }
    }

    fn node(&mut self, at: At, share: Share) {
        self.touched.cells.push((at.number, share));
        let core = self.view.locked();
        let marks = &mut self.touched.marks;
        core.map.marks_of_node(at.node, layers(share), marks);
        if layers(share) == Layers::All {
            core.undecided.marks_of_losses(|id| id == at.node, marks);
        }
    }

    /// What is open has no name here. Of all nodes only those matter that have layers.
    fn inode(&mut self, number: u64, manner: Manner) {
        let share = match manner {
            Manner::Passes | Manner::Opens { changes: false, .. } => Share::Passes,
            Manner::Looks | Manner::Lists => Share::Looks,
            Manner::Links => Share::Commutes,
            Manner::Changes | Manner::Opens { .. } => Share::Changes,
            // They need a name.
            Manner::Binds | Manner::Executes => {
                self.touched.in_doubt = true;
                Share::Changes
            }
        };
        self.touched.cells.push((number, share));
        let core = self.view.locked();
        let marks = &mut self.touched.marks;
        let is_meant = |id: NodeId| core.number(id) == Some(number);
        for id in core.map.undecided_nodes().filter(|id| is_meant(*id)) {
            core.map.marks_of_node(id, layers(share), marks);
        }
        if layers(share) == Layers::All {
            core.undecided.marks_of_losses(is_meant, marks);
        }
    }
}

impl From<FileKind> for End {
    fn from(kind: FileKind) -> Self {
        match kind {
            FileKind::Directory => Self::Directory,
            FileKind::Regular => Self::File,
            FileKind::Symlink => Self::Link,
            _ => Self::Other,
        }
    }
}

impl Core {
    /// The inode number that a node shows; `None` for one that the kernel does not know and that is not in the map.
    pub(super) fn number(&self, id: NodeId) -> Option<u64> {
        let Some(node) = self.map.node(id) else {
            let place = self.known.node(id)?.place.as_ref()?;
            return Some(self.showing.inode(place.key));
        };
        Some(match &node.origin {
            Some(origin) => self.showing.inode(origin.identity.key()),
            None => self.created_inode(id),
        })
    }
}

fn layers(share: Share) -> Layers {
    match share {
        Share::Passes | Share::Commutes => Layers::Alone,
        Share::Looks | Share::Changes => Layers::All,
    }
}

/// A number for a name in the directory of this number. Two names may have the same: then calls wait for each other that need
/// not.
fn cell(directory: u64, name: &OsStr) -> u64 {
    let mut hasher = DefaultHasher::new();
    (directory, name).hash(&mut hasher);
    hasher.finish()
}

fn is_nothing(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(errno, Some(Errno::NOENT | Errno::NOTDIR))
}
