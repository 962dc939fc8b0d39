//! A view's log, of which any operations may be missing, and the changes that it says.
//! See `view_undo` for one that is whole.
#![no_main]

surmise_fuzz::target!(surmise_diff::fuzzing, changes, log_seeds);
