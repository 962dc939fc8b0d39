//! Flags inside requests and replies. Those of the handshake are [`crate::Capabilities`].

/// `fuse_setattr_in.valid`: which fields a SETATTR changes.
pub(crate) mod fattr {
    pub(crate) const MODE: u32 = 1 << 0;
    pub(crate) const UID: u32 = 1 << 1;
    pub(crate) const GID: u32 = 1 << 2;
    pub(crate) const SIZE: u32 = 1 << 3;
    pub(crate) const ATIME: u32 = 1 << 4;
    pub(crate) const MTIME: u32 = 1 << 5;
    /// The handle is valid (ftruncate and its like).
    pub(crate) const FH: u32 = 1 << 6;
    /// Set together with `ATIME`: the server's own clock decides.
    pub(crate) const ATIME_NOW: u32 = 1 << 7;
    pub(crate) const MTIME_NOW: u32 = 1 << 8;
    pub(crate) const CTIME: u32 = 1 << 10;
    pub(crate) const KILL_SUIDGID: u32 = 1 << 11;
}

/// `fuse_open_out.open_flags`: how the kernel treats an open file.
pub(crate) mod fopen {
    pub(crate) const DIRECT_IO: u32 = 1 << 0;
    pub(crate) const KEEP_CACHE: u32 = 1 << 1;
    pub(crate) const NONSEEKABLE: u32 = 1 << 2;
    pub(crate) const CACHE_DIR: u32 = 1 << 3;
    pub(crate) const NOFLUSH: u32 = 1 << 5;
    pub(crate) const PARALLEL_DIRECT_WRITES: u32 = 1 << 6;
    /// Reads, writes and mappings go to the file that `backing_id` names.
    pub(crate) const PASSTHROUGH: u32 = 1 << 7;
}

/// `fuse_getattr_in.getattr_flags`: the handle is valid.
pub(crate) const GETATTR_FH: u32 = 1 << 0;

/// `fuse_open_in.open_flags`, `fuse_create_in.open_flags`: drop set-id bits while truncating.
pub(crate) const OPEN_KILL_SUIDGID: u32 = 1 << 0;

/// `fuse_write_in.write_flags`: a page written back; the handle is a guess.
pub(crate) const WRITE_CACHE: u32 = 1 << 0;

/// `fuse_write_in.write_flags`: drop set-id bits.
pub(crate) const WRITE_KILL_SUIDGID: u32 = 1 << 2;

/// `fuse_release_in.release_flags`: flock(2) was called, and its lock goes.
pub(crate) const RELEASE_FLOCK_UNLOCK: u32 = 1 << 1;

/// `fuse_lk_in.lk_flags`: flock(2), not fcntl(2).
pub(crate) const LK_FLOCK: u32 = 1 << 0;

/// `fuse_fsync_in.fsync_flags`: fdatasync.
pub(crate) const FSYNC_FDATASYNC: u32 = 1 << 0;

/// `fuse_setxattr_in.setxattr_flags`: an ACL changes the mode; drop the set-group-id bit.
pub(crate) const SETXATTR_ACL_KILL_SGID: u32 = 1 << 0;

/// `fuse_notify_inval_entry_out.flags`: the name expires and is asked for again, but stays.
pub(crate) const EXPIRE_ONLY: u32 = 1 << 0;

/// `fuse_statx.mask`: `STATX_BASIC_STATS` and `STATX_BTIME` of linux/stat.h.
pub(crate) const STATX_BASIC_STATS: u32 = 0x7ff;
pub(crate) const STATX_BTIME: u32 = 0x800;
