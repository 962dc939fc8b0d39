//! Where a far directory is, as people write that.

use std::ffi::OsString;
use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

/// A directory of another machine: `[USER@]HOST:DIRECTORY`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The machine, with the user if one was named, as ssh(1) takes it.
    pub host: String,
    /// The directory. A relative one, or an empty one, begins at the home directory there.
    pub directory: String,
}

/// What is no such thing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("HOST:DIRECTORY or USER@HOST:DIRECTORY is expected, as with scp")]
pub struct BadSource;

impl FromStr for Source {
    type Err = BadSource;

    fn from_str(text: &str) -> Result<Self, BadSource> {
        // An IPv6 address stands in brackets, as with scp.
        let end = text.rfind("]:").map(|at| at + 1);
        let (host, directory) = match end {
            Some(end) => (&text[..end], &text[end + 1..]),
            None => text.split_once(':').ok_or(BadSource)?,
        };
        let host: String = host.replace(['[', ']'], "");
        if host.is_empty() || host.starts_with('-') || host.contains('/') || text.contains('\0') {
            return Err(BadSource);
        }
        Ok(Self {
            host,
            directory: directory.to_owned(),
        })
    }
}

impl Display for Source {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.directory)
    }
}

impl Source {
    /// What ssh is to run there: the server, connected to its standard input and output.
    ///
    /// The shell there may be any; it only starts sh. A shell that is not interactive often does not look where users put
    /// programs of their own.
    pub fn remote_command(&self, program: &str) -> String {
        let directory = match self.directory.strip_prefix("~/") {
            Some("") => ".",
            Some(below_home) => below_home,
            None if matches!(&self.directory[..], "" | "~") => ".",
            None => &self.directory,
        };
        let script = format!(
            "PATH=\"$PATH:$HOME/.local/bin:$HOME/bin\" exec {} serve --stdio -- {}",
            quoted(program),
            quoted(directory),
        );
        format!("exec sh -c {}", quoted(&script))
    }

    /// The command that connects: `ssh` is the words of one that takes options, a host and a command, as ssh(1) does.
    pub fn transport(&self, ssh: &[OsString], program: &str) -> Vec<OsString> {
        let mut command = ssh.to_vec();
        command.extend(["--", &self.host].map(OsString::from));
        command.push(self.remote_command(program).into());
        command
    }
}

/// A word that a POSIX shell leaves as it is.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_read_as_scp_reads_them() {
        let read = |text: &str| {
            text.parse::<Source>()
                .map(|read| (read.host, read.directory))
        };
        let pair = |host: &str, directory: &str| Ok((host.to_owned(), directory.to_owned()));
        assert_eq!(read("host:src"), pair("host", "src"));
        assert_eq!(read("me@host:/a:b"), pair("me@host", "/a:b"));
        assert_eq!(read("host:"), pair("host", ""));
        assert_eq!(read("me@[::1]:/x"), pair("me@::1", "/x"));
        for bad in ["/tmp/x", "host", ":x", "-oProxyCommand=x:y", "a/b:c"] {
            assert_eq!(read(bad), Err(BadSource), "{bad}");
        }
    }

    #[test]
    fn a_shell_leaves_the_directory_as_it_is() {
        let source: Source = "host:~/it's; rm -rf $HOME".parse().expect("a source");
        let run = std::process::Command::new("sh")
            .arg("-c")
            .arg(
                source
                    .remote_command("printf")
                    .replace(" serve --stdio --", " %s"),
            )
            .output()
            .expect("there is a shell");
        assert_eq!(String::from_utf8_lossy(&run.stdout), "it's; rm -rf $HOME");
    }
}
