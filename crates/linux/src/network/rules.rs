//! The rules by which packets of a gated network find their way, as one nftables table:
//!
//! ```text
//! table inet surmise {
//!   chain output {                        # route, output, mangle
//!     oif lo, SYN, tcp dport LISTENER     -> reset        # nobody inside meets the listener itself
//!     oif lo, SYN, ip daddr 127.0.0.0/8   -> jump gated   # jumps, and `gated`, only if ports are
//!     oif lo, SYN, ip6 daddr ::1          -> jump gated
//!     oif lo                              -> accept
//!     tcp, no SYN                         -> mark RELAYED
//!   }
//!   chain gated { tcp dport PORT -> mark GATED, accept    # one for each port, or one for all }
//!   chain prerouting {                    # filter, prerouting, mangle
//!     iif eth0, SYN                       -> mark RELAYED, tproxy to :LISTENER, accept
//!     iif lo, mark RELAYED, SYN           -> tproxy to :LISTENER, accept
//!   }
//! }
//! ```
//!
//! SYN is a TCP packet that has of SYN, ACK, RST and FIN only the first: one that asks for a
//! connection.

use std::net::Ipv6Addr;

use super::gate::Loopback;
use super::netlink::Batch;
use super::nftables::{Base, Expression, Hook, Meta, Table};
use super::route::LOOPBACK;

/// Mark of packets that belong to a relayed connection: their destination is here, whatever it is.
pub(super) const RELAYED: u32 = 1;
/// Mark of loopback packets that go out to the relay first.
pub(super) const GATED: u32 = 2;

const FIN_SYN_RST_ACK: u8 = 0x17;
const SYN: u8 = 0x02;

const OUTPUT: &str = "output";
const PREROUTING: &str = "prerouting";
const GATED_PORTS: &str = "gated";

/// The whole table. `tun` is the TUN device's index, `listener` the transparent listener's port.
pub(super) fn ruleset(tun: u32, listener: u16, loopback: &Loopback<'_>) -> Batch {
    let mut batch = Batch::new();
    let mut table = Table::begin(&mut batch, "surmise");
    table.add_chain(OUTPUT, Some(Hook::Output));
    table.add_chain(PREROUTING, Some(Hook::Prerouting));
    let to_loopback = || meta(Meta::OutputInterface, LOOPBACK);
    let own = [
        to_loopback(),
        syn(),
        to_port(listener),
        vec![Expression::Reset],
    ]
    .concat();
    table.add_rule("shield the listener", OUTPUT, &own);
    add_gated_ports(&mut table, loopback);
    let stay = [to_loopback(), vec![Expression::Accept]].concat();
    table.add_rule("leave loopback packets alone", OUTPUT, &stay);
    let rest = [no_syn(), vec![Expression::SetMark(RELAYED)]].concat();
    table.add_rule("keep relayed connections here", OUTPUT, &rest);

    let mark = vec![Expression::SetMark(RELAYED)];
    let proxy = vec![Expression::Proxy(listener), Expression::Accept];
    let from_tun = meta(Meta::InputInterface, tun);
    let come_back = [from_tun, syn(), mark, proxy.clone()].concat();
    table.add_rule("proxy what the relay let through", PREROUTING, &come_back);
    let from_loopback = meta(Meta::InputInterface, LOOPBACK);
    let marked = meta(Meta::Mark, RELAYED);
    let injected = [from_loopback, marked, syn(), proxy].concat();
    table.add_rule("proxy what the relay let through", PREROUTING, &injected);
    table.end();
    batch
}

fn add_gated_ports(table: &mut Table<'_>, loopback: &Loopback<'_>) {
    let step = "gate loopback ports";
    let ports: Vec<Vec<Expression>> = match loopback {
        Loopback::None => return,
        Loopback::Ports(ports) => ports.iter().map(|&port| to_port(port)).collect(),
        Loopback::All => vec![Vec::new()],
    };
    table.add_chain(GATED_PORTS, None);
    for port in ports {
        let gate = vec![Expression::SetMark(GATED), Expression::Accept];
        table.add_rule(step, GATED_PORTS, &[port, gate].concat());
    }
    let to_loopback = || meta(Meta::OutputInterface, LOOPBACK);
    let jump = vec![Expression::Jump(GATED_PORTS)];
    let v4 = [to_loopback(), syn(), to_loopback_v4(), jump.clone()].concat();
    table.add_rule(step, OUTPUT, &v4);
    let v6 = [to_loopback(), syn(), to_loopback_v6(), jump].concat();
    table.add_rule(step, OUTPUT, &v6);
}

fn meta(key: Meta, value: u32) -> Vec<Expression> {
    let value = value.to_ne_bytes().into();
    vec![Expression::LoadMeta(key), Expression::Equal(value)]
}

fn meta_byte(key: Meta, value: libc::c_int) -> Vec<Expression> {
    vec![
        Expression::LoadMeta(key),
        Expression::Equal(vec![value as u8]),
    ]
}

fn flags() -> Vec<Expression> {
    let tcp = meta_byte(Meta::Protocol, libc::IPPROTO_TCP);
    let load = Expression::Load {
        base: Base::Transport,
        offset: 13,
        length: 1,
    };
    let mask = Expression::Mask(vec![FIN_SYN_RST_ACK]);
    [tcp, vec![load, mask]].concat()
}

fn syn() -> Vec<Expression> {
    [flags(), vec![Expression::Equal(vec![SYN])]].concat()
}

fn no_syn() -> Vec<Expression> {
    [flags(), vec![Expression::NotEqual(vec![SYN])]].concat()
}

/// Follows [`syn`], which has seen that the packet is TCP.
fn to_port(port: u16) -> Vec<Expression> {
    let load = Expression::Load {
        base: Base::Transport,
        offset: 2,
        length: 2,
    };
    vec![load, Expression::Equal(port.to_be_bytes().into())]
}

fn to_loopback_v4() -> Vec<Expression> {
    let load = Expression::Load {
        base: Base::Network,
        offset: 16,
        length: 1,
    };
    let network = Expression::Equal(vec![127]);
    let family = meta_byte(Meta::Family, libc::NFPROTO_IPV4);
    [family, vec![load, network]].concat()
}

fn to_loopback_v6() -> Vec<Expression> {
    let load = Expression::Load {
        base: Base::Network,
        offset: 24,
        length: 16,
    };
    let address = Expression::Equal(Ipv6Addr::LOCALHOST.octets().into());
    let family = meta_byte(Meta::Family, libc::NFPROTO_IPV6);
    [family, vec![load, address]].concat()
}
