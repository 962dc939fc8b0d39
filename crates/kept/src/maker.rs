//! Who made a domain: people and tools may share an account, and each wants to tell its own domains.

use std::env;
use std::fs;

use serde::{Deserialize, Serialize};
use surmise_linux::proc;

/// By this a tool tells its domains from others'.
const VARIABLE: &str = "SURMISE_MAKER";

/// What the kernel says of a process that nobody has logged in for.
const NO_LOGIN: u32 = u32::MAX;

/// Who made a domain, as far as that can be told. A note, not a proof: every user of the account can change it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Maker {
    /// What `SURMISE_MAKER` held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Who called `sudo`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sudo_user: Option<String>,
    /// The user that had logged in (`/proc/self/loginuid`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub login: Option<u32>,
    /// The name of the program that started Surmise. To be shown: one maker uses many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
}

impl Maker {
    /// Of what this process makes.
    pub fn this() -> Self {
        let named = |variable| {
            let value = env::var_os(variable)?.to_string_lossy().into_owned();
            Some(value).filter(|value| !value.is_empty())
        };
        Self {
            label: named(VARIABLE),
            sudo_user: named("SUDO_USER"),
            login: login(),
            program: parent(),
        }
    }

    /// Whether both are of one maker: of the same label, person behind `sudo` and login.
    pub fn is_same(&self, other: &Self) -> bool {
        let who = |maker: &Self| (maker.label.clone(), maker.sudo_user.clone(), maker.login);
        who(self) == who(other)
    }
}

fn login() -> Option<u32> {
    let text = fs::read_to_string("/proc/self/loginuid").ok()?;
    text.trim().parse().ok().filter(|&user| user != NO_LOGIN)
}

fn parent() -> Option<String> {
    proc::name(rustix::process::getppid()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_sudo_and_login_tell_makers_apart_and_the_program_does_not() {
        let maker = Maker {
            label: Some("ci".into()),
            sudo_user: Some("anna".into()),
            login: Some(1000),
            program: Some("make".into()),
        };
        let by_another = Maker {
            program: Some("bash".into()),
            ..maker.clone()
        };
        assert!(maker.is_same(&by_another));
        let others = [
            Maker {
                label: None,
                ..maker.clone()
            },
            Maker {
                sudo_user: Some("bert".into()),
                ..maker.clone()
            },
            Maker {
                login: None,
                ..maker.clone()
            },
        ];
        for other in others {
            assert!(!maker.is_same(&other), "{other:?}");
        }
    }

    #[test]
    fn the_program_that_started_this_one_is_named() {
        assert!(Maker::this().program.is_some_and(|name| !name.is_empty()));
    }
}
