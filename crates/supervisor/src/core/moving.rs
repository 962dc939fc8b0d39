//! Positions of open files that a call moves for other processes, too.

use rustix::process::Pid;
use surmise_checkpoint::Change;

use super::Core;
use crate::call::Call;
use crate::error::{SupervisorError, fail};
use crate::kind::Kind;
use crate::meeting::{Act, Changing, Meeting, Moving};
use crate::object::Did;
use crate::world::World;

impl<W: World> Core<W> {
    /// What it takes to let a call of a process happen.
    pub(super) fn meet(&mut self, process: Pid, call: &Call) -> Result<Meeting, SupervisorError> {
        if !self.objects.files.have_met(call) && self.world.depends_on_ends(call) {
            self.look_up(process, call)?;
        }
        let around = self.objects.files.around(call, self.members.get(&process));
        let met = self.world.meet(process, call, around);
        let met = met.map_err(fail("look at a call"))?;
        Ok(self.with_moves(process, met))
    }

    /// A position whose moves are undecided is shared even if only one process still has the file. An image that noted the position
    /// now would give back one that may be undone.
    fn with_moves(&self, process: Pid, met: Meeting) -> Meeting {
        let is_shared = |number: i32| {
            let positions = &self.objects.positions;
            positions.has(&self.world, process, number as u64)
        };
        match met {
            Meeting::Note(Change::Position(number))
            | Meeting::NoteInNew(Change::Position(number))
                if is_shared(number) =>
            {
                Meeting::Move(number as u64)
            }
            Meeting::Act(Act::Change(changing)) => {
                let moved = changing.moved.map(|moving| match moving {
                    Some(Moving::Own(number)) if is_shared(number) => {
                        Some(Moving::Shared(number as u64))
                    }
                    moving => moving,
                });
                Meeting::Act(Act::Change(Changing { moved, ..changing }))
            }
            met => met,
        }
    }

    /// As [`Self::move_shared`], of all positions that a call moves which changes files.
    pub(super) fn moves_for_others(
        &mut self,
        process: Pid,
        call: &Call,
        act: &Act,
    ) -> Result<bool, SupervisorError> {
        let moved = match act {
            Act::Change(changing) => changing.moved,
            Act::Put { .. } | Act::Send { .. } | Act::Take(_) | Act::Ask => [None; 2],
        };
        for moving in moved.into_iter().flatten() {
            if let Moving::Shared(descriptor) = moving
                && !self.move_shared(process, call, descriptor)?
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Notes positions that are a member's own, which its call moves.
    pub(super) fn note_own_moves(&mut self, process: Pid, moved: &[Option<Moving>; 2]) {
        let Some(member) = self.members.get_mut(&process) else {
            return;
        };
        for moving in moved.iter().flatten() {
            if let Moving::Own(number) = moving {
                member.note(&self.world, Change::Position(*number));
            }
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
        let may_move = match did {
            Did::Accesses { object, .. } => self.access(task, object, record)?,
            Did::Known(_) => true,
            Did::Wait | Did::Sleeps(_) | Did::PutOut(_) | Did::Gone => false,
        };
        if may_move {
            self.stats.met(Kind::Position);
        }
        Ok(may_move)
    }
}
