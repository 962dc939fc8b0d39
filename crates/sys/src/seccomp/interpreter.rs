//! A dumb reference machine for classic BPF, to run filters without a kernel.

use libc::sock_filter;

/// One call as a filter sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    pub(super) number: u32,
    pub(super) architecture: u32,
    pub(super) arguments: [u64; 6],
}

/// What a run came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// The value returned.
    pub(super) value: u32,
    /// Was anything read but the number and the architecture? If not, the kernel can foresee
    /// the answer.
    pub(super) read_arguments: bool,
    /// How many instructions ran.
    pub(super) steps: usize,
}

/// Runs a program.
///
/// # Panics
/// On whatever the kernel's checker would reject: an unknown instruction, a bad offset, a jump
/// past the end.
pub(super) fn run(program: &[sock_filter], call: &Call) -> Run {
    let words = words(call);
    let mut accumulator = 0;
    let mut position = 0;
    let mut read_arguments = false;
    for steps in 1.. {
        let instruction = program[position];
        position += 1;
        let k = instruction.k;
        let branch = |taken: bool| {
            usize::from(if taken {
                instruction.jt
            } else {
                instruction.jf
            })
        };
        match instruction.code {
            0x20 => {
                assert_eq!(k % 4, 0, "a word at an odd offset");
                accumulator = words[k as usize / 4];
                read_arguments |= k >= 8;
            }
            0x54 => accumulator &= k,
            0x05 => position += k as usize,
            0x15 => position += branch(accumulator == k),
            0x35 => position += branch(accumulator >= k),
            0x06 => {
                return Run {
                    value: k,
                    read_arguments,
                    steps,
                };
            }
            code => panic!("instruction {code:#x} at {}", position - 1),
        }
    }
    unreachable!("a program only moves forward");
}

/// `struct seccomp_data` as little-endian 32-bit words; the instruction pointer is left zero.
fn words(call: &Call) -> [u32; 16] {
    let mut words = [0; 16];
    words[0] = call.number;
    words[1] = call.architecture;
    for (index, argument) in call.arguments.into_iter().enumerate() {
        words[4 + 2 * index] = argument as u32;
        words[5 + 2 * index] = (argument >> 32) as u32;
    }
    words
}
