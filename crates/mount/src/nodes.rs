//! The kernel's numbers of objects.

use surmise_fuse::ROOT;
use surmise_remote::object::ObjectId;

/// An object's node is its number; but the root's is always [`ROOT`], so an object that has that number gets the root's.
#[derive(Debug, Clone, Copy)]
pub struct Nodes {
    root: ObjectId,
}

impl Nodes {
    /// For a mount that shows this directory.
    pub fn new(root: ObjectId) -> Self {
        Self { root }
    }

    /// The node of an object.
    pub fn node(self, object: ObjectId) -> u64 {
        self.swapped(object.number())
    }

    /// The object of a node.
    pub fn object(self, node: u64) -> ObjectId {
        ObjectId::numbered(self.swapped(node))
    }

    fn swapped(self, number: u64) -> u64 {
        match number {
            ROOT => self.root.number(),
            number if number == self.root.number() => ROOT,
            number => number,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_object_has_a_node_of_its_own() {
        let id = |number| ObjectId::found(number).expect("a number");
        let nodes = Nodes::new(id(256));
        for number in [0, 1, 2, 256, 257] {
            assert_eq!(nodes.object(nodes.node(id(number))), id(number));
        }
        assert_eq!((nodes.node(id(256)), nodes.node(id(1))), (ROOT, 256));
    }
}
