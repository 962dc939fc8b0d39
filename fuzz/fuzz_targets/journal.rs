//! A log: recovered or refused.
#![no_main]

surmise_fuzz::target!(surmise_journal::fuzzing, log, log_seeds);
