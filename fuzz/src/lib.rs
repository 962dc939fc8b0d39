//! What all targets share: their seeds, and a bound on the memory that decoding takes.
#![forbid(unsafe_code)]

use std::alloc::System;
use std::fs;
use std::path::Path;

use cap::Cap;

#[doc(hidden)]
pub use libfuzzer_sys;

#[global_allocator]
static MEMORY: Cap<System> = Cap::new(System, usize::MAX);

/// What a decoder may take beside what grows with its input, in bytes.
const MEMORY_FIXED: usize = 1 << 20;

/// How many times its input's size a decoder may take. A node of the view's map, the largest of what a few
/// bytes can call for, has some hundred.
const MEMORY_FACTOR: usize = 1 << 10;

/// A target that asks a property of whatever bytes libFuzzer makes of the seeds.
#[macro_export]
macro_rules! target {
    ($module:path, $property:ident, $seeds:ident) => {
        use $module as decoder;

        $crate::libfuzzer_sys::fuzz_target!(
            init: $crate::plant(decoder::$seeds()),
            |bytes: &[u8]| $crate::bounded(bytes, decoder::$property)
        );
    };
}

/// Asks a property of bytes.
///
/// # Panics
/// When asking takes more memory than is in proportion to them.
pub fn bounded<R>(bytes: &[u8], property: fn(&[u8]) -> R) {
    let (before, peak) = (MEMORY.allocated(), MEMORY.max_allocated());
    drop(property(bytes));
    let limit = before + MEMORY_FIXED + MEMORY_FACTOR * bytes.len();
    let now = MEMORY.max_allocated();
    assert!(
        now == peak || now <= limit,
        "{} bytes of memory for {} of input",
        now - before,
        bytes.len()
    );
}

/// Puts the seeds into the corpus: the first directory that libFuzzer is told of.
///
/// # Panics
/// When they cannot be written.
pub fn plant(seeds: Vec<Vec<u8>>) {
    let mut directories = std::env::args()
        .skip(1)
        .filter(|argument| Path::new(argument).is_dir());
    let Some(corpus) = directories.next() else {
        return;
    };
    for (number, seed) in seeds.iter().enumerate() {
        let path = Path::new(&corpus).join(format!("seed-{number}"));
        fs::write(&path, seed).unwrap_or_else(|error| panic!("write {}: {error}", path.display()));
    }
}
