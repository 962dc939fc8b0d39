//! S31: a process that has executed other programs meanwhile is what it was.

use super::undone::prints;
use super::{has, torture};

/// It compares all that is told of it, and what it has set up, behind calls that were guessed.
#[test]
fn a_program_that_was_left_finds_itself_as_it_was() {
    for way in [0, 1, 2] {
        let script = format!("PROGRAM=first ./program alone {way}");
        prints("program", &script, "program ok\n");
    }
}

/// Shells catch signals, so most of their processes have images when they execute a program.
#[test]
fn shells_with_traps_execute_programs() {
    const SHELL: &str = "
trap 'echo bye' EXIT; trap 'echo usr' USR1
for n in 1 2 3 4 5 6; do
  (trap 'echo inner' USR1; test -d /usr; exec /bin/echo sub $n)
  text=$(test -e /etc/hosts; exec sh -c 'test -d /; exec /bin/echo chain $0' $n); echo $text
  kill -USR1 $$
done
(test -d /usr; exec /no/such/program) 2>/dev/null; echo $?
exec sh -c 'test -d /usr; exec /bin/echo end'";
    for shell in ["bash", "sh"] {
        torture("shell executions", &[shell, "-c", SHELL], |_| has(shell));
    }
}

/// Each program is told of no child that has ended: it has none.
#[test]
fn python_executes_itself() {
    const PYTHON: &str = "
import os, signal, sys
left = int(sys.argv[1])
signal.signal(signal.SIGCHLD, lambda number, frame: print('a child', flush=True))
signal.signal(signal.SIGUSR1, lambda number, frame: print('a signal', flush=True))
assert os.path.isdir('/usr')
print(left, os.path.basename(os.readlink('/proc/self/exe')) != '', flush=True)
if left:
    os.execv(sys.executable, [sys.executable, '-S', '-E', '-c', os.environ['PROGRAM'], str(left - 1)])
print('end')
";
    let script = "export PROGRAM=\"$0\"; exec python3 -S -E -c \"$0\" 4";
    torture("python executions", &["sh", "-c", script, PYTHON], |_| {
        has("python3")
    });
}

/// To the kernel a file that was cut stays short until somebody asks.
#[test]
fn a_process_that_has_cut_a_file_and_executed_a_program_appends_at_its_end() {
    const APPENDS: &str = "exec 5>>log
test -e missing && { : >log; exec /bin/echo never; }
echo \"line $0\" >&5; exec /bin/true";
    const SCRIPT: &str = "for n in 1 2 3 4 5 6; do sh -c \"$0\" $n; done; cat log";
    torture("cut and executed", &["sh", "-c", SCRIPT, APPENDS], |_| true);
}
