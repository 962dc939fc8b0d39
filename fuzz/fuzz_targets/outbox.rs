//! The frames of an outbox.
#![no_main]

surmise_fuzz::target!(surmise_outbox::fuzzing, records, seeds);
