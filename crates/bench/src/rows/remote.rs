//! The suite `remote`: a far directory that programs use like a near one.

use crate::far::figure::Target;
use crate::far::row::{At, Row, Told};
use crate::far::trial::Value;
use crate::far::work::Work;

const UNTAR: Work = Work::Untar(1000);
const POSTMARK: Work = Work::Postmark(500);
const GIT_STATUS: Work = Work::GitStatus(10_000);
const GREP: Work = Work::Grep(1000);
const STORM: Work = Work::Storm(50);
const CHECKOUT: Work = Work::Checkout(1000);
const TURNS: Work = Work::Turns(50);

const fn times(times: f64) -> Target {
    Target::TimesSshfs(times)
}

const fn of_local(most: f64) -> Target {
    Target::OfLocal(most)
}

const NOT_SLOWER: &[Target] = &[times(1.0)];

/// What one step took that changes nothing.
const NOT_SLOWER_ONCE: &[Told] = &[told("", Value::First, NOT_SLOWER)];
/// What two took, of which the second finds warm caches.
const NOT_SLOWER_TWICE: &[Told] = &[
    told("-cold", Value::First, NOT_SLOWER),
    told("-warm", Value::Second, NOT_SLOWER),
];
/// What one took that writes.
const NOT_SLOWER_WRITING: &[Told] = &[
    told("", Value::First, NOT_SLOWER),
    told("-durable", Value::Durable, NOT_SLOWER),
];

#[rustfmt::skip]
pub(super) const REMOTE: &[Row] = &[
    row("list", At::Far, Work::List, &[
        told("-whole", Value::RoundTrips, &[]),
        // The handshake of ssh is the same for all.
        told("", Value::RoundTripsBesidesSsh, &[Target::Max(3.0)]),
    ]),
    row("tar", At::Far, UNTAR, &[
        told("", Value::First, &[times(1500.0)]),
        told("-durable", Value::Durable, &[]),
    ]),
    row("postmark", At::Far, POSTMARK, &[
        told("", Value::First, &[times(1000.0), of_local(2.0)]),
        told("-durable", Value::Durable, &[]),
    ]),
    row("make-lua", At::Far, Work::MakeLua, &[
        told("", Value::First, &[of_local(1.15)]),
        told("-durable", Value::Durable, &[]),
    ]),
    row("git-status", At::Far, GIT_STATUS, &[
        told("-cold", Value::First, &[Target::Max(400.0)]),
        told("-warm", Value::Second, &[of_local(3.0)]),
    ]),
    row("grep", At::Far, GREP, &[
        told("-cold", Value::First, &[Target::Max(200.0)]),
        told("-warm", Value::Second, &[]),
    ]),
    row("storm", At::Far, STORM, &[told("", Value::First, &[of_local(3.0)])]),
    row("checkout", At::Far, CHECKOUT, &[
        told("", Value::First, &[]),
        told("-durable", Value::Durable, &[]),
    ]),
    row("cargo-build", At::Far, Work::CargoBuild, &[told("", Value::First, &[of_local(1.3)])]),
    row("npm-ci", At::Far, Work::NpmCi, &[told("", Value::First, &[of_local(1.3)])]),
    // NFS is to be compared with, and is on few machines that this runs on.
    row("turns", At::Far, TURNS, &[told("", Value::First, &[times(0.9)])]),
    // What a slow link carries.
    row("tar", At::FarAndSlow, UNTAR, &[
        told("", Value::First, &[]),
        told("-durable", Value::Durable, &[]),
        told("-sent", Value::Sent, &[]),
        told("-received", Value::Received, &[]),
    ]),
    // Where sshfs is good enough.
    row("tar", At::Near, UNTAR, &[
        told("", Value::First, NOT_SLOWER),
        told("-durable", Value::Durable, NOT_SLOWER),
        // Of sshfs, all that the slow link has no time for.
        told("-sent", Value::Sent, &[]),
        told("-received", Value::Received, &[]),
    ]),
    row("postmark", At::Near, POSTMARK, NOT_SLOWER_WRITING),
    row("make-lua", At::Near, Work::MakeLua, NOT_SLOWER_WRITING),
    row("git-status", At::Near, GIT_STATUS, NOT_SLOWER_TWICE),
    row("grep", At::Near, GREP, NOT_SLOWER_TWICE),
    row("storm", At::Near, STORM, NOT_SLOWER_ONCE),
    row("checkout", At::Near, CHECKOUT, NOT_SLOWER_WRITING),
    row("cargo-build", At::Near, Work::CargoBuild, NOT_SLOWER_ONCE),
    row("npm-ci", At::Near, Work::NpmCi, NOT_SLOWER_ONCE),
    row("turns", At::Near, TURNS, NOT_SLOWER_ONCE),
];

const fn row(test: &'static str, at: At, work: Work, told: &'static [Told]) -> Row {
    Row {
        test,
        at,
        work,
        told,
    }
}

const fn told(suffix: &'static str, value: Value, targets: &'static [Target]) -> Told {
    Told {
        suffix,
        value,
        targets,
    }
}
