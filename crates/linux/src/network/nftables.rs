//! Messages that make an nftables table: its chains, rules and their expressions.

use super::netlink::{Attributes, Batch, NEW};

/// The one data register used: an expression loads it, the next ones look at it.
const REGISTER: u32 = 1;
const VERDICT_REGISTER: u32 = 0;

const SUBSYSTEM: u16 = libc::NFNL_SUBSYS_NFTABLES as u16;
/// Rules are added behind those that are there.
const APPEND: u16 = libc::NLM_F_APPEND as u16;

// Attributes of linux/netfilter/nf_tables.h.
const NFTA_TABLE_NAME: u16 = 1;
const NFTA_CHAIN_TABLE: u16 = 1;
const NFTA_CHAIN_NAME: u16 = 3;
const NFTA_CHAIN_HOOK: u16 = 4;
const NFTA_CHAIN_TYPE: u16 = 7;
const NFTA_HOOK_HOOKNUM: u16 = 1;
const NFTA_HOOK_PRIORITY: u16 = 2;
const NFTA_RULE_TABLE: u16 = 1;
const NFTA_RULE_CHAIN: u16 = 2;
const NFTA_RULE_EXPRESSIONS: u16 = 4;
const NFTA_LIST_ELEM: u16 = 1;
const NFTA_EXPR_NAME: u16 = 1;
const NFTA_EXPR_DATA: u16 = 2;
const NFTA_META_DREG: u16 = 1;
const NFTA_META_KEY: u16 = 2;
const NFTA_META_SREG: u16 = 3;
const NFTA_PAYLOAD_DREG: u16 = 1;
const NFTA_PAYLOAD_BASE: u16 = 2;
const NFTA_PAYLOAD_OFFSET: u16 = 3;
const NFTA_PAYLOAD_LEN: u16 = 4;
const NFTA_CMP_SREG: u16 = 1;
const NFTA_CMP_OP: u16 = 2;
const NFTA_CMP_DATA: u16 = 3;
const NFTA_BITWISE_SREG: u16 = 1;
const NFTA_BITWISE_DREG: u16 = 2;
const NFTA_BITWISE_LEN: u16 = 3;
const NFTA_BITWISE_MASK: u16 = 4;
const NFTA_BITWISE_XOR: u16 = 5;
const NFTA_IMMEDIATE_DREG: u16 = 1;
const NFTA_IMMEDIATE_DATA: u16 = 2;
const NFTA_DATA_VALUE: u16 = 1;
const NFTA_DATA_VERDICT: u16 = 2;
const NFTA_VERDICT_CODE: u16 = 1;
const NFTA_VERDICT_CHAIN: u16 = 2;
const NFTA_TPROXY_FAMILY: u16 = 1;
const NFTA_TPROXY_REG_PORT: u16 = 3;
const NFTA_REJECT_TYPE: u16 = 1;
const NFTA_REJECT_ICMP_CODE: u16 = 2;
const NFT_REJECT_TCP_RST: u32 = 1;

/// Where the kernel runs a chain by itself.
#[derive(Clone, Copy)]
pub(super) enum Hook {
    /// Packets that have just come in, before they are routed.
    Prerouting,
    /// Packets made here; those whose mark a rule changes are routed again.
    Output,
}

/// A fact about a packet that is not in its bytes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Meta {
    Mark = 3,
    InputInterface = 4,
    OutputInterface = 5,
    /// 2 for IPv4, 10 for IPv6.
    Family = 15,
    Protocol = 16,
}

/// Where a packet's bytes are counted from.
#[derive(Clone, Copy, Debug)]
pub(super) enum Base {
    Network = 1,
    Transport = 2,
}

/// One step of a rule. A comparison that does not hold ends the rule.
#[derive(Clone, Debug)]
pub(super) enum Expression {
    LoadMeta(Meta),
    Load {
        base: Base,
        offset: u8,
        length: u8,
    },
    /// Keeps these bits of what was loaded.
    Mask(Vec<u8>),
    Equal(Vec<u8>),
    NotEqual(Vec<u8>),
    SetMark(u32),
    /// Gives the packet to the transparent socket that listens on this port.
    Proxy(u16),
    /// Drops a TCP packet and answers it with a reset.
    Reset,
    Accept,
    Jump(&'static str),
}

/// Messages that make one table of rules for IPv4 and IPv6, all or nothing.
pub(super) struct Table<'a> {
    batch: &'a mut Batch,
    name: &'static str,
}

impl<'a> Table<'a> {
    /// Begins with an empty table, which [`Self::end`] ends.
    pub(super) fn begin(batch: &'a mut Batch, name: &'static str) -> Self {
        let step = "begin a change of nftables";
        let header = [libc::AF_UNSPEC as u8, 0, 0, SUBSYSTEM as u8];
        batch.silent(step, libc::NFNL_MSG_BATCH_BEGIN as u16, &header);
        let mut attributes = Attributes::new();
        attributes.name(NFTA_TABLE_NAME, name);
        let mut table = Self { batch, name };
        table.request(
            "add an nftables table",
            (libc::NFT_MSG_NEWTABLE, NEW),
            &attributes,
        );
        table
    }

    /// Adds a chain; one without a hook is run by rules that jump to it.
    pub(super) fn add_chain(&mut self, name: &'static str, hook: Option<Hook>) {
        let mut attributes = Attributes::new();
        attributes.name(NFTA_CHAIN_TABLE, self.name);
        attributes.name(NFTA_CHAIN_NAME, name);
        if let Some(hook) = hook {
            let (number, kind) = match hook {
                Hook::Prerouting => (libc::NF_INET_PRE_ROUTING, "filter"),
                Hook::Output => (libc::NF_INET_LOCAL_OUT, "route"),
            };
            attributes.nested(NFTA_CHAIN_HOOK, |attributes| {
                attributes.number_be(NFTA_HOOK_HOOKNUM, number as u32);
                attributes.number_be(NFTA_HOOK_PRIORITY, libc::NF_IP_PRI_MANGLE as u32);
            });
            attributes.name(NFTA_CHAIN_TYPE, kind);
        }
        self.request(
            "add an nftables chain",
            (libc::NFT_MSG_NEWCHAIN, NEW),
            &attributes,
        );
    }

    /// Adds a rule behind those that the chain has.
    pub(super) fn add_rule(
        &mut self,
        step: &'static str,
        chain: &'static str,
        expressions: &[Expression],
    ) {
        let mut attributes = Attributes::new();
        attributes.name(NFTA_RULE_TABLE, self.name);
        attributes.name(NFTA_RULE_CHAIN, chain);
        attributes.nested(NFTA_RULE_EXPRESSIONS, |list| {
            for expression in expressions {
                expression.encode(list);
            }
        });
        let flags = libc::NLM_F_CREATE as u16 | APPEND;
        self.request(step, (libc::NFT_MSG_NEWRULE, flags), &attributes);
    }

    pub(super) fn end(self) {
        let step = "apply a change of nftables";
        let header = [libc::AF_UNSPEC as u8, 0, 0, SUBSYSTEM as u8];
        self.batch
            .silent(step, libc::NFNL_MSG_BATCH_END as u16, &header);
    }

    fn request(
        &mut self,
        step: &'static str,
        (kind, flags): (libc::c_int, u16),
        attributes: &Attributes,
    ) {
        let kind = SUBSYSTEM << 8 | kind as u16;
        let header = [libc::NFPROTO_INET as u8, 0, 0, 0];
        self.batch.request(step, (kind, flags), &header, attributes);
    }
}

impl Expression {
    fn encode(&self, list: &mut Attributes) {
        match self {
            Self::LoadMeta(key) => element(list, "meta", |meta| {
                meta.number_be(NFTA_META_KEY, *key as u32);
                meta.number_be(NFTA_META_DREG, REGISTER);
            }),
            Self::Load {
                base,
                offset,
                length,
            } => element(list, "payload", |payload| {
                payload.number_be(NFTA_PAYLOAD_DREG, REGISTER);
                payload.number_be(NFTA_PAYLOAD_BASE, *base as u32);
                payload.number_be(NFTA_PAYLOAD_OFFSET, (*offset).into());
                payload.number_be(NFTA_PAYLOAD_LEN, (*length).into());
            }),
            Self::Mask(mask) => element(list, "bitwise", |bitwise| {
                bitwise.number_be(NFTA_BITWISE_SREG, REGISTER);
                bitwise.number_be(NFTA_BITWISE_DREG, REGISTER);
                bitwise.number_be(NFTA_BITWISE_LEN, mask.len() as u32);
                bitwise.nested(NFTA_BITWISE_MASK, |data| data.bytes(NFTA_DATA_VALUE, mask));
                let zeros = vec![0; mask.len()];
                bitwise.nested(NFTA_BITWISE_XOR, |data| data.bytes(NFTA_DATA_VALUE, &zeros));
            }),
            Self::Equal(value) => compare(list, libc::NFT_CMP_EQ, value),
            Self::NotEqual(value) => compare(list, libc::NFT_CMP_NEQ, value),
            Self::SetMark(mark) => {
                load(list, &mark.to_ne_bytes());
                element(list, "meta", |meta| {
                    meta.number_be(NFTA_META_KEY, Meta::Mark as u32);
                    meta.number_be(NFTA_META_SREG, REGISTER);
                });
            }
            Self::Proxy(port) => {
                load(list, &port.to_be_bytes());
                element(list, "tproxy", |tproxy| {
                    // Both families, and with that whatever address the socket listens on.
                    tproxy.number_be(NFTA_TPROXY_FAMILY, libc::NFPROTO_UNSPEC as u32);
                    tproxy.number_be(NFTA_TPROXY_REG_PORT, REGISTER);
                });
            }
            Self::Reset => element(list, "reject", |reject| {
                reject.number_be(NFTA_REJECT_TYPE, NFT_REJECT_TCP_RST);
                reject.bytes(NFTA_REJECT_ICMP_CODE, &[0]);
            }),
            Self::Accept => verdict(list, libc::NF_ACCEPT, None),
            Self::Jump(chain) => verdict(list, libc::NFT_JUMP, Some(chain)),
        }
    }
}

fn element(list: &mut Attributes, name: &str, fill: impl FnOnce(&mut Attributes)) {
    list.nested(NFTA_LIST_ELEM, |element| {
        element.name(NFTA_EXPR_NAME, name);
        element.nested(NFTA_EXPR_DATA, fill);
    });
}

fn compare(list: &mut Attributes, operator: libc::c_int, value: &[u8]) {
    element(list, "cmp", |compare| {
        compare.number_be(NFTA_CMP_SREG, REGISTER);
        compare.number_be(NFTA_CMP_OP, operator as u32);
        compare.nested(NFTA_CMP_DATA, |data| data.bytes(NFTA_DATA_VALUE, value));
    });
}

fn load(list: &mut Attributes, value: &[u8]) {
    element(list, "immediate", |immediate| {
        immediate.number_be(NFTA_IMMEDIATE_DREG, REGISTER);
        immediate.nested(NFTA_IMMEDIATE_DATA, |data| {
            data.bytes(NFTA_DATA_VALUE, value)
        });
    });
}

fn verdict(list: &mut Attributes, code: libc::c_int, chain: Option<&str>) {
    element(list, "immediate", |immediate| {
        immediate.number_be(NFTA_IMMEDIATE_DREG, VERDICT_REGISTER);
        immediate.nested(NFTA_IMMEDIATE_DATA, |data| {
            data.nested(NFTA_DATA_VERDICT, |verdict| {
                verdict.number_be(NFTA_VERDICT_CODE, code as u32);
                if let Some(chain) = chain {
                    verdict.name(NFTA_VERDICT_CHAIN, chain);
                }
            });
        });
    });
}

#[cfg(test)]
mod tests {
    use super::super::netlink::messages;
    use super::*;

    /// An element of a rule, from the bytes of its data.
    fn element(name: &[u8], data: &[u8]) -> Vec<u8> {
        let name = attribute(1, name);
        let data = attribute(2 | 0x8000, data);
        attribute(1 | 0x8000, &[name, data].concat())
    }

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let length = (4 + value.len()) as u16;
        let mut bytes = [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), value].concat();
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn number(kind: u16, value: u32) -> Vec<u8> {
        attribute(kind, &value.to_be_bytes())
    }

    fn data(kind: u16, value: &[u8]) -> Vec<u8> {
        attribute(kind | 0x8000, &attribute(1, value))
    }

    fn immediate(register: u32, data: &[u8]) -> Vec<u8> {
        let data = attribute(2 | 0x8000, data);
        element(b"immediate\0", &[number(1, register), data].concat())
    }

    fn assert_encoded(expression: &Expression, expected: &[Vec<u8>]) {
        let mut list = Attributes::new();
        expression.encode(&mut list);
        assert_eq!(list.as_bytes(), expected.concat(), "{expression:?}");
    }

    #[test]
    fn facts_and_bytes_are_loaded_and_compared() {
        let meta = [number(2, 16), number(1, 1)].concat();
        let meta = element(b"meta\0", &meta);
        assert_encoded(&Expression::LoadMeta(Meta::Protocol), &[meta]);

        let load = Expression::Load {
            base: Base::Transport,
            offset: 13,
            length: 1,
        };
        let payload = [number(1, 1), number(2, 2), number(3, 13), number(4, 1)].concat();
        assert_encoded(&load, &[element(b"payload\0", &payload)]);

        let registers = [number(1, 1), number(2, 1), number(3, 1)].concat();
        let bits = [data(4, &[0x17]), data(5, &[0])].concat();
        let bitwise = element(b"bitwise\0", &[registers, bits].concat());
        assert_encoded(&Expression::Mask(vec![0x17]), &[bitwise]);

        let compare = |operator, value: &[u8]| {
            let compare = [number(1, 1), number(2, operator), data(3, value)].concat();
            element(b"cmp\0", &compare)
        };
        assert_encoded(&Expression::Equal(vec![2]), &[compare(0, &[2])]);
        assert_encoded(&Expression::NotEqual(vec![1, 2]), &[compare(1, &[1, 2])]);
    }

    #[test]
    fn actions_and_verdicts_are_encoded() {
        let mark = element(b"meta\0", &[number(2, 3), number(3, 1)].concat());
        let value = immediate(1, &attribute(1, &5_u32.to_ne_bytes()));
        assert_encoded(&Expression::SetMark(5), &[value, mark]);

        let tproxy = element(b"tproxy\0", &[number(1, 0), number(3, 1)].concat());
        let port = immediate(1, &attribute(1, &[0x12, 0x34]));
        assert_encoded(&Expression::Proxy(0x1234), &[port, tproxy]);

        let reject = element(b"reject\0", &[number(1, 1), attribute(2, &[0])].concat());
        assert_encoded(&Expression::Reset, &[reject]);

        let verdict = |verdict: &[u8]| immediate(0, &attribute(2 | 0x8000, verdict));
        assert_encoded(&Expression::Accept, &[verdict(&number(1, 1))]);
        let jump = [number(1, 0xffff_fffd), attribute(2, b"other\0")].concat();
        assert_encoded(&Expression::Jump("other"), &[verdict(&jump)]);
    }

    #[test]
    fn a_table_is_one_transaction() {
        let mut batch = Batch::new();
        let mut table = Table::begin(&mut batch, "t");
        table.add_chain("c", Some(Hook::Output));
        table.add_rule("add a rule", "c", &[Expression::Accept]);
        table.end();
        let messages: Vec<_> = messages(batch.as_bytes()).collect();
        let kinds: Vec<_> = messages.iter().map(|message| message.kind).collect();
        assert_eq!(kinds, [0x10, 0xa00, 0xa03, 0xa06, 0x11]);
        for (message, family) in messages.iter().zip([0, 1, 1, 1, 0]) {
            assert_eq!(message.payload[..2], [family, 0]);
        }
        for mark in [0, 4] {
            assert_eq!(messages[mark].payload, [0, 0, 0, 10]);
        }
        let hook = [number(1, 3), number(2, (-150_i32) as u32)].concat();
        let chain = [
            attribute(1, b"t\0"),
            attribute(3, b"c\0"),
            attribute(4 | 0x8000, &hook),
            attribute(7, b"route\0"),
        ];
        assert_eq!(messages[2].payload[4..], chain.concat());
    }
}
