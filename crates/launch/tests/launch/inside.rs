//! What a command finds inside its domain.

use std::fs;

use crate::Test;
use crate::setting::Setting;

pub const TESTS: &[Test] = &[
    ("files_stay_inside", files),
    ("the_state_root_does_not_exist", state_root),
    ("devices_are_the_harmless_ones", devices),
    ("the_attributes_of_devices_are_the_hosts", device_attributes),
    ("terminals_are_its_own", terminals),
    ("processes_are_its_own", processes),
    ("the_machine_is_out_of_reach", machine),
    ("the_network_is_an_empty_one", network),
    ("users_are_themselves", users),
    ("inherited_descriptors_are_closed", descriptors),
];

fn files(setting: &Setting) {
    setting.scratch.file("kept", "old");
    setting
        .script("echo new > made; echo new > kept; cat made kept; pwd")
        .assert_code(0)
        .assert_stdout(&format!("new\nnew\n{}\n", setting.scratch.work().display()));
    assert!(!setting.scratch.path("made").exists(), "it shows outside");
    let kept = fs::read(setting.scratch.path("kept")).expect("read");
    assert_eq!(kept, b"old");
}

fn state_root(setting: &Setting) {
    let root = setting.root();
    let path = root.path().display();
    setting
        .script(&format!("ls -A {path}/..; ls {path}"))
        .assert_code(2)
        .assert_stdout("");
}

fn devices(setting: &Setting) {
    let all = "core fd full mqueue null ptmx pts random shm stderr stdin stdout tty urandom zero\n";
    setting.script("echo $(ls /dev)").assert_stdout(all);
    setting
        .script("echo lost > /dev/null && head -c 3 /dev/zero | wc -c && : > /dev/shm/x")
        .assert_code(0)
        .assert_stdout("3\n");
}

/// The nodes are the host's own; to write to one is no change of it.
fn device_attributes(setting: &Setting) {
    setting
        .script("for d in full null random tty urandom zero; do touch -c /dev/$d && echo $d; done")
        .assert_stdout("");
    setting
        .script("echo x > /dev/null && ! chmod 666 /dev/null")
        .assert_code(0);
}

fn terminals(setting: &Setting) {
    setting
        .script("echo $(ls /dev/pts); : < /dev/ptmx")
        .assert_code(0)
        .assert_stdout("ptmx\n");
}

fn processes(setting: &Setting) {
    setting
        .script("cd /proc; echo $$ $PPID [0-9]*")
        .assert_stdout("2 1 1 2\n");
}

fn machine(setting: &Setting) {
    for refused in [
        "echo 1 > /proc/sys/vm/swappiness",
        "echo h > /proc/sysrq-trigger",
        "mkdir /sys/fs/cgroup/surmise",
        "mount -t tmpfs tmpfs /mnt",
        "umount /proc/sys",
        "mknod device b 7 0",
        "echo elsewhere > /proc/sys/kernel/hostname",
        "chmod go= /proc/meminfo",
        "cat /proc/1/environ",
        "readlink /proc/1/exe",
    ] {
        let outcome = setting.script(&format!("! ({refused})"));
        assert_eq!(outcome.code, 0, "`{refused}` worked");
    }
    // SYS_ADMIN is capability 21.
    let script = "printf %d 0x$(sed -n 's/^CapBnd:\t//p' /proc/self/status)";
    let bounding: u64 = setting.script(script).stdout.parse().expect("a set");
    assert_eq!(bounding & 1 << 21, 0, "{bounding:x}");
}

fn network(setting: &Setting) {
    let interfaces = "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '";
    setting.script(interfaces).assert_stdout("lo\n");
    // An interface that is down has no routes.
    setting
        .script("grep -q 127.0.0.1 /proc/net/fib_trie")
        .assert_code(0);
    // With a gate, there is one more.
    setting
        .run(&["--net-allow", "--", "sh", "-c", interfaces])
        .assert_stdout("lo\neth0\n");
}

fn users(setting: &Setting) {
    let user = setting.user();
    setting.scratch.file("own", "");
    setting
        .script("id -u; stat -c %u own /usr")
        .assert_stdout(&format!("{user}\n{user}\n0\n"));
}

fn descriptors(setting: &Setting) {
    let by = ["sh", "-c", r#"exec 7< / 9> /dev/null; exec "$@""#, "sh"];
    // 3 is the directory that ls reads.
    setting
        .run_by(&by, &["--", "ls", "/proc/self/fd"])
        .outcome()
        .assert_stdout("0\n1\n2\n3\n");
}
