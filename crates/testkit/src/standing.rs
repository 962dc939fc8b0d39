//! Where processes stand: what a test that waited too long tells of those it waited for.

use std::fmt::Write;
use std::fs;
use std::path::Path;

/// One line a thread of `process` and of all below it: process, thread, name, state, the kernel function
/// that it sleeps in, and its system call with arguments (proc(5): `wchan`, `syscall`). Root sees where it
/// stands in the kernel, too.
pub(crate) fn below(process: u32) -> String {
    let mut told = String::from("process thread name state wchan: system call\n");
    let mut processes = vec![process];
    while let Some(process) = processes.pop() {
        let Ok(threads) = fs::read_dir(format!("/proc/{process}/task")) else {
            continue;
        };
        for thread in threads.flatten() {
            let thread = thread.path();
            tell(&mut told, process, &thread);
            let children = text(&thread, "children");
            processes.extend(children.split_whitespace().flat_map(str::parse::<u32>));
        }
    }
    told
}

fn tell(told: &mut String, process: u32, thread: &Path) {
    let status = text(thread, "status");
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_default().trim()
    };
    let _ = writeln!(
        told,
        "{process} {} {:?} {} {}: {}",
        field("Pid:"),
        field("Name:"),
        field("State:"),
        text(thread, "wchan"),
        text(thread, "syscall").trim()
    );
    for frame in text(thread, "stack").lines() {
        let _ = writeln!(told, "    {frame}");
    }
}

/// Empty where it may not be read, or when the thread is gone.
fn text(thread: &Path, name: &str) -> String {
    let bytes = fs::read(thread.join(name)).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}
