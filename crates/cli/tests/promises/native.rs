//! S54: directories of the system that a domain has as they are.

use std::fs;
use std::os::unix::fs::chown;
use std::path::Path;

use surmise_testkit::{Facets, Outcome, Run, TreeSnapshot, assert_same_tree, skip, surmise_binary};

use crate::messages::{Messages, messages};
use crate::setting::as_each_user;

/// Tries every call that changes names, contents or attributes, in whatever way a path can be told, and says what each
/// came to.
const CHANGES: &str = include_str!("native.py");

const MOUNTS: &str = "grep -c ' /usr/bin ro' /proc/self/mountinfo || :";

fn lines(outcome: &Outcome) -> Vec<String> {
    outcome.stdout.lines().map(str::to_owned).collect()
}

/// S54.
#[test]
fn who_can_change_a_directory_has_it_served_and_nobody_else() {
    as_each_user(|setting| {
        let mounted = |options: &[&str]| {
            let arguments = [&["run", "--dry-run"], options, &["--", "sh", "-c", MOUNTS]].concat();
            lines(&setting.succeed(&arguments))
        };
        let expected = if setting.is_root() { "0" } else { "1" };
        assert_eq!(mounted(&[]), [expected]);
        assert_eq!(mounted(&["--no-native"]), ["0"]);
        assert_eq!(mounted(&["--torture", "7:0.001"]), ["0"]);
    });
}

/// S54: a domain is entered as it was made.
#[test]
fn a_kept_domain_has_the_trees_that_it_was_made_with() {
    as_each_user(|setting| {
        for (options, native) in [(&[][..], !setting.is_root()), (&["--no-native"], false)] {
            let script = "echo > made";
            let arguments = [
                &["run", "--name", "t"],
                options,
                &["--", "sh", "-c", script],
            ]
            .concat();
            setting.succeed(&arguments);
            let inside = setting.succeed(&["shell", "t", "--", "sh", "-c", MOUNTS]);
            assert_eq!(
                lines(&inside),
                [if native { "1" } else { "0" }],
                "{options:?}"
            );
            setting.succeed(&["abort", "t"]);
        }
    });
}

/// Puts the directory `$1` at /usr/libexec, and a FUSE device that is open to all at /dev/fuse by way of `$2`, both for this process alone.
/// Then goes on as user and group `$3`.
const MOUNTED: &str = r#"
    mount --bind "$1" /usr/libexec
    mount -t tmpfs -o mode=755 tmpfs "$2"
    mknod -m 666 "$2/fuse" c 10 229
    mount --bind "$2/fuse" /dev/fuse
    user=$3; shift 3
    exec setpriv --reuid="$user" --regid="$user" --clear-groups "$@""#;

/// A native tree, if the machine has it, as far as ordinary users are concerned.
const TREE: &str = "/usr/libexec";

/// S54: by path, by directory, through links and /proc, from threads; below the tree in a directory of the user's own, where
/// each of these changes is made plainly.
#[test]
fn nothing_below_a_native_tree_is_changed() {
    as_each_user(|setting| {
        let Some(user) = setting.ordinary_user() else {
            return;
        };
        if !Path::new(TREE).is_dir() {
            return skip(format_args!("this machine has no {TREE}"));
        }
        let root = setting.scratch.root();
        let [tree, own, devices] = ["tree", "tree/own", "devices"].map(|name| root.join(name));
        for directory in [&tree, &own, &devices] {
            fs::create_dir(directory).expect("a directory");
        }
        fs::write(own.join("file"), "f").expect("a file");
        for path in [&own, &own.join("file")] {
            chown(path, Some(user.uid), Some(user.gid)).expect("chown");
        }
        let program = root.join("native.py");
        fs::write(&program, CHANGES).expect("write the program");
        let surmise = root.join("surmise");
        fs::copy(surmise_binary(), &surmise).expect("copy the program");
        let text = |path: &Path| path.to_str().expect("Unicode").to_owned();
        let changes = ["python3", &text(&program), "/usr/libexec/own"].map(str::to_owned);
        let mounted = |command: &[String]| {
            let mount = ["unshare", "-m", "sh", "-ec", MOUNTED, "sh"].map(str::to_owned);
            let places = [text(&tree), text(&devices), user.uid.to_string()];
            let all = [&mount[..], &places, command].concat();
            let told = Run::plain(&setting.scratch, all).seconds(60).outcome();
            told.assert_success();
            lines(&told)
        };
        let inside = [&text(&surmise), "run", "--dry-run", "--"].map(str::to_owned);
        let before = TreeSnapshot::of(&tree);
        let refused = mounted(&[&inside[..], &changes].concat());
        assert_same_tree(&before, &TreeSnapshot::of(&tree), Facets::EXACT);
        for line in &refused {
            assert!(line.ends_with(" EROFS"), "{line}");
        }
        let owner = ["stat", "-c", "%u", TREE].map(str::to_owned);
        assert_eq!(mounted(&[&inside[..], &owner].concat()), ["65534"]);
        let made = mounted(&changes);
        assert_eq!(made.len(), refused.len());
        for line in &made {
            assert!(line.ends_with(" done"), "{line}");
        }
    });
}

/// S54: what is executed there is read from the machine's own pages.
#[test]
fn programs_of_the_system_are_read_without_a_message() {
    as_each_user(|setting| {
        let native = messages(setting, &[], &["/usr/bin/env", "true"]);
        let served = messages(setting, &["--no-native"], &["/usr/bin/env", "true"]);
        let opens = |messages: &Messages| {
            messages
                .get("OPEN")
                .map_or(0, |count| count.as_u64().expect("a count"))
        };
        match setting.is_root() {
            true => assert_eq!(opens(&native), opens(&served)),
            false => {
                assert!(!native.contains_key("READ"), "{native:?}");
                assert!(opens(&native) < opens(&served), "{native:?}, {served:?}");
            }
        }
    });
}
