//! `PostgreSQL`, with a client in the same domain.

use std::fs;
use std::io::Write;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use super::programs::Program;

/// The server refuses to run as root.
const USER: u32 = 65534;

/// Rows, each in a transaction of its own; checkpoints in between, so that the log is used again.
const SERVING: &str = r#"
import os, signal, subprocess, time
base = os.path.abspath("base")
server = subprocess.Popen(["postgres", "-D", base, "-k", base, "-h", ""], stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL)
while subprocess.run(["pg_isready", "-q", "-h", base]).returncode:
    time.sleep(0.05)
client = subprocess.Popen(["psql", "-qAt", "-h", base, "-U", "someone", "postgres"], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True)
for n in range(1, 601):
    print("insert into rows values (%d, repeat('x', 300));" % n, file=client.stdin)
    if n % 100 == 0:
        print("checkpoint;", file=client.stdin)
    if n % 10 == 0:
        print("select count(*) from rows;", file=client.stdin, flush=True)
        print(int(client.stdout.readline()), flush=True)
client.stdin.close()
client.wait()
server.send_signal(signal.SIGINT)
server.wait()
"#;

/// A small base, with a log that is small as well.
const SETTINGS: &str = "
wal_level = minimal
max_wal_senders = 0
min_wal_size = 2MB
max_wal_size = 4MB
shared_buffers = 8MB
";

const TABLE: &str = "create extension amcheck;
create table rows (n integer primary key, text text);
";

/// What is wrong with the index, if anything; and the rows. An error is told on standard error.
const CHECK: &str = "select bt_index_check('rows_pkey', true);
select count(*) as found, coalesce(max(n), 0) as last from rows;
";

pub(super) const POSTGRES: Program = Program {
    name: "PostgreSQL",
    source: SERVING,
    starter,
    prepare,
    look,
};

/// The directory of the server's programs, if it is installed.
pub(super) fn programs() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?.flatten();
    let mut directories: Vec<_> = versions
        .map(|version| version.path().join("bin"))
        .filter(|bin| bin.join("initdb").is_file() && bin.join("psql").is_file())
        .collect();
    directories.sort();
    directories.pop()
}

fn starter() -> Vec<String> {
    let programs = programs().unwrap_or_default();
    let words = [
        "setpriv".to_owned(),
        format!("--reuid={USER}"),
        format!("--regid={USER}"),
        "--clear-groups".to_owned(),
        "env".to_owned(),
        "LC_ALL=C".to_owned(),
        format!("PATH={}:/usr/bin:/bin", programs.display()),
    ];
    words.into()
}

fn run(directory: &Path, command: &[&str], input: &str) -> Output {
    let starter = starter();
    let mut child = Command::new(&starter[0])
        .args(&starter[1..])
        .args(command)
        .current_dir(directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("setpriv starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    // One that has failed reads nothing, and its errors tell.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    child.wait_with_output().expect("wait")
}

fn prepare(directory: &Path) {
    chown(directory, Some(USER), Some(USER)).expect("chown");
    let initdb = ["initdb", "--no-sync", "--auth=trust", "--username=someone"];
    let made = run(
        directory,
        &[&initdb[..], &["--wal-segsize=1", "-D", "base"]].concat(),
        "",
    );
    assert!(made.status.success(), "{made:?}");
    let settings = directory.join("base/postgresql.conf");
    let mut settings = fs::File::options()
        .append(true)
        .open(settings)
        .expect("the settings");
    settings.write_all(SETTINGS.as_bytes()).expect("write");
    let made = single(directory, TABLE);
    assert!(is_right(&made), "{made:?}");
}

/// The server as one process that obeys its standard input, after it has recovered.
fn single(directory: &Path, input: &str) -> Output {
    let command = ["postgres", "--single", "-D", "base", "postgres"];
    run(directory, &command, input)
}

fn is_right(output: &Output) -> bool {
    let errors = String::from_utf8_lossy(&output.stderr);
    let is_wrong = |line: &str| {
        ["ERROR", "FATAL", "PANIC"]
            .iter()
            .any(|word| line.contains(word))
    };
    output.status.success() && !errors.lines().any(is_wrong)
}

/// The rows, where they are those of some moment and the index leads to each of them.
fn look(directory: &Path) -> Option<usize> {
    // Its process has ended with the power, though another has the number now.
    let _ = fs::remove_file(directory.join("base/postmaster.pid"));
    let found = single(directory, CHECK);
    if !is_right(&found) {
        return None;
    }
    let text = String::from_utf8(found.stdout).ok()?;
    let value = |name: &str| -> Option<usize> {
        let (_, after) = text.split_once(&format!("{name} = \""))?;
        after.split_once('"')?.0.parse().ok()
    };
    let (found, last) = (value("found")?, value("last")?);
    (found == last).then_some(found)
}
