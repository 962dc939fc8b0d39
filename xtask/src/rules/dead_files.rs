//! Every Rust file is part of a crate: a `mod` leads to it.

use std::collections::BTreeSet;

use super::Finding;
use crate::project::{Project, SourceFile};

pub fn check(project: &Project) -> Vec<Finding> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<_> = project.rust().filter(|file| is_root(&file.path)).collect();
    while let Some(file) = open.pop() {
        if !reached.insert(&file.path) {
            continue;
        }
        for name in modules(file) {
            let directory = child_directory(&file.path);
            let candidates = [
                format!("{directory}{name}.rs"),
                format!("{directory}{name}/mod.rs"),
            ];
            open.extend(candidates.iter().filter_map(|path| project.file(path)));
        }
    }
    project
        .rust()
        .filter(|file| !reached.contains(&file.path))
        .map(|file| Finding::new(&file.path, 0, "no `mod` leads to this file"))
        .collect()
}

/// Whether cargo finds the file by itself.
fn is_root(path: &str) -> bool {
    let parts: Vec<_> = path.split('/').collect();
    match parts[..] {
        [.., "src", "lib.rs" | "main.rs"] | [.., "build.rs"] => true,
        [
            ..,
            "bin" | "tests" | "benches" | "examples" | "fuzz_targets",
            _,
        ] => !path.ends_with("/mod.rs"),
        [.., "bin" | "tests" | "benches" | "examples", _, "main.rs"] => true,
        _ => false,
    }
}

/// The names in `mod name;`.
fn modules(file: &SourceFile) -> impl Iterator<Item = &str> {
    file.rust.iter().filter_map(|line| {
        let declaration = line.code.trim().strip_suffix(';')?;
        let (before, name) = declaration.rsplit_once("mod ")?;
        (before.is_empty() || before.starts_with("pub") || before.starts_with('#')).then_some(name)
    })
}

/// Where the modules that a file declares lie, with a closing slash.
fn child_directory(path: &str) -> String {
    let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
    let own = name.trim_end_matches(".rs");
    if is_root(path) || own == "mod" {
        format!("{directory}/")
    } else {
        format!("{directory}/{own}/")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::told;

    #[test]
    fn a_file_that_no_module_names_is_told() {
        let files = [
            ("crates/a/src/lib.rs", "mod b;\npub mod d;\n// mod dead;\n"),
            ("crates/a/src/b.rs", "pub(crate) mod c;\n"),
            ("crates/a/src/b/c.rs", ""),
            ("crates/a/src/c.rs", ""),
            ("crates/a/src/d/mod.rs", "mod e;\n"),
            ("crates/a/src/d/e.rs", ""),
            ("crates/a/src/dead.rs", ""),
            ("crates/a/tests/t.rs", "mod common;\n"),
            ("crates/a/tests/common/mod.rs", ""),
        ];
        let wanted = [
            "crates/a/src/c.rs: no `mod` leads to this file",
            "crates/a/src/dead.rs: no `mod` leads to this file",
        ];
        assert_eq!(told(check, &files), wanted);
    }
}
