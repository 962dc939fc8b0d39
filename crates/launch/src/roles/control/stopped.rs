//! Roles that somebody has stopped (`SIGSTOP`): they hear nothing and answer nobody.

use rustix::process::Signal;
use surmise_kept::is_stopped;
use surmise_sys::process::Child;

use super::start::Roles;
use crate::running::StoppedRole;

impl Roles {
    /// Lets those go on that are stopped, since the domain is to end and none can end as it is. The speculator
    /// is killed instead, if it does not let go of its tasks.
    pub(super) fn wake(&self) {
        for role in [&self.files.process, &self.relay, &self.init] {
            // Fails only if it has ended.
            let _ = role.signal(Signal::CONT);
        }
    }

    /// The first that is stopped.
    pub(super) fn stopped(&self) -> Option<StoppedRole> {
        let mut named = self.named();
        let (name, role) = named.find(|(_, role)| is_stopped(role.pid()))?;
        Some(StoppedRole {
            name,
            pid: role.pid(),
        })
    }

    fn named(&self) -> impl Iterator<Item = (&'static str, &Child)> {
        let speculator = self.speculator.as_ref().map(|role| &role.process);
        [
            (self.files.name, &self.files.process),
            ("the relay process", &self.relay),
            ("pid 1", &self.init),
        ]
        .into_iter()
        .chain(speculator.map(|process| ("the speculator", process)))
    }
}
