//! Data that is no text, as git writes it into patches.

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::ZlibEncoder;
use sha1::{Digest, Sha1};

/// How many bytes git looks at to tell text from data.
const LOOK_BYTES: usize = 8000;

/// Above this size, a comparison by lines costs more than it tells.
const TEXT_MAX: usize = 32 << 20;

/// Bytes of one line.
const LINE_BYTES: usize = 52;

/// The digits of git's base 85.
const DIGITS: &[u8; 85] =
    b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~";

/// Whether git would call it binary.
pub(super) fn is_binary(data: &[u8]) -> bool {
    data.len() > TEXT_MAX || data[..data.len().min(LOOK_BYTES)].contains(&0)
}

/// The name that git gives to data.
pub(super) fn hash(data: &[u8]) -> String {
    let mut hash = Sha1::new();
    hash.update(format!("blob {}\0", data.len()));
    hash.update(data);
    hash.finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// The name that git gives to a file that is not there.
pub(super) fn no_hash() -> String {
    "0".repeat(40)
}

/// Both states in full, so that the patch applies in both directions.
pub(super) fn write(old: &[u8], new: &[u8], out: &mut dyn Write) -> io::Result<()> {
    out.write_all(b"GIT binary patch\n")?;
    for data in [new, old] {
        writeln!(out, "literal {}", data.len())?;
        let mut deflate = ZlibEncoder::new(Vec::new(), Compression::default());
        deflate.write_all(data)?;
        for line in deflate.finish()?.chunks(LINE_BYTES) {
            write_line(line, out)?;
        }
        out.write_all(b"\n")?;
    }
    Ok(())
}

fn write_line(bytes: &[u8], out: &mut dyn Write) -> io::Result<()> {
    let length = bytes.len() as u8;
    let mut line = vec![match length {
        ..=26 => b'A' + length - 1,
        _ => b'a' + length - 27,
    }];
    for group in bytes.chunks(4) {
        let mut word = [0; 4];
        word[..group.len()].copy_from_slice(group);
        let mut value = u32::from_be_bytes(word);
        let mut digits = [0; 5];
        for digit in digits.iter_mut().rev() {
            *digit = DIGITS[(value % 85) as usize];
            value /= 85;
        }
        line.extend_from_slice(&digits);
    }
    line.push(b'\n');
    out.write_all(&line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_data_are_those_of_git() {
        assert_eq!(hash(b""), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
        assert_eq!(hash(b"hello\n"), "ce013625030ba8dba906f756967f9e9ca394464a");
    }
}
