//! A table of things with keys that are never used twice.
//!
//! A key is to fit into the poller's token beside a kind, in 56 bits. Keys of slotmap take all 64.

/// Names one entry of a [`Slab`]. The key of an entry that has gone names nothing, so an event that
/// comes late for a closed connection never meets the one that took its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) index: u32,
    /// How often the place was used before, modulo 2^24: what fits beside the rest in a token.
    pub(crate) generation: u32,
}

impl Key {
    /// For what there is only one of.
    pub(crate) const ONLY: Self = Self {
        index: 0,
        generation: 0,
    };

    const GENERATIONS: u32 = 1 << 24;
}

/// A table of things with keys that are never used twice.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    places: Vec<Place<T>>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Place<T> {
    generation: u32,
    entry: Option<T>,
}

impl<T> Slab<T> {
    pub(crate) fn new() -> Self {
        Self {
            places: Vec::new(),
            free: Vec::new(),
        }
    }

    pub(crate) fn insert(&mut self, entry: T) -> Key {
        let index = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place {
                generation: 0,
                entry: None,
            });
            u32::try_from(self.places.len() - 1).expect("fewer entries than descriptors")
        });
        let place = &mut self.places[index as usize];
        place.entry = Some(entry);
        Key {
            index,
            generation: place.generation,
        }
    }

    pub(crate) fn remove(&mut self, key: Key) -> Option<T> {
        let place = self.place(key)?;
        let entry = place.entry.take()?;
        place.generation = (place.generation + 1) % Key::GENERATIONS;
        self.free.push(key.index);
        Some(entry)
    }

    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        self.place(key)?.entry.as_mut()
    }

    pub(crate) fn get(&self, key: Key) -> Option<&T> {
        let place = self.places.get(key.index as usize)?;
        place
            .entry
            .as_ref()
            .filter(|_| place.generation == key.generation)
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Key, &T)> {
        self.places.iter().enumerate().filter_map(|(index, place)| {
            let key = Key {
                index: index as u32,
                generation: place.generation,
            };
            place.entry.as_ref().map(|entry| (key, entry))
        })
    }

    /// The keys of all entries, for loops that change the table.
    pub(crate) fn keys(&self) -> Vec<Key> {
        self.iter().map(|(key, _)| key).collect()
    }

    fn place(&mut self, key: Key) -> Option<&mut Place<T>> {
        self.places
            .get_mut(key.index as usize)
            .filter(|place| place.generation == key.generation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_names_nothing_once_its_entry_has_gone() {
        let mut slab = Slab::new();
        let (first, second) = (slab.insert("first"), slab.insert("second"));
        assert_eq!(slab.remove(first), Some("first"));
        assert_eq!(slab.remove(first), None);
        let third = slab.insert("third");
        assert_eq!(third.index, first.index);
        assert_eq!((slab.get(first), slab.get(third)), (None, Some(&"third")));
        assert_eq!(slab.get_mut(first), None);
        assert_eq!(slab.keys(), [third, second]);
        assert_eq!(slab.len(), 2);
    }
}
