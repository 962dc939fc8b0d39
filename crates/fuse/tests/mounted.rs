//! A file system in memory, mounted for real in a mount namespace of its own.
//!
//! The test program runs itself: the test starts a *server* under `unshare`, which mounts and
//! serves, and starts a *client*, which exercises the mount with ordinary calls. So no process
//! ever holds both the device and a file on the mount, and each wait is bounded.
#![expect(clippy::print_stderr, reason = "a test that cannot run here says why")]

mod beside;
mod exercises;
mod memory;

use std::env;
use std::ffi::CString;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use beside::Names;
use memory::Memory;
use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use surmise_fuse::{Capabilities, Config, FileSystem, Session};

/// Which process of the test this one is; absent in the first.
const ROLE: &str = "SURMISE_FUSE_TEST_ROLE";
/// Where the server mounts.
const MOUNT_POINT: &str = "SURMISE_FUSE_TEST_MOUNT_POINT";

const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn a_mounted_file_system_serves_ordinary_calls() {
    match env::var(ROLE).as_deref() {
        Err(_) => start("a_mounted_file_system_serves_ordinary_calls"),
        Ok("server") => serve("a_mounted_file_system_serves_ordinary_calls"),
        Ok(_) => exercises::all(&mount_point()),
    }
}

#[test]
fn quick_successions_are_served_beside_their_caller() {
    const TEST: &str = "quick_successions_are_served_beside_their_caller";
    let processors = rustix::thread::sched_getaffinity(None).unwrap().count();
    match env::var(ROLE).as_deref() {
        Err(_) if processors < 2 => eprintln!("skipped: there is one processor"),
        Err(_) => start(TEST),
        Ok("server") => {
            let names = Names::new(sign());
            let session = Session::new(mount_device(&mount_point()), Config::default());
            names.session.set(&session).expect("the first");
            serve_one(TEST, &names, &session);
            assert_ne!(session.served_beside(), 0);
        }
        Ok(_) => beside::exercise(&mount_point(), &sign()),
    }
}

fn mount_point() -> PathBuf {
    PathBuf::from(env::var_os(MOUNT_POINT).expect("set by the first process"))
}

/// Beside the mount point.
fn sign() -> PathBuf {
    mount_point().with_extension("sign")
}

fn start(test: &str) {
    if let Err(error) = rustix::fs::open("/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
    {
        eprintln!("skipped: /dev/fuse: {error}");
        return;
    }
    let user = if rustix::process::geteuid().is_root() {
        "-m"
    } else {
        "-rm"
    };
    if !Command::new("unshare")
        .args([user, "true"])
        .status()
        .is_ok_and(|status| status.success())
    {
        eprintln!("skipped: no private mount namespace here (unshare {user})");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let server = Command::new("unshare")
        .arg(user)
        .arg(env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture"])
        .env(ROLE, "server")
        .env(MOUNT_POINT, directory.path())
        .spawn()
        .unwrap();
    let ended = wait(server, PATIENCE * 2);
    let _ = std::fs::remove_file(directory.path().with_extension("sign"));
    assert!(ended.success());
}

fn serve(test: &str) {
    for threads in [1, 2] {
        let memory = Memory::new();
        let config = Config {
            threads,
            ..Config::default()
        };
        serve_one(
            test,
            &memory,
            &Session::new(mount_device(&mount_point()), config),
        );
        let negotiated = memory
            .negotiated
            .lock()
            .unwrap()
            .expect("the handshake took place");
        assert!(negotiated.minor >= 31);
        assert!(Capabilities::LOCAL_VIEW.contains(negotiated.capabilities));
        assert!(
            memory.objects() <= 2,
            "unlinked objects are forgotten: {}",
            memory.objects()
        );
    }
}

fn serve_one(test: &str, files: &(impl FileSystem + ?Sized), session: &Session) {
    let point = mount_point();
    let processes = || {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::open("/proc", flags, Mode::empty()).ok()
    };
    thread::scope(|scope| {
        let serving = scope.spawn(|| session.serve_beside(files, &processes));
        let client = Command::new(env::current_exe().unwrap())
            .args([test, "--exact", "--nocapture"])
            .env(ROLE, "client")
            .spawn()
            .unwrap();
        let status = wait(client, PATIENCE);
        unmount(&point, UnmountFlags::DETACH).unwrap();
        serving.join().unwrap().unwrap();
        assert!(status.success(), "the client failed");
    });
}

fn mount_device(point: &Path) -> OwnedFd {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let device = rustix::fs::open("/dev/fuse", flags, Mode::empty()).unwrap();
    let options = format!(
        "fd={},rootmode=40000,user_id=0,group_id=0,allow_other,default_permissions",
        device.as_raw_fd()
    );
    let options = CString::new(options).unwrap();
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    mount(
        "surmise",
        point,
        "fuse.surmise",
        flags,
        Some(options.as_c_str()),
    )
    .unwrap();
    device
}

fn wait(mut child: Child, patience: Duration) -> ExitStatus {
    let deadline = Instant::now() + patience;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if Instant::now() > deadline {
            child.kill().unwrap();
            panic!("process {} did not end within {patience:?}", child.id());
        }
        thread::sleep(Duration::from_millis(5));
    }
}
