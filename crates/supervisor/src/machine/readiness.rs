//! Calls that ask which descriptors are ready, where that are pipes and connections inside the domain.
//!
//! What is in such a pipe is really there, so the kernel is asked the same, without waiting, by descriptors of this process that
//! are there for that moment.

use std::io;
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, epoll};
use rustix::fs::FileType;
use rustix::process::Pid;
use surmise_sys::memory;
use surmise_syscalls::Syscall;

use super::pipe::is_nameless;
use super::task::Reached;
use super::{Learnt, Machine, fifo, plain_place, task};
use crate::call::Call;
use crate::objects::input::Place;
use crate::world::{Apart, Asking, Told};

/// Of how many descriptors a call may ask.
const POLLED_MAX: usize = 64;
const SELECTED_MAX: usize = 1024;

/// Whether a call does nothing but ask which descriptors are ready.
pub(super) fn asks(name: Syscall) -> bool {
    matches!(
        name,
        Syscall::Poll | Syscall::Ppoll | Syscall::Select | Syscall::Pselect6
    )
}

/// What a call asks.
#[derive(Debug)]
struct Questions {
    of: Vec<Question>,
    form: Form,
    /// Whether it waits for nothing.
    is_brief: bool,
    /// Whether no time ends its wait.
    is_endless: bool,
    /// Whether it takes signals that its thread blocks elsewhere.
    has_mask: bool,
}

#[derive(Debug, PartialEq, Eq)]
struct Question {
    descriptor: u64,
    /// Its place among the entries of poll(2).
    index: usize,
    events: PollFlags,
}

/// Where the answers go.
#[derive(Debug)]
enum Form {
    /// Into so many entries of poll(2).
    Entries { address: u64, number: usize },
    /// Into a set of select(2), of so many words.
    Set { address: u64, words: usize },
}

impl Questions {
    /// `None` if that is nothing that this program could answer.
    fn of(process: Pid, call: &Call) -> io::Result<Option<Self>> {
        match call.name() {
            Syscall::Poll | Syscall::Ppoll => Self::of_poll(process, call),
            Syscall::Select | Syscall::Pselect6 => Self::of_select(process, call),
            _ => Ok(None),
        }
    }

    fn of_poll(process: Pid, call: &Call) -> io::Result<Option<Self>> {
        let [address, number, time, mask, ..] = *call.arguments();
        // The kernel looks at the lower half of the register alone.
        let number = number as u32 as usize;
        if number > POLLED_MAX {
            return Ok(None);
        }
        let is_plain = call.name() == Syscall::Poll;
        let mut of = Vec::new();
        for index in 0..number {
            let entry = task::word(process, address.wrapping_add(8 * index as u64))?.to_ne_bytes();
            let descriptor = i32::from_ne_bytes([entry[0], entry[1], entry[2], entry[3]]);
            let events = u16::from_ne_bytes([entry[4], entry[5]]);
            if let Ok(descriptor) = u64::try_from(descriptor) {
                let events = PollFlags::from_bits_retain(events);
                of.push(Question {
                    descriptor,
                    index,
                    events,
                });
            }
        }
        Ok(Some(Self {
            of,
            form: Form::Entries { address, number },
            is_brief: match is_plain {
                true => time as i32 == 0,
                false => is_no_time(process, time)?,
            },
            is_endless: match is_plain {
                true => (time as i32) < 0,
                false => time == 0,
            },
            has_mask: !is_plain && mask != 0,
        }))
    }

    fn of_select(process: Pid, call: &Call) -> io::Result<Option<Self>> {
        let [number, address, others @ .., time, mask] = *call.arguments();
        let Ok(number) = usize::try_from(number as i32) else {
            return Ok(None);
        };
        let words = number.div_ceil(64);
        if number > SELECTED_MAX {
            return Ok(None);
        }
        for other in others {
            let bits = set(process, other, words)?;
            // The end of a pipe is nothing that these sets tell, but would end a wait here.
            if bits.iter().any(|word| *word != 0) {
                return Ok(None);
            }
        }
        let bits = set(process, address, words)?;
        let is_asked = |number: &usize| {
            bits.get(number / 64)
                .is_some_and(|word| is_in(*word, *number))
        };
        let of = (0..number).filter(is_asked).map(|number| Question {
            descriptor: number as u64,
            index: number,
            events: PollFlags::IN | PollFlags::RDNORM | PollFlags::RDBAND,
        });
        // The argument leads to the address and the length of the mask.
        let has_mask =
            call.name() == Syscall::Pselect6 && mask != 0 && task::word(process, mask)? != 0;
        Ok(Some(Self {
            of: of.collect(),
            form: Form::Set { address, words },
            is_brief: is_no_time(process, time)?,
            is_endless: time == 0,
            has_mask,
        }))
    }

    /// What each descriptor leads to that is one. The list is as long as the questions.
    fn files(&self, process: Pid) -> io::Result<Vec<Option<Reached>>> {
        let files = self.of.iter();
        files
            .map(|question| task::reached(process, question.descriptor))
            .collect()
    }

    /// Puts the answers where the process finds them. Returns the result of the call.
    fn answer(&self, process: Pid, answers: &[PollFlags]) -> io::Result<i64> {
        let answered = || self.of.iter().zip(answers);
        match self.form {
            Form::Entries { address, number } => {
                let mut events = vec![0; number];
                for (question, answer) in answered() {
                    events[question.index] = answer.bits();
                }
                let room: Vec<_> = (0..number as u64)
                    .map(|index| (address.wrapping_add(8 * index + 6), 2))
                    .collect();
                let bytes: Vec<_> = events.into_iter().flat_map(u16::to_ne_bytes).collect();
                task::fill(process, &room, &bytes)?;
            }
            Form::Set { address, words } if address != 0 => {
                let mut bits = vec![0; words];
                for (question, _) in answered().filter(|(_, answer)| !answer.is_empty()) {
                    bits[question.index / 64] |= 1_u64 << (question.index % 64);
                }
                let bytes: Vec<_> = bits.into_iter().flat_map(u64::to_ne_bytes).collect();
                memory::write(process, address, &bytes)?;
            }
            Form::Set { .. } => {}
        }
        Ok(answers.iter().filter(|answer| !answer.is_empty()).count() as i64)
    }
}

/// A set of select(2) of so many words; nothing where there is none.
fn set(process: Pid, address: u64, words: usize) -> io::Result<Vec<u64>> {
    let words = if address == 0 { 0 } else { words as u64 };
    let addresses = (0..words).map(|index| address.wrapping_add(8 * index));
    addresses.map(|at| task::word(process, at)).collect()
}

fn is_in(word: u64, number: usize) -> bool {
    word >> (number % 64) & 1 == 1
}

/// Whether a time is given, and it is none.
fn is_no_time(process: Pid, address: u64) -> io::Result<bool> {
    let word = |offset| task::word(process, address.wrapping_add(offset));
    Ok(address != 0 && word(0)? == 0 && word(8)? == 0)
}

/// Something that is readable when one of these files has what is asked of it. It keeps no end open.
fn wait_for(files: &[(&OwnedFd, PollFlags)]) -> io::Result<OwnedFd> {
    let waits = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    for (file, events) in files {
        let events = epoll::EventFlags::from_bits_retain(events.bits().into());
        epoll::add(&waits, file, epoll::EventData::new_u64(0), events)?;
    }
    Ok(waits)
}

/// Whether another thread of a process could put another file in a descriptor's place before the kernel looks.
fn may_change(process: Pid) -> io::Result<bool> {
    Ok(task::threads(process)?.len() != 1)
}

/// Whether what is ready about a file may depend on other files: one of epoll(7) is of no type, as others that the kernel alone has.
fn tells_of_others(reached: &Reached) -> bool {
    reached.kind == FileType::Unknown
}

/// Whether this program may ask a file what is ready: a pipe, a FIFO of the view, or a socket of a connection of which both are open.
fn may_ask(reached: &Reached, (learnt, still): (&Learnt, &[Pid])) -> io::Result<bool> {
    if fifo::inode(reached, &learnt.seen)?.is_some() {
        return Ok(true);
    }
    let Reached { file, kind, stat } = reached;
    let (Some(channels), Some(stat)) = (&learnt.channels, stat) else {
        return Ok(false);
    };
    if *kind != FileType::Socket {
        return is_nameless(file);
    }
    let known = (&learnt.seen, channels);
    let socket = (file.try_clone()?, stat);
    Ok(learnt.connections.of(socket, known, still)?.is_some())
}

/// Whether what a descriptor leads to has an end that is not told yet, while this program has all of it open.
fn is_ending(
    (reached, place): (&Reached, Option<Place>),
    (matters, apart): (&dyn Fn(Place) -> bool, &Apart),
    learnt: &Learnt,
) -> io::Result<bool> {
    let still = apart.still();
    if let Some(place) = place
        && matters(place)
        && !apart.hung_up.contains(&place)
        && learnt.is_ending_fifo(reached, &still)?
    {
        return Ok(true);
    }
    let Some(stat) = &reached.stat else {
        return Ok(false);
    };
    let connections = &learnt.connections;
    connections.is_ending((&reached.file, stat), &learnt.seen, &still)
}

/// Where each file is that is for this program to know.
fn places_of(files: &[Option<Reached>], learnt: &Learnt) -> io::Result<Vec<Option<Place>>> {
    let place = |found: &Option<_>| {
        let place = found.as_ref().map(|reached| learnt.place(reached));
        Ok(place.transpose()?.flatten())
    };
    files.iter().map(place).collect()
}

fn ask(
    process: Pid,
    call: &Call,
    (matters, apart): (&dyn Fn(Place) -> bool, &Apart),
    learnt: &Learnt,
) -> io::Result<Told> {
    let Some(questions) = Questions::of(process, call)? else {
        return Ok(Told::Unknown);
    };
    let (hung_up, still) = (&apart.hung_up, apart.still());
    let files = questions.files(process)?;
    let has_met_fifos = learnt.seen.has_fifos();
    let places = places_of(&files, learnt)?;
    // Whether it is shut was not looked for.
    if !has_met_fifos && learnt.seen.has_fifos() {
        return Ok(Told::Ending);
    }
    for (reached, place) in files.iter().zip(&places) {
        if let Some(reached) = reached
            && is_ending((reached, *place), (matters, apart), learnt)?
        {
            return Ok(Told::Ending);
        }
    }
    let is_meant = |place: Place| matters(place) || hung_up.contains(&place);
    let matters = places.iter().flatten().any(|place| is_meant(*place));
    if files.iter().flatten().any(tells_of_others) {
        return Ok(Told::Unknown);
    }
    let otherwise = match matters || may_change(process)? {
        true => Told::Unknown,
        false => Told::Other,
    };
    // In the kernel it would not be told that a pipe comes to be shut before that is certain.
    if !matters && (!questions.is_endless || questions.of.is_empty()) {
        return Ok(otherwise);
    }
    let mut asked = Vec::new();
    for (found, question) in files.iter().zip(&questions.of) {
        match found {
            Some(reached) if may_ask(reached, (learnt, &still))? => {
                asked.push((&reached.file, question.events));
            }
            // To ask a file of the view is a request to the view, which may wait for this program.
            _ => return Ok(otherwise),
        }
    }
    let mut polled: Vec<_> = asked
        .iter()
        .map(|&(file, events)| PollFd::new(file, events))
        .collect();
    rustix::event::poll(&mut polled, Some(&Timespec::default()))?;
    let mut answers: Vec<_> = polled.iter().map(PollFd::revents).collect();
    for (answer, place) in answers.iter_mut().zip(places.iter().flatten()) {
        // The kernel tells that unasked, and not yet, since an image has the other side open.
        if hung_up.contains(place) {
            *answer |= PollFlags::HUP;
        }
    }
    let is_any = answers.iter().any(|answer| !answer.is_empty());
    if is_any || questions.is_brief && !questions.has_mask {
        return Ok(Told::Ready(questions.answer(process, &answers)?));
    }
    match questions.is_brief {
        // A signal may be what it is told of.
        true => Ok(Told::Unknown),
        false => Ok(Told::Nothing(Some(wait_for(&asked)?))),
    }
}

/// Whether a call may ask of what is at a place. `place_of`: where something is.
pub(super) fn may_touch(
    process: Pid,
    call: &Call,
    place: Place,
    place_of: impl Fn(&Reached) -> io::Result<Option<Place>>,
) -> io::Result<bool> {
    if !asks(call.name()) || may_change(process)? {
        return Ok(true);
    }
    let Some(questions) = Questions::of(process, call)? else {
        return Ok(true);
    };
    for reached in questions.files(process)?.iter().flatten() {
        if tells_of_others(reached) || place_of(reached)? == Some(place) {
            return Ok(true);
        }
    }
    Ok(false)
}

impl Asking for Machine {
    fn asks(&self, call: &Call) -> bool {
        asks(call.name())
    }

    fn may_touch(&self, process: Pid, call: &Call, place: Place) -> bool {
        let place_of = |reached: &Reached| match &self.learnt {
            Some(learnt) => learnt.place(reached),
            None => plain_place(reached),
        };
        may_touch(process, call, place, place_of).unwrap_or(true)
    }

    fn ask(
        &mut self,
        process: Pid,
        call: &Call,
        about: (&dyn Fn(Place) -> bool, &Apart),
    ) -> io::Result<Told> {
        let Some(learnt) = &self.learnt else {
            return Ok(Told::Unknown);
        };
        // Whatever stands in the way of a look, the call itself will meet it.
        Ok(ask(process, call, about, learnt).unwrap_or(Told::Unknown))
    }
}
