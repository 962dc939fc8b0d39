//! A real program, mispredicted.

use std::path::Path;
use std::process::Command;

use rustix::fs::OFlags;
use surmise_checkpoint::Checkpoint;
use surmise_sys::seccomp::Notification;
use surmise_syscalls::Syscall;
use surmise_testkit::{skip, tell};

use crate::tracee::{Script, Tracee};

const PYTHON: &str = "/usr/bin/python3";

/// Imports much, and prints what it has got.
const PROGRAM: &str = "\
import sys, json, email.parser, http.client, unittest, decimal, argparse, sqlite3, ctypes
from xml.dom import minidom
print(len(sys.modules), sorted(sys.modules))
print(json.dumps(minidom.parseString('<a><b c=\"d\"/></a>').toxml()))
print(decimal.Decimal(2).sqrt(), email.parser.Parser().parsestr('A: b').items())
";

/// Each so manyth opening of a file is said to have failed.
const EVERY: u64 = 5;

/// No such file.
const ENOENT: i64 = 2;

/// Says that a file is not there, lets the program look for it elsewhere, and takes all that back before
/// it does more than look.
#[derive(Default)]
struct Mispredicting {
    opened: u64,
    checkpoint: Option<Checkpoint>,
    /// The call that was mispredicted is being made again.
    is_repeated: bool,
    rollbacks: u64,
    pages: u64,
}

pub fn imports(_programs: &Path) {
    if !Path::new(PYTHON).exists() {
        return skip(format_args!("there is no {PYTHON}"));
    }
    let command = || {
        let mut command = Command::new(PYTHON);
        // It would write compiled modules, which nobody takes back here.
        command.args(["-B", "-c", PROGRAM]).env_clear();
        command
    };
    let plain = command().output().expect("start python3");
    assert!(plain.status.success(), "{plain:?}");
    let mut script = Mispredicting::default();
    let (output, status) = Tracee::start(&mut command(), None).run(&mut script);
    assert_eq!(output, String::from_utf8_lossy(&plain.stdout));
    assert_eq!(status, Some(0));
    assert!(script.rollbacks > 20, "{} rollbacks", script.rollbacks);
    let Mispredicting {
        rollbacks, pages, ..
    } = script;
    tell(format_args!(
        "python3: {rollbacks} rollbacks, {pages} pages"
    ));
}

impl Script for Mispredicting {
    fn hear(&mut self, tracee: &mut Tracee, name: Syscall, call: &Notification) {
        if let Some(mut checkpoint) = self.checkpoint.take() {
            if merely_looks(name, call) {
                self.checkpoint = Some(checkpoint);
                return tracee.let_pass(call);
            }
            self.pages += tracee.roll_back(Some(call), None, &mut checkpoint, &mut |_| ());
            tracee.discard(checkpoint);
            self.rollbacks += 1;
            self.is_repeated = true;
            return;
        }
        let is_repeated = std::mem::take(&mut self.is_repeated);
        let is_opening = name == Syscall::Openat && merely_looks(name, call);
        assert!(is_opening || !is_repeated, "{name} is made instead");
        if is_opening && !is_repeated {
            self.opened += 1;
            if self.opened.is_multiple_of(EVERY) {
                self.checkpoint = Some(tracee.checkpoint(call, -ENOENT));
                return;
            }
        }
        tracee.let_pass(call);
    }
}

/// Whether a call does nothing that outlives the process.
fn merely_looks(name: Syscall, call: &Notification) -> bool {
    match name {
        Syscall::Openat => {
            let flags = OFlags::from_bits_retain(call.arguments[2] as u32);
            !flags.intersects(OFlags::WRONLY | OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC)
        }
        Syscall::Newfstatat
        | Syscall::Stat
        | Syscall::Lstat
        | Syscall::Fstat
        | Syscall::Access
        | Syscall::Readlink
        | Syscall::Read
        | Syscall::Pread64
        | Syscall::Getdents64 => true,
        _ => false,
    }
}
