//! Pipes that nobody keeps open any more but images, and processes that stand still at their exits.
//!
//! The kernel tells a reader of the end only when those have gone. A reader need not wait for that: it comes to depend on
//! each process that has shut the pipe, and is told of the end. So it is rolled back with any of them that comes to have not closed
//! its end, or to have not exited. Likewise a task that asks whether it can read. Every other call on such a pipe waits, be it to
//! write there or to look: else a task that knows of an exit would find the pipe as before.
//!
//! Nobody hears of a close. So the reads that sleep are looked after from time to time.

use std::time::{Duration, Instant};

use rustix::process::Pid;
use surmise_engine::{Access, Answer as Permission, Extents, Id, Node, ObjectId};
use surmise_sys::seccomp::Answer;

use super::Core;
use super::attending::Way;
use super::imaging::Gained;
use crate::call::Call;
use crate::error::{SupervisorError, bug, fail, refused};
use crate::kind::Kind;
use crate::objects::input::Look;
use crate::world::{Shut, Still, World};

/// How long it takes until a read is looked after that has begun to sleep, and at most until the next look.
const LOOK_AFTER: Duration = Duration::from_millis(1);
const LOOK_AFTER_MAX: Duration = Duration::from_millis(16);

/// When reads that sleep are looked after.
#[derive(Debug, Default)]
pub(super) struct Looks {
    due: Option<Instant>,
    pause: Duration,
}

impl Looks {
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }
}

/// A process that keeps a pipe open without executing anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keeper {
    /// A process whose exit this is, or an image of it.
    Exit(ObjectId),
    /// An image of a member that has closed the end since.
    Member(Pid),
}

impl<W: World> Core<W> {
    /// What a call finds before it that may touch pipes which are shut.
    pub(super) fn at_shut_pipe(&mut self, call: &Call) -> Result<Way, SupervisorError> {
        self.hung_up.clear();
        // Without a look at the caller: most calls touch no pipe.
        if self.world.touches_pipe(None, call) == Look::Nothing {
            return Ok(Way::Clear);
        }
        let still = self.still();
        if still.is_empty() {
            return Ok(Way::Clear);
        }
        let found = self.shut_pipes(call, &still)?;
        if found.is_empty() {
            return Ok(Way::Clear);
        }
        let Some(process) = self.caller(call)? else {
            return Ok(Way::Clear);
        };
        for shut in found {
            let keepers = keepers_of(&shut, &still);
            if shut.is_end && !self.is_awaited(process) {
                match self.depend_on(process, call, &keepers)? {
                    Gained::Depends if self.world.asks(call) => {
                        self.hung_up.push(shut.place);
                        continue;
                    }
                    Gained::Depends => return Ok(Way::AtEnd),
                    Gained::Again => return Ok(Way::Again),
                    Gained::Refused => {}
                }
            }
            for keeper in keepers {
                if let Some(node) = self.undecided(keeper)? {
                    return Ok(Way::Barred(node, Kind::ShutPipe));
                }
            }
        }
        Ok(Way::Clear)
    }

    /// A read is told of the end of a pipe, on whose shutting its process depends.
    pub(super) fn tell_of_end(&mut self, call: &Call) -> Result<(), SupervisorError> {
        if let Some(process) = self.member_of(call.thread())
            && let Some(member) = self.members.get_mut(&process)
        {
            member.has_called();
        }
        self.stats.met(Kind::ShutPipe);
        self.world.takes_nothing(call.thread());
        self.respond(call, Answer::Value(0))
    }

    /// The processes that execute nothing, and whose they are.
    pub(super) fn still(&self) -> Vec<(Still, Keeper)> {
        let exits: Vec<_> = self.objects.exits.standing().collect();
        let mut still = Vec::new();
        for &(process, exit) in &exits {
            let is_image = false;
            still.push((Still { process, is_image }, Keeper::Exit(exit)));
        }
        for member in self.members.values() {
            let exit = exits.iter().find(|(child, _)| *child == member.pid());
            let keeper = match exit {
                Some(&(_, exit)) => Keeper::Exit(exit),
                None => Keeper::Member(member.pid()),
            };
            let vessels = member.images().filter_map(|image| self.world.vessel(image));
            let is_image = true;
            still.extend(vessels.map(|process| (Still { process, is_image }, keeper)));
        }
        still
    }

    fn shut_pipes(
        &mut self,
        call: &Call,
        still: &[(Still, Keeper)],
    ) -> Result<Vec<Shut>, SupervisorError> {
        let still: Vec<_> = still.iter().map(|(still, _)| *still).collect();
        let shut = self.world.shut_pipes(call, &still);
        shut.map_err(fail("look who has a pipe open"))
    }

    /// A reader comes to depend on all that the processes depend on which have shut a pipe.
    fn depend_on(
        &mut self,
        process: Pid,
        call: &Call,
        keepers: &[Keeper],
    ) -> Result<Gained, SupervisorError> {
        for &keeper in keepers {
            let object = match keeper {
                Keeper::Exit(exit) => Some(exit),
                Keeper::Member(member) => self.note_shutting(member, process)?,
            };
            let Some(object) = object else {
                continue;
            };
            match self.gain(process, call, object)? {
                Gained::Depends => {}
                other => return Ok(other),
            }
        }
        Ok(Gained::Depends)
    }

    /// An object that has all that a member depends on; none if a process depends on that already.
    fn note_shutting(
        &mut self,
        shutter: Pid,
        process: Pid,
    ) -> Result<Option<ObjectId>, SupervisorError> {
        let Some(task) = self.members.get(&shutter).map(|member| member.task) else {
            return Ok(None);
        };
        let known = self.members.get(&process).map(|member| member.task);
        let deps = |task| {
            let deps = self.engine.deps(Node::Task(task));
            deps.map_err(refused("look at a task"))
        };
        let wanted = deps(task)?.predictions;
        let known = known.map(deps).transpose()?.unwrap_or_default().predictions;
        if includes(&known, &wanted) {
            return Ok(None);
        }
        let record = self.objects.record(Kind::ShutPipe);
        let object = self.objects.shut.note(record);
        let mut effects = Vec::new();
        let access = Access::Modify(Some(record));
        let permission = self.engine.access(task, object, access, &mut effects);
        if permission.map_err(refused("note that a pipe is shut"))? != Permission::Go {
            let error = bug("the engine refuses that a task has shut a pipe");
            return Err(fail("tell a reader of the end")(error));
        }
        self.perform(effects)?;
        Ok(Some(object))
    }

    /// What to wait for until a keeper has gone; nothing if that is no matter of a decision.
    pub(super) fn undecided(&self, keeper: Keeper) -> Result<Option<Node>, SupervisorError> {
        let node = match keeper {
            Keeper::Exit(exit) => Some(Node::Object(exit)),
            Keeper::Member(member) => {
                let member = self.members.get(&member);
                member.map(|member| Node::Task(member.task))
            }
        };
        let Some(node) = node else {
            return Ok(None);
        };
        let speculates = self.engine.speculates(node);
        let speculates = speculates.map_err(refused("look at a node"))?;
        Ok(speculates.then_some(node))
    }

    /// A read has begun to sleep.
    pub(super) fn look_later(&mut self) {
        self.looks.pause = LOOK_AFTER;
        self.looks.due = Some(self.world.now() + LOOK_AFTER);
    }

    /// A process has come to execute nothing: reads that sleep are looked after at once.
    pub(super) fn look_soon(&mut self) {
        if self.looks.due.is_some() {
            self.looks.due = Some(self.world.now());
        }
    }

    /// Wakes the reads that sleep at pipes which have been shut, if it is time to look for such.
    pub(super) fn look_after_sleepers(&mut self) -> Result<(), SupervisorError> {
        let Some(due) = self.looks.due else {
            return Ok(());
        };
        let now = self.world.now();
        if now < due {
            return Ok(());
        }
        let sleepers: Vec<_> = self.waits.sleepers().collect();
        if sleepers.is_empty() {
            self.looks.due = None;
            return Ok(());
        }
        self.looks.due = Some(now + self.looks.pause);
        self.looks.pause = LOOK_AFTER_MAX.min(self.looks.pause * 2);
        let still = self.still();
        if still.is_empty() {
            return Ok(());
        }
        for call in sleepers {
            if !self.shut_pipes(&call, &still)?.is_empty() {
                return self.wake_sleepers();
            }
        }
        Ok(())
    }
}

/// Whether a set of predictions has all of another's.
fn includes(known: &Extents, wanted: &Extents) -> bool {
    let mut ids = wanted
        .iter()
        .flat_map(|extent| extent.first.0..=extent.last.0);
    ids.all(|id| known.contains(Id(id)))
}

/// Whose the processes are that keep a pipe open, each once.
fn keepers_of(shut: &Shut, still: &[(Still, Keeper)]) -> Vec<Keeper> {
    let mut keepers = Vec::new();
    for (one, keeper) in still {
        if shut.keepers.contains(&one.process) && !keepers.contains(keeper) {
            keepers.push(*keeper);
        }
    }
    keepers
}
