//! Where the built `surmise` is.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::Scratch;

/// The path of the built `surmise` command.
///
/// It is `SURMISE_BIN` where that is set, else the binary beside the running test (the same target
/// directory and profile), built once where it is missing. Tests in `crates/cli/tests` always meet a
/// fresh one, since cargo builds it for them: put tests that run the command there.
pub fn surmise_binary() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        if let Some(path) = env::var_os("SURMISE_BIN") {
            return PathBuf::from(path);
        }
        let profile = profile_directory();
        let path = profile.join("surmise");
        if !path.exists() {
            build(&profile);
        }
        path
    })
}

/// A copy of the command in the scratch tree: the project may lie where another user can't reach.
pub fn copied_binary(scratch: &Scratch) -> PathBuf {
    static COPIES: AtomicU32 = AtomicU32::new(0);
    let copy = scratch.root().join("surmise");
    if !copy.exists() {
        let number = COPIES.fetch_add(1, Ordering::Relaxed);
        let unfinished = scratch.root().join(format!("surmise.{number}"));
        // By a program: were it open for writing here, the processes that other tests start
        // meanwhile would keep it busy.
        let status = Command::new("cp")
            .arg(surmise_binary())
            .arg(&unfinished)
            .status()
            .expect("start cp");
        assert!(status.success(), "cp: {status}");
        fs::rename(&unfinished, &copy).expect("rename the copy of the command");
    }
    copy
}

/// `target/debug` for a test that runs as `target/debug/deps/NAME-HASH`.
fn profile_directory() -> PathBuf {
    let test = env::current_exe().expect("the path of the running test");
    let mut directory = test.parent().expect("a test lies in a directory");
    if directory.ends_with("deps") || directory.ends_with("examples") {
        directory = directory
            .parent()
            .expect("deps lies in a profile's directory");
    }
    directory.to_owned()
}

fn build(profile: &Path) {
    // The directory of the dev profile is called "debug".
    let name = match profile.file_name().and_then(|name| name.to_str()) {
        Some("debug") => "dev",
        Some(name) => name,
        None => panic!("{} names no profile", profile.display()),
    };
    let target = profile
        .parent()
        .expect("a profile's directory lies in the target directory");
    let status = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args([
            "build",
            "--quiet",
            "--locked",
            "--package",
            "surmise",
            "--profile",
            name,
        ])
        .arg("--target-dir")
        .arg(target)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status()
        .expect("start cargo");
    assert!(status.success(), "cargo build --package surmise: {status}");
}
