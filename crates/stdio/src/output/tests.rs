//! What reaches the caller, and what stays when the caller is gone.

use std::sync::mpsc;

use super::*;

#[test]
fn long_output_is_cut_at_the_end_of_a_line() {
    assert_eq!(whole_lines(b"no end", PIPE_BUF), 6);
    let mut bytes = vec![b'x'; PIPE_BUF + 10];
    assert_eq!(whole_lines(&bytes, PIPE_BUF), PIPE_BUF);
    bytes[100] = b'\n';
    assert_eq!(whole_lines(&bytes, PIPE_BUF), 101);
}

/// Tells of each time that the rest is kept.
struct Keeps(mpsc::Sender<usize>);

impl Sink for Keeps {
    fn write(&mut self, _: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn release(&mut self) -> io::Result<()> {
        unreachable!("nothing is shown to a caller that is gone")
    }

    fn next(&mut self, _: &mut Vec<u8>) -> io::Result<bool> {
        unreachable!("nothing is shown to a caller that is gone")
    }

    fn keep_rest(&mut self, seen: usize) {
        self.0.send(seen).expect("the test hears");
    }
}

#[test]
fn what_is_released_to_a_caller_that_is_gone_is_kept() {
    let (kept, keeps) = mpsc::channel();
    let (orders, mailbox_of_pump) = mailbox().expect("a mailbox");
    let (events, _events) = mailbox().expect("a mailbox");
    let mut pump = Pump {
        inner: None,
        socket: false,
        caller: None,
        sink: Some(Box::new(Keeps(kept))),
        release: Release::new(None),
        orders: mailbox_of_pump,
        // The caller goes while an order to release waits for its turn.
        queue: [Queued::Release].into(),
        pending: Pending::default(),
        showing: Showing::Note,
        finishing: false,
    };
    pump.let_go();
    assert_eq!(keeps.try_iter().count(), 1);
    // The next such order comes when the caller is gone.
    orders.send(Order::Release);
    pump.obey(&mut [0], &events);
    pump.next_for_caller(&events);
    assert_eq!(keeps.try_iter().collect::<Vec<_>>(), [0]);
}
