//! Images of processes, and what holds them.

use rustix::process::Pid;

use super::{Sides, State};

/// The numbers of processes that hold images begin here.
const VESSELS: i32 = 1_000_000;

/// What the threads of a process were told when its image was taken.
#[derive(Debug)]
pub(in crate::core::simulation) struct Image {
    pub(super) number: u64,
    pub(super) told: Vec<(Pid, Vec<i64>)>,
    /// The program of the process then.
    pub(super) program: i64,
}

/// What an image holds besides what its threads were told.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) process: Pid,
    pub(super) sides: Sides,
    /// The image knows that the process executes another program since.
    pub(super) knows_execution: bool,
    /// Somebody has killed what holds it.
    pub(super) is_lost: bool,
}

/// The process that holds an image.
pub(super) fn vessel(number: u64) -> Option<Pid> {
    Pid::from_raw(VESSELS + number as i32)
}

/// The number of the image that a process holds.
pub(super) fn image_of(vessel: Pid) -> u64 {
    (vessel.as_raw_nonzero().get() - VESSELS) as u64
}

impl State {
    /// An image is told that its process executes a program. False if older images need not be told.
    pub(super) fn note_execution(&mut self, number: u64) -> bool {
        let process = self.images[&number].process;
        let mut newer = self.images.range(number + 1..);
        let is_told = |held: &Held| held.process != process || held.is_lost || held.knows_execution;
        assert!(
            newer.all(|(_, held)| is_told(held)),
            "newer images are told first"
        );
        let image = self.images.get_mut(&number).expect("an image");
        !std::mem::replace(&mut image.knows_execution, true)
    }

    /// Somebody kills the process that holds an image, if its process has an older one. Returns the holder.
    pub(in crate::core::simulation) fn lose_image(&mut self) -> Option<Pid> {
        let images: Vec<_> = self.images.iter().collect();
        let mut newer = Vec::new();
        for (place, (number, held)) in images.iter().enumerate() {
            let mut older = images[..place].iter().rev();
            let before = older.find(|(_, older)| older.process == held.process);
            if before.is_some_and(|(_, before)| !before.is_lost) {
                newer.push(**number);
            }
        }
        let number = *self.rng.choice(&newer)?;
        let image = self.images.get_mut(&number).expect("an image");
        (image.is_lost, image.sides) = (true, Sides::NONE);
        vessel(number)
    }
}
