//! A view's log, of which a part is undone.
#![no_main]

surmise_fuzz::target!(surmise_view::fuzzing, undo, undos);
