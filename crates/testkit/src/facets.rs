//! Which facets of a tree a comparison looks at.

/// Which facets of a tree a comparison looks at. Names, types, contents and link targets always
/// count.
///
/// ```
/// use surmise_testkit::Facets;
///
/// let but_the_change_time = Facets { ctime: false, ..Facets::EXACT };
/// assert!(but_the_change_time.mtime && !but_the_change_time.ctime);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Facets {
    /// Permission bits.
    pub mode: bool,
    /// Owner and group.
    pub owner: bool,
    /// Modification time, in nanoseconds.
    pub mtime: bool,
    /// Change time, in nanoseconds. It cannot be restored, so any touch of an inode shows.
    pub ctime: bool,
    /// Inode number.
    pub inode: bool,
    /// Link count, and which names share an inode.
    pub links: bool,
    /// Extended attributes.
    pub xattrs: bool,
}

impl Facets {
    /// All of them: the tree was not touched at all.
    pub const EXACT: Self = Self {
        mode: true,
        owner: true,
        mtime: true,
        ctime: true,
        inode: true,
        links: true,
        xattrs: true,
    };

    /// What two runs of one program have in common: neither times nor inode numbers.
    pub const SAME_RESULT: Self = Self {
        mtime: false,
        ctime: false,
        inode: false,
        ..Self::EXACT
    };
}
