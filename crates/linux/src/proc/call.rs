//! The call that a task sleeps in (proc_pid_syscall(5)).

use std::io;

use super::Entry;

/// What a task is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Doing {
    /// It is, or will be in a moment, on a processor.
    Running,
    /// It sleeps outside of a call.
    Sleeping,
    /// It sleeps in this call.
    Calling(Call),
}

/// A call of the kernel.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Call {
    /// Its number.
    pub number: u32,
    /// Its arguments.
    pub arguments: [u64; 6],
}

/// What a task is doing this moment.
///
/// # Errors
/// As for reading /proc: `EPERM` or `EACCES` for a task that is not the caller's to look into; `InvalidData` for a
/// line that is not of Linux.
pub fn doing(entry: impl Into<Entry>) -> io::Result<Doing> {
    parse(&entry.into().text("syscall")?).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

fn parse(line: &str) -> Option<Doing> {
    let mut words = line.split_ascii_whitespace();
    let number = match words.next()? {
        "running" => return Some(Doing::Running),
        "-1" => return Some(Doing::Sleeping),
        number => number.parse().ok()?,
    };
    let mut arguments = [0; 6];
    for argument in &mut arguments {
        *argument = u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok()?;
    }
    Some(Doing::Calling(Call { number, arguments }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_the_manual_says() {
        let line = "0 0x3 0x7ffe 0x10 0x0 0x0 0xffffffffffffff9c 0x7ffc 0x7f01\n";
        let call = Call {
            number: 0,
            arguments: [3, 0x7ffe, 16, 0, 0, -100_i64 as u64],
        };
        assert_eq!(parse(line), Some(Doing::Calling(call)));
        assert_eq!(parse("running\n"), Some(Doing::Running));
        assert_eq!(parse("-1 0x7ffc 0x7f01\n"), Some(Doing::Sleeping));
        for line in ["", "x", "0 0x3", "0 3 4 5 6 7 8"] {
            assert_eq!(parse(line), None, "{line}");
        }
    }

    #[test]
    fn who_asks_is_in_the_call_that_reads_the_answer() {
        let Doing::Calling(call) = doing(Entry::own()).expect("its own") else {
            panic!("not in a call");
        };
        assert_eq!(i64::from(call.number), libc::SYS_read);
    }
}
