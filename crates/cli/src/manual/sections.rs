//! What the manual pages say beyond `--help`.

/// A section of a manual page.
pub struct Section {
    pub title: &'static str,
    /// Before the entries; may be empty.
    pub text: &'static str,
    /// What is explained, and the explanation.
    pub entries: &'static [Entry],
}

type Entry = (&'static str, &'static str);

/// The sections of the page of `command`: `surmise` or one of its subcommands.
pub fn of(command: &str) -> &'static [Section] {
    match command {
        "surmise" => SURMISE,
        "run" => RUN,
        "shell" => SHELL,
        "sync" => SYNC,
        "commit" => COMMIT,
        "list" | "diff" | "abort" => DECISIONS,
        "doctor" => DOCTOR,
        "demo" => DEMO,
        "mount" => MOUNT,
        "serve" => SERVE,
        _ => PLAIN,
    }
}

/// The pages of others that the page of `command` points to, with their sections.
pub fn see_also(command: &str) -> &'static [Entry] {
    match command {
        "surmise" => &[("namespaces", "7"), ("fuse", "4")],
        "run" | "shell" => &[("user_namespaces", "7"), ("seccomp", "2")],
        "mount" => &[
            ("mount", "8"),
            ("fstab", "5"),
            ("ssh", "1"),
            ("fusermount3", "1"),
        ],
        "serve" => &[("systemd.unit", "5"), ("openssl-req", "1ssl")],
        "diff" => &[("git-apply", "1"), ("patch", "1")],
        "doctor" => &[
            ("newuidmap", "1"),
            ("subuid", "5"),
            ("apparmor_parser", "8"),
            ("user_namespaces", "7"),
        ],
        "syscalls" => &[("syscalls", "2"), ("seccomp", "2")],
        "completions" => &[("bash", "1"), ("zsh", "1"), ("fish", "1")],
        "man" => &[("man", "1")],
        _ => &[],
    }
}

const SURMISE: &[Section] = &[
    Section {
        title: "WHAT IS NOT UNDONE",
        text: "Undo ends at the boundary of a domain: what a command sent to a host that was \
               allowed cannot be taken back, so nothing is sent unless somebody said so. A command \
               can read whatever its user can read.",
        entries: &[],
    },
    FILES,
    Section {
        title: "ENVIRONMENT",
        text: "",
        entries: &[
            XDG_STATE_HOME,
            SHELL_VARIABLE,
            PAGER,
            (
                "NO_COLOR",
                "If it is set and not empty, output has no colours.",
            ),
            (
                "SURMISE_DOMAIN",
                "Inside a domain: its name; under surmise sync, `sync`.",
            ),
            SURMISE_MAKER,
        ],
    },
];

const RUN: &[Section] = &[
    Section {
        title: "INSIDE",
        text: "",
        entries: &[
            (
                "Files",
                "The whole file system as it is outside, with the command's own changes. fsync(2) \
                 returns at once: nothing is outside before a commit, and a commit is durable when \
                 it returns.",
            ),
            (
                "Streams",
                "Descriptors 0, 1 and 2 are pipes, sockets, or a terminal of the domain's own. \
                 Others are not inherited, but for those named by --keep-fd.",
            ),
            (
                "Processes",
                "Those that outlive the command get TERM, after two seconds KILL, and are listed; \
                 with --wait they are waited for.",
            ),
            (
                "Rights",
                "Those of the user and no more. For ordinary users, set-user-id programs run \
                 without their rights, so sudo does not work. Mounting, loading modules, io_uring \
                 and 32-bit programs are refused; surmise syscalls lists every call.",
            ),
            (
                "Limits",
                "The caller's. Surmise's own processes open as many files as the hard limit lets \
                 them; where that is below 64, no domain is started.",
            ),
        ],
    },
    DOMAIN_FILES,
    Section {
        title: "ENVIRONMENT",
        text: "The command gets the caller's environment, and SURMISE_DOMAIN, its domain's name. \
               Surmise itself looks at these:",
        entries: &[XDG_STATE_HOME, PAGER, SURMISE_MAKER],
    },
];

const SHELL: &[Section] = &[
    DOMAIN_FILES,
    Section {
        title: "ENVIRONMENT",
        text: "The command gets the caller's environment, and SURMISE_DOMAIN, its domain's name. \
               Surmise itself looks at these:",
        entries: &[XDG_STATE_HOME, SHELL_VARIABLE],
    },
];

const SYNC: &[Section] = &[Section {
    title: "WHY FSYNCS WERE REAL",
    text: "With --stats, a line for each reason says how many fsyncs were made at once because of it. With \
               --json they are the objects of the list reasons, each with its count and these names in reason:",
    entries: &[
        (
            "mapped",
            "The process program had file, of the volume, mapped, shared and writable: its stores may become \
                 durable before what was written earlier. Files BASE-shm of SQLite, beside BASE and BASE-wal, don't \
                 count: SQLite makes them anew after a loss of power.",
        ),
        (
            "open-elsewhere",
            "The process program had file open for writing, which is not on the volume.",
        ),
        (
            "opening",
            "The process program was just mapping or opening such a file, in call.",
        ),
        (
            "connected",
            "The process program had connected to a Unix socket that somebody outside listens on. It counts \
                 until the end.",
        ),
        (
            "does-not-pay",
            "Nearly each fsync before had been waited for by somebody outside, so it is tried again later.",
        ),
        (
            "not-of-volume, not-ordered, not-syncable",
            "The fsync was of something on another file system; of a file whose changes the volume does not \
                 order, as it lacks the attribute j; or of nothing that can be synced, and the kernel says why.",
        ),
        (
            "of-map, changed-elsewhere",
            "It was an msync; or a sync, after a change of something that is not on the volume.",
        ),
        (
            "not-seen",
            "A process could not be looked at, for the reason in error.",
        ),
        ("further", "More different reasons than are told."),
    ],
}];

const COMMIT: &[Section] = &[
    Section {
        title: "EXIT STATUS",
        text: "",
        entries: &[
            ("0", "Done, and durable."),
            (
                "1",
                "Failed. What failed, what has changed and how to go on is said on standard error.",
            ),
            WRONG_USAGE,
        ],
    },
    Section {
        title: "NOTES",
        text: "A commit is not atomic for those who look on: they may see some changes before \
               others. New data lie beside their targets, as .surmise-NAME-NUMBER, while it lasts, \
               and need space there.",
        entries: &[],
    },
    DOMAIN_FILES,
    STATE_ENVIRONMENT,
];

const DECISIONS: &[Section] = &[DONE_OR_FAILED, DOMAIN_FILES, STATE_ENVIRONMENT];

const DOCTOR: &[Section] = &[
    Section {
        title: "EXIT STATUS",
        text: "",
        entries: &[
            ("0", "surmise run works here."),
            ("1", "Something that it needs is missing."),
            WRONG_USAGE,
        ],
    },
    Section {
        title: "FILES",
        text: "",
        entries: &[
            ("/dev/fuse", "The view of a domain is served through it."),
            (
                "/dev/net/tun",
                "The gate of a domain's network is made with it. Without it there is --net deny.",
            ),
            SUBORDINATE_IDS,
            PROFILE,
        ],
    },
];

const DEMO: &[Section] = &[Section {
    title: "EXIT STATUS",
    text: "",
    entries: &[
        ("0", "Every check held."),
        ("1", "A step or a check failed."),
        WRONG_USAGE,
    ],
}];

const MOUNT: &[Section] = &[
    Section {
        title: "EXIT STATUS",
        text: "As mount.surmise, the helper of mount(8): 0, 32 where this has 1, and 1 where this has 2.",
        entries: &[
            (
                "0",
                "Mounted; with --foreground: the mount has ended, and everything is in the directory at the server.",
            ),
            ("1", "Not mounted."),
            WRONG_USAGE,
        ],
    },
    Section {
        title: "FSTAB",
        text: "mount -t surmise SOURCE DIR mounts, too, as do lines of fstab(5). Options: ro, noexec, allow_other, soft=TIME, \
               cache=SIZE, memory=SIZE, certificate=FILE, key=FILE, ca=FILE, uid=USER (--owner), ssh=COMMAND, server_command=PROGRAM, and those that are for mount(8) \
               and systemd.",
        entries: &[],
    },
    Section {
        title: "FILES",
        text: "",
        entries: &[
            (
                "~/.config/surmise/client.crt, client.key, ca.crt",
                "The certificate that names the user at a server that listens by TLS, its key, and the certificates of those that \
                 sign servers' certificates. Each is looked for in /etc/surmise where it is not there.",
            ),
            (
                "~/.cache/surmise/far",
                "What was read of files, a directory for each source ($XDG_CACHE_HOME; /var/cache/surmise/far for root without a \
                 home directory of its own). It can be removed at any time.",
            ),
        ],
    },
];

const SERVE: &[Section] = &[
    Section {
        title: "EXIT STATUS",
        text: "",
        entries: &[
            (
                "0",
                "A signal asked it to stop, or no client needs it any more; with --stdio: the client or the server has ended.",
            ),
            ("1", "The directory can't be served, or not any longer."),
            WRONG_USAGE,
        ],
    },
    Section {
        title: "ENVIRONMENT",
        text: "",
        entries: &[(
            "NOTIFY_SOCKET",
            "The manager of services that is told when clients can come (sd_notify(3)).",
        )],
    },
    Section {
        title: "FILES",
        text: "",
        entries: &[(
            "surmise-serve@.service",
            "The unit of systemd for a server that listens; its instance is the user.",
        )],
    },
];

const PLAIN: &[Section] = &[DONE_OR_FAILED];

const FILES: Section = Section {
    title: "FILES",
    text: "",
    entries: &[
        (
            "$XDG_STATE_HOME/surmise/",
            "One directory a domain: how it was started, what it changed, what it holds. Made with \
             the first domain, removed with the last, and open to its user alone. It does not \
             exist inside a domain. Without XDG_STATE_HOME it is ~/.local/state/surmise/.",
        ),
        SUBORDINATE_IDS,
        PROFILE,
    ],
};

const DOMAIN_FILES: Section = Section {
    title: "FILES",
    text: "",
    entries: &[(
        "$XDG_STATE_HOME/surmise/NAME/",
        "All that is kept of domain NAME. Without XDG_STATE_HOME it is ~/.local/state/surmise/NAME/.",
    )],
};

const STATE_ENVIRONMENT: Section = Section {
    title: "ENVIRONMENT",
    text: "",
    entries: &[XDG_STATE_HOME, SURMISE_MAKER],
};

const DONE_OR_FAILED: Section = Section {
    title: "EXIT STATUS",
    text: "",
    entries: &[("0", "Done."), ("1", "Failed."), WRONG_USAGE],
};

const WRONG_USAGE: Entry = ("2", "Wrong usage.");

const SUBORDINATE_IDS: Entry = (
    "/etc/subuid, /etc/subgid",
    "The subordinate ids of ordinary users, which their domains need.",
);

const PROFILE: Entry = (
    "/etc/apparmor.d/surmise",
    "Lets /usr/bin/surmise make user namespaces where AppArmor restricts them. It comes with the \
     Debian package.",
);

const XDG_STATE_HOME: Entry = (
    "XDG_STATE_HOME",
    "The directory for state; ~/.local/state if it is not set. A commit copies data instead of \
     moving them where it is on another file system than what is committed.",
);

const SHELL_VARIABLE: Entry = (
    "SHELL",
    "What surmise shell runs if no command is given; /bin/sh if it is not set.",
);

const SURMISE_MAKER: Entry = (
    "SURMISE_MAKER",
    "A name for who makes a domain, for tools that share an account with people or with each other. \
     surmise list shows it, and surmise abort --all takes what the same maker has made.",
);

const PAGER: Entry = (
    "PAGER",
    "Shows the patch when it is asked for at the question after surmise run; less if it is not set.",
);
