//! S33, S52: the supervisor is stopped or killed while its commits are waited for. Nothing waits for ever, and nothing is
//! shown that is not durable.

use super::on_a_volume;

/// Shell functions: the roles of the one domain of control `$1`, and bounded waits.
const ROLES: &str = r#"
control_of() { for child in $(cat /proc/$1/task/$1/children); do echo $child; done; }
role() { for pid in $(control_of $1); do if grep -qx $2 /proc/$pid/comm; then echo $pid; fi; done; }
within() { for try in $(seq 100); do if "$@"; then return; fi; sleep 0.1; done; echo "never: $*"; exit 1; }
is_stopped() { ! grep -h ^State: /proc/$1/task/*/status | grep -v -q T; }
has_no() { test -z "$(role $1 $2)"; }
has() { ! has_no "$@"; }
is_over() { ! test -e /proc/$1/comm || grep -q '^State:.Z' /proc/$1/status; }
begin() { "$@" > ../out 2> ../err & run=$!; within test -e synced
    control=$(control_of $run); supervisor=$(role $control surmise-super); }
# Leaves nothing behind where it fails.
trap 'kill -9 $control 2> /dev/null || true' EXIT"#;

/// Syncs, and puts something out when the script says so.
const HELD: &str = "echo text > file; sync file; touch synced; read line < go; echo after";

#[test]
fn a_stopped_supervisor_goes_on_when_the_domain_ends_or_is_to_end() {
    let script = format!(
        r#"{ROLES}
        mkfifo go
        for end in by_itself by_a_signal by_an_abort; do
            rm -f synced
            case $end in
                by_itself) begin surmise sync --interval 60m -- sh -c '{HELD}' ;;
                by_a_signal) begin surmise sync --interval 60m -- sh -c '{HELD}; sleep 600' ;;
                *) begin surmise run --name t --through . -- sh -c '{HELD}; sleep 600' ;;
            esac
            kill -STOP $supervisor
            within is_stopped $supervisor
            echo > go
            case $end in
                by_a_signal) sleep 0.3; kill -TERM $control ;;
                by_an_abort) sleep 0.3; timeout 20 {surmise} abort t ;;
            esac
            within is_over $run
            wait $run && status=0 || status=$?
            echo $end $status $(cat ../out)
        done"#,
        surmise = surmise_testkit::surmise_binary().display()
    );
    on_a_volume(&script, |outcome| {
        let lines: Vec<_> = outcome.stdout.lines().collect();
        assert_eq!(lines[0], "by_itself 0 after", "{outcome:?}");
        assert_eq!(lines[1], "by_a_signal 143 after", "{outcome:?}");
        assert!(
            lines.iter().any(|line| line.starts_with("by_an_abort 125")),
            "{outcome:?}"
        );
    });
}

/// The reader of output is slow. Of the rest, the end depends on a commit that will not come.
#[test]
fn a_supervisor_that_is_killed_after_the_commands_end_ends_the_domain() {
    let script = format!(
        r#"{ROLES}
        mkfifo go ../pipe
        exec 3<> ../pipe 4< ../pipe
        surmise sync --interval 60m -- sh -c 'head -c 100000 /dev/zero; touch synced
            read line < go; echo text > file; sync file; echo never' > ../pipe 2> ../err 3<&- 4<&- &
        run=$!
        within test -e synced
        control=$(control_of $run); supervisor=$(role $control surmise-super)
        echo > go
        within has_no $control surmise-init
        sleep 0.3
        kill -9 $supervisor
        # Not opened by its name: the last writer may be gone by then.
        timeout 30 cat <&4 3<&- > ../out &
        reader=$!
        exec 3<&-
        within is_over $run
        wait $run && status=0 || status=$?
        wait $reader
        echo $status $(grep -ac never ../out)
        cat ../err"#
    );
    on_a_volume(&script, |outcome| {
        assert!(outcome.stdout.starts_with("125 0\n"), "{outcome:?}");
        let told = "the supervisor of the domain was killed";
        assert!(outcome.stdout.contains(told), "{outcome:?}");
    });
}

/// A stopped supervisor makes nothing durable.
#[test]
fn a_commit_of_the_running_domain_waits_until_what_was_promised_is_durable() {
    let script = format!(
        r#"{ROLES}
        begin surmise run --name t --through . -- sh -c 'echo text > ../other; echo text > file; sync file
            touch synced; sleep 600; true'
        kill -STOP $supervisor
        within is_stopped $supervisor
        timeout 30 {surmise} commit t > ../told 2>&1 &
        client=$!
        within has $control surmise-commit
        sleep 0.5
        test ! -e ../other
        wait $client && status=0 || status=$?
        echo $status $(cat ../told)
        test ! -e ../other
        within has_no $control surmise-commit
        kill -CONT $supervisor
        timeout 30 {surmise} commit t
        cat ../other
        timeout 30 {surmise} abort t || true
        within is_over $run"#,
        surmise = surmise_testkit::surmise_binary().display()
    );
    on_a_volume(&script, |outcome| {
        let told = "1 Error: the supervisor of the domain is stopped";
        assert!(outcome.stdout.starts_with(told), "{outcome:?}");
        assert!(outcome.stdout.contains("\ntext\n"), "{outcome:?}");
    });
}
