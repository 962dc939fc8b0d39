//! What is sent of a hold that was not sent as a whole, as somebody asks for it.

use std::io;

use surmise_outbox::{HeldState, Outbox, Resend, Target, load};
use surmise_testkit::Scratch;

use crate::{directory, tcp, udp};

/// An outbox with one hold of these pieces, of which so many bytes had left when the sending failed.
fn failed(scratch: &Scratch, target: Target, pieces: &[&[u8]], sent: u64) -> Outbox {
    let outbox = Outbox::open(&directory(scratch)).expect("open");
    let hold = outbox.hold(target, None);
    for piece in pieces {
        outbox.append(hold, piece);
    }
    outbox.flush().expect("flush");
    outbox.mark_sending(&[hold]).expect("mark");
    let reset = io::Error::from_raw_os_error(104);
    outbox.mark_failed(hold, sent, &reset).expect("mark");
    outbox
}

/// The pieces that would be sent now.
fn pending(outbox: &Outbox) -> Vec<Vec<u8>> {
    let mut buffer = Vec::new();
    let pieces = outbox.pieces().into_iter();
    let read = pieces.map(|piece| {
        outbox.read(&piece, &mut buffer).expect("read");
        buffer.clone()
    });
    read.collect()
}

#[test]
fn an_empty_datagram_that_has_left_is_not_sent_with_the_rest() {
    let scratch = Scratch::new();
    let datagrams: [&[u8]; 5] = [b"one", b"", b"two", b"", b"three"];
    let outbox = failed(&scratch, udp(7), &datagrams, 6);
    assert_eq!(outbox.send_again(Resend::Rest).expect("again"), 1);
    // Of the one after the last byte that is known to have left nobody knows.
    assert_eq!(pending(&outbox), [&b""[..], b"three"]);
    drop(outbox);
    let outbox = Outbox::open(&directory(&scratch)).expect("open");
    assert_eq!(pending(&outbox), [&b""[..], b"three"]);
}

#[test]
fn until_something_is_sent_the_last_answer_counts() {
    let scratch = Scratch::new();
    let outbox = failed(&scratch, tcp(80), &[b"abc", b"def"], 4);
    for _ in 0..2 {
        assert_eq!(outbox.send_again(Resend::Rest).expect("again"), 1);
        assert_eq!(pending(&outbox), [b"ef"]);
        assert_eq!(outbox.send_again(Resend::Whole).expect("again"), 1);
        assert_eq!(pending(&outbox), [b"abc", b"def"]);
    }
    let hold = outbox.pending()[0].hold;
    outbox.mark_sending(&[hold]).expect("mark");
    outbox.mark_sent(hold, 6).expect("mark");
    assert_eq!(outbox.send_again(Resend::Whole).expect("none"), 0);
    let held = load(&directory(&scratch)).expect("load");
    assert_eq!(held.channels[0].state, HeldState::Sent);
}

#[test]
fn what_failed_tells_the_line_that_has_not_left() {
    let scratch = Scratch::new();
    drop(failed(&scratch, tcp(80), &[b"first\nsecond\n"], 6));
    let held = load(&directory(&scratch)).expect("load");
    assert_eq!(held.channels[0].first_line.as_deref(), Some("second"));
}
