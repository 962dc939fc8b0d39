//! Numbers of which only a lower bound may be known, and the targets that are set to them.

use std::fmt;

use crate::measure::middle;

/// A number, or that it is more than one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    number: f64,
    is_more: bool,
}

impl Figure {
    /// Exactly this, or more if it `is_exact` not.
    pub fn of(number: f64, is_exact: bool) -> Self {
        Self {
            number,
            is_more: !is_exact,
        }
    }

    /// The number, or the one that it is more than.
    pub fn number(self) -> f64 {
        self.number
    }

    /// Whether it is more than its number.
    pub fn is_more(self) -> bool {
        self.is_more
    }

    /// Divided by an exact number.
    pub fn over(self, exact: f64) -> Self {
        Self {
            number: self.number / exact,
            is_more: self.is_more,
        }
    }

    /// The middle one; `None` of none. Nothing is known but a bound if one of them is no more.
    pub fn median(figures: &[Self]) -> Option<Self> {
        let numbers: Vec<_> = figures.iter().map(|figure| figure.number).collect();
        let is_more = figures.iter().any(|figure| figure.is_more);
        (!numbers.is_empty()).then(|| Self {
            number: middle(numbers),
            is_more,
        })
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let more = if self.is_more { ">" } else { "" };
        let digits = formatter.precision().unwrap_or(1);
        formatter.pad_integral(true, "", &format!("{more}{:.digits$}", self.number))
    }
}

/// What ours is to reach.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Target {
    /// sshfs takes so many times as much, or more.
    TimesSshfs(f64),
    /// Ours takes at most this multiple of the directory without a network.
    OfLocal(f64),
    /// Ours is at most this, in the unit of the row.
    Max(f64),
}

/// Whether a target is reached.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    /// It is.
    Kept,
    /// It is not.
    Missed,
    /// That is not known: something was not measured, or was stopped too soon.
    Open,
}

impl Target {
    /// From medians.
    pub fn verdict(
        self,
        ours: Option<Figure>,
        sshfs: Option<Figure>,
        local: Option<Figure>,
    ) -> Verdict {
        let Some(ours) = ours.map(Figure::number) else {
            return Verdict::Open;
        };
        let is_kept = match (self, sshfs, local) {
            (Self::TimesSshfs(times), Some(sshfs), _) => {
                let is_kept = sshfs.number >= times * ours;
                if !is_kept && sshfs.is_more {
                    return Verdict::Open;
                }
                is_kept
            }
            (Self::OfLocal(most), _, Some(local)) => ours <= most * local.number,
            (Self::Max(most), _, _) => ours <= most,
            (Self::TimesSshfs(_) | Self::OfLocal(_), _, _) => return Verdict::Open,
        };
        if is_kept {
            Verdict::Kept
        } else {
            Verdict::Missed
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TimesSshfs(times) => write!(formatter, "sshfs >= {times}x"),
            Self::OfLocal(most) => write!(formatter, "<= {most}x local"),
            Self::Max(most) => write!(formatter, "<= {most}"),
        }
    }
}

impl Verdict {
    /// For the table.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kept => "ok",
            Self::Missed => "MISSED",
            Self::Open => "open",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exact(number: f64) -> Option<Figure> {
        Some(Figure::of(number, true))
    }

    #[test]
    fn what_was_stopped_keeps_a_target_by_its_bound_or_leaves_it_open() {
        let stopped = Some(Figure::of(60.0, false));
        let target = Target::TimesSshfs(100.0);
        assert_eq!(target.verdict(exact(0.5), stopped, None), Verdict::Kept);
        assert_eq!(target.verdict(exact(0.7), stopped, None), Verdict::Open);
        assert_eq!(
            target.verdict(exact(0.7), exact(60.0), None),
            Verdict::Missed
        );
        assert_eq!(target.verdict(exact(0.7), None, None), Verdict::Open);
    }

    #[test]
    fn a_target_is_kept_up_to_its_number() {
        let of_local = Target::OfLocal(1.5);
        assert_eq!(
            of_local.verdict(exact(3.0), None, exact(2.0)),
            Verdict::Kept
        );
        assert_eq!(
            of_local.verdict(exact(3.1), None, exact(2.0)),
            Verdict::Missed
        );
        assert_eq!(of_local.verdict(None, None, exact(2.0)), Verdict::Open);
        assert_eq!(
            Target::Max(3.0).verdict(exact(3.0), None, None),
            Verdict::Kept
        );
        assert_eq!(
            Target::Max(3.0).verdict(exact(3.1), None, None),
            Verdict::Missed
        );
    }

    #[test]
    fn a_bound_is_written_as_one() {
        assert_eq!(format!("{:>8}", Figure::of(60.0, false)), "   >60.0");
        assert_eq!(format!("{:>8.2}", Figure::of(1.0, true)), "    1.00");
        let median = Figure::median(&[Figure::of(1.0, true), Figure::of(2.0, true)]);
        assert_eq!(median, exact(1.5));
        assert_eq!(Figure::median(&[]), None);
    }
}
