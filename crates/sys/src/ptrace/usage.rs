//! What a tracee's process has used.

use std::io;

use rustix::process::Pid;

use super::{News, news};

/// `struct rusage` of getrusage(2), as 64-bit words.
pub type Usage = [i64; size_of::<libc::rusage>() / size_of::<i64>()];

/// Waits for news of a tracee, as [`wait`](super::wait). Also what the tracee's process has used, and the children that it has
/// reaped: what wait4(2) tells of a child that has ended, it tells of a tracee that has stopped.
///
/// # Errors
/// As there.
pub fn wait_for_usage(thread: Pid) -> io::Result<(News, Usage)> {
    let mut usage = Usage::default();
    loop {
        let mut status = 0;
        let pid = thread.as_raw_nonzero().get();
        // SAFETY: writes the status and the usage, which outlive the call. `Usage` is as long as `struct rusage`, and aligned as it
        // is: that has nothing but 64-bit numbers.
        let pid = unsafe {
            let usage = usage.as_mut_ptr().cast::<libc::rusage>();
            libc::wait4(pid, &raw mut status, libc::__WALL, usage)
        };
        if let Some(news) = news(pid, status)? {
            return Ok((news, usage));
        }
    }
}
