//! How often a name was looked up, told from how many questions for it were asked: a program asks for both
//! sorts of addresses, and again when it dislikes an answer.

use std::collections::{HashMap, VecDeque};

use crate::names::{Kind, Query};

/// How many names are kept apart, by program.
const NAMES_MAX: usize = 1024;

/// How many questions are remembered, to know them again.
const QUESTIONS_MAX: usize = 64;

/// Counts look-ups.
#[derive(Debug, Default)]
pub(crate) struct Lookups {
    /// What each program asked first about a name. It asks that each time.
    first: HashMap<Asked, Kind>,
    /// The last questions, with their numbers.
    recent: VecDeque<(Asked, u16)>,
}

/// A program and a name.
type Asked = (Option<String>, String);

impl Lookups {
    /// Whether a question begins another look-up.
    pub(crate) fn is_another(&mut self, query: &Query, program: Option<&str>) -> bool {
        let question = query.question();
        let asked = (program.map(str::to_owned), question.name.clone());
        if self.first.len() >= NAMES_MAX && !self.first.contains_key(&asked) {
            return true;
        }
        let first = *self.first.entry(asked.clone()).or_insert(question.kind);
        let same = (asked, query.id());
        if first != question.kind || self.recent.contains(&same) {
            return false;
        }
        if self.recent.len() == QUESTIONS_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back(same);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sorts_of_addresses_and_repeated_questions_are_one_look_up() {
        let mut lookups = Lookups::default();
        let mut ask = |program, id, kind| {
            let query = Query::new(id, "a.example", kind).expect("a query");
            lookups.is_another(&query, Some(program))
        };
        assert!(ask("curl", 1, Kind::V4));
        assert!(!ask("curl", 2, Kind::V6));
        assert!(!ask("curl", 1, Kind::V4), "asked again");
        assert!(ask("curl", 3, Kind::V4), "looked up again");
        assert!(ask("wget", 4, Kind::V6), "another program");
        assert!(!ask("wget", 5, Kind::V4));
    }
}
