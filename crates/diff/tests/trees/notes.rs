//! What is said of changes besides their letter: S4.

use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use proptest::prelude::*;
use surmise_commit::{Request, commit};
use surmise_diff::Diff;
use surmise_testkit::{is_root, skip};

use surmise_twins::{Act, Twins};

fn plant(root: &Path) {
    for (name, mode) in [
        ("a", 0o644),
        ("tool", 0o755),
        ("lent", 0o4755),
        ("b", 0o600),
    ] {
        fs::write(root.join(name), name).unwrap();
        fs::set_permissions(root.join(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    fs::create_dir(root.join("d")).unwrap();
    symlink("a", root.join("link")).unwrap();
    set_xattr(&root.join("b"), "user.kept", b"1");
    set_xattr(&root.join("b"), "user.old", b"1");
}

fn set_xattr(path: &Path, name: &str, value: &[u8]) {
    rustix::fs::setxattr(path, name, value, rustix::fs::XattrFlags::empty()).unwrap();
}

/// The lines with their notes.
fn noted(twins: &Twins) -> Vec<String> {
    let map = twins.map();
    let diff = Diff::of(&map, &twins.real()).unwrap();
    diff.iter().map(|row| row.line(Path::new("/"))).collect()
}

fn commit_all(twins: &Twins) {
    let request = Request {
        name: "t",
        directory: &twins.state(),
        map: &twins.map(),
        root: &twins.real(),
        keep: None,
    };
    commit(&request, &mut |_| ControlFlow::Continue(())).unwrap();
}

fn create(path: &str) -> Act {
    Act::Create(path.into())
}

fn chmod(path: &str, mode: u16) -> Act {
    Act::Chmod(path.into(), mode)
}

fn rename(from: &str, to: &str) -> Act {
    Act::Rename(from.into(), to.into())
}

fn xattr(path: &str, name: &str, value: Option<&[u8]>) -> Act {
    Act::SetXattr(path.into(), name.into(), value.map(<[u8]>::to_vec))
}

fn own() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn user() -> String {
    match own() {
        0 => "root".to_owned(),
        user => user.to_string(),
    }
}

#[test]
fn permissions_that_matter_are_said() {
    let twins = Twins::new(plant);
    twins.act(&[
        chmod("/a", 0o755),
        chmod("/tool", 0o4755),
        chmod("/b", 0o606),
        chmod("/d", 0o1777),
        create("/new"),
        create("/script"),
        chmod("/script", 0o755),
    ]);
    let user = user();
    assert_eq!(
        noted(&twins),
        [
            "M a\texecutable, mode 0644 -> 0755".to_owned(),
            format!("M tool\tset-user-id {user}, mode 0755 -> 4755"),
            "M b\twritable by all, mode 0600 -> 0606".to_owned(),
            "M d/\tmode 0755 -> 1777".to_owned(),
            "A new".to_owned(),
            "A script\texecutable".to_owned(),
        ]
    );
}

#[test]
fn a_change_that_is_taken_back_says_nothing() {
    let twins = Twins::new(plant);
    twins.act(&[
        chmod("/tool", 0o4755),
        chmod("/tool", 0o755),
        xattr("/b", "user.kept", Some(b"2")),
        xattr("/b", "user.kept", Some(b"1")),
    ]);
    assert_eq!(noted(&twins), ["M tool", "M b"]);
}

/// What editors and package managers do: a new file takes the name.
#[test]
fn a_file_that_takes_a_name_is_compared_with_what_had_it() {
    let twins = Twins::new(plant);
    let set_id = is_root();
    twins.act(&[
        create("/n"),
        rename("/n", "/tool"),
        create("/m"),
        chmod("/m", 0o755),
        rename("/m", "/a"),
        create("/o"),
        chmod("/o", 0o600),
        xattr("/o", "user.kept", Some(b"1")),
        xattr("/o", "user.new", Some(b"1")),
        rename("/o", "/b"),
        Act::Unlink("/link".into()),
        Act::Symlink("/link".into(), "/etc/passwd".into()),
        Act::Write("/lent".into(), 0, b"x".to_vec()),
    ]);
    let user = user();
    assert_eq!(
        noted(&twins),
        [
            "M tool\tmode 0755 -> 0644".to_owned(),
            "M a\texecutable, mode 0644 -> 0755".to_owned(),
            "M b\tattribute user.new, no attribute user.old".to_owned(),
            "M link\tsymbolic link to \"/etc/passwd\"".to_owned(),
            match set_id {
                true => format!("M lent\tset-user-id {user}"),
                false => "M lent\tmode 4755 -> 0755".to_owned(),
            },
        ]
    );
}

#[test]
fn rights_are_said_of_names_that_move_and_of_further_names() {
    let twins = Twins::new(plant);
    twins.act(&[
        rename("/lent", "/d/moved"),
        rename("/tool", "/d/tool"),
        Act::Link("/d/moved".into(), "/second".into()),
        rename("/a", "/b"),
    ]);
    let user = user();
    assert_eq!(
        noted(&twins),
        [
            format!("R lent -> d/moved\tset-user-id {user}"),
            "R tool -> d/tool".to_owned(),
            format!("A second\tset-user-id {user}, executable"),
            "R a -> b".to_owned(),
        ]
    );
}

#[test]
fn what_is_no_file_is_said() {
    let twins = Twins::new(plant);
    twins.act(&[
        Act::Fifo("/p".into()),
        Act::Socket("/s".into()),
        Act::Symlink("/l".into(), "to, \"it\"".into()),
        Act::Unlink("/a".into()),
        Act::Symlink("/a".into(), "b".into()),
        Act::Unlink("/link".into()),
        create("/link"),
    ]);
    assert_eq!(
        noted(&twins),
        [
            "A p\tFIFO",
            "A s\tsocket",
            "A l\tsymbolic link to \"to, \\\"it\\\"\"",
            "T a\tsymbolic link to \"b\", was a file",
            "T link\twas a symbolic link",
        ]
    );
}

#[test]
fn owners_devices_and_capabilities_are_said() {
    if !is_root() {
        return skip("to give files away takes root");
    }
    let twins = Twins::new(|root| {
        plant(root);
        set_xattr(&root.join("tool"), "security.capability", &CAPABLE);
        std::os::unix::fs::chown(root.join("b"), Some(7), Some(8)).unwrap();
    });
    twins.act(&[
        Act::Chown("/a".into(), 1, 2),
        create("/given"),
        Act::Chown("/given".into(), 3, 0),
        create("/mine"),
        rename("/mine", "/b"),
        Act::Device("/w".into(), 0),
        Act::Device("/null".into(), rustix::fs::makedev(1, 3)),
        create("/ping"),
        xattr("/ping", "security.capability", Some(&CAPABLE)),
        chmod("/tool", 0o700),
        create("/plain"),
        chmod("/plain", 0o700),
    ]);
    assert_eq!(
        noted(&twins),
        [
            "M a\towner root -> 1, group root -> 2",
            "A given\towner 3",
            "M b\tmode 0600 -> 0644, owner 7 -> root, group 8 -> root, \
             no attribute user.kept, no attribute user.old",
            "A w\twhiteout",
            "A null\tcharacter device 1:3",
            "A ping\tcapabilities cap_net_raw=ep",
            "M tool\tcapabilities cap_net_raw=ep, mode 0755 -> 0700",
            "A plain\texecutable",
        ]
    );
    let taken = Twins::new(|root| {
        plant(root);
        set_xattr(&root.join("tool"), "security.capability", &CAPABLE);
    });
    taken.act(&[Act::Write("/tool".into(), 0, b"x".to_vec())]);
    assert_eq!(noted(&taken), ["M tool\tno capabilities"]);
}

/// `cap_net_raw=ep`, in the form that the kernel takes (linux/capability.h).
const CAPABLE: [u8; 20] = [
    1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
];

/// What was there before and cannot be seen is not taken for the same.
#[test]
fn where_nothing_is_outside_any_more_everything_is_said() {
    let twins = Twins::new(plant);
    twins.act(&[chmod("/tool", 0o4711)]);
    fs::remove_file(twins.real().join("tool")).unwrap();
    let user = user();
    assert_eq!(
        noted(&twins),
        [format!("M tool\tset-user-id {user}, executable")]
    );
}

fn act() -> impl Strategy<Value = Act> {
    let path = || prop::sample::select(&["/a", "/b", "/tool", "/new", "/d/x"][..]);
    let mode = prop::sample::select(&[0o644, 0o600, 0o755, 0o4755, 0o2711, 0o666][..]);
    let value = prop::option::of(prop::sample::select(vec![&b"1"[..], b"2"]));
    prop_oneof![
        path().prop_map(create),
        path().prop_map(|path| Act::Unlink(path.into())),
        (path(), path()).prop_map(|(from, to)| rename(from, to)),
        (path(), path()).prop_map(|(from, to)| Act::Link(from.into(), to.into())),
        path().prop_map(|path| Act::Write(path.into(), 0, b"data".to_vec())),
        (path(), mode).prop_map(|(path, mode)| chmod(path, mode)),
        (path(), value).prop_map(|(path, value)| xattr(path, "user.kept", value)),
    ]
}

proptest! {
    /// No bit by which a file runs with other rights comes into the real tree without a word.
    #[test]
    fn no_set_id_bit_is_committed_unsaid(acts in prop::collection::vec(act(), 1..20)) {
        let twins = Twins::new(plant);
        twins.act(&acts);
        let lines = noted(&twins);
        commit_all(&twins);
        for entry in ["a", "b", "tool", "new", "d/x"] {
            let Ok(found) = fs::symlink_metadata(twins.real().join(entry)) else {
                continue;
            };
            let changed = |line: &&String| {
                let head = line.split('\t').next().unwrap_or_default();
                !head.starts_with('D') && head.split(' ').next_back() == Some(entry)
            };
            let said = |note: &str| {
                lines.iter().filter(changed).any(|line| line.contains(note))
            };
            if found.permissions().mode() & 0o4000 != 0 {
                prop_assert!(said("set-user-id"), "{entry}: {lines:#?}");
            }
            if found.permissions().mode() & 0o2000 != 0 {
                prop_assert!(said("set-group-id"), "{entry}: {lines:#?}");
            }
        }
    }
}
