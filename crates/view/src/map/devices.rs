//! A map whose file systems have other device numbers than when its domain ran.

use std::collections::HashMap;

use super::{Binding, Map, Node};
use crate::types::Identity;

impl Map {
    /// The map with other device numbers: for each that is renumbered, the one of today.
    ///
    /// For a domain that has ended: the log goes on with the numbers that it began with.
    #[must_use]
    pub fn renumbered(&self, numbers: &HashMap<u64, u64>) -> Self {
        let today = |device: &mut u64| *device = *numbers.get(device).unwrap_or(device);
        let mut map = self.clone();
        for node in map.nodes.values_mut() {
            node.renumber(&today);
        }
        let adopted = std::mem::take(&mut map.adopted).into_iter();
        map.adopted = adopted
            .map(|(mut key, node)| {
                today(&mut key.device);
                (key, node)
            })
            .collect();
        map
    }
}

impl Node {
    fn renumber(&mut self, today: &impl Fn(&mut u64)) {
        let known = |identity: &mut Identity| today(&mut identity.device);
        today(&mut self.device);
        if let Some(origin) = &mut self.origin {
            known(&mut origin.identity);
        }
        if let Some(borrowed) = &mut self.borrowed {
            known(borrowed.lender());
        }
        self.entries.values_mut().for_each(|binding: &mut Binding| {
            if let Some(lower) = &mut binding.lower {
                known(lower);
            }
        });
    }
}
