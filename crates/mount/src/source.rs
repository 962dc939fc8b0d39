//! Where a far directory is, as people write that.

use std::ffi::OsString;
use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use surmise_tls::PORT;

/// A directory of another machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// As it was written. By this mount(8) knows a line of fstab(5) again.
    text: String,
    /// How it is reached.
    pub way: Way,
}

/// How a directory of another machine is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Way {
    /// `[USER@]HOST:DIRECTORY`, which ssh connects to.
    Ssh(BySsh),
    /// `surmise://HOST[:PORT]/EXPORT`, which listens for TLS.
    Tls(ByTls),
}

/// What ssh connects to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BySsh {
    /// The machine, with the user if one was named, as ssh(1) takes it.
    pub host: String,
    /// The directory. A relative one, or an empty one, begins at the home directory there.
    pub directory: String,
}

/// A server that listens for TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ByTls {
    /// The machine, by its name or address.
    pub host: String,
    /// The port there.
    pub port: u16,
    /// The name of the export; empty for the only one.
    pub export: String,
}

/// What is no such thing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadSource {
    /// As nothing that is known.
    #[error(
        "HOST:DIRECTORY or USER@HOST:DIRECTORY is expected, as with scp, or surmise://HOST[:PORT]/EXPORT"
    )]
    Form,
    /// Users are named by certificates.
    #[error(
        "surmise://HOST[:PORT]/EXPORT is expected, without a user: the certificate names the user"
    )]
    User,
}

const SCHEME: &str = "surmise://";

impl FromStr for Source {
    type Err = BadSource;

    fn from_str(text: &str) -> Result<Self, BadSource> {
        let way = match text.strip_prefix(SCHEME) {
            Some(rest) => Way::Tls(rest.parse()?),
            None => Way::Ssh(text.parse()?),
        };
        let text = text.to_owned();
        Ok(Self { text, way })
    }
}

impl Display for Source {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Source {
    /// The machine.
    pub fn host(&self) -> &str {
        match &self.way {
            Way::Ssh(source) => &source.host,
            Way::Tls(source) => &source.host,
        }
    }
}

impl FromStr for ByTls {
    type Err = BadSource;

    /// What stands behind the scheme.
    fn from_str(text: &str) -> Result<Self, BadSource> {
        let (at, export) = text.split_once('/').unwrap_or((text, ""));
        if at.contains('@') {
            return Err(BadSource::User);
        }
        // An IPv6 address stands in brackets.
        let (host, port) = match at.strip_prefix('[') {
            Some(rest) => rest.split_once(']').ok_or(BadSource::Form)?,
            None => at.split_at(at.find(':').unwrap_or(at.len())),
        };
        let port = match port.strip_prefix(':') {
            Some(port) => port.parse().map_err(|_| BadSource::Form)?,
            None if port.is_empty() => PORT,
            None => return Err(BadSource::Form),
        };
        let export = export.trim_end_matches('/');
        let is_odd = |text: &str| text.contains(['/', '\0', '?', '#']);
        if host.is_empty() || port == 0 || is_odd(host) || is_odd(export) {
            return Err(BadSource::Form);
        }
        Ok(Self {
            host: host.to_owned(),
            port,
            export: export.to_owned(),
        })
    }
}

impl FromStr for BySsh {
    type Err = BadSource;

    fn from_str(text: &str) -> Result<Self, BadSource> {
        // An IPv6 address stands in brackets, as with scp.
        let end = text.rfind("]:").map(|at| at + 1);
        let (host, directory) = match end {
            Some(end) => (&text[..end], &text[end + 1..]),
            None => text.split_once(':').ok_or(BadSource::Form)?,
        };
        let host: String = host.replace(['[', ']'], "");
        if host.is_empty() || host.starts_with('-') || host.contains('/') || text.contains('\0') {
            return Err(BadSource::Form);
        }
        Ok(Self {
            host,
            directory: directory.to_owned(),
        })
    }
}

impl BySsh {
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
        let read = |text: &str| match text.parse::<Source>()?.way {
            Way::Ssh(read) => Ok((read.host, read.directory)),
            Way::Tls(read) => panic!("{read:?}"),
        };
        let pair = |host: &str, directory: &str| Ok((host.to_owned(), directory.to_owned()));
        assert_eq!(read("host:src"), pair("host", "src"));
        assert_eq!(read("me@host:/a:b"), pair("me@host", "/a:b"));
        assert_eq!(read("host:"), pair("host", ""));
        assert_eq!(read("me@[::1]:/x"), pair("me@::1", "/x"));
        for bad in ["/tmp/x", "host", ":x", "-oProxyCommand=x:y", "a/b:c"] {
            assert_eq!(read(bad), Err(BadSource::Form), "{bad}");
        }
    }

    #[test]
    fn servers_are_read_as_addresses_of_the_web_are() {
        for (text, host, port, export) in [
            ("surmise://h/src", "h", PORT, "src"),
            ("surmise://h:1/a b/", "h", 1, "a b"),
            ("surmise://[::1]:80/x", "::1", 80, "x"),
            ("surmise://[::1]", "::1", PORT, ""),
            ("surmise://h:7459", "h", PORT, ""),
        ] {
            let source: Source = text.parse().expect(text);
            assert_eq!(source.to_string(), text);
            let Way::Tls(read) = source.way else {
                panic!("{source:?}");
            };
            let expected = (host.to_owned(), port, export.to_owned());
            assert_eq!((read.host, read.port, read.export), expected, "{text}");
        }
        for bad in [
            "",
            "/x",
            ":1/x",
            "h:/x",
            "h:0/x",
            "h:99999/x",
            "h/a/b",
            "[::1/x",
            "[::1]1/x",
            "h/x?y",
        ] {
            let read = format!("{SCHEME}{bad}").parse::<Source>();
            assert_eq!(read, Err(BadSource::Form), "{bad}");
        }
        let named = format!("{SCHEME}me@h/x").parse::<Source>();
        assert_eq!(named, Err(BadSource::User));
    }

    #[test]
    fn a_shell_leaves_the_directory_as_it_is() {
        let source: BySsh = "host:~/it's; rm -rf $HOME".parse().expect("a source");
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
