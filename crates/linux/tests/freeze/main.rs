//! Freezing real processes, and telling what they wait for. The tracer is a copy of this process,
//! which therefore has one thread: this program runs its tests itself.

mod domain;
mod freeze;
mod waiting;

use std::path::Path;
use std::process::Command;

use surmise_sys::process;
use surmise_testkit::{is_root, skip};

use crate::domain::Place;

fn main() {
    let place = Place::new();
    run_all(&place);
    if !is_root() {
        return skip("freezing as another user takes root");
    }
    let child = process::fork(&[], || {
        place.become_ordinary_user();
        run_all(&place);
        0
    });
    let status = child.expect("fork").wait().expect("wait");
    assert_eq!(status.exit_status(), Some(0), "as an ordinary user");
}

fn run_all(place: &Place) {
    for test in freeze::TESTS.iter().chain(waiting::TESTS) {
        test(place);
    }
}

/// Compiles one of the C programs in tests/tracees.
fn compile(name: &str, program: &Path) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/tracees")
        .join(name)
        .with_extension("c");
    let status = Command::new("gcc")
        .args(["-O1", "-Wall", "-Wno-unused-result", "-o"])
        .arg(program)
        .arg(source)
        .args(["-lrt", "-lpthread"])
        .status()
        .expect("start gcc");
    assert!(status.success(), "gcc {name}: {status}");
}
