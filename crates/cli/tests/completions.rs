//! Completion as a person uses it: each shell on a terminal, with its script; a line is typed in part,
//! completed with the tab key and run.

use std::path::Path;

use surmise_testkit::{Run, Scratch, is_installed, skip, surmise_binary};

/// Of the package bash-completion: what bash knows of other commands.
const BASH_COMPLETION: &str = "/usr/share/bash-completion/bash_completion";

#[test]
fn bash_completes_domains_options_and_commands_by_itself() {
    bash(
        "source bash.script",
        "surmise run --dry\t -- mkfif\t pond\n",
    );
}

#[test]
fn bash_completes_a_command_as_it_does_without_surmise() {
    if !Path::new(BASH_COMPLETION).exists() {
        return skip("bash-completion is not installed");
    }
    bash(
        &format!("source {BASH_COMPLETION}; source bash.script"),
        MAKE,
    );
}

#[test]
fn zsh_completes_domains_options_and_commands() {
    let setup = "autoload -Uz compinit; compinit -u -D; source ./zsh.script";
    completes("zsh", "-f -i", "PS1='ready> '", setup, MAKE);
}

#[test]
fn fish_completes_domains_options_and_commands() {
    let prompt = "function fish_prompt; echo -n 'ready'; echo -n '> '; end";
    let setup = "source fish.script";
    completes("fish", "-i", prompt, setup, MAKE);
}

/// A line that takes a completion of make's targets.
const MAKE: &str = "surmise run --dry\t -- make po\t\n";

#[track_caller]
fn bash(setup: &str, command: &str) {
    completes("bash", "--norc -i", "PS1='ready> '", setup, command);
}

/// `command` is typed, and makes `pond`.
#[track_caller]
fn completes(shell: &str, arguments: &str, prompt: &str, setup: &str, command: &str) {
    if !is_installed(shell) {
        return skip(format_args!("{shell} is not installed"));
    }
    let scratch = Scratch::new();
    let script = Run::surmise(&scratch, ["completions", shell]).outcome();
    script.assert_success().assert_no_stderr();
    scratch.file(format!("{shell}.script"), &script.stdout);
    scratch.symlink(surmise_binary(), "bin/surmise");
    scratch.file("Makefile", "pond:\n\ttouch pond\n");
    for (domain, file) in [("walrus", "tusk"), ("heron", "feather")] {
        Run::surmise(&scratch, ["run", "--name", domain, "--", "touch", file])
            .outcome()
            .assert_success();
    }
    let search = std::env::var("PATH").expect("a search path");
    let line = [shell].into_iter().chain(arguments.split(' '));
    Run::plain(&scratch, line)
        .env(
            "PATH",
            format!("{}:{search}", scratch.path("bin").display()),
        )
        .env("TERM", "xterm")
        .on_terminal(&[
            ("", &format!("{prompt}\n")),
            ("ready> ", &format!("{setup}\n")),
            // What is waited for is not in what is typed.
            ("ready> ", "surmise dif\t wal\t\n"),
            ("A tusk", ""),
            ("ready> ", command),
            ("A pond", ""),
            ("ready> ", "surmise abo\t her\t\n"),
            ("ready> ", "surmise list --nam\t\n"),
            ("ready> ", "exit\n"),
        ])
        .assert_success();
    let left = Run::surmise(&scratch, ["list", "--names"]).outcome();
    left.assert_success().assert_stdout("walrus\n");
}
