//! What is wrong with a log that lacks something.

/// Where a log is damaged, and how that shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("damaged at byte {offset}: {what}")]
pub struct Damage {
    /// The first byte that cannot be believed.
    pub offset: u64,
    /// How it shows.
    pub what: Symptom,
}

/// How damage shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Symptom {
    /// The first bytes are not those of a log.
    #[error("not the header of a Surmise log")]
    Header,
    /// The file ends within its header, and is as it should be up to there. Of a log that was never durable
    /// that is no damage: a kill has cut its creation short.
    #[error("the file ends within its header")]
    WithinHeader,
    /// The file ends too early.
    #[error("the file has {length} bytes and had {was}")]
    Short {
        /// Its length, in bytes.
        length: u64,
        /// How many bytes were durable.
        was: u64,
    },
    /// A frame that was durable cannot be read.
    #[error("a record that was on disk cannot be read")]
    Durable,
    /// A frame cannot be read, and a later one can.
    #[error("a record cannot be read, and a later one can")]
    Before,
    /// A sealed log has more.
    #[error("more bytes than the file had")]
    BehindSeal,
}

/// What could be read of a damaged log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Salvage {
    /// Whole frames.
    pub frames: u64,
    /// Bytes in none of them.
    pub unread_bytes: u64,
}

impl Damage {
    pub(crate) fn at(offset: u64, what: Symptom) -> Self {
        Self { offset, what }
    }
}
