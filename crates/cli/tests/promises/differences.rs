//! S46, and what docs/semantics.md tells as different inside: each difference is found here, so that it is told as long
//! as it is there, and no longer.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;

use rustix::thread::CapabilitySet;
use surmise_testkit::{Outcome, Run, is_root, skip};

use crate::setting::as_each_user;

const PROBE: &str = include_str!("differences/probe.py");

/// What everybody meets, and what root and others meet where that differs.
const EVERYBODY: &[(&str, &str)] = &[
    ("epoll on a file", "True"),
    ("epoll on a directory", "EPERM"),
    ("set security.surmise", "EPERM"),
    ("set trusted.surmise", "EPERM"),
    ("set an ACL", "ENOTSUP"),
    ("read an ACL", "ENOTSUP"),
    ("list an ACL", "True"),
    ("lower oom_score_adj", "EACCES"),
    ("raise a limit", "EPERM"),
    ("real-time input and output", "EPERM"),
    ("scheduling by deadlines", "EPERM"),
    ("a large pipe", "EPERM"),
    // EINVAL.
    ("strict seccomp", "22"),
    ("clone3", "ENOSYS"),
    ("a process's mappings by address", "EPERM"),
    ("perf", "EACCES"),
    ("SO_SNDBUFFORCE", "EPERM"),
    ("SO_RCVBUFFORCE", "EPERM"),
    (
        "devices",
        "core fd full mqueue null ptmx pts random shm stderr stdin stdout tty urandom zero",
    ),
];

/// What only somebody with rights over the machine would notice.
const ROOT: &[(&str, &str)] = &[
    ("set security.capability", "works"),
    ("unaligned read past the cache", "100"),
    ("make a control group", "EROFS"),
    ("a trigger of pressure", "EROFS"),
];

/// Here a hint of docs/semantics.md that nobody notices any more is as wrong as one that is missing.
#[test]
fn what_is_told_to_be_different_inside_is() {
    as_each_user(|setting| {
        let acl = setting.scratch.file("listed", "l".repeat(8192));
        acl.file("probe.py", PROBE);
        let listed = "import os, struct; os.setxattr('listed', 'system.posix_acl_access', struct.pack('<I', 2) + b''.join(
            struct.pack('<HHi', *entry) for entry in ((1, 6, -1), (2, 4, 1000), (4, 4, -1), (16, 4, -1), (32, 0, -1))))";
        setting
            .plain(&["python3", "-c", listed])
            .outcome()
            .assert_success();
        let outcome = setting.succeed(&["run", "--dry-run", "--", "python3", "probe.py"]);
        let found = rows(&outcome);
        let of_root = if setting.is_root() { ROOT } else { &[] };
        for (name, told) in EVERYBODY.iter().chain(of_root) {
            assert_eq!(found.get(name), Some(told), "{name}: {outcome:?}");
        }
    });
}

/// One ACL gives a reader what mode bits do not, one takes what they give, and one is for what is new in a directory.
const ACLS: &str = "import os, struct, sys
reader = int(sys.argv[1])
def acl(*entries): return struct.pack('<I', 2) + b''.join(struct.pack('<HHi', *entry) for entry in entries)
def make(name, mode, *entries):
    with open(name, 'w') as file: print(name, file=file)
    os.chmod(name, mode)
    os.setxattr(name, 'system.posix_acl_access', acl(*entries))
make('given', 0o600, (1, 6, -1), (2, 4, reader), (4, 0, -1), (16, 4, -1), (32, 0, -1))
make('taken', 0o644, (1, 6, -1), (2, 0, reader), (4, 4, -1), (16, 4, -1), (32, 4, -1))
os.mkdir('place')
os.setxattr('place', 'system.posix_acl_default', acl((1, 7, -1), (4, 7, -1), (32, 0, -1)))";

/// What an ACL gives is refused inside. What it takes away is refused to an ordinary user, by the real file system, and
/// to nobody in a domain of root's.
#[test]
fn mode_bits_count_inside_and_acls_do_not() {
    as_each_user(|setting| {
        if !is_root() {
            return skip("files of somebody else's take root");
        }
        let reader = setting.user.map_or(65534, |user| user.uid);
        let made = ["python3", "-c", ACLS, &reader.to_string()];
        let made = Run::plain(&setting.scratch, made).outcome();
        made.assert_success();
        let become_reader = match setting.user {
            Some(_) => "",
            None => "setpriv --reuid 65534 --regid 65534 --clear-groups",
        };
        let read = format!(
            "for name in given taken; do {become_reader} cat $name 2> /dev/null || echo refused; done"
        );
        let outside = setting.plain(&["sh", "-c", &read]).outcome();
        assert_eq!(outside.stdout, "given\nrefused\n");
        let inside = setting.succeed(&["run", "--dry-run", "--", "sh", "-c", &read]);
        let taken = if setting.is_root() {
            "taken"
        } else {
            "refused"
        };
        assert_eq!(inside.stdout, format!("refused\n{taken}\n"));
    });
}

/// Nor do they make what is new, but they stay.
#[test]
fn a_commit_keeps_acls_and_follows_none() {
    as_each_user(|setting| {
        let make = ["python3", "-c", ACLS, "12345"];
        setting.plain(&make).outcome().assert_success();
        let look = || {
            let attributes = "import os
for name in ('given', 'taken'): print(os.getxattr(name, 'system.posix_acl_access').hex())
print(os.getxattr('place', 'system.posix_acl_default').hex())";
            let outcome = setting.plain(&["python3", "-c", attributes]).outcome();
            outcome.assert_success();
            outcome.stdout
        };
        let before = look();
        setting.run_script("echo >> given; echo >> taken; umask 022; echo > place/new");
        setting.succeed(&["commit", "t"]);
        assert_eq!(look(), before);
        // Outside it would be 660, by the default.
        let new = setting.scratch.path("place/new").metadata();
        assert_eq!(new.expect("made").permissions().mode() & 0o777, 0o644);
    });
}

/// S46.
#[test]
fn a_host_name_that_is_set_is_the_domains_own() {
    as_each_user(|setting| {
        let names = "import ctypes, os, socket
libc = ctypes.CDLL(None, use_errno=True)
before = socket.gethostname()
for number in (170, 171):
    if libc.syscall(number, b'inner', 5): print(os.strerror(ctypes.get_errno()))
print(*(open(f'/proc/sys/kernel/{name}').read().strip() for name in ('hostname', 'domainname')), before)
if os.geteuid() == 0:
    os.setresuid(65534, 65534, 65534)
    print(libc.syscall(170, b'other', 5), socket.gethostname())";
        let outside = || {
            let names = "cat /proc/sys/kernel/hostname /proc/sys/kernel/domainname";
            setting.plain(&["sh", "-c", names]).outcome().stdout
        };
        let before = outside();
        let (host, domain) = before.trim().split_once('\n').expect("two names");
        let outcome = setting.succeed(&["run", "--dry-run", "--", "python3", "-c", names]);
        let refused = "Operation not permitted";
        match setting.is_root() {
            true => outcome.assert_lines(&[&format!("inner inner {host}"), "-1 inner"]),
            false => outcome.assert_lines(&[refused, refused, &format!("{host} {domain} {host}")]),
        };
        assert_eq!(outside(), before);
    });
}

/// S46.
#[test]
fn who_may_take_precedence_or_lock_memory_may_inside() {
    as_each_user(|setting| {
        let held = rustix::thread::capabilities(None).expect("own capabilities");
        let needed =
            CapabilitySet::SYS_NICE | CapabilitySet::IPC_LOCK | CapabilitySet::SYS_RESOURCE;
        if setting.is_root() && !held.effective.contains(needed) {
            return skip(format_args!("root lacks {:?}", needed - held.effective));
        }
        let attempts = "import ctypes, mmap, os
libc = ctypes.CDLL(None)
def tell(attempt):
    try: print(attempt() or 'works')
    except OSError as error: print(type(error).__name__)
tell(lambda: os.setpriority(os.PRIO_PROCESS, 0, -20))
tell(lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(99)))
tell(lambda: libc.mlockall(1))";
        let command = ["python3", "-c", attempts];
        let outside = setting.plain(&command).outcome();
        let inside = setting.succeed(&[&["run", "--dry-run", "--"], &command[..]].concat());
        assert_eq!(inside.lines(), outside.lines());
    });
}

/// Each by its name.
fn rows(outcome: &Outcome) -> BTreeMap<&str, &str> {
    let lines = outcome.stdout.lines();
    lines.filter_map(|line| line.split_once(": ")).collect()
}
