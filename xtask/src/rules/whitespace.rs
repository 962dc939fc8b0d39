//! No trailing blanks, no carriage returns, one line end at the end, no path of one machine.

use super::Finding;
use crate::project::Project;

/// Files whose blanks are data.
const VERBATIM: &[&str] = &["snap", "patch", "diff", "txt"];

pub fn check(project: &Project) -> Vec<Finding> {
    let root = project.root.to_string_lossy();
    let mut findings = Vec::new();
    for file in &project.files {
        let verbatim = VERBATIM.iter().any(|extension| file.is(extension));
        if !verbatim
            && !file.text.is_empty()
            && (!file.text.ends_with('\n') || file.text.ends_with("\n\n"))
        {
            findings.push(Finding::new(&file.path, 0, "does not end in one line end"));
        }
        for (number, line) in file.text.split('\n').enumerate() {
            if !verbatim && line.ends_with([' ', '\t', '\r']) {
                findings.push(Finding::new(&file.path, number + 1, "ends in blanks"));
            }
            // A checkout directly below the root directory, as `/surmise`, could be any path's start.
            if root.matches('/').count() > 1 && line.contains(&*root) {
                findings.push(Finding::new(
                    &file.path,
                    number + 1,
                    "a path of this machine",
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
    fn blanks_and_line_ends_are_told() {
        let files = [("a.md", "x \ny"), ("b.sh", "x\n\n"), ("c.patch", " \n")];
        let wanted = [
            "a.md: does not end in one line end",
            "a.md:1: ends in blanks",
            "b.sh: does not end in one line end",
        ];
        assert_eq!(told(check, &files), wanted);
    }

    #[test]
    fn a_path_of_the_checkout_is_told() {
        let mut project = Project::of(&[("a.sh", "cd /somewhere/surmise/x\n")]);
        project.root = "/somewhere/surmise".into();
        assert_eq!(check(&project).len(), 1);
    }
}
