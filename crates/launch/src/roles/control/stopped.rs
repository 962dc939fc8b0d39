//! Roles that somebody has stopped (`SIGSTOP`): they hear nothing and answer nobody.

use rustix::process::{Pid, Signal};
use surmise_kept::doorway::Refusal;
use surmise_kept::is_stopped;
use surmise_sys::process::Child;

use super::start::Roles;
use super::supervisor::SupervisorRole;

const SUPERVISOR: &str = "the supervisor";

/// A role that is stopped: it hears nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StoppedRole {
    pub(super) name: &'static str,
    pub(super) pid: Pid,
}

impl StoppedRole {
    /// `what`: how things stand.
    pub(super) fn refusal(self, what: &str) -> Refusal {
        let (name, pid) = (self.name, self.pid.as_raw_pid());
        let error = format!("{name} of the domain is stopped");
        Refusal::new(error, format!("{what}; `kill -CONT {pid}` lets it go on"))
    }
}

impl Roles {
    /// Lets those go on that are stopped, since the domain is to end and none can end as it is. A supervisor without
    /// commits is killed instead, if it does not let go of its tasks. One with commits still has to make the last one.
    pub(super) fn wake(&self) {
        let view = self.view.iter().map(|view| &view.process);
        let syncer = self.syncer().map(|role| &role.process);
        for role in view.chain(syncer).chain([&self.relay, &self.init]) {
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

    /// The supervisor, if the domain waits for its commits and it is stopped.
    pub(super) fn stopped_syncer(&self) -> Option<StoppedRole> {
        let pid = self.syncer()?.process.pid();
        let name = SUPERVISOR;
        is_stopped(pid).then_some(StoppedRole { name, pid })
    }

    /// The supervisor, if it makes commits.
    pub(super) fn syncer(&self) -> Option<&SupervisorRole> {
        let supervisor = self.supervisor.as_ref();
        supervisor.filter(|role| role.epochs.is_some())
    }

    fn named(&self) -> impl Iterator<Item = (&'static str, &Child)> {
        let view = self
            .view
            .iter()
            .map(|role| ("the view process", &role.process));
        let supervisor = self.supervisor.iter();
        view.chain([("the relay process", &self.relay), ("pid 1", &self.init)])
            .chain(supervisor.map(|role| (SUPERVISOR, &role.process)))
    }
}
