//! What wait4(2) and waitid(2) ask for, and what they tell.

use surmise_checkpoint::Usage;
use surmise_syscalls::Syscall;

use crate::call::Call;

/// WNOHANG, WEXITED, WNOWAIT of waitid(2).
const NO_HANG: u32 = 1;
const EXITED: u32 = 4;
const NO_REAPING: u32 = 0x0100_0000;
/// WUNTRACED (WSTOPPED), WCONTINUED.
const STOPS: u32 = 2 | 8;
/// These, __WALL: with them a call tells of an exit as without.
const HARMLESS: u32 = STOPS | 0x4000_0000;
/// P_ALL, P_PID, P_PGID of waitid(2).
const ANY: u32 = 0;
const ONE: u32 = 1;
const GROUP: u32 = 2;

/// CLD_EXITED, CLD_DUMPED of sigaction(2).
const CHILD_EXITED: i32 = 1;
const CHILD_DUMPED: i32 = 3;
const SIGCHLD: i32 = 17;
/// `struct siginfo`, as far as waitid(2) fills it: number, error, code, nothing, pid, user, status.
const INFO: usize = 28;

/// A call that collects a child which has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChildWait {
    /// Which children it is content with.
    pub(crate) whom: Whom,
    /// Whether it sleeps until there is one.
    pub(crate) sleeps: bool,
    /// Whether it also tells of children that have stopped or gone on.
    pub(crate) tells_of_stops: bool,
    form: Form,
}

/// The children that a call is content with. Numbers are the caller's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whom {
    Any,
    /// This one.
    One(u64),
    /// Those of this process group.
    Group(u64),
    /// Those of the caller's own process group.
    OwnGroup,
}

/// Where the caller is told what, if that is not 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Status { status: u64, usage: u64 },
    Info { info: u64, usage: u64 },
}

/// How a child has ended, and what it has used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    /// Its number, and its real user's, as its parent knows them.
    pub(crate) number: u64,
    pub(crate) user: u32,
    /// As sigaction(2) has them for SIGCHLD: `si_code`, and `si_status`, which is an exit's status or a signal.
    pub(crate) code: i32,
    pub(crate) status: i32,
    pub(crate) usage: Usage,
}

impl Ended {
    /// One that has exited by itself.
    pub(crate) fn by_exit(number: u64, user: u32, status: u8, usage: Usage) -> Self {
        Self {
            number,
            user,
            code: CHILD_EXITED,
            status: status.into(),
            usage,
        }
    }

    /// As wait4(2) tells it.
    fn word(&self) -> i32 {
        /// That there is a dump of its memory.
        const DUMPED: i32 = 0x80;
        match self.code {
            CHILD_EXITED => self.status << 8,
            CHILD_DUMPED => self.status | DUMPED,
            _ => self.status,
        }
    }

    /// As waitid(2) tells it.
    fn information(&self) -> Vec<u8> {
        let (number, user) = (self.number as i32, self.user as i32);
        let words = [SIGCHLD, 0, self.code, 0, number, user, self.status];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        debug_assert_eq!(bytes.len(), INFO);
        bytes
    }
}

/// All that a caller is told of a child.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    /// What the call returns.
    pub(crate) result: i64,
    /// What is put into the caller's memory, and where.
    pub(crate) memory: Vec<(u64, Vec<u8>)>,
}

/// How a parent is told of an exit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Tidings {
    /// Its call collects the child.
    Collected(Told),
    /// The signal comes, and interrupts its call.
    Interrupted,
    /// The signal waits until its call lets that through, which is made again.
    Queued,
}

/// What becomes of a call that waits for children if none of them has exited, as far as its caller is to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outlook {
    /// The caller can be told that.
    Told(Told),
    /// The call sleeps until a child ends that still runs, as it would without any guess.
    Sleeps,
    /// A child may have ended of which the caller cannot be told now.
    Unknown,
}

impl Told {
    /// The caller has taken a signal: -EINTR.
    pub(crate) fn interrupted() -> Self {
        let (result, memory) = (-4, Vec::new());
        Self { result, memory }
    }
}

impl ChildWait {
    /// What a call asks for; `None` if it is no such call, or asks for something else than all that these can
    /// tell of a child that has ended.
    pub(crate) fn of(call: &Call) -> Option<Self> {
        let [first, second, third, fourth, fifth, _] = *call.arguments();
        let (whom, options, form) = match call.name() {
            Syscall::Wait4 => {
                let whom = match first as i32 {
                    -1 => Whom::Any,
                    0 => Whom::OwnGroup,
                    number @ 1.. => Whom::One(u64::from(number.unsigned_abs())),
                    group => Whom::Group(u64::from(group.unsigned_abs())),
                };
                let (status, usage) = (second, fourth);
                (whom, third as u32 | EXITED, Form::Status { status, usage })
            }
            Syscall::Waitid => {
                let whom = match (first as u32, second as i32) {
                    (ANY, _) => Whom::Any,
                    (ONE, number @ 1..) => Whom::One(u64::from(number.unsigned_abs())),
                    (GROUP, 0) => Whom::OwnGroup,
                    (GROUP, group @ 1..) => Whom::Group(u64::from(group.unsigned_abs())),
                    _ => return None,
                };
                let (info, usage) = (third, fifth);
                (whom, fourth as u32, Form::Info { info, usage })
            }
            _ => return None,
        };
        let tells = options & (EXITED | NO_REAPING) == EXITED;
        let is_known = options & !(NO_HANG | EXITED | HARMLESS) == 0;
        (tells && is_known).then_some(Self {
            whom,
            sleeps: options & NO_HANG == 0,
            tells_of_stops: options & STOPS != 0,
            form,
        })
    }

    /// What the caller is told if it has no such children: -ECHILD.
    pub(crate) fn told_none(&self) -> Told {
        let (result, memory) = (-10, Vec::new());
        Told { result, memory }
    }

    /// What the caller is told if none of its children has ended and it does not sleep.
    pub(crate) fn told_nothing(&self) -> Told {
        let memory = match self.form {
            Form::Info { info, .. } if info != 0 => vec![(info, vec![0; INFO])],
            _ => Vec::new(),
        };
        Told { result: 0, memory }
    }

    /// What the caller is told of a child that has ended.
    pub(crate) fn told(&self, ended: &Ended) -> Told {
        let number = ended.number as i32;
        let (first, usage, result) = match self.form {
            Form::Status { status, usage } => {
                let bytes = ended.word().to_ne_bytes();
                ((status, bytes.to_vec()), usage, i64::from(number))
            }
            Form::Info { info, usage } => ((info, ended.information()), usage, 0),
        };
        let all = [first, (usage, ended.usage.to_vec())];
        let memory = all.into_iter().filter(|(address, _)| *address != 0);
        Told {
            result,
            memory: memory.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::process::Pid;
    use surmise_sys::seccomp::Notification;
    use surmise_syscalls::row_of;

    use super::*;

    fn asked(name: Syscall, arguments: [u64; 6]) -> Option<ChildWait> {
        let row = row_of(name);
        let notification = Notification {
            id: 0,
            thread: Pid::INIT,
            number: row.number(),
            arguments,
            instruction_pointer: 0,
        };
        ChildWait::of(&Call { notification, row })
    }

    fn exit() -> Ended {
        Ended::by_exit(77, 1000, 0xab, [5; _])
    }

    #[test]
    fn either_call_says_whom_it_waits_for_and_whether_it_sleeps() {
        let whom = |name, arguments| asked(name, arguments).map(|wait| (wait.whom, wait.sleeps));
        let wait4 = |pid: i32, options| whom(Syscall::Wait4, [pid as u64, 0, options, 0, 0, 0]);
        assert_eq!(wait4(-1, 0), Some((Whom::Any, true)));
        assert_eq!(wait4(-1, 1), Some((Whom::Any, false)));
        assert_eq!(wait4(0, 2), Some((Whom::OwnGroup, true)));
        assert_eq!(wait4(77, 0), Some((Whom::One(77), true)));
        assert_eq!(wait4(-77, 0), Some((Whom::Group(77), true)));
        let waitid = |kind, pid, options| whom(Syscall::Waitid, [kind, pid, 0, options, 0, 0]);
        assert_eq!(waitid(0, 9, 4), Some((Whom::Any, true)));
        assert_eq!(waitid(1, 77, 5), Some((Whom::One(77), false)));
        assert_eq!(waitid(2, 77, 4), Some((Whom::Group(77), true)));
        assert_eq!(waitid(2, 0, 4), Some((Whom::OwnGroup, true)));
    }

    #[test]
    fn what_tells_of_something_else_than_an_exit_is_not_answered() {
        // By a pidfd; only of stops; without collecting; __WCLONE; __WNOTHREAD.
        let others = [0x0100_0000, 0x8000_0000, 0x2000_0000].map(|option| (0, 4 | option));
        for (kind, options) in [(3, 4), (0, 2)].into_iter().chain(others) {
            let arguments = [kind, 77, 0, options, 0, 0];
            assert_eq!(asked(Syscall::Waitid, arguments), None, "{kind} {options}");
        }
        assert_eq!(asked(Syscall::Wait4, [0, 0, 0x8000_0000, 0, 0, 0]), None);
        assert_eq!(asked(Syscall::Read, [0; 6]), None);
    }

    #[test]
    fn a_caller_is_told_as_the_kernel_tells() {
        let wait = asked(Syscall::Wait4, [u64::MAX, 0x10, 0, 0x20, 0, 0]).expect("a wait");
        let Told { result, memory } = wait.told(&exit());
        assert_eq!(result, 77);
        let status = 0xab00_u32.to_ne_bytes().to_vec();
        assert_eq!(memory, [(0x10, status), (0x20, vec![5; 144])]);
        let wait = asked(Syscall::Waitid, [0, 0, 0x10, 4, 0, 0]).expect("a wait");
        let Told { result, memory } = wait.told(&exit());
        assert_eq!((result, memory.len()), (0, 1));
        let words: Vec<_> = memory[0].1.chunks(4).map(|word| word[0]).collect();
        assert_eq!(words, [17, 0, 1, 0, 77, 0xe8, 0xab]);
        let wait = asked(Syscall::Wait4, [u64::MAX, 0, 0, 0, 0, 0]).expect("a wait");
        assert_eq!(wait.told(&exit()).memory, []);
    }

    #[test]
    fn a_signal_that_has_ended_a_child_is_told_as_the_kernel_tells() {
        let (code, status) = (CHILD_EXITED + 1, 9);
        let killed = Ended {
            code,
            status,
            ..exit()
        };
        assert_eq!(killed.word(), 9);
        let code = CHILD_DUMPED;
        assert_eq!(Ended { code, ..killed }.word(), 0x89);
    }
}
