"""The rows of the probe that are about processes, mounts, devices and the machine."""
pid = targets["pid"]
NOTHING = ctypes.create_string_buffer(256)
VECTOR = struct.pack("QQ", ctypes.addressof(NOTHING), 8)

# Processes.
row("signal a process", True)(lambda: (os.kill(pid, 0), REACHES)[1])
row("open a process", True)(lambda: (os.pidfd_open(pid), REACHES)[1])
for name, number, arguments in (
        ("tgkill", 234, (pid, pid, 0)), ("tkill", 200, (pid, 0)),
        ("rt_sigqueueinfo", 129, (pid, 0, NOTHING)), ("prlimit64", 302, (pid, 7, None, NOTHING)),
        ("setpriority", 141, (0, pid, 5)), ("ioprio_set", 251, (1, pid, 3 << 13)),
        ("sched_setaffinity", 203, (pid, 8, struct.pack("Q", 1))),
        ("sched_setscheduler", 144, (pid, 3, struct.pack("i", 0))),
        ("sched_setattr", 314, (pid, NOTHING, 0)), ("migrate_pages", 256, (pid, 8, NOTHING, NOTHING)),
        ("move_pages", 279, (pid, 0, None, None, None, 0)), ("kcmp", 312, (pid, pid, 0, 0, 0)),
        ("ptrace attach", 101, (16, pid, 0, 0)), ("ptrace seize", 101, (0x4206, pid, 0, 0)),
        ("process_vm_readv", 310, (pid, VECTOR, 1, VECTOR, 1, 0)),
        ("process_vm_writev", 311, (pid, VECTOR, 1, VECTOR, 1, 0)),
        ("setpgid", 109, (0, pid)), ("getsid", 124, (pid,)), ("get_robust_list", 274, (pid, NOTHING, NOTHING))):
    row(f"{name} of a process")(
        lambda number=number, arguments=arguments: (call(number, *arguments), REACHES)[1])
for name, number, arguments in (
        ("ptrace", 101, (0x4206, 1, 0, 0)), ("process_vm_readv", 310, (1, VECTOR, 1, VECTOR, 1, 0)),
        ("ptrace attach", 101, (16, 1, 0, 0)), ("kcmp", 312, (1, 1, 0, 0, 0))):
    row(f"{name} of pid 1")(
        lambda number=number, arguments=arguments: (call(number, *arguments), REACHES)[1])
row("descriptor of pid 1")(lambda: (call(438, os.pidfd_open(1), 0, 0), REACHES)[1])


@row("the group of the caller")
def _():
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)

    def disturb():
        os.kill(0, signal.SIGUSR1)
        os.setpriority(os.PRIO_PGRP, 0, 7)
        call(251, 2, 0, 2 << 13 | 7)
        return CONTAINED  # Told by the witness in the group outside.
    return in_child(disturb)


@row("all processes of the user")
def _():
    def disturb():
        os.setpriority(os.PRIO_USER, os.getuid(), 9)
        call(251, 3, os.getuid(), 2 << 13 | 7)
        return CONTAINED
    return in_child(disturb)


row("kill pid 1")(lambda: (os.kill(1, signal.SIGKILL), CONTAINED)[1])


@row("processes in /proc")
def _():
    seen = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return f"{REACHES} {seen}" if pid in seen or len(seen) > 10 else CONTAINED


for process in (pid, 1):
    opens([f"/proc/{process}/{name}" for name in ("mem", "environ", "auxv")], os.O_RDONLY)
    for name in ("root", "cwd", "map_files", "fd/0", "ns/mnt"):
        row(f"look into /proc/{process}/{name}")(lambda process=process, name=name: (
            os.readlink(f"/proc/{process}/{name}") if "/" in name else os.listdir(f"/proc/{process}/{name}"),
            REACHES)[1])


@row("namespaces")
def _():
    shared = [name for name, link in targets["namespaces"].items()
              if os.readlink(f"/proc/self/ns/{name}") == link]
    return f"{REACHES} {shared}" if shared else CONTAINED


for name in ("mnt", "pid", "net", "ipc", "uts", "user", "cgroup", "time"):
    row(f"setns {name}")(lambda name=name: (
        call(308, os.open(f"/proc/1/ns/{name}", os.O_RDONLY), 0), REACHES)[1])
row("setns of a process")(lambda: (call(308, os.pidfd_open(os.getpid()), 0x20000), REACHES)[1])

# Mounts, in the domain's namespaces and in new ones.
MOUNTS = ("mount 165,umount2 166,pivot_root 155,move_mount 429,open_tree 428,fsopen 430,fsconfig 431,"
          "fsmount 432,fspick 433,mount_setattr 442,open_tree_attr 467")
calls(MOUNTS, b"/proc/sys", b"/tmp", b"tmpfs", 0, 0)
row("mount writable again")(lambda: (call(165, None, b"/proc/sys", None, 0x1020, None), REACHES)[1])
row("unmount /dev")(lambda: (call(166, b"/dev", 2), REACHES)[1])


@row("mount in new namespaces")
def _():
    def attempt():
        call(272, 0x10000000 | 0x20000)
        call(165, b"none", b"/tmp", b"tmpfs", 0, 0)
        return REACHES
    return in_child(attempt)


@row("chroot and out of it")
def _():
    def attempt():
        os.makedirs("inner", exist_ok=True)
        outside = os.open(".", os.O_RDONLY)
        os.chroot("inner")
        os.fchdir(outside)
        for _ in range(64):
            os.chdir("..")
        os.chroot(".")
        buffer = ctypes.create_string_buffer(256)
        call(137, b"/", buffer)
        return CONTAINED if struct.unpack_from("q", buffer)[0] == 0x65735546 else REACHES  # FUSE
    return in_child(attempt)


handle = ctypes.create_string_buffer(struct.pack("Ii", 8, 1) + bytes(64))
row("open_by_handle_at")(lambda: (call(304, os.open("/", os.O_RDONLY), handle, 0), REACHES)[1])

# Devices.
opens([f"/dev/{name}" for name in (
    "vda", "vda1", "sda", "sda1", "nvme0n1", "nvme0n1p1", "loop0", "loop-control", "dm-0", "mapper/control",
    "mem", "port", "kmsg", "fuse", "net/tun", "kvm", "vhost-net", "vhost-vsock", "vsock", "uinput", "rtc0",
    "hpet", "nvram", "watchdog", "snapshot", "btrfs-control", "cpu/0/msr", "console", "tty0", "tty1",
    "ttyS0", "hwrng", "udmabuf", "userfaultfd", "autofs", "ppp", "dri/card0", "input/event0")], os.O_RDWR)
for name, kind, number in (
        ("block device", stat.S_IFBLK, os.stat("/").st_dev), ("disk", stat.S_IFBLK, os.makedev(254, 0)),
        ("memory device", stat.S_IFCHR, os.makedev(1, 1)), ("FUSE device", stat.S_IFCHR, os.makedev(10, 229))):
    @row(f"make and open a {name}")
    def _(name=name, kind=kind, number=number):
        os.mknod("node", kind | 0o600, number)
        try:
            os.close(os.open("node", os.O_RDWR))
            return REACHES
        finally:
            os.unlink("node")


for name in ("null", "random", "tty"):
    row(f"change the mode of /dev/{name}")(lambda name=name: (os.chmod(f"/dev/{name}", 0o600), REACHES)[1])
for name, request in (("add entropy", 0x40085203), ("clear the pool", 0x5206), ("count entropy", 0x40045201)):
    row(name)(lambda request=request: (
        fcntl.ioctl(os.open("/dev/random", os.O_RDWR), request, bytes(8)), REACHES)[1])

# The terminal. What is contained is looked at outside.
for name, request, argument in (
        ("TIOCSTI", termios.TIOCSTI, b"x"), ("TIOCLINUX", termios.TIOCLINUX, b"\3"),
        ("TIOCCONS", termios.TIOCCONS, b""),
        ("TIOCVHANGUP", 0x5437, 0), ("TIOCSLCKTRMIOS", 0x5457, bytes(60)), ("TIOCEXCL", termios.TIOCEXCL, 0)):
    row(name)(lambda request=request, argument=argument: (
        fcntl.ioctl(0, request, argument), CONTAINED if request == termios.TIOCEXCL else REACHES)[1])


@row("TIOCSETD")
def _():
    for discipline in (27, 0):  # N_NULL, N_TTY
        fcntl.ioctl(0, termios.TIOCSETD, struct.pack("i", discipline))
    return CONTAINED


# Settings of the machine.
opens([f"/proc/{name}" for name in (
    "sys/kernel/core_pattern", "sys/kernel/hostname", "sys/vm/drop_caches", "sys/net/ipv4/ip_forward",
    "sys/kernel/modprobe", "sys/fs/binfmt_misc/register", "sysrq-trigger", "irq/default_smp_affinity",
    "mtrr", "acpi/wakeup", "scsi/scsi")])
opens([f"/proc/{name}" for name in ("kcore", "kmsg")], os.O_RDONLY)
opens([f"/sys/{name}" for name in (
    "kernel/mm/ksm/run", "power/state", "kernel/profiling", "kernel/uevent_helper", "kernel/debug",
    "fs/cgroup/cgroup.procs", "module/fuse/parameters/max_user_bgreq")])
row("make a control group")(lambda: (os.mkdir("/sys/fs/cgroup/new"), REACHES)[1])


def sweep(top, skip=lambda name: False):
    """All files of a tree that take a write, if only an empty one. Others fail with EIO or EINVAL."""
    opened = []
    for directory, directories, names in os.walk(top):
        if directory == top:
            directories[:] = [name for name in directories if not skip(name)]
        for path in (f"{directory}/{name}" for name in names):
            try:
                if stat.S_ISREG(os.lstat(path).st_mode):
                    with open(path, "wb", buffering=0, opener=lambda path, _: os.open(
                            path, os.O_WRONLY | os.O_NONBLOCK)) as file:
                        file.write(b"")
                    opened.append(path)
            except OSError:
                pass
    return f"{REACHES} {opened[:9]}" if opened else CONTAINED


row("every file below /sys")(lambda: sweep("/sys"))
row("every file of the machine below /proc")(lambda: sweep("/proc", lambda name: name.isdigit() or name in (
    "self", "thread-self")))

calls("syslog 103,vhangup 153,acct 163,swapon 167,swapoff 168,reboot 169,iopl 172,ioperm 173,"
      "init_module 175,delete_module 176,quotactl 179,kexec_load 246,finit_module 313,kexec_file_load 320,"
      "bpf 321,perf_event_open 298,io_uring_setup 425,io_uring_enter 426,io_uring_register 427,"
      "fanotify_init 300,fanotify_mark 301,quotactl_fd 443,settimeofday 164,lookup_dcookie 212", 0, 0, 0, 0, 0)
row("bpf map")(lambda: (call(321, 0, struct.pack("IIIII", 2, 4, 4, 1, 0) + bytes(100), 72), REACHES)[1])
row("perf event")(lambda: (call(298, struct.pack("IIQ", 1, 112, 0) + bytes(200), -1, 0, -1, 0), REACHES)[1])
row("ring")(lambda: (call(425, 4, NOTHING), REACHES)[1])
row("clock_settime")(lambda: (call(227, 0, struct.pack("qq", -1, 0)), REACHES)[1])
tick = struct.pack("IIqqqqiiqqqqqq", 0x4000, *[0] * 12, 10000) + bytes(128)
row("adjtimex")(lambda: (call(159, tick), REACHES)[1])
row("clock_adjtime")(lambda: (call(305, 0, tick), REACHES)[1])
row("sethostname")(lambda: (call(170, b"changed", 7), CONTAINED)[1])
row("setdomainname")(lambda: (call(171, b"changed", 7), CONTAINED)[1])
row("userfaultfd")(lambda: (call(323, 1), CONTAINED)[1])
row("limit on open files above the hard one")(lambda: (
    call(160, 7, struct.pack("QQ", 1 << 40, 1 << 40)), REACHES)[1])


@row("capabilities")
def _():
    lines = open("/proc/self/status").read().splitlines()
    bounding = int(next(line for line in lines if line.startswith("CapBnd")).split()[1], 16)
    # SYS_MODULE, SYS_RAWIO, SYS_ADMIN, SYS_BOOT, SYS_TIME, MKNOD, DAC_READ_SEARCH.
    kept = [bit for bit in (16, 17, 21, 22, 25, 27, 2) if bounding >> bit & 1]
    return f"{REACHES} {kept}" if kept else CONTAINED


# Other entries of the kernel.
def enter_32_bit():
    """getpid by int 0x80."""
    code = mmap.mmap(-1, 4096, prot=7)
    code.write(bytes.fromhex("53b814000000cd805bc3"))
    function = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
    result = function()
    if result < 0:
        raise OSError(-result, "")
    return REACHES


row("32-bit entry")(lambda: in_child(enter_32_bit))


@row("personality and the 32-bit entry")
def _():
    def attempt():
        call(135, 8)
        return enter_32_bit()
    return in_child(attempt)


row("x32 entry")(lambda: (call(0x40000000 + 39), REACHES)[1])
calls("unknown 470,unknown-2 1000", 0)
