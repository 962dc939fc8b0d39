//! The value of `security.capability`, for readers.

use rustix::thread::CapabilitySet;

const REVISION: u32 = 0xff00_0000;
const EFFECTIVE: u32 = 1;

/// File capabilities as getcap(8) has them: `cap_net_raw,cap_kill=ep`. A value that the kernel would
/// not take is shown by its bytes.
pub(super) fn text(value: &[u8]) -> String {
    decode(value).unwrap_or_else(|| {
        let bytes: Vec<_> = value.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("0x{}", bytes.concat())
    })
}

/// `struct vfs_cap_data` and `struct vfs_ns_cap_data` of linux/capability.h: a word with revision and
/// flag, then pairs of permitted and inheritable sets of 32, then in the third revision the root user
/// of the namespaces in which they count.
fn decode(value: &[u8]) -> Option<String> {
    let (words, rest) = value.as_chunks::<4>();
    let words: Vec<_> = words.iter().map(|word| u32::from_le_bytes(*word)).collect();
    let (&first, sets) = words.split_first()?;
    let (pairs, root) = match ((first & REVISION) >> 24, sets.len()) {
        (1, 2) => (1, None),
        (2, 4) => (2, None),
        (3, 5) => (2, sets.last().copied()),
        _ => return None,
    };
    if !rest.is_empty() {
        return None;
    }
    let set = |offset: usize| {
        let word = |index: usize| match index < pairs {
            true => u64::from(sets[2 * index + offset]),
            false => 0,
        };
        CapabilitySet::from_bits_retain(word(0) | word(1) << 32)
    };
    let (permitted, inheritable) = (set(0), set(1));
    let effective = if first & EFFECTIVE != 0 { "e" } else { "" };
    let kinds = [
        (permitted & inheritable, format!("={effective}ip")),
        (permitted - inheritable, format!("={effective}p")),
        (inheritable - permitted, format!("={effective}i")),
    ];
    let mut clauses: Vec<_> = kinds
        .into_iter()
        .filter(|(set, _)| !set.is_empty())
        .map(|(set, flags)| names(set) + &flags)
        .collect();
    if clauses.is_empty() {
        clauses.push("=".to_owned());
    }
    clauses.extend(
        root.filter(|root| *root != 0)
            .map(|root| format!("[rootid={root}]")),
    );
    Some(clauses.join(" "))
}

fn names(set: CapabilitySet) -> String {
    let mut names: Vec<_> = set
        .iter_names()
        .map(|(name, _)| format!("cap_{}", name.to_lowercase()))
        .collect();
    let named = set.iter_names().map(|(_, flag)| flag.bits());
    let unnamed = set.bits() & !named.fold(0, |all, bits| all | bits);
    let numbers = (0..64).filter(|number| unnamed >> number & 1 == 1);
    names.extend(numbers.map(|number| number.to_string()));
    names.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn capabilities_are_named_as_getcap_names_them() {
        let raw = 1 << 13;
        let text = |words: &[u32]| text(&value(words));
        assert_eq!(text(&[0x0200_0001, raw, 0, 0, 0]), "cap_net_raw=ep");
        assert_eq!(
            text(&[0x0200_0000, raw | 1, 1, 1 << 7, 0]),
            "cap_chown=ip cap_net_raw,cap_bpf=p"
        );
        assert_eq!(
            text(&[0x0300_0001, raw, 0, 0, 0, 100_000]),
            "cap_net_raw=ep [rootid=100000]"
        );
        assert_eq!(text(&[0x0300_0001, raw, 0, 0, 0, 0]), "cap_net_raw=ep");
        assert_eq!(text(&[0x0100_0000, raw, 0]), "cap_net_raw=p");
        assert_eq!(text(&[0x0200_0000, 0, 0, 1 << 30, 0]), "62=p");
        assert_eq!(text(&[0x0200_0000, 0, 0, 0, 0]), "=");
    }

    #[test]
    fn what_are_no_capabilities_is_shown_by_its_bytes() {
        assert_eq!(text(b"x\xff"), "0x78ff");
        assert_eq!(text(&value(&[0x0200_0001, 1])), "0x0100000201000000");
        assert_eq!(text(b""), "0x");
    }
}
