//! Who listens: calls of filtered threads, received and answered one by one.

use std::ffi::c_void;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use rustix::io::Errno;
use rustix::process::{Pid, PidfdGetfdFlags};

/// What /proc says that a descriptor of a listener leads to.
const LINK: &str = "anon_inode:seccomp notify";

/// `SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP`: the thread that was answered takes the place of the one that
/// answers on its processor, since that one is about to wait for the next call.
const SYNC_WAKE_UP: u64 = 1;

/// The calls of all threads that one filter is on.
///
/// When it is closed in all processes, a call that waits for its answer fails with `ENOSYS`, and so does
/// every later one: who wants the threads to wait rather than to go astray keeps a copy.
#[derive(Debug)]
pub struct Listener(OwnedFd);

/// A call that waits for its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notification {
    /// Names the call, and no other that this listener will ever see.
    pub id: u64,
    /// The thread that made it, as this process sees it.
    pub thread: Pid,
    /// The call's number.
    pub number: u32,
    /// The argument registers.
    pub arguments: [u64; 6],
    /// Where the thread goes on: behind the instruction that made the call.
    pub instruction_pointer: u64,
}

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It runs, as if nobody had listened.
    Continue,
    /// It does not run, and returns this.
    Value(i64),
    /// It does not run, and fails with this.
    Error(Errno),
}

impl Listener {
    /// The listener that is, or will be, descriptor `number` of the process behind `pidfd`; `None` while
    /// there is none. The caller must be allowed to trace the process.
    ///
    /// # Errors
    /// As `pidfd_getfd`: `EPERM` for who may not, `ESRCH` once the process has ended. `InvalidData` where
    /// the descriptor is something else.
    pub fn of(pidfd: BorrowedFd<'_>, number: RawFd) -> io::Result<Option<Self>> {
        match rustix::process::pidfd_getfd(pidfd, number, PidfdGetfdFlags::empty()) {
            Ok(fd) => Self::new(fd).map(Some),
            Err(Errno::BADF) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Listens by a descriptor that somebody has handed over.
    ///
    /// # Errors
    /// `InvalidData` where it is something else; as `readlink` in /proc.
    pub fn new(fd: OwnedFd) -> io::Result<Self> {
        let link = std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()))?;
        if link.as_os_str() != LINK {
            return Err(io::ErrorKind::InvalidData.into());
        }
        // Linux 6.6. Without it, answers take twice as long.
        // SAFETY: the flags are a number, not an address.
        let _ = unsafe {
            libc::ioctl(
                fd.as_raw_fd(),
                libc::SECCOMP_IOCTL_NOTIF_SET_FLAGS,
                SYNC_WAKE_UP,
            )
        };
        Ok(Self(fd))
    }

    /// The next call; `None` if it has gone meanwhile, or a signal came. Waits where none is there, so
    /// poll first.
    ///
    /// A thread that is not in this process' pid namespace has no number here, which is an error.
    ///
    /// # Errors
    /// As `ioctl`.
    pub fn receive(&self) -> io::Result<Option<Notification>> {
        // SAFETY: integers only, so zero is a value of it.
        let mut call: libc::seccomp_notif = unsafe { std::mem::zeroed() };
        // SAFETY: the kernel writes one structure of this type, whose size is part of the request.
        match unsafe { self.ask(libc::SECCOMP_IOCTL_NOTIF_RECV, (&raw mut call).cast()) } {
            Ok(_) => {}
            Err(Errno::NOENT | Errno::INTR) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        }
        let thread = Pid::from_raw(call.pid.cast_signed());
        Ok(Some(Notification {
            id: call.id,
            thread: thread.ok_or(io::ErrorKind::InvalidData)?,
            number: call.data.nr.cast_unsigned(),
            arguments: call.data.args,
            instruction_pointer: call.data.instruction_pointer,
        }))
    }

    /// Answers a received call. False if it has gone: its thread was killed.
    ///
    /// # Errors
    /// As `ioctl`: `EINPROGRESS` for a call that was answered.
    pub fn answer(&self, id: u64, answer: Answer) -> io::Result<bool> {
        let mut response = libc::seccomp_notif_resp {
            id,
            val: 0,
            error: 0,
            flags: 0,
        };
        match answer {
            Answer::Continue => response.flags = libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32,
            Answer::Value(value) => response.val = value,
            Answer::Error(errno) => response.error = -errno.raw_os_error(),
        }
        // SAFETY: the kernel reads one structure of this type, which outlives the call.
        let sent = unsafe { self.ask(libc::SECCOMP_IOCTL_NOTIF_SEND, (&raw mut response).cast()) };
        unless_gone(sent.map(drop)).map(|done| done.is_some())
    }

    /// Whether a received call still waits for its answer. What was read of the thread before a true
    /// answer was read of the thread that made the call.
    ///
    /// # Errors
    /// As `ioctl`.
    pub fn is_valid(&self, id: u64) -> io::Result<bool> {
        let mut id = id;
        // SAFETY: the kernel reads one u64, which outlives the call.
        let valid = unsafe { self.ask(libc::SECCOMP_IOCTL_NOTIF_ID_VALID, (&raw mut id).cast()) };
        unless_gone(valid.map(drop)).map(|valid| valid.is_some())
    }

    /// Gives the process of a received call a copy of `fd`, and returns its number there: `at`, which is
    /// closed first where it is open, or the lowest free one. `None` if the call has gone.
    ///
    /// # Errors
    /// As `ioctl`: `EBADF` and `EMFILE` where the process may not have more.
    pub fn add_descriptor(
        &self,
        id: u64,
        fd: BorrowedFd<'_>,
        at: Option<RawFd>,
        close_on_exec: bool,
    ) -> io::Result<Option<RawFd>> {
        let number = u32::try_from(at.unwrap_or(0)).map_err(|_| Errno::BADF)?;
        let flags = at.map_or(0, |_| libc::SECCOMP_ADDFD_FLAG_SETFD as u32);
        let mut request = libc::seccomp_notif_addfd {
            id,
            flags,
            srcfd: fd.as_raw_fd().cast_unsigned(),
            newfd: number,
            newfd_flags: if close_on_exec {
                libc::O_CLOEXEC as u32
            } else {
                0
            },
        };
        // SAFETY: the kernel reads one structure of this type, which outlives the call, as does `fd`.
        unless_gone(unsafe { self.ask(libc::SECCOMP_IOCTL_NOTIF_ADDFD, (&raw mut request).cast()) })
    }

    /// # Safety
    /// `argument` must be what the request wants, and live through the call.
    unsafe fn ask(&self, request: libc::Ioctl, argument: *mut c_void) -> Result<RawFd, Errno> {
        // SAFETY: as the caller promises.
        match unsafe { libc::ioctl(self.0.as_raw_fd(), request, argument) } {
            -1 => {
                Err(Errno::from_io_error(&io::Error::last_os_error()).expect("set by the kernel"))
            }
            result => Ok(result),
        }
    }
}

/// Readable while a call waits to be received; a hangup when the last thread with the filter has ended.
impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// `None` for a call that has gone.
fn unless_gone<T>(result: Result<T, Errno>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_and_requests_are_the_kernels() {
        assert_eq!(size_of::<libc::seccomp_data>(), 64);
        assert_eq!(size_of::<libc::seccomp_notif>(), 80);
        assert_eq!(size_of::<libc::seccomp_notif_resp>(), 24);
        assert_eq!(size_of::<libc::seccomp_notif_addfd>(), 24);
        // As `strace` prints them: direction, size, '!', number.
        assert_eq!(libc::SECCOMP_IOCTL_NOTIF_RECV, 0xc050_2100);
        assert_eq!(libc::SECCOMP_IOCTL_NOTIF_SEND, 0xc018_2101);
        assert_eq!(libc::SECCOMP_IOCTL_NOTIF_ID_VALID, 0x4008_2102);
        assert_eq!(libc::SECCOMP_IOCTL_NOTIF_ADDFD, 0x4018_2103);
        assert_eq!(libc::SECCOMP_IOCTL_NOTIF_SET_FLAGS, 0x4008_2104);
    }

    #[test]
    fn what_is_no_listener_is_refused() {
        let file = std::fs::File::open("/dev/null").expect("open");
        let refused = Listener::new(file.into()).expect_err("no listener");
        assert_eq!(refused.kind(), io::ErrorKind::InvalidData);
    }
}
