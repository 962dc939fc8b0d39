//! What `status` says (proc_pid_status(5)).

use std::io;

use rustix::process::{Pid, Signal};

use super::Entry;
use super::entry::number;

/// Of a process or a thread, at one moment.
#[derive(Clone, Debug)]
pub struct Status(String);

impl Status {
    /// That of an entry.
    ///
    /// # Errors
    /// As for reading /proc.
    pub fn of(entry: impl Into<Entry>) -> io::Result<Self> {
        Ok(Self(entry.into().text("status")?))
    }

    /// The name of the thread. What is no UTF-8 in it is replaced.
    pub fn name(&self) -> &str {
        self.field("Name:").unwrap_or_default()
    }

    /// One letter: `t` for a stopped tracee, `Z` for a zombie.
    pub fn state(&self) -> Option<char> {
        self.field("State:")?.chars().next()
    }

    /// The process.
    pub fn process(&self) -> Option<Pid> {
        self.field("Tgid:").and_then(number)
    }

    /// The thread.
    pub fn thread(&self) -> Option<Pid> {
        self.field("Pid:").and_then(number)
    }

    /// The parent of the process, if the caller can see it.
    pub fn parent(&self) -> Option<Pid> {
        self.field("PPid:").and_then(number)
    }

    /// Who traces it.
    pub fn tracer(&self) -> Option<Pid> {
        self.field("TracerPid:").and_then(number)
    }

    /// The number of the thread in the innermost pid namespace that it is in.
    pub fn inner(&self) -> Option<Pid> {
        let numbers = self.field("NSpid:")?;
        numbers
            .split_ascii_whitespace()
            .next_back()
            .and_then(number)
    }

    /// The number of the thread in the so-and-so-many-th pid namespace, from the caller's down, if it is in so many.
    pub fn number_at(&self, depth: usize) -> Option<Pid> {
        let numbers = self.field("NSpid:")?;
        let mut numbers = numbers.split_ascii_whitespace();
        numbers.nth(depth.checked_sub(1)?).and_then(number)
    }

    /// The process group, by its number in the innermost pid namespace that the thread is in.
    pub fn inner_group(&self) -> Option<Pid> {
        let numbers = self.field("NSpgid:")?;
        numbers
            .split_ascii_whitespace()
            .next_back()
            .and_then(number)
    }

    /// In how many pid namespaces it is, from the caller's down.
    pub fn pid_namespaces(&self) -> usize {
        let numbers = self.field("NSpid:").unwrap_or_default();
        numbers.split_ascii_whitespace().count()
    }

    /// How many filters are on its calls.
    pub fn filters(&self) -> u32 {
        self.count("Seccomp_filters:") as u32
    }

    /// Whether the process ignores a signal.
    pub fn ignores(&self, signal: Signal) -> bool {
        self.has_in("SigIgn:", signal)
    }

    /// Whether the process ignores the signal of this number, from 1 to 64.
    pub fn ignores_number(&self, signal: u32) -> bool {
        self.has_number_in("SigIgn:", signal)
    }

    /// Whether the process has a handler for a signal.
    pub fn catches(&self, signal: Signal) -> bool {
        self.has_in("SigCgt:", signal)
    }

    /// Whether the process has a handler for the signal of this number, from 1 to 64.
    pub fn catches_number(&self, signal: u32) -> bool {
        self.has_number_in("SigCgt:", signal)
    }

    /// Whether the thread blocks a signal.
    pub fn blocks(&self, signal: Signal) -> bool {
        self.has_in("SigBlk:", signal)
    }

    /// Whether the thread blocks the signal of this number, from 1 to 64.
    pub fn blocks_number(&self, signal: u32) -> bool {
        self.has_number_in("SigBlk:", signal)
    }

    /// Whether a signal of this number, from 1 to 64, waits for the thread or for its process.
    pub fn has_waiting(&self, signal: u32) -> bool {
        ["SigPnd:", "ShdPnd:"]
            .iter()
            .any(|name| self.has_number_in(name, signal))
    }

    /// Whether any signal waits for the thread or for its process.
    pub fn has_any_waiting(&self) -> bool {
        ["SigPnd:", "ShdPnd:"]
            .iter()
            .any(|name| self.mask(name) != 0)
    }

    /// The signals that wait for the thread alone, signal 1 lowest.
    pub fn waiting_for_thread(&self) -> u64 {
        self.mask("SigPnd:")
    }

    /// The signals that wait for any thread of the process, signal 1 lowest.
    pub fn waiting_for_process(&self) -> u64 {
        self.mask("ShdPnd:")
    }

    fn has_in(&self, name: &str, signal: Signal) -> bool {
        self.has_number_in(name, signal.as_raw().cast_unsigned())
    }

    fn has_number_in(&self, name: &str, signal: u32) -> bool {
        let bit = 1_u64.checked_shl(signal.wrapping_sub(1)).unwrap_or(0);
        self.mask(name) & bit != 0
    }

    /// The signals that a field names, signal 1 lowest.
    fn mask(&self, name: &str) -> u64 {
        let mask = self.field(name);
        mask.and_then(|mask| u64::from_str_radix(mask, 16).ok())
            .unwrap_or(0)
    }

    /// Whether the process would have the same capabilities after it has executed a program that gives none
    /// (capabilities(7)): all that it may ever have, as root; or no more than stay with it.
    pub fn keeps_capabilities(&self) -> bool {
        let [inheritable, permitted, effective, bounding, ambient] =
            ["CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"].map(|name| self.mask(name));
        let is_root = self.numbers("Uid:").next() == Some(0);
        let after = match is_root {
            true => inheritable | bounding,
            false => ambient,
        };
        [permitted, effective] == [after; 2] && !(is_root && ambient != 0)
    }

    /// The effective user, by the caller's number.
    pub fn user(&self) -> Option<u32> {
        self.numbers("Uid:").nth(1)
    }

    /// Whether the real, effective, saved and file system numbers are one, of the user and of the group.
    pub fn is_one_user(&self) -> bool {
        ["Uid:", "Gid:"].into_iter().all(|name| {
            let mut numbers = self.numbers(name);
            let first = numbers.next();
            first.is_some() && numbers.all(|number| Some(number) == first)
        })
    }

    /// Whether any of its memory is locked.
    pub fn has_locked_memory(&self) -> bool {
        self.field("VmLck:").is_none_or(|size| size != "0 kB")
    }

    /// Whether the processor does more with its memory than with other processes': it has a shadow stack, or addresses with tags.
    pub fn has_special_memory(&self) -> bool {
        let has_features = |features: &str| !features.is_empty();
        let has_tags = |mask: &str| mask != "0xffffffffffffffff";
        self.field("x86_Thread_features:").is_some_and(has_features)
            || self.field("untag_mask:").is_some_and(has_tags)
    }

    /// How many threads the process has, those included that have ended and are not reaped.
    pub fn threads(&self) -> usize {
        self.count("Threads:") as usize
    }

    /// How often the thread has given up a processor, by itself and not: while that stays so, it sleeps.
    pub fn switches(&self) -> (u64, u64) {
        let switches = ["voluntary_ctxt_switches:", "nonvoluntary_ctxt_switches:"];
        switches.map(|name| self.count(name)).into()
    }

    /// The numbers that a field has.
    pub(super) fn numbers(&self, name: &str) -> impl Iterator<Item = u32> + '_ {
        let field = self.field(name).unwrap_or_default();
        field.split_ascii_whitespace().flat_map(str::parse)
    }

    fn count(&self, name: &str) -> u64 {
        let field = self.field(name);
        field.and_then(|count| count.parse().ok()).unwrap_or(0)
    }

    fn field(&self, name: &str) -> Option<&str> {
        let line = self.0.lines().find_map(|line| line.strip_prefix(name));
        line.map(str::trim)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_read_whatever_the_name() {
        let text = "Name:\tmy: Pid:\t7\nState:\tS (sleeping)\nTgid:\t4100\nPid:\t4101\nTracerPid:\t0\nNSpid:\t4101\t41\nNSpgid:\t4100\t40\n\
                    Threads:\t3\nSigBlk:\t0000000000000002\nSigIgn:\t0000000000001001\nSigCgt:\t0000000000000004\nSeccomp_filters:\t3\nvoluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t6\n";
        let status = Status(text.to_owned());
        assert_eq!((status.name(), status.state()), ("my: Pid:\t7", Some('S')));
        let pid = |number| Pid::from_raw(number);
        assert_eq!((status.process(), status.thread()), (pid(4100), pid(4101)));
        assert_eq!((status.inner(), status.tracer()), (pid(41), None));
        assert_eq!((status.pid_namespaces(), status.filters()), (2, 3));
        let numbers = [0, 1, 2, 3].map(|depth| status.number_at(depth));
        assert_eq!(numbers, [None, pid(4101), pid(41), None]);
        assert!(status.ignores(Signal::HUP) && !status.ignores(Signal::INT));
        assert!(status.blocks(Signal::INT) && !status.blocks(Signal::HUP));
        assert!(status.catches(Signal::QUIT) && !status.catches(Signal::INT));
        assert_eq!(status.inner_group(), pid(40));
        assert_eq!((status.threads(), status.switches()), (3, (5, 6)));
        assert_eq!(Status("Name:\tx\n".to_owned()).inner(), None);
    }

    #[test]
    fn what_a_program_would_change_is_told() {
        let status = |users: &str, capabilities: [u64; 5]| {
            let names = ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"];
            let lines = names.iter().zip(capabilities);
            let lines: String = lines
                .map(|(name, set)| format!("{name}:\t{set:016x}\n"))
                .collect();
            Status(format!(
                "Uid:\t{users}\nGid:\t5\t5\t5\t5\nVmLck:\t0 kB\nSigCgt:\t6\n{lines}"
            ))
        };
        let keeps = |users, sets| status(users, sets).keeps_capabilities();
        assert!(keeps("0\t0\t0\t0", [0, 7, 7, 7, 0]));
        // It would get again what it has given up, or is without for now.
        assert!(!keeps("0\t0\t0\t0", [0, 3, 3, 7, 0]));
        assert!(!keeps("0\t0\t0\t0", [0, 7, 3, 7, 0]));
        assert!(keeps("7\t7\t7\t7", [0, 0, 0, 7, 0]));
        assert!(keeps("7\t7\t7\t7", [4, 4, 4, 7, 4]));
        // It would lose them.
        assert!(!keeps("7\t7\t7\t7", [0, 4, 4, 7, 0]));
        assert!(status("7\t7\t7\t7", [0; 5]).is_one_user());
        assert!(!status("7\t0\t7\t7", [0; 5]).is_one_user());
        assert!(!Status(String::new()).is_one_user());
        assert!(!status("7\t7\t7\t7", [0; 5]).has_locked_memory());
        assert!(Status("VmLck:\t4 kB\n".to_owned()).has_locked_memory());
        let special = |told: &str| Status(told.to_owned()).has_special_memory();
        assert!(special("x86_Thread_features:\tshstk \n") && !special("x86_Thread_features:\t\n"));
        assert!(special("untag_mask:\t0x81ffffffffffffff\n"));
        assert!(!special("untag_mask:\t0xffffffffffffffff\n"));
    }

    #[test]
    fn a_thread_is_its_process() {
        let named = std::thread::Builder::new().name("worker".into());
        let thread = named.spawn(|| Status::of(rustix::thread::gettid()).expect("its own"));
        let status = thread.expect("spawn").join().expect("no panic");
        assert_eq!(status.name(), "worker");
        assert_eq!(status.process(), Some(rustix::process::getpid()));
        assert_ne!(status.thread(), status.process());
        assert!(status.threads() > 1);
    }
}
