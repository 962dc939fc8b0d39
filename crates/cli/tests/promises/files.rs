//! S13, S14, S15, S19, S30: files inside are like files outside.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use surmise_testkit::{is_root, skip, watchdog};

use crate::setting::as_each_user;

/// A self-checking program whose every check must hold inside as it does outside.
const CHECKS: &str = include_str!("files.py");

/// S13.
#[test]
fn files_behave_inside_as_they_do_outside() {
    as_each_user(|setting| {
        let checks = setting.scratch.root().join("checks.py");
        fs::write(&checks, CHECKS).expect("write the program");
        let checks = checks.to_str().expect("Unicode");
        for directory in ["outside", "inside"] {
            for name in ["unchanged", "linked", "mapped"] {
                setting
                    .scratch
                    .file(format!("{directory}/{name}"), "0123456789".repeat(1000));
            }
            setting
                .scratch
                .hard_link(format!("{directory}/linked"), format!("{directory}/other"));
            setting
                .scratch
                .file(format!("{directory}/tree/leaf"), "leaf");
        }
        let outside = setting
            .plain(&["python3", checks])
            .directory("outside")
            .outcome();
        outside.assert_success();
        let inside = setting
            .surmise(&["run", "--dry-run", "--", "python3", checks])
            .directory("inside")
            .outcome();
        inside.assert_success();
        assert_eq!(inside.stdout, outside.stdout);
        assert!(
            inside.lines().len() > 20,
            "few checks ran:\n{}",
            inside.stdout
        );
    });
}

/// S14: a second real file system, mounted below the first.
#[test]
fn real_file_systems_stay_apart() {
    if !is_root() {
        return skip("mounting a second file system needs root");
    }
    as_each_user(|setting| {
        setting.scratch.directory("mounted").file("file", "f");
        let script =
            "mount -t tmpfs -o mode=777 tmpfs mounted && echo m > mounted/there && exec \"$@\"";
        let checks = r#"
            import errno, os
            def fails(call, *arguments):
                try: call(*arguments)
                except OSError as error: return errno.errorcode[error.errno]
            print(fails(os.rename, "file", "mounted/file"), fails(os.link, "file", "mounted/file"))
            print(fails(os.rename, "mounted", "elsewhere"), fails(os.rmdir, "mounted"))
            print(os.stat("file").st_ino != os.stat("mounted/there").st_ino)
            print(os.stat("file").st_dev == os.stat("mounted/there").st_dev)
            print(os.statvfs("mounted").f_blocks != os.statvfs(".").f_blocks)
            open("mounted/new", "w").write("n"); os.rename("mounted/new", "mounted/newer")
            print(sorted(os.listdir("mounted")))
        "#;
        let checks: String = checks
            .lines()
            .map(|line| format!("{}\n", line.trim_start_matches("            ")))
            .collect();
        let inside = ["unshare", "-m", "sh", "-ec", script, "sh"];
        let surmise = surmise_testkit::surmise_binary().to_str().expect("Unicode");
        if setting.user.is_some() {
            // The mount is root's to make; that the view keeps file systems apart is nobody's right.
            return;
        }
        let mut command = inside.to_vec();
        command.extend([surmise, "run", "--dry-run", "--", "python3", "-c", &checks]);
        setting.plain(&command).outcome().assert_lines(&[
            "EXDEV EXDEV",
            "EBUSY EBUSY",
            "True",
            "True",
            "True",
            "['newer', 'there']",
        ]);
    });
}

/// S15.
#[test]
fn a_change_outside_shows_inside() {
    as_each_user(|setting| {
        setting.scratch.file("watched", "old");
        // What is there and what is not has been seen before it changes.
        let script = "cat watched; ! test -e added; echo > has-read; \
                      until grep -q new watched && test -e added; do sleep 0.1; done; cat watched";
        std::thread::scope(|scope| {
            let run = scope.spawn(|| setting.run_script(script));
            watchdog::until("the command reads", watchdog::LIMIT, || {
                let diff = setting.surmise(&["diff", "t"]).outcome();
                diff.stdout.contains("A has-read")
            });
            fs::write(setting.scratch.path("added"), "").expect("write outside");
            fs::write(setting.scratch.path("watched"), "new\n").expect("write outside");
            let outcome = run.join().expect("the command ends");
            outcome.assert_stdout("oldnew\n");
        });
    });
}

/// S19.
#[test]
fn an_ordinary_user_reads_nothing_more_inside() {
    as_each_user(|setting| {
        if setting.ordinary_user().is_none() {
            return;
        }
        let secret = setting.scratch.path("secret");
        setting.scratch.file("secret", "s");
        std::os::unix::fs::chown(&secret, Some(0), Some(0)).expect("chown");
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).expect("chmod");
        setting.run_script(
            "! cat secret; ! cat /etc/shadow; ! echo x >> secret; ! echo > /etc/x; echo > new",
        );
        setting.succeed(&["abort", "t"]);
        let readable = fs::Permissions::from_mode(0o644);
        fs::set_permissions(&secret, readable).expect("chmod");
        setting.run_script("cat secret; ! echo x >> secret; mv secret moved");
        setting.succeed(&["commit", "t"]);
        let moved = setting.scratch.path("moved");
        assert_eq!(fs::read_to_string(moved).expect("the file"), "s");
    });
}

/// S30: a program that is written to while others have it open, by every kind of descriptor.
#[test]
fn a_program_written_in_place_is_the_new_one_for_who_opens_it_then() {
    const SCRIPT: &str = r#"
import errno, mmap, os, subprocess, sys
def check(what, holds):
    if not holds: sys.exit(what + " does not hold")
before = open("program", "rb", buffering=0)
old = before.read()
memory = mmap.mmap(before.fileno(), 0, prot=mmap.PROT_READ)
try: open("program", "ab").close()
except OSError as error:
    check("the refusal", error.errno == errno.ETXTBSY and os.geteuid() == 0)
    try: os.truncate("program", 1)
    except OSError as error: check("another", error.errno == errno.ETXTBSY)
    memory.close()
    before.close()
writers = [open("program", mode, buffering=0) for mode in ["r+b", "ab"]]
os.pwrite(writers[0].fileno(), b"changed", 70000)
writers[1].write(b"appended")
new = old[:70000] + b"changed" + old[70007:] + b"appended"
with open("program", "rb") as after:
    check("a read", after.read() == new)
    check("a private mapping", mmap.mmap(after.fileno(), 0, access=mmap.ACCESS_COPY)[:] == new)
if not before.closed: check("an old descriptor", os.pread(before.fileno(), 7, 70000) == b"changed")
if not memory.closed: check("a mapping", memory[70000:70007] == b"changed")
os.truncate("program", len(new) - 8)
os.pwrite(writers[0].fileno(), old[70000:70007], 70000)
for file in writers + [before]: file.close()
check("all of it", open("program", "rb").read() == old)
check("it runs", subprocess.run(["./program", "7", "7"], capture_output=True).stdout == b"7\n")
with open("program", "r+b") as file:
    shared = mmap.mmap(file.fileno(), 0)
    shared[70000:70007] = b"mapped!"
    check("a shared mapping", os.pread(file.fileno(), 7, 70000) == b"mapped!")
"#;
    as_each_user(|setting| {
        let copied = setting.plain(&["cp", "/usr/bin/seq", "program"]).outcome();
        copied.assert_success();
        let program = setting.scratch.path("program");
        // Behind it, so that what is written there stops nothing.
        let padding = setting.plain(&["truncate", "-s", "+200K", "program"]);
        padding.outcome().assert_success();
        let old = fs::read(&program).expect("the program");
        setting.succeed(&["run", "--name", "t", "--", "python3", "-c", SCRIPT]);
        assert_eq!(fs::read(&program).expect("the program"), old);
        setting.succeed(&["commit", "t"]);
        let new = [&old[..70000], b"mapped!", &old[70007..]].concat();
        assert!(fs::read(&program).expect("the program") == new);
    });
}

/// S30: what is written by way of a shared mapping shows at once, also when no descriptor is left, and through a later open.
#[test]
fn a_file_is_one_through_descriptors_and_mappings() {
    const SCRIPT: &str = r#"
import mmap, os, sys, time
def check(what, holds):
    if not holds: sys.exit(what + " does not hold")
def read(start, length):
    with open("made", "rb") as file: return os.pread(file.fileno(), length, start)
made = os.open("made", os.O_RDWR | os.O_CREAT | os.O_EXCL)
os.write(made, b"a" * 8192)
memory = mmap.mmap(made, 8192)
os.close(made)
time.sleep(0.02)
before = os.stat("made").st_mtime_ns
time.sleep(0.02)
memory[:6] = b"mapped"
memory.flush()
check("what was mapped, read", read(0, 6) == b"mapped")
check("a new time of change", os.stat("made").st_mtime_ns > before)
again = os.open("made", os.O_RDWR)
os.pwrite(again, b"again", 4096)
check("what was written again, mapped", memory[4096:4101] == b"again")
memory[5000:5004] = b"both"
check("what was mapped, read again", os.pread(again, 4, 5000) == b"both")
os.close(again)
memory.close()
# One process has it mapped to read when another opens it anew to write.
reader = os.open("made", os.O_RDONLY)
shown = mmap.mmap(reader, 8192, prot=mmap.PROT_READ)
os.close(reader)
writer = os.open("made", os.O_RDWR)
memory = mmap.mmap(writer, 8192)
memory[7000:7005] = b"shown"
check("what was mapped by another, mapped to be read", shown[7000:7005] == b"shown")
os.close(writer)
for mapping in memory, shown: mapping.close()
if os.fork() == 0:
    child = os.open("made", os.O_RDWR)
    memory = mmap.mmap(child, 8192)
    memory[6000:6005] = b"child"
    os._exit(0)
check("the end of the child", os.wait()[1] == 0)
check("what the child mapped, read", read(6000, 5) == b"child")
with open("made", "ab") as file: file.write(b"appended")
os.truncate("made", 8196)
check("the size", os.stat("made").st_size == 8196)
with open("made", "r+b") as file:
    file.seek(0, os.SEEK_END)
    file.write(b"end")
os.rename("made", "renamed")
"#;
    as_each_user(|setting| {
        let twin = setting.twin();
        setting.commits_as_plain(&twin, &format!("python3 -c '{SCRIPT}'"));
    });
}
