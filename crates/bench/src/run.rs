//! One row, measured in alternating pairs.

use std::ffi::OsString;

use crate::measure::{Sample, measure, median};
use crate::place::Place;
use crate::report::{Outcome, Samples};
use crate::rows::{Peer, Row};

/// Measures `row` with one pair that does not count and `pairs` that do.
pub fn row(place: &Place, row: &Row, pairs: u32) -> Result<Outcome, String> {
    let source = row
        .source
        .map(|package| place.source(package))
        .transpose()?;
    let sample = |line: &[OsString]| -> Result<Sample, String> {
        place.reset(source.as_deref())?;
        measure(line, &place.work(), &place.state(), row.repeat)
    };
    let (our_line, peer_line) = lines(place, row);
    let mut samples = Samples {
        ours: Vec::new(),
        peer: Vec::new(),
    };
    for pair in 0..=pairs {
        eprint!("\r{}: pair {pair} of {pairs} ", row.test);
        // Each goes first in every other pair: what follows finds warm caches.
        let (ours, peer) = if pair % 2 == 0 {
            let ours = sample(&our_line)?;
            (ours, sample(&peer_line)?)
        } else {
            let peer = sample(&peer_line)?;
            (sample(&our_line)?, peer)
        };
        if pair > 0 {
            samples.ours.push(ours);
            samples.peer.push(peer);
        }
    }
    eprint!("\r\x1b[K");
    let (ours, peer) = (median(&samples.ours), median(&samples.peer));
    let ratio = ours.wall / peer.wall;
    let peer_name = match row.peer {
        Peer::Plain => "plain".to_owned(),
        Peer::Command(words) => words.join(" "),
    };
    Ok(Outcome {
        test: row.test,
        ours: ours.wall,
        peer: peer.wall,
        peer_name,
        ratio,
        target: row.ratio_max,
        pass: ratio <= row.ratio_max,
        ours_processor: ours.user + ours.system,
        peer_processor: peer.user + peer.system,
        samples,
    })
}

/// Our command line and the peer's.
fn lines(place: &Place, row: &Row) -> (Vec<OsString>, Vec<OsString>) {
    let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
    let mut ours = vec![place.surmise.clone().into_os_string()];
    ours.extend(words(&["run", "--dry-run", "--"]));
    ours.extend(words(row.inside));
    let peer = match row.peer {
        Peer::Plain => words(row.inside),
        Peer::Command(command) => words(command),
    };
    (ours, peer)
}
