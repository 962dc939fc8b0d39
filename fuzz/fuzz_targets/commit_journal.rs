//! The frames of a commit's journal.
#![no_main]

surmise_fuzz::target!(surmise_commit::fuzzing, journal, journal_seeds);
