//! What ours may cost, next to the peer.

use serde::Serialize;

/// The limit that a row must keep.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// Ours is at most this multiple of the peer.
    RatioMax(f64),
    /// Ours is at least this multiple of the peer.
    RatioMin(f64),
    /// Ours is at most this much above the peer, in the row's unit.
    AddedMax(f64),
    /// Ours is at most this, in the row's unit.
    OursMax(f64),
    /// There is none: the row informs.
    None,
}

impl Limit {
    /// Whether the two medians keep it.
    pub fn is_kept(self, ours: f64, peer: f64) -> bool {
        match self {
            Self::RatioMax(most) => ours / peer <= most,
            Self::RatioMin(least) => ours / peer >= least,
            Self::AddedMax(most) => ours - peer <= most,
            Self::OursMax(most) => ours <= most,
            Self::None => true,
        }
    }

    /// Its number, and what the number limits.
    pub fn parts(self) -> Option<(f64, &'static str)> {
        match self {
            Self::RatioMax(most) => Some((most, "ratio_max")),
            Self::RatioMin(least) => Some((least, "ratio_min")),
            Self::AddedMax(most) => Some((most, "added_max")),
            Self::OursMax(most) => Some((most, "ours_max")),
            Self::None => None,
        }
    }
}

impl std::fmt::Display for Limit {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = match self {
            Self::RatioMax(most) => format!("<= {most:.2}x"),
            Self::RatioMin(least) => format!(">= {least:.2}x"),
            Self::AddedMax(most) => format!("<= +{most:.0}"),
            Self::OursMax(most) => format!("<= {most:.0}"),
            Self::None => "-".to_owned(),
        };
        formatter.pad(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_kept_up_to_its_number() {
        for (limit, kept, missed) in [
            (Limit::RatioMax(1.5), (3.0, 2.0), (3.1, 2.0)),
            (Limit::RatioMin(0.5), (1.0, 2.0), (0.9, 2.0)),
            (Limit::AddedMax(25.0), (45.0, 20.0), (45.1, 20.0)),
            (Limit::OursMax(64.0), (64.0, 1.0), (64.1, 100.0)),
        ] {
            assert!(limit.is_kept(kept.0, kept.1), "{limit}");
            assert!(!limit.is_kept(missed.0, missed.1), "{limit}");
        }
        assert!(Limit::None.is_kept(9.0, 1.0));
    }
}
