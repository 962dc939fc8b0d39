//! The suite `files`: what the view of the file system costs programs that work on many files or on
//! large ones.

use super::Row;
use super::timed::{cold, first, large, later};
use crate::inputs::{ARCHIVE, Input, Made};
use crate::limit::Limit;

const REPOSITORY: Input = Input::There(Made::Repository(10_000));
const STATUS: &[&str] = &["git", "status", "--porcelain"];

const TREE: Input = Input::There(Made::Tree(5000));
const SEARCH: &[&str] = &[
    "rg",
    "--no-config",
    "--threads=2",
    "value_[0-9]+_79 = 1000;",
];

const GIGABYTE: Input = Input::There(Made::Data(1024));
const READ: &[&str] = &["dd", "if=data", "of=/dev/null", "bs=128k", "status=none"];
const WRITE: &[&str] = &[
    "dd",
    "if=/dev/zero",
    "of=written",
    "bs=128k",
    "count=8192",
    "status=none",
];
/// 100 MB.
const WRITE_SMALL: &[&str] = &[
    "dd",
    "if=/dev/zero",
    "of=written",
    "bs=4k",
    "count=25600",
    "status=none",
];

const LARGE_REPOSITORY: Input = Input::There(Made::Repository(100_000));
const LARGE_TREE: Input = Input::There(Made::Tree(10_000));
const LARGE_COPY: Input = Input::Copy(Made::Tree(10_000));

pub(super) const FILES: &[Row] = &[
    first("git-status-first", REPOSITORY, STATUS, Limit::RatioMax(3.0)),
    later("git-status-later", REPOSITORY, STATUS, Limit::RatioMax(1.2)),
    first("rg-first", TREE, SEARCH, Limit::RatioMax(3.0)),
    later("rg-later", TREE, SEARCH, Limit::RatioMax(1.2)),
    first(
        "tar-x",
        Input::Copy(Made::Archive(1000)),
        &["tar", "--extract", "--file", ARCHIVE],
        Limit::RatioMax(3.0),
    ),
    first("ls-lr", LARGE_TREE, &["ls", "-lR"], Limit::RatioMax(2.5)),
    first(
        "find-name",
        LARGE_TREE,
        &["find", ".", "-name", "*_00079.c"],
        Limit::RatioMax(2.0),
    ),
    first(
        "cp-r",
        LARGE_COPY,
        &["sh", "-c", "mkdir copy && cp -r part_* copy"],
        Limit::RatioMax(3.0),
    ),
    first(
        "rm-rf",
        LARGE_COPY,
        &["sh", "-c", "rm -rf part_*"],
        Limit::RatioMax(4.0),
    ),
    large(first(
        "git-status-100k",
        LARGE_REPOSITORY,
        STATUS,
        Limit::RatioMax(2.0),
    )),
    large(first(
        "grep-r-100k",
        LARGE_REPOSITORY,
        &["grep", "-r", "value_[0-9]*_79 = 1000;", "."],
        Limit::RatioMax(1.5),
    )),
    large(first("read-1g-first", GIGABYTE, READ, Limit::None)),
    large(later("read-1g-warm", GIGABYTE, READ, Limit::RatioMax(1.1))),
    large(cold("read-1g-cold", GIGABYTE, READ, Limit::RatioMax(1.3))),
    large(first("write-1g", Input::Empty, WRITE, Limit::RatioMax(2.0))),
    first("write-4k", Input::Empty, WRITE_SMALL, Limit::RatioMax(3.0)),
];
