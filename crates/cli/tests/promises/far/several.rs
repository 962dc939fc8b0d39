//! Several mounts of one directory.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{OFlags, fcntl_setfl};

use super::Far;
use crate::setting::as_own_user;

const LOOKED_UP: &str = include_str!("looked_up.py");
const CHANGED_AT_ONCE: &str = include_str!("changed_at_once.py");

#[test]
fn s55_every_mount_sees_a_change_as_soon_as_it_has_returned() {
    as_own_user(|setting| {
        let Some(far) = Far::new(setting) else {
            return;
        };
        let (one, two) = (far.mount("one"), far.mount("two"));
        let (here, there) = (one.path(), two.path());
        for round in 0..30 {
            let text = format!("round {round}");
            let (from, to) = match round % 2 {
                0 => (&here, &there),
                _ => (&there, &here),
            };
            fs::write(from.join("file"), &text).expect("write");
            assert_eq!(fs::read_to_string(to.join("file")).expect("read"), text);
            let name = format!("made-{round}");
            assert!(!to.join(&name).exists());
            fs::create_dir(from.join(&name)).expect("make");
            assert!(to.join(&name).is_dir());
            fs::rename(to.join(&name), to.join("moved")).expect("rename");
            assert!(!from.join(&name).exists());
            assert_eq!(fs::read_dir(from).expect("list").count(), 2);
            fs::remove_dir(from.join("moved")).expect("remove");
            assert!(!to.join("moved").exists());
        }
        one.unmount();
        two.unmount();
    });
}

#[test]
fn s55_an_open_file_shows_what_others_write_and_outlives_its_name() {
    as_own_user(|setting| {
        let Some(far) = Far::new(setting) else {
            return;
        };
        let (one, two) = (far.mount("one"), far.mount("two"));
        fs::write(one.path().join("file"), "first").expect("write");
        let mut open = fs::File::open(two.path().join("file")).expect("open");
        let mut read = || {
            let mut text = String::new();
            open.seek(SeekFrom::Start(0)).expect("seek");
            open.read_to_string(&mut text).expect("read");
            text
        };
        assert_eq!(read(), "first");
        // As long as before, so that only the time says that it was changed.
        fs::write(one.path().join("file"), "other").expect("write");
        assert_eq!(read(), "other");
        fs::remove_file(one.path().join("file")).expect("remove");
        assert!(!two.path().join("file").exists());
        assert_eq!(read(), "other");
        let mut created = fs::File::options();
        let created = created.create(true).append(true);
        for round in 0..10 {
            for mount in [&one, &two] {
                let mut log = created.open(mount.path().join("log")).expect("open");
                writeln!(log, "{round}").expect("append");
            }
        }
        let log = fs::read_to_string(one.path().join("log")).expect("read");
        let expected: String = (0..10).map(|round| format!("{round}\n{round}\n")).collect();
        assert_eq!(log, expected);
    });
}

/// The kernel may not know a file yet, since the program that looks it up has not run again, when another mount changes it.
#[test]
fn s55_a_file_that_is_changed_while_it_is_looked_up_does_not_stay_as_it_was() {
    as_own_user(|setting| {
        let Some(far) = Far::new(setting) else {
            return;
        };
        on_two_mounts(&far, "looked_up.py", LOOKED_UP);
    });
}

/// The kernel takes the attributes that a change returns for newer than a recall which comes at that moment.
#[test]
fn s55_a_file_that_two_mounts_change_at_once_shows_both_changes() {
    as_own_user(|setting| {
        let Some(far) = Far::new(setting) else {
            return;
        };
        on_two_mounts(&far, "changed_at_once.py", CHANGED_AT_ONCE);
    });
}

fn on_two_mounts(far: &Far<'_>, name: &str, program: &str) {
    far.setting.scratch.file(name, program);
    let (one, two) = (far.mount("one"), far.mount("two"));
    let run = far.setting.plain(&["python3", name]).in_place();
    run.seconds(120).outcome().assert_success();
    one.unmount();
    two.unmount();
}

#[test]
fn s55_a_program_may_begin_and_cease_to_append() {
    as_own_user(|setting| {
        let Some(far) = Far::new(setting) else {
            return;
        };
        let (one, two) = (far.mount("one"), far.mount("two"));
        let (here, there) = (one.path().join("file"), two.path().join("file"));
        fs::write(&here, "first").expect("write");
        let mut options = fs::File::options();
        let mut begins = options.read(true).write(true).open(&here).expect("open");
        let ceases = options.append(true).open(&here).expect("open");
        fs::write(&there, "").expect("cut it");
        fcntl_setfl(&begins, OFlags::APPEND).expect("begin");
        begins.write_all(b"abc").expect("append");
        assert_eq!(fs::read_to_string(&there).expect("read"), "abc");
        fcntl_setfl(&ceases, OFlags::empty()).expect("cease");
        ceases.write_all_at(b"d", 1).expect("write");
        assert_eq!(fs::read_to_string(&there).expect("read"), "adc");
    });
}

#[test]
fn s58_nothing_leads_outside_the_directory() {
    as_own_user(|setting| {
        let Some(far) = Far::new(setting) else {
            return;
        };
        let scratch = &setting.scratch;
        scratch.file("outside/secret", "secret");
        scratch.file("export/d/secret", "told");
        // From a mount, what is beside the directory at the server would be somewhere else.
        let mount = far.mount("deep/there");
        let listed = fs::read_dir(mount.path().join("d")).expect("list");
        assert_eq!(listed.count(), 1);
        // Somebody at the server puts a link in the place of the directory.
        fs::rename(far.export().join("d"), scratch.path("moved")).expect("move");
        scratch.symlink("../outside", "export/d");
        let read = fs::read_to_string(mount.path().join("d/secret"));
        assert!(!read.is_ok_and(|read| read == "secret"));
        let _ = fs::write(mount.path().join("d/secret"), "overwritten");
        drop(mount);
        let outside = fs::read_to_string(scratch.path("outside/secret"));
        assert_eq!(outside.expect("read"), "secret");
    });
}

#[test]
fn s58_a_directory_that_is_moved_out_is_not_served_any_more() {
    as_own_user(|setting| {
        let Some(far) = Far::new(setting) else {
            return;
        };
        let scratch = &setting.scratch;
        scratch.file("export/above/d/file", "told");
        let mount = far.mount("there");
        let d = mount.path().join("above/d");
        // The server has both directories open.
        fs::write(d.join("before"), "").expect("write");
        far.sh("sync there/above/d/before");
        fs::rename(far.export().join("above"), scratch.path("moved")).expect("move");
        // The client still has the lease. What it makes is promised, and must not be made there.
        let _ = fs::write(d.join("after"), "");
        let synced = setting.plain(&["timeout", "1", "sync", "there/above/d"]);
        let _ = synced.in_place().outcome();
        drop(mount);
        assert!(scratch.path("moved/d/before").exists());
        assert!(!scratch.path("moved/d/after").exists());
    });
}

/// The names in a directory, of which a few are read now and the rest later.
struct HalfRead {
    rest: fs::ReadDir,
    seen: BTreeSet<String>,
    wanted: BTreeSet<String>,
}

impl HalfRead {
    fn begin(directory: &Path, wanted: &BTreeSet<String>) -> Self {
        let mut rest = fs::read_dir(directory).expect("open");
        let first = rest.by_ref().take(3).map(name_of).collect();
        Self {
            rest,
            seen: first,
            wanted: wanted.clone(),
        }
    }

    fn end(mut self) {
        self.seen.extend(self.rest.map(name_of));
        assert_eq!(
            self.seen, self.wanted,
            "a directory is as it was when it was opened"
        );
    }
}

fn name_of(entry: std::io::Result<fs::DirEntry>) -> String {
    let name = entry.expect("an entry").file_name();
    name.into_string().expect("a name of these")
}

#[test]
fn s55_listings_that_the_kernel_keeps_are_those_of_the_moment() {
    as_own_user(|setting| {
        let Some(far) = Far::new(setting) else {
            return;
        };
        let mounts = [far.mount("one"), far.mount("two")];
        let mut random = fastrand::Rng::with_seed(3);
        let mut half_read = [const { Vec::new() }; 2];
        let mut wanted = BTreeSet::new();
        // So long that a listing takes several messages.
        let name = |number: u32| format!("{number:0>200}");
        for round in 0..150 {
            let at = &mounts[random.usize(..2)].path().join("directory");
            if round == 0 {
                fs::create_dir(at).expect("make");
            }
            let (one, other) = (name(random.u32(..200)), name(random.u32(..200)));
            match wanted.contains(&one) {
                false => {
                    fs::write(at.join(&one), "").expect("make");
                    wanted.insert(one);
                }
                true if random.bool() => {
                    fs::rename(at.join(&one), at.join(&other)).expect("rename");
                    wanted.remove(&one);
                    wanted.insert(other);
                }
                true => {
                    fs::remove_file(at.join(&one)).expect("remove");
                    wanted.remove(&one);
                }
            }
            for (mount, half_read) in mounts.iter().zip(&mut half_read) {
                let at = mount.path().join("directory");
                for _ in 0..random.usize(..3) {
                    let listed: BTreeSet<_> =
                        fs::read_dir(&at).expect("list").map(name_of).collect();
                    assert_eq!(listed, wanted, "round {round}");
                }
                // With none open, the kernel goes on with what it has.
                if round > 70 && random.u8(..4) == 0 {
                    half_read.push(HalfRead::begin(&at, &wanted));
                }
                if random.u8(..4) == 0 && !half_read.is_empty() {
                    half_read.swap_remove(random.usize(..half_read.len())).end();
                }
            }
        }
        half_read.into_iter().flatten().for_each(HalfRead::end);
        mounts.into_iter().for_each(|mount| mount.unmount());
    });
}
