//! What the server's own programs do in the directory, not through a mount.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::Far;
use crate::setting::{as_each_user, as_own_user};

/// Waits for what the server's programs have done. How long that takes is not promised.
#[track_caller]
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// What a shell in a directory prints of all that is below it.
const LOOK: &str = "find . -mindepth 1 -path ./.surmise -prune -o -printf '%p %y %m %s %l %n\\n' | \
    sed 's/ d \\([0-7]*\\) [0-9]*/ d \\1/' | sort; \
    find . -path ./.surmise -prune -o -type f -print | sort | xargs -r cat";

const SCRIPTS: &[&str] = &[
    "echo edited > d/file",
    "echo appended >> d/file",
    "sed -i s/edited/replaced/ d/file",
    "rm other",
    "mkdir -p new/deep && echo text > new/deep/file",
    "mv new/deep d/moved",
    "chmod 600 d/file && chmod 700 d/moved",
    "ln d/file again && ln -s d/file leads",
    "git checkout -q one && git status --porcelain",
    "git checkout -q two && git status --porcelain",
    "python3 -c 'import mmap; f = open(\"d/file\", \"r+b\"); m = mmap.mmap(f.fileno(), 0); m[0:3] = b\"MAP\"'",
    "rm -r d && mkdir d && echo anew > d/file",
];

const BEGIN: &str = "\
mkdir d && echo first > d/file && echo other > other
export GIT_AUTHOR_NAME=n GIT_AUTHOR_EMAIL=e GIT_COMMITTER_NAME=n GIT_COMMITTER_EMAIL=e
git -c init.defaultBranch=one init -q . && echo .surmise > .git/info/exclude
for i in 1 2 3 4 5 6 7 8 9; do echo $i > tracked$i; done
git add tracked* && git commit -qm one && git checkout -qb two
for i in 1 3 5 7 9; do echo changed > tracked$i; done
rm tracked2 && mkdir tracked2 && echo in > tracked2/in && git add -A tracked* && git commit -qm two";

#[test]
fn s60_what_the_servers_programs_do_is_seen_by_every_mount() {
    as_each_user(|setting| {
        let Some(far) = Far::new(setting) else {
            return;
        };
        far.sh(&format!("cd export && {BEGIN}"));
        let mount = far.mount("there");
        let look = |at: &str| far.sh(&format!("cd {at} && {LOOK}")).stdout;
        assert_eq!(look("there"), look("export"));
        for script in SCRIPTS {
            far.sh(&format!("cd export && {script}"));
            let real = look("export");
            // A walk meets what goes meanwhile.
            let shown = |far: &Far<'_>| {
                let walk = ["sh", "-c", &format!("cd there && {LOOK}")];
                far.setting.plain(&walk).in_place().outcome().stdout
            };
            let deadline = Instant::now() + Duration::from_secs(60);
            let mut ours = shown(&far);
            while ours != real {
                assert!(
                    Instant::now() < deadline,
                    "{script}: {ours}\nand not {real}"
                );
                ours = shown(&far);
            }
        }
        mount.unmount();
    });
}

#[test]
fn s60_a_file_that_is_open_and_mapped_shows_what_the_servers_programs_write() {
    as_each_user(|setting| {
        let Some(far) = Far::new(setting) else {
            return;
        };
        far.sh("printf first > export/file");
        let mount = far.mount("there");
        let script = "\
import mmap, sys
f = open('there/file', 'r+b')
m = mmap.mmap(f.fileno(), 0)
print(m[:].decode(), flush=True)
while m[:] != b'other': pass
f.seek(0)
while f.read() != b'other': f.seek(0)
print('seen', flush=True)";
        let writer = far.path("export/file");
        thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let run = ["timeout", "60", "python3", "-c", script];
                far.setting.plain(&run).in_place().outcome()
            });
            // The reader has looked, or will.
            thread::sleep(Duration::from_millis(300));
            fs::write(writer, "other").expect("write");
            let outcome = reader.join().expect("it runs");
            outcome.assert_success();
            assert!(outcome.stdout.ends_with("seen\n"), "{}", outcome.stdout);
        });
        mount.unmount();
    });
}

/// A build in one half of the directory and another one in the other half.
const BUILD: &str = "\
mkdir -p build && cd build
for round in 1 2 3 4 5 6; do
    i=0; while [ $i -lt 30 ]; do echo \"$round $i\" > f$i.c; i=$((i+1)); done
    printf 'all: $(patsubst %%.c,%%.o,$(wildcard *.c))\\n\\tcat *.o > linked\\n%%.o: %%.c\\n\\tcp $< $@\\n' > Makefile
    make -s -j2
    git -c init.defaultBranch=main init -q . && git add -A
    git -c user.name=n -c user.email=e commit -qm \"$round\"
    rm -f *.o linked
done";

#[test]
fn s60_builds_on_both_sides_at_once_come_to_one_tree() {
    as_each_user(|setting| {
        let Some(far) = Far::new(setting) else {
            return;
        };
        far.sh("mkdir export/here export/there export/both");
        let mount = far.mount("mount");
        thread::scope(|scope| {
            let on_server = scope.spawn(|| far.sh(&format!("cd export/here && {BUILD}")));
            let on_mount = scope.spawn(|| far.sh(&format!("cd mount/there && {BUILD}")));
            // Each side looks at what the other one does.
            let sides = ["export/there", "mount/here"];
            for side in sides.iter().cycle().take(20) {
                let walk = ["find", side, "-ls"];
                far.setting.plain(&walk).in_place().outcome();
            }
            on_server.join().expect("it runs");
            on_mount.join().expect("it runs");
        });
        far.sh("cd mount/there/build && git fsck --strict && git status --porcelain");
        let look = |at: &str| far.sh(&format!("cd {at} && {LOOK}")).stdout;
        far.sh("sync mount/there/build/Makefile");
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            let (ours, real) = (look("mount"), look("export"));
            if ours == real {
                break;
            }
            assert!(
                Instant::now() < deadline,
                "the mount shows {:?}, and not {:?}",
                ours.lines().find(|line| !real.contains(line)),
                real.lines().find(|line| !ours.contains(line)),
            );
        }
        mount.unmount();
        far.sh("cd export/there/build && git fsck --strict && git status --porcelain");
        far.sh("cd export/here/build && git fsck --strict && git status --porcelain");
    });
}

#[test]
fn s62_what_a_mount_and_the_servers_programs_change_at_once_is_kept() {
    as_own_user(|setting| {
        let Some(far) = Far::new(setting) else {
            return;
        };
        let export = far.export();
        for name in ["file", "gone"] {
            fs::write(export.join(name), "before").expect("write");
        }
        let mount = far.mount("there");
        let server = far.server().and_then(Pid::from_raw).expect("it runs");
        far.sh("ls -l there && cat there/file there/gone");
        kill_process(server, Signal::STOP).expect("it runs");
        let open = fs::File::open(mount.path().join("gone")).expect("open");
        for name in ["file", "gone", "new"] {
            fs::write(mount.path().join(name), "of the mount").expect("write");
        }
        for name in ["file", "new"] {
            fs::write(export.join(name), "of others").expect("write");
        }
        fs::remove_file(export.join("gone")).expect("remove");
        kill_process(server, Signal::CONT).expect("it runs");
        far.sh("sync there/file");
        let reads = |path: &str, text: &str| {
            fs::read_to_string(far.path(path)).is_ok_and(|found| found == text)
        };
        for name in ["file", "new"] {
            until(name, || {
                ["there", "export"].iter().all(|side| {
                    reads(&format!("{side}/{name}"), "of the mount")
                        && reads(&format!("{side}/{name}.conflict-1"), "of others")
                })
            });
        }
        until("it is still shown", || !mount.path().join("gone").exists());
        let lost = fs::read_dir(export.join(".surmise/lost")).expect("list");
        let lost = lost.map(|entry| entry.expect("an entry").path());
        let lost: Vec<_> = lost.map(|path| fs::read(path).expect("read")).collect();
        assert_eq!(lost, [b"of the mount"]);
        // The program that had the file open learns of it.
        until("it is not told", || open.sync_all().is_err());
        let errors = fs::read_to_string(export.join(".surmise/errors")).expect("read");
        for said in ["file.conflict-1", "new.conflict-1", ".surmise/lost/gone."] {
            assert!(errors.contains(said), "{errors}");
        }
        assert_eq!(far.server(), Some(server.as_raw_nonzero().get()));
        drop(open);
        drop(mount);
    });
}
