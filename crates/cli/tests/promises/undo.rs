//! S1, S2, S3, S7: changes stay inside, vanish, or arrive.

use std::fs;
use std::path::Path;

use surmise_testkit::{Facets, Scratch, TreeSnapshot, assert_same_tree};

use crate::setting::{Setting, as_each_user};

/// The issue's own example.
const EXAMPLE: &str = "echo new > a; rm b; mkdir -p d/e; mv c d/c; printf x >> big";

fn plant(scratch: &Scratch) {
    scratch.file("b", "b\n").file("c", "c\n");
    scratch.file("big", vec![b'y'; 3 << 20]);
}

/// Runs a script in a domain and expects that nothing shows outside, during a look at the domain and
/// after its abort.
fn leaves_no_trace(setting: &Setting, script: &str) {
    let before = TreeSnapshot::of(setting.scratch.root().join("work"));
    let home = TreeSnapshot::of(setting.scratch.home());
    setting.run_script(script);
    setting.succeed(&["diff", "t"]);
    setting.succeed(&["diff", "t", "-p"]);
    let during = TreeSnapshot::of(setting.scratch.root().join("work"));
    assert_same_tree(&before, &during, Facets::EXACT);
    setting.succeed(&["abort", "t"]);
    let after = TreeSnapshot::of(setting.scratch.root().join("work"));
    assert_same_tree(&before, &after, Facets::EXACT);
    assert_same_tree(
        &home,
        &TreeSnapshot::of(setting.scratch.home()),
        Facets::EXACT,
    );
    let state = setting.scratch.state().join("surmise");
    assert!(!state.exists(), "abort left {}", state.display());
}

/// A script, committed and plainly in a tree planted alike.
fn commits_as_plain(script: &str, plant: fn(&Scratch)) {
    as_each_user(|setting| {
        let twin = setting.twin();
        plant(&setting.scratch);
        plant(&twin.scratch);
        setting.commits_as_plain(&twin, script);
        assert!(!setting.scratch.state().join("surmise").exists());
    });
}

/// S1, S2.
#[test]
fn the_example_leaves_no_trace() {
    as_each_user(|setting| {
        plant(&setting.scratch);
        leaves_no_trace(setting, EXAMPLE);
    });
}

/// S3.
#[test]
fn the_example_committed_equals_a_plain_run() {
    commits_as_plain(EXAMPLE, plant);
}

/// S1, S2.
#[test]
fn writes_elsewhere_leave_no_trace() {
    as_each_user(|setting| {
        let marker = setting.scratch.root().file_name().expect("a name");
        let temporary = Path::new("/tmp").join(format!("{}-marker", marker.to_string_lossy()));
        let script = format!("echo x > {}; echo y > \"$HOME/file\"", temporary.display());
        leaves_no_trace(setting, &script);
        assert!(!temporary.exists());
    });
}

/// S1, S2: the other name of a file that is written stays as it was.
#[test]
fn writes_through_a_hard_link_leave_no_trace() {
    as_each_user(|setting| {
        setting.scratch.file("one", "old").hard_link("one", "two");
        leaves_no_trace(setting, "echo new > one; grep -q new two");
    });
}

/// S1, S2.
#[test]
fn writes_through_a_shared_mapping_leave_no_trace() {
    as_each_user(|setting| {
        setting.scratch.file("mapped", vec![b'a'; 8192]);
        leaves_no_trace(
            setting,
            r#"python3 - <<'EOF'
import mmap
with open("mapped", "r+b") as file:
    with mmap.mmap(file.fileno(), 0) as mapping:
        mapping[4096:4099] = b"new"
with open("mapped", "rb") as file:
    file.seek(4096)
    assert file.read(3) == b"new"
EOF"#,
        );
    });
}

/// S1, S2: a process that leaves its session is still inside.
#[test]
fn writes_of_a_process_in_its_own_session_leave_no_trace() {
    as_each_user(|setting| {
        setting.scratch.file("victim", "old");
        leaves_no_trace(
            setting,
            "setsid --wait sh -c 'echo new > victim; echo more > added'",
        );
    });
}

/// S1, S2, S7: even when the state directory is in what goes.
#[test]
fn removing_home_leaves_no_trace() {
    as_each_user(|setting| {
        let home = home_with_state(setting);
        let before = TreeSnapshot::of(&home);
        let outcome = in_home(
            setting,
            &["run", "--name", "t", "--", "sh", "-c"],
            REMOVE_HOME,
        );
        assert_eq!(outcome.lines(), ["gone"]);
        in_home(setting, &["abort", "t"], "");
        let after = TreeSnapshot::of(&home);
        // Surmise made its state directory and removed it again.
        let facets = Facets {
            mtime: false,
            ctime: false,
            ..Facets::EXACT
        };
        assert_same_tree(&before, &after, facets);
    });
}

/// S3, S7: the state directory outlives the home, and goes with its last domain.
#[test]
fn removing_home_is_committed_around_the_state_directory() {
    as_each_user(|setting| {
        let home = home_with_state(setting);
        in_home(
            setting,
            &["run", "--name", "t", "--", "sh", "-c"],
            REMOVE_HOME,
        );
        in_home(
            setting,
            &["run", "--name", "other", "--", "sh", "-c"],
            "echo > /tmp/kept",
        );
        in_home(setting, &["commit", "t"], "");
        assert!(home.join(".local/state/surmise/other").exists());
        assert!(!home.join("file").exists());
        assert!(!home.join(".local/share").exists());
        in_home(setting, &["abort", "other"], "");
    });
}

const REMOVE_HOME: &str = "rm -rf \"$HOME\" && ! test -e \"$HOME\" && echo gone";

fn home_with_state(setting: &Setting) -> std::path::PathBuf {
    let home = setting.scratch.path("user");
    setting.scratch.file("user/file", "precious");
    setting.scratch.file("user/.local/share/thing", "also");
    setting.scratch.directory("user/.local/state");
    home
}

fn in_home(setting: &Setting, arguments: &[&str], script: &str) -> surmise_testkit::Outcome {
    let mut arguments = arguments.to_vec();
    if !script.is_empty() {
        arguments.push(script);
    }
    let outcome = setting
        .surmise(&arguments)
        .env("HOME", setting.scratch.path("user"))
        .env("XDG_STATE_HOME", "")
        .outcome();
    outcome.assert_success();
    outcome
}

/// S3.
#[test]
fn every_kind_of_change_committed_equals_a_plain_run() {
    commits_as_plain(
        r"
        umask 022
        printf more >> grown; : > emptied; chmod 4711 program; ln hard third
        mv tree/inner moved; rm -r tree; mkdir tree; echo again > tree/new
        mv swap1 swap; mv swap2 swap1; mv swap swap2
        ln -s nowhere link; rm type; mkdir type; mkfifo pipe
        touch -d '2001-02-03 04:05:06.789 UTC' dated
        mkdir dated.d; touch -d '2001-02-03 04:05:06.789 UTC' dated.d
        truncate -s 1M sparse; echo old > replaced.tmp; mv replaced.tmp replaced
        ",
        |scratch| {
            scratch
                .file("grown", "text")
                .file("emptied", "full")
                .file("program", "#!/bin/sh\n");
            scratch.file("hard", "h").hard_link("hard", "second");
            scratch.file("tree/inner/leaf", "l").file("tree/other", "o");
            scratch
                .file("swap1", "1")
                .file("swap2", "2")
                .file("type", "t")
                .file("dated", "d");
            scratch.file("replaced", "before");
        },
    );
}

/// S3: modification times arrive as they were inside.
#[test]
fn modification_times_are_committed_to_the_nanosecond() {
    as_each_user(|setting| {
        setting.scratch.file("changed", "old").directory("sub");
        let times = "find . -printf '%p %T@\\n' | sort";
        let script = format!("echo new > changed; echo made > sub/made; ln -s x sub/l; {times}");
        let inside = setting.run_script(&script);
        setting.succeed(&["commit", "t"]);
        let outside = setting.plain(&["sh", "-c", times]).outcome();
        assert_eq!(inside.stdout, outside.stdout);
    });
}

/// S3: through its inode or as a new one.
#[test]
fn a_changed_file_keeps_its_inode_and_a_replaced_one_does_not() {
    use std::os::unix::fs::MetadataExt;
    as_each_user(|setting| {
        setting
            .scratch
            .file("changed", "old")
            .file("replaced", "old");
        let inode = |name: &str| {
            fs::metadata(setting.scratch.path(name))
                .expect("a file")
                .ino()
        };
        let before = (inode("changed"), inode("replaced"));
        setting.run_script("echo new > changed; echo new > tmp; mv tmp replaced");
        setting.succeed(&["commit", "t"]);
        assert_eq!(inode("changed"), before.0);
        assert_ne!(inode("replaced"), before.1);
    });
}

/// S7.
#[test]
fn the_state_directory_is_private_and_not_inside() {
    use std::os::unix::fs::PermissionsExt;
    as_each_user(|setting| {
        let state = setting.scratch.state().join("surmise");
        let look = format!("echo > a; test ! -e {0} && ! mkdir {0}", state.display());
        setting.run_script(&look);
        let mode = fs::metadata(&state)
            .expect("a state directory")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o700);
        setting.succeed(&["abort", "t"]);
    });
}
