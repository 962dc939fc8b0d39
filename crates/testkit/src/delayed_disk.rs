//! A disk in memory whose flushes take a while: what a program waits for when it calls fsync(2), and nothing
//! else of a disk's slowness.
//!
//! It is a loop device on a file of a FUSE server of ours. The kernel reads and writes the memory behind the
//! file by itself (FUSE passthrough), so only a flush comes to the server, which lets it wait. It takes
//! root, and Linux 6.9.
//!
//! A loop device does one thing after the other for all that comes from one control group: nothing is read
//! or written while it flushes, as with many a real disk.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use rustix::fs::MemfdFlags;
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use rustix::process::Signal;
use surmise_fuse::{
    Backing, Caller, Capabilities, Config, FileSystem, KnownAttributes, Lookup, Negotiated,
    Notifier, Open, OpenReply, ROOT, Session,
};

use crate::disk::{self, DISK_NAME, Mounted};

/// So that a transaction of the journal seldom has to wait for an older one to be written to its place.
const JOURNAL_MEGABYTES: u32 = 128;

/// What the server says when the disk can be used.
const SERVED: &str = "served";

/// The disk, for the process that uses it. Gone when this is dropped.
#[derive(Debug)]
pub struct DelayedDisk {
    place: PathBuf,
    device: PathBuf,
    /// The loop device goes away when nobody has it open; taken when the value is dropped.
    held: Option<File>,
    server: Child,
}

impl DelayedDisk {
    /// Makes a disk. `server` is a command that calls [`serve`] with the directory `served` in `place`,
    /// where all is mounted. The caller should have a mount namespace of its own, so that nothing stays
    /// when it is killed.
    ///
    /// # Errors
    /// What failed.
    pub fn start(place: &Path, server: &mut Command) -> Result<Self, String> {
        for point in ["served", "mounted"] {
            let point = place.join(point);
            fs::create_dir_all(&point)
                .map_err(|error| format!("create {}: {error}", point.display()))?;
        }
        let mut child = server
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("start the disk's server: {error}"))?;
        let opened = said(&mut child).and_then(|()| open(&place.join("served")));
        match opened {
            Ok((device, held)) => Ok(Self {
                place: place.to_owned(),
                device,
                held: Some(held),
                server: child,
            }),
            Err(error) => {
                end(&place.join("served"), &mut child);
                Err(error)
            }
        }
    }

    /// The file below the loop device.
    pub fn image(&self) -> PathBuf {
        self.place.join("served").join(DISK_NAME)
    }

    /// Makes an ext4 file system and mounts it with options of its own, as `mount -o` takes them.
    ///
    /// # Errors
    /// What failed.
    pub fn fresh_ext4(&self, options: &str) -> Result<Mounted, String> {
        disk::make_ext4(&self.device, JOURNAL_MEGABYTES)?;
        Mounted::ext4(&self.device, &self.place.join("mounted"), options)
    }
}

impl Drop for DelayedDisk {
    fn drop(&mut self) {
        drop(self.held.take());
        end(&self.place.join("served"), &mut self.server);
    }
}

/// Waits until the disk is served.
fn said(server: &mut Child) -> Result<(), String> {
    let output = server.stdout.take().ok_or("the server has no output")?;
    let mut line = String::new();
    let read = BufReader::new(output).read_line(&mut line);
    match read {
        Ok(_) if line.trim() == SERVED => Ok(()),
        _ => Err("the disk's server has ended".to_owned()),
    }
}

/// A loop device that goes away when the result is closed and it is not mounted.
fn open(served: &Path) -> Result<(PathBuf, File), String> {
    let device = disk::attach(served)?;
    let held = File::open(&device);
    // While it is open this only has it go later.
    let detached = Command::new("losetup").arg("-d").arg(&device).status();
    if !detached.is_ok_and(|status| status.success()) {
        return Err(format!("{} stays", device.display()));
    }
    let held = held.map_err(|error| format!("open {}: {error}", device.display()))?;
    Ok((device, held))
}

fn end(served: &Path, server: &mut Child) {
    // Lazily: the kernel may still be giving the loop device back.
    let _ = rustix::mount::unmount(served, UnmountFlags::DETACH);
    // It ends when all is unmounted; whatever it keeps the kernel takes back.
    for _ in 0..500 {
        if !matches!(server.try_wait(), Ok(None)) {
            return;
        }
        thread::sleep(Duration::from_millis(2));
    }
    let _ = server.kill();
    let _ = server.wait();
}

/// The server of a disk: mounts its file in the directory `served`, and answers until that is unmounted or
/// the parent ends.
///
/// # Errors
/// What failed.
pub fn serve(served: &Path, bytes: u64, delay: Duration) -> Result<(), String> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|error| format!("end with the parent: {error}"))?;
    let memory = rustix::fs::memfd_create("disk", MemfdFlags::CLOEXEC)
        .and_then(|memory| rustix::fs::ftruncate(&memory, bytes).map(|()| memory))
        .map_err(|error| format!("memory for a disk: {error}"))?;
    let config = Config {
        wanted: Capabilities::LOCAL_VIEW | Capabilities::PASSTHROUGH,
        ..Config::default()
    };
    let session = Session::new(disk::mount_served(served)?, config);
    let disk = Disk {
        memory: memory.into(),
        bytes,
        delay,
        backing: OnceLock::new(),
    };
    // What comes before the first request is answered waits for it.
    println(SERVED).map_err(|error| format!("say that the disk is there: {error}"))?;
    session
        .serve(&disk)
        .map_err(|error| format!("serve a disk: {error}"))
}

fn println(line: &str) -> io::Result<()> {
    let mut output = io::stdout();
    writeln!(output, "{line}")?;
    output.flush()
}

const DISK: u64 = ROOT + 1;

struct Disk {
    memory: File,
    bytes: u64,
    delay: Duration,
    /// The memory, as the kernel knows it.
    backing: OnceLock<Backing>,
}

impl FileSystem for Disk {
    fn init(&self, _: &Negotiated, kernel: Notifier) {
        if let Ok(backing) = kernel.register(self.memory.as_fd()) {
            let _ = self.backing.set(backing);
        }
    }

    fn lookup(&self, _: Caller, _: u64, name: &OsStr) -> io::Result<Lookup> {
        match name.to_str() {
            Some(DISK_NAME) => Ok(Lookup::Found(disk::entry(disk::file(DISK, self.bytes)))),
            _ => Err(Errno::NOENT.into()),
        }
    }

    fn getattr(&self, _: Caller, node: u64, _: Option<u64>) -> io::Result<KnownAttributes> {
        Ok(match node {
            ROOT => disk::root(),
            _ => disk::file(DISK, self.bytes),
        })
    }

    fn open(&self, _: Caller, _: u64, _: Open) -> io::Result<OpenReply> {
        // Without passthrough it would be another disk, and a slow one.
        let backing = self.backing.get().ok_or(Errno::OPNOTSUPP)?;
        Ok(OpenReply {
            backing: Some(backing.id()),
            ..OpenReply::default()
        })
    }

    fn fsync(&self, _: Caller, _: u64, _: u64, _: bool) -> io::Result<()> {
        if !self.delay.is_zero() {
            thread::sleep(self.delay);
        }
        Ok(())
    }
}
