//! Others change what a client's changes are about, before these are made, at whatever moment the server ends: what
//! either has written is there afterwards.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use surmise_lower::Timestamp;
use surmise_remote::object::{Name, ObjectId, Prefix};
use surmise_remote::operation::{Change, NewKind, NewObject, Operation, Place};
use surmise_sys::fanotify::Listener;

use super::super::fault::tests::{allow, is_over};
use super::super::redo::Earlier;
use super::super::{Batch, Directory};
use super::open;

/// What one of them writes.
const CLIENT: &str = "of the client";
const OTHERS: &str = "of others";

/// What a shell does in the export first, what others do before the change of this number, and what the client does.
struct Scene {
    before: &'static str,
    others: &'static str,
    at: usize,
    changes: fn(&Path) -> Vec<Change>,
    /// Whether the client writes anything.
    writes: bool,
    /// Others may do so while no server runs.
    while_down: bool,
}

fn found(export: &Path, path: &str) -> ObjectId {
    let found = fs::symlink_metadata(export.join(path)).expect("it is there");
    ObjectId::found(found.ino()).expect("a number")
}

fn made(number: u32) -> ObjectId {
    ObjectId::made(Prefix(1), number).expect("small")
}

fn place(parent: ObjectId, name: &str) -> Place {
    let name = Name::try_from(name.as_bytes()).expect("a name");
    Place { parent, name }
}

fn create(place: Place, object: ObjectId, kind: NewKind) -> Change {
    let new = NewObject {
        kind,
        permissions: 0o755,
        owner: rustix::process::geteuid().as_raw(),
        group: rustix::process::getegid().as_raw(),
    };
    Change::Create { place, object, new }
}

fn write(object: ObjectId) -> Change {
    Change::Write {
        object,
        offset: 0,
        data: CLIENT.into(),
        strip: false,
    }
}

fn rename(from: Place, object: ObjectId, to: Place, replaced: Option<ObjectId>) -> Change {
    Change::Rename {
        from,
        object,
        to,
        replaced,
        exchange: false,
    }
}

fn remove(place: Place, object: ObjectId, directory: bool) -> Change {
    Change::Remove {
        place,
        object,
        directory,
    }
}

const SCENES: &[Scene] = &[
    // A file of the same name.
    Scene {
        before: "",
        others: "printf 'of others' > new",
        at: 0,
        changes: |export| {
            let root = found(export, "");
            let new = create(place(root, "new"), made(1), NewKind::Regular);
            vec![new, write(made(1))]
        },
        writes: true,
        while_down: true,
    },
    // Both have made a directory, and a file in it.
    Scene {
        before: "",
        others: "mkdir d && printf 'of others' > d/x",
        at: 0,
        changes: |export| {
            let root = found(export, "");
            let inside = create(place(made(1), "x"), made(2), NewKind::Regular);
            vec![
                create(place(root, "d"), made(1), NewKind::Directory),
                inside,
                write(made(2)),
            ]
        },
        writes: true,
        while_down: true,
    },
    // A client replaces a file that others have replaced.
    Scene {
        before: "echo old > file",
        others: "printf 'of others' > other && mv other file",
        at: 2,
        changes: |export| {
            let root = found(export, "");
            let tmp = || place(root, "tmp");
            let (to, replaced) = (place(root, "file"), Some(found(export, "file")));
            vec![
                create(tmp(), made(1), NewKind::Regular),
                write(made(1)),
                rename(tmp(), made(1), to, replaced),
            ]
        },
        writes: true,
        while_down: true,
    },
    // Both write to a file.
    Scene {
        before: "echo old > file",
        others: "printf 'of others' > file",
        at: 0,
        changes: |export| {
            let object = found(export, "file");
            let (size, strip) = (0, false);
            let cut = Change::Resize {
                object,
                size,
                strip,
            };
            vec![cut, write(object)]
        },
        writes: true,
        // What was being written when the server ended, it goes on with.
        while_down: false,
    },
    // The directory is gone, and the file.
    Scene {
        before: "mkdir d && echo old > d/file",
        others: "rm -r d && printf 'of others' > d",
        at: 0,
        changes: |export| {
            let (d, file) = (found(export, "d"), found(export, "d/file"));
            let new = create(place(d, "in"), made(1), NewKind::Directory);
            vec![
                new,
                create(place(made(1), "x"), made(2), NewKind::Regular),
                write(made(2)),
                write(file),
            ]
        },
        writes: true,
        while_down: true,
    },
    // What a client removes is another file by then, and a directory is not empty any more.
    Scene {
        before: "echo old > file && mkdir d",
        others: "printf 'of others' > other && mv other file && ln file d/x",
        at: 0,
        changes: |export| {
            let root = found(export, "");
            vec![
                remove(place(root, "file"), found(export, "file"), false),
                remove(place(root, "d"), found(export, "d"), true),
            ]
        },
        writes: false,
        while_down: true,
    },
    // What a client renames has another name by then, and what it exchanges is something else.
    Scene {
        before: "echo one > one && echo two > two && echo three > three",
        others: "mv one away && printf 'of others' > one && rm two",
        at: 0,
        changes: |export| {
            let root = found(export, "");
            let (one, two, three) = ("one", "two", "three");
            let at = |name| (place(root, name), found(export, name));
            let exchange = Change::Rename {
                from: at(two).0,
                object: at(two).1,
                to: at(three).0,
                replaced: Some(at(three).1),
                exchange: true,
            };
            vec![
                rename(at(one).0, at(one).1, place(root, "four"), None),
                exchange,
                Change::Link {
                    object: at(two).1,
                    place: place(root, "five"),
                },
            ]
        },
        writes: false,
        while_down: true,
    },
];

fn sh(export: &Path, script: &str) {
    let mut shell = Command::new("sh");
    let status = shell.args(["-ec", script]).current_dir(export).status();
    assert!(status.expect("start a shell").success(), "{script}");
}

/// Whether any file of the export, or what the server has kept, holds this.
fn holds(at: &Path, text: &str) -> bool {
    let mut entries = fs::read_dir(at)
        .expect("list")
        .map(|entry| entry.expect("an entry"));
    entries.any(|entry| match entry.file_type().expect("a kind") {
        kind if kind.is_dir() => holds(&entry.path(), text),
        kind if kind.is_file() => fs::read_to_string(entry.path()).is_ok_and(|all| all == text),
        _ => false,
    })
}

/// All that a client could have looked at.
fn load_all(directory: &mut Directory) {
    let mut left = vec![directory.root().expect("a root")];
    while let Some(id) = left.pop() {
        let loaded = directory.load(id).expect("load it");
        if let surmise_remote::object::Body::Names(Some(names)) = loaded.object.body {
            left.extend(names.into_values());
        }
    }
}

/// Ends after so many calls, and starts again; whether it came to its end before.
fn crash_after(scene: &Scene, calls: u64) -> Option<bool> {
    let scratch = tempfile::tempdir().expect("a directory");
    let export = scratch.path();
    sh(export, scene.before);
    let mut directory = open(export);
    directory.redo(&Earlier::default()).expect("nothing to do");
    let listener = Listener::new().ok()?;
    directory.listen(Some(Arc::new(listener)));
    load_all(&mut directory);
    let changes = (scene.changes)(export);
    let operations: Vec<_> = (1..)
        .zip(changes)
        .map(|(seconds, change)| Operation {
            at: Timestamp {
                seconds: seconds * 1000,
                nanoseconds: 1,
            },
            change,
        })
        .collect();
    let mut others_have_changed = false;
    allow(Some(calls));
    for (index, operation) in operations.iter().enumerate() {
        if index == scene.at {
            sh(export, scene.others);
            others_have_changed = true;
        }
        directory.take_changes();
        if directory
            .make_all(&mut Batch::new(vec![operation.clone()]))
            .is_err()
        {
            break;
        }
    }
    let settled = directory.settle();
    let ended = is_over();
    allow(None);
    assert!(ended || settled.is_ok(), "{settled:?}");
    drop(directory);
    if !others_have_changed && !scene.while_down {
        return Some(false);
    }
    go_on(scene, export, &operations, others_have_changed);
    let said = format!("{} and {calls} calls", scene.others);
    assert!(
        holds(export, OTHERS),
        "{said}: what others have written is lost"
    );
    assert!(
        !scene.writes || holds(export, CLIENT),
        "{said}: what the client has written is lost"
    );
    Some(!ended)
}

/// The next server, and one more; before these, others may have their turn.
fn go_on(scene: &Scene, export: &Path, operations: &[Operation], others_have_changed: bool) {
    // The log ends here.
    fs::write(export.join(".surmise/now"), "").expect("write");
    let now = fs::metadata(export.join(".surmise/now")).expect("look");
    let ended = Some((now.mtime(), now.mtime_nsec() as u32));
    if !others_have_changed {
        sh(export, scene.others);
    }
    for _ in 0..2 {
        let earlier = Earlier {
            operations: operations.iter().collect(),
            has_clients: true,
            ended,
            ..Earlier::default()
        };
        let redone = open(export).redo(&earlier);
        redone.unwrap_or_else(|stuck| panic!("{}: {stuck}", scene.others));
    }
}

#[test]
fn what_collides_is_kept_whenever_the_server_ends() {
    rustix::process::umask(rustix::fs::Mode::empty());
    for scene in SCENES {
        for calls in 0.. {
            match crash_after(scene, calls) {
                None => return surmise_testkit::skip("the kernel has no fanotify for this user"),
                Some(true) => break,
                Some(false) => {}
            }
        }
    }
}

/// A file that was removed, and a new one of the same name and number, are two.
#[test]
fn a_new_file_with_the_number_of_an_old_one_is_not_taken_for_that() {
    let replaces = |replaced: bool| {
        let scratch = tempfile::tempdir().expect("a directory");
        let export = scratch.path();
        sh(export, "echo old > file; echo moved > tmp");
        let mut directory = open(export);
        directory.redo(&Earlier::default()).expect("nothing to do");
        let Ok(listener) = Listener::new() else {
            return surmise_testkit::skip("the kernel has no fanotify for this user");
        };
        directory.listen(Some(Arc::new(listener)));
        load_all(&mut directory);
        let (root, file, tmp) = (
            found(export, ""),
            found(export, "file"),
            found(export, "tmp"),
        );
        let gone = place(root, "file");
        let change = match replaced {
            true => rename(place(root, "tmp"), tmp, gone, Some(file)),
            false => remove(gone, file, false),
        };
        sh(export, "rm file; printf 'of others' > file");
        if found(export, "file") != file {
            return surmise_testkit::skip("the file system gives a new file another number");
        }
        let at = Timestamp {
            seconds: 1000,
            nanoseconds: 1,
        };
        let mut batch = Batch::new(vec![Operation { at, change }]);
        directory.make_all(&mut batch).expect("make it");
        let kept = if replaced { "file.conflict-1" } else { "file" };
        let text = fs::read_to_string(export.join(kept)).expect("it is kept");
        assert_eq!(text, OTHERS);
    };
    replaces(false);
    replaces(true);
}

/// What others have written after a client is not overwritten when the log is made once more, whether a server ran then or
/// not.
#[test]
fn what_others_have_written_since_stays() {
    for while_down in [false, true] {
        let scratch = tempfile::tempdir().expect("a directory");
        let export = scratch.path();
        sh(export, "echo old > file");
        let mut directory = open(export);
        directory.redo(&Earlier::default()).expect("nothing to do");
        let Ok(listener) = Listener::new() else {
            return surmise_testkit::skip("the kernel has no fanotify for this user");
        };
        directory.listen(Some(Arc::new(listener)));
        load_all(&mut directory);
        let (root, file) = (found(export, ""), found(export, "file"));
        let mut changes = vec![
            write(file),
            create(place(root, "other"), made(1), NewKind::Regular),
            write(made(1)),
        ];
        let script = "printf 'of others' > file; printf 'of others' > new; mv new other";
        let mut operations = Vec::new();
        let mut make = |directory: &mut Directory, changes: Vec<Change>| {
            for change in changes {
                let at = Timestamp {
                    seconds: 1000,
                    nanoseconds: 1,
                };
                operations.push(Operation { at, change });
                let mut batch = Batch::new(operations[operations.len() - 1..].to_vec());
                directory.make_all(&mut batch).expect("make it");
            }
            directory.settle().expect("settle");
        };
        make(&mut directory, std::mem::take(&mut changes));
        let expected = match while_down {
            true => OTHERS,
            false => {
                sh(export, script);
                assert!(directory.take_changes().is_some());
                load_all(&mut directory);
                // The client has seen that, and writes more.
                changes.push(Change::Write {
                    object: file,
                    offset: OTHERS.len() as u64,
                    data: b", and more".into(),
                    strip: false,
                });
                make(&mut directory, changes);
                "of others, and more"
            }
        };
        drop(directory);
        if while_down {
            sh(export, script);
        }
        let mut directory = open(export);
        let earlier = Earlier {
            operations: operations.iter().collect(),
            has_clients: true,
            ..Earlier::default()
        };
        directory.redo(&earlier).expect("redo");
        let text = |name: &str| fs::read_to_string(export.join(name)).expect("read");
        assert_eq!(text("file"), expected, "{while_down}");
        assert_eq!(text("other"), OTHERS, "{while_down}");
    }
}
