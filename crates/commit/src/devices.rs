//! Device numbers, which may be others after a power loss.
//!
//! A journal names inodes by device and inode number. Inode numbers are on the disk; device numbers are
//! given out as disks are found and file systems mounted, so the next start of the machine may give
//! others (to btrfs, to disks that are found in another order, to loop devices). Taken literally, such a
//! journal speaks of nothing that is there: a commit that is resumed would leave everything where it is,
//! and say that it has finished.
//!
//! So a journal is brought up to date before anything relies on it, and so is a domain's map. Where none
//! of a device's directories is what it must be, one of them is looked for by its names and inode number
//! alone, and tells the device's number of today. That is believed when all directories that the plan
//! leaves in their places are then found as well. Else the file system is not mounted, or it is another
//! one, and nothing is done.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use surmise_changes::real::{is_absent, look_at, statx};
use surmise_view::{Attributes, FileKind, InodeKey, Map, Node, NodeId};

use crate::error::CommitError;
use crate::journal::Contents;
use crate::locate::Site;
use crate::plan::{Expected, Item, Plan, ROOT};

/// The devices whose numbers have changed: what they were, and what they are.
pub(crate) type Renumbered = HashMap<u64, u64>;

/// What a domain that has ended changed, with the device numbers of today.
pub(crate) struct Today {
    pub(crate) map: Map,
    pub(crate) renumbered: Renumbered,
}

/// Makes all that the journal says of inodes true of the devices of today.
///
/// # Errors
/// `Elsewhere` when a file system of the plan is not where it was.
pub(crate) fn renumber(contents: &mut Contents) -> Result<(), CommitError> {
    let renumbered = renumbered(&contents.plan, &contents.root)?;
    apply(&renumbered, &mut contents.plan);
    for staged in &mut contents.staged {
        update(&renumbered, &mut staged.key);
    }
    Ok(())
}

/// `None` where the numbers are what they were. A file system that is not where it was is for the conflict
/// check to tell. `plan` is asked for only where numbers differ.
pub(crate) fn today(
    map: &Map,
    root: &Path,
    plan: impl FnOnce() -> Result<Plan, CommitError>,
) -> Result<Option<Today>, CommitError> {
    let mut tops = map.nodes().filter(|(id, node)| is_top(map, *id, node));
    if tops.all(|(id, node)| is_as_it_was(map, root, id, node)) {
        return Ok(None);
    }
    let renumbered = renumbered(&plan()?, root).unwrap_or_default();
    Ok((!renumbered.is_empty()).then(|| Today {
        map: map.renumbered(&renumbered),
        renumbered,
    }))
}

/// Whether a node is what is mounted somewhere, or the root of all.
fn is_top(map: &Map, id: NodeId, node: &Node) -> bool {
    let parent = node.origin.as_ref().map(|origin| origin.parent);
    parent.is_some_and(|parent| {
        id == NodeId::ROOT
            || map
                .node(parent)
                .is_some_and(|parent| parent.device != node.device)
    })
}

/// Whether the inode is still there, under its number.
fn is_as_it_was(map: &Map, root: &Path, id: NodeId, node: &Node) -> bool {
    let mut names = Vec::new();
    let (mut at, mut next) = (id, Some(node));
    while let (false, Some(origin)) = (
        at == NodeId::ROOT,
        next.and_then(|node| node.origin.as_ref()),
    ) {
        names.push(&*origin.name);
        at = origin.parent;
        next = map.node(at);
    }
    let mut path = root.to_owned();
    path.extend(names.into_iter().rev());
    let wanted = node.origin.as_ref().map(|origin| origin.identity.key());
    let found = std::fs::symlink_metadata(path).ok();
    let found = found.map(|found| InodeKey {
        device: found.dev(),
        inode: found.ino(),
    });
    found == wanted
}

fn renumbered(plan: &Plan, root: &Path) -> Result<Renumbered, CommitError> {
    let failed = |error: io::Error| CommitError::apply(root.to_owned(), error);
    let mut unknown = by_device(plan);
    let mut renumbered = Renumbered::new();
    let mut known = plan.clone();
    // What is mounted in a directory is found when that directory is.
    loop {
        let site = Site::new(&known, root).map_err(failed)?;
        unknown.retain(|_, directories| !directories.iter().any(|index| is_there(&site, *index)));
        let next = unknown.iter().find_map(|(device, directories)| {
            let mut numbers = directories.iter().filter_map(|index| number(&site, *index));
            Some((*device, numbers.next()?))
        });
        let Some((device, now)) = next else {
            break;
        };
        drop(site);
        renumbered.insert(device, now);
        known = plan.clone();
        apply(&renumbered, &mut known);
        let site = Site::new(&known, root).map_err(failed)?;
        let directories = unknown.remove(&device).unwrap_or_default();
        let stay = stay(plan);
        let missing = |index: &&usize| stay.contains(index) && is_missing(&site, **index);
        if let Some(missing) = directories.iter().find(missing) {
            return Err(elsewhere(&site, *missing));
        }
    }
    let site = Site::new(&known, root).map_err(failed)?;
    match unknown.into_values().flatten().next() {
        None => Ok(renumbered),
        Some(directory) => Err(elsewhere(&site, directory)),
    }
}

/// The directories of the plan that exist, by the device that they were on.
fn by_device(plan: &Plan) -> BTreeMap<u64, Vec<usize>> {
    let mut devices: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for (index, directory) in plan.directories.iter().enumerate() {
        if let (Some(key), None) = (directory.key, directory.staging) {
            devices.entry(key.device).or_default().push(index);
        }
    }
    devices
}

/// Directories that the plan neither moves nor removes.
fn stay(plan: &Plan) -> HashSet<usize> {
    let removed = plan.removals.iter().map(|removal| removal.expected.key());
    let aside = plan.asides.iter().map(|aside| aside.expected.key());
    let going: HashSet<InodeKey> = removed.chain(aside).collect();
    let directories = plan.directories.iter().enumerate();
    let stay = directories.filter(|(_, directory)| {
        directory.places.len() <= 1 && directory.key.is_some_and(|key| !going.contains(&key))
    });
    stay.map(|(index, _)| index).collect()
}

/// Whether a directory is the inode that it must be. [`Site`] does not ask that of the root.
fn is_there(site: &Site<'_>, directory: usize) -> bool {
    match directory {
        ROOT => root_key(site).is_some_and(|key| site.plan().directories[ROOT].key == Some(key)),
        _ => site.open(directory).is_ok(),
    }
}

/// Whether it is certain that a directory is not there.
fn is_missing(site: &Site<'_>, directory: usize) -> bool {
    match directory {
        ROOT => !is_there(site, ROOT),
        _ => site.open(directory).is_err_and(|error| is_absent(&error)),
    }
}

/// The number of the device that a directory is on, by its names and inode number.
fn number(site: &Site<'_>, directory: usize) -> Option<u64> {
    let wanted = &site.plan().directories[directory];
    let inode = wanted.key?.inode;
    let found = |key: InodeKey| (key.inode == inode).then_some(key.device);
    if directory == ROOT {
        return found(root_key(site)?);
    }
    wanted.places.iter().find_map(|place| {
        let parent = site.open(place.directory).ok()?;
        let identity = look_at(parent.as_fd(), &place.name).ok()??.identity;
        let is_directory = identity.kind == FileKind::Directory;
        is_directory.then(|| found(identity.key())).flatten()
    })
}

fn root_key(site: &Site<'_>) -> Option<InodeKey> {
    let root = site.open(ROOT).ok()?;
    let found = Attributes::of_statx(&statx(root.as_fd(), "").ok()?)?;
    Some(found.identity.key())
}

fn elsewhere(site: &Site<'_>, directory: usize) -> CommitError {
    let place = site.plan().directories[directory].places.last();
    CommitError::Elsewhere(
        place.map_or_else(|| site.root_path().to_owned(), |place| site.path(place)),
    )
}

fn apply(renumbered: &Renumbered, plan: &mut Plan) {
    if renumbered.is_empty() {
        return;
    }
    let update = |key: &mut InodeKey| update(renumbered, key);
    let expect = |expected: &mut Expected| match expected {
        Expected::Inode(key) => update(key),
        Expected::State(state) => {
            state.device = number_of_today(renumbered, state.device);
        }
    };
    let directories = plan.directories.iter_mut();
    directories
        .filter_map(|directory| directory.key.as_mut())
        .for_each(update);
    plan.links.iter_mut().for_each(|link| update(&mut link.key));
    plan.edits.iter_mut().for_each(|edit| update(&mut edit.key));
    plan.asides
        .iter_mut()
        .for_each(|aside| expect(&mut aside.expected));
    plan.removals
        .iter_mut()
        .for_each(|removal| expect(&mut removal.expected));
    for placement in &mut plan.placements {
        if let Item::Real(key) = &mut placement.item {
            update(key);
        }
        placement.displaces.iter_mut().for_each(expect);
    }
}

pub(crate) fn number_of_today(renumbered: &Renumbered, device: u64) -> u64 {
    renumbered.get(&device).copied().unwrap_or(device)
}

fn update(renumbered: &Renumbered, key: &mut InodeKey) {
    key.device = number_of_today(renumbered, key.device);
}
