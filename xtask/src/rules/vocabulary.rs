//! One idea has one word (docs/glossary.md); its discarded synonyms stay out of code and documents.

use super::Finding;
use crate::project::Project;

const DISCARDED: &[&str] = &[
    "hypothesis",
    "hypotheses",
    "taint",
    "taints",
    "tainted",
    "sandbox",
    "sandboxes",
    "sandboxed",
    "sandboxing",
    "box",
    "boxes",
];

/// Where a discarded word says what Surmise is not, or names another program's option.
const ALLOWED: &[&str] = &[
    "not a security sandbox",
    "no security sandbox",
    "APT::Sandbox::User",
];

/// The one document that lists the words.
const LIST: (&str, &str) = ("docs/glossary.md", "Not used:");

pub fn check(project: &Project) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &project.files {
        // This crate names what it looks for; the lock file's names are others' words.
        if file.crate_directory() == Some("xtask") || file.path == "Cargo.lock" {
            continue;
        }
        for (number, line) in file.numbered() {
            if file.path == LIST.0 && line.starts_with(LIST.1) {
                continue;
            }
            let is_rust = file.is("rs");
            findings.extend(discarded(line, is_rust).map(|word| {
                Finding::new(
                    &file.path,
                    number,
                    format!("`{word}` is not in the vocabulary"),
                )
            }));
        }
    }
    findings
}

fn discarded(line: &str, is_rust: bool) -> impl Iterator<Item = String> {
    let mut rest = line.to_owned();
    for phrase in ALLOWED {
        rest = rest.replace(phrase, "");
    }
    let words: Vec<_> = rest
        .split(|next: char| !next.is_alphabetic())
        // Rust's own type.
        .filter(|word| !(is_rust && *word == "Box"))
        .map(str::to_lowercase)
        .filter(|word| DISCARDED.contains(&word.as_str()))
        .collect();
    words.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::told;

    #[test]
    fn discarded_words_are_told() {
        let files = [
            ("a.rs", "let sandbox_dir = Box::new(1); // the box\n"),
            ("b.md", "A Hypothesis\n"),
        ];
        let wanted = [
            "a.rs:1: `sandbox` is not in the vocabulary",
            "a.rs:1: `box` is not in the vocabulary",
            "b.md:1: `hypothesis` is not in the vocabulary",
        ];
        assert_eq!(told(check, &files), wanted);
    }

    #[test]
    fn saying_what_surmise_is_not_is_allowed() {
        let files = [
            ("a.md", "It is not a security sandbox; see sandlock.\n"),
            ("docs/glossary.md", "Not used: taint.\n"),
        ];
        assert_eq!(told(check, &files), Vec::<String>::new());
    }
}
