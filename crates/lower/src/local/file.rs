//! Open files of this host.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;

use rustix::fs::SeekFrom;
use rustix::io::Errno;

use super::directory::attributes_of;
use crate::interface::OpenFile;
use crate::types::Attributes;

impl OpenFile for File {
    fn attributes(&self) -> io::Result<Attributes> {
        attributes_of(self.as_fd())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        FileExt::read_at(self, buffer, offset)
    }

    fn next_data(&self, offset: u64) -> io::Result<Option<u64>> {
        seek(self, SeekFrom::Data(offset))
    }

    fn next_hole(&self, offset: u64) -> io::Result<Option<u64>> {
        seek(self, SeekFrom::Hole(offset))
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.as_fd())
    }
}

fn seek(file: &File, to: SeekFrom) -> io::Result<Option<u64>> {
    match rustix::fs::seek(file, to) {
        Err(Errno::NXIO) => Ok(None),
        found => Ok(Some(found?)),
    }
}
