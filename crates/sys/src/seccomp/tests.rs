//! The compiled filter against the table, on the reference machine.

use proptest::prelude::*;
use surmise_syscalls::{
    Disposition, Kind, Reach, Row, Syscall, disposition_of_unknown, row_numbered, row_of, rows,
};

use super::assembler::{Assembler, Label, Test};
use super::compiler::{Changes, Listening, Program, Telling, check};
use super::data::{I386, X32_BIT, X86_64};
use super::interpreter::{Call, Run, run};
use crate::ptrace::call::CLONE_VESSEL;

const ALLOW: u32 = 0x7fff_0000;
const ENOSYS: u32 = 0x0005_0000 | 38;
const NOTIFY: u32 = 0x7fc0_0000;

/// Nobody listens.
fn consent() -> Program {
    Program::new(Listening::default())
}

fn speculation() -> Program {
    Program::new(Listening::PREDICTIONS)
}

fn synchrony() -> Program {
    for_epochs(Changes::Heard)
}

fn confined_synchrony() -> Program {
    for_epochs(Changes::Silent)
}

fn for_epochs(changes: Changes) -> Program {
    Program::new(Listening {
        epochs: Some(changes),
        ..Listening::default()
    })
}

fn telling(refusals: Telling) -> Program {
    Program::new(Listening {
        refusals,
        ..Listening::default()
    })
}

#[test]
fn answers_every_number_as_the_table_does() {
    let program = consent();
    for number in 0..600 {
        let call = native(number, [0; 6]);
        assert_eq!(
            answer(&program, &call).value,
            expected(&call),
            "number {number}"
        );
    }
}

#[test]
fn every_exception_is_compiled() {
    let program = consent();
    for row in rows() {
        for exception in row.exceptions() {
            // What the mask leaves out must not matter, so it is filled both ways.
            for noise in [0, !exception.mask()] {
                let mut arguments = [0x5555_5555_5555_5555; 6];
                arguments[exception.argument()] = exception.value() | noise;
                let call = native(row.number(), arguments);
                let want = encode(exception.disposition(Kind::Consent));
                assert_eq!(
                    answer(&program, &call).value,
                    want,
                    "{}: {exception:?}",
                    row.name()
                );
            }
        }
    }
}

/// The parts of a domain are listened for together: each hears what it would hear alone.
#[test]
fn who_listens_for_several_things_hears_of_each() {
    let (predictions, epochs) = (speculation(), confined_synchrony());
    let both = Program::new(Listening {
        epochs: Some(Changes::Silent),
        ..Listening::PREDICTIONS
    });
    for row in rows() {
        for arguments in [[0; 6], [0x41; 6], [0x1000; 6]] {
            let call = native(row.number(), arguments);
            let alone = [&predictions, &epochs].map(|program| answer(program, &call).value);
            let want = match alone.contains(&NOTIFY) {
                true => NOTIFY,
                false => alone[0],
            };
            assert_eq!(answer(&both, &call).value, want, "{}", row.name());
        }
    }
}

#[test]
fn speculation_tells_of_what_consent_allows_and_a_prediction_does_not() {
    use Syscall::*;
    let program = speculation();
    let mut told = 0;
    for number in 0..600 {
        let call = native(number, [0; 6]);
        let value = answer(&program, &call).value;
        assert_eq!(value, speculating(&call), "number {number}");
        told += usize::from(value == NOTIFY);
    }
    assert!(told > 100, "{told} calls");
    let value = |name, arguments| answer(&program, &native(row_of(name).number(), arguments)).value;
    for name in [Exit, ExitGroup, Execve, Openat, Read, Wait4] {
        assert_eq!(value(name, [0; 6]), NOTIFY, "{name}");
    }
    for name in [RtSigreturn, Brk, Getpid, Close, Munmap] {
        assert_eq!(value(name, [0; 6]), ALLOW, "{name}");
    }
    assert_eq!(
        value(Mount, [0; 6]),
        answer(&consent(), &native(165, [0; 6])).value
    );
    assert_eq!(value(Mmap, [0, 4096, 3, 0x22, 0, 0]), ALLOW);
    assert_eq!(value(Mmap, [0, 4096, 3, 0x2, 3, 0]), NOTIFY);
}

/// Whatever is heard is only told: the answers of who listens are those of the filter.
#[test]
fn a_filter_that_tells_hears_refusals_and_what_may_fail_and_nothing_else() {
    use Syscall::*;
    let silent = consent();
    let [calls, datagrams] = [Telling::Calls, Telling::CallsAndDatagrams].map(telling);
    for row in rows() {
        let exceptions = row.exceptions().iter().map(|exception| {
            let mut arguments = [0x5555_5555_5555_5555; 6];
            arguments[exception.argument()] = exception.value();
            arguments
        });
        for arguments in exceptions.chain([[0; 6], [0x1000; 6]]) {
            let call = native(row.number(), arguments);
            let refused = match row.disposition_with(Kind::Consent, &arguments) {
                Disposition::Refuse(errno) => errno.is_told(),
                _ => false,
            };
            let reach = row.reach_with(&arguments);
            let (name, quiet) = (row.name(), answer(&silent, &call).value);
            let heard = refused || reach.is_some_and(|reach| reach != Reach::Datagram);
            let want = if heard { NOTIFY } else { quiet };
            assert_eq!(answer(&calls, &call).value, want, "{name} {arguments:x?}");
            let heard = refused || reach.is_some();
            let want = if heard { NOTIFY } else { quiet };
            assert_eq!(
                answer(&datagrams, &call).value,
                want,
                "{name} {arguments:x?}"
            );
        }
    }
    let value = |name, arguments| answer(&calls, &native(row_of(name).number(), arguments)).value;
    for name in [Mount, PerfEventOpen, Bpf, Connect] {
        assert_eq!(value(name, [0; 6]), NOTIFY, "{name}");
    }
    // What programs try only to see whether the kernel has it.
    for name in [IoUringSetup, Keyctl, Uselib] {
        assert_eq!(value(name, [0; 6]), ENOSYS, "{name}");
    }
    for name in [Read, Write, Openat, Ioctl, Socket, Sendmsg, Ptrace] {
        assert_eq!(value(name, [0; 6]), ALLOW, "{name}");
    }
}

#[test]
fn synchrony_tells_of_durability_and_of_what_may_reach_elsewhere_and_of_nothing_else() {
    use Syscall::*;
    let program = synchrony();
    let value = |name, arguments| answer(&program, &native(row_of(name).number(), arguments)).value;
    for name in [Fsync, Sync, Rename, Connect, Sendmsg, Openat2] {
        assert_eq!(value(name, [0; 6]), NOTIFY, "{name}");
    }
    for name in [Read, Write, Pwrite64, Openat, Stat, Kill, Sendto, ExitGroup] {
        assert_eq!(value(name, [0; 6]), ALLOW, "{name}");
    }
    assert_eq!(value(Openat, [0, 0, 0x41, 0, 0, 0]), NOTIFY);
    assert_eq!(value(Sendto, [0, 0, 0, 0, 0x1000, 0]), NOTIFY);
    assert_eq!(value(Mmap, [0, 4096, 3, 0x1, 3, 0]), NOTIFY);
    for private in [0x2, 0x22, 0x21] {
        assert_eq!(value(Mmap, [0, 4096, 3, private, 3, 0]), ALLOW);
    }
    let refused = answer(&consent(), &native(165, [0; 6])).value;
    assert_eq!(value(Mount, [0; 6]), refused);
}

#[test]
fn confined_synchrony_is_silent_of_changes_by_name_and_like_synchrony_of_all_else() {
    use Syscall::*;
    let (confined, synchrony) = (confined_synchrony(), synchrony());
    let mut silent = Vec::new();
    for row in rows() {
        // Flags that create, where there are flags.
        let call = native(row.number(), [0x41; 6]);
        let [value, usual] = [&confined, &synchrony].map(|program| answer(program, &call).value);
        if value != usual {
            assert_eq!((value, usual), (ALLOW, NOTIFY), "{}", row.name());
            silent.push(row.name());
        }
    }
    #[rustfmt::skip]
    let governed = [
        Open, Truncate, Rename, Mkdir, Rmdir, Creat, Link, Unlink, Symlink, Mknod,
        Openat, Mkdirat, Mknodat, Unlinkat, Renameat, Linkat, Symlinkat, Renameat2, Openat2,
    ];
    assert_eq!(silent, governed);
}

#[test]
fn every_exception_is_compiled_for_a_filter_that_tells() {
    for row in rows() {
        for exception in row.exceptions() {
            for noise in [0, !exception.mask()] {
                let mut arguments = [0x5555_5555_5555_5555; 6];
                arguments[exception.argument()] = exception.value() | noise;
                let call = native(row.number(), arguments);
                let name = row.name();
                let value = answer(&speculation(), &call).value;
                assert_eq!(value, speculating(&call), "{name}: {exception:?}");
                let value = answer(&synchrony(), &call).value;
                assert_eq!(value, synchronous(&call), "{name}: {exception:?}");
            }
        }
    }
}

#[test]
fn only_the_clone_of_a_checkpoint_passes_unseen() {
    assert_eq!(CLONE_VESSEL, 0x0080_2000);
    let clone = |flags| {
        let call = native(56, [flags, 0, 0, 0, 0, 0]);
        answer(&speculation(), &call).value
    };
    assert_eq!(clone(CLONE_VESSEL), ALLOW);
    for bit in 0..64 {
        let flags = CLONE_VESSEL ^ (1 << bit);
        assert_eq!(clone(flags), NOTIFY, "{flags:#x}");
    }
}

#[test]
fn a_foreign_entry_may_only_end_its_task() {
    for program in programs() {
        for architecture in [I386, 0, 0xc000_00b7] {
            for number in (0..600).chain([X32_BIT, u32::MAX]) {
                let call = Call {
                    number,
                    architecture,
                    arguments: [0; 6],
                };
                let ends = architecture == I386 && matches!(number, 1 | 252);
                let want = if ends { ALLOW } else { ENOSYS };
                assert_eq!(answer(&program, &call).value, want, "{call:?}");
            }
        }
    }
}

#[test]
fn an_x32_call_may_only_end_its_task() {
    for program in programs() {
        for number in 0..600 {
            let call = native(X32_BIT | number, [0; 6]);
            let want = if matches!(number, 60 | 231) {
                ALLOW
            } else {
                ENOSYS
            };
            assert_eq!(answer(&program, &call).value, want, "x32 {number}");
        }
    }
}

#[test]
fn a_cancelled_call_keeps_the_result_that_its_tracer_chose() {
    let call = native(u32::MAX, [0; 6]);
    for program in programs() {
        assert_eq!(answer(&program, &call).value, ALLOW);
    }
}

/// The kernel then tests one bit for such a call and never runs the program.
#[test]
fn what_is_always_allowed_is_decided_by_number_alone() {
    let program = consent();
    for row in rows() {
        let run = answer(&program, &native(row.number(), [0; 6]));
        let exceptional = row.exceptions().iter().any(|exception| {
            exception.disposition(Kind::Consent) != row.disposition(Kind::Consent)
        });
        assert_eq!(run.read_arguments, exceptional, "{}", row.name());
        assert!(
            run.steps <= 16,
            "{} costs {} instructions",
            row.name(),
            run.steps
        );
    }
}

#[test]
fn what_a_speculating_task_may_always_do_is_decided_by_number_alone() {
    let program = speculation();
    for row in rows() {
        let arguments = [0; 6];
        let run = answer(&program, &native(row.number(), arguments));
        if run.value != ALLOW || !row.exceptions().is_empty() {
            continue;
        }
        assert!(!run.read_arguments, "{}", row.name());
        assert!(
            run.steps <= 16,
            "{}: {} instructions",
            row.name(),
            run.steps
        );
    }
}

#[test]
fn fits_into_the_kernels_limit() {
    for program in programs() {
        let length = program.instructions().len();
        assert!(length <= 4096, "{length} instructions");
    }
}

proptest! {
    #[test]
    fn agrees_with_the_table_on_any_call(
        number in prop_oneof![0..600_u32, any::<u32>()],
        arguments in prop::array::uniform6(interesting_argument()),
    ) {
        let call = native(number, arguments);
        let ends_x32 = matches!(number, 0x4000_003c | 0x4000_00e7);
        let want = if ends_x32 || number == u32::MAX { ALLOW } else { expected(&call) };
        prop_assert_eq!(answer(&consent(), &call).value, want);
        let told = if ends_x32 || number == u32::MAX { ALLOW } else { speculating(&call) };
        prop_assert_eq!(answer(&speculation(), &call).value, told);
        let told = if ends_x32 || number == u32::MAX { ALLOW } else { synchronous(&call) };
        prop_assert_eq!(answer(&synchrony(), &call).value, told);
    }

    /// Masks of any form, though the table uses few.
    #[test]
    fn a_check_reads_the_bits_of_its_mask_and_no_others(
        argument in 0..6_usize,
        mask in interesting_mask(),
        value in any::<u64>(),
        noise in any::<u64>(),
        flipped in 0..64_u32,
    ) {
        let value = value & mask;
        let program = assemble(|assembler| {
            let (yes, no) = (assembler.ret(1), assembler.ret(0));
            check(assembler, (argument, mask, value), yes, no)
        });
        for given in [value | (noise & !mask), value ^ (1 << flipped), noise] {
            let mut arguments = [noise; 6];
            arguments[argument] = given;
            let want = u32::from(given & mask == value);
            prop_assert_eq!(run(&program, &native(0, arguments)).value, want);
        }
    }
}

/// Far targets need jumps that conditional ones cannot make; both targets of one may be far.
#[test]
fn the_assembler_reaches_any_distance() {
    for distance in 0..600 {
        let program = assemble(|assembler| {
            let (no, yes) = (assembler.ret(1), assembler.ret(2));
            for _ in 0..distance {
                assembler.ret(3);
            }
            let branch = assembler.branch(Test::Equal, 7, yes, no);
            assembler.load(0, branch)
        });
        let value = |number| run(&program, &native(number, [0; 6])).value;
        assert_eq!((value(7), value(8)), (2, 1), "distance {distance}");
    }
}

fn assemble(write: impl FnOnce(&mut Assembler) -> Label) -> Box<[libc::sock_filter]> {
    let mut assembler = Assembler::default();
    let entry = write(&mut assembler);
    assembler.finish(entry)
}

/// Whole words, halves, single bits, and any other.
fn interesting_mask() -> impl Strategy<Value = u64> {
    prop_oneof![
        prop::sample::select(vec![u64::MAX, 0xffff_ffff, !0xffff_ffff]),
        (0..64_u32).prop_map(|bit| 1 << bit),
        any::<u64>(),
    ]
}

/// Values around those that exceptions look for, and any other.
fn interesting_argument() -> impl Strategy<Value = u64> {
    let values: Vec<u64> = rows()
        .flat_map(Row::exceptions)
        .flat_map(|exception| [exception.value(), exception.value() | !exception.mask()])
        .flat_map(|value| [value, value ^ 1, value ^ (1 << 40)])
        .collect();
    prop_oneof![prop::sample::select(values), any::<u64>()]
}

fn native(number: u32, arguments: [u64; 6]) -> Call {
    Call {
        number,
        architecture: X86_64,
        arguments,
    }
}

fn answer(program: &Program, call: &Call) -> Run {
    run(program.instructions(), call)
}

fn expected(call: &Call) -> u32 {
    encode(match row_numbered(call.number) {
        Some(row) => row.disposition_with(Kind::Consent, &call.arguments),
        None => disposition_of_unknown(Kind::Consent),
    })
}

/// What the filter for speculation is to answer.
fn speculating(call: &Call) -> u32 {
    if call.number == 56 && call.arguments[0] == CLONE_VESSEL {
        return ALLOW;
    }
    let contained = expected(call);
    let prediction = match row_numbered(call.number) {
        Some(row) => row.disposition_with(Kind::Prediction, &call.arguments),
        None => disposition_of_unknown(Kind::Prediction),
    };
    if contained == ALLOW && prediction != Disposition::Allow {
        NOTIFY
    } else {
        contained
    }
}

/// What the filter for external synchrony is to answer.
fn synchronous(call: &Call) -> u32 {
    let contained = expected(call);
    let epoch = match row_numbered(call.number) {
        Some(row) => row.disposition_with(Kind::Epoch, &call.arguments),
        None => disposition_of_unknown(Kind::Epoch),
    };
    let is_heard = matches!(epoch, Disposition::Track | Disposition::Wait);
    match contained {
        ALLOW if is_heard => NOTIFY,
        contained => contained,
    }
}

fn programs() -> [Program; 4] {
    [consent(), speculation(), synchrony(), confined_synchrony()]
}

fn encode(disposition: Disposition) -> u32 {
    match disposition {
        Disposition::Allow => ALLOW,
        Disposition::Refuse(errno) => 0x0005_0000 | u32::from(errno.number()),
        other => panic!("{other} under consent"),
    }
}
