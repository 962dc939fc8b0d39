//! A program that changes files for ever, and whether what is real is what it saw at one moment.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use crate::setting::Setting;

/// How many files writer.py changes.
const FILES: u64 = 200;

/// Puts the program where the domain can reach it, and returns its path.
pub fn install(setting: &Setting) -> PathBuf {
    let path = setting.scratch.root().join("writer.py");
    fs::write(&path, include_str!("writer.py")).expect("write");
    path
}

/// Which step a directory shows.
///
/// # Panics
/// When it shows no step, but parts of several.
#[track_caller]
pub fn step(work: &Path) -> u64 {
    let Some(counter) = counter(work) else {
        let left: Vec<_> = fs::read_dir(work).expect("list").flatten().collect();
        assert!(left.is_empty(), "no counter, but {left:?}");
        return 0;
    };
    // The counter is the last that a step changes.
    let shown = (0..2).map(|more| shows(work, counter + more));
    let problems: Vec<_> = shown.filter_map(Result::err).collect();
    assert!(problems.len() < 2, "torn: {problems:#?}");
    counter
}

pub fn counter(work: &Path) -> Option<u64> {
    let text = fs::read_to_string(work.join("counter")).ok()?;
    Some(text.trim().parse().expect("a number"))
}

fn shows(work: &Path, step: u64) -> Result<(), String> {
    for file in 0..FILES {
        // The last step that changed this file.
        let last = (0..FILES).find_map(|back| {
            let one = step.checked_sub(back)?;
            (one > 0 && one % FILES == file).then_some(one)
        });
        let wanted = last.filter(|last| last % 11 != 0).map(text);
        let found = fs::read_to_string(work.join(format!("d/{file}"))).ok();
        if found != wanted {
            let first =
                |text: Option<String>| text.map(|text| text.chars().take(20).collect::<String>());
            return Err(format!(
                "of step {step} file {file} has {:?}, not {:?}",
                first(found),
                first(wanted)
            ));
        }
    }
    Ok(())
}

fn text(step: u64) -> String {
    let count = usize::try_from(1 + step * 7919 % 400).expect("small");
    format!("{step} ").repeat(count) + "\n"
}

/// Whom the steps tell their numbers. A number that arrives before its step is real is a mistake.
pub struct Listener {
    pub port: u16,
    heard: Arc<Mutex<Heard>>,
}

#[derive(Default)]
struct Heard {
    steps: BTreeSet<u64>,
    mistakes: Vec<String>,
}

impl Listener {
    pub fn start(work: PathBuf) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
        let port = listener.local_addr().expect("an address").port();
        let heard = Arc::new(Mutex::new(Heard::default()));
        let shared = Arc::clone(&heard);
        // Ends with the test program.
        thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let (shared, work) = (Arc::clone(&shared), work.clone());
                // All that is held is on its way at once.
                thread::spawn(move || listen(connection, &shared, &work));
            }
        });
        Self { port, heard }
    }

    #[track_caller]
    pub fn check(&self) -> usize {
        let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(heard.mistakes.is_empty(), "{:#?}", heard.mistakes);
        heard.steps.len()
    }
}

fn listen(mut connection: TcpStream, heard: &Mutex<Heard>, work: &Path) {
    let mut text = String::new();
    let read = connection.read_to_string(&mut text);
    // Otherwise its sender was killed.
    if let (Ok(_), Ok(step)) = (read, text.trim().parse()) {
        let mut heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
        heard.take(step, work);
    }
}

impl Heard {
    fn take(&mut self, step: u64, work: &Path) {
        // Never less than before, also while a commit changes it.
        let real = fs::read_to_string(work.join("counter")).unwrap_or_default();
        let real = real.trim().parse().unwrap_or(u64::MAX);
        if real < step {
            self.mistakes.push(format!("{step} was heard at {real}"));
        }
        if !self.steps.insert(step) {
            self.mistakes.push(format!("{step} was heard twice"));
        }
    }
}
