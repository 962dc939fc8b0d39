//! The outbox of a running domain.

use std::fs;
use std::io;
use std::sync::mpsc::channel;

use surmise_outbox::{
    Delivery, End, HeldState, HoldId, Limits, Outbox, OutboxError, Target, Told, load,
};
use surmise_testkit::Scratch;

use crate::{curl, directory, tcp, udp};

fn rest(outbox: &Outbox, hold: HoldId) -> Vec<u8> {
    let mut buffer = Vec::new();
    let pieces = outbox
        .pieces()
        .into_iter()
        .filter(|piece| piece.hold == hold);
    let bytes = pieces.flat_map(|piece| {
        outbox.read(&piece, &mut buffer).expect("read");
        buffer.clone()
    });
    bytes.collect()
}

#[test]
fn a_released_channel_holds_what_comes_later() {
    let scratch = Scratch::new();
    let directory = directory(&scratch);
    let outbox = Outbox::open(&directory).expect("open");
    let hold = outbox.hold(tcp(80), curl());
    outbox.append(hold, b"first request");
    assert_eq!(outbox.pending()[0].bytes, 13);
    outbox.mark_sending(&[hold]).expect("mark");
    assert_eq!(
        load(&directory).expect("load").channels[0].state,
        HeldState::Sending
    );
    assert!(outbox.pending().is_empty());
    // What comes while it is being released is not released with it.
    outbox.append(hold, b"second");
    outbox.mark_sent(hold, 13).expect("mark");
    outbox.append(hold, b" request");
    let pending = outbox.pending();
    assert_eq!((pending[0].sent, pending[0].bytes), (13, 14));
    assert_eq!(rest(&outbox, hold), b"second request");
    outbox.mark_sending(&[hold]).expect("mark");
    outbox.mark_sent(hold, 13 + 3).expect("a part has left");
    assert_eq!(rest(&outbox, hold), b"ond request");
    assert_eq!(outbox.pieces()[0].offset, 16);
    let channel = load(&directory).expect("load").channels.remove(0);
    assert_eq!((channel.sent, channel.bytes), (16, 11));
    assert_eq!(channel.first_line.as_deref(), Some("ond request"));
}

#[test]
fn a_domain_entered_again_goes_on_behind_what_it_held() {
    let scratch = Scratch::new();
    let directory = directory(&scratch);
    let outbox = Outbox::open(&directory).expect("open");
    let holds: Vec<_> = (0..4).map(|_| outbox.hold(tcp(80), None)).collect();
    for hold in &holds {
        outbox.append(*hold, b"early");
    }
    outbox.mark_sending(&holds[..2]).expect("mark");
    outbox.mark_sent(holds[0], 5).expect("mark");
    drop(outbox);

    let outbox = Outbox::open(&directory).expect("open");
    // The second was interrupted; the first is sent and stays so.
    let pending = |outbox: &Outbox| -> Vec<_> {
        outbox
            .pending()
            .iter()
            .map(|pending| pending.hold)
            .collect()
    };
    assert_eq!(pending(&outbox), holds[2..]);
    let next = outbox.hold(tcp(80), None);
    assert_eq!(next, HoldId(5));
    outbox.append(holds[0], b"late");
    assert_eq!(pending(&outbox), [holds[0], holds[2], holds[3], next]);
    assert_eq!(rest(&outbox, holds[0]), b"late");
}

#[test]
fn everything_queued_is_in_the_file_when_the_last_handle_is_gone() {
    let scratch = Scratch::new();
    let directory = directory(&scratch);
    let outbox = Outbox::open(&directory).expect("open");
    let hold = outbox.hold(Target::Output, None);
    let other = outbox.clone();
    // Far more than is written before the handles are gone.
    outbox.append(hold, &vec![b'x'; 32 << 20]);
    drop(outbox);
    other.append(hold, b"x");
    drop(other);
    // Reading takes long enough for a writer that was not waited for.
    let length = fs::metadata(directory.join("outbox"))
        .expect("the outbox")
        .len();
    assert!(length > 32 << 20, "{length} bytes");
    let held = load(&directory).expect("load");
    assert_eq!(held.channels[0].bytes, (32 << 20) + 1);
}

#[test]
fn what_was_interrupted_is_reported_and_never_sent() {
    let scratch = Scratch::new();
    let directory = directory(&scratch);
    let outbox = Outbox::open(&directory).expect("open");
    let hold = outbox.hold(Target::Output, None);
    outbox.append(hold, b"perhaps");
    outbox.mark_sending(&[hold]).expect("mark");
    outbox.append(hold, b" and more");
    drop(outbox);
    for _ in 0..2 {
        let delivery = Delivery::prepare(&directory, &mut |_| unreachable!()).expect("prepare");
        let mut show = |_: &Target, _: &[u8]| -> io::Result<()> { panic!("sent again") };
        let delivered = delivery.deliver(&mut show);
        assert_eq!(delivered.sent, []);
        let told = delivered.failed[0].to_string();
        assert!(told.contains("may have been sent in part"), "{told}");
        assert!(!delivered.failed[0].is_held);
    }
}

#[test]
fn a_delivery_takes_the_holds_that_are_picked() {
    let scratch = Scratch::new();
    let outbox = Outbox::open(&directory(&scratch)).expect("open");
    let holds: Vec<_> = (0..6).map(|_| outbox.hold(Target::Output, None)).collect();
    for hold in &holds {
        outbox.append(*hold, &[hold.0 as u8]);
    }
    let even = |hold: HoldId| hold.0.is_multiple_of(2);
    let delivery =
        Delivery::of(&outbox, &even, Limits::default(), &mut |_| unreachable!()).expect("prepare");
    let mut shown = Vec::<u8>::new();
    let delivered = delivery.deliver(&mut |_, bytes| {
        shown.extend(bytes);
        Ok(())
    });
    assert_eq!(shown, [2, 4, 6]);
    assert_eq!(delivered.sent.len(), 3);
    assert_eq!(outbox.pending().len(), 3);
}

#[test]
fn only_what_is_pending_can_be_marked() {
    let scratch = Scratch::new();
    let outbox = Outbox::open(&directory(&scratch)).expect("open");
    let hold = outbox.hold(udp(53), None);
    let refused = |result: Result<(), OutboxError>| {
        assert!(
            matches!(result, Err(OutboxError::NotPending(_))),
            "{result:?}"
        );
    };
    refused(outbox.mark_sent(hold, 0));
    refused(outbox.mark_sending(&[HoldId(7)]));
    outbox.mark_sending(&[hold]).expect("mark");
    refused(outbox.mark_sending(&[hold]));
    refused(outbox.drop_hold(hold));
    refused(outbox.mark_sent(hold, 1));
    outbox.mark_sent(hold, 0).expect("mark");
    refused(outbox.mark_sending(&[hold]));
    // An empty datagram is something to send.
    outbox.append(hold, b"");
    outbox.drop_hold(hold).expect("drop");
    outbox.append(hold, b"x");
    outbox.finish(hold, End::Closed);
    refused(outbox.mark_sending(&[hold]));
    outbox.flush().expect("late appends are no failure");
    assert!(outbox.pending().is_empty());
}

#[test]
fn what_an_earlier_opening_left_waits_in_the_order_of_what_leaves_first() {
    let scratch = Scratch::new();
    let directory = directory(&scratch);
    let outbox = Outbox::open(&directory).expect("open");
    let holds: Vec<_> = (0..4).map(|port| outbox.hold(tcp(port), None)).collect();
    for index in [2, 0, 2, 3] {
        outbox.append(holds[index], b"later");
    }
    outbox.drop_hold(holds[3]).expect("nothing is sent");
    drop(outbox);
    let (tell, told) = channel();
    let outbox = Outbox::open_told(&directory, move |what| tell.send(what).expect("heard"));
    let outbox = outbox.expect("open again");
    outbox.flush().expect("kept");
    let expected = [1, 2, 0].map(|index| Told::Waits(holds[index]));
    assert_eq!(told.try_iter().collect::<Vec<_>>(), expected);
    // Of what was agreed to nothing could leave.
    outbox.agree(&holds);
    outbox.append(holds[0], b"more");
    outbox.keep(&holds);
    outbox.allow(&[holds[0]]);
    let expected = [
        Told::Waits(holds[0]),
        Told::Waits(holds[1]),
        Told::Waits(holds[2]),
        Told::Gone(holds[0]),
    ];
    assert_eq!(told.try_iter().collect::<Vec<_>>(), expected);
    drop(outbox);
}
