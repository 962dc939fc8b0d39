//! A damaged log: its beginning is recovered, or it is refused.
#![no_main]

surmise_fuzz::target!(surmise_journal::fuzzing, damaged, damage_seeds);
