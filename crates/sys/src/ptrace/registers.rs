//! General registers, and what they say of the call that a thread comes from.

/// The register set of [`Registers`], `NT_PRSTATUS`.
pub(super) const GENERAL: i32 = 1;
/// The register set of extended state, `NT_X86_XSTATE`.
pub(super) const FULL_STATE: i32 = 0x202;

/// The bytes of the `syscall` instruction.
const CALL_LENGTH: u64 = 2;
/// `RFLAGS.TF`: set, the processor traps after one instruction.
const TRAP_FLAG: u64 = 1 << 8;

// What the kernel leaves as the result of a call that it will begin again; programs never see them.
const ERESTARTSYS: i64 = -512;
const ERESTARTNOINTR: i64 = -513;
const ERESTARTNOHAND: i64 = -514;
const ERESTART_RESTARTBLOCK: i64 = -516;

/// How a call ends that has not happened, for a signal that its thread is about to take. Without a handler each begins again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interruption {
    /// As one that no signal interrupts: it begins again.
    Never,
    /// As one that sleeps: it fails with `EINTR`, unless the handler was set so that it begins again (SA_RESTART of sigaction(2)).
    Asleep,
    /// It fails with `EINTR`, however the handler was set (signal(7)).
    Always,
}

impl Interruption {
    /// What the kernel makes that of, as the result of the call.
    pub fn result(self) -> i64 {
        match self {
            Self::Never => ERESTARTNOINTR,
            Self::Asleep => ERESTARTSYS,
            Self::Always => ERESTARTNOHAND,
        }
    }
}

/// Calls that report `EINTR` for any interruption, a stop included, and have done nothing yet when they
/// do (signal(7)). Reads and writes are among them for sockets with a timeout.
const REPORT_INTERRUPTION: [i64; 19] = [
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_pause,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_io_getevents,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_connect,
];

/// Calls that report `EINTR` where the file system that serves the file has them give way to a stop, and have done nothing then.
/// No signal interrupts them.
const GIVE_WAY: [i64; 44] = [
    libc::SYS_open,
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_creat,
    libc::SYS_truncate,
    libc::SYS_ftruncate,
    libc::SYS_fallocate,
    libc::SYS_pwrite64,
    libc::SYS_pwritev,
    libc::SYS_pwritev2,
    libc::SYS_copy_file_range,
    libc::SYS_sendfile,
    libc::SYS_rename,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_link,
    libc::SYS_linkat,
    libc::SYS_unlink,
    libc::SYS_unlinkat,
    libc::SYS_symlink,
    libc::SYS_symlinkat,
    libc::SYS_mkdir,
    libc::SYS_mkdirat,
    libc::SYS_rmdir,
    libc::SYS_mknod,
    libc::SYS_mknodat,
    libc::SYS_chmod,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchmodat2,
    libc::SYS_chown,
    libc::SYS_fchown,
    libc::SYS_lchown,
    libc::SYS_fchownat,
    libc::SYS_utime,
    libc::SYS_utimes,
    libc::SYS_futimesat,
    libc::SYS_utimensat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
];

/// How many words the general registers are.
const WORDS: usize = 27;
const _: () = assert!(size_of::<libc::user_regs_struct>() == WORDS * size_of::<u64>());

/// The general registers of a 64-bit thread.
#[derive(Clone, Copy, Debug)]
pub struct Registers(libc::user_regs_struct);

impl PartialEq for Registers {
    fn eq(&self, other: &Self) -> bool {
        self.words() == other.words()
    }
}

impl Eq for Registers {}

/// Calls that no signal interrupts, whatever its handler, but that may wait for a listener (seccomp_unotify(2)). The kernel
/// reports `EINTR` for a signal that comes before the listener has received the call.
const NEVER_INTERRUPTED: [i64; 30] = [
    libc::SYS_access,
    libc::SYS_chdir,
    libc::SYS_clone,
    libc::SYS_dup,
    libc::SYS_dup2,
    libc::SYS_dup3,
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_exit_group,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_fork,
    libc::SYS_fstat,
    libc::SYS_getcwd,
    libc::SYS_getdents64,
    libc::SYS_lseek,
    libc::SYS_lstat,
    libc::SYS_mmap,
    libc::SYS_newfstatat,
    libc::SYS_pipe,
    libc::SYS_pipe2,
    libc::SYS_prctl,
    libc::SYS_readlink,
    libc::SYS_readlinkat,
    libc::SYS_rt_sigaction,
    libc::SYS_set_tid_address,
    libc::SYS_setpgid,
    libc::SYS_stat,
    libc::SYS_umask,
    libc::SYS_vfork,
];

impl Registers {
    fn words(&self) -> &[u64; WORDS] {
        // SAFETY: it is that many words, as is asserted above, and any bits are a word.
        unsafe { &*std::ptr::from_ref(&self.0).cast() }
    }

    pub(super) fn new(raw: libc::user_regs_struct) -> Self {
        Self(raw)
    }

    pub(super) fn raw(&self) -> &libc::user_regs_struct {
        &self.0
    }

    /// The result of the call that it comes from, or just `rax`.
    pub fn result(&self) -> i64 {
        self.0.rax as i64
    }

    /// The number of the call that it comes from, if it comes from one.
    pub fn call(&self) -> Option<i64> {
        Some(self.0.orig_rax as i64).filter(|number| *number >= 0)
    }

    /// The arguments of that call.
    pub fn arguments(&self) -> [u64; 6] {
        let raw = &self.0;
        [raw.rdi, raw.rsi, raw.rdx, raw.r10, raw.r8, raw.r9]
    }

    /// Where it executes next.
    pub fn instruction_pointer(&self) -> u64 {
        self.0.rip
    }

    /// Where its stack ends.
    pub fn stack_pointer(&self) -> u64 {
        self.0.rsp
    }

    /// These registers, about to make a call by the `syscall` instruction at `instruction`.
    #[must_use]
    pub fn calling(&self, instruction: u64, number: i64, arguments: [u64; 6]) -> Self {
        let mut raw = self.0;
        raw.rip = instruction;
        raw.rax = number as u64;
        // "Comes from no call": the kernel begins none again.
        raw.orig_rax = u64::MAX;
        [raw.rdi, raw.rsi, raw.rdx, raw.r10, raw.r8, raw.r9] = arguments;
        raw.eflags &= !TRAP_FLAG;
        Self(raw)
    }

    /// These registers, with a stack pointer that leads nowhere.
    #[must_use]
    pub fn without_stack(&self) -> Self {
        let mut raw = self.0;
        raw.rsp = 0;
        Self(raw)
    }

    /// These registers, back from their call with a result.
    #[must_use]
    pub fn returning(&self, result: i64) -> Self {
        let mut raw = self.0;
        raw.rax = result as u64;
        raw.orig_rax = u64::MAX;
        Self(raw)
    }

    /// These registers of a thread whose call has not happened, as if it had slept in the call until a signal came. The kernel makes
    /// of that what it would: where a handler runs the call fails with `EINTR`, or is made again if it `may_begin_again` and the
    /// handler was set so (SA_RESTART of sigaction(2)).
    #[must_use]
    pub fn interrupted(&self, may_begin_again: bool) -> Self {
        let mut raw = self.0;
        raw.rax = match may_begin_again {
            true => ERESTARTSYS as u64,
            false => ERESTARTNOHAND as u64,
        };
        Self(raw)
    }

    /// These registers of a thread whose call has not happened, about to make it again.
    #[must_use]
    pub fn repeating(&self) -> Self {
        let mut raw = self.0;
        raw.rax = raw.orig_rax;
        raw.rip -= CALL_LENGTH;
        raw.orig_rax = u64::MAX;
        Self(raw)
    }

    /// Whether the call that a stopped thread comes from was interrupted before it did anything.
    pub fn was_interrupted(&self) -> bool {
        let from_call = (self.0.orig_rax as i64) >= 0;
        let result = self.result();
        from_call
            && (matches!(
                result,
                ERESTARTSYS | ERESTARTNOINTR | ERESTARTNOHAND | ERESTART_RESTARTBLOCK
            ) || result == -i64::from(libc::EINTR)
                && [&REPORT_INTERRUPTION[..], &GIVE_WAY]
                    .iter()
                    .any(|calls| calls.contains(&(self.0.orig_rax as i64))))
    }

    /// Whether the call is a poll(2) that no time ends: made again, it waits no longer than it would have.
    fn polls_without_end(&self) -> bool {
        self.0.orig_rax as i64 == libc::SYS_poll && (self.0.rdx as i32) < 0
    }

    /// These registers in a form that means the same in another moment: a call that was interrupted is
    /// made again. As they are, the kernel would do that by what it remembers of the thread.
    #[must_use]
    pub fn settled(&self) -> Self {
        if self.was_interrupted() {
            return self.repeating();
        }
        let mut raw = self.0;
        raw.orig_rax = u64::MAX;
        Self(raw)
    }

    /// As they are, but that a call which reports any interruption begins again unless a handler of a
    /// signal runs, and one that no signal interrupts begins again in any case: for a thread that was merely stopped, or
    /// that takes a signal.
    #[must_use]
    pub fn undisturbed(&self) -> Self {
        self.undisturbed_if_changed().unwrap_or(*self)
    }

    /// As they are, but that the call begins again in any case, for a thread that takes a signal in a call which has not
    /// begun. `None` where a call was not interrupted in that way.
    pub fn beginning_again(&self) -> Option<Self> {
        let is_unbegun = self.call().is_some() && self.result() == ERESTARTSYS;
        let mut raw = self.0;
        raw.rax = ERESTARTNOINTR as u64;
        is_unbegun.then_some(Self(raw))
    }

    /// As [`Self::undisturbed`]; `None` where they are that already.
    pub fn undisturbed_if_changed(&self) -> Option<Self> {
        let is_among = |calls: &[i64]| calls.contains(&(self.0.orig_rax as i64));
        let again = match self.result() {
            _ if !self.was_interrupted() => return None,
            result if result == -i64::from(libc::EINTR) => match is_among(&GIVE_WAY) {
                true => ERESTARTNOINTR,
                false => ERESTARTNOHAND,
            },
            ERESTARTSYS if is_among(&NEVER_INTERRUPTED) => ERESTARTNOINTR,
            // The kernel would have it go on by a call of its own, which tells nobody that it is a poll.
            ERESTART_RESTARTBLOCK if self.polls_without_end() => ERESTARTNOHAND,
            _ => return None,
        };
        let mut raw = self.0;
        raw.rax = again as u64;
        Some(Self(raw))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from_call(number: i64, result: i64) -> Registers {
        // SAFETY: plain numbers, for which all zeros is a value.
        let mut raw: libc::user_regs_struct = unsafe { std::mem::zeroed() };
        raw.rip = 0x1002;
        raw.orig_rax = number as u64;
        raw.rax = result as u64;
        Registers::new(raw)
    }

    #[test]
    fn an_interrupted_call_is_made_again() {
        for result in [-512, -513, -514, -516] {
            let settled = from_call(libc::SYS_futex, result).settled();
            assert_eq!(settled.instruction_pointer(), 0x1000);
            assert_eq!(settled.result(), libc::SYS_futex);
        }
        let settled = from_call(libc::SYS_epoll_wait, -4).settled();
        assert_eq!(settled.instruction_pointer(), 0x1000);
    }

    #[test]
    fn what_was_merely_disturbed_goes_on_as_if_it_had_not_been() {
        let goes_on = |number, result| {
            let registers = from_call(number, result).undisturbed_if_changed();
            registers.map(|registers| registers.result())
        };
        assert_eq!(goes_on(libc::SYS_epoll_wait, -4), Some(-514));
        // It waited to be heard of, for the kernel itself interrupts no fork.
        assert_eq!(goes_on(libc::SYS_clone, -512), Some(-513));
        for (number, result) in [
            (libc::SYS_clone, -513),
            (libc::SYS_clone, -4),
            (libc::SYS_read, -512),
            (libc::SYS_nanosleep, -4),
            (libc::SYS_read, 7),
        ] {
            assert_eq!(goes_on(number, result), None, "{number} {result}");
        }
    }

    #[test]
    fn a_change_of_a_file_that_gave_way_is_made_again_whatever_signal_comes() {
        let interrupted = from_call(libc::SYS_openat, -i64::from(libc::EINTR));
        let again = interrupted.undisturbed_if_changed();
        assert_eq!(again.map(|registers| registers.result()), Some(-513));
        let other = from_call(libc::SYS_close, -i64::from(libc::EINTR));
        assert_eq!(other.undisturbed_if_changed(), None);
    }

    /// One that is to end at some time would wait for all of that time again.
    #[test]
    fn a_poll_without_end_is_made_again_as_itself() {
        for (number, time, again) in [
            (libc::SYS_poll, -1, Some(-514)),
            (libc::SYS_poll, 1000, None),
            (libc::SYS_restart_syscall, -1, None),
            (libc::SYS_futex, -1, None),
        ] {
            let mut registers = from_call(number, -516);
            registers.0.rdx = u64::from(i32::cast_unsigned(time));
            let goes_on = registers.undisturbed_if_changed();
            let result = goes_on.map(|registers| registers.result());
            assert_eq!(result, again, "{number} {time}");
        }
    }

    #[test]
    fn a_call_that_has_not_begun_begins_after_any_handler() {
        let again = |number, result| {
            let registers = from_call(number, result).beginning_again();
            registers.map(|registers| registers.result())
        };
        assert_eq!(again(libc::SYS_openat, -512), Some(-513));
        for (number, result) in [(libc::SYS_openat, -4), (libc::SYS_openat, 3), (-1, -512)] {
            assert_eq!(again(number, result), None, "{number} {result}");
        }
    }

    #[test]
    fn a_call_that_is_interrupted_is_left_to_the_kernel() {
        for (may_begin_again, result) in [(true, -512), (false, -514)] {
            let call = from_call(libc::SYS_wait4, 0).interrupted(may_begin_again);
            assert_eq!(
                (call.result(), call.call()),
                (result, Some(libc::SYS_wait4))
            );
            assert!(call.was_interrupted());
        }
    }

    #[test]
    fn a_finished_call_is_not_made_again() {
        for (number, result) in [(libc::SYS_read, 7), (libc::SYS_nanosleep, -4), (-1, -512)] {
            let settled = from_call(number, result).settled();
            assert_eq!(settled.instruction_pointer(), 0x1002);
            assert_eq!(settled.result(), result);
        }
    }
}
