//! What comes over the line between the server of a far directory and a client, in blocks that may be compressed.
#![no_main]

surmise_fuzz::target!(surmise_wire::fuzzing, blocks, block_seeds);
