//! An operation of a view's log.
#![no_main]

surmise_fuzz::target!(surmise_view::fuzzing, operation, operations);
