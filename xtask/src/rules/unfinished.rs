//! Nothing unfinished is kept: what is missing is an issue, not a mark in the code.

use super::Finding;
use crate::project::Project;
use crate::rust_text::has_word;

const MARKS: &[&str] = &["TODO", "FIXME", "XXX"];

const CODE: &[(&str, &str)] = &[
    ("todo!(", "unfinished code"),
    ("unimplemented!(", "unfinished code"),
    ("dbg!(", "a trace left behind"),
    ("#[ignore", "a test that does not run"),
    ("allow(dead_code", "code that nobody calls"),
];

pub fn check(project: &Project) -> Vec<Finding> {
    let mut findings = Vec::new();
    // This crate names what it looks for.
    for file in project
        .files
        .iter()
        .filter(|file| file.crate_directory() != Some("xtask"))
    {
        for (number, line) in file.numbered() {
            for mark in MARKS.iter().filter(|mark| has_word(line, mark)) {
                findings.push(Finding::new(
                    &file.path,
                    number,
                    format!("`{mark}` is no issue"),
                ));
            }
        }
        for (number, line) in file.numbered_rust() {
            for (text, what) in CODE.iter().filter(|(text, _)| line.code.contains(text)) {
                findings.push(Finding::new(
                    &file.path,
                    number,
                    format!("`{text}`: {what}"),
                ));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::told;

    #[test]
    fn marks_are_told_in_any_file() {
        let files = [("a.md", "ok\nTODO: more\n"), ("b.sh", "mktemp XXXXXX\n")];
        assert_eq!(told(check, &files), ["a.md:2: `TODO` is no issue"]);
    }

    #[test]
    fn unfinished_code_is_told_but_not_in_a_string() {
        let files = [(
            "a.rs",
            "fn f() {\n    todo!()\n}\n#[ignore]\nconst T: &str = \"todo!()\";\n",
        )];
        let told = told(check, &files);
        assert_eq!(
            told,
            [
                "a.rs:2: `todo!(`: unfinished code",
                "a.rs:4: `#[ignore`: a test that does not run"
            ]
        );
    }
}
