//! A file of changes that a client of a far directory has lost.
#![no_main]

surmise_fuzz::target!(surmise_remote::fuzzing, lost_file, lost_file_seeds);
