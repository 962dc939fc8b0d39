//! Sizes as people write them, in powers of 1024.

use std::str::FromStr;

const UNITS: &str = "KMGTP";

/// A size that was typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(u64);

impl Size {
    pub fn bytes(self) -> u64 {
        self.0
    }
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let mut unit = text[number.len()..].to_ascii_uppercase();
        // 2G, 2GB and 2GiB.
        if unit.len() > 1 {
            unit = unit.trim_end_matches("IB").trim_end_matches('B').to_owned();
        }
        let power = match unit.as_str() {
            "" | "B" => Some(0),
            unit => UNITS
                .find(unit)
                .filter(|_| unit.len() == 1)
                .map(|at| at as u32 + 1),
        };
        let bytes = power.and_then(|power| {
            number
                .parse::<u64>()
                .ok()?
                .checked_mul(1024_u64.checked_pow(power)?)
        });
        bytes
            .map(Self)
            .ok_or_else(|| "a size is a number with K, M, G or T: 500M, 2G".to_owned())
    }
}

/// A size as it is shown: three digits or so.
pub fn shown(bytes: u64) -> String {
    let mut value = bytes as f64;
    let mut unit = "B".to_owned();
    for letter in UNITS.chars() {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = format!("{letter}iB");
    }
    match value < 10.0 && unit != "B" {
        true => format!("{value:.1} {unit}"),
        false => format!("{value:.0} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_and_without_units() {
        let read = |text: &str| text.parse::<Size>().map(Size::bytes).ok();
        assert_eq!(read("4096"), Some(4096));
        assert_eq!(read("64M"), Some(64 << 20));
        assert_eq!(read("2g"), Some(2 << 30));
        assert_eq!(read("2GB"), Some(2 << 30));
        assert_eq!(read("2GiB"), Some(2 << 30));
        assert_eq!(read("1T"), Some(1 << 40));
        for text in ["", "M", "-1M", "1.5G", "1X", "1KM", "99999999999T"] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn sizes_are_shown_briefly() {
        assert_eq!(shown(17), "17 B");
        assert_eq!(shown(64 << 20), "64 MiB");
        assert_eq!(shown(3 << 29), "1.5 GiB");
    }
}
