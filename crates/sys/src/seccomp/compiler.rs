//! From the table of system calls to a program for the kernel.

use libc::sock_filter;
use surmise_syscalls::{
    Disposition, Errno, Exception, Kind, Reach, Row, Syscall, disposition_of_unknown, row_numbered,
    rows,
};

use super::assembler::{Assembler, Label, Test};
use super::data::{self, Verdict, X32_BIT};
use crate::landlock;
use crate::ptrace::call::CLONE_VESSEL;

/// A compiled filter. Build it before the fork: installing it allocates nothing.
#[derive(Debug)]
pub struct Program {
    instructions: Box<[sock_filter]>,
}

impl Program {
    /// The filter by which somebody listens.
    ///
    /// * A number of the table: what its row says, exceptions included.
    /// * An unknown number and every x32 number: ENOSYS, as on a kernel without it.
    /// * A foreign entry (`int 0x80`, 32-bit programs): ENOSYS, as on a kernel without it, save
    ///   that it may exit: C libraries try that again for ever.
    pub fn new(listening: Listening) -> Self {
        let mut assembler = Assembler::default();
        let mut answers = Answers::default();
        let ranges = ranges(&mut assembler, &mut answers, listening);
        let native = search(&mut assembler, &ranges);
        let native = assembler.load(data::NUMBER, native);
        let foreign = foreign(&mut assembler, &mut answers);
        let entry = assembler.branch(Test::Equal, data::X86_64, native, foreign);
        let entry = assembler.load(data::ARCHITECTURE, entry);
        Self {
            instructions: assembler.finish(entry),
        }
    }

    /// The instructions, in the kernel's own form.
    pub(super) fn instructions(&self) -> &[sock_filter] {
        &self.instructions
    }
}

/// What somebody listens for, who answers the calls in question ([`super::install_with_listener`]). What the table
/// refuses fails in any case.
///
/// By default nobody listens for anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Listening {
    /// What a task may not do, or not without being tracked, while a prediction is undecided; save for the clone with
    /// [`CLONE_VESSEL`].
    ///
    /// The ends of 32-bit and x32 programs are no events: their numbers mean other calls elsewhere. A
    /// supervisor has to see ends that no call asks for anyway.
    pub predictions: bool,
    /// What promises durability, may reach what has none promised, or has to wait, while an epoch is undecided.
    pub epochs: Option<Changes>,
    /// What is refused.
    pub refusals: Telling,
}

/// Whether calls that change something by its name are heard for an epoch's sake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changes {
    /// They may be about anything.
    Heard,
    /// They are not: tasks are kept from changing anything by name that epochs do not order ([`crate::landlock`]).
    Silent,
}

impl Listening {
    /// For what a task may not do untracked while a prediction is undecided, and nothing else.
    pub const PREDICTIONS: Self = Self {
        predictions: true,
        epochs: None,
        refusals: Telling::Nothing,
    };

    /// Whether anybody listens at all.
    pub fn is_anything(self) -> bool {
        self != Self::default()
    }
}

/// Which calls are heard so that a person can be told what was refused. Their answers are the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Telling {
    /// None: the filter answers what it refuses by itself.
    #[default]
    Nothing,
    /// Those that are refused, where that is news ([`Errno::is_told`]), and those that may fail to
    /// reach something, but for datagrams.
    Calls,
    /// Datagrams, too.
    CallsAndDatagrams,
}

impl Telling {
    /// Whether a call that is allowed is heard, for what it may fail to reach.
    fn hears(self, reach: Option<Reach>) -> bool {
        match self {
            Self::Nothing => false,
            Self::Calls => reach.is_some_and(|reach| reach != Reach::Datagram),
            Self::CallsAndDatagrams => reach.is_some(),
        }
    }
}

impl Listening {
    /// What is listened for where a call is this row's.
    fn toward(self, row: &Row) -> Self {
        match self.epochs {
            Some(Changes::Silent) if landlock::governs(row) => Self {
                epochs: None,
                ..self
            },
            _ => self,
        }
    }

    /// What the filter answers where `disposition` says what happens, and `reach` what it may fail at.
    fn verdict(self, disposition: impl Fn(Kind) -> Disposition, reach: Option<Reach>) -> Verdict {
        let contained = match disposition(Kind::Consent) {
            Disposition::Allow => Verdict::Allow,
            Disposition::Refuse(errno) if errno.is_told() && self.refusals != Telling::Nothing => {
                Verdict::Notify
            }
            Disposition::Refuse(errno) => Verdict::Refuse(errno),
            // These need a supervisor that listens. Under consent none does, and a call that nobody
            // serves is one that this kernel does not have.
            Disposition::Track | Disposition::Hold | Disposition::Wait => {
                Verdict::Refuse(Errno::NoSys)
            }
        };
        let for_predictions =
            self.predictions && disposition(Kind::Prediction) != Disposition::Allow;
        let for_epochs = self.epochs.is_some()
            && matches!(
                disposition(Kind::Epoch),
                Disposition::Track | Disposition::Wait
            );
        let is_heard = for_predictions || for_epochs;
        match contained {
            Verdict::Allow if is_heard || self.refusals.hears(reach) => Verdict::Notify,
            contained => contained,
        }
    }

    fn of_row(self, row: &Row) -> Verdict {
        self.verdict(|kind| row.disposition(kind), row.reach())
    }

    fn of_exception(self, exception: &Exception) -> Verdict {
        self.verdict(|kind| exception.disposition(kind), exception.reach())
    }
}

/// What runs for the numbers from `first` up to the next range.
#[derive(Clone, Copy, Debug)]
struct Range {
    first: u32,
    target: Label,
}

/// Every number there is, neighbours with one answer merged.
fn ranges(assembler: &mut Assembler, answers: &mut Answers, used: Listening) -> Vec<Range> {
    let unknown = used.verdict(disposition_of_unknown, None);
    let last = rows().last().map_or(0, Row::number);
    let mut ranges = Vec::new();
    for number in 0..=last {
        let target = match row_numbered(number) {
            Some(row) => row_target(assembler, answers, used.toward(row), row),
            None => answers.label(assembler, unknown),
        };
        ranges.push(Range {
            first: number,
            target,
        });
    }
    for (first, verdict) in numbers_beyond(last, unknown) {
        ranges.push(Range {
            first,
            target: answers.label(assembler, verdict),
        });
    }
    ranges.dedup_by_key(|range| range.target);
    ranges
}

/// What starts at which number beyond the table's last.
fn numbers_beyond(last: u32, unknown: Verdict) -> [(u32, Verdict); 6] {
    let exit = X32_BIT | libc::SYS_exit as u32;
    let exit_group = X32_BIT | libc::SYS_exit_group as u32;
    [
        (last + 1, unknown),
        // As for the foreign entry: even an x32 program must be able to end.
        (exit, Verdict::Allow),
        (exit + 1, unknown),
        (exit_group, Verdict::Allow),
        (exit_group + 1, unknown),
        // A tracer in the domain cancels a call by making its number -1, and may already have
        // put the result in place: an answer from here would overwrite it.
        (u32::MAX, Verdict::Allow),
    ]
}

/// Tries the exceptions of a row in their order, then gives its own answer.
fn row_target(
    assembler: &mut Assembler,
    answers: &mut Answers,
    used: Listening,
    row: &Row,
) -> Label {
    let usual = answers.label(assembler, used.of_row(row));
    let target =
        significant_exceptions(used, row)
            .iter()
            .rev()
            .fold(usual, |otherwise, exception| {
                let matching = answers.label(assembler, used.of_exception(exception));
                let comparison = (exception.argument(), exception.mask(), exception.value());
                check(assembler, comparison, matching, otherwise)
            });
    let makes_vessels = used.predictions && row.name() == Syscall::Clone;
    if !makes_vessels {
        return target;
    }
    let allow = answers.label(assembler, Verdict::Allow);
    check(assembler, (0, u64::MAX, CLONE_VESSEL), allow, target)
}

/// The exceptions that can change the answer: none once only the row's own is left.
fn significant_exceptions(used: Listening, row: &Row) -> &'static [Exception] {
    let usual = used.of_row(row);
    let exceptions = row.exceptions();
    let changing = |exception: &Exception| used.of_exception(exception) != usual;
    let count = exceptions
        .iter()
        .rposition(changing)
        .map_or(0, |last| last + 1);
    &exceptions[..count]
}

/// Goes to `matching` if `argument & mask == value`. A word of which no bit counts is not read.
pub(super) fn check(
    assembler: &mut Assembler,
    (argument, mask, value): (usize, u64, u64),
    matching: Label,
    otherwise: Label,
) -> Label {
    let low = (data::argument_low(argument), mask as u32, value as u32);
    let high = (
        data::argument_high(argument),
        (mask >> 32) as u32,
        (value >> 32) as u32,
    );
    let words = [low, high].into_iter().filter(|&(_, mask, _)| mask != 0);
    words.fold(matching, |matching, (offset, mask, value)| {
        let mut label = assembler.branch(Test::Equal, value, matching, otherwise);
        if mask != u32::MAX {
            label = assembler.and(mask, label);
        }
        assembler.load(offset, label)
    })
}

/// A binary search for the accumulator, which holds the number.
fn search(assembler: &mut Assembler, ranges: &[Range]) -> Label {
    if let [only] = ranges {
        return only.target;
    }
    let (low, high) = ranges.split_at(ranges.len() / 2);
    let first_of_high = high[0].first;
    let high = search(assembler, high);
    let low = search(assembler, low);
    assembler.branch(Test::AtLeast, first_of_high, high, low)
}

/// A 32-bit entry may only end the task; the numbers are those of i386.
fn foreign(assembler: &mut Assembler, answers: &mut Answers) -> Label {
    const EXIT: u32 = 1;
    const EXIT_GROUP: u32 = 252;
    let refuse = answers.label(assembler, Verdict::Refuse(Errno::NoSys));
    let allow = answers.label(assembler, Verdict::Allow);
    let ends = assembler.branch(Test::Equal, EXIT_GROUP, allow, refuse);
    let ends = assembler.branch(Test::Equal, EXIT, allow, ends);
    let ends = assembler.load(data::NUMBER, ends);
    assembler.branch(Test::Equal, data::I386, ends, refuse)
}

/// One return instruction for each answer, shared by all who give it.
#[derive(Default)]
struct Answers {
    labels: Vec<(Verdict, Label)>,
}

impl Answers {
    fn label(&mut self, assembler: &mut Assembler, verdict: Verdict) -> Label {
        if let Some(&(_, label)) = self.labels.iter().find(|(known, _)| *known == verdict) {
            return label;
        }
        let label = assembler.ret(verdict.encode());
        self.labels.push((verdict, label));
        label
    }
}
