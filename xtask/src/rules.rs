//! The rules, one file each. A rule looks at the whole project and tells what breaks it.

mod dead_files;
mod functions;
mod layers;
mod printing;
mod promises;
mod size;
mod unfinished;
mod unsafe_code;
mod vocabulary;
mod whitespace;

use std::fmt;

use crate::project::Project;

/// A rule: what in the project breaks it.
pub type Rule = fn(&Project) -> Vec<Finding>;

/// Every rule.
pub const ALL: &[Rule] = &[
    dead_files::check,
    layers::check,
    printing::check,
    promises::check,
    size::check,
    unfinished::check,
    unsafe_code::check,
    vocabulary::check,
    whitespace::check,
];

/// One place that breaks a rule.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    path: String,
    /// From 1; 0 for a whole file.
    line: usize,
    what: String,
}

impl Finding {
    fn new(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            line,
            what: what.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.what),
            line => write!(f, "{}:{line}: {}", self.path, self.what),
        }
    }
}

/// What `rule` says of a project made up of `files`, one line a finding.
#[cfg(test)]
fn told(rule: Rule, files: &[(&str, &str)]) -> Vec<String> {
    rule(&Project::of(files))
        .iter()
        .map(Finding::to_string)
        .collect()
}
