//! Lost changes as people see them.

use super::names::Names;
use crate::lost::LostChanges;
use crate::object::ObjectId;
use crate::operation::{Change, NewKind};

/// A change, or several of the same kind that follow each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// What is done.
    pub what: &'static str,
    /// To what: a path with slashes.
    pub path: Vec<u8>,
    /// The other name, or where a link leads.
    pub to: Option<Vec<u8>>,
    /// Where the first byte goes, and how many there are; the new size of a file that is cut is the first of them.
    pub bytes: Option<(u64, u64)>,
}

/// A line for each change, with the paths that objects have then. Writes that follow each other are one.
pub fn lines(root: ObjectId, lost: &LostChanges) -> Vec<Line> {
    let mut names = Names::new(root, &lost.places);
    let mut lines: Vec<Line> = Vec::new();
    for undecided in &lost.changes {
        let change = &undecided.operation.change;
        let line = line(&names, change);
        names.change(undecided, None);
        if let (Some(before), Change::Write { .. }) = (lines.last_mut(), change)
            && (before.what, &before.path) == (line.what, &line.path)
            && let (Some(bytes), Some((offset, more))) = (&mut before.bytes, line.bytes)
            && bytes.0.checked_add(bytes.1) == Some(offset)
        {
            bytes.1 += more;
            continue;
        }
        lines.push(line);
    }
    lines
}

fn line(names: &Names, change: &Change) -> Line {
    let path = match change {
        Change::Create { place, .. } | Change::Remove { place, .. } => names.shown_at(place),
        Change::Rename { from, .. } => names.shown_at(from),
        Change::Link { object, .. }
        | Change::SetAttributes { object, .. }
        | Change::Resize { object, .. }
        | Change::Write { object, .. }
        | Change::SetExtended { object, .. } => names.shown(*object),
    };
    let to = match change {
        Change::Link { place, .. } => Some(names.shown_at(place)),
        Change::Rename { to, .. } => Some(names.shown_at(to)),
        Change::Create { new, .. } => match &new.kind {
            NewKind::Symlink(target) => Some(target.clone()),
            _ => None,
        },
        Change::SetExtended { name, .. } => Some(name.as_bytes().to_vec()),
        _ => None,
    };
    let bytes = match change {
        Change::Write { offset, data, .. } => Some((*offset, data.len() as u64)),
        Change::Resize { size, .. } => Some((*size, 0)),
        _ => None,
    };
    Line {
        what: verb(change),
        path,
        to,
        bytes,
    }
}

/// What a change does.
pub(super) fn verb(change: &Change) -> &'static str {
    match change {
        Change::Create { new, .. } => match new.kind {
            NewKind::Directory => "make directory",
            NewKind::Symlink(_) => "make link",
            NewKind::Regular => "make file",
            _ => "make",
        },
        Change::Link { .. } => "link",
        Change::Remove {
            directory: true, ..
        } => "remove directory",
        Change::Remove { .. } => "remove",
        Change::Rename { exchange: true, .. } => "exchange",
        Change::Rename { .. } => "rename",
        Change::SetAttributes { .. } => "set attributes",
        Change::Resize { .. } => "resize",
        Change::Write { .. } => "write",
        Change::SetExtended { .. } => "set attribute",
    }
}
