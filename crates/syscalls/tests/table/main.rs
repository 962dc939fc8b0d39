//! What the table promises, checked against itself and against libc's numbers.
#![forbid(unsafe_code)]

mod numbers;

use std::collections::HashSet;

use surmise_syscalls::{
    ByName, Disposition, Errno, Handler, Kind, Reach, Row, Syscall, disposition_of_unknown,
    row_named, row_numbered, row_of, rows,
};

#[test]
fn numbers_are_those_of_the_kernel_without_gaps() {
    let numbers: Vec<u32> = rows().map(Row::number).collect();
    let kernel: Vec<u32> = (0..=336).chain(424..=469).collect();
    assert_eq!(numbers, kernel);
}

#[test]
fn names_are_unique_and_all_lookups_agree() {
    let mut seen = HashSet::new();
    for row in rows() {
        let name = row.name();
        assert!(seen.insert(name.as_str()), "{name} twice");
        assert_eq!(row_numbered(row.number()).map(Row::name), Some(name));
        assert_eq!(
            row_named(name.as_str()).map(Row::number),
            Some(row.number())
        );
        assert_eq!(row_of(name).number(), row.number());
        assert_eq!(name.to_string(), name.as_str());
    }
    for number in [337, 423, 470, 512, 0x4000_0000, u32::MAX] {
        assert!(row_numbered(number).is_none(), "{number}");
    }
    assert!(row_named("no_such_call").is_none());
}

/// A reader who knows the kernel's name knows the variant, and no variant stands for another call.
#[test]
fn a_variant_is_spelled_as_the_kernel_spells_the_name() {
    for name in rows().map(Row::name) {
        let words = name.as_str().split('_');
        let spelled: String = words
            .flat_map(|word| {
                let (first, rest) = word.split_at(usize::from(!word.is_empty()));
                [first.to_uppercase(), rest.to_owned()]
            })
            .collect();
        assert_eq!(format!("{name:?}"), spelled);
    }
}

#[test]
fn names_and_numbers_are_those_of_libc_and_the_kernel() {
    let libc = numbers::LIBC.iter().map(|&(constant, number)| {
        (
            constant.strip_prefix("SYS_").expect("libc's prefix"),
            number,
        )
    });
    let mut compared = HashSet::new();
    for (name, number) in libc.chain(numbers::KERNEL.iter().copied()) {
        let row = row_named(name).unwrap_or_else(|| panic!("no row named {name}"));
        assert_eq!(i64::from(row.number()), number, "{name}");
        compared.insert(name);
    }
    let rest: Vec<&str> = rows()
        .map(|row| row.name().as_str())
        .filter(|name| !compared.contains(name))
        .collect();
    assert!(rest.is_empty(), "compared with nothing: {rest:?}");
}

#[test]
fn consent_neither_tracks_nor_waits() {
    for row in rows() {
        for disposition in dispositions(row, Kind::Consent) {
            assert!(
                !matches!(disposition, Disposition::Track | Disposition::Wait),
                "{}: nobody inside could end the wait",
                row.name()
            );
        }
    }
    assert_eq!(
        disposition_of_unknown(Kind::Consent),
        Disposition::Refuse(Errno::NoSys)
    );
    assert_eq!(disposition_of_unknown(Kind::Prediction), Disposition::Wait);
    assert_eq!(disposition_of_unknown(Kind::Epoch), Disposition::Wait);
}

#[test]
fn a_call_refused_under_consent_never_slips_through_a_prediction() {
    for row in rows() {
        if matches!(row.disposition(Kind::Consent), Disposition::Refuse(_)) {
            let prediction = row.disposition(Kind::Prediction);
            assert!(
                matches!(prediction, Disposition::Wait | Disposition::Refuse(_)),
                "{}: {prediction}",
                row.name()
            );
        }
    }
}

#[test]
fn every_row_says_why_and_every_tracked_row_says_who() {
    for row in rows() {
        assert!(
            is_one_line(row.reason()),
            "{}: {:?}",
            row.name(),
            row.reason()
        );
        assert!(row.arguments().len() <= 6, "{}", row.name());
        let served = Kind::ALL.iter().any(|&kind| {
            dispositions(row, kind)
                .any(|disposition| matches!(disposition, Disposition::Track | Disposition::Hold))
        });
        assert_eq!(served, row.handler() != Handler::Plain, "{}", row.name());
        for exception in row.exceptions() {
            assert!(is_one_line(exception.reason()), "{}", row.name());
            assert!(
                exception.argument() < row.arguments().len(),
                "{}: an exception on an argument that the call lacks",
                row.name()
            );
        }
    }
}

/// The boundary of a domain, as far as a filter can keep it.
#[test]
fn what_reaches_past_the_view_and_the_namespaces_is_refused_under_consent() {
    use Syscall::*;
    #[rustfmt::skip]
    let refused: [(&[Syscall], Errno); 8] = [
        (&[Mount, Umount2, PivotRoot, MoveMount, OpenTree, Fsopen, Fsconfig, Fsmount, Fspick], Errno::Perm),
        (&[MountSetattr, OpenTreeAttr, Setns, OpenByHandleAt, Quotactl, QuotactlFd], Errno::Perm),
        (&[KexecLoad, KexecFileLoad, InitModule, FinitModule, DeleteModule, Bpf], Errno::Perm),
        (&[Swapon, Swapoff, Reboot, Settimeofday, ClockSettime, Iopl, Ioperm, Acct, Syslog], Errno::Perm),
        (&[Vhangup, FanotifyInit], Errno::Perm),
        (&[PerfEventOpen], Errno::Acces),
        (&[IoUringSetup, IoUringEnter, IoUringRegister], Errno::NoSys),
        (&[AddKey, RequestKey, Keyctl, LookupDcookie, Clone3], Errno::NoSys),
    ];
    for (names, errno) in refused {
        for &name in names {
            assert_eq!(
                row_of(name).disposition(Kind::Consent),
                Disposition::Refuse(errno),
                "{name}"
            );
        }
    }
}

#[test]
fn exceptions_look_at_the_bits_that_the_kernel_looks_at() {
    let ioctl = row_of(Syscall::Ioctl);
    let refused = Disposition::Refuse(Errno::Perm);
    // The kernel takes the command as an unsigned int, so the upper half must not hide it.
    for command in [0x5412, 0xdead_beef_0000_5412, 0x541c] {
        let arguments = [0, command, 0, 0, 0, 0];
        assert_eq!(
            ioctl.disposition_with(Kind::Consent, &arguments),
            refused,
            "{command:#x}"
        );
    }
    let window_size = [1, 0x5413, 0, 0, 0, 0];
    assert_eq!(
        ioctl.disposition_with(Kind::Consent, &window_size),
        Disposition::Allow
    );
    assert_eq!(
        ioctl.disposition_with(Kind::Prediction, &window_size),
        Disposition::Track
    );

    let socket = row_of(Syscall::Socket);
    let family = |number| socket.disposition_with(Kind::Consent, &[number, 1, 0, 0, 0, 0]);
    assert_eq!(family(40), Disposition::Refuse(Errno::AfNoSupport));
    assert_eq!(family(1), Disposition::Allow);

    let futex = row_of(Syscall::Futex);
    let operation = |number| futex.disposition_with(Kind::Prediction, &[0, number, 1, 0, 0, 0]);
    assert_eq!(operation(0x81), Disposition::Allow, "private wake");
    assert_eq!(operation(0x01), Disposition::Wait, "shared wake");
    assert_eq!(
        operation(0x109),
        Disposition::Allow,
        "the wait of pthread_join"
    );

    // Here all 64 bits count: an address may have a lower half of zero.
    let limits = row_of(Syscall::Prlimit64);
    let given = |address| limits.disposition_with(Kind::Prediction, &[0, 7, address, 0, 0, 0]);
    assert_eq!(given(0), Disposition::Allow);
    assert_eq!(given(0x7f00_0000_0000_0000), Disposition::Track);
}

/// A filter tells of all that a prediction's column does not allow, so these are what every program
/// does all the time for nothing, and what no supervisor may miss.
#[test]
fn under_a_prediction_a_checkpoint_makes_private_changes_free_and_no_end_goes_unseen() {
    use Syscall::*;
    #[rustfmt::skip]
    let free = [
        Brk, Munmap, RtSigprocmask, RtSigreturn, Futex, Getpid, ClockGettime,
        Close, Dup, Dup2, Dup3, SetRobustList, Rseq, RestartSyscall,
    ];
    for name in free {
        assert_eq!(
            row_of(name).disposition(Kind::Prediction),
            Disposition::Allow,
            "{name}"
        );
    }
    for name in [Exit, ExitGroup, Execve, Execveat, Clone, Fork] {
        let row = row_of(name);
        for disposition in dispositions(row, Kind::Prediction) {
            assert_ne!(disposition, Disposition::Allow, "{name}");
        }
    }
    let mmap = row_of(Mmap);
    let flags = |flags| mmap.disposition_with(Kind::Prediction, &[0, 4096, 3, flags, 0, 0]);
    assert_eq!(flags(0x22), Disposition::Allow, "private memory");
    assert_eq!(flags(0x21), Disposition::Wait, "shared memory");
    assert_eq!(flags(0x02), Disposition::Track, "a private map of a file");
    let fcntl = row_of(Fcntl);
    let command = |number| fcntl.disposition_with(Kind::Prediction, &[3, number, 0, 0, 0, 0]);
    assert_eq!(command(1), Disposition::Allow, "F_GETFD");
    assert_eq!(command(3), Disposition::Track, "F_GETFL");
    assert_eq!(command(4), Disposition::Track, "F_SETFL");
    assert_eq!(command(7), Disposition::Wait, "F_SETLKW");
}

fn is_one_line(reason: &str) -> bool {
    !reason.is_empty() && reason.len() <= 80 && !reason.contains('\n') && reason.trim() == reason
}

/// Every disposition of a row for one kind, exceptions included.
fn dispositions(row: &Row, kind: Kind) -> impl Iterator<Item = Disposition> {
    let exceptions = row.exceptions().iter();
    std::iter::once(row.disposition(kind))
        .chain(exceptions.map(move |exception| exception.disposition(kind)))
}

/// A person who is told of a refused call is told its name, and where an argument decides the argument's.
#[test]
fn a_refusal_by_an_argument_names_the_argument() {
    let is_name = |word: &str| {
        let mut letters = word.chars();
        word.len() > 3 && letters.all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
    };
    for row in rows() {
        for exception in row.exceptions() {
            let refused = matches!(exception.disposition(Kind::Consent), Disposition::Refuse(_));
            let word = exception.reason().split([' ', ':']).next();
            assert!(
                !refused || word.is_some_and(is_name),
                "{}: {word:?}",
                row.name()
            );
        }
    }
}

#[test]
fn what_a_call_may_fail_to_reach_depends_on_its_arguments() {
    let reach = |name, arguments| row_of(name).reach_with(&arguments);
    assert_eq!(
        reach(Syscall::Connect, [3, 0x1000, 16, 0, 0, 0]),
        Some(Reach::Address)
    );
    assert_eq!(
        reach(Syscall::Sendto, [3, 0x1000, 5, 0, 0x2000, 16]),
        Some(Reach::Datagram)
    );
    assert_eq!(
        reach(Syscall::Sendto, [3, 0x1000, 5, 0, 0, 0]),
        None,
        "connected"
    );
    assert_eq!(
        reach(Syscall::Ptrace, [0x4206, 7, 0, 0, 0, 0]),
        Some(Reach::Process)
    );
    assert_eq!(
        reach(Syscall::Ptrace, [0, 0, 0, 0, 0, 0]),
        None,
        "PTRACE_TRACEME"
    );
    assert_eq!(
        reach(Syscall::Seccomp, [1, 0x28, 0x1000, 0, 0, 0]),
        Some(Reach::Calls)
    );
    assert_eq!(reach(Syscall::Seccomp, [1, 0x1, 0x1000, 0, 0, 0]), None);
}

/// Sync looks at what these calls change, and the filter leaves them unheard where Landlock's rules hold.
#[test]
fn the_calls_that_change_something_by_name_are_these() {
    use Syscall::*;
    let of = |wanted| {
        let found = rows().filter(move |row| row.changes_by_name() == Some(wanted));
        found.map(Row::name).collect::<Vec<_>>()
    };
    assert_eq!(of(ByName::Opens), [Open, Creat, Openat, Openat2]);
    assert_eq!(of(ByName::Contents), [Truncate]);
    #[rustfmt::skip]
    let entries = [
        Rename, Mkdir, Rmdir, Link, Unlink, Symlink, Mknod,
        Mkdirat, Mknodat, Unlinkat, Renameat, Linkat, Symlinkat, Renameat2,
    ];
    assert_eq!(of(ByName::Entries), entries);
    for row in rows().filter(|row| row.changes_by_name().is_some()) {
        assert_eq!(row.handler(), Handler::View, "{}", row.name());
        assert_eq!(
            row.disposition(Kind::Epoch),
            Disposition::Track,
            "{}",
            row.name()
        );
    }
}
