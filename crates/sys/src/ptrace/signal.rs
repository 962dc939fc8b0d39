//! A signal on its way to a thread.

use std::fmt;

/// A signal with all that its handler is told of it (sigaction(2), `siginfo_t`).
#[derive(Clone, Copy)]
pub struct SignalInfo(libc::siginfo_t);

impl SignalInfo {
    pub(super) fn new(raw: libc::siginfo_t) -> Self {
        Self(raw)
    }

    pub(super) fn raw(&self) -> &libc::siginfo_t {
        &self.0
    }

    /// `SIGCHLD`, as the kernel tells of a child that has exited by itself. `times` are what the child has used, in clock
    /// ticks: its own time and the kernel's.
    pub fn of_exit(child: i32, user: u32, status: u8, times: [i64; 2]) -> Self {
        /// Where the kernel has these fields (`struct siginfo` of x86-64).
        const STATUS: usize = 24;
        const TIMES: [usize; 2] = [32, 40];
        let status = i32::from(status).to_ne_bytes();
        let [own, kernels] = times.map(i64::to_ne_bytes);
        let fields: [(usize, &[u8]); 3] =
            [(STATUS, &status), (TIMES[0], &own), (TIMES[1], &kernels)];
        Self::by((child, user), (libc::SIGCHLD, libc::CLD_EXITED), &fields)
    }

    /// A signal as the kernel tells of one that a process has sent. `sender`: the process and its real user, by the numbers that the
    /// receiver knows. `by_thread`: whether it was sent by tkill(2) or tgkill(2), rather than by kill(2).
    pub fn of_sender(number: i32, sender: (i32, u32), by_thread: bool) -> Self {
        let code = match by_thread {
            true => libc::SI_TKILL,
            false => libc::SI_USER,
        };
        Self::by(sender, (number, code), &[])
    }

    /// A signal of this number and code that comes from a process of a user. `fields`: what else is told, each at its place.
    fn by(
        (process, user): (i32, u32),
        (number, code): (i32, i32),
        fields: &[(usize, &[u8])],
    ) -> Self {
        /// Where the kernel has these fields (`struct siginfo` of x86-64).
        const PROCESS: usize = 16;
        const USER: usize = 20;
        // SAFETY: a siginfo_t is plain data for which all zeros is a value.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        info.si_signo = number;
        info.si_code = code;
        // SAFETY: every byte has a value, and any bytes are a value.
        let mut bytes: [u8; size_of::<libc::siginfo_t>()] = unsafe { std::mem::transmute(info) };
        let (process, user) = (process.to_ne_bytes(), user.to_ne_bytes());
        let source: [(usize, &[u8]); 2] = [(PROCESS, &process), (USER, &user)];
        for (place, field) in source.iter().chain(fields) {
            bytes[*place..place + field.len()].copy_from_slice(field);
        }
        // SAFETY: as above.
        Self(unsafe {
            std::mem::transmute::<[u8; size_of::<libc::siginfo_t>()], libc::siginfo_t>(bytes)
        })
    }

    /// As rt_sigqueueinfo(2) takes it.
    pub fn bytes(&self) -> [u8; size_of::<libc::siginfo_t>()] {
        // SAFETY: the kernel has filled all of it, so every byte has a value.
        unsafe { std::mem::transmute(self.0) }
    }

    /// What the kernel has written at a place that a call named, as rt_sigtimedwait(2) and waitid(2) do. `None` where
    /// it has written nothing.
    pub fn of_bytes(bytes: [u8; size_of::<libc::siginfo_t>()]) -> Option<Self> {
        // SAFETY: a siginfo_t is numbers, and any bytes are numbers.
        let raw: libc::siginfo_t = unsafe { std::mem::transmute(bytes) };
        (raw.si_signo != 0).then_some(Self(raw))
    }

    /// The child that it tells of, by its number where the receiver is (SIGCHLD of signal(7)).
    pub fn child(&self) -> Option<i32> {
        // SAFETY: the kernel has filled the field for such a signal from it, whose codes are positive.
        (self.0.si_signo == libc::SIGCHLD && self.0.si_code > 0).then(|| unsafe { self.0.si_pid() })
    }

    /// Whether it tells of the end of a child: of no stop, and not that it goes on.
    pub fn is_of_end(&self) -> bool {
        let ends = [libc::CLD_EXITED, libc::CLD_KILLED, libc::CLD_DUMPED];
        self.child().is_some() && ends.contains(&self.0.si_code)
    }

    /// What it tells of the end of a child beside its number: its real user, `si_code`, and `si_status`.
    pub fn end(&self) -> Option<(u32, i32, i32)> {
        // SAFETY: the kernel has filled the fields for such a signal.
        let told = || unsafe { (self.0.si_uid(), self.0.si_code, self.0.si_status()) };
        self.is_of_end().then(told)
    }

    /// Whether the timer of setitimer(2) and alarm(2) has sent it.
    pub fn is_of_timer(&self) -> bool {
        /// SI_KERNEL of sigaction(2).
        const KERNEL: i32 = 0x80;
        self.0.si_signo == libc::SIGALRM && self.0.si_code == KERNEL
    }

    /// Its number.
    pub fn number(&self) -> i32 {
        self.0.si_signo
    }

    /// Whether it is none, but tells that the thread was asked to stop, or stopped with its job.
    pub fn is_stop(&self) -> bool {
        self.0.si_code >> 8 == libc::PTRACE_EVENT_STOP
    }

    /// Whether the thread has caused it by what it did: a bad address, a division by zero, a trap.
    pub fn is_fault(&self) -> bool {
        let faults = [
            libc::SIGSEGV,
            libc::SIGBUS,
            libc::SIGILL,
            libc::SIGFPE,
            libc::SIGTRAP,
            libc::SIGSYS,
        ];
        // From the kernel, and not about a timer or a message queue, whose codes are negative.
        self.0.si_code > 0 && faults.contains(&self.number())
    }
}

/// Whether all that is told of them is the same.
impl PartialEq for SignalInfo {
    fn eq(&self, other: &Self) -> bool {
        self.bytes() == other.bytes()
    }
}

impl Eq for SignalInfo {}

impl fmt::Debug for SignalInfo {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("SignalInfo")
            .field("number", &self.number())
            .field("code", &self.0.si_code)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_that_has_stopped_has_not_ended() {
        let mut info = SignalInfo::of_exit(77, 1000, 0, [0; 2]);
        for code in [libc::CLD_STOPPED, libc::CLD_CONTINUED, libc::SI_USER] {
            info.0.si_code = code;
            assert!(!info.is_of_end(), "{code}");
        }
    }

    #[test]
    fn who_has_sent_a_signal_is_told_as_the_kernel_tells() {
        for (by_thread, code) in [(false, libc::SI_USER), (true, libc::SI_TKILL)] {
            let info = SignalInfo::of_sender(libc::SIGUSR1, (77, 1000), by_thread);
            assert_eq!((info.number(), info.0.si_code), (libc::SIGUSR1, code));
            assert!(!info.is_fault() && !info.is_stop() && info.child().is_none());
            // SAFETY: they are the fields of a signal that a process has sent.
            unsafe { assert_eq!((info.0.si_pid(), info.0.si_uid()), (77, 1000)) };
        }
    }

    #[test]
    fn the_end_of_a_child_is_told_as_the_kernel_tells() {
        let info = SignalInfo::of_exit(77, 1000, 0xab, [3, 4]);
        assert_eq!((info.number(), info.child()), (libc::SIGCHLD, Some(77)));
        assert_eq!(info.0.si_code, libc::CLD_EXITED);
        assert_eq!(info.end(), Some((1000, libc::CLD_EXITED, 0xab)));
        // SAFETY: they are the fields of a SIGCHLD.
        unsafe {
            assert_eq!((info.0.si_uid(), info.0.si_status()), (1000, 0xab));
            assert_eq!((info.0.si_utime(), info.0.si_stime()), (3, 4));
        }
    }
}
