//! Calls that a stop has made fail with `EINTR` although no signal was handled.
//!
//! The kernel begins most interrupted calls again by itself. A few report `EINTR` for any interruption. In a
//! stop the result is in a register, and the kernel looks at it only afterwards: so it is replaced by what
//! the other calls leave there. Then the kernel does what is right in each case: the program sees `EINTR` if
//! a handler of a signal runs, else the call begins again.

use surmise_sys::ptrace::Stopped;

/// Makes the call that a stopped task comes from, if it is one of these, begin again.
pub(super) fn prepare(stopped: &Stopped) {
    // Fails only for a task that was killed meanwhile; and for 32-bit programs, whose calls have other
    // numbers.
    if let Ok(registers) = stopped.registers()
        && let Some(undisturbed) = registers.undisturbed_if_changed()
    {
        let _ = stopped.set_registers(&undisturbed);
    }
}
