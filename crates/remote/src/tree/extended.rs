//! Extended attributes.

use surmise_lower::Timestamp;

use super::{Inverse, Refusal, Tree};
use crate::errno::Errno;
use crate::object::{Body, Name, ObjectId};

impl Tree {
    pub(super) fn set_extended(
        &mut self,
        object: ObjectId,
        name: &Name,
        value: Option<&Vec<u8>>,
        at: Timestamp,
    ) -> Result<(), Refusal> {
        let known = self.known(object)?;
        // All others mean something to the kernel of one machine (xattr(7)).
        if !name.as_bytes().starts_with(b"user.") {
            return Err(Errno::OPNOTSUPP.into());
        }
        if self.limits.extended_bytes_max == 0 {
            return Err(Errno::OPNOTSUPP.into());
        }
        if !matches!(known.body, Body::Data | Body::Names(_)) {
            return Err(Errno::PERM.into());
        }
        let others = known.extended.iter().filter(|(other, _)| *other != name);
        let others: usize = others
            .map(|(other, value)| extended_bytes(other, value))
            .sum();
        match value {
            None if !known.extended.contains_key(name) => return Err(Errno::NODATA.into()),
            Some(value) => {
                let all = others + extended_bytes(name, value);
                if all > self.limits.extended_bytes_max as usize {
                    return Err(Errno::NOSPC.into());
                }
            }
            _ => {}
        }
        self.change(object, |attributes, versions| {
            attributes.changed = at;
            versions.permissions += 1;
            versions.times += 1;
        });
        if let Some(slot) = self.objects.get_mut(&object) {
            let was = match value {
                Some(value) => slot.extended.insert(name.clone(), value.clone()),
                None => slot.extended.remove(name),
            };
            self.note(Inverse::Extended(object, name.clone(), was));
        }
        Ok(())
    }
}

/// What an extended attribute takes at most on ext4, which gives all of an inode one block.
fn extended_bytes(name: &Name, value: &[u8]) -> usize {
    const BESIDES: usize = 24;
    BESIDES + name.as_bytes().len() + value.len()
}
