//! Runs the target that `FUZZ_TARGET` names under libFuzzer.
#![no_main]

use fuzz_targets::Target;
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

static CHOSEN: LazyLock<&Target> = LazyLock::new(|| {
    let name = std::env::var("FUZZ_TARGET").expect("FUZZ_TARGET names the target");
    fuzz_targets::target(&name).unwrap_or_else(|| panic!("no fuzz target is called {name}"))
});

fuzz_target!(|data: &[u8]| (CHOSEN.run)(data));
