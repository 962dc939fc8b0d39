//! An assembler for classic BPF that works from the last instruction to the first.
//!
//! BPF only jumps forward, so every target exists before the jump to it, and a label is the
//! distance from the program's end: nothing has to be patched afterwards. Conditional jumps
//! reach 255 instructions; a farther target is reached by way of an unconditional jump.

use libc::sock_filter;

/// A program under construction, last instruction first.
#[derive(Default)]
pub(super) struct Assembler {
    reversed: Vec<sock_filter>,
}

/// An instruction that is already in the program, by its position from the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Label(usize);

/// A comparison of the accumulator with a constant.
#[derive(Clone, Copy, Debug)]
pub(super) enum Test {
    /// Is it the constant?
    Equal,
    /// Is it the constant or, unsigned, more?
    AtLeast,
}

impl Assembler {
    /// Ends the program with this value.
    pub(super) fn ret(&mut self, value: u32) -> Label {
        self.push(libc::BPF_RET | libc::BPF_K, value, 0, 0)
    }

    /// Loads the 32-bit word at a byte offset of the call's data, then goes to `next`.
    pub(super) fn load(&mut self, offset: u32, next: Label) -> Label {
        self.fall_into(next);
        self.push(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset, 0, 0)
    }

    /// Keeps only the bits of `mask` in the accumulator, then goes to `next`.
    pub(super) fn and(&mut self, mask: u32, next: Label) -> Label {
        self.fall_into(next);
        self.push(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, mask, 0, 0)
    }

    /// Goes to `yes` or `no`.
    pub(super) fn branch(&mut self, test: Test, constant: u32, yes: Label, no: Label) -> Label {
        let operation = match test {
            Test::Equal => libc::BPF_JEQ,
            Test::AtLeast => libc::BPF_JGE,
        };
        let yes = self.near(yes);
        let no = self.near(no);
        let code = libc::BPF_JMP | operation | libc::BPF_K;
        self.push(
            code,
            constant,
            self.short_distance(yes),
            self.short_distance(no),
        )
    }

    /// The program that starts at `entry`.
    pub(super) fn finish(mut self, entry: Label) -> Box<[sock_filter]> {
        self.fall_into(entry);
        self.reversed.reverse();
        self.reversed.into_boxed_slice()
    }

    /// Makes `label` the first instruction.
    fn fall_into(&mut self, label: Label) {
        if self.distance(label) > 0 {
            self.go_to(label);
        }
    }

    /// A label for the same place that the next instruction but one still reaches: placing the
    /// other target of a branch may put one more instruction in between.
    fn near(&mut self, label: Label) -> Label {
        if self.distance(label) < usize::from(u8::MAX) {
            label
        } else {
            self.go_to(label)
        }
    }

    fn go_to(&mut self, label: Label) -> Label {
        let distance = self.distance(label) as u32;
        self.push(libc::BPF_JMP | libc::BPF_JA, distance, 0, 0)
    }

    /// How many instructions the next one would skip to reach `label`.
    fn distance(&self, label: Label) -> usize {
        self.reversed.len() - label.0 - 1
    }

    fn short_distance(&self, label: Label) -> u8 {
        u8::try_from(self.distance(label)).expect("near() has brought the target within reach")
    }

    fn push(&mut self, code: u32, k: u32, jt: u8, jf: u8) -> Label {
        self.reversed.push(sock_filter {
            code: code as u16,
            jt,
            jf,
            k,
        });
        Label(self.reversed.len() - 1)
    }
}
