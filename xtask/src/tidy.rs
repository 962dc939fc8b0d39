//! `cargo xtask tidy`: what a machine can check of STYLE.md.

use std::process::ExitCode;

use crate::project::Project;
use crate::rules::{self, Finding};

/// Checks the project and prints one line a finding.
pub fn run() -> ExitCode {
    let project = match Project::load() {
        Ok(project) => project,
        Err(error) => {
            eprintln!("Error: {error}");
            return ExitCode::FAILURE;
        }
    };
    let findings = check(&project);
    for finding in &findings {
        println!("{finding}");
    }
    if findings.is_empty() {
        println!("tidy: {} files, nothing to mend", project.files.len());
        ExitCode::SUCCESS
    } else {
        println!("tidy: {} findings", findings.len());
        ExitCode::FAILURE
    }
}

fn check(project: &Project) -> Vec<Finding> {
    let mut findings: Vec<_> = rules::ALL.iter().flat_map(|rule| rule(project)).collect();
    findings.sort();
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_project_is_tidy() {
        let project = Project::load().expect("the project's files");
        let findings: Vec<_> = check(&project).iter().map(Finding::to_string).collect();
        assert!(findings.is_empty(), "\n{}", findings.join("\n"));
    }
}
