//! What is tried in copies of a process that has one thread, which a test harness does not leave it: this
//! program runs its tests itself, one after the other.

use std::io;

use rustix::io::Errno;
use rustix::process::{
    DumpableBehavior, Resource, Rlimit, Signal, dumpable_behavior, getegid, geteuid, getpid,
    getrlimit, set_dumpable_behavior, setrlimit,
};
use rustix::system::{setdomainname, sethostname, uname};
use rustix::thread::{CapabilitySet, CapabilitySets, UnshareFlags, set_capabilities};
use surmise_linux::abilities::Abilities;
use surmise_linux::{host_name, limits};
use surmise_sys::process::{clone, fork};
use surmise_sys::signals;

fn main() {
    let tests: [fn(); 3] = [
        abilities_are_found_and_leave_nothing,
        a_host_name_is_set_without_a_capability,
        a_copy_gets_the_limit_of_before,
    ];
    for test in tests {
        test();
    }
}

fn abilities_are_found_and_leave_nothing() {
    let scratch = std::env::temp_dir().join(format!("surmise-linux-{}", getpid().as_raw_nonzero()));
    std::fs::create_dir(&scratch).expect("make a directory");
    let abilities = Abilities::probe(&scratch.join("not/there/yet"));
    // Empty, or this fails.
    std::fs::remove_dir(&scratch).expect("remove the directory");
    assert!(abilities.pidfd.have, "{:?}", abilities.pidfd);
    for ability in abilities.iter() {
        assert!(!ability.value.is_empty(), "{ability:?}");
        assert_eq!(ability.have, ability.hint.is_empty(), "{ability:?}");
    }
    let missing = abilities
        .iter()
        .any(|ability| ability.required && !ability.have);
    assert_eq!(abilities.missing().is_some(), missing);
}

/// By who owns the user namespace of a UTS namespace, and by nobody else.
fn a_host_name_is_set_without_a_capability() {
    if !Abilities::probe(&std::env::temp_dir()).user_namespaces.have {
        return surmise_testkit::skip("this user may make no user namespaces");
    }
    let before = uname().nodename().to_owned();
    let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
    let child = clone(UnshareFlags::NEWUSER, &[], || {
        map_ids(uid, gid).expect("ids in the new namespace");
        signals::block(&[Signal::CHILD]).expect("block");
        set_dumpable_behavior(DumpableBehavior::NotDumpable).expect("shielded");
        host_name::enter_own().expect("a host name of its own");
        assert_eq!(dumpable_behavior(), Ok(DumpableBehavior::NotDumpable));
        let ends = signals::SignalFd::new(&[Signal::CHILD]).expect("a descriptor");
        assert_eq!(ends.next().expect("a look"), None);
        assert_eq!(uname().nodename(), &*before);
        let none = CapabilitySets {
            effective: CapabilitySet::empty(),
            permitted: CapabilitySet::empty(),
            inheritable: CapabilitySet::empty(),
        };
        set_capabilities(None, none).expect("drop capabilities");
        sethostname(b"inner").expect("the owner may");
        setdomainname(b"inner").expect("the owner may");
        assert_eq!(uname().nodename(), c"inner");
        // A further user namespace does not own it.
        let other = clone(UnshareFlags::NEWUSER, &[], || {
            u8::from(sethostname(b"other") == Err(Errno::PERM))
        });
        let status = other.expect("clone").wait().expect("wait");
        assert_eq!(status.exit_status(), Some(1));
        0
    });
    let status = child.expect("clone").wait().expect("wait");
    assert_eq!(status.exit_status(), Some(0));
    assert_eq!(uname().nodename(), &*before);
}

/// This user and group mean in the process' user namespace what they mean outside.
fn map_ids(uid: u32, gid: u32) -> io::Result<()> {
    std::fs::write("/proc/self/setgroups", "deny")?;
    std::fs::write("/proc/self/uid_map", format!("{uid} {uid} 1"))?;
    std::fs::write("/proc/self/gid_map", format!("{gid} {gid} 1"))
}

fn a_copy_gets_the_limit_of_before() {
    let child = fork(&[], || {
        let limit = || getrlimit(Resource::Nofile);
        let before = limit();
        let few = Rlimit {
            current: Some(32),
            ..before
        };
        setrlimit(Resource::Nofile, few).expect("set the limit");
        let raised = limits::raise_descriptors();
        let is_raised = Some(raised) == before.maximum.or(Some(u64::MAX))
            && limit().current == before.maximum
            && limits::raise_descriptors() == raised;
        let is_back = limits::give_back_descriptors().is_ok() && limit().current == Some(32);
        u8::from(!(is_raised && is_back))
    });
    let status = child.expect("fork").wait().expect("wait");
    assert_eq!(status.exit_status(), Some(0));
}
