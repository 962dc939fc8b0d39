//! What /proc tells of a task that calls. Only files that the kernel fills by itself are read: others
//! read the task's memory, which may have to come from the view.

use std::fs;
use std::io::{self, Read};
use std::os::fd::{OwnedFd, RawFd};
use std::path::{Path, PathBuf};

use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags};

/// The place of a task in /proc.
pub(crate) fn place(task: Pid) -> PathBuf {
    Path::new("/proc").join(task.as_raw_nonzero().to_string())
}

/// The process of a thread.
pub(crate) fn process_of(thread: Pid) -> Option<Pid> {
    let number = field(&status(&place(thread))?, "Tgid:")?.parse().ok()?;
    Pid::from_raw(number)
}

/// The program of a thread's process, as `ps` shows it. Threads may have other names.
pub(crate) fn program_of(thread: Pid) -> Option<String> {
    let process = process_of(thread)?;
    let name = fs::read(place(process).join("comm")).ok()?;
    Some(String::from_utf8_lossy(name.trim_ascii_end()).into_owned())
}

/// A copy of a descriptor of a thread's process.
pub(crate) fn descriptor_of(thread: Pid, descriptor: RawFd) -> io::Result<OwnedFd> {
    if descriptor < 0 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let process = process_of(thread).ok_or(io::ErrorKind::NotFound)?;
    let pidfd = rustix::process::pidfd_open(process, PidfdFlags::empty())?;
    let copy = rustix::process::pidfd_getfd(pidfd, descriptor, PidfdGetfdFlags::empty());
    Ok(copy?)
}

/// The inode of a task's namespace of a kind, `net` or `pid`.
pub(crate) fn namespace_of(task: &Path, kind: &str) -> Option<u64> {
    let found = rustix::fs::stat(task.join("ns").join(kind)).ok()?;
    Some(found.st_ino)
}

/// Whether a process has this number in the pid namespace of a thread; `None` if that is not known.
pub(crate) fn has_process(thread: Pid, number: u64) -> Option<bool> {
    let own = namespace_of(&place(thread), "pid")?;
    let number = number.to_string();
    for entry in fs::read_dir("/proc").ok()? {
        let place = entry.ok()?.path();
        // Not a process, or one that has ended.
        let Some(status) = status(&place) else {
            continue;
        };
        let inner = field(&status, "NSpid:").and_then(|all| all.split_ascii_whitespace().last());
        if inner == Some(&number) && namespace_of(&place, "pid") == Some(own) {
            return Some(true);
        }
    }
    Some(false)
}

fn status(place: &Path) -> Option<String> {
    // Longer than any: in one piece it is of one moment.
    let mut bytes = vec![0; 8 << 10];
    let mut file = fs::File::open(place.join("status")).ok()?;
    let length = file.read(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes[..length]).into_owned())
}

fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_its_processs_program() {
        let named = std::thread::Builder::new().name("worker".into());
        let thread = named.spawn(|| {
            let thread = rustix::thread::gettid();
            (
                process_of(thread),
                program_of(thread),
                has_process(thread, 1 << 40),
            )
        });
        let (process, program, has) = thread.expect("spawn").join().expect("no panic");
        assert_eq!(process, Some(rustix::process::getpid()));
        let name = fs::read_to_string("/proc/self/comm").expect("read");
        assert_eq!(program.as_deref(), Some(name.trim_end()));
        assert_eq!(has, Some(false));
    }
}
