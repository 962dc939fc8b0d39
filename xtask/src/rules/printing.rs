//! Libraries never print; only the command, the benchmarks, the guides' programs and the chores talk to a terminal.

use super::Finding;
use crate::project::Project;

const PRINTERS: &[&str] = &["cli", "bench", "guide", "xtask"];

const MACROS: &[&str] = &["println!", "print!", "eprintln!", "eprint!"];

pub fn check(project: &Project) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in project.rust().filter(|file| file.path.contains("/src/")) {
        if file
            .crate_directory()
            .is_none_or(|name| PRINTERS.contains(&name))
        {
            continue;
        }
        for (number, line) in file.numbered_rust() {
            let mut words = line
                .code
                .split(|next: char| !next.is_alphanumeric() && !"_!".contains(next));
            if let Some(name) = words.find(|word| MACROS.contains(word)) {
                findings.push(Finding::new(
                    &file.path,
                    number,
                    format!("a library never prints: `{name}`"),
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
    fn a_library_that_prints_is_told() {
        let text = "fn f() {\n    eprintln!(\"x\");\n}\n";
        let files = [
            ("crates/view/src/a.rs", text),
            ("crates/cli/src/a.rs", text),
        ];
        assert_eq!(
            told(check, &files),
            ["crates/view/src/a.rs:2: a library never prints: `eprintln!`"]
        );
    }
}
