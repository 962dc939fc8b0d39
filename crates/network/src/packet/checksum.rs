//! The internet checksum, RFC 1071: the complement of the one's complement sum of 16-bit words.

use std::net::IpAddr;

/// A sum under way.
#[derive(Clone, Copy, Default)]
pub(super) struct Sum(u64);

impl Sum {
    /// Adds bytes that begin at an even place; a last odd byte is padded with a zero.
    pub fn add(self, bytes: &[u8]) -> Self {
        let words = bytes.chunks(2).map(|word| {
            let low = word.get(1).copied().unwrap_or_default();
            u64::from(u16::from_be_bytes([word[0], low]))
        });
        Self(self.0 + words.sum::<u64>())
    }

    /// Adds the pseudo-header of TCP, UDP and ICMPv6.
    pub fn add_pseudo_header(
        self,
        source: IpAddr,
        destination: IpAddr,
        protocol: u8,
        length: usize,
    ) -> Self {
        let with_addresses = match (source, destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                self.add(&source.octets()).add(&destination.octets())
            }
            (source, destination) => self
                .add(&as_v6(source).octets())
                .add(&as_v6(destination).octets()),
        };
        Self(with_addresses.0 + u64::from(protocol) + length as u64)
    }

    /// What belongs into the packet, whose own place for it counted as zero.
    pub fn finish(self) -> u16 {
        let mut sum = self.0;
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !(sum as u16)
    }
}

fn as_v6(address: IpAddr) -> std::net::Ipv6Addr {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_rfc_1071_and_a_known_header() {
        let sum = Sum::default().add(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]);
        assert_eq!(sum.finish(), !0xddf2);
        let header = [
            0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0, 0, 0xc0, 0xa8, 0x00,
            0x01, 0xc0, 0xa8, 0x00, 0xc7,
        ];
        assert_eq!(Sum::default().add(&header).finish(), 0xb861);
    }

    #[test]
    fn an_odd_byte_is_padded() {
        let even = Sum::default().add(&[1, 2, 3, 0]).finish();
        assert_eq!(Sum::default().add(&[1, 2, 3]).finish(), even);
    }
}
