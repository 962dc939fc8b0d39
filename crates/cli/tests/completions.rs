//! Completion as a person uses it: each shell on a terminal, with its script; a line is typed in part,
//! completed with the tab key and run.

use std::path::Path;

use surmise_testkit::{Run, Scratch, skip, surmise_binary};

#[test]
fn bash_completes_domains_options_and_the_command_that_is_run() {
    completes("bash", "--norc -i", "PS1='ready> '", "source bash.script");
}

#[test]
fn zsh_completes_domains_options_and_the_command_that_is_run() {
    let setup = "autoload -Uz compinit; compinit -u -D; source ./zsh.script";
    completes("zsh", "-f -i", "PS1='ready> '", setup);
}

#[test]
fn fish_completes_domains_options_and_the_command_that_is_run() {
    let prompt = "function fish_prompt; echo -n 'ready'; echo -n '> '; end";
    completes("fish", "--no-config -i", prompt, "source fish.script");
}

#[track_caller]
fn completes(shell: &str, arguments: &str, prompt: &str, setup: &str) {
    if !is_installed(shell) {
        return skip(format_args!("{shell} is not installed"));
    }
    let scratch = Scratch::new();
    let script = Run::surmise(&scratch, ["completions", shell]).outcome();
    script.assert_success().assert_no_stderr();
    scratch.file(format!("{shell}.script"), &script.stdout);
    scratch.symlink(surmise_binary(), "bin/surmise");
    for (domain, file) in [("walrus", "tusk"), ("heron", "feather")] {
        Run::surmise(&scratch, ["run", "--name", domain, "--", "touch", file])
            .outcome()
            .assert_success();
    }
    let search = std::env::var("PATH").expect("a search path");
    let command = [shell].into_iter().chain(arguments.split(' '));
    Run::plain(&scratch, command)
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
            ("ready> ", "surmise run --dry\t -- mkfif\t pond\n"),
            ("A pond", ""),
            ("ready> ", "surmise abo\t her\t\n"),
            ("ready> ", "surmise list --nam\t\n"),
            ("ready> ", "exit\n"),
        ])
        .assert_success();
    let left = Run::surmise(&scratch, ["list", "--names"]).outcome();
    left.assert_success().assert_stdout("walrus\n");
}

fn is_installed(program: &str) -> bool {
    let search = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&search).any(|directory| Path::new(&directory).join(program).is_file())
}
