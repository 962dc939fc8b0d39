//! Data behind a descriptor: a file's is undone, a channel's is held by the relay that owns its
//! other end, so the descriptor's kind decides.

use crate::disposition::Disposition::{Allow, Hold, Track, Wait};
use crate::handler::Handler::{Data, Durability, Plain};
use crate::row::{Row, row};
use crate::shape::Shape::{
    Address, Command, Fd, Flags, In, InOut, InVectors, Integer, Length, Mode, Offset, Out,
    OutVectors,
};
use crate::syscall::Syscall::*;

/// Sorted by number.
#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    row(  0, Read,          &[Fd, Out, Length],                        [Allow, Track, Allow], Data,       "observes what the descriptor leads to"),
    row(  1, Write,         &[Fd, In, Length],                         [Allow, Track, Hold],  Data,       "modifies a file, or is output at a channel"),
    row(  8, Lseek,         &[Fd, Offset, Command],                    [Allow, Track, Allow], Data,       "moves an offset that other tasks may share"),
    row( 17, Pread64,       &[Fd, Out, Length, Offset],                [Allow, Track, Allow], Data,       "observes a file"),
    row( 18, Pwrite64,      &[Fd, In, Length, Offset],                 [Allow, Track, Allow], Data,       "modifies a file"),
    row( 19, Readv,         &[Fd, OutVectors, Integer],                [Allow, Track, Allow], Data,       "observes what the descriptor leads to"),
    row( 20, Writev,        &[Fd, InVectors, Integer],                 [Allow, Track, Hold],  Data,       "modifies a file, or is output at a channel"),
    row( 40, Sendfile,      &[Fd, Fd, InOut, Length],                  [Allow, Wait, Hold],   Data,       "moves data that no relay sees"),
    row( 74, Fsync,         &[Fd],                                     [Allow, Track, Track], Durability, "makes durable, but nothing of the view; under an epoch at once"),
    row( 75, Fdatasync,     &[Fd],                                     [Allow, Track, Track], Durability, "makes durable, but nothing of the view; under an epoch at once"),
    row( 78, Getdents,      &[Fd, Out, Length],                        [Allow, Track, Allow], Data,       "observes a directory"),
    row(162, Sync,          &[],                                       [Allow, Wait, Track],  Durability, "makes durable; under an epoch answered at once"),
    row(187, Readahead,     &[Fd, Offset, Length],                     [Allow, Allow, Allow], Plain,      "fills a cache and shows nothing"),
    row(206, IoSetup,       &[Integer, Out],                           [Allow, Wait, Allow],  Plain,      "its completions arrive outside any call"),
    row(207, IoDestroy,     &[Address],                                [Allow, Wait, Allow],  Plain,      "its completions arrive outside any call"),
    row(208, IoGetevents,   &[Address, Integer, Integer, Out, In],     [Allow, Wait, Allow],  Plain,      "its completions arrive outside any call"),
    row(209, IoSubmit,      &[Address, Integer, In],                   [Allow, Wait, Allow],  Plain,      "its completions arrive outside any call"),
    row(210, IoCancel,      &[Address, In, Out],                       [Allow, Wait, Allow],  Plain,      "its completions arrive outside any call"),
    row(217, Getdents64,    &[Fd, Out, Length],                        [Allow, Track, Allow], Data,       "observes a directory"),
    row(221, Fadvise64,     &[Fd, Offset, Length, Command],            [Allow, Allow, Allow], Plain,      "fills or drops a cache and shows nothing"),
    row(275, Splice,        &[Fd, InOut, Fd, InOut, Length, Flags],    [Allow, Wait, Hold],   Data,       "moves data that no relay sees"),
    row(276, Tee,           &[Fd, Fd, Length, Flags],                  [Allow, Wait, Hold],   Data,       "moves data that no relay sees"),
    row(277, SyncFileRange, &[Fd, Offset, Length, Flags],              [Allow, Wait, Track],  Durability, "starts or awaits writeback"),
    row(278, Vmsplice,      &[Fd, InVectors, Integer, Flags],          [Allow, Wait, Hold],   Data,       "shares pages with a pipe: later stores would show through"),
    row(285, Fallocate,     &[Fd, Mode, Offset, Length],               [Allow, Track, Allow], Data,       "changes a file's blocks and size"),
    row(295, Preadv,        &[Fd, OutVectors, Integer, Offset, Offset], [Allow, Track, Allow], Data,       "observes a file"),
    row(296, Pwritev,       &[Fd, InVectors, Integer, Offset, Offset], [Allow, Track, Allow], Data,       "modifies a file"),
    row(306, Syncfs,        &[Fd],                                     [Allow, Wait, Track],  Durability, "makes durable; under an epoch answered at once"),
    row(326, CopyFileRange, &[Fd, InOut, Fd, InOut, Length, Flags],    [Allow, Track, Allow], Data,       "observes one file and modifies another"),
    row(327, Preadv2,       &[Fd, OutVectors, Integer, Offset, Offset, Flags], [Allow, Track, Allow], Data,       "observes a file"),
    row(328, Pwritev2,      &[Fd, InVectors, Integer, Offset, Offset, Flags], [Allow, Track, Hold],  Data,       "modifies a file"),
    row(333, IoPgetevents,  &[Address, Integer, Integer, Out, In, In], [Allow, Wait, Allow],  Plain,      "its completions arrive outside any call"),
    row(451, Cachestat,     &[Fd, In, Out, Flags],                     [Allow, Allow, Allow], Plain,      "observes a cache, which is no part of any state"),
];
