//! What the guides show is what the programs are.

use std::fs;
use std::path::Path;
use std::process::Command;

/// The guides, with the folders whose files they show parts of.
const GUIDES: [(&str, &[&str]); 2] = [
    (
        "docs/rpc.md",
        &["guide/src/bin/weather", "grpc/examples/etcd"],
    ),
    ("docs/rpc-servers.md", &["guide/src/bin/shop"]),
];

/// Without what differs by where it stands.
fn bare(text: &str) -> String {
    let lines = text.lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join("\n")
}

/// The blocks that a guide takes from elsewhere.
fn blocks(guide: &str) -> Vec<String> {
    let pieces = guide.split("```rs\n").skip(1);
    let block = |piece: &str| bare(piece.split("```").next().unwrap_or_default());
    pieces.map(block).collect()
}

#[test]
fn every_block_is_a_part_of_a_program() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for (guide, folders) in GUIDES {
        let shown = blocks(&fs::read_to_string(crates.join("..").join(guide)).unwrap());
        assert!(!shown.is_empty(), "{guide} shows nothing");
        let files = folders
            .iter()
            .flat_map(|folder| fs::read_dir(crates.join(folder)).unwrap());
        let programs: Vec<_> = files
            .map(|file| bare(&fs::read_to_string(file.unwrap().path()).unwrap()))
            .collect();
        for block in shown {
            let is_there = programs.iter().any(|file| file.contains(&block));
            assert!(is_there, "not in {folders:?}, but in {guide}:\n{block}");
        }
    }
}

/// What a program prints.
fn printed(program: &str) -> String {
    let run = Command::new(program).output().unwrap();
    assert!(run.status.success(), "{run:?}");
    String::from_utf8(run.stdout).unwrap()
}

#[test]
fn a_temperature_is_the_same_before_and_after() {
    let printed = printed(env!("CARGO_BIN_EXE_weather"));
    assert!(
        printed.starts_with("before") && printed.contains("\nafter"),
        "{printed}"
    );
}

#[test]
fn one_hat_is_sold_at_a_time_whatever_is_predicted() {
    let printed = printed(env!("CARGO_BIN_EXE_shop"));
    assert!(
        printed.contains("predicted rightly: 8 are left"),
        "{printed}"
    );
    assert!(
        printed.contains("predicted wrongly: 7 are left"),
        "{printed}"
    );
    assert_eq!(
        printed.matches("warehouse: took hat 4\n").count(),
        2,
        "{printed}"
    );
    let never =
        ["ordered", "cancelled"].map(|what| printed.matches(&format!("{what} hat 9")).count());
    assert_eq!(never[0], never[1], "{printed}");
    assert!(!printed.contains("took hat 9"), "{printed}");
}
