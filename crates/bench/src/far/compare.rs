//! One row: samples of each file system in turns.

use super::figure::Figure;
use super::files::{ALL, Kind};
use super::trial::{Taken, Value};

/// How many samples of sshfs are taken at most: some take minutes.
const RIVAL_SAMPLES_MAX: usize = 3;

/// sshfs is measured once where it takes so many times as long as ours.
const RIVAL_SLOW: f64 = 10.0;

/// What came of one file system.
pub struct Compared {
    /// Which one.
    pub kind: Kind,
    /// Those that count.
    pub samples: Vec<Taken>,
    /// Why there are no more.
    pub reason: Option<String>,
}

impl Compared {
    fn new(kind: Kind, reason: Option<String>) -> Self {
        Self {
            kind,
            samples: Vec::new(),
            reason,
        }
    }

    /// A value of all samples that have it.
    pub fn figures(&self, value: Value) -> Vec<Figure> {
        let figure = |sample: &Taken| sample.value(value);
        self.samples.iter().filter_map(figure).collect()
    }

    fn first(&self) -> Option<Figure> {
        Figure::median(&self.figures(Value::First))
    }
}

/// Takes up to `rounds` samples of each file system that is not `missing`, after one that does not count.
///
/// # Errors
/// As `sample`, save of sshfs: where that fails, its reason is kept.
pub fn compare(
    rounds: u32,
    missing: impl Fn(Kind) -> Option<String>,
    mut sample: impl FnMut(u32, Kind) -> Result<Taken, String>,
) -> Result<[Compared; 3], String> {
    let mut all = ALL.map(|kind| Compared::new(kind, missing(kind)));
    for round in 0..=rounds {
        // Each goes first in its turn: what follows finds warm caches.
        for offset in 0..all.len() {
            let index = (offset + usize::try_from(round).unwrap_or(0)) % all.len();
            let kind = all[index].kind;
            if all[index].reason.is_some() || kind == Kind::Sshfs && !wants_sshfs(round, &all) {
                continue;
            }
            let taken = match sample(round, kind) {
                Ok(taken) => taken,
                Err(error) if kind == Kind::Sshfs => {
                    let said = error.lines().rfind(|line| !line.trim().is_empty());
                    all[index].reason = said.map(str::to_owned);
                    continue;
                }
                Err(error) => return Err(format!("{}: {error}", kind.name())),
            };
            if round > 0 {
                all[index].samples.push(taken);
            }
        }
    }
    Ok(all)
}

fn wants_sshfs(round: u32, all: &[Compared; 3]) -> bool {
    let of = |kind: Kind| {
        all.iter()
            .find(|one| one.kind == kind)
            .expect("all are there")
    };
    let taken = &of(Kind::Sshfs);
    let reference = of(Kind::Ours).first().or_else(|| of(Kind::Local).first());
    let is_slow = taken.first().is_some_and(|first| {
        let many = |reference: Figure| first.number() > RIVAL_SLOW * reference.number();
        first.is_more() || reference.is_some_and(many)
    });
    round > 0 && !is_slow && taken.samples.len() < RIVAL_SAMPLES_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many samples there are of each, if sshfs gives this and ours is there or not.
    fn counts(sshfs: &Result<Figure, String>, has_ours: bool) -> [usize; 3] {
        let missing = |kind| (kind == Kind::Ours && !has_ours).then(|| "no such".to_owned());
        let compared = compare(5, missing, |_, kind| {
            let figure = match kind {
                Kind::Ours => Figure::of(10.0, true),
                Kind::Sshfs => sshfs.clone()?,
                Kind::Local => Figure::of(1.0, true),
            };
            Ok(Taken::one(figure))
        });
        let compared = compared.expect("only sshfs fails");
        let has_reason = compared[1].reason.is_some();
        assert_eq!(has_reason, sshfs.is_err());
        compared.map(|one| one.samples.len())
    }

    #[test]
    fn sshfs_is_measured_once_where_it_is_much_slower() {
        let exact = |number| Ok(Figure::of(number, true));
        assert_eq!(counts(&exact(100.0), true), [5, 3, 5]);
        assert_eq!(counts(&exact(101.0), true), [5, 1, 5]);
        assert_eq!(counts(&Ok(Figure::of(50.0, false)), true), [5, 1, 5]);
        // By the local directory, where ours is missing.
        assert_eq!(counts(&exact(10.0), false), [0, 3, 5]);
        assert_eq!(counts(&exact(11.0), false), [0, 1, 5]);
    }

    #[test]
    fn sshfs_may_fail_and_ours_may_not() {
        assert_eq!(counts(&Err("no\nroute\n".to_owned()), true), [5, 0, 5]);
        let ours = compare(
            1,
            |_| None,
            |_, kind| match kind {
                Kind::Ours => Err("cut".to_owned()),
                _ => Ok(Taken::one(Figure::of(1.0, true))),
            },
        );
        assert_eq!(ours.err().as_deref(), Some("surmise: cut"));
    }
}
