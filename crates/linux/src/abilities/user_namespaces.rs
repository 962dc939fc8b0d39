//! Whether this user may make user namespaces with all rights inside, and if not, what forbids it.

use std::fs;
use std::path::Path;

use super::{Ability, Reached, Step, had, lacking};

const NAME: &str = "user namespaces";

/// Where the Debian package puts the program, and what its AppArmor profile is for.
const PACKAGED: &str = "/usr/bin/surmise";

/// The package's AppArmor profile.
const PROFILE: &str = "/etc/apparmor.d/surmise";

pub(super) fn ability(reached: &Reached) -> Ability {
    let Err((step, error)) = reached else {
        let max = setting("user/max_user_namespaces").unwrap_or_default();
        return had(NAME, format!("up to {max}"));
    };
    if *step > Step::Map {
        return had(NAME, "allowed");
    }
    let program = std::env::current_exe().unwrap_or_else(|_| PACKAGED.into());
    let obstacle = Obstacle::find(setting);
    let value = match &obstacle {
        Obstacle::Setting { key, value, .. } => format!("{error}: {key} = {value}"),
        Obstacle::AppArmor => format!("{error}: AppArmor restricts them ({APPARMOR} = 1)"),
        Obstacle::Unknown => error.to_string(),
    };
    let is_packaged = program == Path::new(PACKAGED) && Path::new(PROFILE).exists();
    lacking(NAME, value, obstacle.fix(&program, is_packaged))
}

/// A kernel setting by its path below /proc/sys.
fn setting(path: &str) -> Option<String> {
    let text = fs::read_to_string(Path::new("/proc/sys").join(path)).ok()?;
    Some(text.trim().to_owned())
}

/// What forbids user namespaces.
#[derive(Debug, PartialEq, Eq)]
enum Obstacle {
    /// A setting of the kernel, and the value that would do.
    Setting {
        key: &'static str,
        value: &'static str,
        wanted: &'static str,
    },
    /// AppArmor, which takes the rights inside from programs that no profile allows them to.
    AppArmor,
    /// A container's rules, most likely.
    Unknown,
}

const APPARMOR: &str = "kernel.apparmor_restrict_unprivileged_userns";

impl Obstacle {
    fn find(setting: impl Fn(&str) -> Option<String>) -> Self {
        let is = |key: &str, value: &str| {
            let path = key.replacen('.', "/", 1);
            setting(&path).as_deref() == Some(value)
        };
        let settings = [
            ("user.max_user_namespaces", "10000"),
            ("kernel.unprivileged_userns_clone", "1"),
        ];
        for (key, wanted) in settings {
            if is(key, "0") {
                let value = "0";
                return Self::Setting { key, value, wanted };
            }
        }
        match is(APPARMOR, "1") {
            true => Self::AppArmor,
            false => Self::Unknown,
        }
    }

    /// What to do about it. `is_packaged` says whether `program` is the one that the package's profile
    /// is for, and the profile is there.
    fn fix(&self, program: &Path, is_packaged: bool) -> String {
        let set = |key: &str, value: &str| {
            format!("sysctl -w {key}={value} (to keep it: a line in /etc/sysctl.d/)")
        };
        match self {
            Self::Setting { key, wanted, .. } => format!("as root: {}", set(key, wanted)),
            Self::AppArmor if is_packaged => {
                format!("as root, load the profile: apparmor_parser --replace {PROFILE}")
            }
            Self::AppArmor => match profile_command(program) {
                Some(command) => format!(
                    "install the Debian package, whose AppArmor profile allows {PACKAGED} to make \
                     them; or as root, for {}:\n    {command}",
                    program.display()
                ),
                None => format!("as root: {}", set(APPARMOR, "0")),
            },
            Self::Unknown => "in a container: allow clone and mount in its seccomp and AppArmor \
                              profiles (docker: --privileged)"
                .into(),
        }
    }
}

/// The command that makes and loads a profile for `program`; none if its path has characters that mean
/// something to AppArmor or to a shell.
fn profile_command(program: &Path) -> Option<String> {
    let path = program.to_str()?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._+-".contains(c);
    let file = "/etc/apparmor.d/surmise-here";
    path.chars().all(is_plain).then(|| {
        format!(
            "echo 'abi <abi/4.0>, profile surmise-here {path} flags=(unconfined) {{ userns, }}' \
             >{file} && apparmor_parser --replace {file}"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `/proc/sys` of a machine on which these are set.
    fn machine<'a>(set: &'a [(&str, &str)]) -> impl Fn(&str) -> Option<String> + 'a {
        |path| {
            let found = set.iter().find(|(own, _)| *own == path)?;
            Some(found.1.to_owned())
        }
    }

    #[test]
    fn ubuntus_restriction_is_named_and_the_fix_is_a_profile_for_this_program() {
        let ubuntu = machine(&[
            ("user/max_user_namespaces", "63000"),
            ("kernel/unprivileged_userns_clone", "1"),
            ("kernel/apparmor_restrict_unprivileged_userns", "1"),
        ]);
        let obstacle = Obstacle::find(ubuntu);
        assert_eq!(obstacle, Obstacle::AppArmor);
        let built = Path::new("/home/me/surmise/target/release/surmise");
        let fix = obstacle.fix(built, false);
        assert!(fix.contains("profile surmise-here /home/me/surmise/target/release/surmise flags"));
        assert!(fix.contains("apparmor_parser --replace /etc/apparmor.d/surmise-here"));
        let fix = obstacle.fix(Path::new(PACKAGED), true);
        assert!(fix.ends_with("apparmor_parser --replace /etc/apparmor.d/surmise"));
        let fix = obstacle.fix(Path::new("/home/it's mine/surmise"), false);
        assert!(fix.contains("apparmor_restrict_unprivileged_userns=0"));
    }

    #[test]
    fn a_setting_that_forbids_them_comes_before_apparmor() {
        let debian = machine(&[
            ("kernel/unprivileged_userns_clone", "0"),
            ("kernel/apparmor_restrict_unprivileged_userns", "1"),
        ]);
        let fix = Obstacle::find(debian).fix(Path::new(PACKAGED), true);
        assert!(fix.contains("sysctl -w kernel.unprivileged_userns_clone=1"));
        let none = machine(&[("user/max_user_namespaces", "0")]);
        let fix = Obstacle::find(none).fix(Path::new(PACKAGED), false);
        assert!(fix.contains("sysctl -w user.max_user_namespaces=10000"));
    }

    #[test]
    fn without_a_setting_it_is_a_container() {
        let obstacle = Obstacle::find(machine(&[("user/max_user_namespaces", "63000")]));
        assert_eq!(obstacle, Obstacle::Unknown);
        assert!(obstacle.fix(Path::new(PACKAGED), true).contains("docker"));
    }
}
