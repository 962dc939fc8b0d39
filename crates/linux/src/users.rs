//! The users of this machine, as the password file has them (passwd(5)).

use std::fs;

const FILE: &str = "/etc/passwd";

/// The name of a user; `None` if the file does not have it.
pub fn name_of(user: u32) -> Option<String> {
    name_in(&fs::read_to_string(FILE).ok()?, user)
}

/// The number of a user; `None` if the file does not have it.
pub fn number_of(name: &str) -> Option<u32> {
    number_in(&fs::read_to_string(FILE).ok()?, name)
}

pub(crate) fn name_in(passwd: &str, user: u32) -> Option<String> {
    let mut all = entries(passwd);
    let (name, _) = all.find(|(_, number)| *number == user)?;
    Some(name.to_owned())
}

fn number_in(passwd: &str, name: &str) -> Option<u32> {
    let mut all = entries(passwd);
    all.find(|(of, _)| *of == name).map(|(_, number)| number)
}

fn entries(passwd: &str) -> impl Iterator<Item = (&str, u32)> {
    passwd.lines().filter_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        Some((name, fields.nth(1)?.parse().ok()?))
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
    }
}
