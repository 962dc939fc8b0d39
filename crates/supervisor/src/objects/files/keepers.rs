//! Who keeps from a call what the call wants to execute or write.

use std::io;

use rustix::process::Pid;

use super::ViewFiles;
use super::look::{Reach, Share};
use crate::call::Call;
use crate::world::World;

impl ViewFiles {
    /// Of keepers and the inodes of the view that they keep, those that keep a file which the call executes or opens for writing.
    /// All in doubt.
    pub(crate) fn keepers<W: World, K: Copy>(
        &self,
        world: &W,
        process: Pid,
        call: &Call,
        kept: &[(K, u64)],
    ) -> io::Result<Vec<K>> {
        if kept.is_empty() {
            return Ok(Vec::new());
        }
        let asked;
        let wanted = match self.met(call) {
            Some(met) => met.cells.as_deref(),
            None => {
                asked = self.wanted(world, process, call)?;
                asked.as_deref()
            }
        };
        let is_wanted =
            |inode: u64| wanted.is_none_or(|wanted| wanted.iter().any(|(cell, _)| *cell == inode));
        let kept = kept.iter().filter(|(_, inode)| is_wanted(*inode));
        Ok(kept.map(|(keeper, _)| *keeper).collect())
    }

    /// The cells that a call touches that was not looked at; `None` in doubt.
    fn wanted<W: World>(
        &self,
        world: &W,
        process: Pid,
        call: &Call,
    ) -> io::Result<Option<Vec<(u64, Share)>>> {
        let (looks, elsewhere) = match world.reach(process, call)? {
            Reach::Nothing => return Ok(Some(Vec::new())),
            Reach::Everything | Reach::At { in_doubt: true, .. } => return Ok(None),
            Reach::At {
                looks, elsewhere, ..
            } => (looks, elsewhere),
        };
        let touches = self.of_mark()?.touches(&looks, &elsewhere).ok();
        let touches = touches.filter(|touches| !touches.in_doubt);
        Ok(touches.map(|touches| touches.cells))
    }
}
