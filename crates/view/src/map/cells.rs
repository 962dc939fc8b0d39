//! Cells: what of the map changes while it is undecided whether the change stays.
//!
//! A cell is a node, or a name in a directory. Each has a stack of layers, and each layer is what one mark has
//! changed of the cell: enough to take the change back. The lowest layer lies on what is decided.
//!
//! A layer of a node is *alone*, or together with others. Alone is a change that must be undone before anything
//! below it: its layer keeps the node as it was. *Together* are changes that commute: to link counts, to the
//! numbers of subdirectories, and to the times of a directory in which names change. Of these a layer keeps what
//! one mark has added, so two marks may give names in one directory, and either can be taken back.
//!
//! # The contract
//!
//! Marks are taken back from the top of every stack, and settled from its bottom. Layers that are together have no
//! order among themselves. The marks of one call may lie between one another, since all of them go at once. A set
//! of marks that would leave a layer on top of what it undoes, or under what it settles, is refused before anything
//! changes. A change that belongs to no mark is decided at once, so none is made on top of an undecided layer.
//!
//! # Why a mark's own second change needs a layer
//!
//! A mark may change a cell again after another mark has. The second change gets a layer of its own on top, so the
//! stack says which change came when. A layer takes in a later change of its own mark only while it is the highest.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsStr;

use super::together::{Run, Together};
use super::{Binding, Inconsistent, Node};
use crate::types::{InodeKey, MarkId, NodeId, ObjectId};

/// The cells with undecided changes.
#[derive(Debug, Clone, Default)]
pub(super) struct Cells {
    /// The lowest layer first. No stack is empty.
    nodes: HashMap<NodeId, Vec<Layer>>,
    names: HashMap<NameKey, Vec<Named>>,
    /// What each mark has changed; a cell may be named twice.
    touches: BTreeMap<MarkId, Touches>,
}

/// A name, and its directory.
pub(super) type NameKey = (NodeId, Box<OsStr>);

#[derive(Debug, Clone, Default)]
struct Touches {
    nodes: Vec<NodeId>,
    names: Vec<NameKey>,
}

/// A layer of a node, or several that are together.
#[derive(Debug, Clone)]
enum Layer {
    Alone {
        mark: MarkId,
        /// The node, without its entries; `None` where there was none.
        before: Option<Box<Node>>,
    },
    Together(Run),
}

/// A layer of a name. All of them are alone.
#[derive(Debug, Clone)]
struct Named {
    mark: MarkId,
    before: Option<Binding>,
}

impl Layer {
    fn has(&self, test: impl Fn(MarkId) -> bool) -> bool {
        match self {
            Self::Alone { mark, .. } => test(*mark),
            Self::Together(run) => run.has(test),
        }
    }
}

impl Cells {
    pub(super) fn is_empty(&self) -> bool {
        self.touches.is_empty()
    }

    /// The marks that have changed something, oldest first.
    pub(super) fn marks(&self) -> BTreeSet<MarkId> {
        self.touches.keys().copied().collect()
    }

    /// Whether an undecided change of a node could be undone.
    pub(super) fn has_node(&self, id: NodeId) -> bool {
        self.nodes.contains_key(&id)
    }

    pub(super) fn has_name(&self, directory: NodeId, name: &OsStr) -> bool {
        !self.names.is_empty() && self.names.contains_key(&(directory, name.into()))
    }

    /// The marks that a node has a layer of: of all layers, or only of those that are alone.
    pub(super) fn marks_of_node(&self, id: NodeId, which: Layers, marks: &mut BTreeSet<MarkId>) {
        for layer in self.nodes.get(&id).into_iter().flatten() {
            match layer {
                Layer::Alone { mark, .. } => _ = marks.insert(*mark),
                Layer::Together(run) if which == Layers::All => marks.extend(run.marks()),
                Layer::Together(_) => {}
            }
        }
    }

    /// Those that a name has a layer of.
    pub(super) fn marks_of_name(&self, name: &NameKey, marks: &mut BTreeSet<MarkId>) {
        let layers = self.names.get(name).into_iter().flatten();
        marks.extend(layers.map(|layer| layer.mark));
    }

    /// The nodes that have layers.
    pub(super) fn changed_nodes(&self) -> impl Iterator<Item = NodeId> {
        self.nodes.keys().copied()
    }

    /// Whether changes of a node that commute may be decided while others of it are not.
    pub(super) fn commutes(&self, id: NodeId) -> bool {
        let stack = self.nodes.get(&id).map(Vec::as_slice);
        matches!(stack, None | Some([Layer::Together(_)]))
    }

    /// The objects that taking layers of a node back would restore.
    pub(super) fn objects(&self, id: NodeId) -> impl Iterator<Item = ObjectId> {
        let layers = self.nodes.get(&id).into_iter().flatten();
        layers.filter_map(|layer| match layer {
            Layer::Alone { before, .. } => before.as_ref()?.object,
            Layer::Together(_) => None,
        })
    }

    /// What a name led to below each of its layers.
    pub(super) fn bindings(&self, name: &NameKey) -> impl Iterator<Item = &Binding> {
        let layers = self.names.get(name).into_iter().flatten();
        layers.filter_map(|layer| layer.before.as_ref())
    }

    /// Whether the highest change of a node that is alone is this mark's, or there is none.
    pub(super) fn is_changed_last_by(&self, id: NodeId, by: Option<MarkId>) -> bool {
        let layers = self.nodes.get(&id).into_iter().flatten().rev();
        let mut alone = layers.filter_map(|layer| match layer {
            Layer::Alone { mark, .. } => Some(*mark),
            Layer::Together(_) => None,
        });
        alone.next() == by
    }

    /// Takes layers off the top of a node's stack, in whatever order they lie there. The node becomes what it was.
    pub(super) fn take_back_node(
        &mut self,
        id: NodeId,
        marks: &BTreeSet<MarkId>,
        node: &mut Option<Box<Node>>,
    ) {
        let Some(stack) = self.nodes.get_mut(&id) else {
            return;
        };
        while let Some(top) = stack.last_mut() {
            match top {
                Layer::Alone { mark, before } if marks.contains(mark) => {
                    let entries = node.take().map(|node| node.entries);
                    *node = before.take();
                    if let (Some(node), Some(entries)) = (node.as_mut(), entries) {
                        node.entries = entries;
                    }
                }
                Layer::Together(run) => {
                    if let Some(node) = node.as_mut() {
                        run.take_back(marks, node);
                    }
                    if !run.is_empty() {
                        break;
                    }
                }
                Layer::Alone { .. } => break,
            }
            stack.pop();
        }
        if stack.is_empty() {
            self.nodes.remove(&id);
        }
    }

    /// Takes layers off the top of a name's stack. What was below them, if there were any.
    pub(super) fn take_back_name(
        &mut self,
        name: &NameKey,
        marks: &BTreeSet<MarkId>,
    ) -> Option<Option<Binding>> {
        let stack = self.names.get_mut(name)?;
        let mut lowest = None;
        while let Some(top) = stack.pop_if(|top| marks.contains(&top.mark)) {
            lowest = Some(top.before);
        }
        if stack.is_empty() {
            self.names.remove(name);
        }
        lowest
    }

    /// The layers of some marks at the bottom of a node's stack are no more: what they changed stays.
    pub(super) fn settle_node(&mut self, id: NodeId, marks: &BTreeSet<MarkId>) {
        let Some(stack) = self.nodes.get_mut(&id) else {
            return;
        };
        while let Some(lowest) = stack.first_mut() {
            match lowest {
                Layer::Alone { mark, .. } if marks.contains(mark) => {}
                Layer::Together(run) => {
                    run.settle(marks);
                    if !run.is_empty() {
                        break;
                    }
                }
                Layer::Alone { .. } => break,
            }
            stack.remove(0);
        }
        if stack.is_empty() {
            self.nodes.remove(&id);
        }
    }

    pub(super) fn settle_name(&mut self, name: &NameKey, marks: &BTreeSet<MarkId>) {
        let Some(stack) = self.names.get_mut(name) else {
            return;
        };
        while stack
            .first()
            .is_some_and(|lowest| marks.contains(&lowest.mark))
        {
            stack.remove(0);
        }
        if stack.is_empty() {
            self.names.remove(name);
        }
    }

    /// Nothing of these marks is undecided any more.
    pub(super) fn forget(&mut self, marks: &BTreeSet<MarkId>) {
        self.touches.retain(|mark, _| !marks.contains(mark));
    }

    /// Before a change of a node that commutes.
    pub(super) fn change_together(
        &mut self,
        by: Option<MarkId>,
        id: NodeId,
        node: &Node,
        change: &Together,
    ) -> Result<(), Inconsistent> {
        let Some(mark) = by else {
            return match self.nodes.get_mut(&id).map(Vec::as_mut_slice) {
                None => Ok(()),
                Some([Layer::Together(run)]) => {
                    run.decide(change);
                    Ok(())
                }
                Some(_) => Err(Inconsistent::Undecided(id)),
            };
        };
        let stack = self.nodes.entry(id).or_default();
        let run = match stack.last_mut() {
            Some(Layer::Alone { mark: top, .. }) if *top == mark => return Ok(()),
            Some(Layer::Together(run)) => run,
            _ => {
                stack.push(Layer::Together(Run::on(node)));
                let Some(Layer::Together(run)) = stack.last_mut() else {
                    unreachable!("it was put there");
                };
                run
            }
        };
        if run.add(mark, change) {
            self.touches.entry(mark).or_default().nodes.push(id);
        }
        Ok(())
    }

    /// Before any other change of a node.
    pub(super) fn change_alone(
        &mut self,
        by: Option<MarkId>,
        id: NodeId,
        node: Option<&mut Node>,
    ) -> Result<(), Inconsistent> {
        let Some(mark) = by else {
            return match self.nodes.contains_key(&id) {
                true => Err(Inconsistent::Undecided(id)),
                false => Ok(()),
            };
        };
        let stack = self.nodes.entry(id).or_default();
        if matches!(stack.last(), Some(Layer::Alone { mark: top, .. }) if *top == mark) {
            return Ok(());
        }
        let before = node.map(|node| {
            // Its names are cells of their own: there may be many.
            let entries = std::mem::take(&mut node.entries);
            let saved = node.clone();
            node.entries = entries;
            Box::new(saved)
        });
        stack.push(Layer::Alone { mark, before });
        self.touches.entry(mark).or_default().nodes.push(id);
        Ok(())
    }

    pub(super) fn change_name(
        &mut self,
        by: Option<MarkId>,
        directory: NodeId,
        name: &OsStr,
        now: Option<&Binding>,
    ) -> Result<(), Inconsistent> {
        if by.is_none() && self.names.is_empty() {
            return Ok(());
        }
        let key: NameKey = (directory, name.into());
        let Some(mark) = by else {
            return match self.names.contains_key(&key) {
                true => Err(Inconsistent::Undecided(directory)),
                false => Ok(()),
            };
        };
        let stack = self.names.entry(key.clone()).or_default();
        if stack.last().is_some_and(|top| top.mark == mark) {
            return Ok(());
        }
        let before = now.cloned();
        stack.push(Named { mark, before });
        self.touches.entry(mark).or_default().names.push(key);
        Ok(())
    }

    /// The mark under which a name first came to hide a real inode, if that is undecided.
    pub(super) fn hidden_by(
        &self,
        directory: NodeId,
        name: &OsStr,
        key: InodeKey,
    ) -> Option<MarkId> {
        let lowest = self.names.get(&(directory, name.into()))?.first()?;
        let lower = lowest.before.as_ref().and_then(Binding::lower);
        let was_hidden = lower.is_some_and(|lower| lower.key() == key);
        (!was_hidden).then_some(lowest.mark)
    }

    /// The cells of some marks, each once.
    pub(super) fn touched(
        &self,
        marks: &BTreeSet<MarkId>,
    ) -> (BTreeSet<NodeId>, BTreeSet<NameKey>) {
        let touches = marks.iter().filter_map(|mark| self.touches.get(mark));
        let (mut nodes, mut names) = (BTreeSet::new(), BTreeSet::new());
        for touches in touches {
            nodes.extend(touches.nodes.iter().copied());
            names.extend(touches.names.iter().cloned());
        }
        (nodes, names)
    }

    /// Refuses to take the layers of some marks from one end of their stacks when others lie before them.
    pub(super) fn check_order(
        &self,
        marks: &BTreeSet<MarkId>,
        end: End,
    ) -> Result<(), Inconsistent> {
        let (nodes, names) = self.touched(marks);
        let goes = |mark| marks.contains(&mark);
        for id in nodes {
            let layers = self.nodes.get(&id).into_iter().flatten();
            let mut layers: Vec<&Layer> = layers.collect();
            if end == End::Top {
                layers.reverse();
            }
            let stays = layers
                .iter()
                .position(|layer| layer.has(|mark| !goes(mark)));
            let mut rest = layers[stays.unwrap_or(layers.len())..].iter();
            // Of the first that stays some parts may go: they are together.
            rest.next();
            if rest.any(|layer| layer.has(goes)) {
                return Err(Inconsistent::Undecided(id));
            }
        }
        for name in names {
            let layers = self.names.get(&name).into_iter().flatten();
            let mut layers: Vec<MarkId> = layers.map(|layer| layer.mark).collect();
            if end == End::Top {
                layers.reverse();
            }
            let mut rest = layers.into_iter().skip_while(|mark| goes(*mark));
            if rest.any(goes) {
                return Err(Inconsistent::Undecided(name.0));
            }
        }
        Ok(())
    }
}

/// Which layers of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layers {
    /// All of them.
    All,
    /// Those that are alone: the others commute.
    Alone,
}

/// Which end of a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Top,
    Bottom,
}
