//! What is measured, as data.

/// Rows whose results go to one file, `target/bench/NAME.json`.
pub struct Suite {
    /// Names the file.
    pub name: &'static str,
    /// In the order they run.
    pub rows: &'static [Row],
}

/// One comparison.
pub struct Row {
    /// Names the row.
    pub test: &'static str,
    /// What runs under `surmise run --dry-run`, in the directory `work`.
    pub inside: &'static [&'static str],
    /// What it is compared with.
    pub peer: Peer,
    /// The most that ours may take, as a multiple of the peer.
    pub ratio_max: f64,
    /// How often the command runs for one sample: more than once for what takes milliseconds.
    pub repeat: u32,
    /// A source package of the distribution; `work` is a fresh copy of it for every sample.
    pub source: Option<&'static str>,
}

/// What a row is compared with.
pub enum Peer {
    /// The same command by itself.
    Plain,
    /// Another command.
    Command(&'static [&'static str]),
}

/// Every suite.
pub const SUITES: &[Suite] = &[Suite {
    name: "run",
    rows: RUN,
}];

const RUN: &[Row] = &[
    make_lua("make-lua-j1", &["make", "--silent", "-j1", "generic"]),
    make_lua("make-lua-j2", &["make", "--silent", "-j2", "generic"]),
    Row {
        test: "start-and-end",
        inside: &["true"],
        peer: Peer::Command(&["unshare", "-Urmpnf", "true"]),
        ratio_max: 3.0,
        repeat: 20,
        source: None,
    },
];

const fn make_lua(test: &'static str, inside: &'static [&'static str]) -> Row {
    Row {
        test,
        inside,
        peer: Peer::Plain,
        ratio_max: 1.10,
        repeat: 1,
        source: Some("lua5.4"),
    }
}
