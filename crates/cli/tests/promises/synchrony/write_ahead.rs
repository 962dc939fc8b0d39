//! S47: which maps are taken for indexes of SQLite, and what is told of syncs that are real.

use serde_json::Value;
use surmise_testkit::{ordinary_user, skip};

use super::{binary, on_a_volume, stats};

/// A base with a write-ahead log is opened, and after something else ten more syncs are asked for.
const OPENING: &str = r#"
import mmap, os, shutil, sqlite3, sys
kind = sys.argv[1]
if kind == "chrooted":
    "idna".encode("idna")
    os.chroot(".")
base = sqlite3.connect("base", isolation_level=None)
base.execute("pragma synchronous=full")
if kind == "alone":
    base.execute("pragma locking_mode=exclusive")
assert base.execute("pragma journal_mode=wal").fetchone() == ("wal",)
base.execute("pragma wal_autocheckpoint=10")
base.execute("create table rows (n)")
def insert():
    base.execute("insert into rows values (1)")
insert()
def map_of(name, size=32 << 10):
    file = os.open(name, os.O_RDWR | os.O_CREAT, 0o600)
    os.ftruncate(file, size)
    return mmap.mmap(file, size)
if kind == "renamed":
    os.rename("base-shm", "kept")
elif kind == "linked":
    os.link("base-shm", "kept")
elif kind == "base-renamed":
    os.rename("base", "kept")
elif kind == "synced":
    os.fsync(os.open("base-shm", os.O_RDONLY))
elif kind == "synced-first":
    base.close()
    base = sqlite3.connect("base", isolation_level=None)
    base.execute("select * from rows").fetchone()
    os.fsync(os.open("base-shm", os.O_RDONLY))
elif kind == "msynced":
    mmap.mmap(os.open("base-shm", os.O_RDWR), 32 << 10).flush()
elif kind == "named":
    for end in "", "-wal":
        open("other" + end, "w").close()
    kept = map_of("other-shm")
elif kind == "beside":
    shutil.copy("base", "other")
    kept = map_of("other-shm")
elif kind == "part":
    kept = mmap.mmap(os.open("base-shm", os.O_RDWR), 4096)
elif kind == "forked":
    other = os.fork()
    if other == 0:
        base = sqlite3.connect("base", isolation_level=None, timeout=60)
        for n in range(50):
            insert()
        os._exit(0)
    assert os.waitpid(other, 0)[1] == 0
elif kind == "closed":
    base.close()
    base = sqlite3.connect("base", isolation_level=None)
elif kind == "kept":
    kept = map_of("map")
    kept.close()
if kind in ("plain", "alone", "forked", "closed", "chrooted"):
    for n in range(100):
        insert()
file = os.open("file", os.O_RDWR | os.O_CREAT, 0o600)
for n in range(10):
    os.fsync(file)
os._exit(0)
"#;

/// With the file whose map makes the ten syncs real, and how many others are.
const REAL: [(&str, &str, u64); 9] = [
    ("renamed", "/kept", 0),
    ("linked", "/base-shm", 0),
    ("base-renamed", "/base-shm", 0),
    ("synced", "/base-shm", 1),
    ("synced-first", "/base-shm", 1),
    ("msynced", "/base-shm", 0),
    ("named", "/other-shm", 0),
    ("beside", "/other-shm", 0),
    ("part", "/base-shm", 0),
];

const PUT_OFF: [&str; 6] = ["plain", "alone", "forked", "closed", "chrooted", "kept"];

#[test]
fn maps_of_indexes_alone_leave_syncs_put_off() {
    let kinds = REAL.map(|(kind, ..)| kind).join(" ");
    let script = format!(
        "cat > ../opening.py <<'END'\n{OPENING}\nEND\n
        for kind in {} {kinds}; do
            surmise sync --stats --json -- python3 ../opening.py $kind 2> ../told
            echo \"$kind $(tail -n 1 ../told)\"
            rm -f base* kept other* map
        done",
        PUT_OFF.join(" ")
    );
    on_a_volume(&script, |outcome| {
        let lines = outcome.stdout.lines();
        assert_eq!(lines.clone().count(), PUT_OFF.len() + REAL.len());
        for line in lines {
            let (kind, told) = line.split_once(' ').expect("a kind");
            let stats: Value = serde_json::from_str(told).expect("JSON");
            let mut reasons = Vec::new();
            if let Some((_, file, more)) = REAL.iter().find(|(real, ..)| *real == kind) {
                let mapped = &stats["reasons"][0];
                assert_eq!(mapped["reason"], "mapped", "{kind}: {stats}");
                assert_eq!(mapped["program"], "python3", "{kind}: {stats}");
                let found = mapped["file"].as_str().expect("a path");
                assert!(found.ends_with(file), "{kind}: {stats}");
                assert_eq!(mapped["count"], 10 + more, "{kind}: {stats}");
                reasons.push(10 + more);
            }
            if kind == "msynced" {
                assert_eq!(stats["reasons"][1]["reason"], "of-map", "{stats}");
                reasons.push(1);
            }
            let told = stats["reasons"].as_array().expect("reasons").iter();
            let counts: Vec<_> = told
                .map(|reason| reason["count"].as_u64().expect("a count"))
                .collect();
            assert_eq!(counts, reasons, "{kind}: {stats}");
            let real: u64 = counts.iter().sum();
            assert_eq!(stats["real"], real, "{kind}: {stats}");
            assert!(stats["put_off"].as_u64() > Some(3), "{kind}: {stats}");
        }
    });
}

/// Who may not look at pid 1 of a domain.
#[test]
fn an_ordinary_user_has_syncs_put_off_as_well() {
    let user = match ordinary_user() {
        Ok(user) => user,
        Err(reason) => return skip(reason),
    };
    let script = format!(
        "place=$(mktemp -d); trap 'cd /; umount $place/m; rm -r $place' EXIT
        chmod 755 $place; mkdir $place/m; cp {} $place/surmise
        surmise volume create 64M ../u.img; surmise volume mount ../u.img $place/m
        chmod 777 $place/m; cd $place/m
        cat > ../opening.py <<'END'\n{OPENING}\nEND\n
        setpriv --reuid {} --regid {} --clear-groups env HOME=$place ../surmise sync --net deny --stats --json -- \
            /usr/bin/python3 ../opening.py plain",
        binary(),
        user.uid,
        user.gid
    );
    on_a_volume(&script, |outcome| {
        let stats = stats(outcome);
        assert_eq!(stats["real"], 0, "{stats}");
        assert!(stats["put_off"].as_u64() > Some(100), "{stats}");
    });
}

/// Each reason, in the words that people read.
#[test]
fn it_is_told_why_syncs_were_real() {
    let script = r#"
        cat > ../reasons.py <<'END'
import mmap, os, socket
file = os.open("a file", os.O_RDWR | os.O_CREAT, 0o600)
os.ftruncate(file, 4096)
os.fsync(file)
mapped = mmap.mmap(file, 4096)
os.fsync(file)
mapped.flush()
mapped.close()
try:
    os.fsync(os.pipe()[0])
except OSError:
    pass
os.fsync(os.open("/etc/passwd", os.O_RDONLY))
kept = open("../elsewhere", "w")
import time
time.sleep(0.2)
os.fsync(file)
os.sync()
socket.socket(socket.AF_UNIX).connect("../socket")
os.fsync(file)
END
        python3 -c 'import socket, time; s = socket.socket(socket.AF_UNIX); s.bind("../socket"); s.listen(); time.sleep(600)' &
        server=$!
        while ! [ -S ../socket ]; do sleep 0.05; done
        surmise sync --stats -- python3 ../reasons.py
        kill $server"#;
    on_a_volume(script, |outcome| {
        let told: Vec<_> = outcome.stderr.lines().map(str::trim_start).collect();
        let first = "surmise: 1 sync put off, 7 made at once";
        assert!(told.contains(&first), "{outcome:?}");
        for reason in [
            "m/a file' mapped, shared and writable",
            "they were asked for mapped memory (msync)",
            "they were asked for what cannot be synced",
            "they were asked for on another file system",
            "elsewhere open for writing, which is not on the volume",
            "they were asked for everything, and files elsewhere had been changed",
            "python3 had connected to a Unix socket outside",
        ] {
            let is_it =
                |line: &&str| line.starts_with("surmise:   1 because ") && line.ends_with(reason);
            assert_eq!(
                told.iter().filter(|line| is_it(line)).count(),
                1,
                "{reason}: {outcome:?}"
            );
        }
    });
}

/// Each sync is waited for by somebody outside.
#[test]
fn it_is_told_that_to_put_off_does_not_pay() {
    let script = r#"
        surmise sync --stats --json -- python3 -c '
import os, time
file = os.open("file", os.O_RDWR | os.O_CREAT)
for n in range(100):
    os.fsync(file)
    print(n, flush=True)
    while not os.path.exists("seen-%d" % n):
        time.sleep(0.001)
' | while read n; do : > seen-$n; done"#;
    on_a_volume(script, |outcome| {
        let stats = stats(outcome);
        let reasons = stats["reasons"].as_array().expect("reasons");
        assert_eq!(reasons.len(), 1, "{stats}");
        assert_eq!(reasons[0]["reason"], "does-not-pay", "{stats}");
        assert_eq!(
            (&stats["put_off"], &stats["real"]),
            (&64.into(), &36.into()),
            "{stats}"
        );
    });
}
