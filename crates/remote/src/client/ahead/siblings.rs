//! Leases that another client has to give back first, each for the price of two round trips: a program that goes through a
//! directory in which another client was needs one after the other. So with each that it needs in the order of names, twice
//! as many are asked for that come behind.

use std::collections::HashSet;

use super::super::{Client, Effect};
use crate::frame::Want;
use crate::lease::Mode;
use crate::object::{Name, ObjectId};
use crate::server::Moment;

/// How many are asked for at most. Another client gives them up, needed or not.
const SIBLINGS_MAX: usize = 256;

/// How far they are looked for.
const LOOKS_MAX: usize = 4096;

/// After so many milliseconds a program does something else.
const PAUSE_MS: u64 = 2000;

/// What was needed last.
#[derive(Debug, Default)]
pub(super) struct Siblings {
    last: Option<(ObjectId, Name)>,
    at: Moment,
    more: usize,
}

impl Siblings {
    /// A lease on an object is needed that was not there. How many of those behind it are to be asked for.
    fn needed(&mut self, directory: ObjectId, name: &Name, now: Moment) -> usize {
        let last = self.last.replace((directory, name.clone()));
        let last = last.filter(|_| now.0 <= self.at.0 + PAUSE_MS);
        self.at = now;
        self.more = match last {
            Some((same, last)) if same == directory && last < *name => self.more * 2 + 1,
            // It may go through that one next, or change a file here and a file there by turns.
            Some((other, _)) if other != directory => self.more,
            _ => 0,
        };
        self.more = self.more.min(SIBLINGS_MAX);
        self.more
    }
}

impl Client {
    /// The object whose lease is missing, of those that a program wants.
    pub(in crate::client) fn missed(&self, wants: &[Want]) -> Option<(ObjectId, Mode)> {
        let lacks = |want: &&Want| self.leases.get(&want.object) < Some(&want.mode);
        let missed = wants.iter().rev().find(lacks)?;
        Some((missed.object, missed.mode))
    }

    /// Asks for leases on what comes behind an object in its directory, if the last ones were needed in that order.
    pub(in crate::client) fn ask_for_siblings(
        &mut self,
        object: ObjectId,
        mode: Mode,
        effects: &mut Vec<Effect>,
    ) {
        let Some(&directory) = self.ahead.places.get(&object) else {
            return;
        };
        let Ok(names) = self.tree.names(directory) else {
            return;
        };
        let Some((name, _)) = names.iter().find(|(_, one)| **one == object) else {
            return;
        };
        let count = self.ahead.siblings.needed(directory, name, self.now);
        let asked: HashSet<_> = self.asked.values().flat_map(|one| &one.objects).collect();
        let lacks = |one: &ObjectId| self.leases.get(one) < Some(&mode) && !asked.contains(one);
        let behind = self.order_behind(object).take(LOOKS_MAX);
        let wants = behind.filter(lacks).take(count).map(|one| {
            let known = self.tree.get(one);
            // Of an object that is not known it is not known either whether it is a directory.
            let names = known.is_none_or(crate::object::Object::is_directory);
            self.want(one, mode, names)
        });
        let wants: Vec<_> = wants.collect();
        if !wants.is_empty() {
            self.send_ask(None, wants, effects);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(number: u8) -> Name {
        [b'a' + number][..].try_into().expect("a name")
    }

    #[test]
    fn a_program_that_goes_through_a_directory_gets_more_each_time() {
        let (directory, mut siblings) = (ObjectId::numbered(1), Siblings::default());
        let needed = (0..5).map(|number| siblings.needed(directory, &name(number), Moment(60)));
        assert_eq!(needed.collect::<Vec<_>>(), [0, 1, 3, 7, 15]);
    }

    #[test]
    fn the_same_object_again_or_one_after_a_pause_brings_no_more() {
        let (directory, mut siblings) = (ObjectId::numbered(1), Siblings::default());
        for at in [0, 10, 20] {
            assert_eq!(siblings.needed(directory, &name(3), Moment(at)), 0);
        }
        assert_eq!(siblings.needed(directory, &name(4), Moment(10_000)), 0);
    }

    #[test]
    fn files_of_two_directories_by_turns_bring_no_more() {
        let directories = [1, 2].map(ObjectId::numbered);
        let mut siblings = Siblings::default();
        for directory in directories.into_iter().cycle().take(10) {
            assert_eq!(siblings.needed(directory, &name(1), Moment(60)), 0);
        }
    }
}
