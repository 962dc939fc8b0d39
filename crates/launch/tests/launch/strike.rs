//! Killing one process of a domain at a moment of the test's choice, and what must hold then.

use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, PidfdFlags, Signal};
use rustix::time::Timespec;
use surmise_testkit::watchdog;

use crate::setting::{Setting, children, name_of};

/// Who is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Victim {
    Control,
    View,
    Relay,
    Supervisor,
    Init,
    /// Of a running commit.
    Committer,
    /// Of a running commit.
    Tracer,
    /// Who asked for a running commit.
    Client,
}

impl Victim {
    /// Its number outside, if it is there.
    pub fn find(self, setting: &Setting) -> Option<i32> {
        let of_control = |name: &str| {
            let mut all = children(setting.control()?).into_iter();
            all.find(|&pid| name_of(pid).as_deref() == Some(name))
        };
        match self {
            Self::Control => setting.control(),
            Self::View => of_control("surmise-view"),
            Self::Relay => of_control("surmise-relay"),
            Self::Supervisor => of_control("surmise-super"),
            Self::Init => of_control("surmise-init"),
            Self::Committer => of_control("surmise-commit"),
            Self::Tracer => of_control("surmise-tracer"),
            Self::Client => setting.client(),
        }
    }
}

/// All processes of a domain at one moment. They are watched by descriptors, for numbers are used again.
pub struct Census {
    processes: Vec<(String, OwnedFd)>,
    /// The pid namespace; held, lest another one gets its number.
    namespace: Option<(String, File)>,
    /// Whether the command had been started.
    pub runs: bool,
}

impl Census {
    pub fn take(setting: &Setting) -> Self {
        let mut all: Vec<i32> = setting.control().into_iter().collect();
        let mut next = 0;
        while let Some(&pid) = all.get(next) {
            all.extend(children(pid));
            next += 1;
        }
        let init = Victim::Init.find(setting);
        let namespace = init.and_then(|pid| {
            let path = format!("/proc/{pid}/ns/pid");
            let held = File::open(&path).ok()?;
            Some((pid_namespace(pid)?, held)).filter(|(name, _)| *name != own_namespace())
        });
        let command = init.and_then(|init| children(init).into_iter().find_map(name_of));
        let watched = all.into_iter().filter_map(|pid| {
            let about = format!("{pid} {}", name_of(pid).unwrap_or_default());
            Some((about, open(pid)?))
        });
        Self {
            processes: watched.collect(),
            namespace,
            runs: command.is_some_and(|name| !name.starts_with("surmise")),
        }
    }

    /// Waits until nobody of the domain is left, also of those born after the census. Returns how long
    /// that took.
    #[track_caller]
    pub fn end(&self, setting: &Setting) -> Duration {
        let start = Instant::now();
        while !self.is_over(setting) {
            assert!(
                start.elapsed() < watchdog::LIMIT,
                "left after {:?}:\n{}",
                watchdog::LIMIT,
                self.left(setting).join("\n")
            );
            thread::sleep(Duration::from_millis(2));
        }
        start.elapsed()
    }

    fn is_over(&self, setting: &Setting) -> bool {
        self.processes.iter().all(|(_, process)| has_ended(process))
            && self.members().is_empty()
            && !setting.has_processes()
    }

    /// Who lives in the domain's pid namespace.
    fn members(&self) -> Vec<i32> {
        let Some((name, _)) = &self.namespace else {
            return Vec::new();
        };
        let all = processes().into_iter();
        all.filter(|&pid| pid_namespace(pid).as_ref() == Some(name) && !is_zombie(pid))
            .collect()
    }

    fn left(&self, setting: &Setting) -> Vec<String> {
        let known = self.processes.iter();
        let known = known.filter(|(_, process)| !has_ended(process));
        let others = self.members().into_iter().chain(setting.processes());
        known
            .map(|(about, _)| about.clone())
            .chain(others.map(described))
            .collect()
    }
}

/// Waits until there is such a process, and kills it after `pause`; takes the census just before.
/// `None` if it has never been there while `meanwhile` held, or has ended in the pause.
pub fn strike(
    setting: &Setting,
    victim: Victim,
    pause: Duration,
    meanwhile: &mut dyn FnMut() -> bool,
) -> Option<Census> {
    let deadline = Instant::now() + watchdog::LIMIT;
    let pid = loop {
        if let Some(pid) = victim.find(setting) {
            break pid;
        }
        if !meanwhile() {
            return None;
        }
        assert!(Instant::now() < deadline, "no {victim:?} came to life");
        thread::sleep(Duration::from_millis(1));
    };
    let process = open(pid)?;
    // Only now is it sure whose number that is.
    if victim.find(setting) != Some(pid) {
        return None;
    }
    thread::sleep(pause);
    let census = Census::take(setting);
    let killed = rustix::process::pidfd_send_signal(&process, Signal::KILL);
    killed.is_ok().then_some(census)
}

/// Any process of the command once it has begun, or one that holds an image of such a process, that is meant.
pub fn any_task(setting: &Setting, dice: &mut Dice, is_meant: impl Fn(i32) -> bool) -> Option<Pid> {
    let mut tasks = Victim::Init.find(setting).map_or(Vec::new(), children);
    let mut next = 0;
    while let Some(&task) = tasks.get(next) {
        tasks.extend(children(task));
        next += 1;
    }
    tasks.retain(|&task| has_begun(task) && is_meant(task));
    let place = dice.below(tasks.len() as u64) as usize;
    tasks.get(place).and_then(|&task| Pid::from_raw(task))
}

/// Whether a process has executed a program. Without that one, no command begins.
fn has_begun(process: i32) -> bool {
    let program = fs::read_link(format!("/proc/{process}/exe"));
    program.is_ok_and(|program| !program.ends_with("caller"))
}

/// The state of a process (proc_pid_stat(5)).
pub fn state(process: i32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(") ")?;
    fields.chars().next()
}

/// Numbers that look random, the same for the same seed.
pub struct Dice(pub u64);

impl Dice {
    /// Below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit.max(1)
    }

    pub fn up_to(&mut self, limit: Duration) -> Duration {
        let limit = u64::try_from(limit.as_micros()).expect("a short time");
        Duration::from_micros(self.below(limit))
    }
}

/// How many kills of each kind: many in a soak.
pub fn rounds(few: usize) -> usize {
    let wanted = std::env::var("SURMISE_KILLS").ok();
    wanted.map_or(few, |count| count.parse().expect("SURMISE_KILLS=NUMBER"))
}

fn open(pid: i32) -> Option<OwnedFd> {
    rustix::process::pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()
}

/// A zombie has.
pub fn has_ended(process: &OwnedFd) -> bool {
    let mut events = [PollFd::new(process, PollFlags::IN)];
    rustix::event::poll(&mut events, Some(&Timespec::default())) != Ok(0)
}

pub fn processes() -> Vec<i32> {
    let entries = fs::read_dir("/proc").expect("list /proc").flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.collect()
}

fn pid_namespace(pid: i32) -> Option<String> {
    let link = fs::read_link(format!("/proc/{pid}/ns/pid")).ok()?;
    Some(link.to_str()?.to_owned())
}

/// It waits for a parent outside.
fn is_zombie(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ")
        .next()
        .is_some_and(|rest| rest.starts_with('Z'))
}

fn own_namespace() -> String {
    let pid = i32::try_from(std::process::id()).expect("a pid");
    pid_namespace(pid).expect("a namespace")
}

/// For the report of what hangs.
fn described(pid: i32) -> String {
    let read = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default();
    let status = read("status");
    let state = status.lines().find(|line| line.starts_with("State"));
    let (name, place) = (read("comm"), read("wchan"));
    format!("{pid} {} {state:?} in {place}", name.trim())
}
