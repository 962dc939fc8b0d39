//! The name of a system call as a type: a name that does not exist does not compile.

use std::fmt;

/// Makes the type of names from pairs: what the kernel calls a call, and its variant.
///
/// The kernel's name is written once, and both the text and the variant's documentation are made of it.
macro_rules! syscalls {
    ($($name:ident => $Variant:ident,)*) => {
        /// A system call of Linux 6.18 on x86-64, by name, in ascending order of number.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u16)]
        pub enum Syscall {
            $(
                #[doc = concat!("`", stringify!($name), "`")]
                $Variant,
            )*
        }

        impl Syscall {
            /// How many there are: the variants count from 0 without a gap.
            pub(crate) const COUNT: usize = [$(Self::$Variant),*].len();

            /// The name that the kernel's table gives it.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$Variant => stringify!($name),)*
                }
            }
        }
    };
}

impl fmt::Display for Syscall {
    /// The kernel's name.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.as_str())
    }
}

#[rustfmt::skip]
syscalls! {
    read => Read, write => Write, open => Open, close => Close, stat => Stat, fstat => Fstat,
    lstat => Lstat, poll => Poll, lseek => Lseek, mmap => Mmap, mprotect => Mprotect, munmap => Munmap,
    brk => Brk, rt_sigaction => RtSigaction, rt_sigprocmask => RtSigprocmask, rt_sigreturn => RtSigreturn,
    ioctl => Ioctl, pread64 => Pread64, pwrite64 => Pwrite64, readv => Readv, writev => Writev,
    access => Access, pipe => Pipe, select => Select, sched_yield => SchedYield, mremap => Mremap,
    msync => Msync, mincore => Mincore, madvise => Madvise, shmget => Shmget, shmat => Shmat,
    shmctl => Shmctl, dup => Dup, dup2 => Dup2, pause => Pause, nanosleep => Nanosleep,
    getitimer => Getitimer, alarm => Alarm, setitimer => Setitimer, getpid => Getpid, sendfile => Sendfile,
    socket => Socket, connect => Connect, accept => Accept, sendto => Sendto, recvfrom => Recvfrom,
    sendmsg => Sendmsg, recvmsg => Recvmsg, shutdown => Shutdown, bind => Bind, listen => Listen,
    getsockname => Getsockname, getpeername => Getpeername, socketpair => Socketpair,
    setsockopt => Setsockopt, getsockopt => Getsockopt, clone => Clone, fork => Fork, vfork => Vfork,
    execve => Execve, exit => Exit, wait4 => Wait4, kill => Kill, uname => Uname, semget => Semget,
    semop => Semop, semctl => Semctl, shmdt => Shmdt, msgget => Msgget, msgsnd => Msgsnd, msgrcv => Msgrcv,
    msgctl => Msgctl, fcntl => Fcntl, flock => Flock, fsync => Fsync, fdatasync => Fdatasync,
    truncate => Truncate, ftruncate => Ftruncate, getdents => Getdents, getcwd => Getcwd, chdir => Chdir,
    fchdir => Fchdir, rename => Rename, mkdir => Mkdir, rmdir => Rmdir, creat => Creat, link => Link,
    unlink => Unlink, symlink => Symlink, readlink => Readlink, chmod => Chmod, fchmod => Fchmod,
    chown => Chown, fchown => Fchown, lchown => Lchown, umask => Umask, gettimeofday => Gettimeofday,
    getrlimit => Getrlimit, getrusage => Getrusage, sysinfo => Sysinfo, times => Times, ptrace => Ptrace,
    getuid => Getuid, syslog => Syslog, getgid => Getgid, setuid => Setuid, setgid => Setgid,
    geteuid => Geteuid, getegid => Getegid, setpgid => Setpgid, getppid => Getppid, getpgrp => Getpgrp,
    setsid => Setsid, setreuid => Setreuid, setregid => Setregid, getgroups => Getgroups,
    setgroups => Setgroups, setresuid => Setresuid, getresuid => Getresuid, setresgid => Setresgid,
    getresgid => Getresgid, getpgid => Getpgid, setfsuid => Setfsuid, setfsgid => Setfsgid,
    getsid => Getsid, capget => Capget, capset => Capset, rt_sigpending => RtSigpending,
    rt_sigtimedwait => RtSigtimedwait, rt_sigqueueinfo => RtSigqueueinfo, rt_sigsuspend => RtSigsuspend,
    sigaltstack => Sigaltstack, utime => Utime, mknod => Mknod, uselib => Uselib,
    personality => Personality, ustat => Ustat, statfs => Statfs, fstatfs => Fstatfs, sysfs => Sysfs,
    getpriority => Getpriority, setpriority => Setpriority, sched_setparam => SchedSetparam,
    sched_getparam => SchedGetparam, sched_setscheduler => SchedSetscheduler,
    sched_getscheduler => SchedGetscheduler, sched_get_priority_max => SchedGetPriorityMax,
    sched_get_priority_min => SchedGetPriorityMin, sched_rr_get_interval => SchedRrGetInterval,
    mlock => Mlock, munlock => Munlock, mlockall => Mlockall, munlockall => Munlockall, vhangup => Vhangup,
    modify_ldt => ModifyLdt, pivot_root => PivotRoot, _sysctl => Sysctl, prctl => Prctl,
    arch_prctl => ArchPrctl, adjtimex => Adjtimex, setrlimit => Setrlimit, chroot => Chroot, sync => Sync,
    acct => Acct, settimeofday => Settimeofday, mount => Mount, umount2 => Umount2, swapon => Swapon,
    swapoff => Swapoff, reboot => Reboot, sethostname => Sethostname, setdomainname => Setdomainname,
    iopl => Iopl, ioperm => Ioperm, create_module => CreateModule, init_module => InitModule,
    delete_module => DeleteModule, get_kernel_syms => GetKernelSyms, query_module => QueryModule,
    quotactl => Quotactl, nfsservctl => Nfsservctl, getpmsg => Getpmsg, putpmsg => Putpmsg,
    afs_syscall => AfsSyscall, tuxcall => Tuxcall, security => Security, gettid => Gettid,
    readahead => Readahead, setxattr => Setxattr, lsetxattr => Lsetxattr, fsetxattr => Fsetxattr,
    getxattr => Getxattr, lgetxattr => Lgetxattr, fgetxattr => Fgetxattr, listxattr => Listxattr,
    llistxattr => Llistxattr, flistxattr => Flistxattr, removexattr => Removexattr,
    lremovexattr => Lremovexattr, fremovexattr => Fremovexattr, tkill => Tkill, time => Time,
    futex => Futex, sched_setaffinity => SchedSetaffinity, sched_getaffinity => SchedGetaffinity,
    set_thread_area => SetThreadArea, io_setup => IoSetup, io_destroy => IoDestroy,
    io_getevents => IoGetevents, io_submit => IoSubmit, io_cancel => IoCancel,
    get_thread_area => GetThreadArea, lookup_dcookie => LookupDcookie, epoll_create => EpollCreate,
    epoll_ctl_old => EpollCtlOld, epoll_wait_old => EpollWaitOld, remap_file_pages => RemapFilePages,
    getdents64 => Getdents64, set_tid_address => SetTidAddress, restart_syscall => RestartSyscall,
    semtimedop => Semtimedop, fadvise64 => Fadvise64, timer_create => TimerCreate,
    timer_settime => TimerSettime, timer_gettime => TimerGettime, timer_getoverrun => TimerGetoverrun,
    timer_delete => TimerDelete, clock_settime => ClockSettime, clock_gettime => ClockGettime,
    clock_getres => ClockGetres, clock_nanosleep => ClockNanosleep, exit_group => ExitGroup,
    epoll_wait => EpollWait, epoll_ctl => EpollCtl, tgkill => Tgkill, utimes => Utimes, vserver => Vserver,
    mbind => Mbind, set_mempolicy => SetMempolicy, get_mempolicy => GetMempolicy, mq_open => MqOpen,
    mq_unlink => MqUnlink, mq_timedsend => MqTimedsend, mq_timedreceive => MqTimedreceive,
    mq_notify => MqNotify, mq_getsetattr => MqGetsetattr, kexec_load => KexecLoad, waitid => Waitid,
    add_key => AddKey, request_key => RequestKey, keyctl => Keyctl, ioprio_set => IoprioSet,
    ioprio_get => IoprioGet, inotify_init => InotifyInit, inotify_add_watch => InotifyAddWatch,
    inotify_rm_watch => InotifyRmWatch, migrate_pages => MigratePages, openat => Openat, mkdirat => Mkdirat,
    mknodat => Mknodat, fchownat => Fchownat, futimesat => Futimesat, newfstatat => Newfstatat,
    unlinkat => Unlinkat, renameat => Renameat, linkat => Linkat, symlinkat => Symlinkat,
    readlinkat => Readlinkat, fchmodat => Fchmodat, faccessat => Faccessat, pselect6 => Pselect6,
    ppoll => Ppoll, unshare => Unshare, set_robust_list => SetRobustList, get_robust_list => GetRobustList,
    splice => Splice, tee => Tee, sync_file_range => SyncFileRange, vmsplice => Vmsplice,
    move_pages => MovePages, utimensat => Utimensat, epoll_pwait => EpollPwait, signalfd => Signalfd,
    timerfd_create => TimerfdCreate, eventfd => Eventfd, fallocate => Fallocate,
    timerfd_settime => TimerfdSettime, timerfd_gettime => TimerfdGettime, accept4 => Accept4,
    signalfd4 => Signalfd4, eventfd2 => Eventfd2, epoll_create1 => EpollCreate1, dup3 => Dup3,
    pipe2 => Pipe2, inotify_init1 => InotifyInit1, preadv => Preadv, pwritev => Pwritev,
    rt_tgsigqueueinfo => RtTgsigqueueinfo, perf_event_open => PerfEventOpen, recvmmsg => Recvmmsg,
    fanotify_init => FanotifyInit, fanotify_mark => FanotifyMark, prlimit64 => Prlimit64,
    name_to_handle_at => NameToHandleAt, open_by_handle_at => OpenByHandleAt, clock_adjtime => ClockAdjtime,
    syncfs => Syncfs, sendmmsg => Sendmmsg, setns => Setns, getcpu => Getcpu,
    process_vm_readv => ProcessVmReadv, process_vm_writev => ProcessVmWritev, kcmp => Kcmp,
    finit_module => FinitModule, sched_setattr => SchedSetattr, sched_getattr => SchedGetattr,
    renameat2 => Renameat2, seccomp => Seccomp, getrandom => Getrandom, memfd_create => MemfdCreate,
    kexec_file_load => KexecFileLoad, bpf => Bpf, execveat => Execveat, userfaultfd => Userfaultfd,
    membarrier => Membarrier, mlock2 => Mlock2, copy_file_range => CopyFileRange, preadv2 => Preadv2,
    pwritev2 => Pwritev2, pkey_mprotect => PkeyMprotect, pkey_alloc => PkeyAlloc, pkey_free => PkeyFree,
    statx => Statx, io_pgetevents => IoPgetevents, rseq => Rseq, uretprobe => Uretprobe, uprobe => Uprobe,
    pidfd_send_signal => PidfdSendSignal, io_uring_setup => IoUringSetup, io_uring_enter => IoUringEnter,
    io_uring_register => IoUringRegister, open_tree => OpenTree, move_mount => MoveMount, fsopen => Fsopen,
    fsconfig => Fsconfig, fsmount => Fsmount, fspick => Fspick, pidfd_open => PidfdOpen, clone3 => Clone3,
    close_range => CloseRange, openat2 => Openat2, pidfd_getfd => PidfdGetfd, faccessat2 => Faccessat2,
    process_madvise => ProcessMadvise, epoll_pwait2 => EpollPwait2, mount_setattr => MountSetattr,
    quotactl_fd => QuotactlFd, landlock_create_ruleset => LandlockCreateRuleset,
    landlock_add_rule => LandlockAddRule, landlock_restrict_self => LandlockRestrictSelf,
    memfd_secret => MemfdSecret, process_mrelease => ProcessMrelease, futex_waitv => FutexWaitv,
    set_mempolicy_home_node => SetMempolicyHomeNode, cachestat => Cachestat, fchmodat2 => Fchmodat2,
    map_shadow_stack => MapShadowStack, futex_wake => FutexWake, futex_wait => FutexWait,
    futex_requeue => FutexRequeue, statmount => Statmount, listmount => Listmount,
    lsm_get_self_attr => LsmGetSelfAttr, lsm_set_self_attr => LsmSetSelfAttr,
    lsm_list_modules => LsmListModules, mseal => Mseal, setxattrat => Setxattrat, getxattrat => Getxattrat,
    listxattrat => Listxattrat, removexattrat => Removexattrat, open_tree_attr => OpenTreeAttr,
    file_getattr => FileGetattr, file_setattr => FileSetattr,
}
