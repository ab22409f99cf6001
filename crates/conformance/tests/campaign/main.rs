//! The fault campaign: copies of every kind between two servers, a fault at a random moment of
//! each, and a look at what is stored afterwards. Whatever happens, a file under its final name is
//! whole, an upload that was acknowledged is there, and nothing unfinished stays behind a restart.
//!
//! `FAULT_SECONDS` (default 3) is how long it goes on, `FAULT_SEED` what chance begins with: the
//! same seed gives the same operations with the same faults, though not to the microsecond. `./dev
//! faults SECONDS` runs it.
#![allow(clippy::print_stdout, reason = "a campaign tells its seed, and what it did")]

mod dice;
mod fault;
mod ground;
mod ledger;
mod operation;

use std::env;
use std::time::{Duration, Instant};

use testkit::{available, require};

use dice::Dice;
use fault::Fault;
use ground::Ground;
use ledger::Ledger;
use operation::Operation;

const SECONDS_DEFAULT: u64 = 3;
/// Rounds between two looks at every file.
const ROUNDS_TO_AUDIT: u64 = 16;

fn number(name: &str) -> Option<u64> {
    env::var(name).ok()?.trim().parse().ok()
}

#[test]
fn no_fault_loses_a_file() {
    let test = "no_fault_loses_a_file";
    let ground = ["curl", "xrdcp"]
        .iter()
        .try_for_each(|program| require(program).map(drop));
    let Some(mut ground) = available(test, ground.and_then(|()| Ground::new())) else {
        return;
    };
    let limit = Duration::from_secs(number("FAULT_SECONDS").unwrap_or(SECONDS_DEFAULT));
    let now = std::time::UNIX_EPOCH.elapsed().map_or(1, |since| since.as_secs());
    let seed = number("FAULT_SEED").unwrap_or(now);
    println!("fault campaign: FAULT_SEED={seed}, {} s", limit.as_secs());
    let mut dice = Dice::new(seed);
    let mut ledger = Ledger::default();
    let (begin, mut rounds) = (Instant::now(), 0_u64);
    while begin.elapsed() < limit || rounds == 0 {
        rounds += 1;
        let fault = Fault::draw(&mut dice);
        let operation = Operation::draw(&mut dice, fault);
        let start = Instant::now();
        let outcome = ground.play(&mut dice, &operation, fault, &mut ledger);
        if env::var_os("FAULT_VERBOSE").is_some() {
            println!(
                "{:6} ms  {outcome:?}: {}",
                start.elapsed().as_millis(),
                operation.words(fault)
            );
        }
        ledger.count(fault, outcome);
        if rounds.is_multiple_of(ROUNDS_TO_AUDIT) {
            ground.audit(&mut ledger);
        }
    }
    ground.begin_again(&mut ledger);
    ground.audit(&mut ledger);
    println!("{rounds} rounds in {} s\n{}", begin.elapsed().as_secs(), ledger.table());
    assert!(
        ledger.violations().is_empty(),
        "FAULT_SEED={seed}: {}\n{}",
        ledger.violations().len(),
        ledger.violations().join("\n")
    );
}
