//! The example of docs/api.md does what it says, as it stands there.

use surmise_testkit::{Run, Scratch};

use crate::server::Server;

#[test]
fn the_example_in_the_documentation_runs() {
    let text = include_str!("../../../../docs/api.md");
    let (_, example) = text.split_once("```python\n").expect("an example");
    let (example, _) = example.split_once("```").expect("its end");
    let scratch = Scratch::new();
    scratch.file("old", "x");
    let server = Server::start(&scratch);
    let socket = server.socket.as_os_str();
    let words = ["python3".as_ref(), "-c".as_ref(), example.as_ref(), socket];
    let outcome = Run::plain(&scratch, words).seconds(60).outcome();
    outcome
        .assert_success()
        .assert_stdout_contains("the command says: working\n")
        .assert_stdout_contains("exit status 0 in domain sh-1\n")
        .assert_stdout_contains(&format!("A {}\n", scratch.path("greeting").display()))
        .assert_stdout_contains(&format!("D {}\n", scratch.path("old").display()))
        .assert_stdout_contains("committed: hello\n");
    assert!(!scratch.path("old").exists());
    assert!(!scratch.state().join("surmise").exists(), "nothing is left");
}

#[test]
fn each_method_and_each_code_is_documented() {
    let text = include_str!("../../../../docs/api.md");
    for method in surmise_api::protocol::Call::METHODS {
        assert!(text.contains(&format!("| `{method}` |")), "{method}");
    }
    // The codes as they stand in the source, so that a new one is not forgotten.
    let error = include_str!("../../../api/src/error.rs");
    let (explained, _) = error
        .split_once("fn conflict_code")
        .expect("the last of them");
    for line in explained.lines() {
        let Some((_, code)) = line.split_once("=> \"") else {
            continue;
        };
        let code = code.split('"').next().expect("a code");
        if !code.contains(' ') {
            assert!(text.contains(&format!("`{code}`")), "{code}");
        }
    }
}
