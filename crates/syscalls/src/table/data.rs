//! Data behind a descriptor: a file's is undone, a channel's is held by the relay that owns its
//! other end, so the descriptor's kind decides.

use crate::disposition::Disposition::{Allow, Hold, Track, Wait};
use crate::handler::Handler::{Data, Durability, Plain};
use crate::row::{Row, row};
use crate::shape::Shape::{
    Address, Command, Fd, Flags, In, InOut, InVectors, Integer, Length, Mode, Offset, Out,
    OutVectors,
};

/// Sorted by number.
#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    row(  0, "read",            &[Fd, Out, Length],                        [Allow, Track, Allow], Data,       "observes what the descriptor leads to"),
    row(  1, "write",           &[Fd, In, Length],                         [Allow, Track, Hold],  Data,       "modifies a file, or is output at a channel"),
    row(  8, "lseek",           &[Fd, Offset, Command],                    [Allow, Track, Allow], Data,       "moves an offset that other tasks may share"),
    row( 17, "pread64",         &[Fd, Out, Length, Offset],                [Allow, Track, Allow], Data,       "observes a file"),
    row( 18, "pwrite64",        &[Fd, In, Length, Offset],                 [Allow, Track, Allow], Data,       "modifies a file"),
    row( 19, "readv",           &[Fd, OutVectors, Integer],                [Allow, Track, Allow], Data,       "observes what the descriptor leads to"),
    row( 20, "writev",          &[Fd, InVectors, Integer],                 [Allow, Track, Hold],  Data,       "modifies a file, or is output at a channel"),
    row( 40, "sendfile",        &[Fd, Fd, InOut, Length],                  [Allow, Wait, Hold],   Data,       "moves data that no relay sees"),
    row( 74, "fsync",           &[Fd],                                     [Allow, Wait, Track],  Durability, "makes durable; under an epoch answered at once"),
    row( 75, "fdatasync",       &[Fd],                                     [Allow, Wait, Track],  Durability, "makes durable; under an epoch answered at once"),
    row( 78, "getdents",        &[Fd, Out, Length],                        [Allow, Track, Allow], Data,       "observes a directory"),
    row(162, "sync",            &[],                                       [Allow, Wait, Track],  Durability, "makes durable; under an epoch answered at once"),
    row(187, "readahead",       &[Fd, Offset, Length],                     [Allow, Allow, Allow], Plain,      "fills a cache and shows nothing"),
    row(206, "io_setup",        &[Integer, Out],                           [Allow, Wait, Allow],  Plain,      "its completions arrive outside any call"),
    row(207, "io_destroy",      &[Address],                                [Allow, Wait, Allow],  Plain,      "its completions arrive outside any call"),
    row(208, "io_getevents",    &[Address, Integer, Integer, Out, In],     [Allow, Wait, Allow],  Plain,      "its completions arrive outside any call"),
    row(209, "io_submit",       &[Address, Integer, In],                   [Allow, Wait, Allow],  Plain,      "its completions arrive outside any call"),
    row(210, "io_cancel",       &[Address, In, Out],                       [Allow, Wait, Allow],  Plain,      "its completions arrive outside any call"),
    row(217, "getdents64",      &[Fd, Out, Length],                        [Allow, Track, Allow], Data,       "observes a directory"),
    row(221, "fadvise64",       &[Fd, Offset, Length, Command],            [Allow, Allow, Allow], Plain,      "fills or drops a cache and shows nothing"),
    row(275, "splice",          &[Fd, InOut, Fd, InOut, Length, Flags],    [Allow, Wait, Hold],   Data,       "moves data that no relay sees"),
    row(276, "tee",             &[Fd, Fd, Length, Flags],                  [Allow, Wait, Hold],   Data,       "moves data that no relay sees"),
    row(277, "sync_file_range", &[Fd, Offset, Length, Flags],              [Allow, Wait, Track],  Durability, "starts or awaits writeback"),
    row(278, "vmsplice",        &[Fd, InVectors, Integer, Flags],          [Allow, Wait, Hold],   Data,       "shares pages with a pipe: later stores would show through"),
    row(285, "fallocate",       &[Fd, Mode, Offset, Length],               [Allow, Track, Allow], Data,       "changes a file's blocks and size"),
    row(295, "preadv",          &[Fd, OutVectors, Integer, Offset, Offset], [Allow, Track, Allow], Data,       "observes a file"),
    row(296, "pwritev",         &[Fd, InVectors, Integer, Offset, Offset], [Allow, Track, Allow], Data,       "modifies a file"),
    row(306, "syncfs",          &[Fd],                                     [Allow, Wait, Track],  Durability, "makes durable; under an epoch answered at once"),
    row(326, "copy_file_range", &[Fd, InOut, Fd, InOut, Length, Flags],    [Allow, Track, Allow], Data,       "observes one file and modifies another"),
    row(327, "preadv2",         &[Fd, OutVectors, Integer, Offset, Offset, Flags], [Allow, Track, Allow], Data,       "observes a file"),
    row(328, "pwritev2",        &[Fd, InVectors, Integer, Offset, Offset, Flags], [Allow, Track, Hold],  Data,       "modifies a file"),
    row(333, "io_pgetevents",   &[Address, Integer, Integer, Out, In, In], [Allow, Wait, Allow],  Plain,      "its completions arrive outside any call"),
    row(451, "cachestat",       &[Fd, In, Out, Flags],                     [Allow, Allow, Allow], Plain,      "observes a cache, which is no part of any state"),
];
