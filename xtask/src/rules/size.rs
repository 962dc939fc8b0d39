//! Files stay under 500 lines and functions under 70. `xtask/ratchet.txt` lists those that do not
//! yet, with their size; an entry may only shrink.

use std::collections::BTreeMap;

use super::Finding;
use super::functions::functions;
use crate::project::Project;

const RATCHET: &str = "xtask/ratchet.txt";
const FILE_LINES_MAX: usize = 499;
const FUNCTION_LINES_MAX: usize = 69;

pub fn check(project: &Project) -> Vec<Finding> {
    let mut known = ratchet(project);
    let mut findings = Vec::new();
    for file in &project.files {
        if !["rs", "py", "c", "h", "sh"]
            .iter()
            .any(|extension| file.is(extension))
        {
            continue;
        }
        let lines = file.text.lines().count();
        let found = measure(
            &mut known,
            &format!("file {}", file.path),
            lines,
            FILE_LINES_MAX,
        );
        findings.extend(found.map(|what| Finding::new(&file.path, 0, what)));
        for function in functions(&file.rust) {
            let subject = format!("function {} {}", file.path, function.name);
            let found = measure(&mut known, &subject, function.length, FUNCTION_LINES_MAX);
            findings.extend(found.map(|what| {
                Finding::new(
                    &file.path,
                    function.line,
                    format!("`{}`: {what}", function.name),
                )
            }));
        }
    }
    for subject in known.keys() {
        findings.push(Finding::new(
            RATCHET,
            0,
            format!("`{subject}` is not over its limit: remove it"),
        ));
    }
    findings
}

/// The size that each subject is known to have.
fn ratchet(project: &Project) -> BTreeMap<String, usize> {
    let text = project.file(RATCHET).map_or("", |file| &file.text);
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| {
            let (subject, size) = line.rsplit_once(' ')?;
            Some((subject.to_owned(), size.parse().ok()?))
        })
        .collect()
}

/// What is wrong with a subject of `size` lines; takes its entry from the ratchet.
fn measure(
    known: &mut BTreeMap<String, usize>,
    subject: &str,
    size: usize,
    limit: usize,
) -> Option<String> {
    if size <= limit {
        return None;
    }
    match known.remove(subject) {
        None => Some(format!("{size} lines, over the limit of {limit}")),
        Some(old) if size > old => Some(format!("grew from {old} to {size} lines")),
        Some(old) if size < old => Some(format!("shrank to {size} lines: say so in {RATCHET}")),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::told;

    fn long_file() -> String {
        "// line\n".repeat(500)
    }

    #[test]
    fn a_long_file_is_told() {
        let told = told(check, &[("a.rs", &long_file())]);
        assert_eq!(told, ["a.rs: 500 lines, over the limit of 499"]);
    }

    #[test]
    fn a_long_function_is_told() {
        let text = format!("fn f() {{\n{}}}\n", "    g();\n".repeat(68));
        assert_eq!(
            told(check, &[("a.rs", &text)]),
            ["a.rs:1: `f`: 70 lines, over the limit of 69"]
        );
    }

    #[test]
    fn the_ratchet_only_shrinks() {
        let with = |entry: &str| told(check, &[("a.rs", &long_file()), (RATCHET, entry)]);
        assert_eq!(with("# why\nfile a.rs 500\n"), Vec::<String>::new());
        assert_eq!(
            with("file a.rs 499\n"),
            ["a.rs: grew from 499 to 500 lines"]
        );
        assert!(with("file a.rs 510\n")[0].contains("shrank to 500"));
        assert!(with("file a.rs 500\nfile b.rs 600\n")[0].contains("`file b.rs` is not over"));
    }
}
