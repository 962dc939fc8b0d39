//! Which old file becomes which new one, as a patch sees it: by path alone.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

use surmise_changes::Change;
use surmise_view::{FileKind, NodeId};

use super::side::{Reader, Source};
use super::{LeftOut, LeftOutReason};
use crate::diff::Diff;

/// One end of a pair.
#[derive(Debug, Clone)]
pub(super) struct End {
    /// Relative to the base.
    pub(super) path: PathBuf,
    pub(super) source: Source,
}

/// An old file, the new one in its place, or both.
#[derive(Debug, Clone, Default)]
pub(super) struct Pair {
    pub(super) old: Option<End>,
    pub(super) new: Option<End>,
}

/// Every path that holds another file afterwards, in the order of the changes.
#[derive(Default)]
struct Paths {
    order: Vec<PathBuf>,
    old: HashMap<PathBuf, Source>,
    new: HashMap<PathBuf, Source>,
    /// Where the file at a new path was before.
    from: HashMap<PathBuf, PathBuf>,
}

pub(super) fn pairs(
    reader: &Reader<'_>,
    diff: &Diff,
    base: &Path,
) -> io::Result<(Vec<Pair>, Vec<LeftOut>)> {
    let mut paths = Paths::default();
    for change in diff.changes() {
        if let Some(replaced) = &change.replaces {
            paths.add_if_file(reader, replaced)?;
        }
        match (change.is_directory, &change.from) {
            (true, Some(from)) => paths.add_tree(reader, from, &change.path)?,
            _ => paths.add_change(reader, change)?,
        }
    }
    Ok(paths.into_pairs(base))
}

impl Paths {
    fn add_change(&mut self, reader: &Reader<'_>, change: &Change) -> io::Result<()> {
        if let Some(old) = &change.old {
            self.add_if_file(reader, old)?;
        }
        let (Some(node), false) = (change.node, change.is_directory) else {
            return Ok(());
        };
        let data = real_path(reader, node);
        self.add_new(&change.path, Source::Node(node, data.unwrap_or_default()));
        if let Some(old) = change.old.as_ref().filter(|old| **old != change.path) {
            self.from.insert(change.path.clone(), old.clone());
        }
        Ok(())
    }

    /// Everything that a renamed directory still holds under its old names.
    fn add_tree(&mut self, reader: &Reader<'_>, from: &Path, to: &Path) -> io::Result<()> {
        let key = reader.look(from)?.map(|(_, key)| key);
        let node = key.and_then(|key| reader.map.adopted(key));
        let node = node.and_then(|node| reader.map.node(node));
        for name in reader.names(from)? {
            let (old, new) = (from.join(&name), to.join(&name));
            let Some((kind, key)) = reader.look(&old)? else {
                continue;
            };
            let child = reader.map.adopted(key);
            let binding = node.and_then(|node| node.entries.get(&name));
            if binding.is_some_and(|binding| binding.target.is_none() || binding.target != child) {
                continue;
            }
            if kind == FileKind::Directory {
                self.add_tree(reader, &old, &new)?;
                continue;
            }
            self.add_old(&old);
            let source = match child {
                Some(child) => Source::Node(child, old.clone()),
                None => Source::Real(old.clone()),
            };
            self.add_new(&new, source);
            self.from.insert(new, old);
        }
        Ok(())
    }

    fn add_if_file(&mut self, reader: &Reader<'_>, path: &Path) -> io::Result<()> {
        if matches!(reader.look(path)?, Some((kind, _)) if kind != FileKind::Directory) {
            self.add_old(path);
        }
        Ok(())
    }

    fn add_old(&mut self, path: &Path) {
        self.order.push(path.to_owned());
        self.old
            .insert(path.to_owned(), Source::Real(path.to_owned()));
    }

    fn add_new(&mut self, path: &Path, source: Source) {
        self.order.push(path.to_owned());
        self.new.insert(path.to_owned(), source);
    }

    fn into_pairs(mut self, base: &Path) -> (Vec<Pair>, Vec<LeftOut>) {
        let mut left_out = Vec::new();
        let mut seen = std::collections::HashSet::new();
        self.order.retain(|path| seen.insert(path.clone()));
        for path in &self.order {
            if !path.starts_with(base) {
                self.old.remove(path);
                self.new.remove(path);
                left_out.push(LeftOut {
                    path: path.clone(),
                    reason: LeftOutReason::Outside,
                });
            }
        }
        let end = |path: &Path, source: Source| End {
            path: path.strip_prefix(base).unwrap_or(path).to_owned(),
            source,
        };
        let mut pairs = Vec::new();
        for path in &self.order {
            let Some(new) = self.new.get(path) else {
                continue;
            };
            let new = Some(end(path, new.clone()));
            // A rename takes a file from a path that holds nothing afterwards; all else is a change
            // of what a path holds.
            let from = match self.from.get(path) {
                _ if self.old.contains_key(path) => path,
                Some(from) if !self.new.contains_key(from) => from,
                _ => path,
            };
            let old = self.old.remove(from).map(|source| end(from, source));
            pairs.push(Pair { old, new });
        }
        for path in &self.order {
            if let Some(source) = self.old.remove(path) {
                let old = Some(end(path, source));
                pairs.push(Pair { old, new: None });
            }
        }
        (pairs, left_out)
    }
}

/// Where an adopted node's own data are.
fn real_path(reader: &Reader<'_>, node: NodeId) -> Option<PathBuf> {
    let mut names = Vec::new();
    let mut at = node;
    while at != NodeId::ROOT {
        let origin = reader.map.node(at)?.origin.as_ref()?;
        names.push(origin.name.clone());
        at = origin.parent;
    }
    let mut path = PathBuf::from("/");
    path.extend(names.iter().rev().map(|name| &**name));
    Some(path)
}
