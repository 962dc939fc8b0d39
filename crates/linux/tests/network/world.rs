//! Processes with a gated network, of root and of an ordinary user.

use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use std::{fs, io};

use nix::sched::{CloneFlags, unshare};
use rustix::event::{PollFd, PollFlags};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags};
use rustix::process::{DumpableBehavior, Gid, Signal, Uid};
use rustix::time::Timespec;
use surmise_linux::network;
use surmise_linux::network::gate::{Gate, HostSettings, Loopback, Setup, set_up};
use surmise_sys::{mounts, process};
use surmise_testkit::{is_root, skip};

use crate::packet::Syn;
use crate::relay::{self, Answer, Seen};

/// How long one test may take.
const LIMIT: Timespec = Timespec {
    tv_sec: 60,
    tv_nsec: 0,
};

/// How long a test waits for the relay to see something.
const SOON: Duration = Duration::from_secs(10);

/// An ordinary user's number; nobody in particular.
const ORDINARY: u32 = 65_534;

/// The address on which the tests serve names.
pub const NAMES: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 53));

/// Whose processes the tests are.
#[derive(Clone, Copy, Debug)]
pub enum World {
    Caller,
    /// Root's tests, as somebody else.
    Ordinary,
}

impl World {
    /// None where the device is missing, or closed to this user.
    pub fn all() -> Vec<Self> {
        let access = OFlags::RDWR | OFlags::CLOEXEC;
        if let Err(errno) = rustix::fs::open("/dev/net/tun", access, Mode::empty()) {
            skip(format!("/dev/net/tun: {errno}"));
            return Vec::new();
        }
        match is_root() {
            true => vec![Self::Caller, Self::Ordinary],
            false => vec![Self::Caller],
        }
    }

    /// Runs `scenario` in a process of its own, with a new gated network.
    pub fn run(self, name: &str, loopback: Loopback<'static>, scenario: fn(&mut Network)) {
        let child = process::fork(&[], || {
            scenario(&mut Network::new(self, loopback));
            0
        })
        .expect("fork");
        let mut events = [PollFd::new(&child, PollFlags::IN)];
        if rustix::event::poll(&mut events, Some(&LIMIT)) != Ok(1) {
            child.signal(Signal::KILL).expect("kill the test's process");
        }
        let status = child.wait().expect("wait");
        assert_eq!(
            status.exit_status(),
            Some(0),
            "{name} as {self:?}: {status:?}"
        );
    }

    /// Becomes the user, and gives the directory of the TUN device.
    fn enter(self) -> OwnedFd {
        let directory = |path: &Path| {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            rustix::fs::open(path, flags, Mode::empty()).expect("open a directory")
        };
        if matches!(self, Self::Caller) {
            return directory(Path::new("/dev/net"));
        }
        // A device that is open to all, as on most machines, for this process alone.
        let devices = std::env::temp_dir();
        mounts::enter_new().expect("mounts of its own");
        let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
        rustix::mount::mount_change("/", private).expect("make mounts private");
        rustix::mount::mount("none", &devices, "tmpfs", MountFlags::empty(), None)
            .expect("mount a tmpfs");
        let device = rustix::fs::makedev(10, 200);
        let mode = Mode::from_raw_mode(0o666);
        let tun = devices.join("tun");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &tun,
            FileType::CharacterDevice,
            mode,
            device,
        )
        .expect("make a device");
        rustix::fs::chmod(&tun, mode).expect("open the device to all");
        let directory = directory(&devices);
        // As when a domain has left the host's mounts behind.
        rustix::mount::unmount(&devices, UnmountFlags::DETACH).expect("detach the tmpfs");
        rustix::thread::set_thread_groups(&[]).expect("drop groups");
        rustix::thread::set_thread_gid(Gid::from_raw(ORDINARY)).expect("change group");
        rustix::thread::set_thread_uid(Uid::from_raw(ORDINARY)).expect("change user");
        rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable).expect("own /proc/self");
        directory
    }
}

/// A process' gated network.
pub struct Network {
    tun_directory: OwnedFd,
    gate: Option<Gate>,
    seen: Option<Receiver<Seen>>,
}

impl Network {
    fn new(world: World, loopback: Loopback<'_>) -> Self {
        let tun_directory = world.enter();
        let settings = HostSettings::read().expect("read the host's settings");
        let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
        unshare(CloneFlags::CLONE_NEWUSER).expect("a user namespace of its own");
        let map = |file: &str, text: String| fs::write(file, text).expect("map ids");
        map("/proc/self/setgroups", "deny".into());
        map("/proc/self/uid_map", format!("{uid} {uid} 1"));
        map("/proc/self/gid_map", format!("{gid} {gid} 1"));
        network::enter_new().expect("a network of its own");
        let setup = Setup {
            settings: Some(&settings),
            ..setup(tun_directory.as_fd(), loopback)
        };
        let gate = set_up(&setup).unwrap_or_else(|error| panic!("set up: {error}"));
        Self {
            tun_directory,
            gate: Some(gate),
            seen: None,
        }
    }

    /// Tries to set up another gate in the same namespace.
    pub fn set_up_again(&self) -> io::Result<Gate> {
        set_up(&setup(self.tun_directory.as_fd(), Loopback::None))
    }

    /// The gate, until it is served.
    pub fn gate(&self) -> &Gate {
        self.gate.as_ref().expect("not served yet")
    }

    /// Starts the relay.
    pub fn serve(&mut self, answer: fn(&Syn) -> Answer) {
        let (sender, receiver) = channel();
        relay::serve(self.gate.take().expect("served once"), answer, sender);
        self.seen = Some(receiver);
    }

    /// What the relay has seen next, awaited.
    pub fn seen(&self) -> Seen {
        let receiver = self.seen.as_ref().expect("served");
        receiver
            .recv_timeout(SOON)
            .expect("the relay sees something")
    }

    /// Fails if the relay has seen anything more.
    pub fn nothing_seen(&self) {
        let receiver = self.seen.as_ref().expect("served");
        if let Ok(seen) = receiver.try_recv() {
            panic!("the relay has seen {seen:?}");
        }
    }
}

/// What the tests' gates need, with `/dev/net` or what stands for it.
pub fn setup<'a>(tun_directory: BorrowedFd<'a>, loopback: Loopback<'a>) -> Setup<'a> {
    Setup {
        tun_directory,
        settings: None,
        loopback,
        names: Some(NAMES),
        ipv6: true,
    }
}
