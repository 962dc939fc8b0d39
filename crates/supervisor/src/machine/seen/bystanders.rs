//! The other tasks of a domain, and what they are doing.

use std::io;

use rustix::process::Pid;
use surmise_linux::proc::{Entry, Task};
use surmise_syscalls::row_numbered;

use crate::machine::{meeting, task};

/// How often the tasks are listed, until two lists are the same.
const LOOKS_MAX: usize = 4;

/// The tasks of a domain: its pid 1 and all that descend from it.
#[derive(Debug, Default)]
pub(crate) struct Bystanders {
    init: Option<Pid>,
}

/// What a task is doing (proc_pid_syscall(5)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    /// It is, or will be in a moment, on a processor.
    Running,
    /// It sleeps outside of a call, or is no more.
    Nothing,
    /// It sleeps in this call, with this first argument.
    Call(u32, u64),
}

impl Bystanders {
    /// Those of a domain whose first process, a child of pid 1, this is.
    pub(crate) fn of(first: Pid) -> io::Result<Self> {
        let init = task::parent_of(first)?;
        Ok(Self { init })
    }

    /// Those below a process.
    #[cfg(test)]
    pub(crate) fn below(init: Pid) -> Self {
        Self { init: Some(init) }
    }

    /// Whether no task maps a file of a device so that it could write to it. Those of harmless processes are not looked at.
    /// False in doubt.
    pub(crate) fn map_nothing(
        &self,
        device: &str,
        is_harmless: impl Fn(Pid) -> bool,
    ) -> io::Result<bool> {
        self.have_no_map(is_harmless, |line| is_writable(line, device))
    }

    /// Whether a process that is not one's own has the file of a device with this inode's number mapped. True
    /// in doubt. While they all stand apart, none maps anything: that is a call which is heard.
    pub(crate) fn map(
        &self,
        device: &str,
        inode: u64,
        is_own: impl Fn(Pid) -> bool,
    ) -> io::Result<bool> {
        let have_none = self.have_no_map(is_own, |line| is_of_file(line, device, inode));
        have_none.map(|have_none| !have_none)
    }

    /// Whether no process but these has such a map (proc_pid_maps(5)). False in doubt.
    fn have_no_map(
        &self,
        is_left_out: impl Fn(Pid) -> bool,
        is_such: impl Fn(&str) -> bool,
    ) -> io::Result<bool> {
        let Some(init) = self.init else {
            return Ok(false);
        };
        let mut before = listed_at_once(init)?;
        for _ in 1..LOOKS_MAX {
            let tasks = before.as_deref().unwrap_or_default();
            let processes = tasks.chunk_by(|(one, _), (other, _)| one == other);
            for threads in processes {
                let (process, _) = threads[0];
                // pid 1 is this program's own.
                if process != init && !is_left_out(process) && have_map(threads, &is_such) {
                    return Ok(false);
                }
            }
            // A list is right only if nobody is born or ends meanwhile.
            let after = listed_at_once(init)?;
            if after.is_some() && after == before {
                return Ok(true);
            }
            before = after;
        }
        Ok(false)
    }
}

/// Whether a thread has come past each call by which it could touch the view: it sleeps in one by which it cannot, or is no
/// more. False in doubt.
///
/// Such a thread makes no other call that could touch the view before that call is heard of.
pub(crate) fn is_past(thread: Pid) -> io::Result<bool> {
    match task::process_of(thread)? {
        Some(process) => is_apart(process, thread),
        None => Ok(true),
    }
}

impl Bystanders {
    /// All threads of the domain, with their processes, but for those of pid 1, which is this program's own.
    pub(crate) fn tasks(&self) -> io::Result<Vec<(Pid, Pid)>> {
        let mut tasks = self.init.map_or(Ok(Vec::new()), listed)?;
        tasks.retain(|(process, _)| Some(*process) != self.init);
        Ok(tasks)
    }
}

/// As [`listed`]; `None` if a task ends meanwhile.
fn listed_at_once(init: Pid) -> io::Result<Option<Vec<(Pid, Pid)>>> {
    match listed(init) {
        Err(error) if task::is_gone(&error) => Ok(None),
        tasks => tasks.map(Some),
    }
}

/// All threads, with their processes.
fn listed(init: Pid) -> io::Result<Vec<(Pid, Pid)>> {
    let mut tasks = Vec::new();
    let mut processes = vec![init];
    while let Some(process) = processes.pop() {
        for thread in task::threads(process)? {
            tasks.push((process, thread));
            processes.extend(task::children(process, thread)?);
        }
    }
    Ok(tasks)
}

fn is_apart(process: Pid, thread: Pid) -> io::Result<bool> {
    let line = Entry::from(Task { process, thread }).read("syscall")?;
    Ok(match doing(&String::from_utf8_lossy(&line)) {
        Some(Doing::Call(call, first)) => {
            row_numbered(call).is_some_and(|row| meeting::is_apart(process, row.name(), first))
        }
        // It may wait for a page of a file.
        Some(Doing::Nothing) => task::is_zombie(process, thread)?,
        Some(Doing::Running) | None => false,
    })
}

/// Whether the memory that threads have in common has such a map, or may have. A thread that has ended shows none.
///
/// The kernel tells of the maps piece by piece, and one that is moved meanwhile (mremap(2)) may be in no piece: so they are read twice.
fn have_map(threads: &[(Pid, Pid)], is_such: impl Fn(&str) -> bool) -> bool {
    for (process, thread) in threads {
        let (process, thread) = (*process, *thread);
        let maps = || Entry::from(Task { process, thread }).read_long("maps");
        match (maps(), maps()) {
            (Ok(maps), Ok(again)) if maps == again => {
                if !maps.is_empty() {
                    return String::from_utf8_lossy(&maps).lines().any(is_such);
                }
            }
            _ => return true,
        }
    }
    false
}

fn is_of_file(line: &str, device: &str, inode: u64) -> bool {
    let mut words = line.split_ascii_whitespace().skip(3);
    words.next() == Some(device) && words.next().is_some_and(|word| word.parse() == Ok(inode))
}

fn is_writable(line: &str, device: &str) -> bool {
    let mut words = line.split_ascii_whitespace().skip(1);
    let protection = words.next().unwrap_or_default();
    let is_shared = protection.ends_with('s') && protection.contains('w');
    is_shared && words.nth(1) == Some(device)
}

fn doing(line: &str) -> Option<Doing> {
    let mut words = line.split_ascii_whitespace();
    Some(match words.next()? {
        "running" => Doing::Running,
        "-1" => Doing::Nothing,
        number => {
            let first = words.next()?.strip_prefix("0x")?;
            Doing::Call(number.parse().ok()?, u64::from_str_radix(first, 16).ok()?)
        }
    })
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};
    use std::thread;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn what_a_task_does_is_read_from_its_line() {
        let line = "0 0x3 0x7ffd 0x20000 0x0 0x0 0x0 0x7ffe 0x7f12\n";
        assert_eq!(doing(line), Some(Doing::Call(0, 3)));
        let wait = "61 0xffffffffffffffff 0x7ffd 0x0 0x0 0x0 0x0 0x7ffe 0x7f12";
        assert_eq!(doing(wait), Some(Doing::Call(61, u64::MAX)));
        assert_eq!(doing("running\n"), Some(Doing::Running));
        assert_eq!(doing("-1 0x7ffe 0x7f12\n"), Some(Doing::Nothing));
        for none in ["", "x 0x1", "5", "5 1", "5 0xg"] {
            assert_eq!(doing(none), None, "{none:?}");
        }
    }

    #[test]
    fn only_a_shared_map_that_may_be_written_changes_a_file() {
        let line = |protection: &str, device: &str| {
            format!("7f1200-7f1300 {protection} 00001000 {device} 77 /home/a file")
        };
        assert!(is_writable(&line("rw-s", "00:32"), "00:32"));
        assert!(is_writable(&line("-w-s", "00:32"), "00:32"));
        assert!(!is_writable(&line("r--s", "00:32"), "00:32"));
        assert!(!is_writable(&line("rw-p", "00:32"), "00:32"));
        assert!(!is_writable(&line("rw-s", "00:31"), "00:32"));
        assert!(!is_writable("", "00:32"));
    }

    #[test]
    fn a_map_is_of_a_file_by_device_and_inode() {
        let line = "7f1200-7f1300 r--p 00001000 00:32 77 /home/a file";
        assert!(is_of_file(line, "00:32", 77));
        assert!(!is_of_file(line, "00:32", 7) && !is_of_file(line, "00:31", 77));
        assert!(!is_of_file("7f12-7f13 rw-p 00000000 00:00 0", "00:32", 77));
    }

    /// The processes below a shell, which stands for pid 1.
    fn apart(shell: &Child) -> bool {
        let init = Pid::from_child(shell);
        let below = listed(init).expect("tasks");
        let mut below = below.into_iter().filter(|(process, _)| *process != init);
        below.all(|(_, thread)| is_past(thread).unwrap_or(false))
    }

    fn shell(script: &str) -> Child {
        let mut command = Command::new("sh");
        let command = command.args(["-c", script]).stdin(Stdio::piped());
        command.spawn().expect("start sh")
    }

    #[test]
    fn who_sleeps_in_a_pipe_is_apart_and_who_runs_is_not() {
        // `read` of a shell is read(2) of the pipe.
        let mut sleeper = shell("(read line); :");
        let begun = Instant::now();
        while !apart(&sleeper) {
            assert!(begun.elapsed() < Duration::from_secs(10), "never apart");
            thread::sleep(Duration::from_millis(5));
        }
        drop(sleeper.stdin.take());
        sleeper.wait().expect("wait");

        let mut runner = shell("(while :; do :; done) & read line; kill $!; wait $!");
        let own = Pid::from_child(&runner);
        let begun = Instant::now();
        while task::children(own, own).expect("children").is_empty() {
            assert!(begun.elapsed() < Duration::from_secs(10), "never a child");
        }
        // Its child runs from birth on, so none of many looks may find it apart.
        for _ in 0..50 {
            assert!(!apart(&runner));
            thread::sleep(Duration::from_millis(1));
        }
        drop(runner.stdin.take());
        runner.wait().expect("wait");
    }

    #[test]
    fn who_is_not_known_may_map_anything() {
        let nobody = Bystanders::default();
        assert!(!nobody.map_nothing("00:32", |_| true).expect("looked"));
    }
}
