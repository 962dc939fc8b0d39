//! The suite `programs`: what it costs to start programs, and to have them build and install things.

use super::timed::{first, large, later, whole};
use super::{Row, What};
use crate::inputs::{Input, Made, NPM_INSTALL};
use crate::limit::Limit;

/// Of the standard library, and with files of its own each.
const IMPORTS: &str = "import argparse, ast, asyncio, base64, bisect, calendar, cmd, code, codecs, \
    colorsys, concurrent.futures, configparser, contextlib, copy, csv, ctypes, dataclasses, decimal, \
    difflib, dis, email.message, enum, filecmp, fileinput, fractions, ftplib, functools, getopt, \
    gettext, glob, gzip, hashlib, heapq, hmac, html.parser, http.client, imaplib, inspect, ipaddress, \
    json, logging.config, mailbox, mimetypes, multiprocessing, optparse, pathlib, pdb, pickle, \
    pickletools, platform, plistlib, poplib, pprint, profile, queue, random, sched, secrets, shelve, \
    smtplib";
const PYTHON: &[&str] = &["/usr/bin/python3", "-c", IMPORTS];

/// Small dynamic programs, one after the other.
const EXECS: &str = "i=0; while [ $i -lt 500 ]; do /bin/true; i=$((i+1)); done";

const PIP: &[&str] = &[
    "/usr/bin/python3",
    "-m",
    "pip",
    "install",
    "--quiet",
    "--no-index",
    "--find-links",
    ".",
    "--target",
    "installed",
    "django",
    "flask",
    "requests",
];

pub(super) const PROGRAMS: &[Row] = &[
    first(
        "exec-500",
        Input::Empty,
        &["sh", "-c", EXECS],
        Limit::RatioMax(1.1),
    ),
    native(first(
        "exec-500-native",
        Input::Empty,
        &["sh", "-c", EXECS],
        Limit::RatioMax(1.1),
    )),
    first(
        "python-imports",
        Input::Empty,
        PYTHON,
        Limit::RatioMax(1.15),
    ),
    later("python-later", Input::Empty, PYTHON, Limit::None),
    native(first(
        "python-native",
        Input::Empty,
        PYTHON,
        Limit::RatioMax(1.15),
    )),
    first(
        "node-start",
        Input::Empty,
        &["node", "--eval", "0"],
        Limit::RatioMax(1.15),
    ),
    first(
        "java-start",
        Input::Empty,
        &["java", "-version"],
        Limit::RatioMax(1.15),
    ),
    whole(
        "make-300-files",
        Input::Copy(Made::Sources(300)),
        &["make", "--silent", "-j2"],
        Limit::RatioMax(1.08),
    ),
    native(whole(
        "make-300-native",
        Input::Copy(Made::Sources(300)),
        &["make", "--silent", "-j2"],
        Limit::RatioMax(1.08),
    )),
    whole(
        "cargo-build",
        Input::Copy(Made::Crate),
        &["cargo", "build", "--quiet", "--offline"],
        Limit::RatioMax(1.05),
    ),
    large(whole(
        "pip-install",
        Input::Copy(Made::Wheels),
        PIP,
        Limit::RatioMax(1.15),
    )),
    large(whole(
        "npm-ci",
        Input::Copy(Made::Project),
        NPM_INSTALL,
        Limit::RatioMax(1.15),
    )),
];

/// Also for root with what only an ordinary user has without being asked: S54.
const fn native(mut row: Row) -> Row {
    if let What::Command(command) = &mut row.what {
        command.options = &["--native"];
    }
    row
}
