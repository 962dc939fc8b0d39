//! S54: directories of the system that a domain has as they are.

use std::fs;
use std::os::unix::fs::chown;
use std::path::Path;

use surmise_testkit::{
    Facets, Outcome, Run, TreeSnapshot, User, assert_same_tree, is_root, skip, surmise_binary,
};

use crate::messages::{Messages, messages};
use crate::setting::as_each_user;

/// Tries every call that changes names, contents or attributes, in whatever way a path can be told, and says what each
/// came to.
const CHANGES: &str = include_str!("native.py");

const REPLACES: &str = include_str!("linker.py");

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
        assert_eq!(mounted(&["--native"]), ["1"]);
        assert_eq!(mounted(&["--torture", "7:0.001"]), ["0"]);
    });
}

/// S54: a domain is entered as it was made.
#[test]
fn a_kept_domain_has_the_trees_that_it_was_made_with() {
    as_each_user(|setting| {
        let kinds = [
            (&[][..], !setting.is_root()),
            (&["--no-native"], false),
            (&["--native"], true),
        ];
        for (options, native) in kinds {
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

/// Puts the directory `$1` at `$2`, and a FUSE device that is open to all at /dev/fuse by way of `$3`, both for this process alone.
/// Then goes on as the command behind them.
const MOUNTED: &str = r#"
    mount --bind "$1" "$2"
    mount -t tmpfs -o mode=755 tmpfs "$3"
    mknod -m 666 "$3/fuse" c 10 229
    mount --bind "$3/fuse" /dev/fuse
    shift 3
    exec "$@""#;

/// A native tree, if the machine has it, as far as ordinary users are concerned.
const TREE: &str = "/usr/libexec";

fn text(path: &Path) -> String {
    path.to_str().expect("Unicode").to_owned()
}

/// A command's first words, by which it has `directory` at `place`, and a FUSE device by way of the empty directory `devices`.
fn mount(directory: &Path, place: &str, devices: &Path) -> Vec<String> {
    let words = ["unshare", "-m", "sh", "-ec", MOUNTED, "sh"].map(str::to_owned);
    [
        &words[..],
        &[text(directory), place.to_owned(), text(devices)],
    ]
    .concat()
}

/// A command's first words, by which the user runs it.
fn become_user(user: &User) -> [String; 4] {
    [
        "setpriv".to_owned(),
        format!("--reuid={}", user.uid),
        format!("--regid={}", user.gid),
        "--clear-groups".to_owned(),
    ]
}

/// S54: by path, by directory, through links and /proc, from threads; below the tree in a directory of the user's own, where
/// each of these changes is made plainly. For root, who can change all, `--native` has the tree.
#[test]
fn nothing_below_a_native_tree_is_changed() {
    as_each_user(|setting| {
        if !is_root() {
            return skip("to put another directory at that of the system takes root");
        }
        let (user, options, owner) = match setting.user {
            Some(user) => (become_user(user).to_vec(), &[][..], "65534"),
            None => (Vec::new(), &["--native"][..], "0"),
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
            chown(path, setting.user.map(|user| user.uid), None).expect("chown");
        }
        let program = root.join("native.py");
        fs::write(&program, CHANGES).expect("write the program");
        let surmise = root.join("surmise");
        fs::copy(surmise_binary(), &surmise).expect("copy the program");
        let changes = ["python3", &text(&program), "/usr/libexec/own"].map(str::to_owned);
        let mounted = |command: &[String]| {
            let all = [&mount(&tree, TREE, &devices), &user, command].concat();
            let told = Run::plain(&setting.scratch, all).seconds(60).outcome();
            told.assert_success();
            lines(&told)
        };
        let program = text(&surmise);
        let inside = [&[program.as_str(), "run", "--dry-run"], options, &["--"]].concat();
        let inside: Vec<_> = inside.into_iter().map(str::to_owned).collect();
        let before = TreeSnapshot::of(&tree);
        let refused = mounted(&[&inside[..], &changes].concat());
        assert_same_tree(&before, &TreeSnapshot::of(&tree), Facets::EXACT);
        for line in &refused {
            assert!(line.ends_with(" EROFS"), "{line}");
        }
        let tells_owner = ["stat", "-c", "%u", TREE].map(str::to_owned);
        assert_eq!(mounted(&[&inside[..], &tells_owner].concat()), [owner]);
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

/// S54: a file of /etc that is native is the one outside also after it was replaced there.
#[test]
fn the_linkers_cache_is_the_one_outside() {
    as_each_user(|setting| {
        let Some(user) = setting.ordinary_user() else {
            return;
        };
        let root = setting.scratch.root();
        let [etc, devices] = ["etc", "devices"].map(|name| root.join(name));
        for directory in [&etc, &devices] {
            fs::create_dir(directory).expect("a directory");
        }
        for name in [
            "passwd",
            "group",
            "subuid",
            "subgid",
            "hosts",
            "resolv.conf",
        ] {
            // What is missing here is missing there.
            let _ = fs::copy(format!("/etc/{name}"), etc.join(name));
        }
        let old = b"no cache, so the linker looks for libraries itself";
        fs::write(etc.join("ld.so.cache"), old).expect("a file");
        let replaces = root.join("linker.py");
        fs::write(&replaces, REPLACES).expect("write the program");
        let surmise = root.join("surmise");
        fs::copy(surmise_binary(), &surmise).expect("copy the program");
        let program = text(&surmise);
        let replaced = |options: &[&str]| {
            let driver = ["python3", &text(&replaces), &text(&etc)].map(str::to_owned);
            let run = [
                &[program.as_str(), "run", "--dry-run"],
                options,
                &["--", "sh"],
            ]
            .concat();
            let inside: Vec<_> = run.into_iter().map(str::to_owned).collect();
            let user = become_user(user);
            let all = [&mount(&etc, "/etc", &devices), &driver[..], &user, &inside].concat();
            let told = Run::plain(&setting.scratch, all).seconds(60).outcome();
            told.assert_success();
            lines(&told)
        };
        let size = old.len().to_string();
        assert_eq!(replaced(&[]), ["1", &size, "new"]);
        assert_eq!(replaced(&["--no-native"]), ["0", "3", "new"]);
    });
}

/// S54: what root asked for is read-only, and nothing else is.
#[test]
fn root_has_what_is_native_read_only_and_nothing_else() {
    const SCRIPT: &str = "
import errno, os, sys
def told(change):
    try:
        change()
    except OSError as error:
        return errno.errorcode[error.errno]
    return 'done'
print(told(lambda: open('/usr/bin/new', 'x')), told(lambda: open('/usr/local/new', 'x')))
open('/etc/new', 'x').close()
print(told(lambda: os.rename('/etc/new', '/etc/ld.so.cache')))
";
    as_each_user(|setting| {
        if !setting.is_root() {
            return skip("an ordinary user has these without asking");
        }
        if !Path::new("/etc/ld.so.cache").is_file() {
            return skip("this machine has no /etc/ld.so.cache");
        }
        let told = |options: &[&str]| {
            let run = [
                &["run", "--dry-run"],
                options,
                &["--", "python3", "-c", SCRIPT],
            ]
            .concat();
            lines(&setting.succeed(&run))
        };
        assert_eq!(told(&["--native"]), ["EROFS done", "EBUSY"]);
        assert_eq!(told(&[]), ["done done", "done"]);
        let both = ["run", "--native", "--torture", "7:0.1", "--", "true"];
        let refused = setting.surmise(&both).outcome();
        refused.assert_code(125);
        refused.assert_stderr_contains(
            "read-only directories of the system and calls that are predicted",
        );
    });
}
