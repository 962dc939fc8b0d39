//! A request that ends early is refused. What holds of any bytes is asked in `fuzzing`.

use proptest::prelude::*;

use super::{Bytes, UNIQUE};
use crate::{Capabilities, DecodeError, Request};

proptest! {
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
