//! S33, S34, S35, S36, S37: what `surmise sync` shows is durable, its syncs fail as they should, and where the
//! order is not kept they are real.

mod crash;
mod failure;
mod maps;
mod supervisor;
mod through;
mod write_ahead;

use serde_json::Value;
use surmise_testkit::Outcome;

use crate::setting::as_each_user;
use crate::volume::mounting;

/// A volume, mounted on `m` where `body` works, as who calls.
const ON_A_VOLUME: &str = "surmise volume create 64M v.img; surmise volume mount v.img m; cd m";

pub fn on_a_volume(body: &str, check: impl Fn(&Outcome)) {
    as_each_user(|setting| {
        if let Some(outcome) = mounting(setting, &format!("{ON_A_VOLUME}\n{body}")) {
            check(&outcome);
        }
    });
}

/// What the last line of standard error tells.
pub fn stats(outcome: &Outcome) -> Value {
    let last = outcome.stderr.lines().last().unwrap_or_default();
    serde_json::from_str(last).unwrap_or_else(|error| panic!("{error}: {outcome:?}"))
}

/// Calls and their errors, as programs see them.
const ERRORS: &str = r#"
import ctypes, os, socket, tempfile
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *arguments):
    result = getattr(libc, name)(*arguments)
    print(name, result, ctypes.get_errno() if result < 0 else 0)
file = os.open("file", os.O_RDWR | os.O_CREAT, 0o600)
read = os.open("file", os.O_RDONLY)
path = os.open("file", os.O_PATH)
directory = os.open(".", os.O_RDONLY)
one, other = os.pipe()
near, far = socket.socketpair()
null = os.open("/dev/null", os.O_WRONLY)
proc = os.open("/proc/self/status", os.O_RDONLY)
memory = os.memfd_create("memory")
unlinked = tempfile.TemporaryFile(dir=".")
for descriptor in [file, read, path, directory, one, other, near.fileno(), null, proc, memory, unlinked.fileno(), 9999, -1]:
    for name in ["fsync", "fdatasync", "syncfs"]:
        call(name, descriptor)
for descriptor in [file, path, directory, one, near.fileno(), -1]:
    call("sync_file_range", descriptor, ctypes.c_long(0), ctypes.c_long(0), 2)
most = 2 ** 63 - 1
for offset, length, flags in [(most, 0, 7), (0, most, 0), (most, 1, 2), (-1, 0, 2), (4, -2, 2), (8, -8, 2), (0, 0, 8)]:
    call("sync_file_range", file, ctypes.c_long(offset), ctypes.c_long(length), flags)
call("sync")
"#;

#[test]
fn syncs_fail_as_they_do_outside() {
    let script = format!(
        "cat > ../errors.py <<'END'\n{ERRORS}\nEND\npython3 ../errors.py > ../plain\n\
         surmise sync --stats --json -- python3 ../errors.py > ../inside\ncmp ../plain ../inside"
    );
    on_a_volume(&script, |outcome| {
        let stats = stats(outcome);
        let put_off = stats["put_off"].as_u64().expect("a number");
        // Of four descriptors, by each of three calls; sync; and ranges of two, and two more.
        assert_eq!(put_off, 17, "{stats}");
        assert!(stats["real"].as_u64() > Some(0), "{stats}");
    });
}

#[test]
fn the_commands_status_and_streams_are_its_own() {
    let script = "
        surmise sync -- sh -c 'cat; echo error >&2; exit 7' < /etc/hostname > ../out 2> ../err || status=$?
        cmp /etc/hostname ../out
        grep -qx error ../err
        echo $status
        surmise sync -- sh -c 'kill -9 $$' || echo $?
        surmise sync -- ./nowhere 2> ../err || echo $?
        tail -n 1 ../err";
    on_a_volume(script, |outcome| {
        let lines: Vec<_> = outcome.stdout.lines().collect();
        let told = "Error: ./nowhere: command not found";
        assert_eq!(lines, ["7", "137", "127", told], "{outcome:?}");
    });
}

/// All of it is put off: a program does the same without a single commit before its end.
#[test]
fn who_puts_nothing_out_waits_for_no_commit() {
    let script = "
        surmise sync --interval 60m --stats --json -- \
            python3 -c 'import os; f = open(\"f\", \"w\")
for i in range(1000): f.write(\"x\"); f.flush(); os.fsync(f.fileno())'
        wc -c < f";
    on_a_volume(script, |outcome| {
        let stats = stats(outcome);
        assert_eq!(outcome.stdout.trim(), "1000");
        assert_eq!(
            (&stats["put_off"], &stats["real"]),
            (&1000.into(), &0.into())
        );
        // The ends of its two streams are seen outside.
        for count in [&stats["held"], &stats["commits"]["output"]] {
            assert!(count.as_u64().expect("a number") <= 2, "{stats}");
        }
        assert_eq!(stats["commits"]["end"], 1, "{stats}");
    });
}

/// What one shows may come from what the other has written.
#[test]
fn domains_on_one_volume_wait_for_each_others_promises() {
    let script = r#"
        surmise sync --stats --json -- echo before 2> ../before
        surmise sync --interval 60m --net deny -- python3 -c '
import os, time
file = open("file", "w")
file.write("written")
file.flush()
os.fsync(file.fileno())
open("put-off", "w")
while not os.path.exists("end"):
    time.sleep(0.01)' &
        while [ ! -e put-off ]; do sleep 0.01; done
        surmise sync --interval 60m --stats --json -- cat file 2> ../after
        touch end
        wait $!
        tail -n 1 ../before >&2
        tail -n 1 ../after >&2"#;
    on_a_volume(script, |outcome| {
        assert_eq!(outcome.stdout.trim(), "before\nwritten", "{outcome:?}");
        let of_output = |line: &str| -> u64 {
            let stats: Value = serde_json::from_str(line).expect("stats");
            assert_eq!(stats["put_off"], 0, "{stats}");
            stats["commits"]["output"].as_u64().expect("a number")
        };
        let counts: Vec<_> = outcome
            .stderr
            .lines()
            .rev()
            .take(2)
            .map(of_output)
            .collect();
        assert!(counts[0] > 0, "after: {outcome:?}");
        assert_eq!(counts[1], 0, "before: {outcome:?}");
    });
}

/// S36: nobody outside sees its files; who mounts the same volume does, though each has mounts of its own.
#[test]
fn a_volume_is_mounted_for_the_command_alone() {
    let script = r#"
        surmise volume create 64M v.img
        mkfifo go
        surmise sync --volume v.img:m --stats --json -- \
            sh -c 'echo one > m/file; sync m/file; echo begun; read line < go' > out 2> err &
        run=$!
        while ! grep -q begun out; do sleep 0.05; done
        ls m
        (cd m; surmise sync --volume ../v.img:. -- cat file)
        surmise volume list
        if surmise volume check v.img; then echo unused; fi
        echo > go
        wait $run
        cat err
        for try in $(seq 100); do
            if surmise volume check v.img 2> failed; then break; fi
            sleep 0.1
        done"#;
    as_each_user(|setting| {
        let Some(outcome) = mounting(setting, script) else {
            setting.succeed(&["volume", "create", "32M", "v.img"]);
            let refused = setting.surmise(&["sync", "--volume", "v.img:.", "--", "true"]);
            let refused = refused.outcome();
            assert_eq!(refused.code, 125, "{refused:?}");
            assert!(refused.stderr.contains("Hint: root can"), "{refused:?}");
            return;
        };
        let lines: Vec<_> = outcome.stdout.lines().collect();
        assert_eq!(lines[0], "one", "{outcome:?}");
        let stats: Value = serde_json::from_str(lines[1]).expect("statistics");
        assert_eq!(stats["put_off"], 1, "{stats}");
        assert_eq!(lines[2..], ["v.img is whole."], "{outcome:?}");
        assert!(outcome.stderr.contains("v.img is in use"), "{outcome:?}");
    });
}

/// S37.
#[test]
fn a_confined_command_changes_nothing_elsewhere_by_name() {
    let script = r#"
        surmise volume create 64M v.img
        echo before > kept; mkfifo fifo
        surmise sync --volume v.img:m --elsewhere read-only --stats --json -- timeout 60 sh -c '
            echo one > m/file && mv m/file m/moved && ln m/moved m/name && rm m/name && mkfifo m/fifo
            sync m/moved; cat m/moved; echo two > /dev/null && echo three > /dev/shm/file; cat /dev/shm/file
            for change in "echo x > kept" "echo x > fifo" ": > new" "mkdir new" "ln -s a new" \
                "mv kept new" "rm -f kept" "ln kept new" "mv m/moved new"
            do (eval "$change") 2>&1 | grep -q "Permission denied" || echo "$change"; done
            cat kept; cat m/moved'"#;
    as_each_user(|setting| {
        let watched = setting.surmise(&["sync", "--elsewhere", "read-only", "--", "true"]);
        let watched = watched.outcome();
        assert_eq!(watched.code, 2, "{watched:?}");
        assert!(watched.stderr.contains("--volume"), "{watched:?}");
        if let Some(outcome) = mounting(setting, script) {
            assert_eq!(outcome.stdout, "one\nthree\nbefore\none\n", "{outcome:?}");
            assert_eq!(stats(&outcome)["put_off"], 1, "{outcome:?}");
        }
    });
}

/// Each of these changes something in no order with the commits.
#[test]
fn where_no_order_is_kept_syncs_are_real() {
    let script = r#"
        cat > ../hazards.py <<'END'
import mmap, os, socket, sys
file = os.open("file", os.O_RDWR | os.O_CREAT, 0o600)
os.ftruncate(file, 4096)
kind = sys.argv[1]
if kind == "mapped":
    kept = mmap.mmap(file, 4096)
elif kind == "read":
    kept = mmap.mmap(os.open("file", os.O_RDONLY), 4096, prot=mmap.PROT_READ)
elif kind in ("elsewhere", "named"):
    kept = open(sys.argv[2], "w")
elif kind == "closed":
    open(sys.argv[2], "w").close()
elif kind == "outside":
    kept = socket.socket(socket.AF_UNIX)
    kept.connect(sys.argv[2])
elif kind == "inside":
    listening = socket.socket(socket.AF_UNIX)
    listening.bind("inside")
    listening.listen()
    kept = socket.socket(socket.AF_UNIX)
    kept.connect("inside")
elif kind == "absent":
    for name in ["absent", "file/absent"]:
        try:
            socket.socket(socket.AF_UNIX).connect(name)
            sys.exit("connected to nobody")
        except (FileNotFoundError, NotADirectoryError):
            pass
elif kind == "null":
    kept = open("/dev/null", "w")
elif kind == "born":
    kept = mmap.mmap(file, 4096)
    if os.fork():
        os._exit(os.waitpid(-1, 0)[1])
for _ in range(10):
    os.fsync(file)
END
        python3 -c 'import socket, time; s = socket.socket(socket.AF_UNIX); s.bind("../socket"); s.listen(); time.sleep(600)' &
        server=$!
        while ! [ -S ../socket ]; do sleep 0.05; done
        mount -t tmpfs tmpfs ../n
        mkfifo ../n/fifo
        for kind in mapped elsewhere named outside born read closed inside absent null; do
            case $kind in
                outside) where=../socket ;;
                named) where=../n/fifo; cat ../n/fifo & ;;
                *) where=../elsewhere ;;
            esac
            surmise sync --stats --json -- python3 ../hazards.py $kind $where 2> ../told
            echo "$kind $(tail -n 1 ../told)"
        done
        kill $server"#;
    on_a_volume(script, |outcome| {
        for line in outcome.stdout.lines() {
            let (kind, told) = line.split_once(' ').expect("a kind");
            let stats: Value = serde_json::from_str(told).expect("JSON");
            let wanted = match kind {
                "mapped" | "elsewhere" | "named" | "outside" | "born" => (0, 10),
                _ => (10, 0),
            };
            let found = (stats["put_off"].as_u64(), stats["real"].as_u64());
            assert_eq!(found, (Some(wanted.0), Some(wanted.1)), "{kind}: {stats}");
        }
        assert_eq!(outcome.stdout.lines().count(), 10, "{outcome:?}");
    });
}

#[test]
fn on_any_other_file_system_every_sync_is_real() {
    as_each_user(|setting| {
        let outcome = setting
            .surmise(&["sync", "--", "sh", "-c", "sync; exit 3"])
            .outcome();
        assert_eq!(outcome.code, 3, "{outcome:?}");
        assert!(
            outcome.stderr.contains("every fsync is a real one"),
            "{outcome:?}"
        );
        let outcome = setting
            .surmise(&["sync", "--on", "/proc", "--", "true"])
            .outcome();
        assert_eq!(outcome.code, 125, "{outcome:?}");
        assert!(
            outcome.stderr.contains("Hint: `surmise volume create`"),
            "{outcome:?}"
        );
    });
}

#[test]
fn with_the_promise_of_writes_nothing_else_is_written() {
    let script = "
        surmise sync --promise write -- sh -c 'echo a > a; echo b; echo c > ../c' 2> ../err || echo $?
        grep -c 'Read-only file system' ../err
        surmise sync -- sh -c 'echo c > ../c'
        cat a ../c";
    on_a_volume(script, |outcome| {
        let lines: Vec<_> = outcome.stdout.lines().collect();
        assert_eq!(lines.len(), 5, "{outcome:?}");
        assert_eq!((lines[0], &lines[2..]), ("b", &["1", "a", "c"][..]));
    });
}

#[test]
fn one_sync_in_another_and_in_a_run_is_refused() {
    let script = "
        surmise sync -- sh -c '\"$SURMISE\" sync -- true' || echo $?
        surmise run --dry-run -- \"$SURMISE\" sync -- true || echo $?";
    let script = format!(
        "SURMISE=$(command -v {0}); export SURMISE\n{script}",
        binary()
    );
    on_a_volume(&script, |outcome| {
        let lines: Vec<_> = outcome.stdout.lines().collect();
        assert_eq!(lines, ["125", "125"], "{outcome:?}");
        assert_eq!(outcome.stderr.matches("already inside a domain").count(), 2);
    });
}

fn binary() -> String {
    surmise_testkit::surmise_binary().display().to_string()
}

/// Nothing is shown of what comes after a commit that never came.
#[test]
fn when_the_syncer_is_killed_the_domain_ends_and_shows_nothing_more() {
    let script = r#"
        mkfifo ../go
        surmise sync --interval 60m -- sh -c 'echo begun; read line < ../go; sync && echo never; sleep 100' > ../out 2> ../err &
        run=$!
        while ! grep -q begun ../out; do sleep 0.05; done
        # A function runs in a shell of its own.
        control=$(cat /proc/$run/task/$run/children)
        for pid in $(cat /proc/${control% }/task/${control% }/children); do
            if [ "$(cat /proc/$pid/comm)" = surmise-super ]; then syncer=$pid; fi
        done
        kill -STOP $syncer
        while cat /proc/$syncer/task/*/status | grep ^State: | grep -vq T; do sleep 0.05; done
        (echo > ../go) &
        sleep 0.3
        # Others notice before control does.
        kill -STOP $control
        kill -9 $syncer
        sleep 0.3
        kill -CONT $control
        wait $run || echo $?
        cat ../out ../err"#;
    on_a_volume(script, |outcome| {
        assert!(outcome.stdout.starts_with("125\nbegun\n"), "{outcome:?}");
        assert!(
            outcome
                .stdout
                .contains("the supervisor of the domain was killed"),
            "{outcome:?}"
        );
        assert!(!outcome.stdout.contains("never"), "{outcome:?}");
    });
}
