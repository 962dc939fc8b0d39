//! What a packet that the kernel has left whole would take on a wire.

/// The length of the `virtio_net_hdr` before each packet.
pub const HEADER: usize = 10;

/// The kernel's names of what it has left undone.
const NEEDS_CHECKSUM: u8 = 1;
const GSO_NONE: u8 = 0;

/// Places in the header: `flags`, `gso_type`, `gso_size` and `csum_start`.
const FLAGS: usize = 0;
const GSO_TYPE: usize = 1;
const GSO_SIZE: usize = 4;
const CHECKSUM_START: usize = 6;

/// Where a TCP header tells its length in words of 4 bytes, in the upper half of the byte.
const TCP_WORDS: usize = 12;

/// How many bytes of IP packets a packet of a TUN device is. One that is still to be cut into TCP segments becomes
/// several, which have the headers of IP and TCP each.
pub fn wire_bytes(packet: &[u8]) -> usize {
    let whole = packet.len().saturating_sub(HEADER);
    let Some((headers, segment)) = segments(packet) else {
        return whole;
    };
    let data = whole.saturating_sub(headers);
    data + headers * data.div_ceil(segment).max(1)
}

/// How long the headers are, and how much data a segment has; `None` for a packet that is not cut.
fn segments(packet: &[u8]) -> Option<(usize, usize)> {
    let number = |at: usize| {
        let bytes = packet.get(at..at + 2)?;
        Some(usize::from(u16::from_ne_bytes([bytes[0], bytes[1]])))
    };
    let segment = number(GSO_SIZE)?;
    if packet[GSO_TYPE] == GSO_NONE || packet[FLAGS] & NEEDS_CHECKSUM == 0 || segment == 0 {
        return None;
    }
    // The checksum of TCP begins with its header.
    let tcp = number(CHECKSUM_START)?;
    let words = packet.get(HEADER + tcp + TCP_WORDS)? >> 4;
    Some((tcp + 4 * usize::from(words), segment))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With 20 bytes of IP, 32 of TCP and so much data.
    fn tcp(data: usize, gso_size: u16) -> Vec<u8> {
        let mut packet = vec![0; HEADER + 52 + data];
        packet[FLAGS] = NEEDS_CHECKSUM;
        packet[GSO_TYPE] = u8::from(gso_size > 0);
        packet[GSO_SIZE..GSO_SIZE + 2].copy_from_slice(&gso_size.to_ne_bytes());
        packet[CHECKSUM_START..CHECKSUM_START + 2].copy_from_slice(&20_u16.to_ne_bytes());
        packet[HEADER + 20 + TCP_WORDS] = 8 << 4;
        packet
    }

    #[test]
    fn each_segment_has_headers_of_its_own() {
        assert_eq!(wire_bytes(&tcp(100, 0)), 152);
        assert_eq!(wire_bytes(&tcp(1448, 1448)), 1500);
        assert_eq!(wire_bytes(&tcp(1449, 1448)), 1449 + 2 * 52);
        assert_eq!(wire_bytes(&tcp(40 * 1448, 1448)), 40 * 1500);
    }

    #[test]
    fn what_is_cut_short_has_its_own_length() {
        let whole = tcp(3000, 1448);
        for length in 0..HEADER + 20 + TCP_WORDS {
            assert_eq!(wire_bytes(&whole[..length]), length.saturating_sub(HEADER));
        }
    }
}
