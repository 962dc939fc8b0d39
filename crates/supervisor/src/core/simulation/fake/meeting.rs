//! What a fake machine says that it takes to let a call happen.

use surmise_checkpoint::Change;

use super::births::is_alone;
use super::lending::lending;
use super::op::Op;
use super::position::SHARED_FILE;
use super::state::State;
use super::{Fake, INNER, address_of, descriptor_of};
use crate::call::Call;
use crate::kind::Kind;
use crate::meeting::{Act, Changing, Meeting, Sending, Wanted};
use crate::objects::files::End;
use crate::world::Around;

/// SIGINT.
const IGNORED: u32 = 2;

/// SIGUSR1.
pub(super) const KICK: u32 = 10;

pub(super) fn meet(state: &State, call: &Call, around: Around<'_, Fake>) -> Meeting {
    let Around { member, ends, .. } = around;
    let thread = address_of(call.thread());
    let sides = state.sides(state.tasks[call.thread()].process);
    if state.tasks[call.thread()].waits_in != Some(call.notification.id) {
        // It has been killed.
        return Meeting::Wait;
    }
    match state.op_of(call) {
        Op::Look(_) | Op::List | Op::Poll => Meeting::Pass(Kind::File),
        // Nobody knows what is there.
        Op::Add(_) if ends != [End::File] => Meeting::Wait,
        op @ (Op::Add(_) | Op::Turn(_) | Op::Remove(_)) => {
            let cell = state.files.changed_by(op).map(|cell| cell as u64);
            let written = cell.filter(|_| matches!(op, Op::Add(_)));
            Meeting::Act(Act::Change(Changing {
                written,
                ..Changing::default()
            }))
        }
        Op::Move => moving(state),
        Op::Put(_) => Meeting::Act(Act::Put {
            descriptor: 1,
            bytes: (thread, 1),
        }),
        Op::Take => Meeting::Act(Act::Take(wanted(0, thread))),
        Op::Send(_) if !sides.writing => Meeting::Pass(Kind::Descriptor),
        Op::Receive | Op::Ask if !sides.reading => Meeting::Pass(Kind::Descriptor),
        Op::Send(_) => Meeting::Act(Act::Send {
            descriptor: INNER,
            bytes: vec![(thread, 1)],
        }),
        Op::Receive => Meeting::Act(Act::Take(wanted(INNER, thread))),
        // By the socket that reads the other queue.
        Op::Say(queue, _) => Meeting::Act(Act::Send {
            descriptor: descriptor_of(queue.opposite()),
            bytes: vec![(thread, 1)],
        }),
        Op::Hear(queue) => Meeting::Act(Act::Take(wanted(descriptor_of(queue), thread))),
        Op::Ask => Meeting::Act(Act::Ask),
        Op::Ignore => Meeting::Depute(Change::Handler(IGNORED)),
        Op::Arm if member.is_some_and(|member| member.images().len() == 0) => {
            Meeting::Pass(Kind::Process)
        }
        Op::Arm if state.has_alarm(call.thread()) => Meeting::Wait,
        Op::Arm => Meeting::SetTimer,
        Op::Kick(to) if state.can_be_kicked(to) => Meeting::Signal(Sending { to, number: KICK }),
        Op::Bear => Meeting::Bear,
        Op::Lend => lending(state, call.thread()),
        Op::Execute if member.is_some_and(|member| is_alone(state, member)) => Meeting::Execute,
        Op::Sync
        | Op::Irrevocable
        | Op::Kick(_)
        | Op::Wait
        | Op::Doze
        | Op::Execute
        | Op::Exit(_)
        | Op::Close(_)
        | Op::Open(_)
        | Op::Leave
        | Op::Push(_)
        | Op::Kill(_)
        | Op::Signal(_)
        | Op::Regain => Meeting::Wait,
    }
}

/// The world does not see all processes that have the file, so it may take the position for the task's own.
fn moving(state: &State) -> Meeting {
    let change = Change::Position(SHARED_FILE as i32);
    match (state.position.is_open(), state.position.at % 2) {
        (false, _) => Meeting::Move(SHARED_FILE),
        (true, 0) => Meeting::Note(change),
        (true, _) => Meeting::NoteInNew(change),
    }
}

/// A read of one byte, for which the thread has room at an address.
fn wanted(descriptor: u64, thread: u64) -> Wanted {
    Wanted {
        descriptor,
        room: vec![(thread, 1)],
        header: None,
        waits: true,
    }
}
