use std::os::unix::fs::{MetadataExt, chown};

use super::*;

fn keeper(directory: &Path) -> Keeper {
    Keeper::new(directory.to_owned(), "host:src", Path::new("/mnt"))
}

#[test]
fn what_killed_mounts_have_left_is_removed_and_what_is_being_written_is_not() {
    let scratch = tempfile::tempdir().expect("a directory");
    let (left, written) = (
        scratch.path().join("7-0.new"),
        scratch.path().join("8-0.new"),
    );
    fs::write(&left, "a part").expect("write");
    let file = File::create(&written).expect("create");
    rustix::fs::flock(&file, FlockOperation::LockExclusive).expect("lock");
    let first = keeper(scratch.path());
    assert!(!left.exists());
    assert!(written.exists());
    // What this process begins is nothing that was left, either.
    let directory = first.directory.as_ref().expect("it is open");
    let (name, begun) = first.begin(directory).expect("begin");
    keeper(scratch.path());
    assert!(scratch.path().join(name).exists());
    drop(begun);
}

#[test]
fn s63_changes_are_kept_only_in_a_directory_of_the_users_own() {
    let scratch = tempfile::tempdir().expect("a directory");
    let own = scratch.path().metadata().expect("it is there").uid();
    let keep = || {
        let nobody = Owners::new(None, own, own);
        let root = ObjectId::found(1).expect("a number");
        let why = ("a test".to_owned(), false);
        keeper(scratch.path()).keep(LostChanges::default(), root, &nobody, why)
    };
    let path = keep().expect("it is this user's");
    assert_eq!(path.metadata().expect("it is there").mode() & 0o777, 0o600);
    assert_eq!(all(scratch.path()).expect("it is this user's").len(), 1);
    if own != 0 {
        // Only root can give it away.
        return;
    }
    chown(scratch.path(), Some(1), None).expect("root may");
    assert!(matches!(keep(), Err(KeepError::Io { .. })));
    let listed = all(scratch.path()).map_err(|error| error.kind());
    assert!(matches!(listed, Err(io::ErrorKind::PermissionDenied)));
}
