//! One program, recorded once, and its disk after losses of power.

use std::io::{BufRead, BufReader};
use std::ops::AddAssign;
use std::path::Path;
use std::process::{Command, Stdio};

use surmise_testkit::{BlockLog, PowerLoss};

use super::kills::Kill;
use super::programs::Program;

/// What is tried.
pub(super) struct Trial<'t> {
    pub(super) program: &'t Program,
    /// The words that run the program.
    pub(super) command: &'t [String],
    /// Of the file system.
    pub(super) options: &'t str,
    pub(super) kill: Option<Kill>,
    pub(super) states: usize,
}

/// What power losses left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) states: usize,
    /// Something was not there that had been shown.
    pub(super) lost: usize,
    /// What was there was no state that the program ever left.
    pub(super) damaged: usize,
    /// One of the losses after which something was wrong, and what had been shown.
    pub(super) example: Option<(PowerLoss, usize)>,
}

impl Found {
    pub(super) fn wrong(self) -> usize {
        self.lost + self.damaged
    }
}

impl AddAssign for Found {
    fn add_assign(&mut self, more: Self) {
        self.states += more.states;
        self.lost += more.lost;
        self.damaged += more.damaged;
        self.example = self.example.or(more.example);
    }
}

/// What was shown when.
struct Shown {
    /// How many flushes the disk had been asked for by then.
    flushes: usize,
    number: usize,
}

impl Trial<'_> {
    pub(super) fn run(&self, disk: &BlockLog) -> Found {
        disk.make_ext4();
        let mounted = disk.mount_with(self.options);
        (self.program.prepare)(mounted.path());
        drop(mounted);
        let mounted = disk.mount_with(self.options);
        disk.record();
        let shown = self.show(disk, mounted.path());
        drop(mounted);
        let flushes = disk.stop().len();
        let mut moments: Vec<_> = PowerLoss::spread(flushes, self.states).collect();
        // What matters most after a kill: the power fails when the last line is seen.
        let last = shown.last().filter(|_| self.kill.is_some());
        moments.extend(last.into_iter().flat_map(|shown| {
            [None, Some(1), Some(2)].map(|seed| PowerLoss {
                flushes: shown.flushes,
                seed,
            })
        }));
        let mut found = Found::default();
        for loss in moments {
            found += self.lose(disk, loss, &shown);
        }
        found
    }

    fn lose(&self, disk: &BlockLog, loss: PowerLoss, shown: &[Shown]) -> Found {
        disk.lose_power(loss);
        let recovered = disk.mount_with(self.options);
        let mut shown = shown.iter().rev();
        let last = shown.find(|shown| shown.flushes <= loss.flushes);
        let last = last.map_or(0, |shown| shown.number);
        let found = (self.program.look)(recovered.path());
        let (is_lost, is_damaged) = (found.is_some_and(|number| number < last), found.is_none());
        Found {
            states: 1,
            lost: usize::from(is_lost),
            damaged: usize::from(is_damaged),
            example: (is_lost || is_damaged).then_some((loss, last)),
        }
    }

    fn show(&self, disk: &BlockLog, directory: &Path) -> Vec<Shown> {
        let mut child = Command::new(&self.command[0])
            .args(&self.command[1..])
            .current_dir(directory)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("start the command");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let mut shown = Vec::new();
        for line in lines {
            shown.push(Shown {
                number: line.expect("a line").parse().expect("a number"),
                flushes: disk.flushes(),
            });
            if let Some(kill) = self.kill.filter(|kill| kill.after == shown.len()) {
                kill.strike(child.id());
            }
        }
        let status = child.wait().expect("wait");
        match self.kill {
            None => {
                assert!(status.success(), "{status}");
                assert!(shown.len() >= 30, "{} lines", shown.len());
            }
            Some(kill) => {
                assert!(!status.success(), "{status} after {kill:?}");
                assert!(shown.len() >= kill.after, "{} lines", shown.len());
            }
        }
        shown
    }
}
