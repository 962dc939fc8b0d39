//! Every promise of docs/semantics.md, a line that starts with `**S1.**`, is named by a test, and
//! every promise that a test names exists. A test names a promise in a comment or as `s1_` in its
//! name.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use crate::project::{Project, SourceFile};

const DOCUMENT: &str = "docs/semantics.md";

pub fn check(project: &Project) -> Vec<Finding> {
    let Some(document) = project.file(DOCUMENT) else {
        return vec![Finding::new(DOCUMENT, 0, "is missing")];
    };
    let mut findings = Vec::new();
    let mut promised = BTreeSet::new();
    for (number, line) in document.numbered() {
        let Some(promise) = promise(line) else {
            continue;
        };
        if !promised.insert(promise) {
            findings.push(Finding::new(
                DOCUMENT,
                number,
                format!("S{promise} is promised twice"),
            ));
        }
    }
    let named = named(project);
    for promise in promised
        .iter()
        .filter(|promise| !named.contains_key(promise))
    {
        findings.push(Finding::new(
            DOCUMENT,
            0,
            format!("S{promise} is named by no test"),
        ));
    }
    for (promise, (path, line)) in named
        .iter()
        .filter(|(promise, _)| !promised.contains(promise))
    {
        findings.push(Finding::new(
            path,
            *line,
            format!("S{promise} is not in {DOCUMENT}"),
        ));
    }
    findings
}

/// The number in a line such as `**S12.** The tree…`, also as an item of a list.
fn promise(line: &str) -> Option<u32> {
    let start = line.trim_start_matches(['-', '*', ' ']);
    start
        .strip_prefix('S')?
        .split_once('.')?
        .0
        .parse()
        .ok()
        .filter(|_| line.contains("**S"))
}

/// Where each promise is first named by a test.
fn named(project: &Project) -> BTreeMap<u32, (&str, usize)> {
    let mut named = BTreeMap::new();
    for file in project.files.iter().filter(|file| is_test(file)) {
        for (number, text) in file.numbered() {
            // In Rust, a name such as `S1` in code is no promise.
            let text = file.rust.get(number - 1).map_or(text.to_owned(), |line| {
                let function = line.code.split("fn s").nth(1).unwrap_or_default();
                format!(
                    "{} S{}",
                    line.comment,
                    function.split('_').next().unwrap_or_default()
                )
            });
            for promise in promises(&text) {
                named.entry(promise).or_insert((file.path.as_str(), number));
            }
        }
    }
    named
}

fn is_test(file: &SourceFile) -> bool {
    // A program that is its own harness has its tests in such a table.
    let has_tests =
        ["#[test]", "#[tokio::test", "const TESTS: "].map(|mark| file.text.contains(mark));
    file.crate_directory() != Some("xtask")
        && (has_tests.contains(&true) || file.is("py") && file.path.contains("tests/"))
}

/// The numbers of words such as `S12`.
fn promises(text: &str) -> impl Iterator<Item = u32> {
    text.split(|next: char| !next.is_alphanumeric() && next != '_')
        .filter_map(|word| word.strip_prefix('S')?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::told;

    #[test]
    fn promises_without_a_test_and_tests_without_a_promise_are_told() {
        let files = [
            (
                DOCUMENT,
                "# Semantics\n**S1.** One.\n- **S2.** Two, unlike S9.\n**S3.** Three.\n\
                 **S6.** Six.\n",
            ),
            (
                "crates/cli/tests/a.rs",
                "/// S1: one.\n#[test]\nfn one() {}\n",
            ),
            (
                "crates/cli/tests/b.rs",
                "#[tokio::test]\nasync fn s3_three() {}\n// S4\nconst S5: u8 = 0;\n",
            ),
            ("crates/cli/src/c.rs", "// S2 is kept here.\n"),
            (
                "crates/cli/tests/d.rs",
                "pub const TESTS: &[Test] = &[];\n/// S6.\nfn six() {}\n",
            ),
        ];
        let wanted = [
            "docs/semantics.md: S2 is named by no test",
            "crates/cli/tests/b.rs:3: S4 is not in docs/semantics.md",
        ];
        assert_eq!(told(check, &files), wanted);
    }
}
