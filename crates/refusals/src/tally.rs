//! Counting what is refused.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::refusal::{Kind, Refusal, Refusals};

/// How many different refusals are kept. A scan of all ports is told as such by far fewer.
const DIFFERENT_MAX: usize = 200;

/// Longest target that is kept, in bytes; a path of a socket has 108 at most, a name 255.
const TARGET_MAX: usize = 255;

/// What was refused so far. Copies share it.
#[derive(Clone, Debug, Default)]
pub struct Tally(Arc<Mutex<Counts>>);

#[derive(Debug, Default)]
struct Counts {
    refusals: Refusals,
    /// By what makes two attempts the same.
    places: HashMap<Key, usize>,
}

type Key = (Kind, String, Option<String>);

impl Tally {
    /// One attempt was refused. `allow`: the option that would have allowed it.
    pub fn record(&self, kind: Kind, target: &str, program: Option<&str>, allow: Option<String>) {
        self.add(Refusal {
            kind,
            target: shortened(target),
            program: program.map(str::to_owned),
            count: 1,
            allow,
        });
    }

    /// Takes in what was counted elsewhere.
    pub fn merge(&self, refusals: Refusals) {
        for refusal in refusals.list {
            self.add(refusal);
        }
        self.counts().refusals.more += refusals.more;
    }

    /// What was recorded for a target was no refusal: it came to be there.
    pub fn withdraw(&self, kind: Kind, target: &str) {
        let list = &mut self.counts().refusals.list;
        let same = list
            .iter_mut()
            .filter(|one| one.kind == kind && one.target == target);
        // Its place stays: it may be refused again.
        same.for_each(|one| one.count = 0);
    }

    /// What was refused so far.
    pub fn refusals(&self) -> Refusals {
        let counts = self.counts();
        let all = &counts.refusals.list;
        let told = all
            .iter()
            .filter(|one| one.count > 0 && !is_implied(one, all));
        Refusals {
            list: told.cloned().collect(),
            more: counts.refusals.more,
        }
    }

    fn add(&self, refusal: Refusal) {
        let mut counts = self.counts();
        let Counts { refusals, places } = &mut *counts;
        let key = (
            refusal.kind,
            refusal.target.clone(),
            refusal.program.clone(),
        );
        if let Some(&place) = places.get(&key) {
            refusals.list[place].count += refusal.count;
        } else if refusals.list.len() < DIFFERENT_MAX {
            places.insert(key, refusals.list.len());
            refusals.list.push(refusal);
        } else {
            refusals.more += refusal.count;
        }
    }

    /// Counts are right after each of their changes, so a panic elsewhere does not spoil them.
    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a refusal is only a part of another one that the same program met.
fn is_implied(one: &Refusal, all: &[Refusal]) -> bool {
    let same_program = all
        .iter()
        .filter(|other| other.count > 0 && other.program == one.program);
    match one.kind {
        // The C library connects a datagram socket to each address of a host to choose among them.
        Kind::Datagram => same_program
            .into_iter()
            .any(|other| other.kind == Kind::Connection && other.target == one.target),
        // It also tries a name with the search domains of resolv.conf behind it.
        Kind::Name => same_program.into_iter().any(|other| {
            let rest = one.target.strip_prefix(&other.target);
            other.kind == Kind::Name && rest.is_some_and(|rest| rest.starts_with('.'))
        }),
        _ => false,
    }
}

fn shortened(target: &str) -> String {
    let whole = target.len().min(TARGET_MAX);
    let end = (0..=whole).rev().find(|&end| target.is_char_boundary(end));
    target[..end.unwrap_or(0)].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(tally: &Tally) -> Vec<(Kind, String, u64)> {
        let list = tally.refusals().list.into_iter();
        list.map(|one| (one.kind, one.target, one.count)).collect()
    }

    #[test]
    fn attempts_are_counted_by_kind_target_and_program() {
        let tally = Tally::default();
        for program in ["curl", "wget", "curl"] {
            tally.record(Kind::Connection, "192.0.2.1:80", Some(program), None);
        }
        tally.record(Kind::Call, "mount", None, None);
        let list = tally.refusals().list;
        let counts: Vec<_> = list
            .iter()
            .map(|one| (one.program.as_deref(), one.count))
            .collect();
        assert_eq!(counts, [(Some("curl"), 2), (Some("wget"), 1), (None, 1)]);
    }

    #[test]
    fn more_than_the_list_holds_are_counted_still() {
        let tally = Tally::default();
        for port in 0..DIFFERENT_MAX + 7 {
            tally.record(Kind::Connection, &port.to_string(), Some("scan"), None);
        }
        tally.record(Kind::Connection, "0", Some("scan"), None);
        let refusals = tally.refusals();
        assert_eq!((refusals.list.len(), refusals.more), (DIFFERENT_MAX, 7));
        assert_eq!(refusals.list[0].count, 2);
    }

    #[test]
    fn what_came_to_be_there_was_not_refused_before() {
        let tally = Tally::default();
        tally.record(Kind::Connection, "127.0.0.1:80", Some("curl"), None);
        tally.withdraw(Kind::Connection, "127.0.0.1:80");
        assert_eq!(told(&tally), []);
        tally.record(Kind::Connection, "127.0.0.1:80", Some("curl"), None);
        assert_eq!(told(&tally), [(Kind::Connection, "127.0.0.1:80".into(), 1)]);
    }

    #[test]
    fn what_the_c_library_tries_besides_is_not_told() {
        let tally = Tally::default();
        for name in ["a.example.lan", "a.example", "a.example.com"] {
            tally.record(Kind::Name, name, Some("curl"), None);
        }
        tally.record(Kind::Name, "a.example.lan", Some("other"), None);
        tally.record(Kind::Datagram, "192.0.2.1:80", Some("curl"), None);
        tally.record(Kind::Connection, "192.0.2.1:80", Some("curl"), None);
        tally.record(Kind::Datagram, "192.0.2.1:80", Some("ntpd"), None);
        let told = tally.refusals().list.into_iter();
        let told: Vec<_> = told
            .map(|one| (one.kind, one.target, one.program.unwrap()))
            .collect();
        let row = |kind, target: &str, program: &str| (kind, target.into(), program.into());
        assert_eq!(
            told,
            [
                row(Kind::Name, "a.example", "curl"),
                row(Kind::Name, "a.example.lan", "other"),
                row(Kind::Connection, "192.0.2.1:80", "curl"),
                row(Kind::Datagram, "192.0.2.1:80", "ntpd"),
            ]
        );
    }

    #[test]
    fn counts_of_several_are_one_whole() {
        let (one, two) = (Tally::default(), Tally::default());
        for tally in [&one, &two] {
            tally.record(Kind::Call, "mount", Some("mount"), None);
        }
        one.merge(two.refusals());
        assert_eq!(told(&one), [(Kind::Call, "mount".into(), 2)]);
    }
}
