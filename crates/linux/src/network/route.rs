//! Messages about interfaces, addresses, routes and routing rules.

use std::net::{IpAddr, Ipv6Addr};

use super::netlink::{Attributes, Batch, NEW};

/// The loopback interface's index, the same in every network namespace.
pub(super) const LOOPBACK: u32 = 1;

/// The table of this namespace's own addresses, which the kernel fills.
pub(super) const LOCAL_TABLE: u8 = libc::RT_TABLE_LOCAL;
/// The table that decides when nothing before it does.
pub(super) const MAIN_TABLE: u8 = libc::RT_TABLE_MAIN;

// Attributes of linux/if_link.h, if_addr.h, rtnetlink.h, fib_rules.h and ip.h.
const IFLA_MTU: u16 = 4;
const IFLA_TXQLEN: u16 = 13;
const IFLA_AF_SPEC: u16 = 26;
const IFLA_INET_CONF: u16 = 1;
const IFLA_INET6_ADDR_GEN_MODE: u16 = 8;
const IN6_ADDR_GEN_MODE_NONE: u8 = 1;
const IPV4_DEVCONF_RP_FILTER: u16 = 8;
const IPV4_DEVCONF_ACCEPT_LOCAL: u16 = 23;
const IPV4_DEVCONF_ROUTE_LOCALNET: u16 = 26;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFA_F_NODAD: u8 = 2;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const FRA_PRIORITY: u16 = 6;
const FRA_FWMARK: u16 = 10;
const FR_ACT_TO_TBL: u8 = 1;

/// What is changed about an interface.
#[derive(Default)]
pub(super) struct Link {
    pub(super) index: u32,
    /// Maximum size of a packet, and how many packets wait for a reader.
    pub(super) sizes: Option<(u32, u32)>,
    /// Whether packets may arrive there that say to come from an address of this namespace.
    pub(super) accepts_local: bool,
    /// Whether packets from and to 127.0.0.0/8 may travel there.
    pub(super) routes_loopback: bool,
    /// Whether IPv6 gives itself no address there; told only where the kernel has IPv6.
    pub(super) plain_ipv6: bool,
}

/// Changes an interface.
pub(super) fn change_link(batch: &mut Batch, step: &'static str, link: &Link) {
    let header = link_header(link.index, 0);
    let mut attributes = Attributes::new();
    if let Some((mtu, queue)) = link.sizes {
        attributes.number(IFLA_MTU, mtu);
        attributes.number(IFLA_TXQLEN, queue);
    }
    attributes.nested(IFLA_AF_SPEC, |families| {
        families.nested(libc::AF_INET as u16, |inet| {
            inet.nested(IFLA_INET_CONF, |settings| {
                settings.number(IPV4_DEVCONF_RP_FILTER, 0);
                settings.number(IPV4_DEVCONF_ACCEPT_LOCAL, link.accepts_local.into());
                settings.number(IPV4_DEVCONF_ROUTE_LOCALNET, link.routes_loopback.into());
            });
        });
        if link.plain_ipv6 {
            families.nested(libc::AF_INET6 as u16, |inet6| {
                inet6.bytes(IFLA_INET6_ADDR_GEN_MODE, &[IN6_ADDR_GEN_MODE_NONE]);
            });
        }
    });
    batch.request(step, (libc::RTM_NEWLINK, 0), &header, &attributes);
}

/// Brings an interface up. What was changed before holds for its first packet.
pub(super) fn bring_up(batch: &mut Batch, step: &'static str, link: u32) {
    let header = link_header(link, libc::IFF_UP as u32);
    batch.request(step, (libc::RTM_NEWLINK, 0), &header, &Attributes::new());
}

/// `ifinfomsg`: family, padding, type, index, flags, and which of these to set.
fn link_header(index: u32, flags: u32) -> Vec<u8> {
    let flags = flags.to_ne_bytes();
    [&[0; 4][..], &index.to_ne_bytes(), &flags, &flags].concat()
}

/// Gives an interface an address, at once: nobody is asked whether it is taken.
pub(super) fn add_address(
    batch: &mut Batch,
    step: &'static str,
    link: u32,
    (address, prefix): (IpAddr, u8),
) {
    let global = libc::RT_SCOPE_UNIVERSE;
    let header = [family(address), prefix, IFA_F_NODAD, global];
    let header = [&header[..], &link.to_ne_bytes()].concat();
    let mut attributes = Attributes::new();
    attributes.bytes(IFA_LOCAL, &octets(address));
    attributes.bytes(IFA_ADDRESS, &octets(address));
    batch.request(step, (libc::RTM_NEWADDR, NEW), &header, &attributes);
}

/// Where a default route leads.
pub(super) enum Way {
    /// Out of this interface, to this router.
    Router(u32, IpAddr),
    /// Out of this interface.
    Link(u32),
    /// To this namespace itself.
    Here,
}

/// Adds the route of a table that takes every destination of the family of `any`.
pub(super) fn add_default(
    batch: &mut Batch,
    step: &'static str,
    (table, any): (u8, IpAddr),
    way: &Way,
) {
    let (kind, scope) = match way {
        Way::Router(..) => (libc::RTN_UNICAST, libc::RT_SCOPE_UNIVERSE),
        Way::Link(_) => (libc::RTN_UNICAST, libc::RT_SCOPE_LINK),
        Way::Here => (libc::RTN_LOCAL, libc::RT_SCOPE_HOST),
    };
    let header = route((any, 0), table, (scope, kind));
    let mut attributes = Attributes::new();
    match *way {
        Way::Router(link, router) => {
            attributes.bytes(RTA_GATEWAY, &octets(router));
            attributes.number(RTA_OIF, link);
        }
        Way::Link(link) => attributes.number(RTA_OIF, link),
        Way::Here => attributes.number(RTA_OIF, LOOPBACK),
    }
    batch.request(step, (libc::RTM_NEWROUTE, NEW), &header, &attributes);
}

/// Says that an address is one of this namespace.
pub(super) fn add_own(batch: &mut Batch, step: &'static str, address: Ipv6Addr) {
    let here = (libc::RT_SCOPE_HOST, libc::RTN_LOCAL);
    let header = route((address.into(), 128), LOCAL_TABLE, here);
    let mut attributes = Attributes::new();
    attributes.bytes(RTA_DST, &address.octets());
    attributes.number(RTA_OIF, LOOPBACK);
    batch.request(step, (libc::RTM_NEWROUTE, NEW), &header, &attributes);
}

/// `rtmsg`: family, lengths of two prefixes, service, table, protocol, scope, kind, flags.
fn route((destination, prefix): (IpAddr, u8), table: u8, (scope, kind): (u8, u8)) -> Vec<u8> {
    let protocol = libc::RTPROT_BOOT;
    let start = [family(destination), prefix, 0, 0];
    [start, [table, protocol, scope, kind], [0; 4]].concat()
}

/// Adds a rule: packets (with this mark) are routed by this table; lower priorities come first.
pub(super) fn add_rule(
    batch: &mut Batch,
    step: &'static str,
    (priority, any): (u32, IpAddr),
    (mark, table): (Option<u32>, u8),
) {
    let mut attributes = Attributes::new();
    attributes.number(FRA_PRIORITY, priority);
    if let Some(mark) = mark {
        attributes.number(FRA_FWMARK, mark);
    }
    let header = rule(any, table);
    batch.request(step, (libc::RTM_NEWRULE, NEW), &header, &attributes);
}

/// Removes the first rule that routes by this table.
pub(super) fn remove_rule(batch: &mut Batch, step: &'static str, any: IpAddr, table: u8) {
    let header = rule(any, table);
    batch.request(step, (libc::RTM_DELRULE, 0), &header, &Attributes::new());
}

/// `fib_rule_hdr`: family, lengths of two prefixes, service, table, two unused, action, flags.
fn rule(any: IpAddr, table: u8) -> Vec<u8> {
    let start = [family(any), 0, 0, 0];
    [start, [table, 0, 0, FR_ACT_TO_TBL], [0; 4]].concat()
}

fn family(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => libc::AF_INET as u8,
        IpAddr::V6(_) => libc::AF_INET6 as u8,
    }
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().into(),
        IpAddr::V6(address) => address.octets().into(),
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::super::netlink::messages;
    use super::*;

    const ANY: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

    /// What is said in one message: its kind and what follows its header.
    fn message(write: impl FnOnce(&mut Batch)) -> (u16, Vec<u8>) {
        let mut batch = Batch::new();
        write(&mut batch);
        let mut messages = messages(batch.as_bytes());
        let message = messages.next().expect("a message");
        assert!(messages.next().is_none());
        (message.kind, message.payload.to_vec())
    }

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let length = (4 + value.len()) as u16;
        let mut bytes = [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), value].concat();
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn number(kind: u16, value: u32) -> Vec<u8> {
        attribute(kind, &value.to_ne_bytes())
    }

    #[test]
    fn an_interface_is_changed_and_brought_up() {
        let link = Link {
            index: 2,
            sizes: Some((1500, 10)),
            accepts_local: true,
            routes_loopback: false,
            plain_ipv6: true,
        };
        let settings = [number(8, 0), number(23, 1), number(26, 0)].concat();
        let inet = attribute(2 | 0x8000, &attribute(1 | 0x8000, &settings));
        let inet6 = attribute(10 | 0x8000, &attribute(8, &[1]));
        let families = attribute(26 | 0x8000, &[inet, inet6].concat());
        let header = [[0; 4], 2_u32.to_ne_bytes(), [0; 4], [0; 4]].concat();
        let expected = [header, number(4, 1500), number(13, 10), families].concat();
        let changed = message(|batch| change_link(batch, "change", &link));
        assert_eq!(changed, (16, expected));
        let up = [
            [0; 4],
            2_u32.to_ne_bytes(),
            1_u32.to_ne_bytes(),
            1_u32.to_ne_bytes(),
        ];
        let brought_up = message(|batch| bring_up(batch, "bring up", 2));
        assert_eq!(brought_up, (16, up.concat()));
    }

    #[test]
    fn an_address_is_added() {
        let address = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);
        let octets = address.octets();
        let header = [&[10, 64, 2, 0][..], &2_u32.to_ne_bytes()].concat();
        let expected = [header, attribute(2, &octets), attribute(1, &octets)].concat();
        let added = message(|batch| add_address(batch, "add", 2, (address.into(), 64)));
        assert_eq!(added, (20, expected));
    }

    #[test]
    fn default_routes_lead_to_a_router_a_link_or_here() {
        let router = Ipv4Addr::new(10, 0, 2, 2);
        let header = |scope, kind| vec![2, 0, 0, 0, 77, 3, scope, kind, 0, 0, 0, 0];
        let to_router = [header(0, 1), attribute(5, &[10, 0, 2, 2]), number(4, 2)].concat();
        let to_link = [header(253, 1), number(4, 2)].concat();
        let here = [header(254, 2), number(4, 1)].concat();
        for (way, expected) in [
            (Way::Router(2, router.into()), to_router),
            (Way::Link(2), to_link),
            (Way::Here, here),
        ] {
            let added = message(|batch| add_default(batch, "add", (77, ANY), &way));
            assert_eq!(added, (24, expected));
        }
    }

    #[test]
    fn an_own_address_is_a_route() {
        let header = vec![10, 128, 0, 0, 255, 3, 254, 2, 0, 0, 0, 0];
        let octets = Ipv6Addr::LOCALHOST.octets();
        let expected = [header, attribute(1, &octets), number(4, 1)].concat();
        let added = message(|batch| add_own(batch, "add", Ipv6Addr::LOCALHOST));
        assert_eq!(added, (24, expected));
    }

    #[test]
    fn rules_are_added_and_removed() {
        let header = [2, 0, 0, 0, 77, 0, 0, 1, 0, 0, 0, 0];
        let expected = [&header[..], &number(6, 30), &number(10, 1)].concat();
        let added = message(|batch| add_rule(batch, "add", (30, ANY), (Some(1), 77)));
        assert_eq!(added, (32, expected));
        let removed = message(|batch| remove_rule(batch, "remove", ANY, 77));
        assert_eq!(removed, (33, header.to_vec()));
    }
}
