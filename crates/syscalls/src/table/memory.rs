//! A process's memory: a checkpoint holds it, so private changes need no tracking; shared memory is
//! an object.

use crate::disposition::Disposition::{Allow, Track, Wait};
use crate::handler::Handler::{Durability, Memory, Plain};
use crate::row::{Row, row};
use crate::shape::Shape::{
    Address, Command, Fd, Flags, In, InOut, InVectors, Integer, Length, Mode, Offset, Out, Pid,
};
use crate::table::exceptions;

/// Sorted by number.
#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    row(  9, "mmap",                    &[Address, Length, Mode, Flags, Fd, Offset], [Allow, Track, Allow], Memory,     "a mapped file is used without calls").except(exceptions::MMAP),
    row( 10, "mprotect",                &[Address, Length, Mode],                  [Allow, Allow, Allow], Memory,     "the checkpoint holds it").except(exceptions::MPROTECT),
    row( 11, "munmap",                  &[Address, Length],                        [Allow, Allow, Allow], Plain,      "the checkpoint holds it"),
    row( 12, "brk",                     &[Address],                                [Allow, Allow, Allow], Plain,      "the checkpoint holds it"),
    row( 25, "mremap",                  &[Address, Length, Length, Flags, Address], [Allow, Allow, Allow], Plain,      "the checkpoint holds it"),
    row( 26, "msync",                   &[Address, Length, Flags],                 [Allow, Wait, Track],  Durability, "makes durable: never what is undecided"),
    row( 27, "mincore",                 &[Address, Length, Out],                   [Allow, Allow, Allow], Plain,      "observes a cache, which is no part of any state"),
    row( 28, "madvise",                 &[Address, Length, Command],               [Allow, Allow, Allow], Plain,      "the checkpoint holds it").except(exceptions::MADVISE),
    row(149, "mlock",                   &[Address, Length],                        [Allow, Wait, Allow],  Plain,      "a lock is not rolled back; as much as a limit allows, by root all"),
    row(150, "munlock",                 &[Address, Length],                        [Allow, Wait, Allow],  Plain,      "a lock is not rolled back"),
    row(151, "mlockall",                &[Flags],                                  [Allow, Wait, Allow],  Plain,      "a lock is not rolled back; as much as a limit allows, by root all"),
    row(152, "munlockall",              &[],                                       [Allow, Wait, Allow],  Plain,      "a lock is not rolled back"),
    row(154, "modify_ldt",              &[Command, InOut, Length],                 [Allow, Wait, Allow],  Plain,      "segments of this process, not rolled back"),
    row(216, "remap_file_pages",        &[Address, Length, Mode, Offset, Flags],   [Allow, Wait, Allow],  Plain,      "only for shared maps, which are not rolled back"),
    row(237, "mbind",                   &[Address, Length, Mode, In, Length, Flags], [Allow, Wait, Allow],  Plain,      "a memory policy is not rolled back"),
    row(238, "set_mempolicy",           &[Mode, In, Length],                       [Allow, Wait, Allow],  Plain,      "a memory policy is not rolled back"),
    row(239, "get_mempolicy",           &[Out, Out, Length, Address, Flags],       [Allow, Allow, Allow], Plain,      "where pages lie shows nothing"),
    row(256, "migrate_pages",           &[Pid, Length, In, In],                    [Allow, Allow, Allow], Plain,      "where pages lie shows nothing; further nodes take a right that the domain lacks"),
    row(279, "move_pages",              &[Pid, Length, In, In, Out, Flags],        [Allow, Allow, Allow], Plain,      "where pages lie shows nothing"),
    row(323, "userfaultfd",             &[Flags],                                  [Allow, Wait, Allow],  Plain,      "faults that a rollback would trip over; the kernel's need a missing right"),
    row(324, "membarrier",              &[Command, Flags, Integer],                [Allow, Allow, Allow], Plain,      "orders memory and changes nothing"),
    row(325, "mlock2",                  &[Address, Length, Flags],                 [Allow, Wait, Allow],  Plain,      "a lock is not rolled back; as much as a limit allows, by root all"),
    row(329, "pkey_mprotect",           &[Address, Length, Mode, Integer],         [Allow, Wait, Allow],  Plain,      "protection keys are not rolled back"),
    row(330, "pkey_alloc",              &[Flags, Mode],                            [Allow, Wait, Allow],  Plain,      "protection keys are not rolled back"),
    row(331, "pkey_free",               &[Integer],                                [Allow, Wait, Allow],  Plain,      "protection keys are not rolled back"),
    row(440, "process_madvise",         &[Fd, InVectors, Length, Command, Flags],  [Allow, Wait, Allow],  Plain,      "acts on the memory of another process, which takes a right that the domain lacks"),
    row(447, "memfd_secret",            &[Flags],                                  [Allow, Wait, Allow],  Plain,      "memory that no checkpoint can read"),
    row(448, "process_mrelease",        &[Fd, Flags],                              [Allow, Wait, Allow],  Plain,      "acts on the memory of another process"),
    row(450, "set_mempolicy_home_node", &[Address, Length, Integer, Flags],        [Allow, Wait, Allow],  Plain,      "a memory policy is not rolled back"),
    row(453, "map_shadow_stack",        &[Address, Length, Flags],                 [Allow, Wait, Allow],  Plain,      "a shadow stack is not rolled back"),
    row(462, "mseal",                   &[Address, Length, Flags],                 [Allow, Wait, Allow],  Plain,      "sealed maps cannot be put back"),
];
