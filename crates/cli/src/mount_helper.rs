//! `mount.surmise`: what mount(8) calls for file systems of the type `surmise`, as in fstab(5).
//!
//! It is this program under another name. It translates what mount(8) says, and runs `surmise mount`.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use surmise_linux::users::home_of;

use crate::failure::Failure;

/// The names by which mount(8) calls it: for the types `surmise` and `fuse.surmise`.
const NAMES: [&str; 2] = ["mount.surmise", "mount.fuse.surmise"];

/// Exit status as of mount(8).
const USAGE: u8 = 1;
const FAILED: u8 = 32;

/// What `surmise mount` exits with after wrong usage.
const WRONG_USAGE: i32 = 2;

/// Options that mount(8) and systemd deal with, and those that say how it is in any case.
const WITHOUT_EFFECT: &[&str] = &[
    "async",
    "atime",
    "auto",
    "defaults",
    "diratime",
    "exec",
    "group",
    "noatime",
    "noauto",
    "nodev",
    "nodiratime",
    "nofail",
    "nogroup",
    "noowner",
    "norelatime",
    "nostrictatime",
    "nosuid",
    "nouser",
    "nousers",
    "owner",
    "relatime",
    "rw",
    "strictatime",
    "_netdev",
];

/// Options that let ordinary users mount; no program is executed from such a mount unless `exec` follows (mount(8)).
const OF_USERS: [&str; 2] = ["user", "users"];

/// Options without a value, and those of `surmise mount`.
const FLAGS: &[(&str, &str)] = &[
    ("allow_other", "--allow-other"),
    ("noexec", "--no-exec"),
    ("ro", "--read-only"),
];

/// Options with a value, likewise.
const VALUES: &[(&str, &str)] = &[
    ("ca", "--ca"),
    ("cache", "--cache"),
    ("memory", "--memory"),
    ("certificate", "--certificate"),
    ("key", "--key"),
    ("server_command", "--server-command"),
    ("soft", "--soft"),
    ("ssh", "--ssh"),
    ("uid", "--owner"),
];

/// Mounts, if this process was started by one of the names.
pub fn run_if_called() -> Option<ExitCode> {
    let mut words = env::args_os();
    let called = words.next()?;
    let name = Path::new(&called).file_name()?.to_str()?;
    if !NAMES.contains(&name) {
        return None;
    }
    Some(match translate(words) {
        Ok(Some(words)) => mount(&words),
        Ok(None) => ExitCode::SUCCESS,
        Err(why) => Failure::usage(why)
            .hint(format_args!(
                "{name} SOURCE DIR [-o OPTIONS], as mount(8) calls it"
            ))
            .show(USAGE, None),
    })
}

fn mount(words: &[OsString]) -> ExitCode {
    let program = env::current_exe().unwrap_or_else(|_| "surmise".into());
    let mut command = Command::new(program);
    command.arg0("surmise").args(words).envs(environment());
    match command.status() {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(status) if status.code() == Some(WRONG_USAGE) => USAGE.into(),
        // It has said why.
        Ok(_) => FAILED.into(),
        Err(error) => Failure::new(format_args!("start surmise: {error}")).show(FAILED, None),
    }
}

/// What mount(8) has taken out of the environment, as a login would have it: by this the mount is found by `surmise mounts`, and
/// the certificates by the mount.
fn environment() -> Vec<(&'static str, PathBuf)> {
    let user = rustix::process::getuid().as_raw();
    let runtime = Path::new("/run/user").join(user.to_string());
    let missing = [
        ("HOME", home_of(user)),
        ("XDG_RUNTIME_DIR", runtime.is_dir().then_some(runtime)),
    ];
    let missing = missing
        .into_iter()
        .filter(|(name, _)| env::var_os(name).is_none());
    missing
        .filter_map(|(name, path)| Some((name, path?)))
        .collect()
}

/// The arguments of `surmise` that do what these ask for; `None` if nothing is to be done.
fn translate(words: impl Iterator<Item = OsString>) -> Result<Option<Vec<OsString>>, String> {
    let mut places = Vec::new();
    let mut options = Vec::new();
    let (mut is_fake, mut is_sloppy) = (false, false);
    let mut words = words.peekable();
    while let Some(word) = words.next() {
        match word.to_str() {
            Some("-o") => options.extend(split(&words.next().unwrap_or_default())?),
            // The type, which is known.
            Some("-t") => drop(words.next()),
            Some("-r") => options.push("ro".into()),
            Some("-N") => return Err("-N: another namespace is entered by nsenter(1)".into()),
            Some(flags) if is_flags(flags) => {
                is_fake |= flags.contains('f');
                is_sloppy |= flags.contains('s');
            }
            Some(flag) if flag.starts_with('-') => return Err(format!("{flag} is not known")),
            _ => places.push(word),
        }
    }
    let [source, directory] = &places[..] else {
        return Err("a source and a directory are expected".into());
    };
    let mut all: Vec<OsString> = vec!["mount".into()];
    all.extend(arguments(&options, is_sloppy)?);
    all.extend(["--".into(), source.clone(), directory.clone()]);
    Ok((!is_fake).then_some(all))
}

/// Whether it is some of the letters that mount(8) passes on and that need no value: fake, no mtab, sloppy, verbose, read-write.
fn is_flags(word: &str) -> bool {
    let letters = word.strip_prefix('-').unwrap_or_default();
    !letters.is_empty() && letters.chars().all(|letter| "fnsvw".contains(letter))
}

/// Options stand between commas; a backslash makes a comma part of a value.
fn split(options: &OsStr) -> Result<Vec<String>, String> {
    let options = options.to_str().ok_or("options are to be UTF-8")?;
    let mut all = vec![String::new()];
    let mut letters = options.chars().peekable();
    while let Some(letter) = letters.next() {
        let last = all.last_mut().expect("there is one at least");
        match letter {
            '\\' if letters.peek() == Some(&',') => last.extend(letters.next()),
            ',' => all.push(String::new()),
            letter => last.push(letter),
        }
    }
    all.retain(|option| !option.is_empty());
    Ok(all)
}

fn arguments(options: &[String], is_sloppy: bool) -> Result<Vec<OsString>, String> {
    let mut all = Vec::new();
    let mut no_exec = false;
    for option in options {
        let (name, value) = match option.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (&option[..], None),
        };
        let flag = FLAGS.iter().find(|(known, _)| *known == name);
        let valued = VALUES.iter().find(|(known, _)| *known == name);
        match (flag, valued, value) {
            _ if OF_USERS.contains(&name) => no_exec = true,
            _ if name == "exec" => no_exec = false,
            (Some((_, flag)), _, None) => all.push(flag.into()),
            (_, Some((_, flag)), Some(value)) => {
                all.push(format!("{flag}={value}").into());
            }
            (_, Some(_), None) => return Err(format!("the option {name} needs a value: {name}=…")),
            (None, None, None) if WITHOUT_EFFECT.contains(&name) => {}
            // Of mount(8), for others.
            (None, None, _) if name.starts_with("x-") || name == "comment" => {}
            _ if is_sloppy => {}
            _ => return Err(format!("the option {option} is not known")),
        }
    }
    if no_exec && !all.iter().any(|word| word == "--no-exec") {
        all.push("--no-exec".into());
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    fn translated(line: &str) -> Result<Option<String>, String> {
        let words = line.split(' ').map(OsString::from);
        let words = translate(words)?;
        Ok(words.map(|words| {
            let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
            words.join(" ")
        }))
    }

    #[test]
    fn what_mount_says_becomes_what_surmise_mount_takes() {
        for (line, expected) in [
            ("h:d /m", "mount -- h:d /m"),
            (
                "h:d /m -o rw,_netdev,noatime,x-systemd.automount",
                "mount -- h:d /m",
            ),
            (
                "h:d /m -n -v -o ro -t surmise",
                "mount --read-only -- h:d /m",
            ),
            ("-r h:d /m", "mount --read-only -- h:d /m"),
            (
                "surmise://h/d /m -o soft=30s,cache=1G,allow_other",
                "mount --soft=30s --cache=1G --allow-other -- surmise://h/d /m",
            ),
            (
                "h:d /m -o certificate=/c,key=/k,ca=/a\\,b",
                "mount --certificate=/c --key=/k --ca=/a,b -- h:d /m",
            ),
            ("h:d /m -o uid=ann", "mount --owner=ann -- h:d /m"),
            ("h:d /m -o user", "mount --no-exec -- h:d /m"),
            ("h:d /m -o users,exec", "mount -- h:d /m"),
            ("h:d /m -o users,noexec", "mount --no-exec -- h:d /m"),
            ("h:d /m -s -o whatever", "mount -- h:d /m"),
        ] {
            assert_eq!(translated(line), Ok(Some(expected.to_owned())), "{line}");
        }
        assert_eq!(translated("h:d /m -f -o ro"), Ok(None));
        for (line, named) in [
            ("h:d", "a source and a directory"),
            ("h:d /m /n", "a source and a directory"),
            ("h:d /m -o suid", "suid"),
            ("h:d /m -o gid=7", "gid=7"),
            ("h:d /m -o ro=1", "ro=1"),
            ("h:d /m -o soft", "soft="),
            ("h:d /m -N /proc/1/ns/mnt", "nsenter"),
            ("h:d /m --background", "--background"),
        ] {
            let why = translated(line).expect_err(line);
            assert!(why.contains(named), "{line}: {why}");
        }
    }

    #[test]
    fn each_option_is_one_of_surmise_mount() {
        for (name, argument) in FLAGS {
            let words = ["surmise", "mount", argument, "--", "h:d", "/m"];
            crate::Arguments::try_parse_from(words)
                .unwrap_or_else(|error| panic!("{name}: {error}"));
        }
        let values = VALUES.iter().map(|(name, argument)| {
            let value = if *name == "soft" { "30s" } else { "1" };
            format!("{argument}={value}")
        });
        let words: Vec<_> = ["surmise", "mount", "h:d", "/m"]
            .map(ToOwned::to_owned)
            .into_iter()
            .chain(values)
            .collect();
        crate::Arguments::try_parse_from(words).unwrap_or_else(|error| panic!("{error}"));
    }
}
