//! Where the built `surmise` is.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

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
