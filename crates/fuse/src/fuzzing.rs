//! What holds of any bytes read from the device. Ordinary tests ask it of mutated requests, and a target
//! in `fuzz/` of whatever libFuzzer finds.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use crate::abi::opcode::{
    ACCESS, BATCH_FORGET, COPY_FILE_RANGE, COPY_FILE_RANGE_64, CREATE, DESTROY, FALLOCATE, FLUSH,
    FORGET, FSYNC, FSYNCDIR, GETATTR, GETLK, GETXATTR, INIT, INTERRUPT, IOCTL, LINK, LISTXATTR,
    LOOKUP, LSEEK, MKDIR, MKNOD, NOTIFY_REPLY, OPEN, OPENDIR, READ, READDIR, READDIRPLUS, READLINK,
    RELEASE, RELEASEDIR, REMOVEXATTR, RENAME, RENAME2, RMDIR, SETATTR, SETLK, SETLKW, SETXATTR,
    STATFS, STATX, SYMLINK, SYNCFS, TMPFILE, UNLINK, WRITE,
};
use crate::{Capabilities, DecodeError, HandleOperation, Operation, Request, XattrOperation};

const CAPABILITIES_LENGTH: usize = 8;
const HEADER_LENGTH: usize = 40;

/// The capabilities that were agreed, in 8 bytes, and a request, whose length is set to what there is:
/// it is decoded or refused by its name, and what it gives lies within it. Whether it was decoded.
///
/// # Panics
/// When that does not hold.
pub fn request(bytes: &[u8]) -> bool {
    let Some((agreed, request)) = bytes.split_first_chunk::<CAPABILITIES_LENGTH>() else {
        return false;
    };
    let agreed = Capabilities::from_bits_retain(u64::from_le_bytes(*agreed));
    // One that tells another length than has arrived is refused at once.
    let _ = Request::decode(request, agreed);
    let mut sealed = request.to_vec();
    if let Some(length) = sealed.first_chunk_mut() {
        *length = u32::to_ne_bytes(request.len() as u32);
    }
    let told = |at: usize| {
        sealed
            .get(at..at + 8)
            .and_then(|bytes| bytes.try_into().ok())
    };
    let unique = told(8).map(u64::from_ne_bytes);
    match Request::decode(&sealed, agreed) {
        Ok(request) => {
            assert_eq!(Some(request.unique), unique);
            assert_within(&request, sealed.len() - HEADER_LENGTH);
            true
        }
        Err(DecodeError::Truncated { unique: told, .. }) => {
            assert_eq!(Some(told), unique);
            false
        }
        Err(DecodeError::Length { received }) => {
            assert_eq!(received, sealed.len());
            false
        }
    }
}

/// Names end before their NUL, and all that a request gives is in its body.
fn assert_within(request: &Request<'_>, body: usize) {
    let mut names: Vec<&OsStr> = Vec::new();
    let mut data = 0;
    match &request.operation {
        Operation::Lookup { name }
        | Operation::Mknod { name, .. }
        | Operation::Mkdir { name, .. }
        | Operation::Unlink { name }
        | Operation::Rmdir { name }
        | Operation::Create { name, .. }
        | Operation::Link { new_name: name, .. } => names.push(name),
        Operation::Symlink { name, target } => names.extend([name, target]),
        Operation::Rename { name, new_name, .. } => names.extend([name, new_name]),
        Operation::Xattr(XattrOperation::Set { name, value, .. }) => {
            names.push(name);
            data += value.len();
        }
        Operation::Xattr(XattrOperation::Get { name, .. } | XattrOperation::Remove { name }) => {
            names.push(name);
        }
        Operation::Through { operation, .. } => match operation {
            HandleOperation::Write(write) => data += write.data.len(),
            HandleOperation::Ioctl { ioctl, .. } => data += ioctl.input.len(),
            _ => {}
        },
        Operation::Forget(forgets) => {
            let many = forgets.clone().count();
            assert!(many == 1 || many * 16 <= body, "{many} in {body} bytes");
        }
        _ => {}
    }
    for name in &names {
        assert!(!name.as_bytes().contains(&0), "{name:?}");
        data += name.len() + 1;
    }
    assert!(data <= body, "{data} of {body} bytes");
}

/// A request of each kind: opcode, the bytes before names, and what follows.
const KINDS: [(u32, usize, &[u8]); 47] = [
    (LOOKUP, 0, b"a\0"),
    (FORGET, 8, b""),
    (GETATTR, 16, b""),
    (SETATTR, 88, b""),
    (READLINK, 0, b""),
    (SYMLINK, 0, b"a\0../to\0"),
    (MKNOD, 16, b"a\0"),
    (MKDIR, 8, b"a\0"),
    (UNLINK, 0, b"a\0"),
    (RMDIR, 0, b"a\0"),
    (RENAME, 8, b"a\0b\0"),
    (RENAME2, 16, b"a\0b\0"),
    (LINK, 8, b"a\0"),
    (OPEN, 8, b""),
    (READ, 40, b""),
    (WRITE, 40, b""),
    (STATFS, 0, b""),
    (RELEASE, 24, b""),
    (FSYNC, 16, b""),
    (SETXATTR, 8, b"user.a\0"),
    (GETXATTR, 8, b"user.a\0"),
    (LISTXATTR, 8, b""),
    (REMOVEXATTR, 0, b"user.a\0"),
    (FLUSH, 24, b""),
    (INIT, 64, b""),
    (OPENDIR, 8, b""),
    (READDIR, 40, b""),
    (READDIRPLUS, 40, b""),
    (RELEASEDIR, 24, b""),
    (FSYNCDIR, 16, b""),
    (GETLK, 48, b""),
    (SETLK, 48, b""),
    (SETLKW, 48, b""),
    (ACCESS, 8, b""),
    (CREATE, 16, b"a\0"),
    (INTERRUPT, 8, b""),
    (DESTROY, 0, b""),
    (IOCTL, 32, b""),
    (NOTIFY_REPLY, 40, b""),
    (BATCH_FORGET, 8, b""),
    (FALLOCATE, 32, b""),
    (LSEEK, 24, b""),
    (COPY_FILE_RANGE, 56, b""),
    (COPY_FILE_RANGE_64, 56, b""),
    (SYNCFS, 8, b""),
    (TMPFILE, 16, b"/\0"),
    (STATX, 24, b""),
];

/// Requests as the kernel sends them: one of each kind, and those that say how much follows.
pub fn seeds() -> Vec<Vec<u8>> {
    let plain = KINDS.iter().map(|(opcode, fixed, names)| {
        let body = [&vec![0; *fixed][..], names].concat();
        seed(Capabilities::empty(), *opcode, &body)
    });
    let word = u32::to_ne_bytes;
    let sized = [
        // The handle and the place, then the size, then what is not looked at.
        seed(
            Capabilities::empty(),
            WRITE,
            &[&[0; 16][..], &word(4), &[0; 20], b"data"].concat(),
        ),
        seed(
            Capabilities::SETXATTR_EXT,
            SETXATTR,
            &[&word(2)[..], &word(1), &word(1), &word(0), b"user.a\0hi"].concat(),
        ),
        seed(
            Capabilities::empty(),
            BATCH_FORGET,
            &[&word(2)[..], &word(0), &[1; 32]].concat(),
        ),
        seed(
            Capabilities::empty(),
            IOCTL,
            &[&[0; 24][..], &word(4), &word(0), b"data"].concat(),
        ),
    ];
    plain.chain(sized).collect()
}

fn seed(agreed: Capabilities, opcode: u32, body: &[u8]) -> Vec<u8> {
    let length = (HEADER_LENGTH + body.len()) as u32;
    let mut bytes = agreed.bits().to_le_bytes().to_vec();
    bytes.extend(length.to_ne_bytes());
    bytes.extend(opcode.to_ne_bytes());
    for number in [77u64, 9] {
        bytes.extend(number.to_ne_bytes());
    }
    for number in [1000u32, 100, 77, 0] {
        bytes.extend(number.to_ne_bytes());
    }
    bytes.extend(body);
    bytes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use surmise_testkit::mutations;

    use super::*;

    #[test]
    fn the_seeds_are_requests() {
        for seed in seeds() {
            assert!(request(&seed), "{seed:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_decode_or_are_refused_by_name(bytes in mutations(seeds())) {
            request(&bytes);
        }

        #[test]
        fn any_body_of_any_kind_decodes_or_is_refused_by_name(
            bits in any::<u64>(),
            opcode in prop_oneof![0u32..60, any::<u32>()],
            body in prop::collection::vec(any::<u8>(), 0..256),
        ) {
            request(&seed(Capabilities::from_bits_retain(bits), opcode, &body));
        }
    }
}
