//! A tree, and 200 changes of every kind.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use surmise_testkit::is_root;

use crate::harness::Act;

/// Files of each kind of change.
const FILES: usize = 16;
const DIRECTORIES: usize = 8;

pub fn plant(root: &Path) {
    for kind in [
        "edited", "cut", "replaced", "removed", "moved", "linked", "moded", "dated", "named",
    ] {
        fs::create_dir(root.join(kind)).unwrap();
        for number in 0..FILES {
            let text = format!("{kind} {number} ").repeat(40 * (number + 1));
            fs::write(root.join(format!("{kind}/{number}")), text).unwrap();
        }
    }
    for number in 0..DIRECTORIES {
        for kind in ["tree", "gone"] {
            let directory = root.join(format!("{kind}{number}/below"));
            fs::create_dir_all(&directory).unwrap();
            fs::write(directory.join("file"), "in a directory").unwrap();
        }
    }
    fs::hard_link(root.join("edited/0"), root.join("edited/link")).unwrap();
    symlink("edited/1", root.join("a-link")).unwrap();
    fs::create_dir(root.join("target")).unwrap();
}

fn write(path: String, at: usize, text: &str) -> Act {
    Act::Write(path, at as u64, text.into())
}

pub fn acts() -> Vec<Act> {
    let mut acts: Vec<Act> = (0..FILES).flat_map(of_files).collect();
    acts.extend((0..DIRECTORIES).flat_map(of_directories));
    acts.extend([
        Act::Exchange("edited/2".into(), "cut/2".into()),
        Act::Exchange("tree0".into(), "tree1".into()),
        Act::Rename("tree2".into(), "tree3/below/tree2".into()),
        Act::Unlink("a-link".into()),
        Act::Symlink("a-link".into(), "elsewhere".into()),
        Act::Unlink("edited/link".into()),
    ]);
    if is_root() {
        let null = rustix::fs::makedev(1, 3);
        acts.push(Act::Device("null".into(), null));
        acts.push(Act::Chown("moded/0".into(), 12, 34));
    }
    acts
}

fn of_files(number: usize) -> Vec<Act> {
    let at = |kind: &str| format!("{kind}/{number}");
    let new = format!("new{number}");
    vec![
        Act::Create(new.clone()),
        write(new.clone(), number * 5000, "new data"),
        Act::Link(new.clone(), format!("target/{new}")),
        Act::Symlink(format!("symlink{number}"), at("edited")),
        write(at("edited"), number * 3, "changed in its place"),
        Act::Truncate(at("cut"), 11 * number as u64),
        Act::Create(format!("replaced/{number}.new")),
        write(format!("replaced/{number}.new"), 0, "saved by replacement"),
        Act::Rename(format!("replaced/{number}.new"), at("replaced")),
        Act::Unlink(at("removed")),
        Act::Rename(at("moved"), format!("target/moved{number}")),
        Act::Link(at("linked"), format!("target/linked{number}")),
        Act::Chmod(at("moded"), 0o640),
        Act::SetModified(at("dated"), 1_000_000 + number as i64),
        Act::SetXattr(at("named"), "user.x".into(), Some(vec![7; 9])),
    ]
}

fn of_directories(number: usize) -> Vec<Act> {
    let made = format!("made{number}");
    vec![
        Act::MakeDirectory(made.clone()),
        Act::MakeDirectory(format!("{made}/inner")),
        Act::Create(format!("{made}/inner/file")),
        write(format!("{made}/inner/file"), 0, "in a new directory"),
        Act::Fifo(format!("{made}/fifo")),
        Act::Socket(format!("{made}/socket")),
        Act::Chmod(made.clone(), 0o2750),
        Act::Rename(
            format!("tree{number}/below/file"),
            format!("{made}/from-tree"),
        ),
        Act::Unlink(format!("gone{number}/below/file")),
        Act::RemoveDirectory(format!("gone{number}/below")),
        Act::RemoveDirectory(format!("gone{number}")),
    ]
}
