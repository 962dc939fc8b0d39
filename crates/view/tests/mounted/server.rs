//! Serves the view of a real tree, and commits it while the client stands still.

use std::ffi::CString;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::ops::ControlFlow;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;

use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use surmise_changes::Changes;
use surmise_commit::{Report, Request};
use surmise_testkit::{Facets, TreeSnapshot, assert_same_tree, differences, watchdog};
use surmise_view::{Notifier, Server, View, ViewConfig};

use crate::PATIENCE;

/// What the client writes through mappings.
const DIRTY: &[u8] = b"through the mapping";
/// Bytes of the file that is mapped.
const PAGES: usize = 3 * 4096;
/// Names in a large directory.
const MANY: usize = 2000;

pub struct Stage {
    real: PathBuf,
    state: PathBuf,
    pub view: View,
    /// Where it is mounted.
    pub point: PathBuf,
}

pub fn run(place: &Path) {
    serve(place, include_str!("client.py"), false, direct);
}

/// Serves a view to a client that runs this program, while `direct` says what happens.
pub fn serve(
    place: &Path,
    program: &str,
    speculates: bool,
    direct: impl FnOnce(&Stage, &Notifier, Client) + Send,
) {
    let real = place.join("real");
    plant(&real);
    let state = place.join("state");
    let config = ViewConfig {
        speculates,
        ..ViewConfig::new(state.clone(), real.clone())
    };
    let view = View::open(config).unwrap();
    let point = place.join("mount");
    let server = Server::new(mount_device(&point), 2);
    let stage = Stage {
        real,
        state,
        view,
        point,
    };
    let notifier = server.notifier();
    thread::scope(|scope| {
        let serving = scope.spawn(|| server.serve(&stage.view));
        let client = Client::start(place, program);
        let ended = scope.spawn(|| direct(&stage, &notifier, client)).join();
        unmount(&stage.point, UnmountFlags::DETACH).unwrap();
        serving.join().unwrap().unwrap();
        if let Err(panic) = ended {
            std::panic::resume_unwind(panic);
        }
    });
}

/// The play: what happens outside while the client stands still.
fn direct(stage: &Stage, notifier: &Notifier, mut client: Client) {
    client.hear("holds");
    let before = TreeSnapshot::of(&stage.real);
    let is_passed = commit(stage, notifier);
    assert_eq!(is_passed, may_be_passed(), "on this kernel");
    let after = TreeSnapshot::of(&stage.real);
    assert!(!differences(&before, &after, Facets::EXACT).is_empty());
    let mapped = fs::read(stage.real.join("mapped")).unwrap();
    assert_eq!(mapped[..DIRTY.len()], *DIRTY, "written through a mapping");
    assert_eq!(
        fs::read(stage.real.join("made/new")).unwrap()[..4],
        *b"new "
    );
    client.say("committed");
    client.hear("changed again");
    // Nothing of the second consent is outside.
    let committed = TreeSnapshot::of(&stage.real);
    assert_eq!(fs::read(stage.real.join("old")).unwrap(), b"old data, more");
    assert!(!stage.real.join("made/deep/second").exists());
    client.say("look");
    client.hear("looked");
    assert_same_tree(&committed, &TreeSnapshot::of(&stage.real), Facets::EXACT);
    assert_eq!(commit(stage, notifier), is_passed);
    assert_eq!(fs::read(stage.real.join("old")).unwrap(), b"OLD data, more");
    assert_eq!(
        fs::read(stage.real.join("made/deep/second")).unwrap(),
        b"second"
    );
    let mapped = fs::read(stage.real.join("mapped")).unwrap();
    assert_eq!(
        mapped[4096..4096 + DIRTY.len()],
        *DIRTY,
        "through the same mapping"
    );
    client.say("committed again");
    client.hear("sees");
    // S15: what was the domain's is everybody's now.
    fs::write(stage.real.join("made/absent"), "here").unwrap();
    fs::write(stage.real.join("made/new"), "other and longer than it was").unwrap();
    fs::write(stage.real.join("made/log"), "log of others").unwrap();
    fs::write(stage.real.join("made/plain"), "plain of others").unwrap();
    fs::remove_file(stage.real.join("made/goes")).unwrap();
    fs::rename(stage.real.join("made/moves"), stage.real.join("made/moved")).unwrap();
    client.say(match is_passed {
        true => "changed outside what is passed through",
        false => "changed outside",
    });
    client.hear("seen");
    client.end();
    notifier.prepare_commit(&stage.view).unwrap();
    notifier.go_on(&stage.view).unwrap();
    let paths: Vec<_> = changes(stage).iter().map(|one| one.path.clone()).collect();
    let still = if is_passed { &PASSED[..] } else { &[] };
    assert_eq!(paths, still.iter().map(PathBuf::from).collect::<Vec<_>>());
}

fn changes(stage: &Stage) -> Changes {
    Changes::of(&surmise_view::load(&stage.state).unwrap())
}

/// Whether this process may have files passed through: root of the machine, since Linux 6.9.
fn may_be_passed() -> bool {
    let release = rustix::system::uname();
    let release = release.release().to_string_lossy();
    let mut numbers = release
        .split(['.', '-'])
        .map(|part| part.parse().unwrap_or(0));
    let version: (u32, u32) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let ids = fs::read_to_string("/proc/self/uid_map").unwrap();
    version >= (6, 9) && ids.contains("4294967295")
}

/// Files that the client made as it opened them, and has open all the time.
const PASSED: [&str; 2] = ["/made/log", "/made/new"];

/// S30: commits; true when the domain has got back the files whose writes are passed through.
fn commit(stage: &Stage, notifier: &Notifier) -> bool {
    notifier.prepare_commit(&stage.view).unwrap();
    let map = surmise_view::load(&stage.state).unwrap();
    let request = Request {
        name: "t",
        directory: &stage.state,
        map: &map,
        root: &stage.real,
        keep: None,
    };
    let report = surmise_commit::commit(&request, &mut |_| ControlFlow::Continue(()));
    assert_eq!(report.unwrap(), Report::default());
    stage.view.rebase().unwrap();
    surmise_commit::forget(&stage.state).unwrap();
    notifier.go_on(&stage.view).unwrap();
    stage.view.sweep().unwrap();
    let paths: Vec<_> = changes(stage).iter().map(|one| one.path.clone()).collect();
    assert!(
        paths.is_empty() || paths == PASSED.map(Path::new),
        "{paths:?}"
    );
    !paths.is_empty()
}

fn plant(real: &Path) {
    let write = |name: &str, data: &[u8]| fs::write(real.join(name), data).unwrap();
    write("old", b"old data");
    write("gone", b"gone data");
    write("gone.changed", b"gone data");
    write("replaced", b"replaced data");
    write("mapped", &vec![b'm'; PAGES]);
    write("pair", b"pair data");
    fs::hard_link(real.join("pair"), real.join("twin")).unwrap();
    for directory in ["tree/in", "removed", "many"] {
        fs::create_dir_all(real.join(directory)).unwrap();
    }
    write("tree/in/file", b"in the tree");
    symlink("nowhere", real.join("lost.link")).unwrap();
    for number in 0..MANY {
        write(&format!("many/{number}"), b"");
    }
}

fn mount_device(point: &Path) -> OwnedFd {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let device = rustix::fs::open("/dev/fuse", flags, Mode::empty()).unwrap();
    let options = format!(
        "fd={},rootmode=40000,user_id=0,group_id=0,allow_other,default_permissions",
        device.as_raw_fd()
    );
    let options = CString::new(options).unwrap();
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    mount(
        "surmise",
        point,
        "fuse.surmise",
        flags,
        Some(options.as_c_str()),
    )
    .unwrap();
    device
}

/// The client, and the pipes by which the two take turns.
pub struct Client {
    child: Child,
    words: BufReader<ChildStdout>,
    ears: ChildStdin,
}

impl Client {
    fn start(place: &Path, program: &str) -> Self {
        // A task that maps files is a Python program, for it needs no unsafe code.
        let mut child = Command::new("timeout")
            .arg(PATIENCE.as_secs().to_string())
            .args(["python3", "-c", program])
            .arg(place.join("mount"))
            .arg(MANY.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Self {
            words: BufReader::new(child.stdout.take().unwrap()),
            ears: child.stdin.take().unwrap(),
            child,
        }
    }

    /// The number of its process, once it has said something: that of the `timeout` around it is
    /// another.
    pub fn process(&self) -> u32 {
        let timeout = self.child.id();
        let path = format!("/proc/{timeout}/task/{timeout}/children");
        fs::read_to_string(path).unwrap().trim().parse().unwrap()
    }

    /// Waits for the client's word. The client bounds its life by itself.
    pub fn hear(&mut self, wanted: &str) {
        let mut said = String::new();
        loop {
            let mut line = String::new();
            let length = self.words.read_line(&mut line).unwrap();
            if line.trim_end() == wanted {
                return;
            }
            assert_ne!(length, 0, "the client ended before {wanted:?}:\n{said}");
            said.push_str(&line);
        }
    }

    pub fn say(&mut self, word: &str) {
        writeln!(self.ears, "{word}").unwrap();
    }

    pub fn end(self) {
        let Self { child, words, ears } = self;
        drop((words, ears));
        assert!(
            watchdog::wait(child, "the client", PATIENCE)
                .status
                .success()
        );
    }
}
