//! Calls that a stop has made fail with `EINTR` although no signal was handled.
//!
//! The kernel begins most interrupted calls again by itself. A few report `EINTR` for any
//! interruption. In a stop the result is in a register, and the kernel looks at it only afterwards: so
//! it is replaced by what the other calls leave there, `ERESTARTNOHAND`. Then the kernel does what is
//! right in each case: the program sees `EINTR` if a handler of a signal runs, else the call begins
//! again.

use std::mem::offset_of;

use libc::user_regs_struct as Registers;
use rustix::process::Pid;

/// "Begin again unless a handler runs": never seen by a program, so no header for programs has it.
const ERESTARTNOHAND: i64 = 514;

/// The calls that may begin again as they are: those which have done nothing yet when they fail so.
const CALLS: [i64; 18] = [
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_io_getevents,
    // Sockets with SO_RCVTIMEO or SO_SNDTIMEO.
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

/// Makes the call that a stopped task comes from, if it is one of these, begin again.
pub(super) fn prepare(thread: Pid) {
    // Fails only for a task that was killed meanwhile.
    let word = |offset| peek(thread, offset).unwrap_or(-1);
    // -1 there: it comes from no call.
    if CALLS.contains(&word(offset_of!(Registers, orig_rax)))
        && word(offset_of!(Registers, rax)) == -i64::from(libc::EINTR)
        && word(offset_of!(Registers, cs)) == CODE_64_BIT
    {
        poke(thread, offset_of!(Registers, rax), -ERESTARTNOHAND);
    }
}

/// The code segment of 64-bit programs; for others the calls have other numbers.
const CODE_64_BIT: i64 = 0x33;

fn peek(thread: Pid, offset: usize) -> Option<i64> {
    let mut word: libc::c_long = 0;
    // SAFETY: unlike the C library's function the call itself writes the word to its fourth argument,
    // which outlives it. The offset is one of the kernel's `struct user`, which begins with the
    // registers.
    let result = unsafe {
        libc::syscall(
            libc::SYS_ptrace,
            libc::c_long::from(libc::PTRACE_PEEKUSER),
            libc::c_long::from(thread.as_raw_nonzero().get()),
            offset,
            &raw mut word,
        )
    };
    (result == 0).then_some(word)
}

fn poke(thread: Pid, offset: usize, word: i64) {
    // SAFETY: writes one register of a stopped tracee and nothing of this process.
    unsafe { libc::ptrace(libc::PTRACE_POKEUSER, thread.as_raw_nonzero(), offset, word) };
}
