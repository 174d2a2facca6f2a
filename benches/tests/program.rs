//! The bench program as `sojourn bench` starts it. Cargo builds it for this test, and the Python tests use it too.

use std::process::{Command, Output};

fn bench(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sojourn-bench")).args(arguments).output().expect("the program starts")
}

#[test]
fn an_answer_is_json_on_stdout_alone() {
    let said = bench(&["replay", "codel limit 100", "--repeat", "1"]);
    assert!(said.status.success(), "{said:?}");
    assert!(said.stderr.is_empty(), "{said:?}");
    let answer: serde_json::Value = serde_json::from_slice(&said.stdout).expect("JSON");
    assert!(answer.is_object(), "{answer}");
}

#[test]
fn a_wrong_command_line_is_exit_code_2_and_its_reason_on_stderr_alone() {
    for wrong in [&["P9"][..], &["P1", "--repeat", "0"], &["replay", "coddle"], &["P1", "--flows", "7"], &[]] {
        let said = bench(wrong);
        assert_eq!(said.status.code(), Some(2), "{wrong:?}: {said:?}");
        assert!(said.stdout.is_empty(), "{wrong:?}: {said:?}");
        assert!(!said.stderr.is_empty(), "{wrong:?}");
    }
}
