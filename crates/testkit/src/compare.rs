//! What differs between two trees, in words.

use std::fmt::Debug;

use crate::Facets;
use crate::snapshot::{Entry, Kind, TreeSnapshot};

/// Fails the test with one line a difference unless the trees agree in `facets`.
#[track_caller]
pub fn assert_same_tree(before: &TreeSnapshot, after: &TreeSnapshot, facets: Facets) {
    let lines = differences(before, after, facets);
    assert!(
        lines.is_empty(),
        "the trees differ in {} places:\n  {}",
        lines.len(),
        lines.join("\n  ")
    );
}

/// One line for each difference between two trees, in order of the paths; none where they agree in
/// `facets`.
pub fn differences(before: &TreeSnapshot, after: &TreeSnapshot, facets: Facets) -> Vec<String> {
    let (before, after) = (before.entries(), after.entries());
    let mut paths: Vec<_> = before.keys().chain(after.keys()).collect();
    paths.sort();
    paths.dedup();
    let mut lines = Vec::new();
    for path in paths {
        let name = if path.as_os_str().is_empty() {
            ".".into()
        } else {
            path.display().to_string()
        };
        match (before.get(path), after.get(path)) {
            (Some(old), Some(new)) => {
                let facts = facts(old, new, facets);
                if !facts.is_empty() {
                    lines.push(format!("{name}: {}", facts.join(", ")));
                }
            }
            (Some(old), None) => lines.push(format!("{name}: missing ({})", describe(&old.kind))),
            (None, new) => {
                let kind = new.map_or_else(String::new, |new| describe(&new.kind));
                lines.push(format!("{name}: new ({kind})"));
            }
        }
    }
    lines
}

fn facts(old: &Entry, new: &Entry, facets: Facets) -> Vec<String> {
    let mut facts = Vec::new();
    if old.kind != new.kind {
        facts.push(format!(
            "{} became {}",
            describe(&old.kind),
            describe(&new.kind)
        ));
    }
    if facets.mode && old.mode != new.mode {
        facts.push(format!("mode {:04o} became {:04o}", old.mode, new.mode));
    }
    if facets.owner {
        changed(
            &mut facts,
            "owner",
            &(old.uid, old.gid),
            &(new.uid, new.gid),
        );
    }
    if facets.mtime {
        changed(&mut facts, "mtime_ns", &old.mtime_ns, &new.mtime_ns);
    }
    if facets.ctime {
        changed(&mut facts, "ctime_ns", &old.ctime_ns, &new.ctime_ns);
    }
    if facets.inode {
        changed(&mut facts, "inode", &old.inode, &new.inode);
    }
    if facets.links {
        changed(&mut facts, "links", &old.links, &new.links);
        changed(&mut facts, "first name", &old.first_name, &new.first_name);
    }
    if facets.xattrs {
        changed(&mut facts, "xattrs", &old.xattrs, &new.xattrs);
    }
    facts
}

fn changed<T: PartialEq + Debug>(facts: &mut Vec<String>, what: &str, old: &T, new: &T) {
    if old != new {
        facts.push(format!("{what} {old:?} became {new:?}"));
    }
}

fn describe(kind: &Kind) -> String {
    match kind {
        Kind::File { size, hash } => format!("file of {size} bytes, contents {hash:016x}"),
        Kind::Directory => "directory".into(),
        Kind::Symlink(target) => format!("link to {}", target.display()),
        Kind::Fifo => "pipe".into(),
        Kind::Socket => "socket".into(),
        Kind::Device(number) => format!("device {number:#x}"),
    }
}
