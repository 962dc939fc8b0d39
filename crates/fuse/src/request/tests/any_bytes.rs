//! Decoding is total: bytes that the kernel never sent give a request or an error.

use proptest::prelude::*;

use super::{Bytes, UNIQUE};
use crate::{Capabilities, DecodeError, Operation, Request};

/// The opcodes that exist, and some that do not.
fn opcode() -> impl Strategy<Value = u32> {
    prop_oneof![0u32..60, any::<u32>()]
}

proptest! {
    #[test]
    fn any_bytes_decode_or_are_refused(
        bytes in proptest::collection::vec(any::<u8>(), 0..256),
        bits in any::<u64>(),
    ) {
        let _ = Request::decode(&bytes, Capabilities::from_bits_retain(bits));
    }

    #[test]
    fn any_body_decodes_or_is_refused_by_name(
        opcode in opcode(),
        body in proptest::collection::vec(any::<u8>(), 0..256),
        bits in any::<u64>(),
    ) {
        let bytes = Bytes::new(opcode).bytes(&body).sealed();
        match Request::decode(&bytes, Capabilities::from_bits_retain(bits)) {
            Ok(Request { operation: Operation::Forget(forgets), .. }) => {
                prop_assert!(forgets.count() <= body.len());
            }
            Ok(request) => prop_assert_eq!(request.unique, UNIQUE),
            Err(error) => {
                prop_assert_eq!(error, DecodeError::Truncated { unique: UNIQUE, opcode });
            }
        }
    }

    #[test]
    fn a_write_cut_short_is_refused(
        data in proptest::collection::vec(any::<u8>(), 0..64),
        cut in 1usize..200,
    ) {
        let size = u32::try_from(data.len()).unwrap();
        let mut body = Bytes::new(16).u64(8).u64(0).u32(size).bytes(&[0; 20]).bytes(&data);
        let whole = body.0.len();
        prop_assume!(cut <= whole - 40);
        body.0.truncate(whole - cut);
        let truncated = DecodeError::Truncated { unique: UNIQUE, opcode: 16 };
        let bytes = body.sealed();
        prop_assert_eq!(Request::decode(&bytes, Capabilities::empty()), Err(truncated));
    }
}
