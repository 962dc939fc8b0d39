//! What processes do to files and directories: fanotify(7), with objects told by their handles.
//!
//! Only inodes are marked, which an ordinary user may do, too. Such a listener is told the process number of its own process,
//! and no other (fanotify(7), Linux 5.13).

use std::ffi::{CStr, CString};
use std::fmt::{self, Debug, Formatter};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::buffer::spare_capacity;

/// `AT_HANDLE_FID` of linux/fcntl.h: a handle that need not be good for opening (Linux 6.5).
const HANDLE_FID: libc::c_int = 0x200;

/// `FAN_REPORT_TARGET_FID` of linux/fanotify.h: events on names tell what the name leads to (Linux 5.17).
const REPORT_TARGET_FID: libc::c_uint = 0x1000;

const REPORTS: libc::c_uint = libc::FAN_CLASS_NOTIF
    | libc::FAN_CLOEXEC
    | libc::FAN_NONBLOCK
    | libc::FAN_REPORT_FID
    | libc::FAN_REPORT_DIR_FID
    | libc::FAN_REPORT_NAME;

/// What is told of an inode that is marked. What was written by a mapping is told of when the file is closed.
const OF_INODE: u64 =
    libc::FAN_MODIFY | libc::FAN_CLOSE_WRITE | libc::FAN_ATTRIB | libc::FAN_DELETE_SELF;

const ON_NAMES: u64 =
    libc::FAN_CREATE | libc::FAN_DELETE | libc::FAN_MOVED_FROM | libc::FAN_MOVED_TO;

/// What is told of a directory that is marked, and of all that has a name there.
const OF_DIRECTORY: u64 =
    OF_INODE | ON_NAMES | libc::FAN_MOVE_SELF | libc::FAN_EVENT_ON_CHILD | libc::FAN_ONDIR;

/// The longest handle, in bytes (linux/exportfs.h, `MAX_HANDLE_SZ`).
const HANDLE_MAX: usize = 128;

/// How many bytes of events are read at once.
const READ_BYTES: usize = 64 << 10;

/// Names an inode of one file system: no later inode that gets the same number has the same handle (name_to_handle_at(2)).
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Handle(Box<[u8]>);

/// What a process has done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Whether the process is the caller's.
    pub is_own: bool,
    /// What it is about.
    pub what: What,
    /// The inode that was changed, or that got or lost a name; `None` where the kernel does not tell.
    pub object: Option<Handle>,
    /// The directory in which the inode had a name when it was changed, or in which the name itself was changed. `None` for a
    /// file that was marked itself.
    pub place: Option<(Handle, Vec<u8>)>,
}

/// What an event is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct What(u64);

impl What {
    /// Events were lost since too many had not been read; nothing else is told.
    pub fn is_overflow(self) -> bool {
        self.0 & libc::FAN_Q_OVERFLOW != 0
    }

    /// A name in a directory came or went.
    pub fn is_name(self) -> bool {
        self.0 & ON_NAMES != 0
    }

    /// A name in a directory came.
    pub fn is_new_name(self) -> bool {
        self.0 & (libc::FAN_CREATE | libc::FAN_MOVED_TO) != 0
    }

    /// An object lost a name, and may have got another one elsewhere.
    pub fn is_move(self) -> bool {
        self.0 & libc::FAN_MOVED_FROM != 0
    }

    /// The data of a file were changed.
    pub fn is_data(self) -> bool {
        self.0 & libc::FAN_MODIFY != 0
    }
}

impl Debug for Handle {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Handle {
    /// The handle of what is open, for whatever it is open.
    ///
    /// # Errors
    /// `EOPNOTSUPP` where the file system has none.
    pub fn of(inode: BorrowedFd<'_>) -> io::Result<Self> {
        Self::find(inode, c"", libc::AT_EMPTY_PATH)
    }

    /// The handle of what a name in an open directory leads to.
    ///
    /// # Errors
    /// As [`Handle::of`] and openat(2).
    pub fn at(directory: BorrowedFd<'_>, name: &[u8]) -> io::Result<Self> {
        Self::find(directory, &CString::new(name)?, 0)
    }

    fn find(at: BorrowedFd<'_>, name: &CStr, flags: libc::c_int) -> io::Result<Self> {
        let mut flags = flags | HANDLE_FID;
        let mut buffer = [0_u32; 2 + HANDLE_MAX / 4];
        let mut mount = 0;
        loop {
            buffer[0] = HANDLE_MAX as u32;
            // SAFETY: the buffer is aligned as a `file_handle`, has room for as many bytes behind its two numbers as the first of them
            // says, and outlives the call, as does the name.
            let outcome = unsafe {
                libc::name_to_handle_at(
                    at.as_raw_fd(),
                    name.as_ptr(),
                    buffer.as_mut_ptr().cast(),
                    &raw mut mount,
                    flags,
                )
            };
            if outcome == 0 {
                let bytes: Vec<u8> = buffer.iter().flat_map(|word| word.to_ne_bytes()).collect();
                let length = (8 + buffer[0] as usize).min(bytes.len());
                return Ok(Self(bytes[4..length].into()));
            }
            let error = io::Error::last_os_error();
            if error.raw_os_error() != Some(libc::EINVAL) || flags & HANDLE_FID == 0 {
                return Err(error);
            }
            flags &= !HANDLE_FID;
        }
    }

    /// From `struct file_handle` at the beginning of these bytes; how long it is.
    fn parse(bytes: &[u8]) -> Option<(Self, usize)> {
        let length = u32_at(bytes, 0)? as usize;
        let end = length.checked_add(8)?;
        Some((Self(bytes.get(4..end)?.into()), end))
    }
}

/// Tells what is done to the inodes that are marked.
#[derive(Debug)]
pub struct Listener {
    descriptor: OwnedFd,
    process: i32,
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl Listener {
    /// One that listens to nothing yet. It has as many marks as it needs, where the user may have that.
    ///
    /// # Errors
    /// `ENOSYS`, `EINVAL` or `EPERM` where the kernel has no such listeners for this user; `EMFILE` where the user has too many.
    pub fn new() -> io::Result<Self> {
        let unlimited = libc::FAN_UNLIMITED_MARKS;
        let mut error = io::Error::from_raw_os_error(libc::EINVAL);
        for more in [
            unlimited | REPORT_TARGET_FID,
            REPORT_TARGET_FID,
            unlimited,
            0,
        ] {
            // SAFETY: the call takes numbers alone.
            let made = unsafe { libc::fanotify_init(REPORTS | more, libc::O_RDONLY as u32) };
            if made >= 0 {
                return Ok(Self {
                    // SAFETY: the kernel has just given this descriptor to the caller alone.
                    descriptor: unsafe { OwnedFd::from_raw_fd(made) },
                    process: rustix::process::getpid().as_raw_pid(),
                });
            }
            error = io::Error::last_os_error();
        }
        Err(error)
    }

    /// Marks what is open, for whatever it is open. Of a directory, all that has a name there is heard of, too.
    ///
    /// # Errors
    /// `EACCES` without the right to read it; `ENOSPC` where the user has too many marks; `EOPNOTSUPP`, `ENODEV`, `EXDEV` or
    /// `EINVAL` where the file system has no handles.
    pub fn mark(&self, inode: BorrowedFd<'_>, is_directory: bool) -> io::Result<()> {
        let path = CString::new(format!("/proc/self/fd/{}", inode.as_raw_fd()))?;
        let mask = if is_directory { OF_DIRECTORY } else { OF_INODE };
        // SAFETY: the path outlives the call; all else are numbers.
        let marked = unsafe {
            libc::fanotify_mark(
                self.descriptor.as_raw_fd(),
                libc::FAN_MARK_ADD,
                mask,
                libc::AT_FDCWD,
                path.as_ptr(),
            )
        };
        match marked {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Takes all marks back.
    ///
    /// # Errors
    /// None that is known.
    pub fn unmark_all(&self) -> io::Result<()> {
        // SAFETY: the path outlives the call; all else are numbers.
        let flushed = unsafe {
            libc::fanotify_mark(
                self.descriptor.as_raw_fd(),
                libc::FAN_MARK_FLUSH,
                0,
                libc::AT_FDCWD,
                c"/".as_ptr(),
            )
        };
        match flushed {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Appends all that was done and was not told yet, in its order. It does not wait.
    ///
    /// # Errors
    /// None that is known.
    pub fn read(&self, events: &mut Vec<Event>) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(READ_BYTES);
        loop {
            bytes.clear();
            match rustix::io::read(&self.descriptor, spare_capacity(&mut bytes)) {
                Ok(0) | Err(rustix::io::Errno::AGAIN) => return Ok(()),
                Ok(_) => self.parse(&bytes, events),
                Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    fn parse(&self, mut bytes: &[u8], events: &mut Vec<Event>) {
        while let Some(length) = u32_at(bytes, 0)
            && let Some(event) = bytes.get(..length as usize)
            && let Some(event) = self.parse_event(event)
        {
            events.push(event);
            bytes = &bytes[length as usize..];
        }
    }

    /// `struct fanotify_event_metadata`, and the records behind it.
    fn parse_event(&self, bytes: &[u8]) -> Option<Event> {
        let metadata_length = u16::from_ne_bytes(*bytes.get(6..)?.first_chunk()?);
        let mask = u64::from_ne_bytes(*bytes.get(8..)?.first_chunk()?);
        let process = i32::from_ne_bytes(*bytes.get(20..)?.first_chunk()?);
        let mut event = Event {
            is_own: process == self.process,
            what: What(mask),
            object: None,
            place: None,
        };
        let mut records = bytes.get(usize::from(metadata_length)..)?;
        while let Some([kind, _, length @ ..]) = records.first_chunk::<4>() {
            let length = usize::from(u16::from_ne_bytes(length[..2].try_into().ok()?));
            let record = records.get(..length).filter(|_| length > 0)?;
            // Behind the header and the number of the file system.
            if let Some((handle, end)) = record.get(12..).and_then(Handle::parse) {
                let name = record[12 + end..].split(|byte| *byte == 0).next();
                match *kind {
                    libc::FAN_EVENT_INFO_TYPE_FID => event.object = Some(handle),
                    libc::FAN_EVENT_INFO_TYPE_DFID_NAME => {
                        event.place = Some((handle, name.unwrap_or_default().to_vec()));
                    }
                    _ => {}
                }
            }
            records = &records[length..];
        }
        Some(event)
    }
}

fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    let bytes = bytes.get(offset..)?.first_chunk()?;
    Some(u32::from_ne_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::path::Path;
    use std::process::Command;

    use super::*;

    fn handle(path: &Path) -> Handle {
        Handle::of(File::open(path).expect("open").as_fd()).expect("a handle")
    }

    fn read(listener: &Listener) -> Vec<Event> {
        let mut events = Vec::new();
        listener.read(&mut events).expect("read");
        events
    }

    #[test]
    fn what_others_do_is_told_from_what_the_process_does() {
        let scratch = tempfile::tempdir().expect("a directory");
        let path = scratch.path();
        let Ok(listener) = Listener::new() else {
            return surmise_testkit::skip("the kernel has no fanotify for this user");
        };
        let directory = File::open(path).expect("open");
        listener.mark(directory.as_fd(), true).expect("mark it");
        fs::write(path.join("own"), "text").expect("write");
        let own = read(&listener);
        assert!(
            !own.is_empty() && own.iter().all(|event| event.is_own),
            "{own:?}"
        );
        let script = "echo more >> own && mv own other && ln other third";
        let mut shell = Command::new("sh");
        let status = shell.args(["-c", script]).current_dir(path).status();
        assert!(status.expect("start a shell").success());
        let events = read(&listener);
        let (whole, file) = (handle(path), handle(&path.join("other")));
        assert!(events.iter().all(|event| !event.is_own), "{events:?}");
        let is_at = |event: &Event, name: &str| {
            event.place == Some((whole.clone(), name.into())) && event.object == Some(file.clone())
        };
        let any = |holds: &dyn Fn(&Event) -> bool| events.iter().any(holds);
        assert!(
            any(&|one| one.what.is_data() && is_at(one, "own")),
            "{events:?}"
        );
        assert!(any(&|one| one.what.is_name()
            && !one.what.is_new_name()
            && is_at(one, "own")));
        assert!(any(&|one| one.what.is_new_name() && is_at(one, "other")));
        assert!(any(&|one| one.what.is_new_name() && is_at(one, "third")));
        listener.unmark_all().expect("unmark");
        Command::new("touch")
            .arg(path.join("more"))
            .status()
            .expect("touch");
        assert_eq!(read(&listener), []);
    }

    #[test]
    fn a_number_that_is_given_again_has_another_handle() {
        let scratch = tempfile::tempdir().expect("a directory");
        let path = scratch.path().join("file");
        File::create(&path).expect("create");
        let first = handle(&path);
        assert_eq!(handle(&path), first);
        for _ in 0..3 {
            fs::remove_file(&path).expect("remove");
            File::create(&path).expect("create");
            assert_ne!(handle(&path), first);
        }
    }
}
