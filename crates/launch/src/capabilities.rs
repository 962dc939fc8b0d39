//! The capabilities that no process of a domain has.

use std::io;

use rustix::thread::CapabilitySet;

/// A domain's rights are those of its user namespace, so most of these open nothing outside. What
/// they do inside would still breach the boundary, or belongs to the machine, not to a domain.
const REMOVED: CapabilitySet = CapabilitySet::SYS_ADMIN // mount and unmount: the way out of the view
    .union(CapabilitySet::DAC_READ_SEARCH) // files opened by handle, past the view
    .union(CapabilitySet::MKNOD) // device files
    .union(CapabilitySet::SYS_MODULE)
    .union(CapabilitySet::SYS_RAWIO)
    .union(CapabilitySet::SYS_BOOT)
    .union(CapabilitySet::SYS_TIME)
    .union(CapabilitySet::WAKE_ALARM)
    .union(CapabilitySet::BLOCK_SUSPEND)
    .union(CapabilitySet::SYSLOG) // /dev/kmsg
    .union(CapabilitySet::SYS_PACCT)
    .union(CapabilitySet::SYS_TTY_CONFIG) // hangup of the user's own terminal
    .union(CapabilitySet::BPF)
    .union(CapabilitySet::PERFMON)
    .union(CapabilitySet::CHECKPOINT_RESTORE)
    .union(CapabilitySet::LINUX_IMMUTABLE) // flags that would keep a commit or an abort from its work
    .union(CapabilitySet::MAC_ADMIN)
    .union(CapabilitySet::MAC_OVERRIDE)
    .union(CapabilitySet::AUDIT_CONTROL)
    .union(CapabilitySet::AUDIT_READ);

/// Takes them from this process, and from all that it will execute.
pub(crate) fn confine() -> io::Result<()> {
    for capability in REMOVED.iter() {
        match rustix::thread::remove_capability_from_bounding_set(capability) {
            // Newer than this kernel.
            Ok(()) | Err(rustix::io::Errno::INVAL) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    rustix::thread::clear_ambient_capability_set()?;
    let mut sets = rustix::thread::capabilities(None)?;
    sets.effective.remove(REMOVED);
    sets.permitted.remove(REMOVED);
    sets.inheritable = CapabilitySet::empty();
    Ok(rustix::thread::set_capabilities(None, sets)?)
}
