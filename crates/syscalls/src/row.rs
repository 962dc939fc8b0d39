//! One system call as data.

use crate::by_name::ByName;
use crate::disposition::{Disposition, Kind};
use crate::handler::Handler;
use crate::reach::Reach;
use crate::shape::Shape;
use crate::syscall::Syscall;

/// One system call.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    number: u32,
    name: Syscall,
    arguments: &'static [Shape],
    dispositions: [Disposition; 3],
    handler: Handler,
    reason: &'static str,
    reach: Option<Reach>,
    by_name: Option<ByName>,
    exceptions: &'static [Exception],
}

impl Row {
    /// The number that selects the call on x86-64.
    pub const fn number(&self) -> u32 {
        self.number
    }

    /// Which call it is.
    pub const fn name(&self) -> Syscall {
        self.name
    }

    /// What its arguments are, at most six.
    pub const fn arguments(&self) -> &'static [Shape] {
        self.arguments
    }

    /// What happens to it while an assumption of this kind is undecided, unless an exception
    /// applies.
    pub const fn disposition(&self, kind: Kind) -> Disposition {
        self.dispositions[kind as usize]
    }

    /// As [`Row::disposition`], for a call with these argument registers.
    pub fn disposition_with(&self, kind: Kind, arguments: &[u64; 6]) -> Disposition {
        match self.exception(arguments) {
            Some(exception) => exception.disposition(kind),
            None => self.disposition(kind),
        }
    }

    /// The module that serves it.
    pub const fn handler(&self) -> Handler {
        self.handler
    }

    /// Why, in one line.
    pub const fn reason(&self) -> &'static str {
        self.reason
    }

    /// What it may fail to reach though it is allowed, unless an exception applies.
    pub const fn reach(&self) -> Option<Reach> {
        self.reach
    }

    /// What it changes that a path names, if its arguments ask for changes at all.
    pub const fn changes_by_name(&self) -> Option<ByName> {
        self.by_name
    }

    /// As [`Row::reach`], for a call with these argument registers.
    pub fn reach_with(&self, arguments: &[u64; 6]) -> Option<Reach> {
        match self.exception(arguments) {
            Some(exception) => exception.reach(),
            None => self.reach(),
        }
    }

    /// The exception that holds for a call with these argument registers.
    pub fn exception(&self, arguments: &[u64; 6]) -> Option<&'static Exception> {
        self.exceptions
            .iter()
            .find(|exception| exception.matches(arguments))
    }

    /// Arguments with which the call is disposed of differently; the first that matches holds.
    pub const fn exceptions(&self) -> &'static [Exception] {
        self.exceptions
    }

    /// The same row with exceptions.
    pub(crate) const fn except(self, exceptions: &'static [Exception]) -> Self {
        Self { exceptions, ..self }
    }

    /// The same row, of a call that may fail to reach something.
    pub(crate) const fn reaching(self, reach: Reach) -> Self {
        Self {
            reach: Some(reach),
            ..self
        }
    }

    /// The same row, of a call that changes something by name.
    pub(crate) const fn changing(self, by_name: ByName) -> Self {
        Self {
            by_name: Some(by_name),
            ..self
        }
    }
}

/// A case of a call that one argument tells apart: `argument & mask == value`.
#[derive(Clone, Copy, Debug)]
pub struct Exception {
    argument: usize,
    mask: u64,
    value: u64,
    dispositions: [Disposition; 3],
    reach: Option<Reach>,
    reason: &'static str,
}

impl Exception {
    /// Which argument decides, from 0.
    pub const fn argument(&self) -> usize {
        self.argument
    }

    /// Which of its bits count.
    pub const fn mask(&self) -> u64 {
        self.mask
    }

    /// What those bits must be.
    pub const fn value(&self) -> u64 {
        self.value
    }

    /// Does it apply to a call with these argument registers?
    pub const fn matches(&self, arguments: &[u64; 6]) -> bool {
        arguments[self.argument] & self.mask == self.value
    }

    /// What happens to such a call while an assumption of this kind is undecided.
    pub const fn disposition(&self, kind: Kind) -> Disposition {
        self.dispositions[kind as usize]
    }

    /// What such a call may fail to reach though it is allowed.
    pub const fn reach(&self) -> Option<Reach> {
        self.reach
    }

    /// Why, in one line. That of a refusal begins with the name of the argument.
    pub const fn reason(&self) -> &'static str {
        self.reason
    }

    /// The same exception, of calls that may fail to reach something.
    pub(crate) const fn reaching(self, reach: Reach) -> Self {
        Self {
            reach: Some(reach),
            ..self
        }
    }
}

/// A cell order fit for a table: what it is, what happens (consent, prediction, epoch), who, why.
pub(crate) const fn row(
    number: u32,
    name: Syscall,
    arguments: &'static [Shape],
    dispositions: [Disposition; 3],
    handler: Handler,
    reason: &'static str,
) -> Row {
    Row {
        number,
        name,
        arguments,
        dispositions,
        handler,
        reason,
        reach: None,
        by_name: None,
        exceptions: &[],
    }
}

/// An exception for an argument whose 64 bits all count.
pub(crate) const fn whole(
    argument: usize,
    value: u64,
    dispositions: [Disposition; 3],
    reason: &'static str,
) -> Exception {
    bits(argument, u64::MAX, value, dispositions, reason)
}

/// An exception for an argument that the kernel takes as an `int`: it ignores the upper half of
/// the register, so a comparison that did not would be evaded by any value there.
pub(crate) const fn int(
    argument: usize,
    value: u32,
    dispositions: [Disposition; 3],
    reason: &'static str,
) -> Exception {
    bits(argument, 0xffff_ffff, value as u64, dispositions, reason)
}

/// An exception for some bits of an argument.
pub(crate) const fn bits(
    argument: usize,
    mask: u64,
    value: u64,
    dispositions: [Disposition; 3],
    reason: &'static str,
) -> Exception {
    assert!(argument < 6, "a call has six arguments");
    assert!(value & !mask == 0, "a value outside its mask never matches");
    Exception {
        argument,
        mask,
        value,
        dispositions,
        reach: None,
        reason,
    }
}
