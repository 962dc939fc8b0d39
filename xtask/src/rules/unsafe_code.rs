//! Unsafe code lives in one crate, and every use argues why it is sound.

use super::Finding;
use crate::project::{Project, SourceFile};
use crate::rust_text::has_word;

/// The crates that may hold unsafe code.
const UNSAFE_CRATES: &[&str] = &["sys"];

/// How far above an unsafe block its argument may start.
const SAFETY_LINES_MAX: usize = 12;

pub fn check(project: &Project) -> Vec<Finding> {
    project.rust().flat_map(check_file).collect()
}

fn check_file(file: &SourceFile) -> Vec<Finding> {
    let allowed = file
        .crate_directory()
        .is_some_and(|name| UNSAFE_CRATES.contains(&name));
    let mut findings = Vec::new();
    if !allowed && is_root(&file.path) && !file.text.contains("#![forbid(unsafe_code)]") {
        findings.push(Finding::new(
            &file.path,
            0,
            "a crate's root forbids unsafe code",
        ));
    }
    for (number, line) in file.numbered_rust() {
        if !has_word(&line.code, "unsafe") {
            continue;
        }
        if !allowed {
            findings.push(Finding::new(
                &file.path,
                number,
                "unsafe code outside crates/sys",
            ));
        } else if needs_argument(&line.code) && !is_argued(file, number) {
            findings.push(Finding::new(
                &file.path,
                number,
                "unsafe without `// SAFETY:`",
            ));
        }
    }
    findings
}

/// A library, a program, or one of several: a file of `src/bin`, or `main.rs` in a folder there.
fn is_root(path: &str) -> bool {
    let parts: Vec<_> = path.rsplit('/').collect();
    matches!(
        parts[..],
        ["lib.rs" | "main.rs", "src", ..]
            | [_, "bin", "src", ..]
            | ["main.rs", _, "bin", "src", ..]
    )
}

/// An unsafe function says in its documentation what the caller owes; clippy sees to that.
fn needs_argument(code: &str) -> bool {
    code.contains("unsafe {") || code.contains("unsafe impl")
}

fn is_argued(file: &SourceFile, number: usize) -> bool {
    let first = number.saturating_sub(SAFETY_LINES_MAX);
    file.rust[first..number]
        .iter()
        .any(|line| line.comment.contains("SAFETY:"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::told;

    #[test]
    fn a_root_that_forbids_nothing_is_told() {
        let files = [
            ("crates/view/src/lib.rs", "mod a;\n"),
            ("crates/sys/src/lib.rs", "mod b;\n"),
        ];
        assert_eq!(
            told(check, &files),
            ["crates/view/src/lib.rs: a crate's root forbids unsafe code"]
        );
    }

    #[test]
    fn roots_are_libraries_and_programs() {
        let roots = [
            "crates/a/src/lib.rs",
            "xtask/src/main.rs",
            "a/src/bin/b.rs",
            "a/src/bin/b/main.rs",
        ];
        assert!(roots.into_iter().all(is_root));
        let others = [
            "a/src/bin/b/c.rs",
            "a/src/b.rs",
            "a/examples/b/main.rs",
            "a/build.rs",
        ];
        assert!(!others.into_iter().any(is_root));
    }

    #[test]
    fn unsafe_code_elsewhere_is_told() {
        let files = [("crates/view/src/a.rs", "fn f() {\n    unsafe { g() }\n}\n")];
        assert_eq!(
            told(check, &files),
            ["crates/view/src/a.rs:2: unsafe code outside crates/sys"]
        );
    }

    #[test]
    fn unsafe_code_without_an_argument_is_told() {
        let argued = [(
            "crates/sys/src/a.rs",
            "// SAFETY: g is pure.\nlet x = unsafe { g() };\n",
        )];
        assert_eq!(told(check, &argued), Vec::<String>::new());
        let bare = [(
            "crates/sys/src/a.rs",
            "let x = unsafe { g() }; // \"unsafe {\"\n",
        )];
        assert_eq!(
            told(check, &bare),
            ["crates/sys/src/a.rs:1: unsafe without `// SAFETY:`"]
        );
    }
}
