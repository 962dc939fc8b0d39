//! Positions of open files that a call moves for other processes, too.

use rustix::process::Pid;
use surmise_checkpoint::Change;
use surmise_engine::{Access, Answer as Permission};

use super::Core;
use crate::call::Call;
use crate::error::{SupervisorError, fail, refused};
use crate::kind::Kind;
use crate::meeting::{Act, Meeting, Moving};
use crate::object::Did;
use crate::world::World;

impl<W: World> Core<W> {
    /// What it takes to let a call of a process happen.
    pub(super) fn meet(&mut self, process: Pid, call: &Call) -> Result<Meeting, SupervisorError> {
        let around = self.objects.files.around(self.members.get(&process));
        let met = self.world.meet(process, call, around);
        let met = met.map_err(fail("look at a call"))?;
        Ok(self.with_moves(process, met))
    }

    /// What processes have moved whose moves are undecided is theirs, whoever is left to have it: an image that noted the position
    /// now would give back one that is undone.
    fn with_moves(&self, process: Pid, met: Meeting) -> Meeting {
        let is_shared = |number: i32| {
            let positions = &self.objects.positions;
            positions.has(&self.world, process, number as u64)
        };
        match met {
            Meeting::Note(Change::Position(number)) if is_shared(number) => {
                Meeting::Move(number as u64)
            }
            Meeting::Act(Act::Change(moved)) => {
                let moved = moved.map(|moving| match moving {
                    Some(Moving::Own(number)) if is_shared(number) => {
                        Some(Moving::Shared(number as u64))
                    }
                    moving => moving,
                });
                Meeting::Act(Act::Change(moved))
            }
            met => met,
        }
    }

    /// Sees to it that the position of what a descriptor leads to can be given back, which a member's call moves for others, too.
    /// False if the call has to wait.
    pub(super) fn move_shared(
        &mut self,
        process: Pid,
        call: &Call,
        descriptor: u64,
    ) -> Result<bool, SupervisorError> {
        let Some(member) = self.members.get(&process) else {
            return Ok(true);
        };
        let task = member.task;
        let waiting: Vec<Pid> = self.waits.calls().map(Call::thread).collect();
        let caller = (member, call);
        let moves = self
            .objects
            .moves(&mut self.world, caller, descriptor, &waiting);
        let (did, record) = moves.map_err(fail("note a position"))?;
        let object = match did {
            Did::Accesses { object, .. } => object,
            Did::Known(_) => {
                self.stats.met(Kind::Position);
                return Ok(true);
            }
            _ => return Ok(false),
        };
        let mut effects = Vec::new();
        let access = Access::Both(Some(record));
        let permission = self.engine.access(task, object, access, &mut effects);
        let permission = permission.map_err(refused("note an access"))?;
        self.perform(effects)?;
        if permission == Permission::Go {
            self.stats.met(Kind::Position);
            return Ok(true);
        }
        let undone = self.objects.undo(&mut self.world, &[record]);
        undone.map_err(fail("take back what may not be"))?;
        Ok(false)
    }
}
