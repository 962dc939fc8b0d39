//! What holds of any bytes that a client sends. Ordinary tests ask it of mutated requests, and a target in `fuzz/`
//! of what libFuzzer finds.

use crate::protocol::{
    Answered, Call, Commit, Decide, Diff, Hello, Id, Incoming, Input, Named, Problem, Rejected,
    Run, SyncParams, decode, encode_request,
};
use crate::text::Text;

/// Lines of a client: what is taken is encoded as a line that means the same, and what is not is answered by a line
/// that a client understands. Whether each was taken.
///
/// # Panics
/// When that does not hold.
pub fn requests(bytes: &[u8]) -> bool {
    let mut all_taken = true;
    for line in bytes.split(|&byte| byte == b'\n') {
        match decode(line) {
            Ok(request) => {
                let again = encode_request(&request);
                let (end, again) = again.as_bytes().split_last().expect("a line");
                assert_eq!(*end, b'\n');
                assert!(!again.contains(&b'\n'));
                assert_eq!(decode(again).as_ref(), Ok(&request));
            }
            Err(rejected) => {
                all_taken = false;
                answered(&rejected);
            }
        }
    }
    all_taken
}

fn answered(rejected: &Rejected) {
    use crate::protocol::Outgoing;

    let line = rejected.encode();
    assert_eq!(line.matches('\n').count(), 1);
    let Ok(Outgoing::Failed { id, code, .. }) = Outgoing::decode(line.as_bytes()) else {
        panic!("{line}");
    };
    assert_eq!(id, rejected.id);
    assert_eq!(code, rejected.problem.code());
    assert_ne!(rejected.problem, Problem::Failed);
}

/// Requests as clients send them.
pub fn seeds() -> Vec<Vec<u8>> {
    let named = || Named { name: "t".into() };
    let run = Run {
        command: vec!["sh".into(), Text(vec![0xff])],
        directory: "/".into(),
        environment: [("A".into(), Some("b".into())), ("C".into(), None)].into(),
        boundary: Some(Default::default()),
        sync: Some(SyncParams {
            on: Some("/".into()),
            promise: Default::default(),
            interval_ms: 5000,
            eager: true,
        }),
        ..Run::default()
    };
    let answered = Answered {
        request: Id::Text("a".into()),
        question: u64::MAX,
        answer: surmise_kept::Answer::Hold,
    };
    let decide = Decide {
        name: "t".into(),
        answer: surmise_kept::Answer::Allow,
    };
    let input = Input {
        request: Id::Number(-1),
        data: Text(b"\0\n".to_vec()),
        end: true,
    };
    let diff = Diff {
        name: "t".into(),
        paths: vec!["/a".into()],
        patch_base: Some("/".into()),
    };
    let calls = [
        Call::Hello(Hello { versions: vec![1] }),
        Call::List,
        Call::Status(named()),
        Call::Run(Box::new(run.clone())),
        Call::Shell(Box::new(run)),
        Call::Diff(diff),
        Call::Commit(Commit::default()),
        Call::Decide(decide),
        Call::Answer(answered),
        Call::Input(input),
    ];
    let mut lines: Vec<_> = calls
        .into_iter()
        .enumerate()
        .map(|(number, call)| {
            let id = Id::Number(number as i64);
            encode_request(&Incoming { id, call }).trim_end().into()
        })
        .collect();
    lines.push(lines.join(&b'\n'));
    lines
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use surmise_testkit::mutations;

    use super::*;

    #[test]
    fn requests_of_clients_are_taken() {
        for seed in seeds() {
            assert!(requests(&seed), "{}", String::from_utf8_lossy(&seed));
        }
    }

    proptest! {
        #[test]
        fn any_lines_are_taken_or_answered(bytes in mutations(seeds())) {
            requests(&bytes);
        }
    }
}
