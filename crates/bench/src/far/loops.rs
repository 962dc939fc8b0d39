//! Programs of many small calls, which this program is when it is what a row measures.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use clap::Subcommand;

/// What is done in the current directory.
#[derive(Clone, Debug, PartialEq, Subcommand)]
pub enum Loop {
    /// Mail and news, as PostMark has them: so many files, and as many transactions
    Postmark { files: u32, transactions: u32 },
    /// What a configure script asks, test after test
    Storm { tests: u32 },
    /// Two writers in one directory, given by two paths: each reads what the other wrote, and writes a file
    Turns {
        turns: u32,
        first: PathBuf,
        second: PathBuf,
    },
}

/// The directory that [`Loop::Storm`] looks into.
pub const HEADERS: &str = "include";
/// The file that it finds there.
pub const HEADER: &str = "config.h";

/// Sizes of files, and of what is appended to one.
const SIZES: std::ops::Range<usize> = 512..10_240;
const SIZES_APPENDED: std::ops::Range<usize> = 512..4608;

/// How many headers are missing in a test of a configure script.
const HEADERS_MISSING: u32 = 4;

impl Loop {
    /// Does it.
    pub fn perform(&self) -> io::Result<()> {
        match self {
            Self::Postmark {
                files,
                transactions,
            } => Postmark::default().perform(*files, *transactions),
            Self::Storm { tests } => (0..*tests).try_for_each(storm),
            Self::Turns {
                turns,
                first,
                second,
            } => take_turns(*turns, [first, second]),
        }
    }
}

/// A xorshift generator, the same on every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn within(&mut self, range: std::ops::Range<usize>) -> usize {
        let span = u64::try_from(range.len()).expect("64 bits hold any length");
        range.start + usize::try_from(self.next() % span).expect("less than the length")
    }

    fn is_even(&mut self) -> bool {
        // Of the upper bits, which are the better ones.
        (self.next() >> 40) & 1 == 0
    }
}

struct Postmark {
    random: Random,
    /// The numbers of the files that are there.
    there: Vec<u32>,
    created: u32,
}

impl Default for Postmark {
    fn default() -> Self {
        Self {
            random: Random(42),
            there: Vec::new(),
            created: 0,
        }
    }
}

impl Postmark {
    fn perform(mut self, files: u32, transactions: u32) -> io::Result<()> {
        for _ in 0..files {
            self.create()?;
        }
        for _ in 0..transactions {
            self.transact()?;
        }
        while !self.there.is_empty() {
            self.delete()?;
        }
        Ok(())
    }

    /// Reads a file or appends to it, and then creates or deletes one.
    fn transact(&mut self) -> io::Result<()> {
        if let Some(file) = self.any() {
            let path = name(self.there[file]);
            if self.random.is_even() {
                io::copy(&mut File::open(path)?, &mut io::sink())?;
            } else {
                let size = self.random.within(SIZES_APPENDED);
                let mut opened = OpenOptions::new().append(true).open(path)?;
                opened.write_all(&vec![b'p'; size])?;
            }
        }
        if self.random.is_even() {
            self.create()
        } else {
            self.delete()
        }
    }

    fn any(&mut self) -> Option<usize> {
        (!self.there.is_empty()).then(|| self.random.within(0..self.there.len()))
    }

    fn create(&mut self) -> io::Result<()> {
        let size = self.random.within(SIZES);
        let mut file = File::create_new(name(self.created))?;
        file.write_all(&vec![b'p'; size])?;
        self.there.push(self.created);
        self.created += 1;
        Ok(())
    }

    fn delete(&mut self) -> io::Result<()> {
        match self.any() {
            Some(file) => fs::remove_file(name(self.there.swap_remove(file))),
            None => Ok(()),
        }
    }
}

fn name(number: u32) -> String {
    format!("mail-{number}")
}

/// Writes a program, looks for headers, reads the program and deletes it.
fn storm(test: u32) -> io::Result<()> {
    const PROGRAM: &str = "conftest.c";
    fs::write(PROGRAM, "int main(void) { return 0; }\n")?;
    let headers = Path::new(HEADERS);
    for number in 0..HEADERS_MISSING {
        let header = headers.join(format!("missing-{test}-{number}.h"));
        if fs::exists(&header)? {
            return Err(io::Error::other(format!("{} is there", header.display())));
        }
    }
    fs::metadata(headers.join(HEADER))?;
    fs::metadata(headers)?;
    fs::read(PROGRAM)?;
    fs::remove_file(PROGRAM)
}

fn take_turns(turns: u32, paths: [&PathBuf; 2]) -> io::Result<()> {
    for turn in 0..turns {
        let path = |turn: u32| format!("turn-{turn}");
        let own = paths[usize::from(turn % 2 == 1)];
        if let Some(before) = turn.checked_sub(1) {
            let mut read = String::new();
            File::open(own.join(path(before)))?.read_to_string(&mut read)?;
            if read != text(before) {
                let what = format!("turn {turn} has read {read:?} from turn {before}");
                return Err(io::Error::other(what));
            }
        }
        fs::write(own.join(path(turn)), text(turn))?;
    }
    Ok(())
}

fn text(turn: u32) -> String {
    format!("This is turn {turn}.\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writer_that_does_not_see_what_the_other_wrote_fails() {
        let [one, other] = [(); 2].map(|()| tempfile::tempdir().expect("a directory"));
        let path = one.path().to_owned();
        take_turns(5, [&path, &path]).expect("one directory");
        assert!(path.join("turn-4").exists());
        let apart = take_turns(2, [&path, &other.path().to_owned()]);
        assert!(apart.is_err());
    }

    #[test]
    fn random_numbers_are_within_their_range() {
        let mut random = Random(42);
        let numbers: Vec<_> = (0..1000).map(|_| random.within(3..7)).collect();
        assert!(numbers.iter().all(|number| (3..7).contains(number)));
        for wanted in 3..7 {
            assert!(numbers.contains(&wanted), "{wanted}");
        }
        let even = (0..1000).filter(|_| random.is_even()).count();
        assert!((300..700).contains(&even), "{even}");
    }
}
