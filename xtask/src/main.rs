//! Chores of the project: `cargo xtask tidy`.
#![forbid(unsafe_code)]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a chore talks to the terminal"
)]

mod project;
mod rules;
mod rust_text;
mod tidy;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["tidy"] => tidy::run(),
        _ => {
            eprintln!("Usage: cargo xtask tidy");
            ExitCode::from(2)
        }
    }
}
