//! The core on a fake machine.
