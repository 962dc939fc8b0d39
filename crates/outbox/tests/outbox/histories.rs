//! Random histories, against a model that keeps plain lists.

use std::net::{Ipv4Addr, UdpSocket};

use proptest::prelude::*;
use surmise_outbox::{Delivery, End, Outbox, Target};
use surmise_testkit::{Scratch, watchdog};

use crate::model::{Both, act};
use crate::server::{Ended, Manner, Server};
use crate::{directory, tcp, udp};

/// As many cases as are asked for, or a share of them: each of these takes long.
fn config(in_256: u32) -> ProptestConfig {
    let mut config = ProptestConfig::default();
    config.cases = (config.cases * in_256).div_ceil(256);
    config.failure_persistence = None;
    config
}

proptest! {
    #![proptest_config(config(96))]

    #[test]
    fn the_outbox_is_what_a_plain_list_says(acts in proptest::collection::vec(act(), 1..60)) {
        let scratch = Scratch::new();
        let directory = directory(&scratch);
        let mut both = Both::new(&directory);
        for (place, act) in acts.into_iter().enumerate() {
            both.act(act);
            if place % 8 == 0 {
                both.check();
            }
        }
        both.check();
    }
}

proptest! {
    #![proptest_config(config(12))]

    #[test]
    fn what_arrives_is_what_was_appended(
        kinds in proptest::collection::vec(0..4u8, 1..10),
        appends in proptest::collection::vec((0..10usize, 0..3_000usize), 0..60),
        resets in proptest::collection::vec(any::<bool>(), 10),
    ) {
        let scratch = Scratch::new();
        let directory = directory(&scratch);
        let server = Server::start(Manner::Answer);
        let receiver = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("bind");
        receiver.set_read_timeout(Some(watchdog::LIMIT)).expect("set a limit");
        let datagrams = receiver.local_addr().expect("an address").port();
        let outbox = Outbox::open(&directory).expect("open");
        let targets: Vec<_> = kinds.iter().map(|kind| match kind {
            0 | 1 => tcp(server.port),
            2 => udp(datagrams),
            _ => Target::Output,
        }).collect();
        let holds: Vec<_> = targets.iter().map(|target| outbox.hold(target.clone(), None)).collect();
        // Nothing but what a piece says tells where it came from.
        let mut arriving = vec![Vec::new(); holds.len()];
        let (mut shown_wanted, mut datagrams_wanted) = (Vec::new(), Vec::new());
        for (place, (index, length)) in appends.into_iter().enumerate() {
            let index = index % holds.len();
            let bytes = [vec![index as u8, place as u8], vec![place as u8; length]].concat();
            outbox.append(holds[index], &bytes);
            match targets[index] {
                Target::Udp(..) => datagrams_wanted.push(bytes),
                Target::Output => shown_wanted.push(bytes),
                _ => arriving[index].extend(bytes),
            }
        }
        for (hold, is_reset) in holds.iter().zip(&resets) {
            outbox.finish(*hold, if *is_reset { End::Reset } else { End::Closed });
        }
        drop(outbox);
        let mut shown = Vec::new();
        let delivery = Delivery::prepare(&directory, &mut |_| unreachable!()).expect("reached");
        let delivered = delivery.deliver(&mut |_, bytes| {
            shown.push(bytes.to_vec());
            Ok(())
        });
        prop_assert!(delivered.failed.is_empty(), "{:?}", delivered.failed);
        prop_assert!(shown == shown_wanted);
        let mut buffer = vec![0; 1 << 16];
        for wanted in datagrams_wanted {
            let length = receiver.recv(&mut buffer).expect("a datagram");
            prop_assert!(buffer[..length] == *wanted);
        }
        let mut wanted: Vec<_> = (0..holds.len())
            .filter(|index| matches!(targets[*index], Target::Tcp(..)))
            .map(|index| (arriving[index].clone(), if resets[index] { Ended::Reset } else { Ended::Closed }))
            .collect();
        watchdog::until("all connections end", watchdog::LIMIT, || {
            server.seen().len() == wanted.len() && server.is_quiet()
        });
        let mut seen: Vec<_> = server.seen().into_iter()
            .map(|seen| (seen.bytes, seen.end.expect("quiet")))
            .collect();
        wanted.sort();
        seen.sort();
        prop_assert!(seen == wanted);
        let again = Delivery::prepare(&directory, &mut |_| unreachable!()).expect("nothing to reach");
        prop_assert!(again.is_empty());
    }
}
