//! A name server's answer.
#![no_main]

surmise_fuzz::target!(
    surmise_network::names::fuzzing,
    answer_message,
    answer_seeds
);
