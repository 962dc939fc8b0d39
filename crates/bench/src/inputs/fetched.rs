//! What package managers install: fetched once from their registries, and installed from there without a network.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::place::{about, succeed};

/// Installs a project for npm from what was fetched for it.
pub const NPM_INSTALL: &[&str] = &[
    "npm",
    "ci",
    "--offline",
    "--ignore-scripts",
    "--no-audit",
    "--no-fund",
    "--silent",
    "--cache",
    "cache",
];

/// `npm ci --offline`: the options behind these words hold for fetching, too.
const NPM_OFFLINE_WORDS: usize = 3;

/// A web application's: a few large packages, and many small ones that these need.
const WHEELS: &[&str] = &["django==4.2.16", "flask==3.0.3", "requests==2.32.3"];

/// Some 300 packages.
const PROJECT: &str = r#"{
  "name": "small",
  "version": "1.0.0",
  "private": true,
  "dependencies": { "express": "4.21.1" },
  "devDependencies": { "eslint": "8.57.1", "typescript": "5.6.3", "webpack": "5.96.1" }
}
"#;

/// Wheels for pip, and nothing else.
pub fn wheels(at: &Path) -> Result<(), String> {
    let mut pip = Command::new("/usr/bin/python3");
    pip.args(["-m", "pip", "download", "--quiet", "--dest"]);
    succeed(pip.arg(at).args(WHEELS))
}

/// A project for npm with its lock file and its cache.
pub fn project(at: &Path) -> Result<(), String> {
    fs::create_dir_all(at).map_err(|error| about("create", at, &error))?;
    let manifest = at.join("package.json");
    fs::write(&manifest, PROJECT).map_err(|error| about("write", &manifest, &error))?;
    let npm = |words: &[&str]| {
        let mut npm = Command::new("npm");
        npm.args(words).args(&NPM_INSTALL[NPM_OFFLINE_WORDS..]);
        succeed(npm.current_dir(at))
    };
    npm(&["install", "--package-lock-only"])?;
    npm(&["ci"])?;
    let installed = at.join("node_modules");
    fs::remove_dir_all(&installed).map_err(|error| about("remove", &installed, &error))
}
