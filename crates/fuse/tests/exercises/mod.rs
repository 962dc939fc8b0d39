//! What the client does on the mount: ordinary calls whose results only a working protocol gives.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::Path;
use std::thread;
use std::time::{Duration, SystemTime};

use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, RenameFlags, StatxFlags, XattrFlags, linkat, open, renameat_with,
    statfs, statx,
};
use rustix::io::Errno;
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

use crate::memory::{BORN_S, INO_OFFSET};

/// Leaves the mount empty.
pub fn all(root: &Path) {
    for exercise in [
        attributes,
        data,
        large_data,
        directories,
        renames,
        links,
        xattrs,
        temporary_file,
        set_id_bits,
        copies,
        refusals,
    ] {
        exercise(root);
        assert_eq!(
            fs::read_dir(root).unwrap().count(),
            0,
            "an exercise tidies up"
        );
    }
}

fn attributes(root: &Path) {
    assert_eq!(
        fs::metadata(root).unwrap().ino(),
        1 + INO_OFFSET,
        "a node is no inode number"
    );
    let file = root.join("file");
    fs::write(&file, "12345").unwrap();
    let metadata = fs::metadata(&file).unwrap();
    assert!(metadata.ino() > INO_OFFSET);
    assert_eq!((metadata.len(), metadata.nlink()), (5, 1));
    let mask = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    let wide = statx(CWD, &file, AtFlags::STATX_FORCE_SYNC, mask).unwrap();
    assert_eq!((wide.stx_btime.tv_sec, wide.stx_btime.tv_nsec), (BORN_S, 5));
    assert_eq!(wide.stx_size, 5);

    fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
    let early = SystemTime::UNIX_EPOCH - Duration::from_secs(100);
    File::options()
        .write(true)
        .open(&file)
        .unwrap()
        .set_modified(early)
        .unwrap();
    let metadata = fs::metadata(&file).unwrap();
    assert_eq!(metadata.mode(), 0o100_640);
    assert_eq!(metadata.mtime(), -100);

    let statistics = statfs(root).unwrap();
    assert_eq!((statistics.f_blocks, statistics.f_frsize), (77, 512));
    fs::remove_file(&file).unwrap();
}

fn data(root: &Path) {
    let path = root.join("file");
    let mut file = File::create_new(&path).unwrap();
    file.write_all(b"hello world").unwrap();
    file.write_all_at(b"W", 6).unwrap();
    file.set_len(20).unwrap();
    file.sync_all().unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"hello World\0\0\0\0\0\0\0\0\0");
    let hole = rustix::fs::seek(&file, rustix::fs::SeekFrom::Hole(0)).unwrap();
    assert_eq!(hole, 20);
    drop(file);

    let mut appended = OpenOptions::new()
        .append(true)
        .read(true)
        .open(&path)
        .unwrap();
    appended.write_all(b"!").unwrap();
    let mut tail = String::new();
    appended.seek(SeekFrom::Start(20)).unwrap();
    appended.read_to_string(&mut tail).unwrap();
    assert_eq!(tail, "!");
    File::create(&path).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"", "open truncated");
    fs::remove_file(&path).unwrap();
}

/// Several requests of the largest size, with an odd rest.
fn large_data(root: &Path) {
    let path = root.join("large");
    let written: Vec<u8> = (0..(5 << 20) + 123u32)
        .map(|at| (at ^ (at >> 11)) as u8)
        .collect();
    fs::write(&path, &written).unwrap();
    let direct = OFlags::DIRECT.bits().cast_signed();
    let file = File::options()
        .read(true)
        .custom_flags(direct)
        .open(&path)
        .unwrap();
    let mut uncached = vec![0; written.len()];
    file.read_exact_at(&mut uncached, 0).unwrap();
    assert!(uncached == written);
    assert!(fs::read(&path).unwrap() == written);
    fs::remove_file(&path).unwrap();
}

/// More names than fit one reply.
fn directories(root: &Path) {
    let directory = root.join("directory");
    fs::create_dir(&directory).unwrap();
    let names: BTreeSet<String> = (0..500)
        .map(|at| format!("a-longer-name-{at:0100}"))
        .collect();
    for name in &names {
        fs::write(directory.join(name), name).unwrap();
    }
    for _ in 0..2 {
        let listed = fs::read_dir(&directory).unwrap().map(|entry| {
            let entry = entry.unwrap();
            assert!(entry.file_type().unwrap().is_file());
            assert_eq!(entry.metadata().unwrap().len(), 114);
            entry.file_name().into_string().unwrap()
        });
        assert_eq!(listed.collect::<BTreeSet<_>>(), names);
    }
    let refused = fs::remove_dir(&directory).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::DirectoryNotEmpty);
    for name in &names {
        fs::remove_file(directory.join(name)).unwrap();
    }
    fs::remove_dir(&directory).unwrap();
}

fn renames(root: &Path) {
    let [a, b] = ["a", "b"].map(|name| root.join(name));
    fs::write(&a, "a").unwrap();
    fs::write(&b, "b").unwrap();
    let refused = renameat_with(CWD, &a, CWD, &b, RenameFlags::NOREPLACE);
    assert_eq!(refused, Err(Errno::EXIST));
    renameat_with(CWD, &a, CWD, &b, RenameFlags::EXCHANGE).unwrap();
    assert_eq!(fs::read(&a).unwrap(), b"b");
    fs::rename(&a, &b).unwrap();
    assert_eq!(fs::read(&b).unwrap(), b"b");
    assert!(!a.exists());
    fs::remove_file(&b).unwrap();
}

fn links(root: &Path) {
    let [file, hard, soft] = ["file", "hard", "soft"].map(|name| root.join(name));
    fs::write(&file, "x").unwrap();
    fs::hard_link(&file, &hard).unwrap();
    symlink("file", &soft).unwrap();
    assert_eq!(fs::metadata(&file).unwrap().nlink(), 2);
    assert_eq!(fs::read_link(&soft).unwrap(), Path::new("file"));
    assert_eq!(
        fs::metadata(&soft).unwrap().ino(),
        fs::metadata(&hard).unwrap().ino()
    );
    for path in [&file, &hard, &soft] {
        fs::remove_file(path).unwrap();
    }
}

fn xattrs(root: &Path) {
    let file = root.join("file");
    fs::write(&file, "").unwrap();
    let get = |name, room| {
        let mut buffer = vec![0; room];
        let length = rustix::fs::getxattr(&file, name, &mut buffer)?;
        buffer.truncate(length);
        Ok(buffer)
    };
    rustix::fs::setxattr(&file, "user.one", b"value", XattrFlags::empty()).unwrap();
    rustix::fs::setxattr(&file, "user.two", &[7; 5000], XattrFlags::empty()).unwrap();
    assert_eq!(get("user.one", 64).unwrap(), b"value");
    assert_eq!(get("user.two", 65536).unwrap(), [7; 5000]);
    assert_eq!(get("user.one", 2), Err(Errno::RANGE));
    assert_eq!(get("user.three", 64), Err(Errno::NODATA));
    let size = rustix::fs::getxattr_query(&file, "user.two").unwrap();
    assert_eq!(size, 5000);
    let mut list = [0; 64];
    let length = rustix::fs::listxattr(&file, &mut list).unwrap();
    assert_eq!(list[..length], *b"user.one\0user.two\0");
    rustix::fs::removexattr(&file, "user.one").unwrap();
    assert_eq!(get("user.one", 64), Err(Errno::NODATA));
    fs::remove_file(&file).unwrap();
}

fn temporary_file(root: &Path) {
    let unnamed = open(
        root,
        OFlags::TMPFILE | OFlags::RDWR,
        Mode::from_raw_mode(0o600),
    )
    .unwrap();
    let file = File::from(unnamed);
    file.write_all_at(b"kept", 0).unwrap();
    let named = root.join("named");
    linkat(&file, "", CWD, &named, AtFlags::EMPTY_PATH).unwrap();
    assert_eq!(fs::read(&named).unwrap(), b"kept");
    assert_eq!(fs::metadata(&named).unwrap().nlink(), 1);
    fs::remove_file(&named).unwrap();
}

/// The kernel leaves dropping set-id bits to the server and tells it when.
fn set_id_bits(root: &Path) {
    let path = root.join("program");
    fs::write(&path, "x").unwrap();
    let set = || fs::set_permissions(&path, Permissions::from_mode(0o4755)).unwrap();
    let write = || fs::write(&path, "y").unwrap();
    let overwrite = || {
        File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .write_all_at(b"z", 0)
            .unwrap();
    };
    let kept = |mode| {
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, mode);
    };
    // Who has CAP_FSETID may keep them, but the kernel means that of the initial user namespace.
    let initial = fs::read_to_string("/proc/self/uid_map").unwrap();
    let initial = initial.split_whitespace().eq(["0", "0", "4294967295"]);
    set();
    write();
    overwrite();
    kept(if initial { 0o4755 } else { 0o755 });
    for change in [&write as &(dyn Fn() + Sync), &overwrite] {
        set();
        without_fsetid(change);
        kept(0o755);
    }
    set();
    rustix::fs::chown(&path, Some(rustix::process::getuid()), None).unwrap();
    kept(0o755);
    fs::remove_file(&path).unwrap();
}

/// Runs on a thread without the capability that keeps set-id bits on a write.
fn without_fsetid(change: &(dyn Fn() + Sync)) {
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut sets = capabilities(None).unwrap();
            sets.effective.remove(CapabilitySet::FSETID);
            set_capabilities(None, sets).unwrap();
            change();
        });
    });
}

fn copies(root: &Path) {
    let [from, to] = ["from", "to"].map(|name| root.join(name));
    fs::write(&from, "0123456789").unwrap();
    let (source, target) = (File::open(&from).unwrap(), File::create(&to).unwrap());
    let copied =
        rustix::fs::copy_file_range(&source, Some(&mut 4), &target, Some(&mut 0), 4).unwrap();
    assert_eq!(copied, 4);
    assert_eq!(fs::read(&to).unwrap(), b"4567");
    fs::remove_file(&from).unwrap();
    fs::remove_file(&to).unwrap();
}

fn refusals(root: &Path) {
    let absent = root.join("absent");
    for _ in 0..2 {
        assert_eq!(
            fs::metadata(&absent).unwrap_err().kind(),
            ErrorKind::NotFound
        );
    }
    fs::write(&absent, "now there").unwrap();
    let file = File::options().write(true).open(&absent).unwrap();
    let allocated = rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, 1);
    assert_eq!(allocated, Err(Errno::OPNOTSUPP), "not implemented");
    let blocks = rustix::fs::ioctl_getflags(&file);
    assert_eq!(blocks, Err(Errno::NOTTY));
    fs::remove_file(&absent).unwrap();
}
