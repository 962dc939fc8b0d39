//! Dependencies point down, pure crates do nothing but compute, and only `sys` calls libc.

use super::Finding;
use crate::project::{Project, SourceFile};

/// Each crate's directory, lowest first; crates of one row do not depend on each other.
const LAYERS: &[&[&str]] = &[
    &["syscalls", "engine", "journal", "lower", "predict", "rpc"],
    &["sys", "grpc", "remote"],
    &["linux"],
    &["refusals", "tls", "wire"],
    &["checkpoint", "fuse", "outbox", "server"],
    &["mount"],
    &["supervisor"],
    &["sync"],
    &["view", "stdio", "network"],
    &["changes"],
    &["commit", "diff"],
    &["kept"],
    &["launch"],
    &["api"],
    &["cli"],
];

/// Crates beside the layers, with those that they may use; no library uses them.
const ASIDE: &[(&str, &[&str])] = &[
    // Its disks are files that it serves.
    ("testkit", &["fuse"]),
    ("twins", &["testkit", "view"]),
    // Its delay line is made of TUN devices.
    ("bench", &["testkit", "grpc", "sys"]),
    ("guide", &["grpc", "predict"]),
    ("xtask", &[]),
];

/// Crates without input, output, clock or threads.
const PURE: &[&str] = &["syscalls", "engine", "predict", "rpc", "remote"];

/// `linux` has no unsafe code, so that it takes nothing from libc but the numbers of the kernel's headers.
const MEETS_LIBC: &[&str] = &["sys", "linux"];

const IMPURE: &[&str] = &[
    "std::fs",
    "std::net",
    "std::thread",
    "std::process",
    "std::time",
    "std::env",
    "std::io",
];

pub fn check(project: &Project) -> Vec<Finding> {
    let manifests = project
        .files
        .iter()
        .filter(|file| file.path.ends_with("/Cargo.toml"));
    let sources = project.rust().filter(|file| {
        file.path.contains("/src/")
            && file
                .crate_directory()
                .is_some_and(|name| PURE.contains(&name))
    });
    manifests
        .flat_map(check_manifest)
        .chain(sources.flat_map(check_source))
        .collect()
}

fn check_manifest(file: &SourceFile) -> Vec<Finding> {
    let Some(name) = file.crate_directory() else {
        return Vec::new();
    };
    let aside = ASIDE.iter().find(|(aside, _)| *aside == name);
    if layer(name).is_none() && aside.is_none() {
        return vec![Finding::new(
            &file.path,
            0,
            format!("`{name}` has no place in xtask's layers"),
        )];
    }
    let complain = |(number, dependency): (usize, &str)| {
        let what = if dependency == "libc" && !MEETS_LIBC.contains(&name) {
            "only crates/sys and crates/linux use libc".to_owned()
        } else if PURE.contains(&name) && ["rustix", "libc", "tokio", "nix"].contains(&dependency) {
            format!("a pure crate does not use {dependency}")
        } else {
            let lower = project_crate(dependency)?;
            let points_down = layer(lower).is_some() && layer(lower) < layer(name);
            let is_lent = aside.is_some_and(|(_, lent)| lent.contains(&lower));
            if points_down || is_lent {
                return None;
            }
            format!("`{name}` may not depend on `{lower}`")
        };
        Some(Finding::new(&file.path, number, what))
    };
    dependencies(file).filter_map(complain).collect()
}

fn check_source(file: &SourceFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in file.numbered_rust() {
        for module in IMPURE.iter().filter(|module| line.code.contains(*module)) {
            findings.push(Finding::new(
                &file.path,
                number,
                format!("a pure crate uses no {module}"),
            ));
        }
    }
    findings
}

fn layer(name: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&name))
}

/// The directory of a crate of this project, by its package's name.
fn project_crate(package: &str) -> Option<&str> {
    if package == "surmise" {
        Some("cli")
    } else {
        package.strip_prefix("surmise-")
    }
}

/// The names in `[dependencies]` and `[build-dependencies]`, with their lines. Tests may use more.
fn dependencies(file: &SourceFile) -> impl Iterator<Item = (usize, &str)> {
    let mut wanted = false;
    file.numbered().filter_map(move |(number, line)| {
        if line.starts_with('[') {
            wanted = line.ends_with("dependencies]") && !line.contains("dev-");
            return None;
        }
        let end = line.find(['.', ' ', '='])?;
        (wanted && end > 0 && !line.starts_with('#')).then(|| (number, &line[..end]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::told;

    fn manifest(path: &str, text: &str) -> Vec<String> {
        told(check, &[(path, text)])
    }

    #[test]
    fn a_dependency_that_points_up_or_aside_is_told() {
        let text =
            "[dependencies]\nsurmise-sys.workspace = true\nsurmise-launch.workspace = true\n";
        let wanted = ["crates/view/Cargo.toml:3: `view` may not depend on `launch`"];
        assert_eq!(manifest("crates/view/Cargo.toml", text), wanted);
        let text = "[dependencies]\nsurmise = { path = \"../cli\" }\n[dev-dependencies]\nsurmise-testkit = 1\n";
        assert_eq!(manifest("crates/bench/Cargo.toml", text).len(), 1);
        let text = "[dependencies]\nsurmise-fuse.workspace = true\n";
        assert_eq!(manifest("crates/testkit/Cargo.toml", text).len(), 0);
        assert_eq!(manifest("crates/bench/Cargo.toml", text).len(), 1);
        let text = "[dependencies]\nsurmise-testkit.workspace = true\n";
        assert_eq!(manifest("crates/cli/Cargo.toml", text).len(), 1);
    }

    #[test]
    fn libc_outside_sys_and_impure_pure_crates_are_told() {
        let text = "[dependencies]\nlibc.workspace = true\n";
        assert_eq!(
            manifest("crates/sys/Cargo.toml", text),
            Vec::<String>::new()
        );
        assert!(
            manifest("crates/view/Cargo.toml", text)[0]
                .contains("only crates/sys and crates/linux use libc")
        );
        let text = "[dependencies]\nrustix.workspace = true\n";
        assert!(manifest("crates/syscalls/Cargo.toml", text)[0].contains("does not use rustix"));
        let source = [("crates/syscalls/src/lib.rs", "use std::fs::File;\n")];
        assert!(told(check, &source)[0].contains("uses no std::fs"));
    }

    #[test]
    fn an_unknown_crate_is_told() {
        assert!(manifest("crates/new/Cargo.toml", "")[0].contains("no place"));
    }
}
