//! The users of this machine, as the password file has them (passwd(5)).

use std::fs;
use std::path::PathBuf;

const FILE: &str = "/etc/passwd";

/// The name of a user; `None` if the file does not have it.
pub fn name_of(user: u32) -> Option<String> {
    name_in(&fs::read_to_string(FILE).ok()?, user)
}

/// The number of a user; `None` if the file does not have it.
pub fn number_of(name: &str) -> Option<u32> {
    number_in(&fs::read_to_string(FILE).ok()?, name)
}

/// The numbers of a user and of its login group, by its name or number; a number that the file does not have is its group's, too.
pub fn user_and_group_of(user: &str) -> Option<(u32, u32)> {
    user_and_group_in(&fs::read_to_string(FILE).ok()?, user)
}

/// The home directory of a user; `None` if the file does not have it.
pub fn home_of(user: u32) -> Option<PathBuf> {
    home_in(&fs::read_to_string(FILE).ok()?, user)
}

pub(crate) fn name_in(passwd: &str, user: u32) -> Option<String> {
    let mut all = entries(passwd);
    all.find(|one| one.number == user)
        .map(|one| one.name.to_owned())
}

fn number_in(passwd: &str, name: &str) -> Option<u32> {
    let mut all = entries(passwd);
    all.find(|one| one.name == name).map(|one| one.number)
}

fn user_and_group_in(passwd: &str, user: &str) -> Option<(u32, u32)> {
    let number = user.parse().ok();
    let mut all = entries(passwd);
    let found = all.find(|one| one.name == user || Some(one.number) == number);
    let found = found.map(|one| (one.number, one.group));
    found.or_else(|| Some((number?, number?)))
}

fn home_in(passwd: &str, user: u32) -> Option<PathBuf> {
    let mut all = entries(passwd);
    let home = all.find(|one| one.number == user)?.home;
    home.starts_with('/').then(|| home.into())
}

struct Entry<'p> {
    name: &'p str,
    number: u32,
    group: u32,
    home: &'p str,
}

fn entries(passwd: &str) -> impl Iterator<Item = Entry<'_>> {
    passwd.lines().filter_map(|line| {
        let fields: Vec<_> = line.split(':').collect();
        let [name, _, number, group, _, home, ..] = fields[..] else {
            return None;
        };
        Some(Entry {
            name,
            number: number.parse().ok()?,
            group: group.parse().ok()?,
            home,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_from_the_password_file() {
        let passwd = "root:x:0:0::/root:/bin/sh\n+\nann:x:1000:100::/home/ann:/bin/sh\n";
        assert_eq!(name_in(passwd, 1000).as_deref(), Some("ann"));
        assert_eq!(name_in(passwd, 1), None);
        assert_eq!(number_in(passwd, "ann"), Some(1000));
        assert_eq!(number_in(passwd, "an"), None);
        assert_eq!(user_and_group_in(passwd, "ann"), Some((1000, 100)));
        assert_eq!(user_and_group_in(passwd, "1000"), Some((1000, 100)));
        assert_eq!(user_and_group_in(passwd, "7"), Some((7, 7)));
        assert_eq!(user_and_group_in(passwd, "bob"), None);
        assert_eq!(home_in(passwd, 1000), Some("/home/ann".into()));
    }
}
