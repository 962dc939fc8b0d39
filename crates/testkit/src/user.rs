//! An ordinary user to run commands as.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use crate::is_root;

/// A user of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Login name.
    pub name: String,
    /// User number.
    pub uid: u32,
    /// Number of the login group.
    pub gid: u32,
    /// Home directory, as the user database has it; it may be missing.
    pub home: PathBuf,
}

/// The user that is made where CI has none to offer.
const CI_USER: &str = "surmise-test";

/// An ordinary user, one with a number of 1000 or more and ranges of subordinate ids.
///
/// A test that runs as such a user gets that user. Root gets the first one of the user database;
/// where there is none and the variable `CI` is set, `surmise-test` is made. Otherwise the answer is
/// why there is none, to be given to [`skip`](crate::skip).
pub fn ordinary_user() -> Result<&'static User, &'static str> {
    static USER: OnceLock<Result<User, &'static str>> = OnceLock::new();
    USER.get_or_init(find).as_ref().map_err(|reason| *reason)
}

fn find() -> Result<User, &'static str> {
    if !is_root() {
        let uid = rustix::process::geteuid().as_raw();
        let own = users().into_iter().find(|user| user.uid == uid);
        return own
            .filter(has_subordinate_ids)
            .ok_or("this user has no subordinate ids in /etc/subuid and /etc/subgid");
    }
    if let Some(user) = eligible() {
        return Ok(user);
    }
    if env::var_os("CI").is_none() {
        return Err(
            "no user with a number of 1000 or more and subordinate ids; `useradd -m NAME` makes one",
        );
    }
    make();
    eligible().ok_or("`useradd` gave the new user no subordinate ids")
}

fn eligible() -> Option<User> {
    users()
        .into_iter()
        .find(|user| (1000..65_534).contains(&user.uid) && has_subordinate_ids(user))
}

fn users() -> Vec<User> {
    let text = fs::read_to_string("/etc/passwd").expect("read /etc/passwd");
    text.lines().filter_map(parse).collect()
}

fn parse(line: &str) -> Option<User> {
    let fields: Vec<_> = line.split(':').collect();
    let [name, _, uid, gid, _, home, _] = fields[..] else {
        return None;
    };
    Some(User {
        name: name.into(),
        uid: uid.parse().ok()?,
        gid: gid.parse().ok()?,
        home: home.into(),
    })
}

fn has_subordinate_ids(user: &User) -> bool {
    ["/etc/subuid", "/etc/subgid"].iter().all(|path| {
        let text = fs::read_to_string(path).unwrap_or_default();
        let uid = user.uid.to_string();
        text.lines().any(|line| {
            line.split(':')
                .next()
                .is_some_and(|owner| owner == user.name || owner == uid)
        })
    })
}

/// Two test programs may come here at once: the second `useradd` then fails, and the caller finds
/// the user that the first one made.
fn make() {
    let ranges = [
        "--add-subuids",
        "600000-665535",
        "--add-subgids",
        "600000-665535",
    ];
    let made = Command::new("useradd")
        .args(["--create-home", "--shell", "/bin/sh", CI_USER])
        .output()
        .expect("start useradd");
    let exists = users().into_iter().find(|user| user.name == CI_USER);
    assert!(
        made.status.success() || exists.is_some(),
        "useradd {CI_USER}: {}",
        String::from_utf8_lossy(&made.stderr)
    );
    // `useradd` gives ranges only where /etc/subuid and /etc/subgid exist.
    if exists.is_some_and(|user| !has_subordinate_ids(&user)) {
        let status = Command::new("usermod")
            .args(ranges)
            .arg(CI_USER)
            .status()
            .expect("start usermod");
        assert!(status.success(), "usermod {CI_USER}: {status}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_user_database_is_parsed() {
        let user = parse("ann:x:1001:1002:Ann,,,:/home/ann:/bin/sh").expect("a user");
        let wanted = User {
            name: "ann".into(),
            uid: 1001,
            gid: 1002,
            home: "/home/ann".into(),
        };
        assert_eq!(user, wanted);
        assert_eq!(parse("+::::::"), None);
    }
}
