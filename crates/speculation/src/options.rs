//! What a speculator is asked to do.

/// What a speculator is asked to do.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options {
    /// Whether results are mispredicted on purpose.
    pub torture: Option<Torture>,
}

/// Misprediction at random.
#[derive(Clone, Debug, PartialEq)]
pub struct Torture {
    /// What the random choices are made from: the same ones for the same history of calls.
    pub seed: u64,
    /// How probable it is for a call to be mispredicted: above 0, at most 1.
    pub rate: f64,
}
