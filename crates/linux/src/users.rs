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

fn home_in(passwd: &str, user: u32) -> Option<PathBuf> {
    let mut all = entries(passwd);
    let home = all.find(|one| one.number == user)?.home;
    home.starts_with('/').then(|| home.into())
}

struct Entry<'p> {
    name: &'p str,
    number: u32,
    home: &'p str,
}

fn entries(passwd: &str) -> impl Iterator<Item = Entry<'_>> {
    passwd.lines().filter_map(|line| {
        let fields: Vec<_> = line.split(':').collect();
        let [name, _, number, _, _, home, ..] = fields[..] else {
            return None;
        };
        let number = number.parse().ok()?;
        Some(Entry { name, number, home })
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
        assert_eq!(home_in(passwd, 1000), Some("/home/ann".into()));
    }
}
