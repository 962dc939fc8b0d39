//! Names: the messages of DNS, and what the domain knows under which name.
//!
//! A policy is about names, a connection goes to an address. [`Names`] keeps both together. It
//! remembers the names under which an address was learned from DNS. It hands out *synthetic*
//! addresses for names that are not to be looked up yet, because their connections are held or asked
//! about. It has no clock: the caller says what time it is.

mod message;

#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub use message::fuzzing;
pub use message::{Answer, Kind, Query, Question, format_error};

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use lru::LruCache;

use crate::peer::normal;

/// How long a name stays with its address after it was last used.
const KEPT: Duration = Duration::from_secs(60 * 60);
/// How many addresses are remembered; beyond it the least recently used go.
const LEARNED_MAX: NonZeroUsize = NonZeroUsize::new(8192).unwrap();
/// How many names of one address are remembered.
const NAMES_MAX: usize = 8;
/// How many synthetic addresses are in use at most: a quarter of all there are.
const SYNTHETIC_MAX: usize = 16384;
/// 198.19.0.0/16, the upper half of what RFC 2544 sets aside for measurements. The lower half serves
/// some tunnels for the same purpose as here.
const SYNTHETIC: [u8; 2] = [198, 19];

/// Whether an address is one that [`Names::synthetic`] may give.
#[must_use]
pub fn is_synthetic(address: IpAddr) -> bool {
    matches!(address.to_canonical(), IpAddr::V4(v4) if v4.octets()[..2] == SYNTHETIC)
}

/// The names of addresses, and the addresses of names that are held.
#[derive(Debug)]
pub struct Names {
    learned: LruCache<IpAddr, Vec<Known>>,
    /// By synthetic address; the least recently used first to go.
    synthetic: LruCache<Ipv4Addr, Known>,
    by_name: HashMap<String, Ipv4Addr>,
}

#[derive(Debug)]
struct Known {
    name: String,
    used: Instant,
}

impl Known {
    fn expired(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.used) > KEPT
    }
}

impl Default for Names {
    fn default() -> Self {
        Self {
            learned: LruCache::new(LEARNED_MAX),
            synthetic: LruCache::unbounded(),
            by_name: HashMap::new(),
        }
    }
}

impl Names {
    /// Remembers that the domain was told `addresses` for `names`, usually [`Answer`]'s.
    pub fn learn(&mut self, now: Instant, names: &[String], addresses: &[IpAddr]) {
        for address in addresses.iter().map(IpAddr::to_canonical) {
            // A real address among the synthetic ones would give one name's connections to another.
            if matches!(address, IpAddr::V4(v4) if self.synthetic.contains(&v4)) {
                continue;
            }
            let known = self.learned.get_or_insert_mut(address, Vec::new);
            for name in names {
                remember(known, normal(name), now);
            }
        }
    }

    /// The names under which the domain learned an address, or for which it is synthetic. Counts as
    /// a use of all of them.
    pub fn names_of(&mut self, now: Instant, address: IpAddr) -> Vec<String> {
        let address = address.to_canonical();
        if let Some(name) = self.name_of(now, address) {
            return vec![name];
        }
        let Some(known) = self.learned.get_mut(&address) else {
            return Vec::new();
        };
        known.retain(|known| !known.expired(now));
        for known in known.iter_mut() {
            known.used = now;
        }
        known.iter().map(|known| known.name.clone()).collect()
    }

    /// The address that stands for a name: the same one as long as the name is remembered, which is
    /// at least an hour after its last use. Nothing when too many are in use.
    pub fn synthetic(&mut self, now: Instant, name: &str) -> Option<Ipv4Addr> {
        let name = normal(name);
        if let Some(&address) = self.by_name.get(&name) {
            self.name_of(now, address.into());
            return Some(address);
        }
        if self.synthetic.len() >= SYNTHETIC_MAX {
            let (_, oldest) = self.synthetic.peek_lru()?;
            if !oldest.expired(now) {
                return None;
            }
            let (_, gone) = self.synthetic.pop_lru()?;
            self.by_name.remove(&gone.name);
        }
        let address = self.free_address(&name)?;
        self.by_name.insert(name.clone(), address);
        self.synthetic.put(address, Known { name, used: now });
        Some(address)
    }

    /// The name that a synthetic address stands for. Counts as a use.
    pub fn name_of(&mut self, now: Instant, address: IpAddr) -> Option<String> {
        let IpAddr::V4(address) = address.to_canonical() else {
            return None;
        };
        let known = self.synthetic.get_mut(&address)?;
        known.used = now;
        Some(known.name.clone())
    }

    /// A name's own address, or the next that is free. At most a quarter are in use, so a search is
    /// short; real addresses among them are what ends it without one.
    fn free_address(&self, name: &str) -> Option<Ipv4Addr> {
        let [.., high, low] = hash(name).to_be_bytes();
        let first = u16::from_be_bytes([high, low]);
        (0..=u16::MAX)
            .map(|step| {
                let [third, fourth] = first.wrapping_add(step).to_be_bytes();
                Ipv4Addr::new(SYNTHETIC[0], SYNTHETIC[1], third, fourth)
            })
            // 0 and 255 at the end look like a network and its broadcast to some programs.
            .filter(|address| !matches!(address.octets()[3], 0 | 255))
            .find(|&address| {
                !self.synthetic.contains(&address) && !self.learned.contains(&address.into())
            })
    }
}

fn remember(known: &mut Vec<Known>, name: String, now: Instant) {
    known.retain(|known| !known.expired(now) && known.name != name);
    // In order of use, for the order in which they are put here is that of time.
    if known.len() == NAMES_MAX {
        known.remove(0);
    }
    known.push(Known { name, used: now });
}

/// FNV-1a: the same in every process, so that a name gets the same address in every run.
fn hash(name: &str) -> u32 {
    let mix = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    let hash = name.bytes().fold(0x811c_9dc5, mix);
    hash ^ hash >> 16
}

#[cfg(test)]
mod tests;
