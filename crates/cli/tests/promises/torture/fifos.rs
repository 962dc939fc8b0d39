//! S31: FIFOs of the domain are tracked as pipes are.

use surmise_testkit::skip;

use super::right::decided_late;
use super::{told, torture};
use crate::setting::{Setting, as_each_user};

const COMMAND: [&str; 3] = ["sh", "-e", "fifos.sh"];

fn prepare(setting: &Setting) -> bool {
    setting.scratch.file("fifos.sh", include_str!("fifos.sh"));
    true
}

#[test]
fn processes_meet_at_fifos() {
    torture("fifos", &COMMAND, prepare);
}

#[test]
fn what_is_read_from_a_fifo_is_right_whenever_it_is_decided() {
    decided_late(&COMMAND, prepare);
}

/// The FIFO is one of before the domain, and has bytes of a child that has exited.
#[test]
fn neither_who_uses_a_fifo_nor_who_exits_with_one_waits_for_a_decision() {
    let script = "
        exec 3<> fifo; test -e /usr
        (test -e /bin; echo some >&3; exit 3) || echo $?
        read line <&3; echo $line";
    as_each_user(|setting| {
        setting.scratch.fifo("fifo");
        for (guesses, is_wrong) in [("1:1000ms", false), ("1:300ms:1", true)] {
            let mut arguments = vec!["run", "--dry-run", "--predict-right", guesses];
            arguments.extend(["--stats", "--json", "--", "sh", "-c", script]);
            let got = setting.surmise(&arguments).outcome();
            got.assert_code(0).assert_stdout("3\nsome\n");
            let speculation = &told(&got.stderr)["speculation"];
            let count = |what: &str, kind: &str| speculation[what][kind].as_u64().unwrap_or(0);
            // The shell reads each byte by itself.
            assert!(count("objects", "pipe") > 5, "{speculation}");
            assert!(count("objects", "exit") > 0, "{speculation}");
            assert_eq!(count("undone", "pipe") > 0, is_wrong, "{speculation}");
        }
    });
}

/// There the FIFO's descriptors are not known as such of the view. By the time of the write, the reader depends on nothing.
#[test]
fn a_process_with_mounts_of_its_own_reads_from_a_fifo_what_is_right() {
    let script = "
        mkfifo fifo
        unshare --user --mount --propagation unchanged sh -c 'exec 3<>fifo; read line <&3; echo $line' &
        exec 4<>fifo; sleep 2; test -e /usr; echo some >&4; wait";
    as_each_user(|setting| {
        let command = ["sh", "-c", script];
        let plain = setting.twin().plain(&command).outcome();
        if !plain.stderr.is_empty() {
            return skip(format_args!(
                "this user makes no namespaces: {}",
                plain.stderr
            ));
        }
        let mut arguments = vec!["run", "--dry-run", "--predict-right", "1:60ms:1", "--"];
        arguments.extend(command);
        let got = setting.surmise(&arguments).outcome();
        got.assert_code(0).assert_stdout("some\n");
    });
}
