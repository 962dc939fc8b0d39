//! Whose files are shown as whose.
//!
//! A server that runs as an ordinary user makes all new files that user's. There the user of the server and the one that
//! mounted, or another one that root has named, are taken for the same person: what belongs to the one shows as the other's. A server that may do everything
//! keeps all numbers as they are.

use surmise_remote::tree::User;

/// The user and group that nobody has (`/proc/sys/fs/overflowuid`).
const NOBODY: u32 = 65_534;

/// How numbers at the server become numbers here, and the other way round.
#[derive(Debug, Clone)]
pub struct Owners {
    server: Option<User>,
    user: u32,
    group: u32,
}

impl Owners {
    /// For this user of the server, and the user and group that are the same person here.
    pub fn new(server: Option<User>, user: u32, group: u32) -> Self {
        Self {
            server,
            user,
            group,
        }
    }

    /// As whose an object shows here.
    pub fn shown(&self, owner: u32, group: u32) -> (u32, u32) {
        let Some(server) = &self.server else {
            return (owner, group);
        };
        let first = server.groups.first().copied();
        (
            swapped(owner, Some(server.id), self.user),
            swapped(group, first, self.group),
        )
    }

    /// Which user of the server is meant by one of this machine.
    pub fn owner_meant(&self, owner: u32) -> u32 {
        match &self.server {
            Some(server) if owner == self.user => server.id,
            _ => owner,
        }
    }

    /// Likewise of groups.
    pub fn group_meant(&self, group: u32) -> u32 {
        let first = self
            .server
            .as_ref()
            .and_then(|server| server.groups.first());
        match first {
            Some(first) if group == self.group => *first,
            _ => group,
        }
    }

    /// To whom at the server a new object belongs that this caller makes.
    pub fn of_new(&self, user: u32, group: u32) -> (u32, u32) {
        match &self.server {
            Some(server) => (server.id, server.groups.first().copied().unwrap_or(NOBODY)),
            None => (user, group),
        }
    }
}

/// The number of somebody at the server: the same one's here, and nobody's where another one has that number here.
fn swapped(number: u32, same: Option<u32>, here: u32) -> u32 {
    match number {
        number if Some(number) == same => here,
        number if number == here => NOBODY,
        number => number,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_user_shows_as_the_one_that_mounted() {
        let server = User {
            id: 500,
            groups: vec![600, 601],
        };
        let owners = Owners::new(Some(server), 1000, 1001);
        assert_eq!(owners.shown(500, 600), (1000, 1001));
        assert_eq!(owners.shown(0, 601), (0, 601));
        // Another person, who has the same number at the server as this user has here.
        assert_eq!(owners.shown(1000, 1001), (NOBODY, NOBODY));
        assert_eq!(
            (owners.owner_meant(1000), owners.group_meant(1001)),
            (500, 600)
        );
        assert_eq!((owners.owner_meant(0), owners.group_meant(601)), (0, 601));
        assert_eq!(owners.of_new(0, 0), (500, 600));
    }

    #[test]
    fn a_server_that_may_do_everything_keeps_the_numbers() {
        let owners = Owners::new(None, 1000, 1000);
        assert_eq!(owners.shown(1000, 0), (1000, 0));
        assert_eq!((owners.owner_meant(1000), owners.group_meant(7)), (1000, 7));
        assert_eq!(owners.of_new(33, 34), (33, 34));
    }
}
