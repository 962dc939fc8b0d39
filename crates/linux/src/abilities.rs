//! What this kernel and this user can do, found out by trying it.
//!
//! `doctor` prints it, and a launch that fails explains itself with it; a launch that works
//! does not pay for it. There is no other place that asks who the user is.

mod network_gate;
mod user_namespaces;

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountFlags, MountPropagationFlags};
use rustix::process::{PidfdFlags, getpid};
use rustix::thread::UnshareFlags;
use surmise_sys::process;

use crate::id_map::IdMap;

/// One ability.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ability {
    /// What it is, in a few words.
    pub name: &'static str,
    /// Whether a domain cannot start without it.
    pub required: bool,
    /// Whether this user has it on this machine.
    pub have: bool,
    /// What was found: a version, a path, an error.
    pub value: String,
    /// How to get it; empty where it is had.
    pub hint: String,
}

/// All abilities that Surmise uses.
#[derive(Clone, Debug)]
pub struct Abilities {
    /// Linux 5.12 or later: for `mount_setattr`, the newest call that is needed.
    pub kernel: Ability,
    /// Processes watched by descriptor.
    pub pidfd: Ability,
    /// User namespaces with all rights inside.
    pub user_namespaces: Ability,
    /// Numbers for a user namespace: everything, or subordinate ids and the helpers for them.
    pub id_map: Ability,
    /// `/dev/fuse` can be opened.
    pub fuse_device: Ability,
    /// A FUSE file system can be mounted in a user namespace.
    pub fuse_mount: Ability,
    /// System-call filters.
    pub seccomp: Ability,
    /// A network whose connections are decided about one by one.
    pub network_gate: Ability,
    /// Two names swapped in one step, where state is kept.
    pub rename_exchange: Ability,
    /// Copies that share blocks, where state is kept.
    pub reflink: Ability,
}

impl Abilities {
    /// Tries everything. `state` is where domains are kept; it need not exist yet.
    ///
    /// # Panics
    /// When this process has several threads, as [`process::clone`].
    pub fn probe(state: &Path) -> Self {
        let reached = try_mount();
        let directory = state.ancestors().find(|path| path.is_dir());
        let directory = directory.unwrap_or(Path::new("/"));
        Self {
            kernel: kernel(),
            pidfd: pidfd(),
            user_namespaces: user_namespaces::ability(&reached),
            id_map: id_map(),
            fuse_device: fuse_device(),
            fuse_mount: fuse_mount(&reached),
            seccomp: seccomp(),
            network_gate: network_gate::probe(),
            rename_exchange: rename_exchange(directory),
            reflink: reflink(directory),
        }
    }

    /// All of them, those that others need first.
    pub fn iter(&self) -> impl Iterator<Item = &Ability> {
        [
            &self.kernel,
            &self.pidfd,
            &self.user_namespaces,
            &self.id_map,
            &self.fuse_device,
            &self.fuse_mount,
            &self.seccomp,
            &self.network_gate,
            &self.rename_exchange,
            &self.reflink,
        ]
        .into_iter()
    }

    /// The first one without which no domain starts, if one is missing.
    pub fn missing(&self) -> Option<&Ability> {
        self.iter()
            .find(|ability| ability.required && !ability.have)
    }
}

/// How far the trial mount of a FUSE file system in a new user namespace came.
type Reached = Result<(), (Step, io::Error)>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Clone,
    Private,
    Map,
    Device,
    Mount,
}

const STEPS: [Step; 5] = [
    Step::Clone,
    Step::Private,
    Step::Map,
    Step::Device,
    Step::Mount,
];

fn try_mount() -> Reached {
    let at = |step: Step| move |error: rustix::io::Errno| (step, io::Error::from(error));
    let (result, sender) =
        rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(at(Step::Clone))?;
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    let child = process::clone(
        UnshareFlags::NEWUSER | UnshareFlags::NEWNS,
        &[sender.as_fd()],
        || {
            if let Err((step, error)) = mount_trial(uid.as_raw(), gid.as_raw()) {
                let errno = error.raw_os_error().unwrap_or_default().to_ne_bytes();
                let report = [step as u8, errno[0], errno[1], errno[2], errno[3]];
                let _ = rustix::io::write(&sender, &report);
            }
            0
        },
    )
    .map_err(|error| (Step::Clone, error))?;
    drop(sender);
    let mut report = [0; 5];
    let length = rustix::io::retry_on_intr(|| rustix::io::read(&result, &mut report))
        .map_err(at(Step::Clone))?;
    child.wait().map_err(|error| (Step::Clone, error))?;
    if length == 0 {
        return Ok(());
    }
    let errno = i32::from_ne_bytes([report[1], report[2], report[3], report[4]]);
    Err((
        STEPS[usize::from(report[0])],
        io::Error::from_raw_os_error(errno),
    ))
}

/// In the new namespaces, which end with the process: nothing of it is seen outside.
fn mount_trial(uid: u32, gid: u32) -> Reached {
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    rustix::mount::mount_change("/", private).map_err(|errno| (Step::Private, errno.into()))?;
    map_self(uid, gid).map_err(|error| (Step::Map, error))?;
    let device = open_device().map_err(|error| (Step::Device, error))?;
    let options = format!(
        "fd={},rootmode=40000,user_id={uid},group_id={gid}",
        device.as_raw_fd()
    );
    let options = CString::new(options).map_err(|error| (Step::Mount, error.into()))?;
    rustix::mount::mount(
        "surmise",
        "/",
        "fuse.surmise",
        MountFlags::NODEV | MountFlags::NOSUID,
        options.as_c_str(),
    )
    .map_err(|errno| (Step::Mount, errno.into()))
}

/// Gives this process' new user namespace the user and group that it runs as, and no others.
fn map_self(uid: u32, gid: u32) -> io::Result<()> {
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{uid} {uid} 1"))?;
    fs::write("/proc/self/gid_map", format!("{gid} {gid} 1"))
}

fn open_device() -> io::Result<std::os::fd::OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    Ok(rustix::fs::open("/dev/fuse", flags, Mode::empty())?)
}

fn had(name: &'static str, value: impl Into<String>) -> Ability {
    Ability {
        name,
        required: true,
        have: true,
        value: value.into(),
        hint: String::new(),
    }
}

fn lacking(name: &'static str, value: impl ToString, hint: impl Into<String>) -> Ability {
    Ability {
        name,
        required: true,
        have: false,
        value: value.to_string(),
        hint: hint.into(),
    }
}

/// The version of the running kernel, by its first two numbers; 0 for one that is none.
pub fn kernel_version() -> (u32, u32) {
    let release = kernel_release();
    let mut numbers = release
        .split(|c: char| !c.is_ascii_digit())
        .map(str::parse::<u32>);
    let mut number = || numbers.next().and_then(Result::ok).unwrap_or_default();
    (number(), number())
}

fn kernel_release() -> String {
    let system = rustix::system::uname();
    system.release().to_string_lossy().into_owned()
}

fn kernel() -> Ability {
    let name = "Linux 5.12 or later";
    let release = kernel_release();
    if kernel_version() >= (5, 12) {
        had(name, release)
    } else {
        lacking(name, release, "update the system's kernel")
    }
}

fn pidfd() -> Ability {
    let name = "processes as descriptors (pidfd)";
    match rustix::process::pidfd_open(getpid(), PidfdFlags::empty()) {
        Ok(_) => had(name, "pidfd_open works"),
        Err(errno) => lacking(
            name,
            errno,
            "in a container: allow pidfd_open in its seccomp profile",
        ),
    }
}

fn id_map() -> Ability {
    let name = "user and group numbers for a user namespace";
    let map = match IdMap::of_caller() {
        Ok(map) => map,
        Err(error) => return lacking(name, &error, error.hint()),
    };
    let count = |extents: &[crate::id_map::Extent]| {
        extents
            .iter()
            .map(|extent| u64::from(extent.count))
            .sum::<u64>()
    };
    let value = format!(
        "{} users, {} groups",
        count(map.users()),
        count(map.groups())
    );
    match map.missing_helper() {
        None => had(name, value),
        Some(program) => lacking(
            name,
            format!("{value}, but {program} is not in PATH"),
            "as root: apt-get install uidmap (or your system's shadow-utils)",
        ),
    }
}

fn fuse_device() -> Ability {
    let name = "/dev/fuse";
    match open_device() {
        Ok(_) => had(name, "can be opened"),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            lacking(name, error, "as root: chmod 0666 /dev/fuse")
        }
        Err(error) => lacking(
            name,
            error,
            "as root: modprobe fuse; in a container: --device /dev/fuse",
        ),
    }
}

fn fuse_mount(reached: &Reached) -> Ability {
    let name = "FUSE in a user namespace";
    match reached {
        Ok(()) => had(name, "can be mounted"),
        Err((Step::Mount, error)) => lacking(
            name,
            error,
            "Linux 4.18 or later with FUSE; in a container: allow mount",
        ),
        Err((Step::Device, error)) => lacking(name, error, "needs /dev/fuse, above"),
        Err((_, error)) => lacking(name, error, "needs user namespaces, above"),
    }
}

fn seccomp() -> Ability {
    let name = "system-call filters (seccomp)";
    match fs::read_to_string("/proc/sys/kernel/seccomp/actions_avail") {
        Ok(actions) if actions.split_whitespace().any(|action| action == "errno") => {
            had(name, actions.trim())
        }
        Ok(actions) => lacking(name, actions.trim(), "a kernel with CONFIG_SECCOMP_FILTER"),
        Err(error) => lacking(name, error, "a kernel with CONFIG_SECCOMP_FILTER"),
    }
}

fn rename_exchange(directory: &Path) -> Ability {
    let name = "names swapped in one step";
    let trial = || -> io::Result<()> {
        let scratch = directory.join(format!(".surmise-probe-{}", getpid().as_raw_nonzero()));
        fs::create_dir(&scratch)?;
        let swapped = (|| {
            let (one, two) = (scratch.join("1"), scratch.join("2"));
            fs::write(&one, "")?;
            fs::write(&two, "")?;
            let flags = rustix::fs::RenameFlags::EXCHANGE;
            Ok(rustix::fs::renameat_with(
                rustix::fs::CWD,
                &one,
                rustix::fs::CWD,
                &two,
                flags,
            )?)
        })();
        fs::remove_dir_all(&scratch)?;
        swapped
    };
    optional(match trial() {
        Ok(()) => had(name, format!("in {}", directory.display())),
        Err(error) => lacking(
            name,
            format!("in {}: {error}", directory.display()),
            "keep state on ext4, XFS or btrfs (XDG_STATE_HOME); else commit is slower",
        ),
    })
}

fn reflink(directory: &Path) -> Ability {
    let name = "copies that share blocks (reflink)";
    let trial = || -> io::Result<()> {
        let unnamed = || {
            let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
            rustix::fs::open(directory, flags, Mode::RUSR | Mode::WUSR)
        };
        let (from, to) = (unnamed()?, unnamed()?);
        rustix::io::write(&from, b"surmise")?;
        Ok(rustix::fs::ioctl_ficlone(&to, &from)?)
    };
    optional(match trial() {
        Ok(()) => had(name, format!("in {}", directory.display())),
        Err(error) => lacking(
            name,
            format!("in {}: {error}", directory.display()),
            "keep state on XFS or btrfs (XDG_STATE_HOME); else first changes of big files copy",
        ),
    })
}

fn optional(ability: Ability) -> Ability {
    Ability {
        required: false,
        ..ability
    }
}
