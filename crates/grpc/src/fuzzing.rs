//! What holds of any bytes that a peer sends. Ordinary tests ask it of mutated messages, and targets in
//! `fuzz/` of whatever libFuzzer finds.

use prost::bytes::Bytes;
use surmise_rpc::{Frame, Stamp};

use crate::Methods;
use crate::wire::{decode, encode};

/// A frame of a reply stream: what is decoded is encoded as bytes that decode to the same. Whether it was one.
///
/// # Panics
/// When that does not hold.
pub fn frame(bytes: &[u8]) -> bool {
    let Ok(frame) = decode(Bytes::copy_from_slice(bytes)) else {
        return false;
    };
    let encoded = encode(frame);
    let again = decode(encoded.clone()).expect("what was encoded is a frame");
    // Not the frames: a confidence may be no number, which is not equal to itself.
    assert_eq!(encode(again), encoded);
    assert!(encoded.len() <= bytes.len() + crate::wire::FRAME_ADDS_MAX);
    true
}

/// A set of descriptors: read, or refused. Whether it was one.
pub fn descriptors(bytes: &[u8]) -> bool {
    Methods::new().describe(bytes).is_ok()
}

/// Frames of every kind.
pub fn frame_seeds() -> Vec<Vec<u8>> {
    let stamp = Some(Stamp { clock: 1, at: 300 });
    let frames = [
        Frame::Prediction {
            value: "a".into(),
            confidence: 0.5,
        },
        Frame::Actual("value".into(), None),
        Frame::Actual("".into(), stamp),
        Frame::ActualIs(0, stamp),
        Frame::ActualIs(300, None),
    ];
    frames.map(|frame| encode(frame).to_vec()).to_vec()
}

/// Two services of one package, with methods of each class, as `protoc` describes them.
pub fn descriptor_seeds() -> Vec<Vec<u8>> {
    let field = |tag: u8, bytes: &[u8]| [&[tag << 3 | 2, bytes.len() as u8], bytes].concat();
    let method = |name: &str, options: &[u8]| {
        let name = field(1, name.as_bytes());
        field(2, &[name, field(4, options)].concat())
    };
    // `idempotency_level = NO_SIDE_EFFECTS` is field 34, `(surmise.aware) = true` field 50747.
    let (safe, aware) = ([0x90, 2, 1], [0xd8, 0xe3, 0x18, 1]);
    let methods = [
        method("Get", &safe),
        method("Put", &aware),
        method("Delete", &[]),
    ];
    let service = |name: &str| {
        let name = field(1, name.as_bytes());
        field(6, &[name, methods.concat()].concat())
    };
    let package = field(2, b"example.v1");
    let file = field(1, &[package, service("A"), service("B")].concat());
    vec![file.clone(), [file.clone(), file].concat()]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use surmise_rpc::Safety;
    use surmise_testkit::mutations;

    use super::*;

    #[test]
    fn the_seeds_are_frames_and_descriptors() {
        assert!(frame_seeds().iter().all(|seed| frame(seed)));
        for seed in descriptor_seeds() {
            let methods = Methods::new().describe(&seed).unwrap();
            assert_eq!(methods.of("/example.v1.A/Get"), Safety::Safe);
            assert_eq!(methods.of("/example.v1.B/Put"), Safety::Aware);
        }
    }

    /// A message of 80 KiB, of which each method's path would have 64 KiB.
    #[test]
    fn a_small_message_does_not_fill_the_memory() {
        let package = "p".repeat(1 << 16);
        let method = [0x12, 3, 0x0a, 1, b'm'];
        let service = |methods: usize| [&[0x0a, 1, b's'][..], &method.repeat(methods)].concat();
        let field = |tag: u8, bytes: &[u8]| {
            let mut field = vec![tag << 3 | 2];
            prost::encoding::encode_varint(bytes.len() as u64, &mut field);
            [field, bytes.to_vec()].concat()
        };
        let set = |methods| {
            let service = field(6, &service(methods));
            field(1, &[field(2, package.as_bytes()), service].concat())
        };
        assert!(descriptors(&set(100)));
        assert!(!descriptors(&set(3000)));
    }

    proptest! {
        #[test]
        fn any_frame_is_read_or_refused(bytes in mutations(frame_seeds())) {
            frame(&bytes);
        }

        #[test]
        fn any_descriptors_are_read_or_refused(bytes in mutations(descriptor_seeds())) {
            descriptors(&bytes);
        }
    }
}
