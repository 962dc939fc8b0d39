//! A process's memory: a checkpoint holds it, so private changes need no tracking; shared memory is
//! an object.

use crate::disposition::Disposition::{Allow, Track, Wait};
use crate::handler::Handler::{Durability, Memory, Plain};
use crate::row::{Row, row};
use crate::shape::Shape::{
    Address, Command, Fd, Flags, In, InOut, InVectors, Integer, Length, Mode, Offset, Out, Pid,
};
use crate::syscall::Syscall::*;
use crate::table::exceptions;

/// Sorted by number.
#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    row(  9, Mmap,                 &[Address, Length, Mode, Flags, Fd, Offset], [Allow, Track, Allow], Memory,     "a mapped file is used without calls").except(exceptions::MMAP),
    row( 10, Mprotect,             &[Address, Length, Mode],                  [Allow, Allow, Allow], Memory,     "the checkpoint holds it").except(exceptions::MPROTECT),
    row( 11, Munmap,               &[Address, Length],                        [Allow, Allow, Allow], Plain,      "the checkpoint holds it"),
    row( 12, Brk,                  &[Address],                                [Allow, Allow, Allow], Plain,      "the checkpoint holds it"),
    row( 25, Mremap,               &[Address, Length, Length, Flags, Address], [Allow, Allow, Allow], Plain,      "the checkpoint holds it"),
    row( 26, Msync,                &[Address, Length, Flags],                 [Allow, Wait, Track],  Durability, "makes durable: never what is undecided"),
    row( 27, Mincore,              &[Address, Length, Out],                   [Allow, Allow, Allow], Plain,      "observes a cache, which is no part of any state"),
    row( 28, Madvise,              &[Address, Length, Command],               [Allow, Allow, Allow], Plain,      "the checkpoint holds it").except(exceptions::MADVISE),
    row(149, Mlock,                &[Address, Length],                        [Allow, Wait, Allow],  Plain,      "a lock is not rolled back; as much as a limit allows, by root all"),
    row(150, Munlock,              &[Address, Length],                        [Allow, Wait, Allow],  Plain,      "a lock is not rolled back"),
    row(151, Mlockall,             &[Flags],                                  [Allow, Wait, Allow],  Plain,      "a lock is not rolled back; as much as a limit allows, by root all"),
    row(152, Munlockall,           &[],                                       [Allow, Wait, Allow],  Plain,      "a lock is not rolled back"),
    row(154, ModifyLdt,            &[Command, InOut, Length],                 [Allow, Wait, Allow],  Plain,      "segments of this process, not rolled back"),
    row(216, RemapFilePages,       &[Address, Length, Mode, Offset, Flags],   [Allow, Wait, Allow],  Plain,      "only for shared maps, which are not rolled back"),
    row(237, Mbind,                &[Address, Length, Mode, In, Length, Flags], [Allow, Wait, Allow],  Plain,      "a memory policy is not rolled back"),
    row(238, SetMempolicy,         &[Mode, In, Length],                       [Allow, Wait, Allow],  Plain,      "a memory policy is not rolled back"),
    row(239, GetMempolicy,         &[Out, Out, Length, Address, Flags],       [Allow, Allow, Allow], Plain,      "where pages lie shows nothing"),
    row(256, MigratePages,         &[Pid, Length, In, In],                    [Allow, Allow, Allow], Plain,      "where pages lie shows nothing; further nodes take a right that the domain lacks"),
    row(279, MovePages,            &[Pid, Length, In, In, Out, Flags],        [Allow, Allow, Allow], Plain,      "where pages lie shows nothing"),
    row(323, Userfaultfd,          &[Flags],                                  [Allow, Wait, Allow],  Plain,      "faults that a rollback would trip over; the kernel's need a missing right"),
    row(324, Membarrier,           &[Command, Flags, Integer],                [Allow, Allow, Allow], Plain,      "orders memory and changes nothing"),
    row(325, Mlock2,               &[Address, Length, Flags],                 [Allow, Wait, Allow],  Plain,      "a lock is not rolled back; as much as a limit allows, by root all"),
    row(329, PkeyMprotect,         &[Address, Length, Mode, Integer],         [Allow, Wait, Allow],  Plain,      "protection keys are not rolled back"),
    row(330, PkeyAlloc,            &[Flags, Mode],                            [Allow, Wait, Allow],  Plain,      "protection keys are not rolled back"),
    row(331, PkeyFree,             &[Integer],                                [Allow, Wait, Allow],  Plain,      "protection keys are not rolled back"),
    row(440, ProcessMadvise,       &[Fd, InVectors, Length, Command, Flags],  [Allow, Wait, Allow],  Plain,      "acts on the memory of another process, which takes a right that the domain lacks"),
    row(447, MemfdSecret,          &[Flags],                                  [Allow, Wait, Allow],  Plain,      "memory that no checkpoint can read"),
    row(448, ProcessMrelease,      &[Fd, Flags],                              [Allow, Wait, Allow],  Plain,      "acts on the memory of another process"),
    row(450, SetMempolicyHomeNode, &[Address, Length, Integer, Flags],        [Allow, Wait, Allow],  Plain,      "a memory policy is not rolled back"),
    row(453, MapShadowStack,       &[Address, Length, Flags],                 [Allow, Wait, Allow],  Plain,      "a shadow stack is not rolled back"),
    row(462, Mseal,                &[Address, Length, Flags],                 [Allow, Wait, Allow],  Plain,      "sealed maps cannot be put back"),
];
