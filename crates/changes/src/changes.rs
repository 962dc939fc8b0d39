//! What a domain changed, as a list.

use std::path::{Path, PathBuf};

use surmise_view::{FileKind, Map, Node, NodeId};

use crate::names::{Entry, Names};

/// What happened to a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChangeKind {
    /// It is new.
    Added,
    /// Data, mode, owner, times or extended attributes changed, or another file of the same kind
    /// took the name.
    Modified,
    /// It is gone.
    Deleted,
    /// It is the new name of something that had another.
    Renamed,
    /// Something of another kind took the name.
    TypeChanged,
}

/// One change of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// What happened.
    pub kind: ChangeKind,
    /// The absolute path in the view; of deleted names, where they were.
    pub path: PathBuf,
    /// The old path, for renamed names: where it really still is.
    pub from: Option<PathBuf>,
    /// Whether it is a directory, or was one if deleted.
    pub is_directory: bool,
    /// What the name leads to, unless deleted.
    pub node: Option<NodeId>,
    /// The real path that held the old state, unless added.
    pub old: Option<PathBuf>,
    /// The real path under which a renamed name takes the place of something.
    pub replaces: Option<PathBuf>,
}

/// Everything that a domain changed, in the order in which it first happened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    list: Vec<Change>,
}

impl ChangeKind {
    /// The letter that stands for it.
    pub fn letter(self) -> char {
        match self {
            Self::Added => 'A',
            Self::Modified => 'M',
            Self::Deleted => 'D',
            Self::Renamed => 'R',
            Self::TypeChanged => 'T',
        }
    }
}

impl Changes {
    /// The changes in a map. Reads nothing else, so it costs time and memory in proportion to what
    /// changed.
    pub fn of(map: &Map) -> Self {
        let names = Names::of(map);
        let mut list: Vec<(u64, Change)> = Vec::new();
        for entry in names.changed() {
            if let Some(change) = named(&names, &entry) {
                let first = names.moved_from(&entry).unwrap_or(entry);
                list.push((first.binding.since, change));
            }
        }
        for (id, node) in map.nodes() {
            if let (Some(since), Some(change)) = (node.since, modified(&names, id, node)) {
                list.push((since, change));
            }
        }
        list.sort_by(|(a_since, a), (b_since, b)| (a_since, &a.path).cmp(&(b_since, &b.path)));
        Self {
            list: list.into_iter().map(|(_, change)| change).collect(),
        }
    }

    /// In order.
    pub fn iter(&self) -> std::slice::Iter<'_, Change> {
        self.list.iter()
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether nothing changed.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

impl Change {
    /// Whether it is at or below one of `paths` (absolute), before or after.
    pub fn is_below(&self, paths: &[PathBuf]) -> bool {
        let within = |path: &Path| paths.iter().any(|filter| path.starts_with(filter));
        within(&self.path) || self.from.as_deref().is_some_and(within)
    }
}

impl IntoIterator for Changes {
    type Item = Change;
    type IntoIter = std::vec::IntoIter<Change>;

    fn into_iter(self) -> Self::IntoIter {
        self.list.into_iter()
    }
}

impl<'a> IntoIterator for &'a Changes {
    type Item = &'a Change;
    type IntoIter = std::slice::Iter<'a, Change>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// The change that a changed name is; `None` for the old name of a move, which its new name tells.
fn named(names: &Names<'_>, entry: &Entry<'_>) -> Option<Change> {
    let path = names.path_of((entry.directory, entry.name))?;
    let real = || Some(names.real_path(entry.directory)?.join(entry.name));
    let old_kind = entry.lower.map(|lower| lower.kind);
    let Some(target) = entry.binding.target else {
        if names.moved_to(entry).is_some() {
            return None;
        }
        return Some(Change {
            kind: ChangeKind::Deleted,
            path,
            from: None,
            is_directory: old_kind == Some(FileKind::Directory),
            node: None,
            old: real(),
            replaces: None,
        });
    };
    if !names.is_live(entry.directory) {
        return None;
    }
    let new_kind = names.map().node(target)?.kind;
    let source = names.moved_from(entry);
    let (kind, old) = match (source, old_kind) {
        (Some(lost), _) => (
            ChangeKind::Renamed,
            Some(names.real_path(lost.directory)?.join(lost.name)),
        ),
        (None, None) => (ChangeKind::Added, None),
        (None, Some(old)) if old == new_kind => (ChangeKind::Modified, real()),
        (None, Some(_)) => (ChangeKind::TypeChanged, real()),
    };
    Some(Change {
        kind,
        path,
        from: source.and(old.clone()),
        is_directory: new_kind == FileKind::Directory,
        node: Some(target),
        old,
        replaces: old_kind.and_then(|_| real()),
    })
}

/// The change that a changed real inode is, under a name that leads to it, or where none is known
/// any more (another hard link keeps it), under the one it was found by.
fn modified(names: &Names<'_>, id: NodeId, node: &Node) -> Option<Change> {
    let (parent, name) = names.origin(id)?;
    if !is_changed_through_inode(node) || !names.is_reachable(id, node) {
        return None;
    }
    let bound = names.bound(id).iter().rev();
    let bound = bound.map(|entry| (entry.directory, entry.name)).next();
    let place = match bound {
        Some(place) if !names.keeps_origin(id) => place,
        _ => (parent, name),
    };
    Some(Change {
        kind: ChangeKind::Modified,
        path: if id == NodeId::ROOT {
            PathBuf::from("/")
        } else {
            names.path_of(place)?
        },
        from: None,
        is_directory: node.kind == FileKind::Directory,
        node: Some(id),
        old: Some(names.real_path(parent)?.join(name)),
        replaces: None,
    })
}

/// Whether the inode itself changed in a way worth a line. The times of a directory are not: they
/// follow its names.
fn is_changed_through_inode(node: &Node) -> bool {
    match node.kind {
        FileKind::Directory => {
            node.since.is_some()
                && (node.owns_permissions || node.owns_owner || !node.xattrs.is_empty())
        }
        _ => node.is_modified(),
    }
}
