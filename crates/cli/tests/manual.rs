//! The manual pages as `man` shows them.

use surmise_testkit::{Run, Scratch, skip};

#[test]
fn every_command_has_a_page_that_man_formats_without_complaint() {
    let scratch = Scratch::new();
    Run::surmise(&scratch, ["man", "pages"])
        .outcome()
        .assert_success()
        .assert_stdout("");
    let pages = scratch.path("pages");
    let mut names: Vec<_> = std::fs::read_dir(&pages)
        .expect("the pages")
        .map(|entry| {
            entry
                .expect("a page")
                .file_name()
                .into_string()
                .expect("ASCII")
        })
        .collect();
    names.sort();
    assert!(names.contains(&"surmise.1".to_owned()));
    let help = Run::surmise(&scratch, ["help"]).outcome();
    let commands = help
        .lines()
        .into_iter()
        .skip_while(|line| *line != "Commands:")
        .skip(1);
    for command in commands.take_while(|line| !line.is_empty()) {
        let name = command.split_whitespace().next().expect("a command");
        let page = format!("surmise-{name}.1");
        assert!(
            name == "help" || names.contains(&page),
            "no {page}: {names:?}"
        );
    }
    if !std::path::Path::new("/usr/bin/man").exists() {
        return skip("man is not installed");
    }
    for name in &names {
        let path = pages.join(name).display().to_string();
        let page = Run::plain(&scratch, ["man", "--warnings", "-l", &path])
            .env("MANWIDTH", "80")
            .outcome();
        page.assert_success().assert_no_stderr();
        for heading in ["NAME", "SYNOPSIS", "DESCRIPTION", "EXIT STATUS", "SEE ALSO"] {
            assert!(page.lines().contains(&heading), "{name} has no {heading}");
        }
        page.assert_stdout_contains(name.trim_end_matches(".1"));
    }
}

#[test]
fn a_page_says_what_help_says_and_more() {
    let scratch = Scratch::new();
    Run::surmise(&scratch, ["man", "."])
        .outcome()
        .assert_success();
    let page = std::fs::read_to_string(scratch.path("surmise-run.1")).expect("the page");
    for text in [
        "\\-\\-dry\\-run",
        ".SH \"WHAT CROSSES THE BOUNDARY\"",
        "surmise run \\-\\- make install",
        "XDG_STATE_HOME",
        ".SH EXAMPLES",
    ] {
        assert!(page.contains(text), "no {text:?} in\n{page}");
    }
    assert!(!page.contains('`'), "code is in bold:\n{page}");
}

#[test]
fn a_directory_that_cannot_be_made_is_told() {
    let scratch = Scratch::new();
    scratch.file("file", "");
    Run::surmise(&scratch, ["man", "file/pages"])
        .outcome()
        .assert_code(1)
        .assert_stderr_contains("Error: make file/pages: ");
}
