//! Reading what our client prints for programs.

use serde_json::Value;

use crate::run::Run;

/// Every line of standard output as a JSON object.
///
/// # Panics
/// When a line is something else.
#[track_caller]
#[must_use]
pub fn json_lines(run: &Run) -> Vec<Value> {
    run.text()
        .lines()
        .map(|line| {
            let value: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}\n{}", run.said()));
            assert!(value.is_object(), "not an object: {line}");
            value
        })
        .collect()
}

/// The last object on standard output.
///
/// # Panics
/// When there is none.
#[track_caller]
#[must_use]
pub fn last_json(run: &Run) -> Value {
    json_lines(run)
        .pop()
        .unwrap_or_else(|| panic!("no output\n{}", run.said()))
}
