//! What a mount leaves on disk for the next one.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::{Far, Mount};
use crate::setting::{Setting, as_each_user, as_own_user};

/// Files of all sizes that a piece begins or ends with.
const TREE: &str = r#"
mkdir -p export/d/deep && cd export
python3 -c '
import random
for number in range(40):
    open(f"d/f{number:02}", "wb").write(random.Random(number).randbytes(1000 + number))
for size in (0, 1, 131071, 131072, 131073, 3000000):
    open(f"d/deep/{size}", "wb").write(random.Random(size).randbytes(size))
'
touch -d @1700000000 d/f* d/deep/*"#;

/// How many bytes they have.
const ALL: u64 = 3_433_997;

/// What a reader of times cannot tell, and what one can.
const CHANGES: &str = r#"
cd export/d
keep() { touch -r deep/1 "$1"; }
printf x | dd of=f01 conv=notrunc 2>/dev/null && keep f01
python3 -c '
import mmap
file = open("f02", "r+b")
mapped = mmap.mmap(file.fileno(), 0)
mapped[500:503] = b"MAP"' && keep f02
printf more >> f03
truncate -s 500 f04 && keep f04
cp f06 new && keep new && mv new f06
mv f07 swap && mv f08 f07 && mv swap f08
rm f09 && printf again > f09
rm f10
touch f11 && chmod 600 f12 && cp f13 new && mv new f13
printf x | dd of=deep/3000000 bs=1 seek=1500000 conv=notrunc 2>/dev/null && keep deep/3000000
printf more >> deep/131072"#;

/// So many bytes are new then: a piece of the large file, the end of another one, and small files that are other inodes or have
/// other bytes.
const CHANGED: u64 = 131_072 + 4 + 1001 + 1002 + 1007 + 500 + 1006 + 5 + 1013;
const UNCHANGED: u64 = 3_431_487 - CHANGED;

const READ: &str = "find d -type f | sort | xargs sha256sum";

fn cache_of(setting: &Setting) -> PathBuf {
    setting.scratch.home().join(".cache/surmise/far")
}

/// A number of the status of the mount on `there`.
fn number(far: &Far<'_>, what: &str) -> u64 {
    far.listed("there")["status"][what]
        .as_u64()
        .expect("a number")
}

fn read(far: &Far<'_>, at: &str) -> String {
    far.sh(&format!("cd {at} && {READ}")).stdout
}

/// Mounts, reads everything, which has to be what is in the export, and unmounts. How many bytes of files the server has sent,
/// and how many were there. What a client has to look at again, since the server has taken all leases back, counts twice.
#[track_caller]
fn read_all(far: &Far<'_>) -> (u64, u64) {
    let mount = far.mount("there");
    assert_eq!(read(far, "there"), read(far, "export"));
    let traffic = (number(far, "fetched_bytes"), number(far, "reused_bytes"));
    end(mount);
    traffic
}

/// Unmounts, and waits until the process has gone, which has the cache until then. A domain of another test may have a copy of the
/// mount.
fn end(mount: Mount<'_>) {
    let process = PathBuf::from(format!("/proc/{}", mount.process));
    mount.unmount();
    let deadline = Instant::now() + Duration::from_secs(60);
    while process.exists() {
        assert!(Instant::now() < deadline, "the mount's process ends");
        thread::sleep(Duration::from_millis(10));
    }
}

fn end_server(far: &Far<'_>) {
    let server = far.server().and_then(Pid::from_raw).expect("it runs");
    kill_process(server, Signal::TERM).expect("it runs");
    let deadline = Instant::now() + Duration::from_secs(60);
    while far.server().is_some() {
        assert!(Instant::now() < deadline, "the server ends");
        thread::sleep(Duration::from_millis(10));
    }
}

/// All files of the caches with names that end so.
fn files(cache: &Path, suffix: &str) -> Vec<PathBuf> {
    let caches = fs::read_dir(cache).expect("there are caches").flatten();
    let files = caches.flat_map(|cache| fs::read_dir(cache.path()).expect("list").flatten());
    let files = files.map(|file| file.path());
    files
        .filter(|file| file.to_string_lossy().ends_with(suffix))
        .collect()
}

#[test]
fn s64_what_was_read_before_is_not_sent_again_and_what_was_changed_is_seen() {
    as_each_user(|setting| {
        let Some(far) = Far::new(setting) else {
            return;
        };
        far.sh(TREE);
        let (fetched, reused) = read_all(&far);
        assert!(fetched >= ALL && reused == 0, "{fetched} {reused}");
        // The server goes on for the next mounts.
        let (fetched, reused) = read_all(&far);
        assert!(fetched == 0 && reused >= ALL, "{fetched} {reused}");
        far.sh(CHANGES);
        let (fetched, reused) = read_all(&far);
        assert!((CHANGED..CHANGED + 10_000).contains(&fetched), "{fetched}");
        assert!(reused >= UNCHANGED, "{reused}");
        // The same while no server runs.
        end_server(&far);
        far.sh("cd export/d && printf y | dd of=f20 conv=notrunc 2>/dev/null && touch -r f21 f20");
        let (fetched, reused) = read_all(&far);
        // A new file that had the inode number of one that was removed has another number for another server.
        assert!((1020..10_000).contains(&fetched), "{fetched}");
        assert!(fetched + reused >= CHANGED + UNCHANGED, "{reused}");
    });
}

#[test]
fn s64_damage_of_the_cache_is_never_shown() {
    as_own_user(|setting| {
        let Some(far) = Far::new(setting) else {
            return;
        };
        far.sh(TREE);
        read_all(&far);
        let cache = cache_of(setting);
        for file in files(&cache, ".data") {
            let mut bytes = fs::read(&file).expect("read");
            bytes.iter_mut().step_by(1009).for_each(|byte| *byte ^= 4);
            fs::write(&file, bytes).expect("write");
        }
        // What is shorter than the distance of two damages may be whole.
        let (fetched, reused) = read_all(&far);
        assert!(fetched > ALL - 20_000 && reused > 0, "{fetched} {reused}");
        assert!(fetched + reused >= ALL, "{fetched} {reused}");
        for file in files(&cache, ".index") {
            let length = fs::metadata(&file).expect("stat").len();
            let file = fs::File::options().write(true).open(file).expect("open");
            file.set_len(length / 2 + 7).expect("cut");
        }
        let (fetched, reused) = read_all(&far);
        assert!(fetched > 0 && reused > 0, "{fetched} {reused}");
        assert!(fetched + reused >= ALL, "{fetched} {reused}");
        // And it may go at any time.
        let mount = far.mount("there");
        fs::remove_dir_all(&cache).expect("remove");
        assert_eq!(read(&far, "there"), read(&far, "export"));
        end(mount);
        let (fetched, reused) = read_all(&far);
        assert!(fetched >= ALL && reused == 0, "{fetched} {reused}");
    });
}

#[test]
fn s64_the_cache_takes_no_more_than_it_may_and_a_full_disk_is_no_error() {
    as_own_user(|setting| {
        let Some(far) = Far::new(setting) else {
            return;
        };
        far.sh(TREE);
        let source = format!("near:{}", far.export().display());
        let program = surmise_testkit::copied_binary(&setting.scratch);
        let program = program.display().to_string();
        let server = ["--server-command", &program];
        for (size, most) in [("2M", 2 << 20), ("0", 0)] {
            let options = [&server[..], &["--cache", size]].concat();
            far.try_mount(&options, &source, "there").assert_success();
            assert_eq!(read(&far, "there"), read(&far, "export"));
            far.succeed(&["umount", "there"]);
            let cache = cache_of(setting);
            let bytes: u64 = [".data", ".index"]
                .iter()
                .flat_map(|suffix| files(&cache, suffix))
                .map(|file| fs::metadata(file).expect("stat").len())
                .sum();
            assert_eq!(bytes > 0, size != "0", "{bytes}");
            assert!(bytes <= most, "{bytes}");
            fs::remove_dir_all(&cache).expect("remove");
            fs::create_dir(&cache).expect("make");
        }
        if setting.is_root() {
            let full = Full::new(&far);
            let run = far.mounting(&server, &source, "there");
            let run = run.env("XDG_CACHE_HOME", full.0.clone());
            run.outcome().assert_success().assert_no_stderr();
            assert_eq!(read(&far, "there"), read(&far, "export"));
            far.succeed(&["umount", "there"]).assert_no_stderr();
            assert_eq!(
                files(&full.0.join("surmise/far"), ".data"),
                [] as [PathBuf; 0]
            );
        }
    });
}

/// A file system that is soon full.
struct Full(PathBuf);

impl Full {
    fn new(far: &Far<'_>) -> Self {
        far.sh("mkdir full && mount -t tmpfs -o size=1m none full");
        Self(far.path("full"))
    }
}

impl Drop for Full {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(&self.0, rustix::mount::UnmountFlags::DETACH);
    }
}

#[test]
fn s64_two_mounts_of_one_source_do_not_share_their_cache() {
    as_own_user(|setting| {
        let Some(far) = Far::new(setting) else {
            return;
        };
        far.sh(TREE);
        let first = far.mount("there");
        let second = far.mount("beside");
        let (one, other) = (read(&far, "there"), read(&far, "beside"));
        assert_eq!(one, other);
        end(first);
        far.sh("printf x | dd of=there/../beside/d/f01 conv=notrunc 2>/dev/null");
        end(second);
        let (fetched, reused) = read_all(&far);
        assert!(reused > 3_400_000 && fetched < 10_000, "{fetched} {reused}");
    });
}
