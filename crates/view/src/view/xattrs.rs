//! Extended attributes: the real ones with the domain's changes laid over.

use std::ffi::{OsStr, OsString};
use std::io;

use rustix::fs::XattrFlags;
use rustix::io::Errno;

use super::core::{Core, now};
use super::facts::{About, Facts, Step, Stop, outcome};
use super::{View, fail};
use crate::record::Record;
use crate::types::NodeId;

/// File capabilities, which a change of data takes away (capabilities(7)).
const CAPABILITY: &str = "security.capability";

/// What names of attributes begin with (xattr(7)).
const NAMESPACES: [&str; 4] = ["user.", "trusted.", "security.", "system."];

impl View {
    /// The value of an attribute.
    pub fn xattr(&self, node: NodeId, name: &OsStr) -> io::Result<Vec<u8>> {
        check_name(name)?;
        self.decide(|core, facts| core.xattr(facts, node, name))
    }

    /// The names of all attributes.
    pub fn xattr_names(&self, node: NodeId) -> io::Result<Vec<OsString>> {
        self.decide(|core, facts| core.xattr_names(facts, node))
    }

    /// Sets an attribute; `flags` as in setxattr(2).
    pub fn set_xattr(
        &self,
        node: NodeId,
        name: &OsStr,
        value: &[u8],
        flags: u32,
    ) -> io::Result<()> {
        let flags = XattrFlags::from_bits(flags).ok_or(Errno::INVAL)?;
        check_name(name)?;
        self.decide(|core, facts| {
            let exists = match core.xattr(facts, node, name) {
                Ok(_) => true,
                Err(Stop::Failed(error)) if is_errno(&error, Errno::NODATA) => false,
                Err(stop) => return Err(stop),
            };
            core.check_taken(facts, node, name)?;
            if exists && flags.contains(XattrFlags::CREATE) {
                return fail(Errno::EXIST);
            }
            if !exists && flags.contains(XattrFlags::REPLACE) {
                return fail(Errno::NODATA);
            }
            core.change_xattr(facts, node, name, Some(value.to_vec()))
        })
    }

    /// Removes an attribute.
    pub fn remove_xattr(&self, node: NodeId, name: &OsStr) -> io::Result<()> {
        check_name(name)?;
        self.decide(|core, facts| {
            core.xattr(facts, node, name)?;
            core.change_xattr(facts, node, name, None)
        })
    }
}

impl Core {
    /// Adds the record that takes file capabilities away, where there are any.
    pub(super) fn drop_capability(
        &mut self,
        facts: &Facts,
        id: NodeId,
        records: &mut Vec<Record>,
    ) -> Step<()> {
        let name = OsStr::new(CAPABILITY);
        match outcome(self.xattr(facts, id, name))? {
            Ok(_) => records.push(Record::Xattr {
                node: id,
                name: name.to_owned(),
                value: None,
            }),
            Err(error) if is_absent(&error) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// An attribute that the real file system does not take must not wait for the commit to fail.
    fn check_taken(&mut self, facts: &Facts, id: NodeId, name: &OsStr) -> Step<()> {
        let directory = self.nearest_directory(facts, id)?;
        let itself = OsStr::new("");
        match outcome(facts.xattr(About::Nearest(id), &directory, itself, name))? {
            Err(error) if is_errno(&error, Errno::OPNOTSUPP) => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Takes away file capabilities that the domain set.
    pub(super) fn drop_set_capability(&mut self, facts: &Facts, id: NodeId) -> Step<()> {
        let name = OsStr::new(CAPABILITY);
        let node = self.map.node(id);
        let value = node.and_then(|node| node.xattrs.get(name));
        if value.is_some_and(Option::is_some) {
            self.change_xattr(facts, id, name, None)?;
        }
        Ok(())
    }

    pub(super) fn xattr_names(&mut self, facts: &Facts, id: NodeId) -> Step<Vec<OsString>> {
        let mut names = self.lower_xattr_names(facts, id)?;
        let Some(changed) = self.map.node(id).map(|node| &node.xattrs) else {
            return Ok(names);
        };
        names.retain(|name| !changed.contains_key(name));
        let set = changed.iter().filter(|(_, value)| value.is_some());
        names.extend(set.map(|(name, _)| name.to_owned()));
        Ok(names)
    }

    pub(super) fn xattr(&mut self, facts: &Facts, id: NodeId, name: &OsStr) -> Step<Vec<u8>> {
        if let Some(node) = self.map.node(id) {
            match node.xattrs.get(name) {
                Some(Some(value)) => return Ok(value.to_vec()),
                Some(None) => return fail(Errno::NODATA),
                None if node.origin.is_none() => return fail(Errno::NODATA),
                None => {}
            }
        }
        let (directory, file) = self.lower_place(facts, id)?;
        facts.xattr(About::Node(id), &directory, &file, name)
    }

    fn lower_xattr_names(&mut self, facts: &Facts, id: NodeId) -> Step<Vec<OsString>> {
        if self.map.node(id).is_some_and(|node| node.origin.is_none()) {
            return Ok(Vec::new());
        }
        let (directory, file) = self.lower_place(facts, id)?;
        facts.xattr_names(id, &directory, &file)
    }

    fn change_xattr(
        &mut self,
        facts: &Facts,
        id: NodeId,
        name: &OsStr,
        value: Option<Vec<u8>>,
    ) -> Step<()> {
        let mut records = Vec::new();
        self.adopt(facts, id, &mut records)?;
        records.push(Record::Xattr {
            node: id,
            name: name.to_owned(),
            value,
        });
        Ok(self.perform(records, now())?)
    }
}

/// A namespace of attributes alone is no name.
fn check_name(name: &OsStr) -> io::Result<()> {
    if NAMESPACES.iter().any(|namespace| name == *namespace) {
        return fail(Errno::INVAL);
    }
    Ok(())
}

fn is_absent(error: &io::Error) -> bool {
    // A file system without extended attributes has none of them.
    is_errno(error, Errno::NODATA) || is_errno(error, Errno::OPNOTSUPP)
}

fn is_errno(error: &io::Error, errno: Errno) -> bool {
    error.raw_os_error() == Some(errno.raw_os_error())
}
