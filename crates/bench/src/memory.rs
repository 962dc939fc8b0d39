//! A row that tells how much memory Surmise's own processes of a domain take.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Stdio};
use std::sync::mpsc;
use std::thread;

use clap::ValueEnum;

use crate::measure::{self, Clock, LIMIT, Sample};
use crate::place::{Place, about};
use crate::run::{Measured, Side};

/// A domain that touches many files.
pub struct Memory {
    /// How many.
    pub files: u32,
    /// And how.
    pub touch: Touch,
}

/// What is done to each file of a tree.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
pub enum Touch {
    /// Nothing at all; the tree is not even listed.
    Nothing,
    /// It is read to its end.
    Read,
    /// A line is appended, which gives it an object of its own in the domain.
    Write,
}

/// What a command says when all is touched.
const TOUCHED: &str = "touched";

/// Touches all below `directory`, says so, and waits for the end of standard input.
pub fn touch(how: Touch, directory: &Path) -> Result<(), String> {
    if how != Touch::Nothing {
        touch_below(how, directory)?;
    }
    println!("{TOUCHED}");
    io::stdin()
        .read_to_end(&mut Vec::new())
        .map_err(|error| format!("read standard input: {error}"))?;
    Ok(())
}

fn touch_below(how: Touch, directory: &Path) -> Result<(), String> {
    let entries = fs::read_dir(directory).map_err(|error| about("list", directory, &error))?;
    for entry in entries {
        let path = entry
            .map_err(|error| about("list", directory, &error))?
            .path();
        if path.is_dir() {
            touch_below(how, &path)?;
        } else {
            touch_file(how, &path).map_err(|error| about("touch", &path, &error))?;
        }
    }
    Ok(())
}

fn touch_file(how: Touch, path: &Path) -> io::Result<()> {
    if how == Touch::Write {
        OpenOptions::new()
            .append(true)
            .open(path)?
            .write_all(b"int y;\n")
    } else {
        fs::read(path).map(drop)
    }
}

/// How many files one directory of the tree holds.
const FILES_A_DIRECTORY: u32 = 500;

/// A tree of so many small files, with names as long as names are.
fn tree(at: &Path, files: u32) -> Result<(), String> {
    for first in (0..files).step_by(FILES_A_DIRECTORY as usize) {
        let directory = at.join(format!("directory-{first:06}")).join("src");
        fs::create_dir_all(&directory).map_err(|error| about("create", &directory, &error))?;
        for number in first..files.min(first + FILES_A_DIRECTORY) {
            let file = directory.join(format!("a_file_of_the_tree_{number:06}.c"));
            fs::write(&file, format!("int x{number};\n"))
                .map_err(|error| about("write", &file, &error))?;
        }
    }
    Ok(())
}

/// A row whose tree is there.
pub struct Ready {
    touch: Touch,
    tree: PathBuf,
}

impl Ready {
    /// Sees to the tree.
    pub fn new(place: &Place, memory: &Memory) -> Result<Self, String> {
        Ok(Self {
            touch: memory.touch,
            tree: place.made(&format!("files-{}", memory.files), |at| {
                tree(at, memory.files)
            })?,
        })
    }
}

impl Measured for Ready {
    fn unit(&self) -> &'static str {
        "MB"
    }

    fn peer_name(&self) -> String {
        "a domain that touches nothing".to_owned()
    }

    fn sample(&mut self, place: &Place, side: Side) -> Result<Sample, String> {
        place.reset(None)?;
        let how = match side {
            Side::Ours => self.touch,
            Side::Peer => Touch::Nothing,
        };
        let how = how.to_possible_value().ok_or("a way without a name")?;
        let words: [OsString; 3] = [
            "touch".into(),
            how.get_name().into(),
            self.tree.clone().into(),
        ];
        // With a network gate, which is the default on a terminal.
        let line = place.inside(&["--net", "allow"], &place.own(&words));
        let clock = Clock::start()?;
        let mut child = measure::command(&line, place, &place.work())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("start {}: {error}", line[0].display()))?;
        let measured = child
            .stdout
            .take()
            .ok_or_else(|| "no standard output".to_owned())
            .and_then(touched)
            .and_then(|()| memory_mb(&child));
        drop(child.stdin.take());
        let status = measure::wait(&mut child, LIMIT)?;
        let cost = clock.stop()?;
        let value = measured?;
        if !status.success() {
            return Err(format!("{}: {status}", line.join(" ".as_ref()).display()));
        }
        Ok(Sample {
            value,
            user_ms: cost.user_ms,
            system_ms: cost.system_ms,
        })
    }
}

/// Waits until the command has said that all is touched.
fn touched(output: ChildStdout) -> Result<(), String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut line = String::new();
        let read = BufReader::new(output).read_line(&mut line);
        let _ = sender.send(read.map(|_| line));
    });
    match receiver.recv_timeout(LIMIT) {
        Ok(Ok(line)) if line.trim() == TOUCHED => Ok(()),
        Ok(Ok(line)) => Err(format!("not all was touched: it said {line:?}")),
        Ok(Err(error)) => Err(format!("hear from the command: {error}")),
        Err(_) => Err(format!("not all was touched in {} s", LIMIT.as_secs())),
    }
}

/// The proportional set size of control and of its children, which are the other roles.
fn memory_mb(control: &Child) -> Result<f64, String> {
    let control = control.id();
    let mut processes = vec![control];
    processes.extend(children(control)?);
    if processes.len() < 3 {
        return Err(format!(
            "process {control} is no control: it has no children"
        ));
    }
    let mut bytes = 0;
    for process in processes {
        bytes += pss_bytes(process)?;
    }
    #[expect(clippy::cast_precision_loss, reason = "exact below 8 PiB")]
    Ok(bytes as f64 / 1e6)
}

fn children(process: u32) -> Result<Vec<u32>, String> {
    let path = PathBuf::from(format!("/proc/{process}/task/{process}/children"));
    let text = fs::read_to_string(&path).map_err(|error| about("read", &path, &error))?;
    Ok(text
        .split_whitespace()
        .filter_map(|child| child.parse().ok())
        .collect())
}

fn pss_bytes(process: u32) -> Result<u64, String> {
    let path = PathBuf::from(format!("/proc/{process}/smaps_rollup"));
    let text = fs::read_to_string(&path).map_err(|error| about("read", &path, &error))?;
    let kibibytes = text
        .lines()
        .find_map(|line| line.strip_prefix("Pss:")?.trim().strip_suffix(" kB"));
    let kibibytes: Option<u64> = kibibytes.and_then(|number| number.trim().parse().ok());
    kibibytes
        .map(|number| number * 1024)
        .ok_or_else(|| format!("{}: no line Pss", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_program_takes_memory() {
        let bytes = pss_bytes(std::process::id()).expect("its own memory");
        assert!((100_000..10_000_000_000).contains(&bytes), "{bytes}");
    }

    #[test]
    fn every_file_is_touched_as_asked() {
        let scratch = tempfile::tempdir().expect("a directory");
        let file = scratch.path().join("a/b");
        fs::create_dir(scratch.path().join("a")).expect("a directory");
        fs::write(&file, "int x;\n").expect("a file");
        touch_below(Touch::Read, scratch.path()).expect("read");
        assert_eq!(fs::read_to_string(&file).expect("the file"), "int x;\n");
        touch_below(Touch::Write, scratch.path()).expect("write");
        assert_eq!(
            fs::read_to_string(&file).expect("the file"),
            "int x;\nint y;\n"
        );
    }
}
