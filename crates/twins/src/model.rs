//! A tree in memory, and a domain that changes what it sees of it: for tests of decisions, which need no
//! disk.

mod domain;
mod tree;

use proptest::prelude::*;
use surmise_view::FileKind;

pub use domain::Domain;
pub use tree::{Act, ROOT, Shape, Shown, Spot, Tree};

fn path() -> impl Strategy<Value = String> {
    let name = prop::sample::select(&["a", "b", "c", "d"][..]);
    prop::collection::vec(name, 1..4).prop_map(|parts| parts.join("/"))
}

/// Up to so many acts, of which some cannot be done.
pub fn acts(max: usize) -> impl Strategy<Value = Vec<Act>> {
    prop::collection::vec(act(), 0..max)
}

/// Any act, which may be one that cannot be done.
fn act() -> impl Strategy<Value = Act> {
    let kind = prop::sample::select(vec![FileKind::Regular, FileKind::Directory]);
    prop_oneof![
        2 => (path(), kind).prop_map(|(path, kind)| Act::Create(path, kind)),
        2 => path().prop_map(Act::Remove),
        4 => (path(), path()).prop_map(|(from, to)| Act::Rename(from, to)),
        1 => (path(), path()).prop_map(|(from, to)| Act::Link(from, to)),
        1 => (path(), 0..0o777u16).prop_map(|(path, permissions)| Act::Chmod(path, permissions)),
    ]
}
