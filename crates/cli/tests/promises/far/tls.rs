//! Mounts without ssh.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use surmise_testkit::{Facets, Run, TreeSnapshot, assert_same_tree, copied_binary, skip, watchdog};

use super::Far;
use super::programs::{WORK, done_elsewhere, on_there};
use crate::setting::{as_each_user, as_own_user};

/// A server of `export` that listens on this machine, until the value is dropped.
struct Listening {
    child: Child,
    port: u16,
}

impl Drop for Listening {
    fn drop(&mut self) {
        // It may have been killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Far<'_> {
    /// Makes certificates in `certificates/`, and puts what this user needs where it is looked for.
    fn certify(&self) -> String {
        let name = self.setting.plain(&["id", "-un"]).outcome();
        let name = name.stdout.trim().to_owned();
        let words = [
            "certificates",
            "certificates",
            "--host",
            "localhost",
            "--user",
        ];
        self.succeed(&[&words[..], &[&name, "--user", "stranger"]].concat());
        self.sh(&format!(
            "mkdir -p \"$HOME/.config\" && cp -r certificates/{name} \"$HOME/.config/surmise\""
        ));
        name
    }

    /// Serves as this user, on a port or on any.
    fn listen(&self, user: &str, port: u16) -> Listening {
        let at = format!("localhost:{port}");
        let pair = format!("{user}={user}");
        let mut command = Command::new(copied_binary(&self.setting.scratch));
        command
            .args(["serve", "export", "--listen", &at, "--user", &pair])
            .args(["--lease", "5", "--certificate", "certificates/server.crt"])
            .args([
                "--key",
                "certificates/server.key",
                "--clients",
                "certificates/ca.crt",
            ])
            .current_dir(self.setting.scratch.work())
            .stderr(Stdio::piped());
        if let Some(user) = self.setting.user {
            command.uid(user.uid).gid(user.gid);
        }
        let mut child = command.spawn().expect("start the server");
        let mut said = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        let port = loop {
            let line = said.next().expect("it listens").expect("text");
            if let Some((_, port)) = line.rsplit_once(':')
                && line.contains("listening on")
            {
                break port.parse().expect("a number");
            }
        };
        // It must not wait for a reader of what it says.
        std::thread::spawn(move || said.for_each(drop));
        Listening { child, port }
    }
}

#[test]
fn s55_what_programs_do_on_a_mount_by_tls_is_what_they_do_on_a_directory() {
    as_each_user(|setting| {
        let Some(far) = Far::new(setting) else {
            return;
        };
        let (plain, expected) = done_elsewhere(setting);
        let user = far.certify();
        let server = far.listen(&user, 0);
        let source = format!("surmise://localhost:{}/export", server.port);
        let mount = far.mount_from(&source, "there");
        far.sh(&on_there(WORK)).assert_stdout(&expected.stdout);
        far.succeed(&["mounts"]).assert_stdout_contains(&source);
        mount.unmount();
        drop(server);
        far.sh("rm -rf export/.surmise");
        let wanted = TreeSnapshot::of(plain.scratch.path("there"));
        let facets = Facets::SAME_RESULT;
        assert_same_tree(&wanted, &TreeSnapshot::of(far.export()), facets);
    });
}

#[test]
fn s57_a_mount_by_tls_goes_on_when_the_server_is_back() {
    as_own_user(|setting| {
        let Some(far) = Far::new(setting) else {
            return;
        };
        let user = far.certify();
        let mut server = far.listen(&user, 0);
        let source = format!("surmise://localhost:{}", server.port);
        let mount = far.mount_from(&source, "there");
        for round in 0..4 {
            let file = mount.path().join(round.to_string());
            fs::write(&file, round.to_string()).expect("write");
            let port = server.port;
            // By SIGKILL.
            drop(server);
            server = far.listen(&user, port);
            fs::File::open(&file)
                .and_then(|file| file.sync_all())
                .expect("sync");
        }
        mount.unmount();
        for round in 0..4 {
            let file = far.export().join(round.to_string());
            assert_eq!(fs::read_to_string(file).expect("read"), round.to_string());
        }
    });
}

#[test]
fn a_server_without_good_files_says_what_to_do() {
    as_each_user(|setting| {
        let Some(far) = Far::new(setting) else {
            return;
        };
        let user = far.certify();
        let pair = format!("{user}={user}");
        let own = ["--user", &pair];
        let good = ["server.crt", "server.key", "ca.crt"];
        let failed = |files: [&str; 3], more: &[&str], text: &str| {
            let [certificate, key, clients] = files.map(|file| format!("certificates/{file}"));
            let mut words = vec!["serve", "export", "--listen", "localhost:0"];
            words.extend(["--certificate", &certificate, "--key", &key]);
            words.extend(["--clients", &clients]);
            words.extend(more);
            let outcome = setting.surmise(&words).in_place().outcome();
            outcome.assert_code(1).assert_stderr_contains(text);
        };
        failed(["no.crt", good[1], good[2]], &own, "no.crt: No such file");
        failed(
            ["ca.key", good[1], good[2]],
            &own,
            "there is no certificate in it",
        );
        failed(
            [good[0], "ca.key", good[2]],
            &own,
            "is not the certificate of the key",
        );
        failed(good, &["--user", "a=b=c"], "cannot act for b=c");
        let other = if setting.is_root() { "daemon" } else { "root" };
        let another = ["--user", &format!("x={other}")];
        failed(good, &another, "start another one as");
        let odd = [&own[..], &["--export", "a/b"]].concat();
        failed(good, &odd, "name of an export");
        let elsewhere = [&own[..], &["--listen", "192.0.2.1"]].concat();
        failed(good, &elsewhere, "an address of this machine");
    });
}

/// S61.
#[test]
fn a_mount_by_tls_that_fails_says_what_to_do() {
    as_each_user(|setting| {
        let Some(far) = Far::new(setting) else {
            return;
        };
        let user = far.certify();
        let server = far.listen(&user, 0);
        let here = format!("surmise://localhost:{}", server.port);
        let failed = |options: &[&str], source: &str, text: &str| {
            let outcome = far.try_mount(options, source, "there");
            outcome
                .assert_code(1)
                .assert_stderr_contains("Hint: ")
                .assert_stderr_contains(text);
        };
        failed(&[], &format!("{here}/other"), "/export");
        failed(&[], "surmise://localhost:1/x", "nothing listens on port 1");
        failed(
            &[],
            "surmise://nowhere.invalid/",
            "no address of nowhere.invalid",
        );
        let by_address = format!("surmise://127.0.0.1:{}", server.port);
        failed(&[], &by_address, "it is for");
        let stranger = [
            "--certificate",
            "certificates/stranger/client.crt",
            "--key",
            "certificates/stranger/client.key",
        ];
        failed(&stranger, &here, &format!("--user stranger={user}"));
        far.sh("chmod 644 certificates/stranger/client.key");
        failed(&stranger, &here, "chmod 600");
        let authority = ["--ca", "certificates/stranger/client.crt"];
        failed(&authority, &here, "--ca names");
        far.sh("rm -r \"$HOME/.config/surmise\"");
        failed(&[], &here, "`surmise certificates`");
        let named = far.try_mount(&[], "surmise://me@localhost/", "there");
        named
            .assert_code(2)
            .assert_stderr_contains("the certificate names the user");
    });
}

/// As a line of fstab has it: root mounts, and an ordinary user works there.
#[test]
fn a_mount_of_root_shows_the_files_as_a_users() {
    as_each_user(|setting| {
        let (Some(user), Some(far)) = (setting.user, Far::new(setting)) else {
            return;
        };
        let name = far.certify();
        let server = far.listen(&name, 0);
        let own = setting.scratch.home().join(".config/surmise");
        let [certificate, key, authority] =
            ["client.crt", "client.key", "ca.crt"].map(|file| own.join(file).display().to_string());
        let source = format!("surmise://localhost:{}", server.port);
        setting.scratch.directory("there");
        let words = ["mount", "--owner", &name, "--certificate", &certificate];
        let more = ["--key", &key, "--ca", &authority, &source, "there"];
        let by_root = |words: &[&str]| Run::surmise(&setting.scratch, words.iter().copied());
        by_root(&[&words[..], &more].concat())
            .outcome()
            .assert_success();
        far.sh("echo text > there/file && chmod 600 there/file && cat there/file")
            .assert_stdout("text\n");
        let shown = setting
            .plain(&["stat", "-c", "%u %g", "there/file"])
            .in_place();
        let numbers = format!("{} {}\n", user.uid, user.gid);
        shown.outcome().assert_stdout(&numbers);
        by_root(&["umount", "there"]).outcome().assert_success();
        let made = fs::metadata(far.export().join("file")).expect("it was made");
        assert_eq!((made.uid(), made.gid()), (user.uid, user.gid));
    });
}

/// What mount(8) does with fstab(5). The arguments are the program, the port, and the user.
const FSTAB: &str = r#"
mkdir -p helpers by-tls by-ssh read-only bad
ln -s "$1" helpers/mount.surmise
mount -t overlay -o lowerdir="$PWD/helpers":/usr/sbin overlay /usr/sbin || exit 77
sed '/connection/d' ssh > quiet-ssh
chmod 755 quiet-ssh
own=certificate=$PWD/certificates/$3/client.crt,key=$PWD/certificates/$3/client.key,ca=$PWD/certificates/ca.crt
here=surmise://localhost:$2/export
cat > fstab <<END
$here $PWD/by-tls surmise _netdev,soft=1m,cache=64M,$own 0 0
near:$PWD/export $PWD/by-ssh surmise ssh=$PWD/quiet-ssh,server_command=$1,noauto,user,exec 0 0
$here/ $PWD/read-only surmise ro,noexec,nofail,x-systemd.automount,$own 0 0
END
mount -a -T fstab
echo one > by-tls/file
cat read-only/file
! echo two > read-only/file
# What is mounted stays as it is.
mount -a -T fstab
findmnt -n -t fuse.surmise -o TARGET | grep -c "^$PWD/"
mount -T fstab "$PWD/by-ssh"
cat by-ssh/file
findmnt -n -o FSTYPE,SOURCE by-tls
findmnt -n -o OPTIONS read-only | tr , '\n' | grep -x -e ro -e noexec
echo "$here $PWD/bad surmise gid=7 0 0" > fstab
code=0
mount -a -T fstab || code=$?
echo $code
code=0
mount -t surmise -o "$own" "surmise://localhost:1/x" bad || code=$?
echo $code
umount by-tls read-only by-ssh
! mountpoint -q by-tls
"#;

#[test]
fn mounts_of_fstab_are_mounted() {
    as_own_user(|setting| {
        let Some(far) = Far::new(setting) else {
            return;
        };
        if !setting.is_root() {
            return skip("fstab is root's");
        }
        let user = far.certify();
        let server = far.listen(&user, 0);
        let program = copied_binary(&setting.scratch).display().to_string();
        let port = server.port.to_string();
        let inside = [
            "unshare",
            "-m",
            "--propagation",
            "private",
            "sh",
            "-ec",
            FSTAB,
        ];
        let words = [&inside[..], &["sh", &program, &port, &user]].concat();
        let outcome = setting.plain(&words).in_place().outcome();
        if outcome.code == 77 {
            return skip("no overlayfs, by which mount(8) would find its helper");
        }
        outcome.assert_success();
        let source = format!("surmise://localhost:{port}/export");
        let kind = format!("fuse.surmise {source}");
        outcome.assert_lines(&["one", "2", "one", &kind, "ro", "noexec", "32", "32"]);
        outcome
            .assert_stderr_contains("the option gid=7 is not known")
            .assert_stderr_contains("nothing listens on port 1");
        // Each goes on until all is in the directory.
        let own = setting.scratch.work().display().to_string();
        watchdog::until("the mounts end", watchdog::LIMIT, || {
            !far.succeed(&["mounts"]).stdout.contains(&own)
        });
    });
}
