//! Who keeps from a call what the call wants to execute or write.

use std::io;

use rustix::process::Pid;

use super::ViewFiles;
use super::look::{Look, Manner, Reach, Share, Target};
use crate::call::Call;
use crate::world::World;

impl ViewFiles {
    /// Of keepers and files that they keep, those that keep a file which the call executes or opens for writing. All in doubt.
    pub(crate) fn keepers<W: World, K: Copy>(
        &self,
        world: &W,
        process: Pid,
        call: &Call,
        kept: &[(K, Target)],
    ) -> io::Result<Vec<K>> {
        let all = || kept.iter().map(|(keeper, _)| *keeper).collect();
        if kept.is_empty() {
            return Ok(Vec::new());
        }
        let (looks, elsewhere) = match world.reach(process, call)? {
            Reach::Nothing => return Ok(Vec::new()),
            Reach::Everything | Reach::At { in_doubt: true, .. } => return Ok(all()),
            Reach::At {
                looks, elsewhere, ..
            } => (looks, elsewhere),
        };
        let log = self.of_mark()?;
        let cells = |looks: &[Look]| {
            let touches = log.touches(looks, &elsewhere).ok()?;
            (!touches.in_doubt).then_some(touches.cells)
        };
        let Some(wanted) = cells(&looks) else {
            return Ok(all());
        };
        let wants = |number: u64| wanted.iter().any(|(cell, _)| *cell == number);
        let mut known: Vec<(&Target, bool)> = Vec::new();
        let mut keepers = Vec::new();
        for (keeper, target) in kept {
            let found = known.iter().find(|(known, _)| *known == target);
            let is_wanted = match (found, target) {
                (Some((_, is_wanted)), _) => *is_wanted,
                (None, Target::Inode(number)) => wants(*number),
                (None, Target::Path { .. }) => {
                    // Of the cells on the way to it that is the last, and the only one of this share.
                    let manner = Manner::Changes;
                    let target = target.clone();
                    let cells = cells(&[Look { target, manner }]);
                    let is_last = |share: &Share| *share == Share::Changes;
                    cells.is_none_or(|cells| {
                        let mut last = cells.iter().filter(|(_, share)| is_last(share));
                        last.any(|(cell, _)| wants(*cell))
                    })
                }
            };
            known.push((target, is_wanted));
            if is_wanted {
                keepers.push(*keeper);
            }
        }
        Ok(keepers)
    }
}
