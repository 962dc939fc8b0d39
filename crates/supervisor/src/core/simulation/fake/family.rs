//! Parents and children of a fake machine, and what the former are told of the ends of the latter.

use fastrand::Rng;
use rustix::process::Pid;

/// What `wait` tells a process that has no children left: -ECHILD.
pub(in crate::core::simulation) const NO_CHILD: i64 = -10;

/// What a process is told that has slept until a signal told of a child's end, beside the child's number. Nothing else tells as
/// much but `wait`.
pub(in crate::core::simulation) const HEARD: i64 = 60_000;

/// How a process has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::core::simulation) enum End {
    Exited(u8),
    Killed,
}

impl End {
    /// The least that `wait` tells of any: nothing else tells as much.
    pub(in crate::core::simulation) const TOLD_MIN: i64 = 100_000;

    /// What `wait` tells of it.
    pub(in crate::core::simulation) fn told(self, child: Pid) -> i64 {
        let status = match self {
            Self::Exited(status) => i64::from(status),
            Self::Killed => 256,
        };
        i64::from(child.as_raw_nonzero().get()) * 1000 + status
    }
}

/// Who is whose child.
#[derive(Clone, Debug)]
pub(in crate::core::simulation) struct Families(Vec<Relative>);

#[derive(Clone, Debug)]
struct Relative {
    process: Pid,
    parent: Option<Pid>,
    end: Option<End>,
    /// Whether a signal has told its parent.
    is_heard: bool,
    is_reaped: bool,
}

impl Relative {
    fn new(process: Pid, parent: Option<Pid>) -> Self {
        Self {
            process,
            parent,
            end: None,
            is_heard: false,
            is_reaped: false,
        }
    }
}

impl Families {
    /// So many processes, of which each but the first has a parent, perhaps.
    pub(in crate::core::simulation) fn any(rng: &mut Rng, processes: usize) -> Self {
        let pid = |number: usize| Pid::from_raw(100 * number as i32);
        let relatives = (1..=processes).map(|number| {
            let process = pid(number).expect("a number");
            Relative::new(process, pid(rng.usize(..number)))
        });
        Self(relatives.collect())
    }

    /// A process is there that nobody has borne.
    pub(super) fn begin(&mut self, process: Pid) {
        self.0.push(Relative::new(process, None));
    }

    /// A process bears another.
    pub(in crate::core::simulation) fn bear(&mut self, parent: Pid, child: Pid) {
        self.0.push(Relative::new(child, Some(parent)));
    }

    /// A process was never born, and has no children.
    pub(super) fn unbear(&mut self, process: Pid) {
        self.0.retain(|one| one.process != process);
        let is_parent = self.0.iter().any(|one| one.parent == Some(process));
        assert!(!is_parent, "{process:?} has borne somebody");
    }

    fn get(&mut self, process: Pid) -> &mut Relative {
        let found = self.0.iter_mut().find(|one| one.process == process);
        found.expect("a process")
    }

    pub(in crate::core::simulation) fn parent(&self, child: Pid) -> Option<Pid> {
        self.0.iter().find(|one| one.process == child)?.parent
    }

    /// A process has ended. Its children are nobody's.
    pub(in crate::core::simulation) fn end(&mut self, process: Pid, end: End) {
        self.get(process).end.get_or_insert(end);
        for one in &mut self.0 {
            one.parent = one.parent.filter(|parent| *parent != process);
        }
    }

    /// The children of a process that it has not reaped, with their ends.
    pub(in crate::core::simulation) fn children(&self, parent: Pid) -> Vec<(Pid, Option<End>)> {
        let mut children = self.0.iter().collect::<Vec<_>>();
        children.retain(|one| one.parent == Some(parent) && !one.is_reaped);
        children.iter().map(|one| (one.process, one.end)).collect()
    }

    /// A process reaps a child that has ended.
    pub(in crate::core::simulation) fn reap(&mut self, child: Pid) -> End {
        let child = self.get(child);
        assert!(!child.is_reaped, "{child:?} is reaped twice");
        child.is_reaped = true;
        child.end.expect("it has ended")
    }

    /// Whether a child was reaped.
    pub(in crate::core::simulation) fn is_reaped(&self, child: Pid) -> bool {
        let mut all = self.0.iter();
        all.any(|one| one.process == child && one.is_reaped)
    }

    /// A process hears by a signal that a child has exited. What it is told.
    pub(in crate::core::simulation) fn hear(&mut self, child: Pid) -> i64 {
        let relative = self.get(child);
        assert!(!relative.is_heard && !relative.is_reaped, "heard of twice");
        relative.is_heard = true;
        HEARD + i64::from(child.as_raw_nonzero().get())
    }

    /// The signal has not come that has told of a child, which may not even have been born.
    pub(in crate::core::simulation) fn unhear(&mut self, child: Pid) {
        for one in self.0.iter_mut().filter(|one| one.process == child) {
            one.is_heard = false;
        }
    }

    /// What a process is told that sleeps until a signal tells of a child, or for a while: 0 if none has.
    pub(super) fn doze(&mut self, parent: Pid) -> i64 {
        let mut children = self.0.iter().filter(|one| one.parent == Some(parent));
        let found = children
            .find(|one| matches!(one.end, Some(End::Exited(_))) && !one.is_heard && !one.is_reaped);
        found
            .map(|one| one.process)
            .map_or(0, |child| self.hear(child))
    }

    /// What a process is told that waits for any child, and which child that is; `None` if it has to wait.
    pub(in crate::core::simulation) fn wait(&mut self, parent: Pid) -> Option<(Option<Pid>, i64)> {
        let children = self.children(parent);
        let ended = children.iter().find(|(_, end)| end.is_some());
        match ended {
            Some(&(child, _)) => Some((Some(child), self.reap(child).told(child))),
            None if children.is_empty() => Some((None, NO_CHILD)),
            None => None,
        }
    }
}
