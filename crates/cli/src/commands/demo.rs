//! `surmise demo`.

use std::env;
use std::fmt::Display;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus, Stdio};

use clap::builder::styling::{AnsiColor, Style};
use rustix::process::Signal;
use tempfile::TempDir;

use crate::demo::{PROJECT, Tree};
use crate::failure::Failure;
use surmise_api::quote::command_line;

/// Show what Surmise does: build a C project, undo it, build it again and commit
///
/// Works on a small C project in a scratch directory, which is removed at the end, and checks what it
/// claims: that an abort leaves no trace, and that a commit gives what a plain build gives. Needs cc
/// and make.
#[derive(clap::Args)]
pub struct Arguments {}

impl Arguments {
    /// Runs the demonstration.
    pub fn execute(self) -> Result<ExitCode, Failure> {
        for tool in ["make", "cc"] {
            require(tool)?;
        }
        // An interrupt ends the running step, and the scratch directory is removed on the way out. A
        // child starts with an empty mask.
        surmise_sys::signals::block(&[Signal::INT]).map_err(Failure::new)?;
        let demo = Demonstration::prepare()?;
        demo.introduce()?;
        demo.build_and_undo()?;
        demo.build_and_commit()?;
        demo.clean_up()?;
        Ok(ExitCode::SUCCESS)
    }
}

fn require(tool: &str) -> Result<(), Failure> {
    let path = env::var_os("PATH").unwrap_or_default();
    if env::split_paths(&path).any(|directory| directory.join(tool).is_file()) {
        return Ok(());
    }
    Err(Failure::new(format_args!(
        "the demo builds a C project, and there is no {tool} in PATH"
    ))
    .hint("on Debian and Ubuntu: apt-get install gcc make libc6-dev"))
}

/// The demonstration's scratch directory: the project, a copy of it for the plain build, and a state
/// directory, so that the user's own domains stay out of it.
struct Demonstration {
    scratch: TempDir,
    surmise: PathBuf,
    untouched: Tree,
}

impl Demonstration {
    fn prepare() -> Result<Self, Failure> {
        let surmise = env::current_exe().map_err(|e| failed("find this program", &e))?;
        let scratch = tempfile::Builder::new()
            .prefix("surmise-demo-")
            .tempdir()
            .map_err(|e| failed("make a scratch directory", &e))?;
        let project = scratch.path().join(PROJECT.name);
        PROJECT
            .unpack(&project)
            .map_err(|e| failed("unpack the project", &e))?;
        let untouched = read(&project)?;
        Ok(Self {
            scratch,
            surmise,
            untouched,
        })
    }

    fn project(&self) -> PathBuf {
        self.scratch.path().join(PROJECT.name)
    }

    fn state(&self) -> PathBuf {
        self.scratch.path().join("state")
    }

    fn introduce(&self) -> Result<(), Failure> {
        say(format_args!(
            "{} is a small C project: a Makefile, a generated table, tests.",
            self.project().display()
        ))?;
        self.show("ls", &[])
    }

    fn build_and_undo(&self) -> Result<(), Failure> {
        say(
            "Build and test it ahead of your consent. The build sees its own results; nobody else does.",
        )?;
        self.surmise(&["run", "--name", "demo", "--", "make", "check"])?;
        self.untouched("nothing has changed outside")?;
        say("What the build would change:")?;
        self.surmise(&["diff", "demo"])?;
        say("Throw it away.")?;
        self.surmise(&["abort", "demo"])?;
        self.untouched("no trace is left")?;
        let kept = self.state().join("surmise");
        match kept.try_exists() {
            Ok(false) => Ok(()),
            _ => Err(refuted("is still there", &kept)),
        }
    }

    fn build_and_commit(&self) -> Result<(), Failure> {
        say("Run it again, and make the changes real if it succeeds.")?;
        self.surmise(&["run", "--commit", "--", "make", "check"])?;
        let built = read(&self.project())?;
        say("Compare with a build of a copy without Surmise.")?;
        let plain = self.build_plainly()?;
        match built.content_differs_from(&plain) {
            None => verified(format_args!(
                "all {} files and directories equal those of a plain build",
                built.len()
            ))?,
            Some(path) => return Err(refuted("differs from a plain build", path)),
        }
        say("Timestamps came along: make finds nothing left to do.")?;
        self.show("make", &[])?;
        match built.differs_from(&read(&self.project())?) {
            None => verified("make has changed nothing"),
            Some(path) => Err(refuted("was made again", path)),
        }
    }

    fn build_plainly(&self) -> Result<Tree, Failure> {
        let directory = self.scratch.path().join("plain");
        PROJECT
            .unpack(&directory)
            .map_err(|e| failed("unpack the project", &e))?;
        let quiet = self
            .command(Path::new("make"), &["check"])
            .current_dir(&directory)
            .output()
            .map_err(|e| failed("start make", &e))?;
        succeeded("make check", quiet.status)?;
        read(&directory)
    }

    fn clean_up(self) -> Result<(), Failure> {
        let path = self.scratch.path().to_owned();
        self.scratch
            .close()
            .map_err(|e| failed("remove the scratch directory", &e))?;
        say(format_args!(
            "Done; {} is removed. Your turn: surmise run -- CMD",
            path.display()
        ))
    }

    /// Checks that the project is as it was unpacked.
    fn untouched(&self, claim: &str) -> Result<(), Failure> {
        let now = read(&self.project())?;
        match self.untouched.differs_from(&now) {
            None => verified(format_args!(
                "{claim}: {} files and directories as before, to every timestamp",
                now.len()
            )),
            Some(path) => Err(refuted("has changed", path)),
        }
    }

    /// Shows and runs this program as a user would.
    fn surmise(&self, arguments: &[&str]) -> Result<(), Failure> {
        self.start("surmise", &self.surmise, arguments)
    }

    /// Shows and runs another program in the project.
    fn show(&self, program: &str, arguments: &[&str]) -> Result<(), Failure> {
        self.start(program, Path::new(program), arguments)
    }

    fn start(&self, name: &str, program: &Path, arguments: &[&str]) -> Result<(), Failure> {
        let shown = command_line(&[&[name], arguments].concat());
        let bold = Style::new().bold();
        writeln!(anstream::stdout().lock(), "{bold}$ {shown}{bold:#}")?;
        let status = self
            .command(program, arguments)
            .status()
            .map_err(|e| failed(&format!("start {name}"), &e))?;
        succeeded(&shown, status)
    }

    fn command(&self, program: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        // Without a terminal to ask on, the first run is kept for the steps that follow. A make that
        // started this demo must not hand its job server to ours.
        command
            .args(arguments)
            .current_dir(self.project())
            .env("XDG_STATE_HOME", self.state())
            .env_remove("MAKEFLAGS")
            .env_remove("MAKELEVEL")
            .stdin(Stdio::null());
        command
    }
}

fn read(path: &Path) -> Result<Tree, Failure> {
    Tree::of(path).map_err(|e| failed(&format!("read {}", path.display()), &e))
}

fn say(text: impl Display) -> Result<(), Failure> {
    Ok(writeln!(anstream::stdout().lock(), "\n{text}")?)
}

fn verified(claim: impl Display) -> Result<(), Failure> {
    let green = Style::new().fg_color(Some(AnsiColor::Green.into()));
    Ok(writeln!(
        anstream::stdout().lock(),
        "{green}checked:{green:#} {claim}"
    )?)
}

fn refuted(what: &str, path: &Path) -> Failure {
    Failure::new(format_args!(
        "the demo's check failed: {} {what}",
        path.display()
    ))
    .hint("this is a defect of Surmise; please report it with the output of `surmise doctor`")
}

fn succeeded(command: &str, status: ExitStatus) -> Result<(), Failure> {
    if status.success() {
        return Ok(());
    }
    Err(
        Failure::new(format_args!("`{command}` failed in the demo: {status}"))
            .hint("`surmise doctor` tells what is missing"),
    )
}

fn failed(action: &str, error: &io::Error) -> Failure {
    Failure::new(format_args!("{action}: {error}"))
}
