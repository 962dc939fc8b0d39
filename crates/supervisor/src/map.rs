//! Maps whose order is the same in each run, so that a seed replays a schedule.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::BuildHasherDefault;

/// A map by keys that are this program's or the kernel's numbers.
pub(crate) type Map<K, V> = HashMap<K, V, BuildHasherDefault<DefaultHasher>>;
