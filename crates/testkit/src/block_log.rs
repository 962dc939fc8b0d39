//! A disk that remembers: every write and flush that reaches it, so that it can be put back into any
//! state in which a loss of power could have left it.
//!
//! The disk is a loop device on a file that a FUSE server of ours keeps in memory. It needs root, and
//! nothing of the kernel but loop devices and FUSE. The test program runs itself: the test starts a
//! *server* in a mount namespace of its own, which starts a *client*, in which the test's body runs. So
//! no process holds both the FUSE device and a file above it (such a process can hang in exit), and what
//! is mounted vanishes with the namespace, however the test ends.
//!
//! What a real disk may lose is what was written and not flushed. A write that was under way while a
//! flush was, which a disk may lose too, counts as flushed here if it arrived first.

mod recording;
mod server;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command as Process, Stdio};
use std::thread;
use std::time::Duration;

use rustix::mount::UnmountFlags;
use surmise_fuse::{Config, Session};
use tempfile::TempDir;

use crate::disk::{self, BUSY_LIMIT, Mounted};
use crate::{is_root, skip, watchdog};
pub use recording::PowerLoss;
use server::{CONTROL_NAME, Command, Disk};

/// Which process of the test this one is; absent in the first.
const ROLE: &str = "SURMISE_TEST_BLOCK_LOG_ROLE";
/// The directory that holds the mount points.
const PLACE: &str = "SURMISE_TEST_BLOCK_LOG_PLACE";
/// The loop device.
const DEVICE: &str = "SURMISE_TEST_BLOCK_LOG_DEVICE";

/// A recording disk, without a file system at first.
#[derive(Debug)]
pub struct BlockLog {
    device: PathBuf,
    place: PathBuf,
}

impl BlockLog {
    /// Runs `body` with a disk of `bytes` bytes, or tells why that cannot be here. `test` is the
    /// full name of the calling test, which does nothing else. All is to be over within `limit`.
    #[track_caller]
    pub fn with(test: &str, bytes: usize, limit: Duration, body: impl FnOnce(&Self)) {
        let word = |name| env::var_os(name).map(PathBuf::from);
        match (env::var(ROLE).as_deref(), word(PLACE), word(DEVICE)) {
            (Ok("client"), Some(place), Some(device)) => body(&Self { device, place }),
            (Ok("server"), Some(place), _) => serve(test, bytes, limit, &place),
            _ => start(test, limit),
        }
    }

    /// The block device.
    pub fn device(&self) -> &Path {
        &self.device
    }

    /// Makes an ext4 file system on the disk, with a journal that is small, so that it is used
    /// again and again.
    pub fn make_ext4(&self) {
        disk::make_ext4(&self.device, 4).unwrap_or_else(|reason| panic!("{reason}"));
    }

    /// Mounts the disk's ext4 file system, which recovers after a loss of power; always at the same
    /// place.
    #[track_caller]
    pub fn mount(&self) -> Mounted {
        self.mount_with("")
    }

    /// The same with options of the file system's own, as `mount -o` takes them.
    #[track_caller]
    pub fn mount_with(&self, options: &str) -> Mounted {
        self.mount_device(&self.device, options)
    }

    /// The same with another device number, as the machine may give the disk at its next start.
    #[track_caller]
    pub fn mount_renumbered(&self) -> Mounted {
        let other = disk::attach(&self.place.join("served"))
            .unwrap_or_else(|reason| panic!("a second loop device: {reason}"));
        self.mount_device(&other, "").borrowing(other)
    }

    #[track_caller]
    fn mount_device(&self, device: &Path, options: &str) -> Mounted {
        Mounted::ext4(device, &self.place.join("mounted"), options)
            .unwrap_or_else(|reason| panic!("{reason}"))
    }

    /// From here on every write and flush is noted; what the disk holds now stays.
    pub fn record(&self) {
        self.tell(Command::Record);
    }

    /// Notes nothing more. Returns how many blocks were written before each flush, and behind the last.
    pub fn stop(&self) -> Vec<usize> {
        self.tell(Command::Stop);
        self.blocks()
    }

    /// How many flushes have returned since the recording began.
    pub fn flushes(&self) -> usize {
        self.blocks().len() - 1
    }

    fn blocks(&self) -> Vec<usize> {
        let told = fs::read_to_string(self.control()).expect("read what was recorded");
        let words = told.split(' ').map(str::parse);
        words.collect::<Result<_, _>>().expect("numbers")
    }

    /// Puts the disk, which must not be mounted, into the state after a loss of power. The recording
    /// is kept.
    pub fn lose_power(&self, loss: PowerLoss) {
        self.tell(Command::Become(loss));
    }

    /// From here on every write and flush fails with `EIO`.
    pub fn break_down(&self) {
        self.tell(Command::Break);
    }

    fn control(&self) -> PathBuf {
        self.place.join("served").join(CONTROL_NAME)
    }

    fn tell(&self, command: Command) {
        let control = fs::File::options().write(true).open(self.control());
        let mut control = control.expect("open the control file");
        std::io::Write::write_all(&mut control, command.to_text().as_bytes())
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    }
}

fn start(test: &str, limit: Duration) {
    if let Some(reason) = lack() {
        return skip(reason);
    }
    let place = TempDir::new().expect("a temporary directory");
    let child = this_test(Process::new("unshare").arg("-m"), test)
        .env(ROLE, "server")
        .env(PLACE, place.path())
        .spawn()
        .expect("unshare starts");
    // The server ends its client in time.
    let finished = watchdog::wait(child, "the disk's server", limit + 2 * BUSY_LIMIT);
    assert!(finished.status.success(), "the test failed: see above");
}

/// What this machine lacks.
fn lack() -> Option<String> {
    if !is_root() {
        return Some("only root can mount a disk".into());
    }
    for device in ["/dev/fuse", "/dev/loop-control"] {
        if let Err(error) = fs::File::options().read(true).write(true).open(device) {
            return Some(format!("{device}: {error}"));
        }
    }
    let works = |command: &[&str]| {
        let mut process = Process::new(command[0]);
        process.args(&command[1..]).stdin(Stdio::null());
        process.stdout(Stdio::null()).stderr(Stdio::null());
        process.status().is_ok_and(|status| status.success())
    };
    let wanted: [&[&str]; 3] = [
        &["unshare", "-m", "true"],
        &["losetup", "-V"],
        &["mkfs.ext4", "-V"],
    ];
    let lacking = wanted.into_iter().find(|command| !works(command))?;
    Some(format!("`{}` does not work here", lacking.join(" ")))
}

/// The test's own program, started by `command`.
fn this_test<'c>(command: &'c mut Process, test: &str) -> &'c mut Process {
    command
        .arg(env::current_exe().expect("this program"))
        .args([test, "--exact", "--nocapture"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
}

fn serve(test: &str, bytes: usize, limit: Duration, place: &Path) {
    let (served, mounted) = (place.join("served"), place.join("mounted"));
    for point in [&served, &mounted] {
        fs::create_dir(point).expect("a mount point");
    }
    let config = Config {
        threads: 1,
        ..Config::default()
    };
    let device = disk::mount_served(&served).unwrap_or_else(|reason| panic!("{reason}"));
    let session = Session::new(device, config);
    // Not joined: it ends with this process, even if the loop device could not be given back.
    thread::spawn(move || session.serve(&Disk::new(bytes)));
    let device = match disk::attach(&served) {
        Ok(device) => device,
        Err(reason) => return skip(format!("no loop device: {reason}")),
    };
    let client = this_test(&mut Process::new("env"), test)
        .env(ROLE, "client")
        .env(DEVICE, &device)
        .env(PLACE, place)
        .spawn()
        .expect("env starts");
    let is_over = thread::spawn(move || watchdog::wait(client, "the test's body", limit)).join();
    // A test that failed may have left it mounted.
    let _ = rustix::mount::unmount(&mounted, UnmountFlags::DETACH);
    let detached = Process::new("losetup").arg("-d").arg(&device).status();
    assert!(
        detached.expect("losetup starts").success(),
        "{} stays",
        device.display()
    );
    let _ = rustix::mount::unmount(&served, UnmountFlags::DETACH);
    assert!(is_over.is_ok_and(|finished| finished.status.success()));
}
