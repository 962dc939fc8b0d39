//! Processes that execute other programs behind a checkpoint.

use std::path::Path;
use std::process::Command;

use surmise_checkpoint::{Traced, can_undo_executions, lasts_beyond_execution};
use surmise_sys::seccomp::Notification;
use surmise_syscalls::Syscall;
use surmise_testkit::skip;
use surmise_testkit::watchdog::LIMIT;

use crate::commands::Commands;
use crate::tracee::{Script, Tracee, pending};

pub fn restored(programs: &Path) {
    const ROUNDS: u64 = 40;
    if !can_undo_executions() {
        return skip("this kernel lets no execution be undone");
    }
    let mut command = Command::new(programs.join("program"));
    command.arg(ROUNDS.to_string()).env("PROGRAM", "first");
    let mut commands = Commands::new(ROUNDS);
    let (output, status) = Tracee::start(&mut command, None).run(&mut commands);
    assert_eq!(output, format!("program ok after {ROUNDS}\n"));
    assert_eq!(status, Some(0));
    assert_eq!(commands.rollbacks, ROUNDS);
}

/// Has each program that is to be executed looked at.
#[derive(Default)]
struct Looks {
    /// What was found out.
    found: Vec<bool>,
    /// The next one was looked at just now.
    is_known: bool,
}

impl Script for Looks {
    fn hear(&mut self, tracee: &mut Tracee, name: Syscall, call: &Notification) {
        if name != Syscall::Execve || self.is_known {
            self.is_known = false;
            return tracee.let_pass(call);
        }
        let process = tracee.process.pid();
        assert_eq!(lasts_beyond_execution(process).expect("look"), None);
        let gate = &mut tracee.gate;
        tracee.process.executes();
        let halted = tracee
            .process
            .halt(&[pending(call)], Vec::new(), LIMIT, gate);
        let mut halted = halted.expect("halt");
        let found = halted.can_come_back_from((None, call.arguments[0]), gate);
        self.found.push(found.expect("look at a program"));
        let gone = halted.go_on(None, Traced::Still, gate);
        gone.expect("go on");
        self.is_known = true;
    }
}

/// A shell tries what is in a directory.
pub fn known_before(_programs: &Path) {
    let place = tempfile::tempdir().expect("a directory");
    let open = |path: &Path, mode| {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(path, mode).expect("chmod");
    };
    open(place.path(), 0o755);
    let mut header = [0; 64];
    header[..6].copy_from_slice(b"\x7fELF\x01\x01");
    header[18] = 3;
    let set_user = std::fs::read("/bin/true").expect("read");
    let is_root = surmise_testkit::is_root();
    let files: [(&str, &[u8], u32, bool); 7] = [
        ("plain", b"#!/bin/sh\nexit 0\n", 0o755, true),
        ("twice", b"#! plain x\n", 0o755, true),
        ("missing", b"#!/no/such/program\n", 0o755, true),
        ("foreign", &header, 0o755, false),
        ("text", b"exit 0\n", 0o755, false),
        ("rights", &set_user, 0o4755, false),
        // Nobody may look into a process that executes what its user may not read.
        ("secret", &set_user, 0o111, is_root),
    ];
    for (name, bytes, mode, _) in &files {
        let path = place.path().join(name);
        std::fs::write(&path, bytes).expect("write");
        open(&path, *mode);
    }
    for (name, .., can_be_left) in files {
        let mut command = Command::new("/bin/sh");
        let script = format!("exec ./{name} 2>/dev/null");
        command.args(["-c", &script]).current_dir(place.path());
        let mut looks = Looks::default();
        let (_, status) = Tracee::start(&mut command, None).run(&mut looks);
        assert!(status.is_some(), "{name}");
        // The first is of the shell.
        assert_eq!(
            looks.found.first_chunk(),
            Some(&[true, can_be_left]),
            "{name}"
        );
    }
}
