//! S35: whose maps make syncs real, on file systems that tell stat and maps the same number and on one that does
//! not.

use serde_json::Value;
use surmise_testkit::{Outcome, is_installed, skip};

use super::on_a_volume;
use crate::setting::as_each_user;
use crate::volume::mounting;

/// Something is mapped, its descriptor closed, and after a while ten syncs are asked for.
const MAPPING: &str = r#"
import ctypes, os, sys, time
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
READ, WRITE, SHARED = 1, 2, 1
def map_of(name, rights=READ | WRITE, flags=os.O_RDWR):
    file = os.open(name, flags | os.O_CREAT, 0o600)
    if flags != os.O_RDONLY:
        os.ftruncate(file, 4096)
    address = libc.mmap(None, 4096, rights, SHARED, file, 0)
    assert address != 2 ** 64 - 1, ctypes.get_errno()
    os.close(file)
    return address
kind, name = sys.argv[1:]
if kind == "read":
    open(name, "wb").write(bytes(4096))
    map_of(name, READ, os.O_RDONLY)
    libc.munmap(map_of("other"), 4096)
elif kind == "protected":
    map_of(name, READ)
else:
    map_of(name)
if kind == "removed":
    os.unlink(name)
time.sleep(0.2)
file = os.open("file", os.O_RDWR | os.O_CREAT, 0o600)
for n in range(10):
    os.fsync(file)
"#;

/// What is done with which file, seen from the volume, and why syncs are real then.
type Case = (&'static str, &'static str, Option<&'static str>);

const EVERYWHERE: [Case; 7] = [
    ("kept", "map", Some("mapped")),
    ("removed", "map", Some("mapped")),
    ("protected", "map", Some("mapped")),
    ("read", "map", None),
    // The volume once more.
    ("bound", "../n/map", Some("mapped")),
    ("elsewhere", "../map", Some("mapped-elsewhere")),
    ("nowhere", "/dev/shm/surmise-maps", None),
];

/// A script that tries them all, and tells of each.
fn script(cases: &[Case]) -> String {
    let words = cases.iter().map(|(kind, name, _)| format!("{kind}:{name}"));
    format!(
        "cat > ../mapping.py <<'END'\n{MAPPING}\nEND\n
        mount --bind . ../n
        for case in {}; do
            surmise sync --stats --json -- python3 ../mapping.py ${{case%%:*}} ${{case#*:}} 2> ../told
            echo \"$case $(tail -n 1 ../told)\"
            rm -f map other ${{case#*:}}
        done",
        words.collect::<Vec<_>>().join(" ")
    )
}

fn check(outcome: &Outcome, cases: &[Case]) {
    let lines: Vec<_> = outcome.stdout.lines().collect();
    assert_eq!(lines.len(), cases.len(), "{outcome:?}");
    for ((kind, name, reason), line) in cases.iter().zip(lines) {
        let told = line.strip_prefix(&format!("{kind}:{name} "));
        let stats: Value = serde_json::from_str(told.expect("a case")).expect("JSON");
        let Some(reason) = reason else {
            assert_eq!(stats["real"], 0, "{kind}: {stats}");
            assert_eq!(stats["put_off"], 10, "{kind}: {stats}");
            continue;
        };
        assert_eq!(stats["real"], 10, "{kind}: {stats}");
        let told = &stats["reasons"][0];
        assert_eq!(
            (&told["reason"], &told["count"]),
            (&Value::from(*reason), &10.into()),
            "{kind}"
        );
        let end = name.rsplit('/').next().unwrap_or_default();
        let file = told["file"].as_str().expect("a path");
        assert!(
            file.trim_end_matches(" (deleted)").ends_with(end),
            "{kind}: {stats}"
        );
    }
}

#[test]
fn syncs_are_real_while_a_file_is_mapped_whose_descriptor_is_closed() {
    on_a_volume(&script(&EVERYWHERE), |outcome| check(outcome, &EVERYWHERE));
}

/// The files of the overlay are the volume's, and are on a device of their own.
#[test]
fn a_file_of_an_overlay_on_the_volume_is_elsewhere() {
    let cases = [("overlay", "../o/map", Some("mapped-elsewhere"))];
    let mount = "mkdir ../low ../o upper work
        options=lowerdir=../low,upperdir=upper,workdir=work
        if ! mount -t overlay overlay -o $options ../o 2>&1; then exit 0; fi";
    on_a_volume(
        &format!("{mount}\n{}", script(&cases)),
        |outcome| match outcome.stdout.starts_with("overlay:") {
            true => check(outcome, &cases),
            false => skip(format_args!("no overlay: {}", outcome.stdout)),
        },
    );
}

/// There maps tell another number of a file than stat does, and the same of files of all subvolumes.
#[test]
fn maps_are_found_on_btrfs_too() {
    if !is_installed("mkfs.btrfs") {
        return skip("there is no mkfs.btrfs here");
    }
    let mut cases = EVERYWHERE.to_vec();
    cases.push(("subvolume", "below/map", Some("mapped-elsewhere")));
    let script = format!(
        "truncate -s 128M b.img; mkfs.btrfs -q b.img >/dev/null
        if ! mount -o loop,flushoncommit,notreelog b.img m 2>&1; then exit 0; fi
        cd m; btrfs -q subvolume create below >/dev/null; {}
        cd ..; umount n m",
        script(&cases)
    );
    as_each_user(|setting| {
        let Some(outcome) = mounting(setting, &script) else {
            return;
        };
        match outcome.stdout.starts_with("kept:") {
            true => check(&outcome, &cases),
            false => skip(format_args!("no btrfs: {}", outcome.stdout)),
        }
    });
}
