//! Whether a thread that waits in a call is about to end (proc_pid_status(5)).

use std::fs;

/// Signals whose default is not to end the process, by their numbers on x86-64: CHLD, CONT, STOP, TSTP, TTIN, TTOU, URG and
/// WINCH.
const HARMLESS: &[u32] = &[17, 18, 19, 20, 21, 22, 23, 28];

/// Whether a signal waits for this thread that ends its process. So no call fails for a signal that the program handles.
pub fn will_end(thread: u32) -> bool {
    if thread == 0 {
        return false;
    }
    match fs::read_to_string(format!("/proc/{thread}/status")) {
        Ok(status) => ends(&status),
        Err(_) => false,
    }
}

fn ends(status: &str) -> bool {
    let set = |name: &str| {
        let mut lines = status.lines();
        let bits = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        bits.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok())
            .unwrap_or(0)
    };
    let harmless = HARMLESS
        .iter()
        .fold(0, |set, number| set | 1 << (number - 1));
    let pending = set("SigPnd") | set("ShdPnd");
    let survived = set("SigBlk") | set("SigIgn") | set("SigCgt") | harmless;
    pending & !survived != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(pending: u64, caught: u64) -> String {
        format!(
            "Name:\tcat\nSigPnd:\t{:016x}\nShdPnd:\t{pending:016x}\nSigBlk:\t{:016x}\nSigIgn:\t{:016x}\nSigCgt:\t{caught:016x}\n",
            0, 0, 0
        )
    }

    #[test]
    fn only_a_signal_that_ends_the_program_counts() {
        let (interrupt, child) = (1 << 1, 1 << 16);
        assert!(ends(&status(interrupt, 0)));
        assert!(!ends(&status(interrupt, interrupt)));
        assert!(!ends(&status(child, 0)));
        assert!(!ends(&status(0, 0)));
        assert!(!ends(""));
    }
}
